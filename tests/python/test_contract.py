"""The names, signatures and numbers that engines were written against."""

import inspect
import os
import subprocess
import sys
import unittest
from unittest import mock

from rig import PoolTest

import mooncake.store as package
from mooncake.store import MooncakeDistributedStore

# Methods with the names of their arguments, as engines pass them by keyword.
METHODS = {
    "setup": "local_hostname metadata_server global_segment_size local_buffer_size protocol "
             "rdma_devices master_server_addr engine enable_ssd_offload ssd_offload_path tenant_id "
             "enable_client_http_server client_http_port",
    "setup_dummy": "mem_pool_size local_buffer_size server_address",
    "alloc_from_mem_pool": "size",
    "init_all": "protocol device_name mount_segment_size", "close": "", "health_check": "",
    "get_hostname": "",
    "put": "key value config", "put_parts": "key config", "put_batch": "keys values config",
    "get": "key", "get_batch": "keys", "get_buffer": "key", "batch_get_buffer": "keys",
    "get_size": "key", "is_exist": "key", "batch_is_exist": "keys", "remove": "key force",
    "remove_by_regex": "regex_pattern force", "remove_all": "force", "batch_remove": "keys force",
    "upsert": "key value config", "upsert_parts": "key config",
    "upsert_batch": "keys values config",
    "register_buffer": "buffer_ptr size", "unregister_buffer": "buffer_ptr",
    "put_from": "key buffer_ptr size config", "upsert_from": "key buffer_ptr size config",
    "batch_put_from": "keys buffer_ptrs sizes config",
    "batch_upsert_from": "keys buffer_ptrs sizes config",
    "put_from_with_metadata": "key buffer_ptr metadata_buffer_ptr size metadata_size config",
    "get_into": "key buffer_ptr size", "batch_get_into": "keys buffer_ptrs sizes",
    "get_into_ranges": "buffer_ptrs all_keys all_dst_offsets all_src_offsets all_sizes",
    "batch_put_from_multi_buffers": "keys all_buffer_ptrs all_sizes config",
    "batch_get_into_multi_buffers": "keys all_buffer_ptrs all_sizes prefer_alloc_in_same_node",
    "batch_put_session_start": "keys sizes config",
    "batch_put_from_multi_buffer_ranges": "keys all_buffer_ptrs all_sizes all_dst_offsets",
    "batch_put_session_end": "keys", "batch_put_session_revoke": "keys",
    "batch_get_session_start": "keys",
    "batch_get_into_multi_buffer_ranges": "keys all_buffer_ptrs all_sizes all_src_offsets",
    "batch_get_session_end": "keys", "get_offload_rpc_read_count": "",
    "mount_segment": "path size offset protocol location",
    "unmount_segment": "segment_ids grace_period_seconds",
    "allocate_and_mount_segment": "size protocol location",
    "unmount_and_free_segment": "segment_ids grace_period_seconds",
    "unmount_local_disk_segment": "grace_period_seconds",
    "get_replica_desc": "key", "batch_get_replica_desc": "keys",
    "batch_replica_clear": "keys segment_name",
    "get_tensor": "key", "put_tensor": "key tensor", "batch_get_tensor": "keys",
    "batch_put_tensor": "keys tensors_list", "upsert_tensor": "key tensor",
    "batch_upsert_tensor": "keys tensors_list", "pub_tensor": "key tensor config",
    "batch_pub_tensor": "keys tensors_list config", "upsert_pub_tensor": "key tensor config",
    "batch_upsert_pub_tensor": "keys tensors_list config",
    "put_tensor_from": "key buffer_ptr size", "batch_put_tensor_from": "keys buffer_ptrs sizes",
    "upsert_tensor_from": "key buffer_ptr size",
    "batch_upsert_tensor_from": "keys buffer_ptrs sizes",
    "get_tensor_into": "key buffer_ptr size", "batch_get_tensor_into": "keys buffer_ptrs sizes",
    "get_tensor_into_cuda": "key tensor", "batch_get_tensor_into_cuda": "keys tensors",
    "get_tensor_with_tp": "key tp_rank tp_size split_dim",
    "batch_get_tensor_with_tp": "base_keys tp_rank tp_size",
    "put_tensor_with_tp": "key tensor tp_rank tp_size split_dim",
    "batch_put_tensor_with_tp": "base_keys tensors_list tp_rank tp_size split_dim",
    "pub_tensor_with_tp": "key tensor config tp_rank tp_size split_dim",
    "batch_pub_tensor_with_tp": "base_keys tensors_list config tp_rank tp_size split_dim",
    "get_tensor_with_tp_into": "key buffer_ptr size tp_rank tp_size split_dim",
    "batch_get_tensor_with_tp_into": "base_keys buffer_ptrs sizes tp_rank tp_size",
    "put_tensor_with_tp_from": "key buffer_ptr size tp_rank tp_size split_dim",
    "batch_put_tensor_with_tp_from": "base_keys buffer_ptrs sizes tp_rank tp_size split_dim",
    "get_tensor_with_parallelism": "key target",
    "batch_get_tensor_with_parallelism": "keys targets",
    "get_tensor_with_parallelism_into": "key buffer_ptr size target",
    "batch_get_tensor_with_parallelism_into": "keys buffer_ptrs sizes targets",
    "put_tensor_with_parallelism": "key tensor parallelism config writer_partition",
    "batch_put_tensor_with_parallelism":
        "keys tensors_list parallelisms config writer_partitions",
    "put_tensor_with_parallelism_from":
        "key buffer_ptr size parallelism config writer_partition",
    "batch_put_tensor_with_parallelism_from":
        "keys buffer_ptrs sizes parallelisms config writer_partitions",
    "upsert_tensor_with_parallelism": "key tensor parallelism config writer_partition",
    "batch_upsert_tensor_with_parallelism":
        "keys tensors_list parallelisms config writer_partitions",
    "upsert_tensor_with_parallelism_from":
        "key buffer_ptr size parallelism config writer_partition",
    "save_tensor_to_safetensor": "key file_name", "load_tensor_from_safetensor": "key file_name",
}

NAMES = ("MooncakeDistributedStore", "ReplicateConfig", "ObjectDataType", "SoftPinAction",
         "ReplicaStatus", "TaskType", "TaskStatus", "ReplicaDescriptor", "MemoryDescriptor",
         "DiskDescriptor", "Descriptor", "BufferHandle", "MooncakeHostMemAllocator",
         "ParallelAxis", "TensorParallelism", "ReadTarget", "bind_to_numa_node",
         "_serialize_tensor", "_deserialize_tensor", "_tensor_metadata_size")

# Of the contract, and not there yet. Whoever adds one moves it to the lists above.
LATER_METHODS = ("create_copy_task", "create_move_task", "query_task")
LATER_NAMES = ("QueryTaskResponse", "BufferPool", "EngramStore", "EngramStoreConfig",
               "MooncakeDistributedNoFRegister", "get_alloc_func_addr", "get_free_func_addr",
               "_get_pyclient_from_wrapper")

ENUMS = {
    "SoftPinAction": "PRESERVE ENABLE DISABLE",
    "ObjectDataType": "UNKNOWN KVCACHE TENSOR WEIGHT SAMPLE ACTIVATION GRADIENT OPTIMIZER_STATE "
                      "METADATA GENERAL",
    "ReplicaStatus": "UNDEFINED INITIALIZED PROCESSING COMPLETE REMOVED FAILED",
    "TaskType": "REPLICA_COPY REPLICA_MOVE",
    "TaskStatus": "PENDING PROCESSING SUCCESS FAILED",
}


class Contract(unittest.TestCase):
    """What there is, and what it is called."""

    def test_every_method_is_there_with_its_argument_names(self):
        for name, arguments in METHODS.items():
            signature = inspect.signature(getattr(MooncakeDistributedStore, name))
            given = [parameter.name for parameter in signature.parameters.values()
                     if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD,
                                           parameter.POSITIONAL_ONLY) or
                     parameter.name == "config"]
            wanted = arguments.split()
            self.assertEqual(given[1:len(wanted) + 1], wanted, name)

    def test_every_name_is_there(self):
        for name in NAMES:
            self.assertTrue(hasattr(package, name), name)

    def test_what_is_not_there_yet_is_known(self):
        self.assertEqual([name for name in LATER_METHODS
                          if hasattr(MooncakeDistributedStore, name)], [])
        self.assertEqual([name for name in LATER_NAMES if hasattr(package, name)], [])

    def test_every_method_of_the_class_is_in_the_contract(self):
        public = {name for name in dir(MooncakeDistributedStore) if not name.startswith("_")}
        self.assertEqual(public, set(METHODS))

    def test_enums_have_their_numbers(self):
        for name, members in ENUMS.items():
            self.assertEqual({member.name: int(member) for member in getattr(package, name)},
                             {member: i for i, member in enumerate(members.split())})

    def test_a_config_has_its_defaults(self):
        config = package.ReplicateConfig()
        self.assertEqual(
            {name: getattr(config, name) for name in (
                "replica_num", "nof_replica_num", "dfs_replica_num", "soft_pin_action",
                "soft_pin_ttl_ms", "with_hard_pin", "preferred_segments", "preferred_nof_segments",
                "preferred_segment", "prefer_alloc_in_same_node", "data_type", "group_ids")},
            {"replica_num": 1, "nof_replica_num": 0, "dfs_replica_num": 0,
             "soft_pin_action": package.SoftPinAction.PRESERVE, "soft_pin_ttl_ms": None,
             "with_hard_pin": False, "preferred_segments": [], "preferred_nof_segments": [],
             "preferred_segment": "", "prefer_alloc_in_same_node": False,
             "data_type": package.ObjectDataType.UNKNOWN, "group_ids": None})
        self.assertFalse(hasattr(config, "with_soft_pin"))
        self.assertIn("replica_num", str(config))
        for wrong in (-1, 1 << 64):
            with self.assertRaises(TypeError):
                config.soft_pin_ttl_ms = wrong

    def test_setup_shows_its_ssd_argument(self):
        self.assertIn("enable_ssd_offload", inspect.signature(MooncakeDistributedStore().setup)
                      .parameters)


DEVICES = "/sys/class/infiniband"

SETUPS = """
import sys
from mooncake.store import MooncakeDistributedStore
for protocol in sys.argv[2:]:
    store = MooncakeDistributedStore()
    print(store.setup("localhost", "", 1 << 20, 0, protocol, "mlx5_0", sys.argv[1]),
          store.put("k", b"v"), store.close())
"""


@unittest.skipIf(os.path.isdir(DEVICES) and os.listdir(DEVICES),
                 "there are RDMA devices here; tests/rdma tries them")
class Protocols(PoolTest):
    """What setup() makes of a protocol that is not there."""

    def test_rdma_falls_back_unless_that_is_forbidden(self):
        store = MooncakeDistributedStore()
        args = ("localhost", "", 0, 0, "rdma", "mlx5_0", self.pool.address)
        for word in ("1", "true", "ON"):
            with mock.patch.dict(os.environ, MOONCAKE_FORBID_FALLBACK=word):
                self.assertEqual(store.setup(*args), -1012)
        self.assertEqual(store.put("k", b"v"), -600)
        with mock.patch.dict(os.environ, MOONCAKE_FORBID_FALLBACK="0"):
            self.assertEqual(store.setup(*args), 0)
        self.assertEqual(store.put("k", b"v"), 0)
        self.assertEqual(store.get("k"), b"v")
        store.close()

    def set_up(self, *protocols, **environment):
        """Codes of setup, put and close, and what is said on stderr."""
        done = subprocess.run([sys.executable, "-B", "-c", SETUPS, self.pool.address, *protocols],
                              env=dict(os.environ, **environment), capture_output=True, text=True,
                              timeout=60, check=True)
        said = [line for line in done.stderr.splitlines() if line.startswith("mooncake: ")]
        return done.stdout.splitlines(), said

    def test_the_fallback_is_said_once_and_why(self):
        codes, said = self.set_up("rdma", "rdma", "tcp")
        self.assertEqual(codes, ["0 0 0"] * 3)
        self.assertEqual(len(said), 1, said)
        for word in ("rdma", "TCP", "MOONCAKE_FORBID_FALLBACK", "no RDMA device"):
            self.assertIn(word, said[0])

    def test_the_refusal_says_why(self):
        codes, said = self.set_up("rdma", "tcp", MOONCAKE_FORBID_FALLBACK="1")
        self.assertEqual(codes, ["-1012 -600 0", "0 0 0"])
        self.assertEqual(len(said), 1, said)
        self.assertIn("no RDMA device", said[0])

    def test_tcp_says_nothing_and_ignores_devices(self):
        for environment in ({}, {"MOONCAKE_RDMA_DEVICES": "mlx5_7"}):
            self.assertEqual(self.set_up("tcp", **environment), (["0 0 0"], []))

    def test_no_master_is_no_reason_to_fall_back(self):
        store = MooncakeDistributedStore()
        self.assertEqual(store.setup("localhost", "", 0, 0, "rdma", "", "127.0.0.1:1"), -900)


if __name__ == "__main__":
    unittest.main(verbosity=1)

"""Tensors as values. What needs torch or numpy is skipped, and says so, where they are missing."""

import ctypes
import importlib.util
import os
import struct
import subprocess
import sys
import tempfile
import unittest

from rig import Memory, PoolTest

from mooncake import store as package
from mooncake.store import MooncakeDistributedStore, ReplicateConfig
from mooncake.tensor_format import Layout, parse

INVALID = -600
HEADER = 304
HAS_TORCH = importlib.util.find_spec("torch") is not None
HAS_NUMPY = importlib.util.find_spec("numpy") is not None
needs_torch = unittest.skipUnless(HAS_TORCH, "no torch (Debian: python3-torch)")
needs_numpy = unittest.skipUnless(HAS_NUMPY, "no numpy (Debian: python3-numpy)")

if HAS_TORCH:
    import torch
if HAS_NUMPY:
    import numpy


def object_in_memory(store, key):
    """A stored tensor's object, in memory with an address."""
    return Memory(bytes(store.get_buffer(key)))


class Format(unittest.TestCase):
    """The header, byte by byte, and headers that lie."""

    def test_a_header_is_laid_out_as_the_cpp_package_does(self):
        head = Layout(0, (2, 3)).pack()
        self.assertEqual(len(head), HEADER)
        self.assertEqual(package._tensor_metadata_size(), HEADER)
        self.assertEqual(struct.unpack_from("<IHHiiIIQQ", head),
                         (0x4D4F4F4E, 1, HEADER, 0, 2, 0, 0, HEADER, 24))
        self.assertEqual(struct.unpack_from("<8q", head, 40), (2, 3) + (-1,) * 6)
        self.assertEqual(struct.unpack_from("<8q", head, 104), (2, 3) + (-1,) * 6)
        self.assertEqual(head[168:], bytes(136))

    def test_a_header_that_is_not_true_is_refused(self):
        good = Layout(0, (2, 3)).pack() + bytes(24)
        self.assertEqual(parse(good).shape, (2, 3))
        bad = [good[:-1], good[:HEADER], b"", b"x" * 400]
        for place, form, value in (
                (0, "<I", 1), (4, "<H", 2), (6, "<H", 300), (8, "<i", -1), (8, "<i", 15),
                (12, "<i", 9), (12, "<i", -1), (16, "<I", 2), (24, "<Q", 0), (24, "<Q", 2**64 - 1),
                (32, "<Q", 23), (32, "<Q", 2**64 - 24), (40, "<q", -2), (104, "<q", 2**62),
                (168, "<I", 5)):
            bytes_ = bytearray(good)
            struct.pack_into(form, bytes_, place, value)
            bad.append(bytes(bytes_))
        for data in bad:
            self.assertIsNone(parse(data), data[:48])

    def test_the_package_imports_neither_torch_nor_numpy(self):
        probe = "import sys, mooncake.store, mooncake.async_store; " \
                "sys.exit(any(n in sys.modules for n in ('torch', 'numpy')))"
        self.assertEqual(subprocess.run([sys.executable, "-c", probe], check=False).returncode, 0)


@needs_numpy
class Arrays(PoolTest):
    """Numpy arrays go in; without torch too."""

    def test_an_array_is_stored_as_header_and_elements(self):
        array = numpy.arange(12, dtype=numpy.int32).reshape(3, 4)
        self.assertEqual(self.store.put_tensor("a", array), 0)
        self.assertEqual(self.store.get("a"), Layout(6, (3, 4)).pack() + array.tobytes())
        self.assertEqual(package._serialize_tensor(array), self.store.get("a"))
        self.assertEqual(self.store.batch_put_tensor(["b", "c"], [array.T, array[:, ::2]]), [0, 0])
        self.assertEqual(self.store.get("b")[HEADER:], array.T.tobytes())
        self.assertEqual(self.store.get("c")[HEADER:], array[:, ::2].tobytes())
        self.assertEqual(self.store.put_tensor("scalar", numpy.array(7.5)), 0)
        self.assertEqual(self.store.get("scalar")[HEADER:], struct.pack("<d", 7.5))

    def test_what_cannot_be_stored_is_refused(self):
        for wrong in (None, 3, [1, 2], b"bytes", numpy.zeros((1,) * 9), numpy.array(["text"]),
                      numpy.zeros(3, dtype=">i4"), numpy.zeros(2, dtype=complex)):
            self.assertEqual(self.store.put_tensor("w", wrong), INVALID)
            self.assertEqual(self.store.upsert_tensor("w", wrong), INVALID)
        self.assertEqual(self.store.batch_put_tensor(["a", "b"], [numpy.ones(2), None]),
                         [0, INVALID])
        self.assertEqual(self.store.batch_put_tensor(["a", "b"], [numpy.ones(2)]), [INVALID] * 2)
        self.assertEqual(self.store.is_exist("w"), 0)
        self.assertEqual(self.store.batch_put_tensor([], []), [])


@needs_torch
class Tensors(PoolTest):
    """One tensor an object."""

    def test_every_type_comes_back_as_it_was(self):
        names = ["float32", "float64", "int8", "uint8", "int16", "int32", "int64", "bool",
                 "float16", "bfloat16"]
        names += [name for name in ("uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2")
                  if hasattr(torch, name)]
        for name in names:
            bits = torch.frombuffer(bytearray(os.urandom(480)), dtype=torch.uint8)
            dtype = getattr(torch, name)
            tensor = (bits > 99) if name == "bool" else bits.view(dtype)
            tensor = tensor.reshape(2, 3, -1)
            self.assertEqual(self.store.put_tensor(name, tensor), 0, name)
            again = self.store.get_tensor(name)
            self.assertEqual((again.dtype, again.shape), (tensor.dtype, tensor.shape))
            self.assertEqual(bytes(again.contiguous().view(torch.uint8).flatten().tolist()),
                             bytes(tensor.contiguous().view(torch.uint8).flatten().tolist()))

    def test_shapes(self):
        for shape in ((), (1,), (0,), (3, 0, 2), (5, 7), (2,) * 8):
            tensor = torch.rand(shape)
            self.assertEqual(self.store.upsert_tensor("s", tensor), 0)
            again = self.store.get_tensor("s")
            self.assertEqual(again.shape, tensor.shape)
            self.assertTrue(torch.equal(again, tensor))
        part = torch.arange(24).reshape(4, 6)[1:, ::2]
        self.assertEqual(self.store.upsert_tensor("s", part.t()), 0)
        self.assertTrue(torch.equal(self.store.get_tensor("s"), part.t()))
        self.assertEqual(self.store.put_tensor("g", torch.ones(2, requires_grad=True)), 0)
        self.assertEqual(self.store.put_tensor("nine", torch.ones((1,) * 9)), INVALID)

    def test_a_tensor_lives_as_long_as_it_is_referenced(self):
        tensor = torch.rand(1 << 18)
        self.store.put_tensor("t", tensor)
        again = self.store.get_tensor("t")
        self.store.remove_all(True)
        for i in range(8):
            self.store.upsert_tensor("t", torch.full((1 << 18,), float(i)))
        self.assertTrue(torch.equal(again, tensor))
        again += 1  # it is the caller's own
        self.assertTrue(torch.equal(self.store.get_tensor("t"), torch.full((1 << 18,), 7.0)))

    def test_first_writer_and_upsert(self):
        one, two = torch.ones(3), torch.zeros(3)
        self.assertEqual([self.store.put_tensor("t", one), self.store.put_tensor("t", two)], [0, 0])
        self.assertTrue(torch.equal(self.store.get_tensor("t"), one))
        self.assertEqual(self.store.upsert_tensor("t", two), 0)
        self.assertTrue(torch.equal(self.store.get_tensor("t"), two))
        self.assertEqual(self.store.batch_upsert_tensor(["t", "u"], [one, two]), [0, 0])
        got = self.store.batch_get_tensor(["t", "miss", "u"])
        self.assertTrue(torch.equal(got[0], one) and torch.equal(got[2], two))
        self.assertIsNone(got[1])

    def test_misses_and_values_that_are_no_tensors(self):
        self.store.put("text", b"no tensor")
        for key in ("miss", "text", ""):
            self.assertIsNone(self.store.get_tensor(key))
            self.assertIsNone(self.store.get_tensor_with_tp(key))
        self.assertEqual(self.store.batch_get_tensor(["miss", "text"]), [None, None])
        self.assertEqual(self.store.batch_get_tensor([]), [])
        self.assertRaises(TypeError, self.store.get_tensor, 3)
        self.assertRaises(TypeError, self.store.put_tensor, 3, torch.ones(1))

    def test_published_tensors_name_as_many_segments_as_copies(self):
        config, tensor = ReplicateConfig(), torch.rand(5)
        for call in (self.store.pub_tensor, self.store.upsert_pub_tensor):
            config.preferred_segments = []
            self.assertEqual(call("p", tensor, config), 0)
            config.preferred_segments = ["a", "b"]
            self.assertEqual(call("p", tensor, config), INVALID)
        for call in (self.store.batch_pub_tensor, self.store.batch_upsert_pub_tensor):
            config.preferred_segments = ["a"]
            self.assertEqual(call(["p", "q"], [tensor, tensor], config), [0, 0])
            config.preferred_segments = ["a", "b"]
            self.assertEqual(call(["p", "q"], [tensor, tensor], config), [INVALID] * 2)
        self.assertTrue(torch.equal(self.store.get_tensor("q"), tensor))

    def test_from_and_into_memory(self):
        tensor = torch.rand(10, 10)
        self.store.put_tensor("t", tensor)
        memory = object_in_memory(self.store, "t")
        self.assertEqual(self.store.put_tensor_from("f", memory.ptr, memory.size), 0)
        self.assertEqual(self.store.upsert_tensor_from("f", memory.ptr, memory.size), 0)
        self.assertEqual(self.store.batch_put_tensor_from(["g", "h"], [memory.ptr] * 2,
                                                          [memory.size, memory.size - 1]),
                         [0, INVALID])
        self.assertEqual(self.store.batch_upsert_tensor_from(["g"], [memory.ptr], [memory.size]),
                         [0])
        self.assertEqual(self.store.batch_put_tensor_from(["g"], [], []), [INVALID])
        self.assertEqual(self.store.put_tensor_from("n", 0, 0), INVALID)
        room = Memory(1000)
        into = self.store.get_tensor_into("f", room.ptr, room.size)
        self.assertTrue(torch.equal(into, tensor))
        ctypes.memset(room.ptr + HEADER, 0, 400)
        self.assertTrue(torch.equal(into, torch.zeros(10, 10)))  # it looks into the memory
        self.assertIsNone(self.store.get_tensor_into("f", room.ptr, 100))
        self.assertIsNone(self.store.get_tensor_into("miss", room.ptr, room.size))
        got = self.store.batch_get_tensor_into(["g", "miss"], [room.ptr] * 2, [room.size] * 2)
        self.assertTrue(torch.equal(got[0], tensor))
        self.assertIsNone(got[1])
        self.assertEqual(self.store.batch_get_tensor_into(["g"], [], []), [INVALID])

    def test_into_a_tensor(self):
        tensor = torch.rand(4, 4)
        self.store.put_tensor("t", tensor)
        target = torch.zeros(16)
        self.assertEqual(self.store.get_tensor_into_cuda("t", target), 64)
        self.assertTrue(torch.equal(target.reshape(4, 4), tensor))
        self.assertEqual(self.store.batch_get_tensor_into_cuda(["t", "miss"], [target, target]),
                         [64, -704])
        self.assertEqual(self.store.get_tensor_into_cuda("t", torch.zeros(15)), INVALID)

    def test_files(self):
        tensor = torch.rand(3, 5).to(torch.bfloat16)
        self.store.put_tensor("t", tensor)
        with tempfile.TemporaryDirectory() as scratch:
            path = os.path.join(scratch, "t.safetensors")
            self.assertEqual(self.store.save_tensor_to_safetensor("t", path), 0)
            self.assertEqual(self.store.save_tensor_to_safetensor("miss", path), INVALID)
            self.assertEqual(self.store.save_tensor_to_safetensor("t", scratch), -1100)
            with open(path, "rb") as file:
                size = int.from_bytes(file.read(8), "little")
                self.assertIn(b'"dtype": "BF16"', file.read(size))
                self.assertEqual(len(file.read()), 30)
            self.store.remove_all(True)
            self.assertTrue(torch.equal(self.store.load_tensor_from_safetensor("t", path), tensor))
            self.assertTrue(torch.equal(self.store.get_tensor("t"), tensor))
            self.assertIsNone(self.store.load_tensor_from_safetensor("other", path))
            for junk in (b"", b"\xff" * 8, (5).to_bytes(8, "little") + b"{}   ",
                         (4).to_bytes(8, "little") + b"nope"):
                with open(path, "wb") as file:
                    file.write(junk)
                self.assertIsNone(self.store.load_tensor_from_safetensor(None, path))
            self.assertIsNone(self.store.load_tensor_from_safetensor("t", scratch + "/none"))

    def test_to_bytes_and_back(self):
        tensor = torch.arange(6).reshape(2, 3)
        self.assertTrue(torch.equal(package._deserialize_tensor(package._serialize_tensor(tensor)),
                                    tensor))
        self.assertIsNone(package._deserialize_tensor(b"x" * 400))


@needs_torch
class Shards(PoolTest):
    """Tensors in parts."""

    def test_each_rank_gets_its_part(self):
        for dim, length in ((0, 8), (1, 7), (2, 3)):
            shape = [8, 7, 3]
            tensor, key = torch.rand(shape), f"w{dim}"
            self.assertEqual(self.store.put_tensor_with_tp(key, tensor, 0, 4, dim), 0)
            parts = [self.store.get_tensor_with_tp(key, rank, 4, dim) for rank in range(4)]
            self.assertTrue(torch.equal(torch.cat(parts, dim), tensor))
            self.assertEqual(parts[0].shape[dim], -(-length // 4))
        self.assertEqual(self.store.is_exist("w0_tp_3"), 1)
        self.assertIsNone(self.store.get_tensor_with_tp("w0", 4, 8))
        # An object that is another rank's part is not mistaken for this one's.
        self.store.put("x_tp_1", self.store.get("w0_tp_0"))
        self.assertIsNone(self.store.get_tensor_with_tp("x", 1, 4))

    def test_batches_and_wrong_places(self):
        tensors = [torch.rand(4, 4), torch.rand(6, 2)]
        self.assertEqual(self.store.batch_put_tensor_with_tp(["a", "b"], tensors, 0, 2, 0), [0, 0])
        got = self.store.batch_get_tensor_with_tp(["a", "b", "c"], 1, 2)
        self.assertTrue(torch.equal(got[0], tensors[0][2:]) and torch.equal(got[1], tensors[1][3:]))
        self.assertIsNone(got[2])
        self.assertEqual(self.store.put_tensor_with_tp("c", tensors[0], 0, 1), 0)
        self.assertTrue(torch.equal(self.store.get_tensor_with_tp("c", 0, 1), tensors[0]))
        for rank, size, dim in ((0, 2, 2), (0, 2, -1), (2, 2, 0), (-1, 2, 0), (0, 0, 0)):
            self.assertEqual(self.store.put_tensor_with_tp("d", tensors[0], rank, size, dim),
                             INVALID)
        config = ReplicateConfig()
        self.assertEqual(self.store.pub_tensor_with_tp("e", tensors[0], config, 0, 2), 0)
        self.assertEqual(self.store.batch_pub_tensor_with_tp(["f"], tensors[:1], config, 0, 2), [0])
        config.preferred_segments = ["a", "b"]
        self.assertEqual(self.store.pub_tensor_with_tp("g", tensors[0], config, 0, 2), INVALID)

    def test_from_and_into_memory(self):
        tensor = torch.rand(4, 6)
        self.store.put_tensor("t", tensor)
        memory, room = object_in_memory(self.store, "t"), Memory(1000)
        self.assertEqual(self.store.put_tensor_with_tp_from("f", memory.ptr, memory.size, 0, 2, 1),
                         0)
        self.assertEqual(self.store.batch_put_tensor_with_tp_from(
            ["g", "h"], [memory.ptr, 0], [memory.size, 0], 0, 2, 1), [0, INVALID])
        part = self.store.get_tensor_with_tp_into("f", room.ptr, room.size, 1, 2, 1)
        self.assertTrue(torch.equal(part, tensor[:, 3:]))
        got = self.store.batch_get_tensor_with_tp_into(["g", "no"], [room.ptr] * 2,
                                                       [room.size] * 2, 0, 2)
        self.assertTrue(torch.equal(got[0], tensor[:, :3]))
        self.assertIsNone(got[1])

    def test_ranks_that_store_their_own_parts(self):
        tensor = torch.rand(4, 8)

        def place(rank, expert=None):
            axes = [package.ParallelAxis("tp", rank, 2, 1)]
            if expert is not None:
                axes.insert(0, package.ParallelAxis("ep", expert, 4, expert_id=expert))
            return package.TensorParallelism(axes)

        for expert in (None, 3):
            for rank, part in enumerate((tensor[:, :4], tensor[:, 4:])):
                self.assertEqual(self.store.put_tensor_with_parallelism("k", part,
                                                                        place(rank, expert)), 0)
            shard = package.ReadTarget("shard", place(1, expert))
            self.assertTrue(torch.equal(self.store.get_tensor_with_parallelism("k", shard),
                                        tensor[:, 4:]))
            full = package.ReadTarget("full", place(0, expert))
            got = self.store.batch_get_tensor_with_parallelism(["k", "no"], [full, full])
            self.assertTrue(torch.equal(got[0], tensor))
            self.assertIsNone(got[1])
        self.assertEqual(self.store.is_exist("k__parallelism_manifest"), 1)
        room = Memory(1000)
        into = self.store.get_tensor_with_parallelism_into("k", room.ptr, room.size, full)
        self.assertTrue(torch.equal(into, tensor))
        self.assertTrue(torch.equal(package._deserialize_tensor(bytes(room)), tensor))
        self.assertIsNone(self.store.get_tensor_with_parallelism_into("k", room.ptr, 100, full))
        self.assertEqual(self.store.batch_get_tensor_with_parallelism_into(
            ["no"], [room.ptr], [room.size], [full]), [None])

    def test_writers_of_a_full_tensor(self):
        tensor = torch.rand(5, 2)
        writers = [package.WriterPartition(rank, 3, 0) for rank in range(3)]
        self.assertEqual(self.store.batch_put_tensor_with_parallelism(
            ["k"] * 2, [tensor] * 2, None, None, writers[:2]), [0, 0])
        full = package.ReadTarget("full")
        self.assertIsNone(self.store.get_tensor_with_parallelism("k", full))  # one is missing
        self.assertEqual(self.store.put_tensor_with_parallelism(
            "k", tensor, writer_partition=writers[2]), 0)
        self.assertTrue(torch.equal(self.store.get_tensor_with_parallelism("k", full), tensor))
        self.assertEqual(self.store.is_exist("k__writer_2of3_sd0"), 1)

    def test_plain_and_wrong_requests(self):
        tensor = torch.rand(4, 4)
        self.assertEqual(self.store.put_tensor_with_parallelism("p", tensor), 0)
        self.assertTrue(torch.equal(self.store.get_tensor_with_parallelism("p"), tensor))
        self.assertEqual(self.store.upsert_tensor_with_parallelism("p", tensor * 2), 0)
        self.assertEqual(self.store.batch_upsert_tensor_with_parallelism(["p"], [tensor]), [0])
        self.store.put_tensor("t", tensor)
        memory = object_in_memory(self.store, "t")
        self.assertEqual(self.store.put_tensor_with_parallelism_from("q", memory.ptr, memory.size),
                         0)
        self.assertEqual(self.store.upsert_tensor_with_parallelism_from("q", memory.ptr, 10),
                         INVALID)
        self.assertEqual(self.store.batch_put_tensor_with_parallelism_from(
            ["r"], [memory.ptr], [memory.size]), [0])
        axis = package.ParallelAxis
        for axes in ([], [axis("xp", 0, 2)], [axis("tp", 2, 2)], [axis("tp", 0, 0)],
                     [axis("tp", 0, 2, 5)], [axis("tp", 0, 2), axis("tp", 1, 2)]):
            wrong = package.TensorParallelism(axes)
            self.assertEqual(self.store.put_tensor_with_parallelism("w", tensor, wrong), INVALID)
            self.assertIsNone(self.store.get_tensor_with_parallelism(
                "w", package.ReadTarget("shard", wrong)))
        self.assertIsNone(self.store.get_tensor_with_parallelism("p", package.ReadTarget("odd")))


@needs_torch
class NotSetUp(unittest.TestCase):
    """Codes and misses, nothing raised."""

    def test_calls_on_a_store_that_is_not_set_up(self):
        store, tensor = MooncakeDistributedStore(), torch.ones(2)
        room = Memory(1000)
        self.assertEqual(store.put_tensor("k", tensor), INVALID)
        self.assertEqual(store.batch_put_tensor(["k"], [tensor]), [INVALID])
        self.assertEqual(store.upsert_tensor("k", tensor), INVALID)
        self.assertEqual(store.put_tensor_with_tp("k", tensor, 0, 2), INVALID)
        self.assertIsNone(store.get_tensor("k"))
        self.assertEqual(store.batch_get_tensor(["k"]), [None])
        self.assertIsNone(store.get_tensor_into("k", room.ptr, room.size))
        self.assertEqual(store.batch_get_tensor_into(["k"], [room.ptr], [room.size]), [INVALID])
        self.assertLess(store.get_tensor_into_cuda("k", tensor), 0)
        self.assertEqual(store.save_tensor_to_safetensor("k", "/none/file"), INVALID)


if __name__ == "__main__":
    unittest.main(verbosity=1)

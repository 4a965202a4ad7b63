#!/usr/bin/env python3
"""Documents made from running programs are up to date; every name that dashboards and operators
know is on the metrics page; the log gets its summary lines.

usage: test_pages.py SOURCE_ROOT BIN"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

from web import BIN, ROOT, families, metrics
from pool import Pool
from wait import wait_for


PAIRS = """put_start put_end put_revoke get_replica_list get_replica_list_by_regex exist_key remove
remove_by_regex remove_all mount_segment unmount_segment remount_segment mount_nof_segment
unmount_nof_segment remount_nof_segment ping copy_start copy_end copy_revoke move_start move_end
move_revoke evict_disk_replica create_copy_task create_move_task query_task fetch_tasks
update_task""".split()
BATCHES = "exist_key query_ip replica_clear get_replica_list put_start put_end put_revoke".split()
KNOWN = """master_allocated_bytes master_total_capacity_bytes segment_allocated_bytes
segment_total_capacity_bytes master_nof_allocated_bytes master_total_nof_capacity_bytes
nof_segment_allocated_bytes nof_segment_total_capacity_bytes master_allocated_file_size_bytes
master_total_file_capacity_bytes master_key_count master_soft_pin_key_count master_active_clients
mem_cache_nums_ file_cache_nums_ master_put_start_discarded_staging_size
master_promotion_in_flight master_value_size_bytes master_snapshot_duration_ms
master_nof_heartbeat_probe_latency_ms master_put_start_alloc_failures_total
master_put_start_partial_allocations_total mem_cache_hit_nums_ file_cache_hit_nums_
mem_cache_hit_bytes_total file_cache_hit_bytes_total valid_get_nums_ total_get_nums_
master_put_start_discard_cnt master_put_start_release_cnt master_snapshot_success
master_snapshot_fail master_nof_segments_unmounted_by_heartbeat_total
mooncake_tenant_quota_reject_total mooncake_tenant_evict_bytes_total
ha_state_transitions_total""".split()
GROUPS = {
    "master_{}": """successful_evictions_total attempted_evictions_total evicted_key_count
        evicted_size_bytes""",
    "master_{}_mem": """successful_evictions_total attempted_evictions_total evicted_key_count
        evicted_size_bytes""",
    "master_{}_nof": """successful_evictions_total attempted_evictions_total evicted_key_count
        evicted_size_bytes""",
    "master_promotion_{}_total": """admitted completed completed_bytes failed cancelled expired
        rejected_cap rejected_frequency rejected_watermark""",
    "master_promotion_candidate_{}_total": """recorded admitted admission_rejected dropped_limit
        expired_evaluated expired_unevaluated""",
    "mooncake_tenant_quota_{}": """requested_bytes effective_bytes charged_bytes admission_closed
        over_quota explicit_policy allocatable_capacity_bytes requested_bytes_sum
        effective_bytes_sum""",
    "master_nof_heartbeat_{}_total": "success failure timeout",
    "ha_{}": """oplog_last_sequence_id oplog_applied_sequence_id oplog_standby_lag
        oplog_pending_entries pending_mutation_queue_size standby_state""",
    "ha_oplog_{}_total": """applied_entries skipped_entries checksum_failures dropped_put_end
        etcd_write_failures etcd_write_retries gap_resolve_attempts gap_resolve_success
        watch_disconnections batch_commits sync_batch_commits""",
    "ha_oplog_{}_us": "apply_latency etcd_write_latency",
    "ha_batch_record_{}": """batch_bytes batch_entries txn_latency_us callback_latency_us
        commit_to_durable_us committed_queue_depth callback_queue_depth durable_batches_total
        durable_entries_total durable_sequence last_batch_id retry_total""",
    "mooncake_master_{}": """evictable_bytes protected_bytes largest_free_extent_bytes
        segment_used_ratio key_age_at_eviction_seconds unfinished_puts
        oldest_unfinished_put_seconds client_last_ping_age_seconds client_expired_total
        self_stall_seconds_total sweep_duration_seconds rpc_latency_seconds rpc_undecodable_total
        rpc_rejected_total checksum_mismatch_total process_resident_bytes
        gauge_recount_mismatch_total""",
}
ASKED_OF_STORES = """transport_connections transport_fallback_total reattach_duration_seconds
process_resident_bytes""".split()
BOUNDS = ["4096", "65536", "262144", "1048576", "4194304", "16777216", "67108864", "+Inf"]


def wanted_of_master():
    yield from KNOWN
    for op in PAIRS:
        yield from (f"master_{op}_{what}_total" for what in ("requests", "failures"))
    for op in BATCHES:
        yield from (f"master_batch_{op}_{what}_total" for what in (
            "requests", "failures", "partial_successes", "items", "failed_items"))
    for form, names in GROUPS.items():
        yield from (form.format(name) for name in names.split())


def test_names(pool):
    store = pool.add_store("64MiB", "--admin_port=0")
    admin = f"127.0.0.1:{store.ports()['admin_port']}"
    there = families(pool.metrics_address)
    missing = [name for name in wanted_of_master() if name not in there]
    there = families(admin)
    missing += [name for name in ASKED_OF_STORES if "mooncake_store_" + name not in there]
    assert not missing, missing
    values = metrics(pool.metrics_address)
    bounds = {float(bound) for bound in re.findall(
        r'master_value_size_bytes_bucket\{le="(.*?)"\}', "\n".join(values))}
    assert bounds == {float(bound) for bound in BOUNDS}, bounds
    for reason in ("lease", "soft_pin", "hard_pin", "writing", "reading"):
        assert f'mooncake_master_protected_bytes{{reason="{reason}"}}' in values, reason


def summaries(pool):
    return re.findall(r'I master\.summary text="(.*)"', pool.master.log_text())


def test_summary():
    with Pool(BIN, master_options=["--metric_report_interval=50ms"]) as pool:
        wait_for("the first line", lambda: summaries(pool))
        assert summaries(pool)[0].startswith("Mem Storage: 0B / 0B (0.0%) | SSD Storage: 0B / 0B"
                                             " | Keys: 0 (soft-pinned: 0)")
        store = pool.add_store("64MiB")
        store.ports()
        wait_for("the store is told", lambda: "Stores: 1 " in summaries(pool)[-1])
        assert "64.0MiB" in summaries(pool)[-1]
        before = len(summaries(pool))
        # Twenty intervals in which pings come and nothing happens, by the master's own clock.
        address = pool.metrics_address
        start = metrics(address)["mooncake_master_uptime_seconds"]
        wait_for("a second passes",
                 lambda: metrics(address)["mooncake_master_uptime_seconds"] > start + 1)
        assert len(summaries(pool)) == before, "it repeats itself"
    with Pool(BIN, master_options=["--metric_report_interval=0"]) as pool:
        start = metrics(pool.metrics_address)["mooncake_master_uptime_seconds"]
        assert start >= 0 and not summaries(pool)


def test_documents():
    generator = os.path.join(ROOT, "tools/gen_pages")
    done = subprocess.run([sys.executable, "-B", generator, BIN, "--check"], timeout=120,
                          capture_output=True, text=True)
    print(done.stdout, done.stderr, sep="")
    assert done.returncode == 0
    # And it does find a page that is not as it should be.
    with tempfile.TemporaryDirectory() as copy:
        for folder in ("docs", "include"):
            shutil.copytree(os.path.join(ROOT, folder), os.path.join(copy, folder))
        os.mkdir(os.path.join(copy, "tools"))
        shutil.copy(generator, os.path.join(copy, "tools"))
        for page in ("http.md", "metrics.md", "config.md"):
            with open(os.path.join(copy, "docs", page), "a", encoding="utf-8") as file:
                file.write("| `a_metric_that_is_gone` |\n")
        done = subprocess.run([sys.executable, "-B", os.path.join(copy, "tools/gen_pages"), BIN,
                               "--check"], timeout=120, capture_output=True, text=True)
        assert done.returncode == 1, done
        assert done.stdout.count("is not what the programs say") == 3, done.stdout


def main():
    test_documents()
    with Pool(BIN) as pool:
        test_names(pool)
    test_summary()
    print("pages: all well")
    return 0


if __name__ == "__main__":
    sys.exit(main())

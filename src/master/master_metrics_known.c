/*
 * Names that dashboards made for the C++ Mooncake ask for. What does not exist here (an SSD tier,
 * NVMe over fabrics, promotion, snapshots, replication of the index, tenants) is listed as well and
 * stays 0: nothing of it has ever happened, and a panel shows 0 in place of a gap.
 */
#include <inttypes.h>
#include <stdio.h>

#include "master/master_metrics.h"

/* ---- methods --------------------------------------------------------------------------------- */

static mooncake_err named(struct mc_buf *out, const char *op, const char *what, const char *help,
                          uint64_t value)
{
    char name[96];

    (void)snprintf(name, sizeof(name), "master_%s_%s_total", op, what);
    return mc_metrics_counter(out, name, help, value);
}

static mooncake_err print_pair(struct mc_buf *out, const char *op, uint64_t requests,
                               uint64_t failures)
{
    MC_TRY(named(out, op, "requests", "Requests of one item", requests));
    return named(out, op, "failures", "Requests of one item that failed", failures);
}

static mooncake_err print_batch(struct mc_buf *out, const char *op,
                                const struct mc_method_metrics *m)
{
    MC_TRY(named(out, op, "requests", "Batches", mc_counter_get(&m->batch_requests)));
    MC_TRY(named(out, op, "failures", "Batches that failed in every item",
                 mc_counter_get(&m->batch_failures)));
    MC_TRY(named(out, op, "partial_successes", "Batches of which some items failed",
                 mc_counter_get(&m->batch_partial)));
    MC_TRY(named(out, op, "items", "Items of batches", mc_counter_get(&m->batch_items)));
    return named(out, op, "failed_items", "Items of batches that failed",
                 mc_counter_get(&m->batch_failed_items));
}

mooncake_err mc_metrics_known_methods(struct mc_metrics_page *page, struct mc_buf *out, bool *again)
{
    static const struct {
        enum mc_method method;
        const char *op, *batch_op; /* batch_op NULL: all requests count as one kind */
    } known[] = {
        {MC_METHOD_PUT_START, "put_start", "batch_put_start"},
        {MC_METHOD_PUT_END, "put_end", "batch_put_end"},
        {MC_METHOD_PUT_REVOKE, "put_revoke", "batch_put_revoke"},
        {MC_METHOD_QUERY, "get_replica_list", "batch_get_replica_list"},
        {MC_METHOD_EXIST, "exist_key", "batch_exist_key"},
        {MC_METHOD_REMOVE, "remove", NULL},
        {MC_METHOD_MOUNT, "mount_segment", NULL},
        {MC_METHOD_UNMOUNT, "unmount_segment", NULL},
        {MC_METHOD_PING, "ping", NULL},
    };
    const struct mc_master_rpc_metrics *rpc = page->requests;
    const struct mc_method_metrics *all = &rpc->methods[MC_METHOD_REMOVE_ALL];
    uint64_t regex_requests = mc_method_requests(&rpc->remove_by_regex);
    uint64_t regex_failures = mc_method_failures(&rpc->remove_by_regex);
    size_t i;

    (void)again;
    for (i = 0; i < MC_ARRAY_LEN(known); i++) {
        const struct mc_method_metrics *m = &rpc->methods[known[i].method];

        if (known[i].batch_op == NULL) {
            MC_TRY(print_pair(out, known[i].op, mc_method_requests(m), mc_method_failures(m)));
            continue;
        }
        MC_TRY(print_pair(out, known[i].op, mc_counter_get(&m->single_requests),
                          mc_counter_get(&m->single_failures)));
        MC_TRY(print_batch(out, known[i].batch_op, m));
    }
    MC_TRY(print_pair(out, "remove_by_regex", regex_requests, regex_failures));
    MC_TRY(print_pair(out, "remove_all", mc_method_requests(all) - regex_requests,
                      mc_method_failures(all) - regex_failures));
    MC_TRY(print_pair(out, "get_replica_list_by_regex", mc_method_requests(&rpc->list_by_regex),
                      mc_method_failures(&rpc->list_by_regex)));
    return print_pair(out, "remount_segment", mc_method_requests(&rpc->remount),
                      mc_method_failures(&rpc->remount));
}

mooncake_err mc_metrics_absent_ops(struct mc_metrics_page *page, struct mc_buf *out, bool *again)
{
    static const char *const ops[] = {
        "mount_nof_segment", "unmount_nof_segment", "remount_nof_segment", "copy_start",
        "copy_end",          "copy_revoke",         "move_start",          "move_end",
        "move_revoke",       "evict_disk_replica",  "create_copy_task",    "create_move_task",
        "query_task",        "fetch_tasks",         "update_task",
    };
    static const char *const batch_ops[] = {"batch_query_ip", "batch_replica_clear"};
    static const struct mc_method_metrics none;
    size_t i;

    (void)page;
    (void)again;
    for (i = 0; i < MC_ARRAY_LEN(ops); i++) {
        MC_TRY(named(out, ops[i], "requests", "Always 0: there is no such call here", 0));
        MC_TRY(named(out, ops[i], "failures", "Always 0: there is no such call here", 0));
    }
    for (i = 0; i < MC_ARRAY_LEN(batch_ops); i++) {
        MC_TRY(print_batch(out, batch_ops[i], &none));
    }
    return MOONCAKE_OK;
}

/* ---- the core -------------------------------------------------------------------------------- */

mooncake_err mc_metrics_print_core_known(const struct mc_metrics_page *page, struct mc_buf *out)
{
    const struct mc_core_metrics *m = mc_core_metrics(page->master->core);
    uint64_t query_hits = mc_counter_get(&m->query_hits);
    uint64_t evicted_keys = mc_counter_get(&m->evicted_keys);
    uint64_t evicted_bytes = mc_counter_get(&m->evicted_bytes);
    uint64_t attempts = mc_counter_get(&m->evictions_attempted);
    uint64_t successes = mc_counter_get(&m->evictions_successful);
    const struct {
        const char *name, *type, *help;
        uint64_t value;
    } rows[] = {
        {"master_allocated_bytes", "gauge", "Bytes taken in the pool",
         (uint64_t)mc_gauge_get(&m->used_bytes)},
        {"master_total_capacity_bytes", "gauge", "Bytes of the pool",
         (uint64_t)mc_gauge_get(&m->capacity_bytes)},
        {"master_key_count", "gauge", "Readable objects", (uint64_t)mc_gauge_get(&m->keys)},
        {"master_soft_pin_key_count", "gauge", "Readable objects with a soft pin",
         (uint64_t)mc_gauge_get(&m->soft_pinned_keys)},
        {"master_active_clients", "gauge", "Clients and stores that ping",
         (uint64_t)mc_gauge_get(&m->members)},
        {"mem_cache_nums_", "gauge", "Readable objects in memory",
         (uint64_t)mc_gauge_get(&m->keys)},
        {"mem_cache_hit_nums_", "counter", "Hits in memory", query_hits},
        {"mem_cache_hit_bytes_total", "counter", "Bytes of the objects that were hit in memory",
         mc_counter_get(&m->query_hit_bytes)},
        {"valid_get_nums_", "counter", "Queries that found their key", query_hits},
        {"total_get_nums_", "counter", "Queries", query_hits + mc_counter_get(&m->query_misses)},
        {"master_attempted_evictions_total", "counter", "Times that eviction looked for victims",
         attempts},
        {"master_attempted_evictions_total_mem", "counter", "The same, of memory", attempts},
        {"master_successful_evictions_total", "counter", "Times that eviction found some",
         successes},
        {"master_successful_evictions_total_mem", "counter", "The same, of memory", successes},
        {"master_evicted_key_count", "counter", "Objects that eviction removed", evicted_keys},
        {"master_evicted_key_count_mem", "counter", "The same, of memory", evicted_keys},
        {"master_evicted_size_bytes", "counter", "Bytes freed by eviction", evicted_bytes},
        {"master_evicted_size_bytes_mem", "counter", "The same, of memory", evicted_bytes},
        {"master_put_start_discard_cnt", "counter", "Attempts that lost their key to a later put",
         mc_counter_get(&m->put_taken_over)},
        {"master_put_start_release_cnt", "counter", "Attempts freed by the release timeout",
         mc_counter_get(&m->put_released)},
        {"master_put_start_discarded_staging_size", "gauge",
         "Bytes that lost writers hold until they are freed", page->space.parked},
        {"master_put_start_alloc_failures_total", "counter", "Puts refused for want of space",
         mc_counter_get(&m->put_rejected)},
        {"master_put_start_partial_allocations_total", "counter",
         "Attempts opened with fewer replicas than wished", mc_counter_get(&m->put_degraded)},
    };
    size_t i;

    for (i = 0; i < MC_ARRAY_LEN(rows); i++) {
        MC_TRY(mc_metric_print_head(out, rows[i].name, rows[i].type, rows[i].help));
        MC_TRY(mc_metric_print_u64(out, rows[i].name, NULL, rows[i].value));
    }
    return MOONCAKE_OK;
}

/* ---- what does not exist --------------------------------------------------------------------- */

#define NO_NOF "Always 0: there is no NVMe-over-fabrics tier here"
#define NO_FILE "Always 0: there is no SSD tier here"
#define NO_PROMOTION "Always 0: there is no tier to promote from"
#define NO_SNAPSHOT "Always 0: there are no snapshots here"
#define NO_HA "Always 0: this master stands alone, without a log of operations"
#define NO_TENANT "Without samples: there are no tenants here"

/* X(name, type, help) */
#define ABSENT_LIST(X)                                                                             \
    X(master_nof_allocated_bytes, "gauge", NO_NOF)                                                 \
    X(master_total_nof_capacity_bytes, "gauge", NO_NOF)                                            \
    X(master_nof_heartbeat_success_total, "counter", NO_NOF)                                       \
    X(master_nof_heartbeat_failure_total, "counter", NO_NOF)                                       \
    X(master_nof_heartbeat_timeout_total, "counter", NO_NOF)                                       \
    X(master_nof_segments_unmounted_by_heartbeat_total, "counter", NO_NOF)                         \
    X(master_attempted_evictions_total_nof, "counter", NO_NOF)                                     \
    X(master_successful_evictions_total_nof, "counter", NO_NOF)                                    \
    X(master_evicted_key_count_nof, "counter", NO_NOF)                                             \
    X(master_evicted_size_bytes_nof, "counter", NO_NOF)                                            \
    X(master_allocated_file_size_bytes, "gauge", NO_FILE)                                          \
    X(master_total_file_capacity_bytes, "gauge", NO_FILE)                                          \
    X(file_cache_nums_, "gauge", NO_FILE)                                                          \
    X(file_cache_hit_nums_, "counter", NO_FILE)                                                    \
    X(file_cache_hit_bytes_total, "counter", NO_FILE)                                              \
    X(master_promotion_in_flight, "gauge", NO_PROMOTION)                                           \
    X(master_promotion_admitted_total, "counter", NO_PROMOTION)                                    \
    X(master_promotion_completed_total, "counter", NO_PROMOTION)                                   \
    X(master_promotion_completed_bytes_total, "counter", NO_PROMOTION)                             \
    X(master_promotion_failed_total, "counter", NO_PROMOTION)                                      \
    X(master_promotion_cancelled_total, "counter", NO_PROMOTION)                                   \
    X(master_promotion_expired_total, "counter", NO_PROMOTION)                                     \
    X(master_promotion_rejected_cap_total, "counter", NO_PROMOTION)                                \
    X(master_promotion_rejected_frequency_total, "counter", NO_PROMOTION)                          \
    X(master_promotion_rejected_watermark_total, "counter", NO_PROMOTION)                          \
    X(master_promotion_candidate_recorded_total, "counter", NO_PROMOTION)                          \
    X(master_promotion_candidate_admitted_total, "counter", NO_PROMOTION)                          \
    X(master_promotion_candidate_admission_rejected_total, "counter", NO_PROMOTION)                \
    X(master_promotion_candidate_dropped_limit_total, "counter", NO_PROMOTION)                     \
    X(master_promotion_candidate_expired_evaluated_total, "counter", NO_PROMOTION)                 \
    X(master_promotion_candidate_expired_unevaluated_total, "counter", NO_PROMOTION)               \
    X(master_snapshot_success, "counter", NO_SNAPSHOT)                                             \
    X(master_snapshot_fail, "counter", NO_SNAPSHOT)                                                \
    X(mooncake_tenant_quota_allocatable_capacity_bytes, "gauge", "Always 0: there are no quotas")  \
    X(mooncake_tenant_quota_requested_bytes_sum, "gauge", "Always 0: there are no quotas")         \
    X(mooncake_tenant_quota_effective_bytes_sum, "gauge", "Always 0: there are no quotas")         \
    X(ha_oplog_last_sequence_id, "gauge", NO_HA)                                                   \
    X(ha_oplog_applied_sequence_id, "gauge", NO_HA)                                                \
    X(ha_oplog_standby_lag, "gauge", NO_HA)                                                        \
    X(ha_oplog_pending_entries, "gauge", NO_HA)                                                    \
    X(ha_pending_mutation_queue_size, "gauge", NO_HA)                                              \
    X(ha_standby_state, "gauge", NO_HA)                                                            \
    X(ha_oplog_applied_entries_total, "counter", NO_HA)                                            \
    X(ha_oplog_skipped_entries_total, "counter", NO_HA)                                            \
    X(ha_oplog_checksum_failures_total, "counter", NO_HA)                                          \
    X(ha_oplog_dropped_put_end_total, "counter", NO_HA)                                            \
    X(ha_oplog_etcd_write_failures_total, "counter", NO_HA)                                        \
    X(ha_oplog_etcd_write_retries_total, "counter", NO_HA)                                         \
    X(ha_oplog_gap_resolve_attempts_total, "counter", NO_HA)                                       \
    X(ha_oplog_gap_resolve_success_total, "counter", NO_HA)                                        \
    X(ha_oplog_watch_disconnections_total, "counter", NO_HA)                                       \
    X(ha_oplog_batch_commits_total, "counter", NO_HA)                                              \
    X(ha_oplog_sync_batch_commits_total, "counter", NO_HA)                                         \
    X(ha_batch_record_committed_queue_depth, "gauge", NO_HA)                                       \
    X(ha_batch_record_callback_queue_depth, "gauge", NO_HA)                                        \
    X(ha_batch_record_durable_batches_total, "counter", NO_HA)                                     \
    X(ha_batch_record_durable_entries_total, "counter", NO_HA)                                     \
    X(ha_batch_record_durable_sequence, "gauge", NO_HA)                                            \
    X(ha_batch_record_last_batch_id, "gauge", NO_HA)                                               \
    X(ha_batch_record_retry_total, "counter", NO_HA)                                               \
    X(ha_state_transitions_total, "counter", NO_HA)

/* Histograms, each with one bucket and nothing in it. */
#define ABSENT_HISTOGRAM_LIST(X)                                                                   \
    X(master_snapshot_duration_ms, NO_SNAPSHOT)                                                    \
    X(master_nof_heartbeat_probe_latency_ms, NO_NOF)                                               \
    X(ha_oplog_apply_latency_us, NO_HA)                                                            \
    X(ha_oplog_etcd_write_latency_us, NO_HA)                                                       \
    X(ha_batch_record_batch_bytes, NO_HA)                                                          \
    X(ha_batch_record_batch_entries, NO_HA)                                                        \
    X(ha_batch_record_txn_latency_us, NO_HA)                                                       \
    X(ha_batch_record_callback_latency_us, NO_HA)                                                  \
    X(ha_batch_record_commit_to_durable_us, NO_HA)

/* With labels, so without samples. */
#define ABSENT_LABELLED_LIST(X)                                                                    \
    X(nof_segment_allocated_bytes, "gauge", "Without samples: no segment is on NVMe over fabrics") \
    X(nof_segment_total_capacity_bytes, "gauge",                                                   \
      "Without samples: no segment is on NVMe over fabrics")                                       \
    X(mooncake_tenant_quota_reject_total, "counter", NO_TENANT)                                    \
    X(mooncake_tenant_evict_bytes_total, "counter", NO_TENANT)                                     \
    X(mooncake_tenant_quota_requested_bytes, "gauge", NO_TENANT)                                   \
    X(mooncake_tenant_quota_effective_bytes, "gauge", NO_TENANT)                                   \
    X(mooncake_tenant_quota_charged_bytes, "gauge", NO_TENANT)                                     \
    X(mooncake_tenant_quota_admission_closed, "gauge", NO_TENANT)                                  \
    X(mooncake_tenant_quota_over_quota, "gauge", NO_TENANT)                                        \
    X(mooncake_tenant_quota_explicit_policy, "gauge", NO_TENANT)

struct absent {
    const char *name, *type, *help;
};

mooncake_err mc_metrics_absent(struct mc_metrics_page *page, struct mc_buf *out, bool *again)
{
#define ROW(name, type, help) {#name, type, help},
#define HISTOGRAM_ROW(name, help) {#name, "histogram", help},
    static const struct absent rows[] = {ABSENT_LIST(ROW)};
    static const struct absent histograms[] = {ABSENT_HISTOGRAM_LIST(HISTOGRAM_ROW)};
    static const struct absent labelled[] = {ABSENT_LABELLED_LIST(ROW)};
#undef ROW
#undef HISTOGRAM_ROW
    struct mc_histogram none;
    size_t i;

    (void)page;
    (void)again;
    mc_histogram_init(&none, NULL, 0, 1);
    for (i = 0; i < MC_ARRAY_LEN(rows); i++) {
        MC_TRY(mc_metric_print_head(out, rows[i].name, rows[i].type, rows[i].help));
        MC_TRY(mc_metric_print_u64(out, rows[i].name, NULL, 0));
    }
    for (i = 0; i < MC_ARRAY_LEN(histograms); i++) {
        MC_TRY(mc_metric_print_head(out, histograms[i].name, "histogram", histograms[i].help));
        MC_TRY(mc_metric_print_histogram(out, histograms[i].name, NULL, &none));
    }
    for (i = 0; i < MC_ARRAY_LEN(labelled); i++) {
        MC_TRY(mc_metric_print_head(out, labelled[i].name, labelled[i].type, labelled[i].help));
    }
    return MOONCAKE_OK;
}

/*
 * The core's counters and gauges, as lists: the struct, the recount and the /metrics page are all
 * made from them. Written by the core's thread, readable from any.
 */
#ifndef MC_MASTER_CORE_METRICS_H
#define MC_MASTER_CORE_METRICS_H

#include "base/metric.h"

/* X(name, help). Printed as mooncake_master_<name>_total. lookups = hits + misses, always. */
#define MC_CORE_COUNTER_LIST(X)                                                                    \
    X(lookups, "Keys asked for by query or exist")                                                 \
    X(hits, "Keys that were readable when asked for")                                              \
    X(misses, "Keys that were not readable when asked for")                                        \
    X(query_hits, "Hits of query")                                                                 \
    X(query_misses, "Misses of query")                                                             \
    X(query_hit_bytes, "Bytes of the objects that query found, without those asked for size only") \
    X(exist_hits, "Hits of exist")                                                                 \
    X(exist_misses, "Misses of exist")                                                             \
    X(reuse_promises, "Keys whose descriptors were promised to a client that asked for existence") \
    X(reuse_waits, "Requests that waited for the end of such a promise")                           \
    X(put_started, "Attempts opened")                                                              \
    X(put_repeated, "Attempts answered again to the same request")                                 \
    X(put_ended, "Attempts made readable")                                                         \
    X(put_revoked, "Attempts undone by their writer")                                              \
    X(put_failed, "Attempts undone because no replica was left")                                   \
    X(put_taken_over, "Attempts that lost their key after the discard timeout")                    \
    X(put_released, "Attempts freed by the release timeout")                                       \
    X(put_exists, "Puts refused because the key exists")                                           \
    X(put_rejected, "Puts refused for want of space")                                              \
    X(put_deferred, "Puts asked to come again while space is being evicted")                       \
    X(put_degraded, "Attempts opened with fewer replicas than wished")                             \
    X(not_owner, "Ends and revokes refused because another attempt holds the key")                 \
    X(upserted, "Versions replaced by a newer one")                                                \
    X(removed, "Objects removed on request")                                                       \
    X(evictions_attempted, "Times that eviction looked for victims in a segment")                  \
    X(evictions_successful, "Times that it found some")                                            \
    X(evicted_keys, "Objects that eviction removed")                                               \
    X(evicted_replicas, "Replicas that eviction removed")                                          \
    X(evicted_bytes, "Bytes freed by eviction")                                                    \
    X(evicted_for_puts_bytes, "Those of them that a put waited for; the others: the watermark")    \
    X(evicted_soft_pinned, "Objects that eviction removed although soft-pinned")                   \
    X(lost_keys, "Objects lost with their last replica's segment")                                 \
    X(lost_replicas, "Replicas lost with a segment")                                               \
    X(checksum_mismatch, "Reports of readers whose bytes did not have their checksum")             \
    X(damaged_replicas, "Replicas dropped because a reader found them damaged")                    \
    X(mounted, "Segments mounted")                                                                 \
    X(unmounted, "Segments given back by their owner")                                             \
    X(expired_segments, "Segments lost to silence of their owner")                                 \
    X(superseded_segments, "Segments replaced by a restarted store")                               \
    X(expired_members, "Members expired for silence")                                              \
    X(read_failover, "Reads that clients went on with from another copy, as they tell")            \
    X(reports, "Reports of unreachable stores and damaged extents")                                \
    X(suspected, "Times a segment became suspect")                                                 \
    X(stalls, "Own stalls noticed")                                                                \
    X(recounts, "Recounts of everything")                                                          \
    X(gauge_recount_mismatch, "Recounts that differed from a gauge or the books")

/* X(name, help). Printed as mooncake_master_<name>; each equals a recount at any time. */
#define MC_CORE_GAUGE_LIST(X)                                                                      \
    X(keys, "Readable objects")                                                                    \
    X(soft_pinned_keys, "Readable objects with a soft pin, until eviction sees that it has ended") \
    X(unfinished_puts, "Attempts that hold their key and are not ended")                           \
    X(parked_puts, "Attempts and old versions whose space waits for a time")                       \
    X(capacity_bytes, "Bytes of all mounted segments")                                             \
    X(used_bytes, "Bytes taken in all mounted segments")                                           \
    X(segments, "Mounted segments")                                                                \
    X(gone_segments, "Lost segments whose objects are still being swept")                          \
    X(members, "Clients and stores that ping")                                                     \
    X(stores, "Members that have a segment mounted")

/* X(name, help, scale, bounds...). Printed as mooncake_master_<name>, but for value_size_bytes. */
#define MC_CORE_HISTOGRAM_LIST(X)                                                                  \
    X(value_size_bytes, "Sizes of the values that became readable", 1, 4096, 65536, 262144,        \
      1048576, 4194304, 16777216, 67108864)                                                        \
    X(key_age_at_eviction_seconds, "Time from an object's last put to its eviction", 1e9, 1, 5,    \
      15, 60, 300, 900, 3600, 14400, 86400)                                                        \
    X(sweep_duration_seconds, "Time from a segment's loss until its last object was swept", 1e9,   \
      0.001, 0.01, 0.1, 1, 10, 60)

struct mc_core_metrics {
#define MC_CORE_COUNTER_FIELD_(name, help) struct mc_counter name;
    MC_CORE_COUNTER_LIST(MC_CORE_COUNTER_FIELD_)
#undef MC_CORE_COUNTER_FIELD_
#define MC_CORE_GAUGE_FIELD_(name, help) struct mc_gauge name;
    MC_CORE_GAUGE_LIST(MC_CORE_GAUGE_FIELD_)
#undef MC_CORE_GAUGE_FIELD_
#define MC_CORE_HISTOGRAM_FIELD_(name, ...) struct mc_histogram name;
    MC_CORE_HISTOGRAM_LIST(MC_CORE_HISTOGRAM_FIELD_)
#undef MC_CORE_HISTOGRAM_FIELD_
    struct mc_counter rdma_fallbacks, shm_fallbacks, other_fallbacks; /* as clients tell */
    struct mc_counter stalled_ms; /* by which own stalls moved deadlines */
};

#endif

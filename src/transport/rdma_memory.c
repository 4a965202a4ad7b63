/* Memory regions. */
#include "transport/rdma_memory.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/option.h"
#include "transport/rdma_numa.h"

/* Parts of a segment: large enough that few keys say it all, small enough that several threads can
 * pin at once and progress can be seen. */
#define PART_LEN_MIN ((uint64_t)1 << 30)
#define PART_ALIGN ((uint64_t)2 << 20)
#define THREADS_MAX 8u
#define PROGRESS_MS 2000u

static pthread_mutex_t ranges_mutex = PTHREAD_MUTEX_INITIALIZER;

/* ---- one registration ------------------------------------------------------------------------ */

static mooncake_err refuse(const struct mc_rdma_device *device, uint64_t len, int error)
{
    struct rlimit limit = {0};
    char need[32], have[32];

    (void)mc_format_size(len, need, sizeof(need));
    if (error != ENOMEM) {
        return mc_err_set(MOONCAKE_ERPC, "rdma: registering %s with %s failed: %s", need,
                          device->name, strerror(error));
    }
    (void)getrlimit(RLIMIT_MEMLOCK, &limit);
    if (limit.rlim_cur == RLIM_INFINITY) {
        return mc_err_set(MOONCAKE_ENOMEM,
                          "rdma: registering %s with %s failed for lack of memory (RLIMIT_MEMLOCK "
                          "is unlimited)",
                          need, device->name);
    }
    (void)mc_format_size(limit.rlim_cur, have, sizeof(have));
    return mc_err_set(MOONCAKE_ENOMEM,
                      "rdma: registering memory with %s failed: RLIMIT_MEMLOCK is %llu bytes (%s), "
                      "%llu bytes (%s) more are needed; raise it with ulimit -l unlimited, "
                      "LimitMEMLOCK=infinity or --ulimit memlock=-1",
                      device->name, (unsigned long long)limit.rlim_cur, have,
                      (unsigned long long)len, need);
}

static mooncake_err register_range(const struct mc_verbs *verbs, struct mc_rdma_device *device,
                                   void *at, size_t len, int access, struct ibv_mr **out)
{
    struct ibv_mr *mr;

    errno = 0;
    mr = verbs->register_mr(device->pd, at, len, access);
    if (mr == NULL) {
        return refuse(device, len, errno);
    }
    *out = mr;
    return MOONCAKE_OK;
}

mooncake_err mc_rdma_region_add(struct mc_rdma_region *region, const struct mc_verbs *verbs,
                                struct mc_rdma_device *device, void *at, size_t len)
{
    MC_ASSERT(region->mrs[device->index] == NULL);
    region->verbs = verbs;
    return register_range(verbs, device, at, len, IBV_ACCESS_LOCAL_WRITE,
                          &region->mrs[device->index]);
}

void mc_rdma_region_fini(struct mc_rdma_region *region)
{
    for (unsigned i = 0; i < MC_RDMA_DEVICES_MAX; i++) {
        if (region->mrs[i] != NULL) {
            if (region->verbs->deregister_mr(region->mrs[i]) != 0) {
                mc_log_warn("rdma.deregister", "errno=%d", errno);
            }
            region->mrs[i] = NULL;
        }
    }
    mc_rdma_devices_close(&region->devices); /* last: the regions are in its domains */
}

/* ---- caller ranges --------------------------------------------------------------------------- */

/* The place of our kind among the keys of a range. */
static struct mc_memreg_key *key_of(struct mc_memreg_range *range)
{
    static atomic_uint kind_plus_one;
    unsigned kind = atomic_load_explicit(&kind_plus_one, memory_order_relaxed);

    if (kind == 0) {
        const struct mc_transport_ops *const *kinds = mc_transport_kinds(&kind);

        while (kind > 0 && kinds[kind - 1] != &mc_transport_rdma) {
            kind--;
        }
        atomic_store_explicit(&kind_plus_one, kind, memory_order_relaxed);
    }
    MC_ASSERT(kind > 0);
    return &range->keys[kind - 1];
}

static void release_region(void *data)
{
    struct mc_rdma_region *region = data;

    mc_rdma_region_fini(region);
    mc_free(region);
}

static mooncake_err fill_region(struct mc_rdma_region *region, struct mc_memreg_range *range,
                                const struct mc_verbs *verbs, const struct mc_rdma_port *ports,
                                unsigned ports_count)
{
    void *at = (void *)range->base;

    for (unsigned i = 0; i < ports_count; i++) {
        if (region->mrs[ports[i].device->index] == NULL) {
            MC_TRY(mc_rdma_region_add(region, verbs, ports[i].device, at, (size_t)range->len));
        }
    }
    if (!region->placed) {
        region->placed = true; /* a system call, and where it tells nothing it never will */
        region->numa_node = mc_rdma_numa_node_of(at);
    }
    return MOONCAKE_OK;
}

static mooncake_err create_region(struct mc_memreg_key *key, const struct mc_verbs *verbs,
                                  struct mc_rdma_region **out)
{
    struct mc_rdma_region *region = mc_calloc(1, sizeof(*region));
    mooncake_err err;

    if (region == NULL) {
        return MOONCAKE_ENOMEM;
    }
    err = mc_rdma_devices_open(&region->devices);
    if (err != MOONCAKE_OK) {
        mc_free(region);
        return err;
    }
    region->verbs = verbs;
    region->numa_node = -1;
    key->data = region;
    key->release = release_region;
    *out = region;
    return MOONCAKE_OK;
}

static mooncake_err get_region(struct mc_memreg_range *range, const struct mc_verbs *verbs,
                               const struct mc_rdma_port *ports, unsigned ports_count,
                               uint64_t again_ns, struct mc_rdma_region **out)
{
    struct mc_memreg_key *key = key_of(range);
    struct mc_rdma_region *region;
    mooncake_err err = MOONCAKE_OK;

    (void)pthread_mutex_lock(&ranges_mutex);
    region = key->data;
    if (region == NULL) {
        err = create_region(key, verbs, &region);
    } else if (region->failed_ns > 0 && mc_monotonic_ns() < region->failed_ns + again_ns) {
        err = mc_err_set(MOONCAKE_EUNAVAILABLE, "rdma: registering has failed a moment ago");
    }
    if (err == MOONCAKE_OK) {
        err = fill_region(region, range, verbs, ports, ports_count);
        region->failed_ns = err == MOONCAKE_OK ? 0 : mc_monotonic_ns();
    }
    (void)pthread_mutex_unlock(&ranges_mutex);
    if (err == MOONCAKE_OK) {
        *out = region;
    }
    return err;
}

mooncake_err mc_rdma_range_region(struct mc_memreg_range *range, const struct mc_verbs *verbs,
                                  const struct mc_rdma_port *ports, unsigned ports_count,
                                  struct mc_rdma_region **out)
{
    return get_region(range, verbs, ports, ports_count, 0, out);
}

mooncake_err mc_rdma_range_region_soon(struct mc_memreg_range *range, const struct mc_verbs *verbs,
                                       const struct mc_rdma_port *ports, unsigned ports_count,
                                       struct mc_rdma_region **out)
{
    return get_region(range, verbs, ports, ports_count, MC_RDMA_REGISTER_AGAIN_NS, out);
}

/* ---- segments -------------------------------------------------------------------------------- */

struct mc_rdma_segment {
    const struct mc_verbs *verbs;
    uint8_t *base;
    uint64_t len, part_len;
    unsigned parts;
    struct mc_rdma_device *devices[MC_RDMA_PORTS_MAX];
    unsigned devices_count;
    struct ibv_mr *mrs[MC_RDMA_PORTS_MAX][MC_RDMA_PARTS_MAX]; /* by position in devices */

    /* While it is being made. */
    uint64_t progress_ns;
    atomic_uint next; /* job: device position x parts + part */
    _Atomic uint64_t done_len;
    _Atomic uint64_t said_ns;
    pthread_mutex_t mutex;
    mooncake_err err; /* the first error, guarded by mutex, as is the next */
    char detail[512];
};

static void note_error(struct mc_rdma_segment *segment, mooncake_err err)
{
    (void)pthread_mutex_lock(&segment->mutex);
    if (segment->err == MOONCAKE_OK) {
        segment->err = err;
        (void)snprintf(segment->detail, sizeof(segment->detail), "%s", mooncake_last_error());
    }
    (void)pthread_mutex_unlock(&segment->mutex);
}

static void say_progress(struct mc_rdma_segment *segment, uint64_t len)
{
    uint64_t done = atomic_fetch_add(&segment->done_len, len) + len;
    uint64_t said_ns = atomic_load(&segment->said_ns);
    uint64_t now_ns = mc_monotonic_ns();

    if (now_ns - said_ns >= segment->progress_ns &&
        atomic_compare_exchange_strong(&segment->said_ns, &said_ns, now_ns)) {
        mc_log_info("rdma.registering", "done_bytes=%llu of_bytes=%llu devices=%u",
                    (unsigned long long)done,
                    (unsigned long long)(segment->len * segment->devices_count),
                    segment->devices_count);
    }
}

static void *register_parts(void *arg)
{
    struct mc_rdma_segment *segment = arg;
    const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    const unsigned jobs = segment->parts * segment->devices_count;

    for (unsigned job = atomic_fetch_add(&segment->next, 1); job < jobs;
         job = atomic_fetch_add(&segment->next, 1)) {
        unsigned device = job / segment->parts;
        unsigned part = job % segment->parts;
        uint64_t at = part * segment->part_len;
        uint64_t len =
            segment->len - at < segment->part_len ? segment->len - at : segment->part_len;
        mooncake_err err =
            register_range(segment->verbs, segment->devices[device], segment->base + at,
                           (size_t)len, access, &segment->mrs[device][part]);

        if (err != MOONCAKE_OK) {
            note_error(segment, err);
            atomic_store(&segment->next, jobs); /* the others need not begin */
        } else {
            say_progress(segment, len);
        }
    }
    return NULL;
}

static void run_threads(struct mc_rdma_segment *segment)
{
    pthread_t threads[THREADS_MAX];
    unsigned jobs = segment->parts * segment->devices_count;
    unsigned count = 0;

    while (count + 1 < jobs && count + 1 < THREADS_MAX &&
           pthread_create(&threads[count], NULL, register_parts, segment) == 0) {
        count++;
    }
    (void)register_parts(segment); /* this thread helps; alone, if need be */
    for (unsigned i = 0; i < count; i++) {
        (void)pthread_join(threads[i], NULL);
    }
}

static void cut_parts(struct mc_rdma_segment *segment, uint64_t part_len_min)
{
    uint64_t part_len = (segment->len - 1) / MC_RDMA_PARTS_MAX + 1;

    part_len = (part_len + PART_ALIGN - 1) / PART_ALIGN * PART_ALIGN;
    segment->part_len = part_len < part_len_min ? part_len_min : part_len;
    segment->parts = (unsigned)((segment->len - 1) / segment->part_len + 1);
    MC_ASSERT(segment->parts <= MC_RDMA_PARTS_MAX);
}

static void add_device(struct mc_rdma_segment *segment, struct mc_rdma_device *device)
{
    for (unsigned i = 0; i < segment->devices_count; i++) {
        if (segment->devices[i] == device) {
            return; /* two ports of one device share the registration */
        }
    }
    segment->devices[segment->devices_count++] = device;
}

/* The first error, and what all parts together need: each device counts for itself. */
static mooncake_err refuse_segment(const struct mc_rdma_segment *segment)
{
    char whole[32];

    if (segment->parts * segment->devices_count == 1) {
        return mc_err_set(segment->err, "%s", segment->detail);
    }
    (void)mc_format_size(segment->len, whole, sizeof(whole));
    return mc_err_set(segment->err, "%s (the segment needs %llu bytes: %s with each of %u devices)",
                      segment->detail, (unsigned long long)(segment->len * segment->devices_count),
                      whole, segment->devices_count);
}

mooncake_err mc_rdma_segment_create(const struct mc_verbs *verbs, const struct mc_rdma_port *ports,
                                    unsigned ports_count, uint8_t *base, uint64_t len,
                                    const struct mc_rdma_segment_options *options,
                                    struct mc_rdma_segment **out)
{
    const uint32_t progress_ms = options->progress_ms == 0 ? PROGRESS_MS : options->progress_ms;
    struct mc_rdma_segment *segment = mc_calloc(1, sizeof(*segment));
    uint64_t begun_ns = mc_monotonic_ns();
    mooncake_err err;

    MC_ASSERT(len > 0 && len < (uint64_t)1 << 62 && ports_count > 0);
    if (segment == NULL) {
        return MOONCAKE_ENOMEM;
    }
    segment->verbs = verbs;
    segment->base = base;
    segment->len = len;
    segment->progress_ns = progress_ms * MC_NS_PER_MS;
    (void)pthread_mutex_init(&segment->mutex, NULL);
    atomic_store(&segment->said_ns, begun_ns);
    for (unsigned i = 0; i < ports_count; i++) {
        add_device(segment, ports[i].device);
    }
    cut_parts(segment, options->part_len_min == 0 ? PART_LEN_MIN : options->part_len_min);
    run_threads(segment);
    if (segment->err != MOONCAKE_OK) {
        err = refuse_segment(segment);
        mc_rdma_segment_destroy(&segment);
        return err;
    }
    mc_log_info("rdma.registered", "bytes=%llu devices=%u parts=%u ms=%llu",
                (unsigned long long)len, segment->devices_count, segment->parts,
                (unsigned long long)((mc_monotonic_ns() - begun_ns) / MC_NS_PER_MS));
    *out = segment;
    return MOONCAKE_OK;
}

void mc_rdma_segment_destroy(struct mc_rdma_segment **segment_ptr)
{
    struct mc_rdma_segment *segment = *segment_ptr;

    if (segment == NULL) {
        return;
    }
    for (unsigned i = 0; i < segment->devices_count; i++) {
        for (unsigned k = 0; k < segment->parts; k++) {
            if (segment->mrs[i][k] != NULL) {
                (void)segment->verbs->deregister_mr(segment->mrs[i][k]);
            }
        }
    }
    (void)pthread_mutex_destroy(&segment->mutex);
    mc_free(segment);
    *segment_ptr = NULL;
}

const uint8_t *mc_rdma_segment_base(const struct mc_rdma_segment *segment)
{
    return segment->base;
}

void mc_rdma_segment_answer(const struct mc_rdma_segment *segment,
                            const struct mc_rdma_device *device, struct mc_rdma_answer *out)
{
    unsigned position = 0;

    while (position < segment->devices_count && segment->devices[position] != device) {
        position++;
    }
    MC_ASSERT(position < segment->devices_count);
    *out = (struct mc_rdma_answer){.base = (uintptr_t)segment->base,
                                   .len = segment->len,
                                   .part_len = segment->part_len,
                                   .parts = segment->parts};
    for (unsigned i = 0; i < segment->parts; i++) {
        out->keys[i] = segment->mrs[position][i]->rkey;
    }
}

/*
 * The pool in one line: for /metrics/summary and, each 10 s, for the log, in the words that people
 * know from the C++ Mooncake.
 *
 * Who reads a log at night wants to see what changed and when. So the log gets the line when it
 * differs from the last one; a pool in which nothing happens gets one line in ten minutes, which
 * says that the master was alive.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/option.h"
#include "master/master_metrics.h"

#define IDLE_NS_MAX (600u * (uint64_t)MC_NS_PER_S)

/* A line that grows; what does not fit is left out. */
struct line {
    char *text;
    size_t len, cap;
};

static void MC_PRINTF(2, 3) add(struct line *line, const char *fmt, ...)
{
    va_list args;
    int len;

    va_start(args, fmt);
    len = vsnprintf(line->text + line->len, line->cap - line->len, fmt, args);
    va_end(args);
    if (len > 0) {
        size_t left = line->cap - line->len - 1;

        line->len += (size_t)len < left ? (size_t)len : left;
    }
}

static double percent(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0.0 : 100.0 * (double)part / (double)whole;
}

/* "PutStart=3/4": items that went well, of all. */
static void add_method(struct line *line, const struct mc_master_rpc_metrics *rpc,
                       enum mc_method method, const char *name, bool last)
{
    const struct mc_method_metrics *m = &rpc->methods[method];
    uint64_t items = mc_method_items(m);

    add(line, "%s=%" PRIu64 "/%" PRIu64 "%s", name, items - mc_method_failed_items(m), items,
        last ? "" : ", ");
}

static void add_requests(struct line *line, const struct mc_master_rpc_metrics *rpc)
{
    static const struct {
        enum mc_method method;
        const char *name;
    } kinds[] = {
        {MC_METHOD_PUT_START, "PutStart"},   {MC_METHOD_PUT_END, "PutEnd"},
        {MC_METHOD_PUT_REVOKE, "PutRevoke"}, {MC_METHOD_QUERY, "Get"},
        {MC_METHOD_EXIST, "Exist"},          {MC_METHOD_REMOVE, "Del"},
        {MC_METHOD_REMOVE_ALL, "DelAll"},
    };
    size_t i;

    add(line, " | Requests (Success/Total): ");
    for (i = 0; i < MC_ARRAY_LEN(kinds); i++) {
        add_method(line, rpc, kinds[i].method, kinds[i].name, i + 1 == MC_ARRAY_LEN(kinds));
    }
}

void mc_master_summary_print(struct mc_master *master, char *out, size_t cap)
{
    const struct mc_core_metrics *m = mc_core_metrics(master->core);
    struct line line = {.text = out, .cap = cap};
    struct mc_pool_status_reply status;
    uint64_t gets, lookups;
    char a[16], b[16];

    mc_core_pool_status(master->core, &status);
    lookups = status.hits + status.misses;
    gets = mc_counter_get(&m->query_hits) + mc_counter_get(&m->query_misses);
    add(&line, "Mem Storage: %s / %s (%.1f%%) | SSD Storage: 0B / 0B",
        mc_format_size(status.used, a, sizeof(a)), mc_format_size(status.capacity, b, sizeof(b)),
        percent(status.used, status.capacity));
    add(&line, " | Keys: %" PRIu64 " (soft-pinned: %" PRIi64 ") | Unfinished puts: %" PRIu64,
        status.keys, mc_gauge_get(&m->soft_pinned_keys), status.unfinished_puts);
    add(&line, " | Segments: %" PRIu64 " | Stores: %" PRIu64 " | Clients: %" PRIu64,
        status.segments, status.stores, status.clients);
    add_requests(&line, mc_master_requests(master));
    add(&line, " | Hits: %" PRIu64 " / %" PRIu64 " (%.1f%%), valid_get_rate=%.1f%%", status.hits,
        lookups, percent(status.hits, lookups), percent(mc_counter_get(&m->query_hits), gets));
    add(&line, " | Eviction: Success/Attempts=%" PRIu64 "/%" PRIu64 ", keys=%" PRIu64 ", size=%s",
        mc_counter_get(&m->evictions_successful), mc_counter_get(&m->evictions_attempted),
        status.evicted_keys, mc_format_size(status.evicted_bytes, a, sizeof(a)));
    add(&line, " | Puts rejected: %" PRIu64 " | Discard: Released/Total=%" PRIu64 "/%" PRIu64,
        status.put_rejected, mc_counter_get(&m->put_released), mc_counter_get(&m->put_taken_over));
    add(&line, " | Puts of existing keys: %" PRIu64, mc_counter_get(&m->put_exists));
}

static void log_summary(void *arg)
{
    struct mc_master *master = arg;
    uint64_t now_ns = mc_monotonic_ns();
    char line[MC_SUMMARY_LEN_MAX];

    mc_master_summary_print(master, line, sizeof(line));
    if (strcmp(line, master->summary_line) == 0 && now_ns - master->summary_ns < IDLE_NS_MAX) {
        return;
    }
    memcpy(master->summary_line, line, sizeof(line));
    master->summary_ns = now_ns;
    mc_log_info("master.summary", "text=\"%s\"", line);
}

mooncake_err mc_master_summary_start(struct mc_master *master, uint64_t interval_ms)
{
    if (interval_ms == 0) {
        return MOONCAKE_OK;
    }
    MC_TRY(mc_timer_create(master->loop, log_summary, master, &master->summary));
    mc_timer_set(master->summary, interval_ms, interval_ms);
    return MOONCAKE_OK;
}

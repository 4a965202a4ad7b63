/* top: the pool as it works, drawn anew each second; not on a terminal one line each time. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ctl.h"
#include "output.h"

#define INTERVAL_MS 1000u
#define HEAD_EVERY 20u /* lines */

struct view {
    const struct mc_ctl *ctl;
    mooncake_pool_status before, now;
    uint64_t before_ms, now_ms;
    struct mc_table *table; /* of the stores; a terminal's */
    json_t *segments;
    uint64_t lines;
};

static uint64_t clock_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void pause_ms(uint64_t ms)
{
    const struct timespec pause = {.tv_sec = (time_t)(ms / 1000),
                                   .tv_nsec = (long)(ms % 1000) * 1000000};

    (void)nanosleep(&pause, NULL);
}

/* A counter's growth in a second. It begins anew with a new master. */
static double rate(const struct view *view, uint64_t before, uint64_t now)
{
    uint64_t ms = view->now_ms > view->before_ms ? view->now_ms - view->before_ms : 1;

    if (now < before || view->before.master_epoch != view->now.master_epoch) {
        return 0;
    }
    return (double)(now - before) * 1000 / (double)ms;
}

static void add_segment(void *arg, const mooncake_segment_status *s)
{
    struct view *view = arg;
    char numbers[3][MC_NUMBER_CAP];

    if (view->segments != NULL) {
        json_t *item = mc_json_object();

        mc_json_set(item, "name", mc_json_text(s->name));
        mc_json_set(item, "state", mc_json_text(s->state));
        mc_json_set(item, "len", mc_json_number(s->len));
        mc_json_set(item, "used", mc_json_number(s->used));
        mc_json_append(view->segments, item);
        return;
    }
    mc_table_add(view->table, (const char *const[]){
                                  s->name,
                                  s->host,
                                  s->state,
                                  mc_format_size(s->len, numbers[0]),
                                  mc_format_size(s->used, numbers[1]),
                                  mc_format_share(s->used, s->len, numbers[2]),
                              });
}

static mooncake_err look(struct view *view)
{
    view->now.struct_size = sizeof(view->now);
    view->now_ms = clock_ms();
    return mooncake_admin_status(view->ctl->client, view->ctl->timeout_ms, &view->now);
}

struct rates {
    double gets, puts, evictions, rejected;
    uint64_t hits, lookups; /* of the interval */
};

static struct rates rates_of(const struct view *view)
{
    const mooncake_pool_status *a = &view->before, *b = &view->now;
    bool same = a->master_epoch == b->master_epoch;

    return (struct rates){
        .gets = rate(view, a->gets, b->gets),
        .puts = rate(view, a->puts, b->puts),
        .evictions = rate(view, a->evicted_keys, b->evicted_keys),
        .rejected = rate(view, a->put_rejected, b->put_rejected),
        .hits = same ? b->hits - a->hits : b->hits,
        .lookups = same ? b->hits + b->misses - a->hits - a->misses : b->hits + b->misses,
    };
}

static mooncake_err print_json(struct view *view)
{
    const struct rates r = rates_of(view);
    json_t *object = mc_json_object();
    mooncake_err err;

    view->segments = mc_json_array();
    err = mooncake_admin_segments(view->ctl->client, view->ctl->timeout_ms, add_segment, view);
    mc_json_set(object, "interval_ms", mc_json_number(view->now_ms - view->before_ms));
    mc_json_set(object, "hit_ratio",
                r.lookups == 0 ? json_null() : json_real((double)r.hits / (double)r.lookups));
    mc_json_set(object, "gets_per_s", json_real(r.gets));
    mc_json_set(object, "puts_per_s", json_real(r.puts));
    mc_json_set(object, "evicted_keys_per_s", json_real(r.evictions));
    mc_json_set(object, "rejected_puts_per_s", json_real(r.rejected));
    mc_json_set(object, "keys", mc_json_number(view->now.keys));
    mc_json_set(object, "used", mc_json_number(view->now.used));
    mc_json_set(object, "capacity", mc_json_number(view->now.capacity));
    mc_json_set(object, "segments", view->segments);
    mc_json_print_line(object);
    return err;
}

static void print_row(struct view *view)
{
    const struct rates r = rates_of(view);
    char text[3][MC_NUMBER_CAP];

    if (view->lines++ % HEAD_EVERY == 0) {
        (void)printf("%8s %10s %10s %10s %10s %12s %12s %8s\n", "HITS", "GETS/S", "PUTS/S",
                     "EVICT/S", "REJECT/S", "KEYS", "USED", "SHARE");
    }
    (void)printf("%8s %10.1f %10.1f %10.1f %10.1f %12" PRIu64 " %12s %8s\n",
                 mc_format_share(r.hits, r.lookups, text[0]), r.gets, r.puts, r.evictions,
                 r.rejected, view->now.keys, mc_format_size(view->now.used, text[1]),
                 mc_format_share(view->now.used, view->now.capacity, text[2]));
}

static mooncake_err draw(struct view *view)
{
    static const char *const heads[] = {"SEGMENT", "HOST", "STATE", ">SIZE", ">USED", ">SHARE"};
    char up[MC_NUMBER_CAP];
    mooncake_err err;

    view->table = mc_table_create(heads, sizeof(heads) / sizeof(heads[0]));
    err = mooncake_admin_segments(view->ctl->client, view->ctl->timeout_ms, add_segment, view);
    if (err == MOONCAKE_OK) {
        (void)fputs("\x1b[H\x1b[J", stdout);
        mc_print_text(stdout, view->now.master_program);
        (void)printf(", up %s; Ctrl-C ends\n\n", mc_format_duration(view->now.uptime_ms, up));
        view->lines = 0;
        print_row(view);
        (void)fputc('\n', stdout);
        mc_table_print(view->table);
    }
    mc_table_destroy(&view->table);
    return err;
}

static mooncake_err show(struct view *view)
{
    mooncake_err err = MOONCAKE_OK;

    if (view->ctl->json) {
        err = print_json(view);
    } else if (mc_is_terminal()) {
        err = draw(view);
    } else {
        print_row(view);
    }
    return err;
}

enum mc_exit mc_cmd_top(struct mc_ctl *ctl)
{
    struct view view = {.ctl = ctl};
    uint64_t interval_ms = ctl->interval_ms != 0 ? ctl->interval_ms : INTERVAL_MS;
    mooncake_err err = look(&view);

    for (uint64_t i = 0; err == MOONCAKE_OK && (ctl->count == 0 || i < ctl->count); i++) {
        view.before = view.now;
        view.before_ms = view.now_ms;
        pause_ms(interval_ms);
        err = look(&view);
        if (err == MOONCAKE_OK) {
            err = show(&view);
        }
        if (fflush(stdout) != 0) {
            break; /* nobody reads any more; main tells why */
        }
    }
    return err == MOONCAKE_OK ? MC_EXIT_OK : mc_fail(ctl, err, "cannot watch the pool");
}

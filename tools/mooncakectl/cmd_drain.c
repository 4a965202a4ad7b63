/*
 * drain: take a store out of placement, wait until nobody uses what it holds, say what would be
 * lost with it. Ctrl-C puts it back.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ctl.h"
#include "output.h"
#include "store_name.h"

#define WAIT_MS (10u * 60 * 1000)
#define LOOK_EVERY_MS 250
#define BAR_WIDTH 30
/* Keys that are named; all are counted. */
#define KEYS_SHOWN 20u

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

static bool is_interrupted(void *arg)
{
    (void)arg;
    return interrupted != 0;
}

static uint64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

struct drain {
    struct mc_ctl *ctl;
    struct mc_store_segments store;
    mooncake_drain_status status;
    mooncake_sole_keys sole;
    uint64_t busy_most; /* the bar's full length */
    json_t *keys;
    uint64_t keys_shown;
};

static uint64_t busy(const mooncake_drain_status *s)
{
    return s->leased + s->reading + s->writing;
}

static mooncake_err drain_call(struct drain *drain, mooncake_drain_action action)
{
    drain->status.struct_size = sizeof(drain->status);
    return mooncake_admin_drain(drain->ctl->client, drain->store.mount_ids, drain->store.count,
                                action, 0, &drain->status);
}

/* ---- keys without another copy --------------------------------------------------------------- */

static bool keep_key(void *arg, const char *key, size_t key_len)
{
    struct drain *drain = arg;

    if (drain->keys != NULL) {
        mc_json_append(drain->keys, mc_json_bytes(key, key_len));
        return true;
    }
    if (drain->keys_shown++ == 0) {
        (void)printf("\nonly here:\n");
    }
    (void)fputs("  ", stdout);
    mc_print_bytes(stdout, key, key_len);
    (void)fputc('\n', stdout);
    return true;
}

/* Counts, and with @p named the keys. */
static mooncake_err look_for_sole(struct drain *drain, bool named)
{
    const struct mc_ctl *ctl = drain->ctl;
    uint64_t keys_max = ctl->limit != 0 ? ctl->limit : KEYS_SHOWN;

    drain->sole.struct_size = sizeof(drain->sole);
    return mooncake_admin_sole_keys(ctl->client, drain->store.mount_ids, drain->store.count,
                                    named ? keys_max : 0, WAIT_MS, keep_key, drain, &drain->sole);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void draw_bar(struct drain *drain)
{
    uint64_t left = busy(&drain->status);
    char size[MC_NUMBER_CAP];
    char bar[BAR_WIDTH + 1];
    size_t full;

    if (!mc_is_terminal() || drain->ctl->json) {
        return;
    }
    drain->busy_most = left > drain->busy_most ? left : drain->busy_most;
    full = drain->busy_most == 0
               ? BAR_WIDTH
               : (size_t)((double)(drain->busy_most - left) * BAR_WIDTH / (double)drain->busy_most);
    (void)memset(bar, '.', BAR_WIDTH);
    (void)memset(bar, '#', full);
    bar[BAR_WIDTH] = '\0';
    (void)printf("\r\x1b[K[%s] %s in use; Ctrl-C cancels", bar, mc_format_size(left, size));
    (void)fflush(stdout);
}

static void end_bar(const struct drain *drain)
{
    if (mc_is_terminal() && !drain->ctl->json) {
        (void)fputs("\r\x1b[K", stdout);
    }
}

/* Until nobody uses what is there: OK. Or ETIMEDOUT, ECANCELED, or what the master says. */
static mooncake_err wait_until_unused(struct drain *drain)
{
    uint64_t patience = drain->ctl->timeout_ms != 0 ? drain->ctl->timeout_ms : WAIT_MS;
    uint64_t end_ms = now_ms() + patience;
    const struct timespec pause = {.tv_nsec = LOOK_EVERY_MS * 1000000L};
    mooncake_err err = MOONCAKE_OK;

    while (busy(&drain->status) > 0) {
        draw_bar(drain);
        (void)nanosleep(&pause, NULL);
        if (interrupted != 0) {
            err = MOONCAKE_ECANCELED;
        } else if (now_ms() >= end_ms) {
            err = MOONCAKE_ETIMEDOUT;
        } else {
            err = drain_call(drain, MOONCAKE_DRAIN_LOOK);
        }
        if (err != MOONCAKE_OK) {
            break;
        }
    }
    end_bar(drain);
    return err;
}

/* ---- telling --------------------------------------------------------------------------------- */

static void print_json(const struct drain *drain, bool done)
{
    const mooncake_drain_status *s = &drain->status;
    json_t *object = mc_json_object();

    mc_json_set(object, "store", mc_json_text(drain->ctl->words[0]));
    mc_json_set(object, "segments", mc_json_number(drain->store.count));
    mc_json_set(object, "draining", mc_json_number(s->draining));
    mc_json_set(object, "unused", json_boolean(done));
    mc_json_set(object, "used", mc_json_number(s->used));
    mc_json_set(object, "leased", mc_json_number(s->leased));
    mc_json_set(object, "reading", mc_json_number(s->reading));
    mc_json_set(object, "writing", mc_json_number(s->writing));
    mc_json_set(object, "hard_pinned", mc_json_number(s->hard_pinned));
    mc_json_set(object, "keys", mc_json_number(drain->sole.keys));
    mc_json_set(object, "bytes", mc_json_number(drain->sole.bytes));
    mc_json_set(object, "sole_keys", mc_json_number(drain->sole.sole_keys));
    mc_json_set(object, "sole_bytes", mc_json_number(drain->sole.sole_bytes));
    mc_json_set(object, "only_here", json_incref(drain->keys));
    mc_json_print(object);
}

static enum mc_exit tell_end(struct drain *drain)
{
    const struct mc_ctl *ctl = drain->ctl;
    bool done = busy(&drain->status) == 0;
    char text[4][MC_NUMBER_CAP];
    mooncake_err err;

    drain->keys = ctl->json ? mc_json_array() : NULL;
    if (!ctl->json) {
        (void)printf(done ? "drained: nobody uses what is there\n"
                          : "still in use: %s leased, %s being written; it stays draining\n",
                     mc_format_size(drain->status.leased + drain->status.reading, text[0]),
                     mc_format_size(drain->status.writing, text[1]));
    }
    err = look_for_sole(drain, true);
    if (err != MOONCAKE_OK) {
        return mc_fail(ctl, err, "cannot tell which keys have their only copy there");
    }
    if (ctl->json) {
        print_json(drain, done);
        json_decref(drain->keys);
        return done ? MC_EXIT_OK : MC_EXIT_NO;
    }
    if (drain->sole.sole_keys > drain->keys_shown) {
        (void)printf("  ... and %s more (--limit)\n",
                     mc_format_count(drain->sole.sole_keys - drain->keys_shown, text[0]));
    }
    (void)printf("%skeys       %s, %s\nonly here  %s, %s: readable until the store leaves, lost "
                 "with it\n",
                 drain->keys_shown > 0 ? "\n" : "", mc_format_count(drain->sole.keys, text[0]),
                 mc_format_size(drain->sole.bytes, text[1]),
                 mc_format_count(drain->sole.sole_keys, text[2]),
                 mc_format_size(drain->sole.sole_bytes, text[3]));
    return done ? MC_EXIT_OK : MC_EXIT_NO;
}

static enum mc_exit cancel(struct drain *drain)
{
    mooncake_err err;

    mooncake_set_interrupt(NULL, NULL);
    err = drain_call(drain, MOONCAKE_DRAIN_CANCEL);
    if (err != MOONCAKE_OK) {
        return mc_fail(drain->ctl, err, "cannot take \"%.80s\" back into use",
                       drain->ctl->words[0]);
    }
    if (drain->ctl->json) {
        json_t *object = mc_json_object();

        mc_json_set(object, "store", mc_json_text(drain->ctl->words[0]));
        mc_json_set(object, "segments", mc_json_number(drain->store.count));
        mc_json_set(object, "draining", mc_json_number(drain->status.draining));
        mc_json_print(object);
    } else {
        (void)printf("cancelled: new data is placed there again\n");
    }
    return MC_EXIT_OK;
}

static enum mc_exit drain_and_wait(struct drain *drain)
{
    const struct sigaction catch = {.sa_handler = on_interrupt};
    struct sigaction before;
    enum mc_exit status;
    mooncake_err err;

    (void)sigaction(SIGINT, &catch, &before);
    mooncake_set_interrupt(is_interrupted, NULL);
    err = drain_call(drain, MOONCAKE_DRAIN_BEGIN);
    if (err == MOONCAKE_OK && !drain->ctl->json) {
        (void)printf("nothing new is placed on %zu segment%s\n", drain->store.count,
                     drain->store.count == 1 ? "" : "s");
        (void)fflush(stdout);
    }
    if (err == MOONCAKE_OK) {
        err = wait_until_unused(drain);
    }
    if (interrupted != 0) {
        status = cancel(drain);
        status = status == MC_EXIT_OK ? MC_EXIT_NO : status;
    } else if (err != MOONCAKE_OK && err != MOONCAKE_ETIMEDOUT) {
        status = mc_fail(drain->ctl, err, "the drain of \"%.80s\" did not come to its end",
                         drain->ctl->words[0]);
    } else {
        status = tell_end(drain);
    }
    (void)sigaction(SIGINT, &before, NULL);
    mooncake_set_interrupt(NULL, NULL);
    return status;
}

enum mc_exit mc_cmd_drain(struct mc_ctl *ctl)
{
    struct drain drain = {.ctl = ctl};
    enum mc_exit status = mc_store_find(ctl, ctl->words[0], &drain.store);

    if (status != MC_EXIT_OK) {
        return status;
    }
    return ctl->cancel ? cancel(&drain) : drain_and_wait(&drain);
}

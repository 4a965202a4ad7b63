/* Formats a line, applies the call site's rate limit, writes it with one call. */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"

#define LINE_LEN_MAX 1024
/* Kept free at the end of a line for " left_out=4294967295". */
#define TAIL_LEN_MAX 24
#define EVENT_LEN_MAX 64
#define PER_WINDOW_MAX 5u
#define WINDOW_NS MC_NS_PER_S

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mc_log_sink sink_fn;
static void *sink_arg;
static _Atomic int level_now = MC_LOG_WARN;

void mc_log_set_sink(mc_log_sink sink, void *arg)
{
    (void)pthread_mutex_lock(&lock);
    sink_fn = sink;
    sink_arg = arg;
    (void)pthread_mutex_unlock(&lock);
}

void mc_log_set_level(enum mc_log_level level)
{
    atomic_store_explicit(&level_now, (int)level, memory_order_relaxed);
}

enum mc_log_level mc_log_level(void)
{
    return (enum mc_log_level)atomic_load_explicit(&level_now, memory_order_relaxed);
}

int mc_log_level_from_text(const char *text)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};

    for (int i = 0; i < (int)MC_ARRAY_LEN(names); i++) {
        if (strcmp(text, names[i]) == 0) {
            return i;
        }
    }
    return strcmp(text, "off") == 0 ? (int)MC_LOG_OFF : -2;
}

/* May this line go out? On true, *left_out is how many were suppressed before it. */
static bool admit(struct mc_log_site *site, uint32_t *left_out)
{
    uint64_t now = mc_monotonic_ns();
    uint64_t start = atomic_load_explicit(&site->window_start_ns, memory_order_relaxed);

    *left_out = 0;
    /* Another thread may have begun a window after we asked for the time: now < start. */
    if (now > start && now - start >= WINDOW_NS &&
        atomic_compare_exchange_strong(&site->window_start_ns, &start, now)) {
        atomic_store_explicit(&site->in_window, 0, memory_order_relaxed);
        *left_out = atomic_exchange(&site->left_out, 0);
    }
    if (atomic_fetch_add_explicit(&site->in_window, 1, memory_order_relaxed) < PER_WINDOW_MAX) {
        return true;
    }
    (void)atomic_fetch_add_explicit(&site->left_out, 1, memory_order_relaxed);
    return false;
}

static size_t format_time(char *out, size_t cap)
{
    uint64_t us = mc_wall_us();
    time_t seconds = (time_t)(us / 1000000u);
    struct tm tm;
    size_t len;

    (void)gmtime_r(&seconds, &tm);
    len = strftime(out, cap, "%Y-%m-%dT%H:%M:%S", &tm);
    return len + (size_t)snprintf(out + len, cap - len, ".%06uZ", (unsigned)(us % 1000000u));
}

void mc_log_write_(struct mc_log_site *site, enum mc_log_level level, const char *event,
                   const char *fmt, ...)
{
    char line[LINE_LEN_MAX];
    const size_t text_cap = sizeof(line) - TAIL_LEN_MAX;
    uint32_t left_out;
    size_t len;
    va_list args;

    if (!admit(site, &left_out)) {
        return;
    }
    len = format_time(line, sizeof(line));
    len += (size_t)snprintf(line + len, text_cap - len, " %c %.*s ", "EWID"[(int)level],
                            EVENT_LEN_MAX, event);
    va_start(args, fmt);
    (void)vsnprintf(line + len, text_cap - len, fmt, args);
    va_end(args);
    mc_text_hide_controls(line + len);
    len += strlen(line + len);
    if (left_out > 0) {
        len += (size_t)snprintf(line + len, sizeof(line) - len, " left_out=%u", left_out);
    }
    MC_ASSERT(len < sizeof(line));
    (void)pthread_mutex_lock(&lock);
    if (sink_fn != NULL) {
        sink_fn(sink_arg, level, line);
    } else {
        line[len] = '\n';
        (void)!write(STDERR_FILENO, line, len + 1);
    }
    (void)pthread_mutex_unlock(&lock);
}

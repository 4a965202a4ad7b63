/*
 * One event, one line, logfmt: time, level letter, module.event, then key=value pairs.
 *
 *     mc_log_warn("stream.closed", "peer=%s err=%s", peer, mooncake_err_name(err));
 *
 * E = somebody must act; W = we coped; I = life cycle; D = each transition. The event's name is
 * constant. Each call site prints at most 5 lines a second and then says how many it left out.
 */
#ifndef MC_BASE_LOG_H
#define MC_BASE_LOG_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"

enum mc_log_level {
    MC_LOG_ERROR,
    MC_LOG_WARN,
    MC_LOG_INFO,
    MC_LOG_DEBUG,
    MC_LOG_OFF = -1,
};

/** Where a finished line (without newline) goes. Called with the log's lock held. */
typedef void (*mc_log_sink)(void *arg, enum mc_log_level level, const char *line);

/** Send lines to @p sink instead of standard error; NULL restores that. At start-up only. */
void mc_log_set_sink(mc_log_sink sink, void *arg);
/** Print events up to @p level. Any thread. The start value is INFO in daemons, WARN elsewhere. */
void mc_log_set_level(enum mc_log_level level);
enum mc_log_level mc_log_level(void);
/** "error" | "warn" | "info" | "debug" | "off"; -2 for anything else. */
int mc_log_level_from_text(const char *text);

/* State of one call site's rate limit. */
struct mc_log_site {
    _Atomic uint64_t window_start_ns;
    _Atomic uint32_t in_window;
    _Atomic uint32_t left_out;
};

void mc_log_write_(struct mc_log_site *site, enum mc_log_level level, const char *event,
                   const char *fmt, ...) MC_PRINTF(4, 5);

#define MC_LOG_(level, event, ...)                                                                 \
    do {                                                                                           \
        static struct mc_log_site log_site_;                                                       \
        if ((int)(level) <= (int)mc_log_level()) {                                                 \
            mc_log_write_(&log_site_, (level), (event), __VA_ARGS__);                              \
        }                                                                                          \
    } while (0)

#define mc_log_error(event, ...) MC_LOG_(MC_LOG_ERROR, event, __VA_ARGS__)
#define mc_log_warn(event, ...) MC_LOG_(MC_LOG_WARN, event, __VA_ARGS__)
#define mc_log_info(event, ...) MC_LOG_(MC_LOG_INFO, event, __VA_ARGS__)
#define mc_log_debug(event, ...) MC_LOG_(MC_LOG_DEBUG, event, __VA_ARGS__)

#endif

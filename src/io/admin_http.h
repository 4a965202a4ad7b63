/*
 * Admin HTTP: a route table on libmicrohttpd. The library's thread parses; handlers run on the
 * owner's loop, so they may read the owner's objects without a lock. A request whose loop does not
 * answer in time gets 503; a route marked `anywhere` is answered without asking the loop.
 */
#ifndef MC_IO_ADMIN_HTTP_H
#define MC_IO_ADMIN_HTTP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "io/loop.h"

struct mc_admin_http;
struct mc_admin_request;

/** Query parameter, or NULL. Percent-decoded. Valid until the handler returns. */
const char *mc_admin_param(const struct mc_admin_request *request, const char *name);
/** Body bytes (POST, PUT), at most 1 MiB. */
const struct mc_buf *mc_admin_body(const struct mc_admin_request *request);

/** An answer that is made in slices: append the next part to @p out; *more false ends it. Runs on
 * the owner's loop, a few milliseconds at most a call. */
typedef mooncake_err (*mc_admin_part)(void *state, struct mc_buf *out, bool *more);

struct mc_admin_reply {
    unsigned status;          /* HTTP status; 200 at entry */
    const char *content_type; /* static; "text/plain; charset=utf-8" at entry */
    const char *policy;       /* static; Content-Security-Policy of a page, NULL at entry: none */
    struct mc_buf body;       /* filled by the handler */
    /* Optional: further parts after body; state is freed by part_free (always called once). */
    mc_admin_part part;
    void *part_state;
    void (*part_free)(void *state);
    /* Set by a handler that cannot answer yet: the reply and the request then live on until
     * mc_admin_answer(), which must come exactly once. Not for routes that run anywhere. */
    bool later;
};

/** The reply of a handler that set later is complete. On the owner's loop, also from inside the
 * handler, and also when the server has been closed meanwhile: then nobody hears the answer. */
void mc_admin_answer(struct mc_admin_reply *reply);

struct mc_admin_route {
    const char *method; /* "GET" */
    const char *path;   /* exact: "/metrics" */
    const char *help;   /* one sentence; shown by GET / */
    void (*handle)(void *arg, const struct mc_admin_request *request, struct mc_admin_reply *reply);
    bool anywhere;       /* runs on the HTTP thread: for liveness and what never changes */
    const char *params;  /* query parameters, shown by GET /: "key=KEY"; NULL: none */
    uint32_t timeout_ms; /* deadline of this route; 0: that of the server */
};

/**
 * Serve @p routes (borrowed) on @p port (0: the kernel picks) of @p host ("0.0.0.0"). `GET /`
 * lists them by itself; unknown paths get 404, wrong methods 405, large bodies 413, a busy loop
 * 503 after @p timeout_ms. At most 64 connections; of more, the one that has done nothing for the
 * longest time is closed, and the newcomer only if all are being answered.
 *
 * @retval ERPC  the port is taken: the sentence names it
 */
mooncake_err mc_admin_http_open(struct mc_loop *loop, const char *host, uint16_t port,
                                const struct mc_admin_route *routes, size_t count, void *arg,
                                uint32_t timeout_ms, struct mc_admin_http **out) MC_MUST_CHECK;
uint16_t mc_admin_http_port(const struct mc_admin_http *http);
/** Ends after requests under way; the loop must still run or be owned by the caller's thread: then
 * waiting requests get 503. Nulls *http. */
void mc_admin_http_close(struct mc_admin_http **http);

/** Fill @p reply with {"success":false,"error_code":..,"error_message":..} and the HTTP status that
 * docs list for @p err. */
void mc_admin_reply_error(struct mc_admin_reply *reply, mooncake_err err, const char *message);

#endif

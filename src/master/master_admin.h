/*
 * The admin HTTP pages among themselves: ways to answer, and the handlers that the route table in
 * master_admin.c names. Each handler's argument is the struct mc_master; each runs on the core's
 * loop and grants no lease.
 */
#ifndef MC_MASTER_MASTER_ADMIN_H
#define MC_MASTER_MASTER_ADMIN_H

#include <jansson.h>

#include "master/master_impl.h"

/* ---- answers (master_admin_reply.c) --------------------------------------------------------- */

/** @p json is consumed; NULL stands for no memory. */
void mc_page_json(struct mc_admin_reply *reply, json_t *json);
/** The same without an end of the line, at the end of @p out. Consumes; ENOMEM. */
mooncake_err mc_page_json_append(struct mc_buf *out, json_t *json) MC_MUST_CHECK;
void mc_page_text(struct mc_admin_reply *reply, const char *text);
/** @p err, with the thread's sentence if it has one. */
void mc_page_error(struct mc_admin_reply *reply, mooncake_err err);
/** A key on a line of its own: line ends and backslashes as \xHH. */
mooncake_err mc_page_key_line(struct mc_buf *out, const struct mc_key *key) MC_MUST_CHECK;
/** A key as JSON text; bytes that are no UTF-8 as \xHH. NULL: no memory. */
json_t *mc_page_key_json(const char *key);
/** A parameter that must be there; else the answer is 400 and this NULL. */
const char *mc_page_param(const struct mc_admin_request *request, struct mc_admin_reply *reply,
                          const char *name, const char *example);
/** The tenant of a request: there is one, "default". False: answered with 404. */
bool mc_page_tenant_ok(const struct mc_admin_request *request, struct mc_admin_reply *reply);

/* One part of a list: the items from *cursor on, which is 0 at the start and after the last. They
 * are counted in *count, which says whether a comma must come first. */
typedef mooncake_err (*mc_page_items)(struct mc_core *core, struct mc_arena *arena,
                                      uint64_t *cursor, size_t *count, struct mc_buf *out);
/** Answer with a list, a part at a time: as JSON {"NAME":[...],"total_NAME":N}, or, where @p name
 * is NULL, as text. */
void mc_page_list(struct mc_master *master, struct mc_admin_reply *reply, const char *name,
                  mc_page_items items);

/* ---- handlers ------------------------------------------------------------------------------- */

#define MC_ADMIN_HANDLER_LIST(X)                                                                   \
    /* master_admin_keys.c */                                                                      \
    X(query_key)                                                                                   \
    X(batch_query_keys)                                                                            \
    X(all_keys)                                                                                    \
    X(remove_all)                                                                                  \
    /* master_admin_clients.c */                                                                   \
    X(clients_detail)                                                                              \
    /* master_admin_segments.c */                                                                  \
    X(all_segments)                                                                                \
    X(segments_detail)                                                                             \
    X(query_segment)                                                                               \
    X(segment_status)                                                                              \
    /* master_admin_drain.c */                                                                     \
    X(drain_create)                                                                                \
    X(drain_query)                                                                                 \
    X(drain_cancel)

#define MC_ADMIN_DECLARE_(name)                                                                    \
    void mc_page_##name(void *arg, const struct mc_admin_request *request,                         \
                        struct mc_admin_reply *reply);
MC_ADMIN_HANDLER_LIST(MC_ADMIN_DECLARE_)
#undef MC_ADMIN_DECLARE_

#endif

/* A question of an operator to the master, with an answer that outlives its engine. */
#ifndef MC_CLIENT_ADMIN_IMPL_H
#define MC_CLIENT_ADMIN_IMPL_H

#include "client/api.h"

#define MC_ADMIN_ARENA_MAX ((size_t)64 << 20)

struct mc_question {
    enum mc_method method;
    const void *request;
    void *reply;
    struct mc_ask ask;
    mooncake_err err;
    bool done;
};

/** The deadline of a call that asks several questions. EINVAL without a client or callback. */
mooncake_err mc_admin_begin(const mooncake_client *client, uint32_t timeout_ms, bool callback_given,
                            uint64_t *out_deadline_ns) MC_MUST_CHECK;
/** Ask; the reply lives in @p arena, which is the caller's. */
mooncake_err mc_admin_ask(mooncake_client *client, uint64_t deadline_ns,
                          struct mc_question *question, struct mc_arena *arena,
                          const char *what) MC_MUST_CHECK;

#endif

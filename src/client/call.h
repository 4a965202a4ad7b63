/*
 * What every public call is made of: the frame around it (is the client usable, which engine, which
 * deadline), questions to the master, and the sentence that the caller gets.
 */
#ifndef MC_CLIENT_CALL_H
#define MC_CLIENT_CALL_H

#include "base/clock.h"
#include "client/client_impl.h"
#include "client/engine.h"

/* ---- the frame --------------------------------------------------------------------------- */

struct mc_call {
    mooncake_client *client;
    struct mc_engine *engine;
    uint64_t deadline_ns;
    mooncake_err late; /* verdict of what is not done by the deadline: ETIMEDOUT, or ECANCELED */
    /* The sentence about the latest failure worth telling; "" if there is none. */
    char note[400];
};

/**
 * Begin a public call: forget the thread's sentence, check that the client can be used, borrow an
 * engine. Errors are those that every call may return; then there is nothing to end.
 */
mooncake_err mc_call_begin(mooncake_client *client, uint32_t timeout_ms,
                           struct mc_call *call) MC_MUST_CHECK;
/** Give the engine back. Sets the thread's sentence for @p err: the note, or else @p what and the
 * error's text; none if err is OK. Returns err. */
mooncake_err mc_call_end(struct mc_call *call, const char *what, mooncake_err err);

/** The same without an engine, for calls that need none. */
mooncake_err mc_client_enter(mooncake_client *client) MC_MUST_CHECK;
void mc_client_leave(mooncake_client *client);

/** Run the engine's loop until *done, else call->late: at the deadline, or when the thread's
 * interrupt hook asks for it, which then has moved the deadline to now. */
mooncake_err mc_call_run(struct mc_call *call, const bool *done) MC_MUST_CHECK;
bool mc_call_expired(const struct mc_call *call);
/** Keep a sentence for the end of the call. */
void mc_call_note(struct mc_call *call, const char *fmt, ...) MC_PRINTF(2, 3);

/* ---- keys -------------------------------------------------------------------------------- */

/** EINVAL for NULL, EBADKEY for a key that is empty or too long. */
mooncake_err mc_key_from_text(const char *text, struct mc_key *out) MC_MUST_CHECK;
/** A key as it appears in a sentence: cut, and with bytes that are no text replaced. */
const char *mc_key_print(const struct mc_key *key, char *out, size_t cap);

/* ---- questions to the master ------------------------------------------------------------- */

/* One question; asked again once if the connection was lost and asking twice does no harm. The
 * request and what it points to must stay until done. */
struct mc_ask {
    struct mc_master_call master_call;
    struct mc_call *call;
    enum mc_method method;
    const void *request;
    void *reply;
    bool repeatable, repeated, under_way;
    void (*done)(struct mc_ask *ask, mooncake_err err);
    void *arg; /* the asker's */
};

/** Ask; done runs exactly once, from the loop or, on an error at once, from here. The reply lives
 * in @p arena. */
void mc_ask_start(struct mc_ask *ask, struct mc_call *call, struct mc_arena *arena);
/** The deadline has come: done does not run any more, the call's note says who was waited for.
 * Harmless if nothing is under way. */
void mc_ask_time_out(struct mc_ask *ask);
/** Ask and wait for the answer. */
mooncake_err mc_ask_wait(struct mc_call *call, enum mc_method method, const void *request,
                         void *reply) MC_MUST_CHECK;

#endif

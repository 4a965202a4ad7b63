/* The frame around a public call, and questions to the master. */
#include "client/call.h"
#include "client/report.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/interrupt.h"

/* ---- the frame --------------------------------------------------------------------------- */

mooncake_err mc_client_enter(mooncake_client *client)
{
    bool closing;

    mc_err_clear();
    if (client == NULL) {
        return mc_err_set(MOONCAKE_EINVAL, "client: is NULL");
    }
    /* Before any lock: in a forked child a lock may be held by a thread that is not here. */
    if (client->fork_generation != mc_fork_generation()) {
        return mc_err_set(MOONCAKE_EUNAVAILABLE,
                          "this client was opened before a fork; open another in the child");
    }
    (void)pthread_mutex_lock(&client->lock);
    closing = client->closing;
    if (!closing) {
        client->calls++;
    }
    (void)pthread_mutex_unlock(&client->lock);
    return closing ? mc_err_set(MOONCAKE_EUNAVAILABLE, "the client is closing") : MOONCAKE_OK;
}

void mc_client_leave(mooncake_client *client)
{
    (void)pthread_mutex_lock(&client->lock);
    MC_ASSERT(client->calls > 0);
    client->calls--;
    if (client->calls == 0 && client->closing) {
        (void)pthread_cond_broadcast(&client->idle);
    }
    (void)pthread_mutex_unlock(&client->lock);
}

mooncake_err mc_call_begin(mooncake_client *client, uint32_t timeout_ms, struct mc_call *call)
{
    mooncake_err err;

    MC_TRY(mc_client_enter(client));
    call->client = client;
    call->note[0] = '\0';
    call->late = MOONCAKE_ETIMEDOUT;
    call->deadline_ns =
        mc_deadline_ns(mc_monotonic_ns(), timeout_ms == 0 ? client->timeout_ms : timeout_ms);
    err = mc_engine_borrow(&client->engines, call->deadline_ns, &call->engine);
    if (err != MOONCAKE_OK) {
        mc_client_leave(client);
    }
    return err;
}

mooncake_err mc_call_end(struct mc_call *call, const char *what, mooncake_err err)
{
    mc_report_flush(call);
    mc_engine_return(&call->client->engines, &call->engine);
    mc_client_leave(call->client);
    if (err == MOONCAKE_OK) {
        mc_err_clear(); /* what went wrong on the way was mended */
    } else if (err == MOONCAKE_ECANCELED) {
        (void)mc_err_set(err, "%s: ended early because this thread's interrupt hook asked for it",
                         what);
    } else if (call->note[0] != '\0') {
        (void)mc_err_set(err, "%s: %s", what, call->note);
    } else {
        (void)mc_err_set(err, "%s: %s", what, mooncake_err_text(err));
    }
    return err;
}

mooncake_err mc_call_run(struct mc_call *call, const bool *done)
{
    while (!*done) {
        uint64_t until_ns = mc_interrupt_slice_ns(call->deadline_ns);

        if (mc_loop_run_until(call->engine->loop, done, until_ns) == MOONCAKE_OK) {
            break;
        }
        if (!mc_call_expired(call) && mc_interrupt_asked()) {
            call->deadline_ns = mc_monotonic_ns();
            call->late = MOONCAKE_ECANCELED;
        }
        if (mc_call_expired(call)) {
            return call->late;
        }
    }
    return MOONCAKE_OK;
}

bool mc_call_expired(const struct mc_call *call)
{
    return mc_monotonic_ns() >= call->deadline_ns;
}

void mc_call_note(struct mc_call *call, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(call->note, sizeof(call->note), fmt, args);
    va_end(args);
}

/* ---- keys -------------------------------------------------------------------------------- */

mooncake_err mc_key_from_text(const char *text, struct mc_key *out)
{
    size_t len;

    if (text == NULL) {
        return mc_err_set(MOONCAKE_EINVAL, "key: is NULL");
    }
    len = strnlen(text, MC_KEY_LEN_MAX + 1);
    if (len == 0 || len > MC_KEY_LEN_MAX) {
        return mc_err_set(MOONCAKE_EBADKEY, "key: %s; allowed are 1 to %u bytes",
                          len == 0 ? "is empty" : "is too long", MC_KEY_LEN_MAX);
    }
    *out = (struct mc_key){.bytes = text, .len = (uint32_t)len};
    return MOONCAKE_OK;
}

const char *mc_key_print(const struct mc_key *key, char *out, size_t cap)
{
    size_t len = key->len < cap - 1 ? key->len : cap - 1;

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)key->bytes[i];

        out[i] = isprint(c) ? (char)c : '?';
    }
    out[len] = '\0';
    if (len < key->len && cap > 4) {
        memcpy(out + cap - 4, "...", 4);
    }
    return out;
}

/* ---- questions to the master ------------------------------------------------------------- */

static void note_failure(struct mc_ask *ask, mooncake_err err)
{
    struct mc_call *call = ask->call;
    const char *address = call->client->master;
    char detail[sizeof(call->note)];

    (void)snprintf(detail, sizeof(detail), "%s", mooncake_last_error());
    switch ((int)err) {
    case MOONCAKE_ERPC:
        if (detail[0] != '\0') { /* it names the address, and what to check */
            mc_call_note(call, "master: %s", detail);
        } else {
            mc_call_note(call,
                         "master %s: the connection was lost; does mooncake_master run there?",
                         address);
        }
        break;
    case MOONCAKE_ETIMEDOUT:
        mc_call_note(call, "master %s did not answer %s before the deadline", address,
                     mc_method_name((unsigned)ask->method));
        break;
    default:
        mc_call_note(call, "%s", detail[0] != '\0' ? detail : mooncake_err_text(err));
        break;
    }
}

static void finish_ask(struct mc_ask *ask, mooncake_err err)
{
    ask->under_way = false;
    if (err != MOONCAKE_OK) {
        note_failure(ask, err);
    }
    ask->done(ask, err);
}

static void on_answer(struct mc_master_call *master_call, mooncake_err err);

static mooncake_err send_ask(struct mc_ask *ask, struct mc_arena *arena)
{
    struct mc_engine *engine = ask->call->engine;

    mc_master_call_init(&ask->master_call, arena, ask->call->deadline_ns, on_answer, ask);
    MC_TRY(mc_master_call_start(engine->stub.rpc, &ask->master_call, ask->method, ask->request,
                                ask->reply));
    mc_rpc_client_flush(engine->stub.rpc);
    return MOONCAKE_OK;
}

static void on_answer(struct mc_master_call *master_call, mooncake_err err)
{
    struct mc_ask *ask = master_call->arg;

    /* A connection that died while the engine lay idle shows only when it is used. */
    if (err == MOONCAKE_ERPC && master_call->rpc.maybe_executed && ask->repeatable &&
        !ask->repeated && !mc_call_expired(ask->call)) {
        ask->repeated = true;
        err = send_ask(ask, master_call->arena);
        if (err == MOONCAKE_OK) {
            return;
        }
    }
    finish_ask(ask, err);
}

void mc_ask_start(struct mc_ask *ask, struct mc_call *call, struct mc_arena *arena)
{
    mooncake_err err;

    MC_ASSERT(!ask->under_way);
    ask->call = call;
    ask->repeated = false;
    ask->under_way = true;
    err = send_ask(ask, arena);
    if (err != MOONCAKE_OK) {
        finish_ask(ask, err);
    }
}

void mc_ask_time_out(struct mc_ask *ask)
{
    if (ask->under_way) {
        mc_master_call_cancel(ask->call->engine->stub.rpc, &ask->master_call);
        ask->under_way = false;
        note_failure(ask, MOONCAKE_ETIMEDOUT);
    }
}

struct waiter {
    struct mc_ask ask;
    mooncake_err err;
    bool done;
};

static void on_waited(struct mc_ask *ask, mooncake_err err)
{
    struct waiter *waiter = ask->arg;

    waiter->err = err;
    waiter->done = true;
}

mooncake_err mc_ask_wait(struct mc_call *call, enum mc_method method, const void *request,
                         void *reply)
{
    struct waiter waiter = {.ask = {.method = method,
                                    .request = request,
                                    .reply = reply,
                                    .repeatable = method != MC_METHOD_REMOVE_ALL,
                                    .done = on_waited}};
    mooncake_err err;

    waiter.ask.arg = &waiter;
    mc_ask_start(&waiter.ask, call, &call->engine->arena);
    err = mc_call_run(call, &waiter.done);
    if (err != MOONCAKE_OK) {
        mc_ask_time_out(&waiter.ask);
        return err;
    }
    return waiter.err;
}

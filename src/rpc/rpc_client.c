/*
 * Calls to one daemon: their books, deadlines and ends. The connection is rpc_link.c's.
 *
 * Design notes
 * - A call is in `calls` (by id and deadline) and in one of two lists: `held`, with its request in
 *   memory of its own, or `sent`.
 * - done may start, cancel and destroy anything. So lists are emptied from the front, and enter and
 *   leave keep the client's memory while a function further up the stack needs it.
 * - The timer is set when a deadline comes that is earlier than the one it waits for, and not
 *   cleared by answers: in steady state it costs nothing.
 */
#include "rpc/rpc_client.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/mem.h"
#include "io/address.h"
#include "rpc/rpc_client_impl.h"

#define CONNECT_TIMEOUT_MS 3000u
#define BACKOFF_MIN_MS 50u
#define BACKOFF_MAX_MS 2000u

/* ---- life ---------------------------------------------------------------------------------- */

static void free_client(struct mc_rpc_client *client)
{
    MC_ASSERT(client->calls.count == 0);
    mc_free(client);
}

void mc_rpc_client_enter(struct mc_rpc_client *client)
{
    client->busy++;
}

bool mc_rpc_client_leave(struct mc_rpc_client *client)
{
    MC_ASSERT(client->busy > 0);
    client->busy--;
    if (!client->destroyed) {
        return true;
    }
    if (client->busy == 0 && !client->lost_posted) {
        free_client(client);
    }
    return false;
}

static void deadline_fired(void *arg);
static void tell_lost(struct mc_post *post);

static mooncake_err check_address(const char *address)
{
    struct mc_address_parts parts;

    MC_TRY(mc_address_split(address, &parts));
    if (parts.port == 0 || strlen(address) >= MC_ADDR_LEN_MAX) {
        return mc_err_set(MOONCAKE_EINVAL,
                          "\"%.300s\" is not an address to connect to; write host:port", address);
    }
    return MOONCAKE_OK;
}

static void set_options(struct mc_rpc_client *client, const struct mc_rpc_client_options *options)
{
    struct mc_rpc_client_options *o = &client->options;

    *o = *options;
    o->connect_timeout_ms = o->connect_timeout_ms == 0 ? CONNECT_TIMEOUT_MS : o->connect_timeout_ms;
    o->backoff_min_ms = o->backoff_min_ms == 0 ? BACKOFF_MIN_MS : o->backoff_min_ms;
    o->backoff_max_ms = o->backoff_max_ms == 0 ? BACKOFF_MAX_MS : o->backoff_max_ms;
    if (o->backoff_max_ms < o->backoff_min_ms) {
        o->backoff_max_ms = o->backoff_min_ms;
    }
}

mooncake_err mc_rpc_client_create(struct mc_loop *loop, const char *address,
                                  const struct mc_rpc_client_options *options,
                                  struct mc_rpc_client **out)
{
    struct mc_rpc_client *client;
    mooncake_err err;

    MC_ASSERT_ON_LOOP(loop);
    MC_TRY(check_address(address));
    client = mc_calloc(1, sizeof(*client));
    if (client == NULL) {
        return MOONCAKE_ENOMEM;
    }
    client->loop = loop;
    set_options(client, options);
    (void)snprintf(client->address, sizeof(client->address), "%s", address);
    mc_rpc_calls_init(&client->calls);
    mc_list_init(&client->held);
    mc_list_init(&client->sent);
    mc_list_init(&client->lost);
    client->lost_post.run = tell_lost;
    client->armed_ns = UINT64_MAX;
    client->jitter = mc_random_u64();
    err = mc_timer_create(loop, deadline_fired, client, &client->deadline_timer);
    if (err != MOONCAKE_OK) {
        goto free_client;
    }
    err = mc_timer_create(loop, mc_rpc_link_timer, client, &client->attempt_timer);
    if (err != MOONCAKE_OK) {
        goto destroy_deadline_timer;
    }
    *out = client;
    return MOONCAKE_OK;

destroy_deadline_timer:
    mc_timer_destroy(&client->deadline_timer);
free_client:
    mc_free(client);
    return err;
}

void mc_rpc_client_destroy(struct mc_rpc_client **client_ptr)
{
    struct mc_rpc_client *client = *client_ptr;

    if (client == NULL) {
        return;
    }
    MC_ASSERT_ON_LOOP(client->loop);
    MC_ASSERT(!client->destroyed);
    *client_ptr = NULL;
    client->destroyed = true;
    client->state = MC_RPC_DOWN;
    mc_rpc_client_enter(client);
    mc_rpc_link_retire(client);
    mc_timer_destroy(&client->deadline_timer);
    mc_timer_destroy(&client->attempt_timer);
    for (;;) {
        struct mc_rpc_call *call = mc_rpc_calls_earliest(&client->calls);

        if (call == NULL) {
            break;
        }
        call->maybe_executed = call->held == NULL;
        mc_rpc_call_finish(client, call, MOONCAKE_ERPC,
                           "the connection was closed by this program");
    }
    (void)mc_rpc_client_leave(client);
}

/* ---- ends of calls ----------------------------------------------------------------------------
 */

static void drop_call(struct mc_rpc_client *client, struct mc_rpc_call *call)
{
    mc_rpc_calls_drop(&client->calls, call);
    mc_list_drop(&call->node);
    if (call->held != NULL) {
        client->held_len -= call->held_len;
        mc_free(call->held);
        call->held = NULL;
    }
}

void mc_rpc_call_finish(struct mc_rpc_client *client, struct mc_rpc_call *call, mooncake_err err,
                        const char *sentence)
{
    MC_ASSERT(err != MOONCAKE_OK);
    drop_call(client, call);
    (void)mc_err_set(err, "%s", sentence);
    call->done(call, err, NULL, 0);
}

void mc_rpc_calls_fail(struct mc_rpc_client *client, struct mc_list *list, mooncake_err err,
                       const char *sentence)
{
    while (!mc_list_empty(list)) {
        struct mc_rpc_call *call = mc_list_first(list, struct mc_rpc_call, node);

        call->maybe_executed = call->held == NULL;
        mc_rpc_call_finish(client, call, err, sentence);
    }
}

void mc_rpc_call_cancel(struct mc_rpc_client *client, struct mc_rpc_call *call)
{
    MC_ASSERT_ON_LOOP(client->loop);
    MC_ASSERT(mc_rpc_calls_find(&client->calls, call->request_id) == call);
    drop_call(client, call);
}

/* ---- deadlines --------------------------------------------------------------------------------
 */

static void arm(struct mc_rpc_client *client, uint64_t deadline_ns)
{
    if (deadline_ns >= client->armed_ns) {
        return;
    }
    client->armed_ns = deadline_ns;
    mc_timer_set(client->deadline_timer, mc_left_ms(mc_monotonic_ns(), deadline_ns), 0);
}

/* A peer that has been silent while calls waited for it is as good as gone: a new connection finds
 * out. (One call with a very short deadline is no proof.) */
static void judge_link(struct mc_rpc_client *client, uint64_t now_ns)
{
    struct mc_rpc_link *link = client->link;
    uint64_t patience_ns = client->options.connect_timeout_ms * MC_NS_PER_MS;

    if (client->state == MC_RPC_UP && now_ns - link->quiet_since_ns >= patience_ns) {
        mc_rpc_link_fail(link, "%s has not answered anything for %llu ms", client->address,
                         (unsigned long long)((now_ns - link->quiet_since_ns) / MC_NS_PER_MS));
    }
}

static void deadline_fired(void *arg)
{
    struct mc_rpc_client *client = arg;
    uint64_t now_ns = mc_monotonic_ns();
    char sentence[MC_RPC_TEXT_LEN_MAX];
    struct mc_rpc_call *call;

    client->armed_ns = UINT64_MAX;
    mc_rpc_client_enter(client);
    for (;;) {
        call = mc_rpc_calls_earliest(&client->calls);
        if (call == NULL || call->deadline_ns > now_ns || client->destroyed) {
            break;
        }
        call->maybe_executed = call->held == NULL;
        (void)snprintf(sentence, sizeof(sentence), "%s %s before the call's deadline",
                       client->address,
                       call->held == NULL ? "did not answer" : "could not be reached");
        if (call->held == NULL) {
            judge_link(client, now_ns);
        }
        mc_rpc_call_finish(client, call, MOONCAKE_ETIMEDOUT, sentence);
    }
    if (mc_rpc_client_leave(client) && call != NULL) {
        arm(client, call->deadline_ns);
    }
}

/* ---- beginnings of calls ----------------------------------------------------------------------
 */

static void encode_header(const struct mc_rpc_call *call, size_t body_len,
                          uint8_t out[MC_FRAME_LEN])
{
    const struct mc_frame frame = {
        .version = MC_PROTOCOL_MAX,
        .method = call->method,
        .request_id = call->request_id,
        .body_len = (uint32_t)body_len,
    };

    mc_frame_encode(&frame, out);
}

static mooncake_err check_room(const struct mc_rpc_client *client, size_t body_len)
{
    size_t queued = client->held_len;

    if (body_len > MC_RPC_BODY_LEN_MAX) {
        return mc_err_set(MOONCAKE_EINVAL, "a request has %zu bytes, at most %u are allowed",
                          body_len, MC_RPC_BODY_LEN_MAX);
    }
    if (client->calls.count >= MC_RPC_IN_FLIGHT_MAX) {
        return mc_err_set(MOONCAKE_ETASKQUEUE,
                          "%u calls to %s are under way; no more are allowed at once",
                          MC_RPC_IN_FLIGHT_MAX, client->address);
    }
    if (client->state == MC_RPC_UP) {
        queued += mc_stream_queued(client->link->stream);
    }
    if (queued > 0 && queued + MC_FRAME_LEN + body_len > MC_RPC_CLIENT_QUEUE_LEN_MAX) {
        return mc_err_set(MOONCAKE_ETASKQUEUE,
                          "%zu bytes wait to be sent to %s; no more than %zu may", queued,
                          client->address, MC_RPC_CLIENT_QUEUE_LEN_MAX);
    }
    return MOONCAKE_OK;
}

/* Keep the request until there is a connection. */
static mooncake_err hold(struct mc_rpc_client *client, struct mc_rpc_call *call,
                         const uint8_t header[MC_FRAME_LEN], const void *body, size_t body_len)
{
    call->held = mc_malloc(MC_FRAME_LEN + body_len);
    if (call->held == NULL) {
        return MOONCAKE_ENOMEM;
    }
    call->held_len = MC_FRAME_LEN + body_len;
    memcpy(call->held, header, MC_FRAME_LEN);
    if (body_len > 0) {
        memcpy(call->held + MC_FRAME_LEN, body, body_len);
    }
    client->held_len += call->held_len;
    mc_list_add_tail(&client->held, &call->node);
    return client->state == MC_RPC_DOWN ? mc_rpc_link_start(client) : MOONCAKE_OK;
}

static mooncake_err send_now(struct mc_rpc_client *client, struct mc_rpc_call *call,
                             const uint8_t header[MC_FRAME_LEN], const void *body, size_t body_len)
{
    struct mc_rpc_link *link = client->link;
    mooncake_err err;

    MC_TRY(mc_stream_send(link->stream, header, MC_FRAME_LEN, NULL, NULL));
    err = mc_stream_send(link->stream, body, body_len, NULL, NULL);
    if (err != MOONCAKE_OK) {
        /* Half a request is queued: this connection is of no use any more. */
        mc_rpc_link_fail(link, "out of memory for a request of %zu bytes", body_len);
        return err;
    }
    if (mc_list_empty(&client->sent)) {
        link->quiet_since_ns = mc_loop_now_ns(client->loop);
    }
    mc_list_add_tail(&client->sent, &call->node);
    return MOONCAKE_OK;
}

mooncake_err mc_rpc_call_start(struct mc_rpc_client *client, struct mc_rpc_call *call,
                               uint16_t method, const void *body, size_t body_len)
{
    uint8_t header[MC_FRAME_LEN];
    mooncake_err err = MOONCAKE_ERPC;

    MC_ASSERT_ON_LOOP(client->loop);
    MC_ASSERT(!client->destroyed);
    MC_ASSERT(call->done != NULL);
    MC_TRY(check_room(client, body_len));
    mc_list_init(&call->node);
    call->maybe_executed = false;
    call->held = NULL;
    call->held_len = 0;
    call->method = method;
    mc_rpc_calls_add(&client->calls, call);
    encode_header(call, body_len, header);
    if (client->state == MC_RPC_UP) {
        err = send_now(client, call, header, body, body_len);
    }
    if (err == MOONCAKE_ERPC) { /* down, or going down: the loop has not told us yet */
        err = hold(client, call, header, body, body_len);
    }
    if (err != MOONCAKE_OK) {
        drop_call(client, call);
        return err;
    }
    arm(client, call->deadline_ns);
    return MOONCAKE_OK;
}

void mc_rpc_client_send_held(struct mc_rpc_client *client)
{
    while (!mc_list_empty(&client->held) && client->state == MC_RPC_UP) {
        struct mc_rpc_call *call = mc_list_first(&client->held, struct mc_rpc_call, node);

        if (mc_stream_send(client->link->stream, call->held, call->held_len, NULL, NULL) !=
            MOONCAKE_OK) {
            mc_rpc_link_fail(client->link, "out of memory for a request of %zu bytes",
                             call->held_len);
            return;
        }
        client->held_len -= call->held_len;
        mc_free(call->held);
        call->held = NULL;
        mc_list_move_tail(&client->sent, &call->node);
    }
}

void mc_rpc_client_flush(struct mc_rpc_client *client)
{
    MC_ASSERT_ON_LOOP(client->loop);
    if (client->state == MC_RPC_UP) {
        mc_stream_flush(client->link->stream);
    }
}

/* ---- the address ------------------------------------------------------------------------------
 */

/* From the loop: tell what set_address() has cut off. */
static void tell_lost(struct mc_post *post)
{
    struct mc_rpc_client *client = MC_CONTAINER_OF(post, struct mc_rpc_client, lost_post);
    bool was_up = client->lost_was_up;

    client->lost_posted = false;
    client->lost_was_up = false;
    mc_rpc_client_enter(client);
    if (was_up && !client->destroyed && client->options.on_state != NULL) {
        client->options.on_state(client->options.arg, false);
    }
    mc_rpc_calls_fail(client, &client->lost, MOONCAKE_ERPC,
                      "the connection was given up for one to another address");
    (void)mc_rpc_client_leave(client);
}

mooncake_err mc_rpc_client_set_address(struct mc_rpc_client *client, const char *address)
{
    MC_ASSERT_ON_LOOP(client->loop);
    MC_TRY(check_address(address));
    if (strcmp(address, client->address) == 0) {
        return MOONCAKE_OK;
    }
    (void)snprintf(client->address, sizeof(client->address), "%s", address);
    mc_list_splice_tail(&client->lost, &client->sent);
    client->lost_was_up = client->lost_was_up || client->state == MC_RPC_UP;
    if (!client->lost_posted && (client->lost_was_up || !mc_list_empty(&client->lost))) {
        client->lost_posted = true;
        mc_loop_post(client->loop, &client->lost_post);
    }
    mc_rpc_link_retire(client);
    mc_timer_clear(client->attempt_timer);
    client->state = MC_RPC_DOWN;
    client->failures = 0;
    client->who_asked = false;
    client->who_found[0] = '\0';
    if (!mc_list_empty(&client->held)) {
        return mc_rpc_link_start(client);
    }
    return MOONCAKE_OK;
}

bool mc_rpc_client_is_up(const struct mc_rpc_client *client)
{
    return client->state == MC_RPC_UP;
}

const char *mc_rpc_client_address(const struct mc_rpc_client *client)
{
    return client->address;
}

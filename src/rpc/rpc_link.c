/*
 * A client's connection: attempts with back-off, Hello, answers, loss.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "rpc/rpc_client_impl.h"

/* So long it may take to find out who is there. */
#define WHO_MS_MAX 1000u

/* ---- ends ------------------------------------------------------------------------------------ */

void mc_rpc_link_fail(struct mc_rpc_link *link, const char *fmt, ...)
{
    va_list args;

    if (link->why[0] == '\0') {
        va_start(args, fmt);
        (void)vsnprintf(link->why, sizeof(link->why), fmt, args);
        va_end(args);
    }
    mc_stream_close(link->stream, MOONCAKE_ERPC);
}

void mc_rpc_link_retire(struct mc_rpc_client *client)
{
    struct mc_rpc_link *link = client->link;

    mc_rpc_who_stop(&client->who);
    if (link != NULL) {
        link->client = NULL;
        client->link = NULL;
        mc_stream_close(link->stream, MOONCAKE_OK);
    }
}

static void back_off(struct mc_rpc_client *client)
{
    const struct mc_rpc_client_options *o = &client->options;
    unsigned doublings = client->failures == 0 ? 0 : client->failures - 1;
    uint64_t delay_ms = (uint64_t)o->backoff_min_ms << (doublings < 16 ? doublings : 16);

    delay_ms = delay_ms < o->backoff_max_ms ? delay_ms : o->backoff_max_ms;
    /* xorshift64: clients that lost one master must not come back in step */
    client->jitter ^= client->jitter << 13;
    client->jitter ^= client->jitter >> 7;
    client->jitter ^= client->jitter << 17;
    delay_ms = delay_ms / 2 + client->jitter % (delay_ms / 2 + 1);
    client->state = MC_RPC_BACKING_OFF;
    mc_timer_set(client->attempt_timer, delay_ms, 0);
}

/* An attempt has failed: whoever waits for it hears so now, the next one comes after a pause. */
static void attempt_failed(struct mc_rpc_client *client, const char *sentence)
{
    struct mc_list waiting;

    mc_list_init(&waiting);
    mc_list_splice_tail(&waiting, &client->held);
    client->failures++;
    mc_log_debug("rpc.connect_failed", "peer=%s tries=%u why=\"%s\"", client->address,
                 client->failures, sentence);
    back_off(client);
    mc_rpc_calls_fail(client, &waiting, MOONCAKE_ERPC, sentence);
}

static void connection_lost(struct mc_rpc_client *client, const char *sentence)
{
    struct mc_list under_way;

    mc_list_init(&under_way);
    mc_list_splice_tail(&under_way, &client->sent);
    client->failures = 0;
    client->reconnect = true;
    mc_log_info("rpc.lost", "peer=%s why=\"%s\"", client->address, sentence);
    back_off(client);
    if (client->options.on_state != NULL) {
        client->options.on_state(client->options.arg, false);
    }
    mc_rpc_calls_fail(client, &under_way, MOONCAKE_ERPC, sentence);
}

static void who_answered(void *arg, const char *what)
{
    struct mc_rpc_client *client = arg;
    char sentence[MC_RPC_TEXT_LEN_MAX];

    client->who = NULL;
    if (what != NULL) {
        (void)snprintf(client->who_found, sizeof(client->who_found), "%s", what);
        (void)snprintf(sentence, sizeof(sentence), "%s: %s; " MC_RPC_WHERE_A_MASTER_IS,
                       client->address, what);
    } else {
        (void)snprintf(sentence, sizeof(sentence), "%s", client->who_why);
    }
    mc_rpc_client_enter(client);
    attempt_failed(client, sentence);
    (void)mc_rpc_client_leave(client);
}

/* Somebody listens there and is no master. Find out who, once, for as long as nothing else is known
 * of the address: a master that closes connections is not to be asked more than it is. */
static bool ask_who(struct mc_rpc_client *client, const char *sentence)
{
    uint64_t left_ms = mc_left_ms(mc_monotonic_ns(), client->attempt_deadline_ns);
    uint32_t patience_ms = left_ms < WHO_MS_MAX ? (uint32_t)left_ms : WHO_MS_MAX;

    if (client->who_asked || patience_ms == 0) {
        return false;
    }
    client->who_asked = true;
    (void)snprintf(client->who_why, sizeof(client->who_why), "%s", sentence);
    if (mc_rpc_who_start(client->loop, client->address, patience_ms, who_answered, client,
                         &client->who) != MOONCAKE_OK) {
        return false;
    }
    mc_timer_set(client->attempt_timer, patience_ms, 0);
    return true;
}

/* Why an attempt has failed. */
static void say_why(const struct mc_rpc_link *link, bool no_master, char *out, size_t cap)
{
    const struct mc_rpc_client *client = link->client;

    if (no_master && client->who_found[0] != '\0') {
        (void)snprintf(out, cap, "%s: %s; " MC_RPC_WHERE_A_MASTER_IS, client->address,
                       client->who_found);
    } else if (link->why[0] != '\0') {
        (void)snprintf(out, cap, "%s", link->why);
    } else if (client != NULL && client->state == MC_RPC_CONNECTING) {
        (void)snprintf(out, cap, "%.300s; %s", mooncake_last_error(),
                       link->hello_sent ? "it gave no answer to Hello: is this the RPC port? "
                                          "(option rpc_port of mooncake_master, 50051 unless it "
                                          "was changed)"
                                        : "does mooncake_master run there? (option --master)");
    } else {
        (void)snprintf(out, cap, "%s", mooncake_last_error());
    }
}

static void on_closed(void *arg, mooncake_err why)
{
    struct mc_rpc_link *link = arg;
    struct mc_rpc_client *client = link->client;
    char sentence[MC_RPC_TEXT_LEN_MAX];
    bool was_up, no_master;

    (void)why; /* ERPC in every case for a call; the sentence tells */
    no_master = client != NULL && client->state == MC_RPC_CONNECTING && link->hello_sent &&
                (link->why[0] == '\0' || link->strange);
    say_why(link, no_master, sentence, sizeof(sentence));
    mc_rpc_input_fini(&link->input);
    mc_free(link->scratch);
    mc_free(link);
    if (client == NULL) {
        return;
    }
    client->link = NULL;
    was_up = client->state == MC_RPC_UP;
    if (no_master && ask_who(client, sentence)) {
        return;
    }
    mc_rpc_client_enter(client);
    if (was_up) {
        connection_lost(client, sentence);
    } else {
        attempt_failed(client, sentence);
    }
    (void)mc_rpc_client_leave(client);
}

/* ---- beginnings ------------------------------------------------------------------------------ */

/* Hello's request id, as bytes: ends of lines. A server that reads text, such as our own admin
 * port, would wait for one, and we for it; so it refuses us at once. */
#define HELLO_REQUEST_ID 0x0a0d0a0d0a0d0a0du

static void on_connected(void *arg)
{
    struct mc_rpc_link *link = arg;
    struct mc_rpc_client *client = link->client;
    const struct mc_frame frame = {
        .version = MC_PROTOCOL_MAX,
        .method = client->options.hello_method,
        .request_id = HELLO_REQUEST_ID,
        .body_len = (uint32_t)client->options.hello_body_len,
    };
    uint8_t header[MC_FRAME_LEN];

    mc_frame_encode(&frame, header);
    if (mc_stream_send(link->stream, header, sizeof(header), NULL, NULL) != MOONCAKE_OK ||
        mc_stream_send(link->stream, client->options.hello_body, client->options.hello_body_len,
                       NULL, NULL) != MOONCAKE_OK) {
        mc_rpc_link_fail(link, "out of memory for Hello");
        return;
    }
    link->hello_sent = true;
    mc_timer_set(client->attempt_timer, mc_left_ms(mc_monotonic_ns(), client->attempt_deadline_ns),
                 0);
    mc_stream_flush(link->stream);
}

void mc_rpc_link_timer(void *arg)
{
    struct mc_rpc_client *client = arg;
    bool wanted = client->reconnect || !mc_list_empty(&client->held);

    if (client->who != NULL) {
        mc_rpc_who_stop(&client->who);
        who_answered(client, NULL);
        return;
    }
    if (client->state == MC_RPC_CONNECTING) {
        mc_rpc_link_fail(client->link,
                         "%s accepted the connection but said %s within %u ms: is it stopped or "
                         "overloaded, or is this not the master's RPC port (50051 unless it was "
                         "changed)?",
                         client->address, client->link->answered ? "no whole answer" : "nothing",
                         (unsigned)client->options.connect_timeout_ms);
        return;
    }
    if (client->state != MC_RPC_BACKING_OFF) {
        return;
    }
    client->state = MC_RPC_DOWN;
    if (wanted && mc_rpc_link_start(client) != MOONCAKE_OK) {
        mc_rpc_client_enter(client);
        attempt_failed(client, "out of memory for a connection");
        (void)mc_rpc_client_leave(client);
    }
}

/* ---- answers ----------------------------------------------------------------------------------
 */

/* The peer's sentence, made safe to print. */
static void copy_sentence(char *out, size_t cap, const uint8_t *body, size_t len)
{
    size_t n = len < cap - 1 ? len : cap - 1;

    if (n > 0) {
        memcpy(out, body, n);
    }
    out[n] = '\0';
    mc_text_hide_controls(out);
}

static void hello_answered(struct mc_rpc_link *link, const struct mc_frame *frame,
                           const uint8_t *body)
{
    struct mc_rpc_client *client = link->client;
    const struct mc_rpc_client_options *o = &client->options;
    char sentence[MC_FRAME_DETAIL_LEN_MAX + 1];

    if (frame->method != o->hello_method) {
        mc_rpc_link_fail(link, "%s answered Hello with message %u", client->address,
                         (unsigned)frame->method);
        return;
    }
    if (frame->status != MOONCAKE_OK) {
        copy_sentence(sentence, sizeof(sentence), body, frame->body_len);
        mc_rpc_link_fail(link, "%s refused the connection: %s", client->address,
                         sentence[0] != '\0' ? sentence
                                             : mooncake_err_text(mc_err_from_wire(frame->status)));
        return;
    }
    mc_err_clear();
    if (o->on_hello != NULL && o->on_hello(o->arg, body, frame->body_len) != MOONCAKE_OK) {
        if (link->client != NULL) {
            mc_rpc_link_fail(link, "%s cannot be used: %s", client->address, mooncake_last_error());
        }
        return;
    }
    if (link->client == NULL) {
        return;
    }
    client->state = MC_RPC_UP;
    client->who_asked = true; /* a master: whatever it does later, it is not to be asked */
    client->failures = 0;
    client->reconnect = false;
    mc_timer_clear(client->attempt_timer);
    link->quiet_since_ns = mc_loop_now_ns(client->loop);
    mc_log_debug("rpc.up", "peer=%s", client->address);
    if (o->on_state != NULL) {
        o->on_state(o->arg, true);
    }
    if (link->client != NULL) {
        mc_rpc_client_send_held(client);
    }
}

static void call_answered(struct mc_rpc_client *client, const struct mc_frame *frame,
                          const uint8_t *body)
{
    struct mc_rpc_call *call = mc_rpc_calls_find(&client->calls, frame->request_id);
    char sentence[MC_FRAME_DETAIL_LEN_MAX + 1];
    mooncake_err err = mc_err_from_wire(frame->status);

    if (call == NULL || call->held != NULL) {
        return; /* cancelled, or its deadline has passed */
    }
    if (err != MOONCAKE_OK) {
        copy_sentence(sentence, sizeof(sentence), body, frame->body_len);
        mc_rpc_call_finish(client, call, err, sentence);
        return;
    }
    mc_rpc_calls_drop(&client->calls, call);
    mc_list_drop(&call->node);
    call->done(call, MOONCAKE_OK, body, frame->body_len);
}

static unsigned on_space(void *arg, struct iovec *iov)
{
    struct mc_rpc_link *link = arg;
    unsigned count = 0;

    if (mc_rpc_input_space(&link->input, link->scratch, iov, &count) != MOONCAKE_OK) {
        mc_rpc_link_fail(link, "out of memory for an answer of %s", link->client->address);
    }
    return count;
}

/* One frame. False: the connection is of no interest any more. */
static bool take_frame(struct mc_rpc_link *link, const struct mc_frame *frame, const uint8_t *body)
{
    struct mc_rpc_client *client = link->client;

    if ((frame->flags & MC_FRAME_REPLY) == 0) {
        mc_rpc_link_fail(link, "%s sent a request where an answer was due", client->address);
    } else if (client->state == MC_RPC_CONNECTING) {
        hello_answered(link, frame, body);
    } else {
        call_answered(client, frame, body);
    }
    return link->client != NULL && mc_stream_is_connected(link->stream);
}

/* The first bytes of a connection. False: they are no frame's, and the link has failed. */
static bool check_first_bytes(struct mc_rpc_link *link, size_t len)
{
    const char *what = mc_rpc_who_begins(link->scratch, len);
    char words[MC_RPC_WHO_CAP];

    if (what == NULL && !mc_frame_may_begin(link->scratch, len) &&
        mc_rpc_who_words(link->scratch, len, words)) {
        what = words;
        link->strange = true; /* asked, it may still turn out to be somebody we know */
    }
    if (what != NULL) {
        mc_rpc_link_fail(link, "%s: %s; " MC_RPC_WHERE_A_MASTER_IS, link->client->address, what);
    }
    return what == NULL;
}

static void on_bytes(void *arg, size_t len)
{
    struct mc_rpc_link *link = arg;
    struct mc_rpc_client *client = link->client;
    struct mc_frame frame;
    const uint8_t *body;
    mooncake_err err;
    bool got;

    link->quiet_since_ns = mc_loop_now_ns(client->loop);
    if (!link->answered) {
        link->answered = true; /* nothing is held yet, so the bytes are in scratch */
        if (!check_first_bytes(link, len)) {
            return;
        }
    }
    mc_rpc_client_enter(client);
    mc_rpc_input_feed(&link->input, link->scratch, len);
    for (;;) {
        err = mc_rpc_input_next(&link->input, &frame, &body, &got);
        if (err != MOONCAKE_OK || !got) {
            err = err == MOONCAKE_OK ? mc_rpc_input_settle(&link->input) : err;
            break;
        }
        if (!take_frame(link, &frame, body)) {
            break;
        }
    }
    if (err == MOONCAKE_ENOMEM) {
        mc_rpc_link_fail(link, "out of memory for an answer of %s", client->address);
    } else if (err != MOONCAKE_OK) {
        link->strange = true;
        mc_rpc_link_fail(link,
                         "peer %s does not speak the Mooncake control protocol: is this the RPC "
                         "port? (%s)",
                         client->address, mooncake_last_error());
    }
    (void)mc_rpc_client_leave(client);
}

static const struct mc_stream_ops link_ops = {
    .on_connected = on_connected,
    .on_space = on_space,
    .on_bytes = on_bytes,
    .on_closed = on_closed,
};

mooncake_err mc_rpc_link_start(struct mc_rpc_client *client)
{
    uint32_t timeout_ms = client->options.connect_timeout_ms;
    struct mc_rpc_link *link = mc_calloc(1, sizeof(*link));
    mooncake_err err = MOONCAKE_ENOMEM;

    MC_ASSERT(client->link == NULL);
    if (link == NULL) {
        return MOONCAKE_ENOMEM;
    }
    mc_rpc_input_init(&link->input);
    link->client = client;
    link->scratch = mc_malloc(MC_RPC_SCRATCH_LEN);
    if (link->scratch == NULL) {
        goto free_link;
    }
    err = mc_stream_connect(client->loop, client->address, timeout_ms, &link_ops, link,
                            &link->stream);
    if (err != MOONCAKE_OK) {
        goto free_scratch;
    }
    client->attempt_deadline_ns = mc_deadline_ns(mc_monotonic_ns(), timeout_ms);
    client->state = MC_RPC_CONNECTING;
    client->link = link;
    return MOONCAKE_OK;

free_scratch:
    mc_free(link->scratch);
free_link:
    mc_free(link);
    return err;
}

/* See the header. The objects' side is in fake_objects.c. */
#include "client/fake_master.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "client/fake_objects.h"
#include "held_port.h"
#include "io/loop.h"
#include "rpc/rpc_server.h"

#define KEPT_MAX 256u

struct rule {
    enum fake_action action;
    unsigned times;
    mooncake_err status;
};

struct fake_master {
    struct mc_loop *loop;
    struct mc_rpc_server *server;
    uint16_t port;
    int held_fd; /* keeps the port while the server is closed */
    char address[32];

    pthread_mutex_t lock; /* everything below: the tests ask from their thread */
    struct rule rules[MC_METHOD_NUMBER_MAX + 1];
    unsigned seen[MC_METHOD_NUMBER_MAX + 1];
    struct fake_pool pool;

    struct mc_rpc_request *kept[KEPT_MAX]; /* loop's thread only, as are the next two */
    unsigned kept_count;
    struct mc_post lose;
    bool losing;
};

/* A piece of work for the loop's thread, and waiting for it. */
struct errand {
    struct mc_post post;
    struct fake_master *fake;
    void (*run)(struct fake_master *fake);
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool done;
};

static void on_errand(struct mc_post *post)
{
    struct errand *errand = MC_CONTAINER_OF(post, struct errand, post);

    errand->run(errand->fake);
    (void)pthread_mutex_lock(&errand->lock);
    errand->done = true;
    (void)pthread_cond_signal(&errand->cond);
    (void)pthread_mutex_unlock(&errand->lock);
}

static void send_on_errand(struct fake_master *fake, void (*run)(struct fake_master *fake))
{
    struct errand errand = {.post = {.run = on_errand}, .fake = fake, .run = run};

    (void)pthread_mutex_init(&errand.lock, NULL);
    (void)pthread_cond_init(&errand.cond, NULL);
    mc_loop_post(fake->loop, &errand.post);
    (void)pthread_mutex_lock(&errand.lock);
    while (!errand.done) {
        (void)pthread_cond_wait(&errand.cond, &errand.lock);
    }
    (void)pthread_mutex_unlock(&errand.lock);
    (void)pthread_cond_destroy(&errand.cond);
    (void)pthread_mutex_destroy(&errand.lock);
}

/* ---- serving ----------------------------------------------------------------------------- */

static mooncake_err on_hello(void *arg, struct mc_rpc_conn *conn, const uint8_t *body,
                             size_t body_len, struct mc_buf *out)
{
    struct fake_master *fake = arg;
    const struct mc_method_codec *codec = mc_method_codec(MC_METHOD_HELLO);
    struct mc_hello_reply reply = {.protocol = 1,
                                   .program = "fake_master",
                                   .master_epoch = fake->pool.epoch,
                                   .body_len_max = MC_RPC_BODY_LEN_MAX};

    (void)conn;
    (void)body;
    (void)body_len;
    return codec->encode_reply(&reply, out);
}

static void lose_now(struct fake_master *fake);

static void on_lose(struct mc_post *post)
{
    struct fake_master *fake = MC_CONTAINER_OF(post, struct fake_master, lose);

    fake->losing = false;
    lose_now(fake);
}

static void keep(struct fake_master *fake, struct mc_rpc_request *request)
{
    assert_true(fake->kept_count < KEPT_MAX);
    fake->kept[fake->kept_count++] = request;
}

static struct rule take_rule(struct fake_master *fake, unsigned method)
{
    struct rule *rule = &fake->rules[method];
    struct rule taken = {.action = FAKE_ANSWER};

    fake->seen[method]++;
    if (rule->times > 0) {
        rule->times--;
        taken = *rule;
    }
    return taken;
}

static void answer(struct fake_master *fake, struct mc_rpc_request *request, struct rule rule)
{
    const struct mc_method_codec *codec = mc_method_codec(request->method);
    union fake_message message, reply;
    struct mc_buf *out;
    mooncake_err err;

    memset(&reply, 0, sizeof(reply));
    err = codec->decode_request(request->body, request->body_len, request->arena, &message);
    if (err == MOONCAKE_OK) {
        err = fake_pool_handle(&fake->pool, request->method, &message, request->arena, &reply,
                               rule.action == FAKE_ITEM ? rule.status : MOONCAKE_OK);
    }
    if (rule.action == FAKE_LOSE) {
        keep(fake, request);
        if (!fake->losing) {
            fake->losing = true;
            fake->lose.run = on_lose;
            mc_loop_post(fake->loop, &fake->lose);
        }
        return;
    }
    out = mc_rpc_reply_buf(fake->server);
    if (err == MOONCAKE_OK) {
        err = codec->encode_reply(&reply, out);
    }
    mc_rpc_reply(request, err, mc_buf_bytes(out), mc_buf_len(out));
}

static void handle(void *arg, struct mc_rpc_request *request)
{
    struct fake_master *fake = arg;
    struct rule rule;

    (void)pthread_mutex_lock(&fake->lock);
    assert_true(request->method <= MC_METHOD_NUMBER_MAX);
    rule = take_rule(fake, request->method);
    switch (rule.action) {
    case FAKE_SILENT:
        keep(fake, request);
        break;
    case FAKE_REFUSE:
        mc_rpc_reply(request, mc_err_set(rule.status, "the fake refuses"), NULL, 0);
        break;
    case FAKE_ANSWER:
    case FAKE_LOSE:
    case FAKE_ITEM:
        answer(fake, request, rule);
        break;
    }
    (void)pthread_mutex_unlock(&fake->lock);
}

static const struct mc_rpc_server_ops server_ops = {
    .hello_method = MC_METHOD_HELLO, .on_hello = on_hello, .handle = handle};

static void open_server(struct fake_master *fake)
{
    char address[32];

    (void)snprintf(address, sizeof(address), "127.0.0.1:%u", (unsigned)fake->port);
    assert_int_equal(mc_rpc_server_open(fake->loop, address, &server_ops, fake, &fake->server),
                     MOONCAKE_OK);
}

/* Connections go first, so that the answers to what was kept go nowhere. */
static void close_server(struct fake_master *fake)
{
    if (fake->server != NULL) {
        mc_rpc_server_close(&fake->server);
    }
    while (fake->kept_count > 0) {
        mc_rpc_reply(fake->kept[--fake->kept_count], MOONCAKE_ERPC, NULL, 0);
    }
}

static void lose_now(struct fake_master *fake)
{
    close_server(fake);
    open_server(fake);
}

/* ---- what tests call --------------------------------------------------------------------- */

struct fake_master *fake_master_start(void)
{
    struct fake_master *fake = mc_calloc(1, sizeof(*fake));

    assert_non_null(fake);
    (void)pthread_mutex_init(&fake->lock, NULL);
    fake_pool_init(&fake->pool);
    assert_int_equal(mc_loop_create(0, &fake->loop), MOONCAKE_OK);
    mc_loop_adopt(fake->loop);
    fake->held_fd = held_port_open(&fake->port);
    open_server(fake);
    (void)snprintf(fake->address, sizeof(fake->address), "127.0.0.1:%u", (unsigned)fake->port);
    assert_int_equal(mc_loop_start(fake->loop, "fake-master"), MOONCAKE_OK);
    return fake;
}

void fake_master_stop(struct fake_master *fake)
{
    send_on_errand(fake, close_server);
    mc_loop_stop(fake->loop);
    mc_loop_adopt(fake->loop);
    mc_loop_destroy(&fake->loop);
    (void)close(fake->held_fd);
    fake_pool_fini(&fake->pool);
    (void)pthread_mutex_destroy(&fake->lock);
    mc_free(fake);
}

const char *fake_master_address(const struct fake_master *fake)
{
    return fake->address;
}

void fake_master_rule(struct fake_master *fake, enum mc_method method, enum fake_action action,
                      unsigned times, mooncake_err status)
{
    (void)pthread_mutex_lock(&fake->lock);
    fake->rules[method] = (struct rule){.action = action, .times = times, .status = status};
    (void)pthread_mutex_unlock(&fake->lock);
}

unsigned fake_master_seen(struct fake_master *fake, enum mc_method method)
{
    unsigned seen;

    (void)pthread_mutex_lock(&fake->lock);
    seen = fake->seen[method];
    (void)pthread_mutex_unlock(&fake->lock);
    return seen;
}

static void restart(struct fake_master *fake)
{
    close_server(fake);
    (void)pthread_mutex_lock(&fake->lock);
    fake_pool_fini(&fake->pool);
    fake_pool_init(&fake->pool);
    (void)pthread_mutex_unlock(&fake->lock);
    open_server(fake);
}

void fake_master_restart(struct fake_master *fake)
{
    send_on_errand(fake, restart);
}

void fake_master_listen(struct fake_master *fake, bool listen)
{
    send_on_errand(fake, listen ? open_server : close_server);
}

struct fake_pool *fake_master_lock_pool(struct fake_master *fake)
{
    (void)pthread_mutex_lock(&fake->lock);
    return &fake->pool;
}

void fake_master_unlock_pool(struct fake_master *fake)
{
    (void)pthread_mutex_unlock(&fake->lock);
}

bool fake_wait(bool (*holds)(void *arg), void *arg)
{
    uint64_t deadline_ns = mc_deadline_ns(mc_monotonic_ns(), 60000);

    while (!holds(arg)) {
        if (mc_monotonic_ns() >= deadline_ns) {
            return false;
        }
        (void)sched_yield();
    }
    return true;
}

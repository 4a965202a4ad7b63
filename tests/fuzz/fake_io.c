/* See fake_io.h. */
#include "fake_io.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "io/loop.h"

/* Whatever the target queues beyond this is growth without a bound. */
#define SENDS_MAX 4096u

struct send {
    const uint8_t *bytes;
    uint8_t *copy; /* owned; NULL: borrowed */
    size_t len;
    void (*sent)(void *sent_arg, mooncake_err err);
    void *sent_arg;
};

struct mc_stream {
    struct mc_list node;
    const struct mc_stream_ops *ops;
    void *arg;
    bool connected, closed, paused;
    mooncake_err why;
    struct send sends[SENDS_MAX];
    size_t head, tail;
};

struct mc_loop {
    struct mc_list posts;
};

struct mc_timer {
    int unused;
};

static struct mc_loop loop = {.posts = {&loop.posts, &loop.posts}};
static struct mc_list streams = {&streams, &streams};

static void law(bool holds)
{
    if (!holds) {
        abort();
    }
}

uint64_t fake_random(struct fake_random *random, uint64_t below)
{
    random->state = random->state * 6364136223846793005ull + 1442695040888963407ull;
    return below == 0 ? 0 : (random->state >> 33) % below;
}

/* ---- loop ------------------------------------------------------------------------------------ */

struct mc_loop *fake_loop(void)
{
    return &loop;
}

bool mc_loop_is_owner(const struct mc_loop *any)
{
    return any == &loop;
}

uint64_t mc_loop_now_ns(const struct mc_loop *any)
{
    (void)any;
    return MC_NS_PER_S;
}

struct uv_loop_s *mc_loop_uv(struct mc_loop *any)
{
    (void)any;
    abort(); /* no target comes here */
}

/* Threads of their own: of RDMA's devices, to which no target comes either. */

mooncake_err mc_loop_create(uint32_t poll_us, struct mc_loop **out)
{
    (void)poll_us;
    (void)out;
    abort();
}

void mc_loop_destroy(struct mc_loop **any)
{
    (void)any;
    abort();
}

mooncake_err mc_loop_start(struct mc_loop *any, const char *name)
{
    (void)any;
    (void)name;
    abort();
}

void mc_loop_stop(struct mc_loop *any)
{
    (void)any;
    abort();
}

void mc_loop_post(struct mc_loop *any, struct mc_post *post)
{
    mc_list_add_tail(&any->posts, &post->node);
}

mooncake_err mc_err_from_uv(int status)
{
    return status == 0 ? MOONCAKE_OK : MOONCAKE_ERPC;
}

mooncake_err mc_timer_create(struct mc_loop *any, void (*fire)(void *arg), void *arg,
                             struct mc_timer **out)
{
    (void)any;
    (void)fire;
    (void)arg;
    *out = calloc(1, sizeof(**out));
    law(*out != NULL);
    return MOONCAKE_OK;
}

void mc_timer_set(struct mc_timer *timer, uint64_t delay_ms, uint64_t repeat_ms)
{
    (void)timer; /* never fires */
    (void)delay_ms;
    (void)repeat_ms;
}

void mc_timer_clear(struct mc_timer *timer)
{
    (void)timer;
}

void mc_timer_destroy(struct mc_timer **timer)
{
    free(*timer);
    *timer = NULL;
}

/* ---- streams --------------------------------------------------------------------------------- */

static mooncake_err make(const struct mc_stream_ops *ops, void *arg, struct mc_stream **out)
{
    struct mc_stream *stream = calloc(1, sizeof(*stream));

    law(stream != NULL);
    stream->ops = ops;
    stream->arg = arg;
    mc_list_add_tail(&streams, &stream->node);
    *out = stream;
    return MOONCAKE_OK;
}

mooncake_err mc_stream_accept(struct mc_loop *any, int fd, const struct mc_stream_ops *ops,
                              void *arg, struct mc_stream **out)
{
    (void)any;
    (void)fd;
    MC_TRY(make(ops, arg, out));
    (*out)->connected = true;
    return MOONCAKE_OK;
}

mooncake_err mc_stream_connect(struct mc_loop *any, const char *address, uint32_t timeout_ms,
                               const struct mc_stream_ops *ops, void *arg, struct mc_stream **out)
{
    (void)any;
    (void)address;
    (void)timeout_ms;
    return make(ops, arg, out);
}

mooncake_err mc_stream_send(struct mc_stream *stream, const void *bytes, size_t len,
                            void (*sent)(void *sent_arg, mooncake_err err), void *sent_arg)
{
    struct send *send = &stream->sends[stream->tail % SENDS_MAX];

    if (stream->closed) {
        return MOONCAKE_ERPC;
    }
    law(fake_stream_sends(stream) < SENDS_MAX);
    *send = (struct send){.bytes = bytes, .len = len, .sent = sent, .sent_arg = sent_arg};
    if (sent == NULL) {
        send->copy = malloc(len + 1);
        law(send->copy != NULL);
        memcpy(send->copy, bytes, len);
        send->bytes = send->copy;
    }
    stream->tail++;
    return MOONCAKE_OK;
}

size_t fake_stream_sends(const struct mc_stream *stream)
{
    return stream->tail - stream->head;
}

void mc_stream_flush(struct mc_stream *stream)
{
    (void)stream; /* fake_stream_take() decides when */
}

size_t mc_stream_queued(const struct mc_stream *stream)
{
    size_t queued = 0;

    for (size_t i = stream->head; i != stream->tail; i++) {
        queued += stream->sends[i % SENDS_MAX].len;
    }
    return queued;
}

void mc_stream_resume(struct mc_stream *stream)
{
    stream->paused = false;
}

void mc_stream_close(struct mc_stream *stream, mooncake_err why)
{
    if (!stream->closed) {
        stream->closed = true;
        stream->why = why;
    }
}

bool mc_stream_is_connected(const struct mc_stream *stream)
{
    return stream->connected && !stream->closed;
}

const char *mc_stream_peer(const struct mc_stream *stream)
{
    (void)stream;
    return "10.0.0.7:1";
}

/* The oldest send has ended. */
static void end_send(struct mc_stream *stream, mooncake_err err)
{
    struct send ended = stream->sends[stream->head++ % SENDS_MAX];

    free(ended.copy);
    if (ended.sent != NULL) {
        ended.sent(ended.sent_arg, err);
    }
}

/* ---- what the fuzzer does -------------------------------------------------------------------- */

bool fake_stream_is_open(const struct mc_stream *stream)
{
    return !stream->closed;
}

struct mc_stream *fake_stream_newest(void)
{
    struct mc_stream *newest = NULL;

    mc_list_for_each (node, &streams) {
        struct mc_stream *stream = MC_CONTAINER_OF(node, struct mc_stream, node);

        newest = stream->closed ? newest : stream;
    }
    return newest;
}

void fake_stream_connected(struct mc_stream *stream)
{
    if (!stream->connected && !stream->closed) {
        stream->connected = true;
        stream->ops->on_connected(stream->arg);
    }
}

/* One read of at most @p len bytes. */
static size_t read_once(struct mc_stream *stream, const uint8_t *bytes, size_t len)
{
    struct iovec iov[MC_STREAM_IOV_MAX];
    unsigned count = stream->ops->on_space(stream->arg, iov);
    size_t done = 0;

    if (count == 0) {
        stream->paused = true;
        return 0;
    }
    law(count <= MC_STREAM_IOV_MAX);
    for (unsigned i = 0; i < count && done < len; i++) {
        size_t n = iov[i].iov_len < len - done ? iov[i].iov_len : len - done;

        memcpy(iov[i].iov_base, bytes + done, n);
        done += n;
    }
    law(done > 0);
    stream->ops->on_bytes(stream->arg, done);
    return done;
}

size_t fake_stream_feed(struct mc_stream *stream, const uint8_t *bytes, size_t len,
                        struct fake_random *random)
{
    size_t done = 0;

    while (done < len && !stream->closed && !stream->paused) {
        size_t part = 1 + (size_t)fake_random(random, fake_random(random, 4) == 0 ? 300 : len);

        done += read_once(stream, bytes + done, part < len - done ? part : len - done);
    }
    return done;
}

void fake_stream_take(struct mc_stream *stream, size_t len)
{
    volatile uint8_t sink = 0;

    while (!stream->closed && stream->head != stream->tail) {
        struct send *front = &stream->sends[stream->head % SENDS_MAX];
        size_t part = front->len < len ? front->len : len;

        for (size_t i = 0; i < part; i += 61) {
            sink = (uint8_t)(sink + front->bytes[i]);
        }
        front->bytes += part;
        front->len -= part;
        len -= part;
        if (front->len > 0) {
            return;
        }
        end_send(stream, MOONCAKE_OK);
    }
    if (!stream->closed && stream->ops->on_drained != NULL) {
        stream->ops->on_drained(stream->arg);
    }
}

static struct mc_stream *closed_stream(void)
{
    mc_list_for_each (node, &streams) {
        struct mc_stream *stream = MC_CONTAINER_OF(node, struct mc_stream, node);

        if (stream->closed) {
            return stream;
        }
    }
    return NULL;
}

void fake_loop_run(void)
{
    struct mc_stream *stream;

    while ((stream = closed_stream()) != NULL) {
        mc_list_drop(&stream->node);
        while (stream->head != stream->tail) {
            end_send(stream, MOONCAKE_ERPC);
        }
        stream->ops->on_closed(stream->arg, stream->why);
        free(stream);
    }
    while (!mc_list_empty(&loop.posts)) {
        struct mc_post *post = mc_list_first(&loop.posts, struct mc_post, node);

        mc_list_drop(&post->node);
        post->run(post);
    }
}

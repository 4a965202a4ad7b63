/*
 * One data connection, server side.
 *
 * Design notes
 * - Memory: one input buffer and one ring of answer slots. No request is taken in while the ring is
 *   full, so a peer that does not read its answers is not read from.
 * - A mount is held from the moment a request has passed its check until the last of its bytes has
 *   moved. That may be long; mount_table.h says how a drop gets it back: the session is closed.
 *   Closing a stream ends every access to our memory at once, so mounts are returned right there
 *   and not when the stream tells that its sends have ended.
 * - A refused WRITE is skipped byte by byte, so that the requests behind it are not harmed.
 */
#include "transport/tcp_session.h"

#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "transport/mount_table.h"
#include "transport/tcp_frame.h"

#define IN_LEN (64u << 10)
/* Answers that wait for the peer to take them. A power of two. */
#define SLOTS 256u
/* A WRITE of more than this is followed in one read by the next request's frames only, so that the
 * next payload lands in place instead of in the input buffer. */
#define LARGE_LEN (16u << 10)
#define TOUCH_LEN_MAX (2u << 20)
#define FRAMES_LEN (MC_TCP_REQUEST_LEN + MC_EXTENT_HEADER_LEN)

enum state {
    STATE_HELLO,   /* expecting the peer's */
    STATE_REQUEST, /* expecting a request, or in the middle of one's frame */
    STATE_RECEIVE, /* expecting `left` bytes of a WRITE, which go to the segment */
    STATE_SKIP,    /* expecting `left` bytes of a WRITE that was refused */
    STATE_REFUSED, /* no common protocol: the hello with that news is on its way out */
    STATE_CLOSED,
};

/* One answer on its way to the peer. */
struct slot {
    uint8_t frame[MC_TCP_ANSWER_LEN];
    const struct mc_mount *mount; /* held; NULL: no bytes of a segment are part of the answer */
};

struct mc_tcp_session {
    struct mc_tcp_session_group *group; /* borrowed */
    struct mc_list node;
    struct mc_stream *stream; /* owned */
    enum state state;
    bool paused; /* on_space has returned 0 */

    /* The WRITE in RECEIVE or SKIP. */
    uint64_t id, left, len;
    mooncake_err refusal;         /* what to answer after SKIP */
    uint8_t *to;                  /* RECEIVE: where the next byte goes */
    const struct mc_mount *mount; /* RECEIVE: held */

    unsigned slots_head, slots_tail; /* both only grow */
    struct slot slots[SLOTS];

    uint64_t progress_ns; /* when the peer last gave or took a byte */
    size_t queued;        /* unsent bytes when we last looked */

    uint32_t in_start, in_end;
    uint8_t in[IN_LEN];
};

void mc_tcp_session_group_init(struct mc_tcp_session_group *group, struct mc_loop *loop,
                               struct mc_tcp_server_stats *stats,
                               void (*on_idle)(struct mc_tcp_session_group *group))
{
    *group = (struct mc_tcp_session_group){.loop = loop, .stats = stats, .on_idle = on_idle};
    mc_list_init(&group->sessions);
}

static unsigned slots_used(const struct mc_tcp_session *s)
{
    return s->slots_tail - s->slots_head;
}

static void request_ended(struct mc_tcp_session_group *group)
{
    MC_ASSERT(group->requests_now > 0);
    if (--group->requests_now == 0) {
        group->on_idle(group);
    }
}

/* Stop at once: no byte of any segment is touched for this peer any more. */
static void session_close(struct mc_tcp_session *s)
{
    if (s->state == STATE_CLOSED) {
        return;
    }
    mc_stream_close(s->stream, MOONCAKE_OK);
    if (s->state == STATE_RECEIVE) {
        mc_mount_return(s->mount);
    }
    if (s->state == STATE_RECEIVE || s->state == STATE_SKIP) {
        request_ended(s->group);
    }
    s->state = STATE_CLOSED;
    for (; s->slots_head != s->slots_tail; s->slots_head++) {
        struct slot *slot = &s->slots[s->slots_head % SLOTS];

        if (slot->mount != NULL) {
            mc_mount_return(slot->mount);
        }
        request_ended(s->group);
    }
}

static void close_bad(struct mc_tcp_session *s, const char *what)
{
    mc_counter_add(&s->group->stats->bad_frames, 1);
    mc_log_warn("tcp.bad_frame", "peer=%s what=\"%s\"", mc_stream_peer(s->stream), what);
    session_close(s);
}

/* ---- answers --------------------------------------------------------------------------------- */

static void parse(struct mc_tcp_session *s);

/* Slots have become free: take in the requests that came while there was none. */
static void go_on(struct mc_tcp_session *s)
{
    if (s->in_end > s->in_start) {
        parse(s);
    }
    if (s->paused && s->state != STATE_CLOSED) {
        s->paused = false;
        mc_stream_resume(s->stream);
    }
}

/* The oldest answer has gone to the kernel whole. */
static void on_answer_sent(void *arg, mooncake_err err)
{
    struct mc_tcp_session *s = arg;
    struct slot *slot;

    (void)err;
    if (s->state == STATE_CLOSED) {
        return; /* let go of already */
    }
    MC_ASSERT(s->slots_head != s->slots_tail);
    slot = &s->slots[s->slots_head++ % SLOTS];
    if (slot->mount != NULL) {
        mc_mount_return(slot->mount);
    }
    s->progress_ns = mc_loop_now_ns(s->group->loop);
    request_ended(s->group);
    if (slots_used(s) == SLOTS / 2) {
        go_on(s);
    }
}

static void on_frame_sent(void *arg, mooncake_err err)
{
    (void)arg; /* the rest of the answer follows, and tells */
    (void)err;
}

/* Queue an answer; with @p mount, which is taken, @p len bytes at @p bytes follow it. */
static void answer(struct mc_tcp_session *s, uint64_t id, mooncake_err status,
                   const struct mc_mount *mount, const uint8_t *bytes, uint64_t len)
{
    struct slot *slot = &s->slots[s->slots_tail % SLOTS];
    struct mc_tcp_answer frame = {.status = (int32_t)status, .id = id, .len = len};
    mooncake_err err;

    MC_ASSERT(slots_used(s) < SLOTS);
    mc_tcp_answer_encode(&frame, slot->frame);
    slot->mount = mount;
    s->slots_tail++;
    if (len == 0) {
        err = mc_stream_send(s->stream, slot->frame, sizeof(slot->frame), on_answer_sent, s);
    } else {
        err = mc_stream_send(s->stream, slot->frame, sizeof(slot->frame), on_frame_sent, s);
        if (err == MOONCAKE_OK) {
            err = mc_stream_send(s->stream, bytes, len, on_answer_sent, s);
        }
    }
    if (err != MOONCAKE_OK) {
        session_close(s); /* half an answer cannot be taken back */
    }
}

static void refuse(struct mc_tcp_session *s, mooncake_err why)
{
    mc_counter_add(&s->group->stats->refused_requests, 1);
    mc_log_debug("tcp.refused", "peer=%s err=%s", mc_stream_peer(s->stream),
                 mooncake_err_name(why));
}

/* ---- requests -------------------------------------------------------------------------------- */

static void finish_write(struct mc_tcp_session *s)
{
    mooncake_err status = MOONCAKE_OK;

    MC_ASSERT(s->left == 0);
    if (s->state == STATE_RECEIVE) {
        mc_mount_return(s->mount);
        s->mount = NULL;
        s->to = NULL;
        mc_counter_add(&s->group->stats->writes, 1);
        mc_counter_add(&s->group->stats->bytes_written, s->len);
    } else {
        status = s->refusal;
    }
    s->state = STATE_REQUEST;
    answer(s, s->id, status, NULL, NULL, 0);
}

/* The first bytes of the request: more would keep the loop's other peers waiting. */
static void touch_first(const struct mc_mount *mount, const struct mc_tcp_request *request)
{
    uint64_t len = request->part_len < TOUCH_LEN_MAX ? request->part_len : TOUCH_LEN_MAX;

    mc_mount_touch(mount, request->extent.offset + request->part_offset, len);
}

static void begin_request(struct mc_tcp_session *s, const struct mc_tcp_request *request)
{
    const struct mc_mount *mount = mc_mount_borrow(request->extent.mount_id);
    mooncake_err err = MOONCAKE_ENOSEGMENT;
    uint8_t *at = NULL;

    s->group->requests_now++;
    if (mount != NULL) {
        err = mc_mount_check(mount, &request->extent, request->op);
    }
    if (err != MOONCAKE_OK) {
        refuse(s, err);
        if (mount != NULL) {
            mc_mount_return(mount);
            mount = NULL;
        }
    } else {
        at = mount->base + request->extent.offset + request->part_offset;
        touch_first(mount, request);
    }
    if (request->op == MC_RIGHT_READ) {
        if (err == MOONCAKE_OK) {
            mc_counter_add(&s->group->stats->reads, 1);
            mc_counter_add(&s->group->stats->bytes_read, request->part_len);
        }
        answer(s, request->id, err, mount, at, err == MOONCAKE_OK ? request->part_len : 0);
        return;
    }
    s->state = err == MOONCAKE_OK ? STATE_RECEIVE : STATE_SKIP;
    s->id = request->id;
    s->len = request->part_len;
    s->left = request->part_len;
    s->refusal = err;
    s->to = at;
    s->mount = mount;
}

/* Let @p len bytes that have come count for the WRITE. */
static void advance_write(struct mc_tcp_session *s, uint64_t len)
{
    MC_ASSERT(len <= s->left);
    s->left -= len;
    if (s->state == STATE_RECEIVE) {
        s->to += len;
    }
    if (s->left == 0) {
        finish_write(s);
    }
}

static void parse_hello(struct mc_tcp_session *s, const uint8_t *bytes)
{
    struct mc_tcp_hello hello;
    struct mc_tcp_hello ours = {.protocol_min = MC_TCP_PROTOCOL, .protocol_max = MC_TCP_PROTOCOL};
    uint8_t frame[MC_TCP_HELLO_LEN];

    if (mc_tcp_hello_decode(bytes, &hello) != MOONCAKE_OK) {
        close_bad(s, "no hello");
        return;
    }
    s->state = STATE_REQUEST;
    if (!mc_tcp_hello_agrees(&hello)) {
        mc_log_warn("tcp.protocol", "peer=%s theirs=%u-%u ours=%u", mc_stream_peer(s->stream),
                    hello.protocol_min, hello.protocol_max, MC_TCP_PROTOCOL);
        ours.status = MOONCAKE_ENOTSUP;
        s->state = STATE_REFUSED;
    }
    mc_tcp_hello_encode(&ours, frame);
    if (mc_stream_send(s->stream, frame, sizeof(frame), NULL, NULL) != MOONCAKE_OK) {
        session_close(s);
    }
}

/* Take one step on what the input buffer holds. False: more bytes or a free slot are needed. */
static bool parse_one(struct mc_tcp_session *s)
{
    const uint32_t have = s->in_end - s->in_start;
    const uint8_t *bytes = s->in + s->in_start;
    struct mc_tcp_request request;
    uint32_t n;

    switch (s->state) {
    case STATE_HELLO:
        if (have < MC_TCP_HELLO_LEN) {
            return false;
        }
        s->in_start += MC_TCP_HELLO_LEN;
        parse_hello(s, bytes);
        return true;
    case STATE_REQUEST:
        if (have < MC_TCP_REQUEST_LEN || slots_used(s) == SLOTS) {
            return false;
        }
        s->in_start += MC_TCP_REQUEST_LEN;
        if (mc_tcp_request_decode(bytes, &request) != MOONCAKE_OK) {
            close_bad(s, "no request");
        } else {
            begin_request(s, &request);
        }
        return true;
    case STATE_RECEIVE:
    case STATE_SKIP:
        n = have < s->left ? have : (uint32_t)s->left;
        if (n == 0 && s->left > 0) {
            return false;
        }
        if (s->state == STATE_RECEIVE) {
            memcpy(s->to, bytes, n);
        }
        s->in_start += n;
        advance_write(s, n);
        return true;
    case STATE_REFUSED:
        s->in_start = s->in_end; /* deaf */
        return false;
    case STATE_CLOSED:
        return false;
    }
    return false;
}

static void parse(struct mc_tcp_session *s)
{
    while (parse_one(s)) {
    }
    if (s->in_start == s->in_end) {
        s->in_start = 0;
        s->in_end = 0;
    }
}

/* ---- the stream's callbacks ------------------------------------------------------------------ */

static unsigned on_space(void *arg, struct iovec *iov)
{
    struct mc_tcp_session *s = arg;
    unsigned count = 0;
    uint32_t room;

    if (s->state == STATE_REQUEST && slots_used(s) == SLOTS) {
        s->paused = true;
        return 0;
    }
    if (s->in_start > 0) {
        memmove(s->in, s->in + s->in_start, s->in_end - s->in_start);
        s->in_end -= s->in_start;
        s->in_start = 0;
    }
    room = IN_LEN - s->in_end;
    if (s->state == STATE_RECEIVE) {
        MC_ASSERT(s->in_end == 0 && s->left > 0);
        iov[count].iov_base = s->to;
        iov[count++].iov_len = s->left;
        room = s->len > LARGE_LEN ? FRAMES_LEN : room;
    }
    MC_ASSERT(room > 0);
    iov[count].iov_base = s->in + s->in_end;
    iov[count++].iov_len = room;
    return count;
}

static void on_bytes(void *arg, size_t len)
{
    struct mc_tcp_session *s = arg;
    size_t in_place = 0;

    s->progress_ns = mc_loop_now_ns(s->group->loop);
    if (s->state == STATE_RECEIVE) {
        in_place = len < s->left ? len : (size_t)s->left;
    }
    MC_ASSERT(len - in_place <= IN_LEN - s->in_end);
    s->in_end += (uint32_t)(len - in_place);
    if (in_place > 0) {
        advance_write(s, in_place);
    }
    parse(s);
}

static void on_drained(void *arg)
{
    struct mc_tcp_session *s = arg;

    if (s->state == STATE_REFUSED) {
        session_close(s);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

void mc_tcp_session_expect(struct mc_tcp_session_group *group)
{
    (void)atomic_fetch_add_explicit(&group->connections, 1, memory_order_relaxed);
    mc_gauge_add(&group->stats->connections, 1);
}

void mc_tcp_session_unexpect(struct mc_tcp_session_group *group)
{
    (void)atomic_fetch_sub_explicit(&group->connections, 1, memory_order_relaxed);
    mc_gauge_add(&group->stats->connections, -1);
}

static void on_closed(void *arg, mooncake_err why)
{
    struct mc_tcp_session *s = arg;

    (void)why;
    session_close(s); /* when the stream has closed by itself: lets go of mounts */
    mc_tcp_session_unexpect(s->group);
    mc_list_drop(&s->node);
    mc_free(s);
}

static const struct mc_stream_ops stream_ops = {
    .on_space = on_space,
    .on_bytes = on_bytes,
    .on_drained = on_drained,
    .on_closed = on_closed,
};

mooncake_err mc_tcp_session_open(struct mc_tcp_session_group *group, int fd)
{
    struct mc_tcp_session *s = mc_malloc(sizeof(*s));
    mooncake_err err;

    MC_ASSERT_ON_LOOP(group->loop);
    if (s == NULL) {
        (void)close(fd);
        mc_tcp_session_unexpect(group);
        return MOONCAKE_ENOMEM;
    }
    memset(s, 0, offsetof(struct mc_tcp_session, in)); /* in is written before it is read */
    s->group = group;
    s->state = STATE_HELLO;
    s->progress_ns = mc_loop_now_ns(group->loop);
    err = mc_stream_accept(group->loop, fd, &stream_ops, s, &s->stream);
    if (err != MOONCAKE_OK) {
        mc_tcp_session_unexpect(group);
        mc_free(s);
        return err;
    }
    mc_list_add_tail(&group->sessions, &s->node);
    return MOONCAKE_OK;
}

void mc_tcp_session_close_all(struct mc_tcp_session_group *group)
{
    MC_ASSERT_ON_LOOP(group->loop);
    mc_list_for_each (node, &group->sessions) {
        session_close(MC_CONTAINER_OF(node, struct mc_tcp_session, node));
    }
}

static bool holds_dropped(const struct mc_tcp_session *s)
{
    if (s->state == STATE_RECEIVE && mc_mount_is_dropped(s->mount)) {
        return true;
    }
    for (unsigned i = s->slots_head; i != s->slots_tail; i++) {
        const struct mc_mount *mount = s->slots[i % SLOTS].mount;

        if (mount != NULL && mc_mount_is_dropped(mount)) {
            return true;
        }
    }
    return false;
}

void mc_tcp_session_close_dropped(struct mc_tcp_session_group *group)
{
    MC_ASSERT_ON_LOOP(group->loop);
    mc_list_for_each (node, &group->sessions) {
        struct mc_tcp_session *s = MC_CONTAINER_OF(node, struct mc_tcp_session, node);

        if (holds_dropped(s)) {
            mc_log_info("tcp.unmounted", "peer=%s", mc_stream_peer(s->stream));
            session_close(s);
        }
    }
}

/* Does the peer owe us bytes, or we it? A session between two requests may be silent for ever. */
static bool owes(const struct mc_tcp_session *s, size_t queued)
{
    return queued > 0 || s->in_end > s->in_start || s->state != STATE_REQUEST;
}

void mc_tcp_session_close_stalled(struct mc_tcp_session_group *group, uint64_t before_ns)
{
    MC_ASSERT_ON_LOOP(group->loop);
    mc_list_for_each (node, &group->sessions) {
        struct mc_tcp_session *s = MC_CONTAINER_OF(node, struct mc_tcp_session, node);
        size_t queued;

        if (s->state == STATE_CLOSED) {
            continue;
        }
        queued = mc_stream_queued(s->stream);
        if (!owes(s, queued) || queued < s->queued) {
            s->progress_ns = mc_loop_now_ns(group->loop);
        } else if (s->progress_ns < before_ns) {
            mc_log_warn("tcp.stalled", "peer=%s queued_bytes=%zu expected_bytes=%llu",
                        mc_stream_peer(s->stream), queued, (unsigned long long)s->left);
            session_close(s);
        }
        s->queued = queued;
    }
}

/*
 * A client's talk with a whole master, over a socket: any bodies, well framed. The input is records
 * of [u8 method | u16 length | body]; bytes that are no record any more are sent as they are. The
 * first record should be a Hello. Laws: no crash; what comes back is whole, valid replies whose
 * bodies the client's decoders take, one at most for each request; afterwards the master's books
 * agree with a recount.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "a_master.h"
#include "base/bytes.h"
#include "base/mem.h"
#include "law.h"
#include "rpc/frame.h"
#include "rpc/rpc_server_impl.h"
#include "wire/methods.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define SEND_LEN_MAX ((size_t)16 << 10)
#define REPLY_LEN_MAX ((size_t)4 << 20)
#define RECORDS_MAX 64u

static uint16_t methods[RECORDS_MAX]; /* of the request of each id */

/* The next record as a frame, or the rest as it is. Returns how much of @p bytes it was. */
static size_t frame_record(const uint8_t *bytes, size_t len, unsigned id, struct mc_buf *out)
{
    struct mc_frame frame = {.version = MC_PROTOCOL_MAX, .request_id = id};
    uint8_t header[MC_FRAME_LEN];

    if (len < 3 || mc_load_u16(bytes + 1) > len - 3) {
        law(mc_buf_append(out, bytes, len) == MOONCAKE_OK);
        return len;
    }
    frame.method = bytes[0];
    frame.body_len = mc_load_u16(bytes + 1);
    methods[id] = frame.method;
    mc_frame_encode(&frame, header);
    law(mc_buf_append(out, header, sizeof(header)) == MOONCAKE_OK);
    law(mc_buf_append(out, bytes + 3, frame.body_len) == MOONCAKE_OK);
    return 3 + frame.body_len;
}

/* Room for any reply struct, aligned for its members. */
union room {
    uint64_t align;
    char bytes[512];
};

static void check_reply(const struct mc_frame *frame, const uint8_t *body)
{
    const struct mc_method_codec *codec;
    struct mc_arena arena;
    union room reply;

    law(frame->flags == MC_FRAME_REPLY);
    if (frame->status != 0) {
        law(frame->body_len <= MC_FRAME_DETAIL_LEN_MAX);
        return;
    }
    law(frame->request_id < RECORDS_MAX);
    codec = mc_method_codec(methods[frame->request_id]);
    law(codec != NULL && codec->reply_len <= sizeof(reply));
    mc_arena_init(&arena, 0);
    law(codec->decode_reply(body, frame->body_len, &arena, &reply) == MOONCAKE_OK);
    mc_arena_fini(&arena);
}

static void check_replies(const uint8_t *bytes, size_t len, bool by_records)
{
    unsigned count = 0;
    size_t at = 0;

    while (at < len) {
        struct mc_frame frame;

        law(len - at >= MC_FRAME_LEN);
        law(mc_frame_decode(bytes + at, &frame) == MOONCAKE_OK);
        law(frame.body_len <= len - at - MC_FRAME_LEN);
        if (by_records) {
            check_reply(&frame, bytes + at + MC_FRAME_LEN);
        }
        at += MC_FRAME_LEN + frame.body_len;
        count++;
    }
    law(!by_records || count <= RECORDS_MAX);
}

static size_t receive(int fd, uint8_t *replies, size_t len)
{
    ssize_t n;

    while ((n = recv(fd, replies + len, REPLY_LEN_MAX - len, MSG_DONTWAIT)) > 0) {
        len += (size_t)n;
    }
    law(len < REPLY_LEN_MAX);
    return len;
}

static void talk(struct mc_master *master, const uint8_t *data, size_t len)
{
    static uint8_t replies[REPLY_LEN_MAX];
    size_t replies_len = 0;
    struct mc_buf out;
    bool by_records = true;
    unsigned records = 0;
    int fds[2];

    law(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    mc_rpc_conn_accept(master->server, fds[0]);
    mc_buf_init(&out);
    for (size_t at = 0; at < len && records < RECORDS_MAX; records++) {
        size_t used = frame_record(data + at, len - at, records, &out);

        by_records = by_records && used >= 3 && used == 3u + mc_load_u16(data + at + 1);
        at += used;
        (void)!send(fds[1], mc_buf_bytes(&out), mc_buf_len(&out), MSG_NOSIGNAL);
        mc_buf_clear(&out, 0);
        mc_loop_run_ready(master->loop);
        replies_len = receive(fds[1], replies, replies_len);
    }
    mc_buf_fini(&out);
    check_replies(replies, replies_len, by_records);
    (void)close(fds[1]);
    while (mc_gauge_get(&master->server->stats.connections) > 0) {
        mc_loop_run_ready(master->loop);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct mc_master *master = a_master();

    a_master_renew(master);
    a_master_fill(master->core);
    talk(master, data, len < SEND_LEN_MAX ? len : SEND_LEN_MAX);
    law(mc_core_recount(master->core) == MOONCAKE_OK);
    return 0;
}

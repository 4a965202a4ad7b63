/*
 * A client's data connection, with a read through the buffer, a read in place and a write under
 * way. The first eight bytes say how the rest, which is what the store sends on each connection, is
 * cut. Laws: no crash; every op ends exactly once; a read that is OK has the right bytes; memory of
 * an op that has ended is not touched.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/log.h"
#include "base/mem.h"
#include "fake_io.h"
#include "law.h"
#include "transport/tcp_frame.h"
#include "transport/transport.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define SMALL_LEN 300u
#define LARGE_LEN 20000u
#define WRITE_LEN 600000u /* two requests, and more than is sent ahead */
#define OPS 3u

/* Seeds hold good answers: byte i of a payload is i * 7 as far as eight bits go. */
static struct op {
    struct mc_xfer_op op; /* first */
    struct iovec pieces[2];
    uint8_t *memory; /* owned until done */
    size_t len;
    bool done;
} ops[OPS];

static void on_done(struct mc_xfer_op *op)
{
    struct op *it = MC_CONTAINER_OF(op, struct op, op);

    law(!it->done);
    it->done = true;
    if (op->err == MOONCAKE_OK && op->right == MC_RIGHT_READ) {
        for (size_t i = 0; i < it->len; i++) {
            law(it->memory[i] == (uint8_t)(i * 7));
        }
    }
    free(it->memory); /* from here on the sanitizer watches it */
    it->memory = NULL;
}

static void submit(struct mc_transport *transport, const struct mc_target *target, unsigned index,
                   enum mc_rights right, size_t len)
{
    struct op *it = &ops[index];

    memset(it, 0, sizeof(*it));
    it->memory = calloc(1, len);
    law(it->memory != NULL);
    it->len = len;
    it->pieces[0] = (struct iovec){.iov_base = it->memory, .iov_len = len / 3};
    it->pieces[1] = (struct iovec){.iov_base = it->memory + len / 3, .iov_len = len - len / 3};
    it->op = (struct mc_xfer_op){
        .right = right,
        .extent = {.mount_id = 5,
                   .offset = (uint64_t)index << 20,
                   .payload_len = len,
                   .object_id = {1, 2},
                   .slice_count = 1,
                   .rights = MC_RIGHT_READ | MC_RIGHT_WRITE},
        .target = target,
        .pieces = it->pieces,
        .pieces_count = 2,
        .done = on_done,
    };
    law(transport->ops->submit(transport, &it->op) == MOONCAKE_OK);
}

/* Serve the connection that is open, if one is, with all of the input. */
static void serve(const uint8_t *bytes, size_t len, struct fake_random *random)
{
    struct mc_stream *stream = fake_stream_newest();
    size_t done = 0;

    if (stream == NULL) {
        return;
    }
    fake_stream_connected(stream);
    while (fake_stream_is_open(stream) && done < len) {
        /* A store says nothing but its hello until it was asked. */
        size_t part = done == 0 && len > MC_TCP_HELLO_LEN
                          ? MC_TCP_HELLO_LEN
                          : 1 + (size_t)fake_random(random, len - done);

        if (fake_random(random, 3) == 0) {
            fake_stream_take(stream, 1 + (size_t)fake_random(random, 30000));
        }
        if (fake_stream_is_open(stream)) {
            done += fake_stream_feed(stream, bytes + done, part, random);
        }
    }
    if (fake_random(random, 2) == 0) {
        mc_stream_close(stream, MOONCAKE_ERPC);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const struct mc_transport_options options = {.connect_timeout_ms = 1000, .connections_max = 1};
    const struct mc_target target = {
        .mount_id = 5, .name = "segment", .addresses = "tcp://10.0.0.7:1"};
    struct mc_transport *transport = NULL;
    struct fake_random random;

    mc_log_set_level(MC_LOG_OFF);
    if (len < sizeof(random.state)) {
        return 0;
    }
    random.state = mc_load_u64(data);
    law(mc_transport_tcp.open(fake_loop(), &options, &transport) == MOONCAKE_OK);
    submit(transport, &target, 0, MC_RIGHT_READ, SMALL_LEN);
    submit(transport, &target, 1, MC_RIGHT_READ, LARGE_LEN);
    submit(transport, &target, 2, MC_RIGHT_WRITE, WRITE_LEN);
    transport->ops->flush(transport);
    for (unsigned i = 0; i < 4; i++) {
        serve(data + 8, len - 8, &random);
        fake_loop_run();
        if (!ops[2].done && fake_random(&random, 8) == 0) {
            ops[2].done = true; /* must not come any more */
            transport->ops->cancel(transport, &ops[2].op);
            free(ops[2].memory);
            ops[2].memory = NULL;
        }
    }
    transport->ops->close(transport);
    fake_loop_run();
    for (unsigned i = 0; i < OPS; i++) {
        law(ops[i].done);
    }
    law(mc_mem_live_count() == 0);
    return 0;
}

/*
 * Writes the seeds of fuzz_tcp_session and fuzz_tcp_conn: make_tcp_seeds DIRECTORY. Run it again
 * when the frames change.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "transport/extent.h"
#include "transport/tcp_frame.h"

static const uint64_t secret[2] = {3, 4};
static const uint64_t numbers = 42; /* how the input is cut */
static const char *directory;

static void append(struct mc_buf *buf, const void *bytes, size_t len)
{
    if (mc_buf_append(buf, bytes, len) != MOONCAKE_OK) {
        abort();
    }
}

static void begin(struct mc_buf *buf, uint16_t protocol)
{
    const struct mc_tcp_hello hello = {.protocol_min = protocol, .protocol_max = protocol};
    uint8_t bytes[MC_TCP_HELLO_LEN];

    mc_buf_init(buf);
    append(buf, &numbers, sizeof(numbers));
    mc_tcp_hello_encode(&hello, bytes);
    append(buf, bytes, sizeof(bytes));
}

/* Write the file and free the buffer. */
static void finish(struct mc_buf *buf, const char *target, const char *name)
{
    char path[512];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s/%s", directory, target, name);
    file = fopen(path, "wb");
    if (file == NULL || fwrite(mc_buf_bytes(buf), 1, mc_buf_len(buf), file) != mc_buf_len(buf)) {
        perror(path);
        exit(1);
    }
    (void)fclose(file);
    mc_buf_fini(buf);
}

static struct mc_extent_ref extent_of(uint64_t offset, uint64_t len, uint32_t rights)
{
    struct mc_extent_ref extent = {.mount_id = 5,
                                   .offset = offset,
                                   .payload_len = len,
                                   .object_id = {1, 2},
                                   .slice_count = 1,
                                   .rights = rights};

    extent.capability = mc_capability(secret, &extent);
    return extent;
}

static void part(struct mc_buf *buf, enum mc_rights op, struct mc_extent_ref extent,
                 uint64_t offset, uint64_t len)
{
    static uint64_t id;
    const struct mc_tcp_request it = {
        .op = op, .id = id++, .extent = extent, .part_offset = offset, .part_len = len};
    static const uint8_t payload[4096];
    uint8_t bytes[MC_TCP_REQUEST_LEN];

    mc_tcp_request_encode(&it, bytes);
    append(buf, bytes, sizeof(bytes));
    if (op == MC_RIGHT_WRITE) {
        append(buf, payload, len);
    }
}

static void request(struct mc_buf *buf, enum mc_rights op, struct mc_extent_ref extent)
{
    part(buf, op, extent, 0, MC_EXTENT_HEADER_LEN + extent.payload_len);
}

static void session_seeds(void)
{
    const struct mc_extent_ref both = extent_of(64, 1000, MC_RIGHT_READ | MC_RIGHT_WRITE);
    const struct mc_extent_ref read_only = extent_of(2048, 3000, MC_RIGHT_READ);
    const struct mc_extent_ref empty = extent_of(6144, 0, MC_RIGHT_WRITE);
    struct mc_extent_ref forged = both;
    struct mc_buf buf;

    begin(&buf, 9);
    finish(&buf, "tcp_session", "other_protocol");
    begin(&buf, 1);
    request(&buf, MC_RIGHT_READ, both);
    request(&buf, MC_RIGHT_READ, read_only);
    finish(&buf, "tcp_session", "reads");
    begin(&buf, 1);
    request(&buf, MC_RIGHT_WRITE, both);
    request(&buf, MC_RIGHT_WRITE, empty);
    request(&buf, MC_RIGHT_READ, both);
    finish(&buf, "tcp_session", "writes");
    begin(&buf, 1);
    part(&buf, MC_RIGHT_WRITE, both, 500, 564);
    part(&buf, MC_RIGHT_READ, both, 900, 100);
    finish(&buf, "tcp_session", "parts");
    forged.offset = 128;
    begin(&buf, 1);
    request(&buf, MC_RIGHT_WRITE, forged);
    request(&buf, MC_RIGHT_WRITE, read_only);
    request(&buf, MC_RIGHT_READ, empty);
    request(&buf, MC_RIGHT_READ, both);
    finish(&buf, "tcp_session", "refusals");
    begin(&buf, 1);
    for (unsigned i = 0; i < 300; i++) { /* more than answers are held ready */
        request(&buf, MC_RIGHT_READ, both);
    }
    finish(&buf, "tcp_session", "many");
}

static void answer(struct mc_buf *buf, mooncake_err status, uint64_t id, uint64_t offset,
                   size_t len)
{
    const struct mc_extent_ref extent = extent_of(offset, len, MC_RIGHT_READ | MC_RIGHT_WRITE);
    const bool payload = status == MOONCAKE_OK && len > 0;
    const struct mc_tcp_answer it = {
        .status = (int32_t)status, .id = id, .len = payload ? MC_EXTENT_HEADER_LEN + len : 0};
    uint8_t frame[MC_TCP_ANSWER_LEN];
    uint8_t header[MC_EXTENT_HEADER_LEN];
    static uint8_t bytes[20000];
    struct iovec iov = {.iov_base = bytes, .iov_len = len};

    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)(i * 7);
    }
    mc_tcp_answer_encode(&it, frame);
    append(buf, frame, sizeof(frame));
    if (payload) {
        mc_extent_header_build(&extent, mc_extent_hash_iov(&iov, 1), header);
        append(buf, header, sizeof(header));
        append(buf, bytes, len);
    }
}

static void conn_seeds(void)
{
    struct mc_buf buf;

    begin(&buf, 9);
    finish(&buf, "tcp_conn", "other_protocol");
    begin(&buf, 1);
    answer(&buf, MOONCAKE_OK, 1, 0, 300);
    answer(&buf, MOONCAKE_OK, 2, 1 << 20, 20000);
    answer(&buf, MOONCAKE_OK, 3, 0, 0);
    answer(&buf, MOONCAKE_OK, 4, 0, 0);
    finish(&buf, "tcp_conn", "good");
    begin(&buf, 1);
    answer(&buf, MOONCAKE_ENOSEGMENT, 1, 0, 0);
    answer(&buf, MOONCAKE_ENOTOWNER, 2, 0, 0);
    answer(&buf, MOONCAKE_EINVAL, 3, 0, 0);
    answer(&buf, MOONCAKE_OK, 4, 0, 0);
    finish(&buf, "tcp_conn", "refusals");
    begin(&buf, 1);
    answer(&buf, MOONCAKE_OK, 1, 0, 299);
    finish(&buf, "tcp_conn", "wrong_length");
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        (void)fprintf(stderr, "usage: make_tcp_seeds DIRECTORY\n");
        return 2;
    }
    directory = argv[1];
    session_seeds();
    conn_seeds();
    return 0;
}

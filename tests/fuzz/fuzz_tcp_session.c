/*
 * A store's data connection. The first eight bytes say how the rest, which is what the peer sends,
 * is cut into reads and when the peer takes answers. Laws: no crash; no byte outside the extents
 * that were granted changes; answers that wait stay bounded; every mount is given back; a frame
 * that decodes encodes to the same bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "fake_io.h"
#include "law.h"
#include "transport/mount_table.h"
#include "transport/tcp_frame.h"
#include "transport/tcp_session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define SEGMENT_LEN 8192u
/* Two sends an answer, one hello. */
#define SENDS_MAX 513u

/* Seeds hold genuine capabilities for these: object id {1, 2}, slice 0 of 1, secret {3, 4}. */
static const struct {
    uint64_t offset, len;
    uint32_t rights;
} granted[] = {
    {64, 1000, MC_RIGHT_READ | MC_RIGHT_WRITE},
    {2048, 3000, MC_RIGHT_READ},
    {6144, 0, MC_RIGHT_WRITE},
};

static void check_frames(const uint8_t *data, size_t len)
{
    uint8_t again[MC_TCP_REQUEST_LEN];
    struct mc_tcp_request request;
    struct mc_tcp_answer answer;
    struct mc_tcp_hello hello;

    if (len >= MC_TCP_REQUEST_LEN && mc_tcp_request_decode(data, &request) == MOONCAKE_OK) {
        mc_tcp_request_encode(&request, again);
        law(memcmp(again, data, MC_TCP_REQUEST_LEN) == 0);
    }
    if (len >= MC_TCP_ANSWER_LEN && mc_tcp_answer_decode(data, &answer) == MOONCAKE_OK) {
        mc_tcp_answer_encode(&answer, again);
        law(memcmp(again, data, MC_TCP_ANSWER_LEN) == 0);
    }
    if (len >= MC_TCP_HELLO_LEN && mc_tcp_hello_decode(data, &hello) == MOONCAKE_OK) {
        mc_tcp_hello_encode(&hello, again);
        law(memcmp(again, data, MC_TCP_HELLO_LEN) == 0);
    }
}

/* May a peer that knows only the granted capabilities change this byte? */
static bool may_change(size_t at)
{
    for (size_t i = 0; i < MC_ARRAY_LEN(granted); i++) {
        if ((granted[i].rights & MC_RIGHT_WRITE) != 0 && at >= granted[i].offset &&
            at < granted[i].offset + MC_EXTENT_HEADER_LEN + granted[i].len) {
            return true;
        }
    }
    return false;
}

static void on_idle(struct mc_tcp_session_group *group)
{
    law(group->requests_now == 0);
}

static void converse(struct mc_stream *stream, const uint8_t *bytes, size_t len,
                     struct fake_random *random)
{
    size_t done = 0;

    while (fake_stream_is_open(stream) && done < len) {
        size_t n = fake_stream_feed(stream, bytes + done, len - done, random);

        law(fake_stream_sends(stream) <= SENDS_MAX);
        law(n > 0 || !fake_stream_is_open(stream) || fake_stream_sends(stream) > 0);
        done += n;
        if (n == 0 || fake_random(random, 2) == 0) {
            fake_stream_take(stream, 1 + (size_t)fake_random(random, 5000));
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static uint8_t *segment;
    static struct mc_tcp_server_stats stats;
    struct mc_mount mount = {.mount_id = 5, .len = SEGMENT_LEN, .secret = {3, 4}, .memfd = -1};
    struct mc_tcp_session_group group;
    struct fake_random random;

    if (segment == NULL) {
        mc_log_set_level(MC_LOG_OFF);
        segment = malloc(SEGMENT_LEN); /* a byte beyond is the sanitizer's */
        law(segment != NULL);
    }
    if (len < sizeof(random.state)) {
        return 0;
    }
    memset(segment, 0xa5, SEGMENT_LEN);
    mount.base = segment;
    law(mc_mount_add(&mount) == MOONCAKE_OK);
    random.state = mc_load_u64(data);
    check_frames(data + 8, len - 8);
    mc_tcp_session_group_init(&group, fake_loop(), &stats, on_idle);
    mc_tcp_session_expect(&group);
    law(mc_tcp_session_open(&group, -1) == MOONCAKE_OK);
    converse(fake_stream_newest(), data + 8, len - 8, &random);
    mc_tcp_session_close_all(&group);
    law(group.requests_now == 0);
    mc_mount_drop(mount.mount_id); /* hangs if a mount is still held */
    fake_loop_run();
    for (size_t i = 0; i < SEGMENT_LEN; i++) {
        law(segment[i] == 0xa5 || may_change(i));
    }
    law(mc_mem_live_count() == 0);
    return 0;
}

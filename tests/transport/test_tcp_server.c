/* The store's side of tcp, seen by peers that do not behave: raw sockets against a real server. */
#include "rig.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/mem.h"
#include "transport/tcp_frame.h"

#define SEGMENT_LEN ((uint64_t)16 << 20)
/* How long a peer may stop inside something: longer than this machine may stop us, or as short as
 * one can wait. */
#define STALL_MS 60000u
#define STALL_HASTY_MS 1000u

struct fixture {
    struct rig_segment segment;
    struct mc_tcp_server *server;
};

static int open_fixture_with(void **state, uint32_t stall_ms)
{
    const struct mc_tcp_server_options options = {
        .address = "127.0.0.1:0", .loops = 2, .stall_ms = stall_ms};
    struct fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    rig_segment_open(&f->segment, 21, SEGMENT_LEN);
    rig_segment_serve(&f->segment);
    assert_int_equal(mc_tcp_server_open(&options, &f->server), MOONCAKE_OK);
    *state = f;
    return 0;
}

static int open_fixture(void **state)
{
    return open_fixture_with(state, STALL_MS);
}

static int open_fixture_hasty(void **state)
{
    return open_fixture_with(state, STALL_HASTY_MS);
}

static int close_fixture(void **state)
{
    struct fixture *f = *state;

    mc_tcp_server_close(&f->server, 0);
    rig_segment_close(&f->segment);
    free(f);
    return mc_mem_live_count() == 0 ? 0 : -1;
}

/* Look at what other threads change until it is so. */
#define WAIT_UNTIL(condition)                                                                      \
    do {                                                                                           \
        uint64_t until_ = mc_monotonic_ns() + RIG_WAIT_NS;                                         \
        while (!(condition)) {                                                                     \
            assert_true(mc_monotonic_ns() < until_);                                               \
            (void)poll(NULL, 0, 1);                                                                \
        }                                                                                          \
    } while (0)

static int64_t connections(const struct fixture *f)
{
    return mc_gauge_get(&mc_tcp_server_stats(f->server)->connections);
}

/* ---- a peer on a blocking socket ------------------------------------------------------------- */

static int peer_connect(const struct fixture *f)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons(mc_tcp_server_port(f->server)),
                                        .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    const struct timeval patience = {.tv_sec = 20};
    const int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

static void peer_send(int fd, const void *bytes, size_t len)
{
    assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
}

static void peer_receive(int fd, void *bytes, size_t len)
{
    assert_int_equal(recv(fd, bytes, len, MSG_WAITALL), (ssize_t)len);
}

/* The server has closed: everything it still sends is dropped, then comes the end. */
static void peer_expect_end(int fd)
{
    char bytes[4096];
    ssize_t n;

    do {
        n = recv(fd, bytes, sizeof(bytes), 0);
    } while (n > 0);
    assert_true(n == 0 || errno == ECONNRESET);
    (void)close(fd);
}

static void send_hello(int fd, uint16_t min, uint16_t max)
{
    const struct mc_tcp_hello hello = {.protocol_min = min, .protocol_max = max};
    uint8_t bytes[MC_TCP_HELLO_LEN];

    mc_tcp_hello_encode(&hello, bytes);
    peer_send(fd, bytes, sizeof(bytes));
}

static struct mc_tcp_hello receive_hello(int fd)
{
    struct mc_tcp_hello hello;
    uint8_t bytes[MC_TCP_HELLO_LEN];

    peer_receive(fd, bytes, sizeof(bytes));
    assert_int_equal(mc_tcp_hello_decode(bytes, &hello), MOONCAKE_OK);
    return hello;
}

static int peer_open(const struct fixture *f)
{
    int fd = peer_connect(f);

    send_hello(fd, MC_TCP_PROTOCOL, MC_TCP_PROTOCOL);
    assert_int_equal(receive_hello(fd).status, MOONCAKE_OK);
    return fd;
}

static struct mc_tcp_request whole(enum mc_rights op, const struct mc_extent_ref *extent,
                                   uint64_t id)
{
    return (struct mc_tcp_request){.op = op,
                                   .id = id,
                                   .extent = *extent,
                                   .part_len = MC_EXTENT_HEADER_LEN + extent->payload_len};
}

static void send_request(int fd, const struct mc_tcp_request *request)
{
    uint8_t bytes[MC_TCP_REQUEST_LEN];

    mc_tcp_request_encode(request, bytes);
    peer_send(fd, bytes, sizeof(bytes));
}

static void expect_answer(int fd, uint64_t id, mooncake_err status, uint64_t len)
{
    struct mc_tcp_answer answer;
    uint8_t bytes[MC_TCP_ANSWER_LEN];

    peer_receive(fd, bytes, sizeof(bytes));
    assert_int_equal(mc_tcp_answer_decode(bytes, &answer), MOONCAKE_OK);
    assert_int_equal(answer.id, id);
    assert_int_equal(answer.status, status);
    assert_int_equal(answer.len, len);
}

/* Does the server still do its work for this peer? */
static void peer_expect_service(const struct fixture *f, int fd)
{
    struct mc_extent_ref extent = rig_extent(&f->segment, 4096, 100, 77);
    struct mc_tcp_request request = whole(MC_RIGHT_READ, &extent, 4711);
    uint8_t bytes[MC_EXTENT_HEADER_LEN + 100];

    send_request(fd, &request);
    expect_answer(fd, 4711, MOONCAKE_OK, sizeof(bytes));
    peer_receive(fd, bytes, sizeof(bytes));
}

/* ---- nonsense -------------------------------------------------------------------------------- */

static void server__closes_a_peer_that_sends_garbage(void **state)
{
    struct fixture *f = *state;
    int neighbour = peer_open(f);
    uint8_t garbage[1000];
    int fd;

    rig_fill(garbage, sizeof(garbage), 5);
    fd = peer_connect(f); /* instead of a hello */
    peer_send(fd, garbage, sizeof(garbage));
    peer_expect_end(fd);
    fd = peer_open(f); /* instead of a request */
    peer_send(fd, garbage, sizeof(garbage));
    peer_expect_end(fd);
    assert_int_equal(mc_counter_get(&mc_tcp_server_stats(f->server)->bad_frames), 2);
    peer_expect_service(f, neighbour);
    (void)close(neighbour);
}

static void server__names_its_protocol_to_a_peer_of_another(void **state)
{
    struct fixture *f = *state;
    int fd = peer_connect(f);
    struct mc_tcp_hello hello;

    send_hello(fd, 2, 9);
    hello = receive_hello(fd);
    assert_int_equal(hello.status, MOONCAKE_ENOTSUP);
    assert_int_equal(hello.protocol_min, MC_TCP_PROTOCOL);
    assert_int_equal(hello.protocol_max, MC_TCP_PROTOCOL);
    peer_expect_end(fd);
    fd = peer_connect(f);
    send_hello(fd, 0, 9); /* ranges meet */
    assert_int_equal(receive_hello(fd).status, MOONCAKE_OK);
    peer_expect_service(f, fd);
    (void)close(fd);
}

static void server__closes_on_a_length_that_cannot_be(void **state)
{
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_extent(&f->segment, 0, MC_TCP_PAYLOAD_LEN_MAX + 1, 1);
    struct mc_tcp_request request = whole(MC_RIGHT_WRITE, &extent, 1);
    struct mc_tcp_request beyond = request;
    int fd = peer_open(f);

    send_request(fd, &request);
    peer_expect_end(fd);
    beyond.extent = rig_extent(&f->segment, 0, 100, 1);
    beyond.part_offset = 100;
    beyond.part_len = 65;
    fd = peer_open(f);
    send_request(fd, &beyond);
    peer_expect_end(fd);
    assert_int_equal(mc_counter_get(&mc_tcp_server_stats(f->server)->bad_frames), 2);
}

static void server__allocates_nothing_for_a_length_that_is_claimed(void **state)
{
    struct fixture *f = *state;
    struct mc_extent_ref huge = rig_extent(&f->segment, 0, MC_TCP_PAYLOAD_LEN_MAX, 1);
    struct mc_tcp_request write = whole(MC_RIGHT_WRITE, &huge, 2);
    struct mc_tcp_request read = whole(MC_RIGHT_READ, &huge, 1);
    static uint8_t bytes[1 << 20];
    int fd = peer_open(f);
    int64_t blocks = mc_mem_live_count();

    send_request(fd, &read);
    expect_answer(fd, 1, MOONCAKE_EINVAL, 0); /* genuine, but larger than the segment */
    send_request(fd, &write);
    for (unsigned i = 0; i < 32; i++) {
        peer_send(fd, bytes, sizeof(bytes));
        assert_true(mc_mem_live_count() <= blocks + 2); /* the stream's own queue at most */
    }
    (void)close(fd);
    WAIT_UNTIL(connections(f) == 0);
}

/* ---- slowness -------------------------------------------------------------------------------- */

static void server__takes_requests_byte_by_byte(void **state)
{
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_extent(&f->segment, 128, 300, 1);
    struct mc_tcp_request write = whole(MC_RIGHT_WRITE, &extent, 1);
    struct mc_tcp_request read = whole(MC_RIGHT_READ, &extent, 2);
    const size_t extent_len = MC_EXTENT_HEADER_LEN + 300;
    uint8_t all[MC_TCP_HELLO_LEN + 2 * MC_TCP_REQUEST_LEN + MC_EXTENT_HEADER_LEN + 300];
    uint8_t back[MC_EXTENT_HEADER_LEN + 300];
    const struct mc_tcp_hello hello = {.protocol_min = 1, .protocol_max = 1};
    int fd = peer_connect(f);

    mc_tcp_hello_encode(&hello, all);
    mc_tcp_request_encode(&write, all + MC_TCP_HELLO_LEN);
    rig_fill(all + MC_TCP_HELLO_LEN + MC_TCP_REQUEST_LEN, extent_len, 9);
    mc_tcp_request_encode(&read, all + sizeof(all) - MC_TCP_REQUEST_LEN);
    for (size_t i = 0; i < sizeof(all); i++) {
        peer_send(fd, all + i, 1);
    }
    assert_int_equal(receive_hello(fd).status, MOONCAKE_OK);
    expect_answer(fd, 1, MOONCAKE_OK, 0);
    expect_answer(fd, 2, MOONCAKE_OK, extent_len);
    peer_receive(fd, back, extent_len);
    rig_check(back, extent_len, 9);
    rig_check(f->segment.view + 128, extent_len, 9);
    (void)close(fd);
}

static void server__closes_peers_that_stop_inside_something_but_not_idle_ones(void **state)
{
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_extent(&f->segment, 0, 1 << 20, 1);
    struct mc_tcp_request write = whole(MC_RIGHT_WRITE, &extent, 1);
    struct mc_tcp_request read = whole(MC_RIGHT_READ, &extent, 1);
    int idle = peer_open(f);
    int mute = peer_connect(f);
    int half_hello = peer_connect(f);
    int half_request = peer_open(f);
    int half_write = peer_open(f);
    int deaf = peer_open(f);

    peer_send(half_hello, "MCD", 3);
    peer_send(half_request, "MCDQ", 4);
    send_request(half_write, &write);
    for (unsigned i = 0; i < 64; i++) { /* more than the sockets' buffers hold */
        send_request(deaf, &read);
    }
    WAIT_UNTIL(connections(f) == 1);
    peer_expect_end(mute);
    peer_expect_end(half_hello);
    peer_expect_end(half_request);
    peer_expect_end(half_write);
    peer_expect_end(deaf);
    peer_expect_service(f, idle);
    (void)close(idle);
}

static void server__serves_others_while_peers_are_half_open(void **state)
{
    struct fixture *f = *state;
    int mute[100];
    int fd;

    for (size_t i = 0; i < MC_ARRAY_LEN(mute); i++) {
        mute[i] = peer_connect(f);
    }
    fd = peer_open(f);
    peer_expect_service(f, fd);
    (void)close(fd);
    for (size_t i = 0; i < MC_ARRAY_LEN(mute); i++) {
        (void)close(mute[i]);
    }
    WAIT_UNTIL(connections(f) == 0);
}

/* Many times as many requests as answers are held ready, all sent before an answer is taken: with
 * answers that the sockets' buffers hold, and with answers that they do not. */
static void server__holds_back_requests_whose_answers_are_not_taken(void **state)
{
    static const size_t lens[] = {100, 20000};
    static uint8_t requests[2000 * MC_TCP_REQUEST_LEN];
    static uint8_t bytes[MC_EXTENT_HEADER_LEN + 20000];
    struct fixture *f = *state;
    int fd = peer_open(f);

    for (size_t i = 0; i < MC_ARRAY_LEN(lens); i++) {
        struct mc_extent_ref extent = rig_extent(&f->segment, 4096, lens[i], 1);

        for (uint64_t id = 0; id < 2000; id++) {
            struct mc_tcp_request request = whole(MC_RIGHT_READ, &extent, id);

            mc_tcp_request_encode(&request, requests + id * MC_TCP_REQUEST_LEN);
        }
        peer_send(fd, requests, sizeof(requests));
        for (uint64_t id = 0; id < 2000; id++) {
            expect_answer(fd, id, MOONCAKE_OK, MC_EXTENT_HEADER_LEN + lens[i]);
            peer_receive(fd, bytes, MC_EXTENT_HEADER_LEN + lens[i]);
        }
    }
    (void)close(fd);
}

/* ---- requests -------------------------------------------------------------------------------- */

static void server__skips_exactly_the_payload_of_a_refused_write(void **state)
{
    static const size_t lens[] = {0, 1, 1000, 65535, 65536, 3 << 20};
    static uint8_t bytes[MC_EXTENT_HEADER_LEN + (3 << 20)];
    struct fixture *f = *state;
    int fd = peer_open(f);

    memset(bytes, 'x', sizeof(bytes));
    for (size_t i = 0; i < MC_ARRAY_LEN(lens); i++) {
        struct mc_extent_ref forged = rig_extent(&f->segment, 8192, lens[i], 1);
        struct mc_extent_ref gone = rig_extent(&f->segment, 8192, lens[i], 1);
        struct mc_tcp_request request;

        forged.capability ^= 1;
        request = whole(MC_RIGHT_WRITE, &forged, 1);
        send_request(fd, &request);
        peer_send(fd, bytes, MC_EXTENT_HEADER_LEN + lens[i]);
        gone.mount_id = 22;
        request = whole(MC_RIGHT_WRITE, &gone, 2);
        send_request(fd, &request);
        peer_send(fd, bytes, MC_EXTENT_HEADER_LEN + lens[i]);
        expect_answer(fd, 1, MOONCAKE_ENOTOWNER, 0);
        expect_answer(fd, 2, MOONCAKE_ENOSEGMENT, 0);
        peer_expect_service(f, fd);
        assert_int_equal(f->segment.view[8192], 0);
    }
    assert_int_equal(mc_counter_get(&mc_tcp_server_stats(f->server)->refused_requests),
                     2 * MC_ARRAY_LEN(lens));
    (void)close(fd);
}

static void server__serves_parts_of_an_extent(void **state)
{
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_extent(&f->segment, 640, 10000, 1);
    struct mc_tcp_request request = whole(MC_RIGHT_WRITE, &extent, 1);
    uint8_t bytes[5000];
    uint8_t back[5000];
    int fd = peer_open(f);

    rig_fill(bytes, sizeof(bytes), 3);
    request.part_offset = 3000;
    request.part_len = sizeof(bytes);
    send_request(fd, &request);
    peer_send(fd, bytes, sizeof(bytes));
    expect_answer(fd, 1, MOONCAKE_OK, 0);
    rig_check(f->segment.view + 640 + 3000, sizeof(bytes), 3);
    assert_int_equal(f->segment.view[640 + 2999], 0);
    assert_int_equal(f->segment.view[640 + 3000 + sizeof(bytes)], 0);
    request.op = MC_RIGHT_READ;
    send_request(fd, &request);
    expect_answer(fd, 1, MOONCAKE_OK, sizeof(back));
    peer_receive(fd, back, sizeof(back));
    rig_check(back, sizeof(back), 3);
    request.part_len = 0;
    send_request(fd, &request);
    expect_answer(fd, 1, MOONCAKE_OK, 0);
    (void)close(fd);
}

/* ---- the end of mounts and servers ----------------------------------------------------------- */

static void mount__goes_although_peers_that_use_it_are_stuck(void **state)
{
    struct fixture *f = *state;
    struct mc_extent_ref left = rig_extent(&f->segment, 0, 7 << 20, 1);
    struct mc_extent_ref right = rig_extent(&f->segment, 8 << 20, 7 << 20, 1);
    struct mc_tcp_request write = whole(MC_RIGHT_WRITE, &left, 1);
    struct mc_tcp_request read = whole(MC_RIGHT_READ, &right, 1);
    uint8_t begun[1000];
    const volatile uint8_t *last_begun =
        (const uint8_t *)f->segment.view + left.offset + sizeof(begun) - 1;
    struct rig_segment other;
    struct fixture other_view = *f;
    int reader = peer_open(f);
    int writer = peer_open(f);
    int bystander = peer_open(f);

    rig_segment_open(&other, 23, SEGMENT_LEN);
    rig_segment_serve(&other);
    other_view.segment = other;
    send_request(reader, &read);
    send_request(writer, &write);
    memset(begun, 0xa5, sizeof(begun));
    peer_send(writer, begun, sizeof(begun));
    WAIT_UNTIL(mc_counter_get(&mc_tcp_server_stats(f->server)->reads) == 1);
    WAIT_UNTIL(last_begun[0] == 0xa5); /* the write is under way, too: else it would be refused */
    mc_mount_drop(21);
    rig_segment_close(&f->segment); /* unmapped: any later touch is a crash */
    peer_expect_end(reader);
    peer_expect_end(writer);
    peer_expect_service(&other_view, bystander);
    send_request(bystander, &read);
    expect_answer(bystander, 1, MOONCAKE_ENOSEGMENT, 0);
    (void)close(bystander);
    rig_segment_close(&other);
    rig_segment_open(&f->segment, 21, SEGMENT_LEN); /* for close_fixture() */
}

static void server__leaks_no_descriptor_over_200_connections(void **state)
{
    struct fixture *f = *state;
    int fd = peer_open(f);
    unsigned before;

    (void)close(fd);
    WAIT_UNTIL(connections(f) == 0);
    before = rig_count_fds();
    for (unsigned i = 0; i < 200; i++) {
        fd = i % 2 == 0 ? peer_open(f) : peer_connect(f);
        if (i % 4 == 0) {
            peer_expect_service(f, fd);
        }
        (void)close(fd);
    }
    WAIT_UNTIL(connections(f) == 0);
    assert_int_equal(rig_count_fds(), before);
}

static void close__waits_for_requests_under_way_but_no_longer_than_asked(void **state)
{
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_extent(&f->segment, 0, 1000, 1);
    struct mc_tcp_request write = whole(MC_RIGHT_WRITE, &extent, 1);
    struct mc_tcp_server_options options = {.address = "127.0.0.1:0", .loops = 2};
    uint64_t begin_ns = mc_monotonic_ns();
    int fd = peer_open(f);

    mc_tcp_server_close(&f->server, 60000); /* nothing under way: at once */
    assert_true(mc_monotonic_ns() - begin_ns < 20 * MC_NS_PER_S);
    peer_expect_end(fd);
    assert_int_equal(mc_tcp_server_open(&options, &f->server), MOONCAKE_OK);
    fd = peer_open(f);
    peer_expect_service(f, fd);
    send_request(fd, &write);
    peer_send(fd, f->segment.view, 10);
    begin_ns = mc_monotonic_ns();
    mc_tcp_server_close(&f->server, 100);
    assert_true(mc_monotonic_ns() - begin_ns < 20 * MC_NS_PER_S);
    peer_expect_end(fd);
}

static void open__tells_what_is_wrong(void **state)
{
    struct fixture *f = *state;
    struct mc_tcp_server_options options = {.address = "127.0.0.1:0", .loops = 0};
    struct mc_tcp_server *server = NULL;
    char taken[32];

    assert_int_equal(mc_tcp_server_open(&options, &server), MOONCAKE_EINVAL);
    options.loops = 1;
    options.address = "nonsense";
    assert_int_equal(mc_tcp_server_open(&options, &server), MOONCAKE_EINVAL);
    (void)snprintf(taken, sizeof(taken), "127.0.0.1:%u", mc_tcp_server_port(f->server));
    options.address = taken;
    assert_int_equal(mc_tcp_server_open(&options, &server), MOONCAKE_ERPC);
    assert_null(server);
}

static void open__gives_all_memory_back_when_there_is_not_enough(void **state)
{
    struct fixture *f = *state;
    struct mc_tcp_server_options options = {.address = "127.0.0.1:0", .loops = 2};
    struct mc_tcp_server *server = NULL;
    mooncake_err err = MOONCAKE_ENOMEM;
    int64_t before;

    mc_tcp_server_close(&f->server, 0);
    before = mc_mem_live_count();
    for (int64_t n = 0; err == MOONCAKE_ENOMEM; n++) {
        assert_true(n < 1000);
        mc_mem_fail_after(n);
        err = mc_tcp_server_open(&options, &server);
        mc_mem_fail_after(-1);
        assert_int_equal(mc_mem_live_count() > before, err == MOONCAKE_OK);
    }
    assert_int_equal(err, MOONCAKE_OK);
    mc_tcp_server_close(&server, 0);
    assert_int_equal(mc_mem_live_count(), before);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_fixture, close_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(server__closes_a_peer_that_sends_garbage),
        TEST(server__names_its_protocol_to_a_peer_of_another),
        TEST(server__closes_on_a_length_that_cannot_be),
        TEST(server__allocates_nothing_for_a_length_that_is_claimed),
        TEST(server__takes_requests_byte_by_byte),
        cmocka_unit_test_setup_teardown(
            server__closes_peers_that_stop_inside_something_but_not_idle_ones, open_fixture_hasty,
            close_fixture),
        TEST(server__serves_others_while_peers_are_half_open),
        TEST(server__holds_back_requests_whose_answers_are_not_taken),
        TEST(server__skips_exactly_the_payload_of_a_refused_write),
        TEST(server__serves_parts_of_an_extent),
        TEST(mount__goes_although_peers_that_use_it_are_stuck),
        TEST(server__leaks_no_descriptor_over_200_connections),
        TEST(close__waits_for_requests_under_way_but_no_longer_than_asked),
        TEST(open__tells_what_is_wrong),
        TEST(open__gives_all_memory_back_when_there_is_not_enough),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * The client's side of tcp against stores that lie: a socket in the test's hand that speaks the
 * protocol up to a point.
 */
#include "rig.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "transport/tcp_frame.h"

/* Several times what the sockets' buffers hold. */
#define LARGE_LEN ((size_t)20 << 20)

static const struct rig_segment segment = {.mount = {.mount_id = 31}}; /* there is no memory */

struct fixture {
    struct rig_engine engine;
    int listener;
    uint8_t *memory;
};

/* ---- the store that lies -----------------------------------------------------------------------
 */

static int open_fixture(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);
    const int small = 65536; /* so that much is on its way at the client's end */

    assert_non_null(f);
    f->memory = calloc(1, LARGE_LEN);
    assert_non_null(f->memory);
    f->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    (void)setsockopt(f->listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    assert_int_equal(bind(f->listener, (const struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(f->listener, 16), 0);
    assert_int_equal(getsockname(f->listener, (struct sockaddr *)&address, &len), 0);
    rig_engine_open(&f->engine, "tcp", 31, ntohs(address.sin_port), &rig_options);
    *state = f;
    return 0;
}

static int close_fixture(void **state)
{
    struct fixture *f = *state;

    rig_engine_close(&f->engine);
    (void)close(f->listener);
    free(f->memory);
    free(f);
    return mc_mem_live_count() == 0 ? 0 : -1;
}

static int liar_accept(struct fixture *f)
{
    int fd = -1;

    RIG_RUN_UNTIL(f->engine.loop,
                  (fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0);
    return fd;
}

static void liar_receive(struct fixture *f, int fd, void *bytes, size_t len)
{
    size_t done = 0;

    for (uint64_t until_ns = mc_monotonic_ns() + RIG_WAIT_NS; done < len;) {
        ssize_t n = recv(fd, (uint8_t *)bytes + done, len - done, 0);

        assert_true(mc_monotonic_ns() < until_ns);
        if (n > 0) {
            done += (size_t)n;
        } else {
            rig_run_a_little(f->engine.loop);
        }
    }
}

static void liar_send(int fd, const void *bytes, size_t len)
{
    assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
}

/* Take a connection and be civil so far. */
static int liar_open(struct fixture *f)
{
    const struct mc_tcp_hello hello = {.protocol_min = 1, .protocol_max = 1};
    uint8_t bytes[MC_TCP_HELLO_LEN];
    int fd = liar_accept(f);

    liar_receive(f, fd, bytes, sizeof(bytes));
    mc_tcp_hello_encode(&hello, bytes);
    liar_send(fd, bytes, sizeof(bytes));
    return fd;
}

static struct mc_tcp_request liar_request(struct fixture *f, int fd)
{
    struct mc_tcp_request request;
    uint8_t bytes[MC_TCP_REQUEST_LEN];

    liar_receive(f, fd, bytes, sizeof(bytes));
    assert_int_equal(mc_tcp_request_decode(bytes, &request), MOONCAKE_OK);
    return request;
}

static void liar_answer(int fd, uint64_t id, int status, uint64_t len)
{
    const struct mc_tcp_answer answer = {.status = status, .id = id, .len = len};
    uint8_t bytes[MC_TCP_ANSWER_LEN];

    mc_tcp_answer_encode(&answer, bytes);
    liar_send(fd, bytes, sizeof(bytes));
}

static void op__fails_when_the_store_speaks_another_protocol(void **state)
{
    const struct mc_tcp_hello hello = {
        .protocol_min = 2, .protocol_max = 3, .status = MOONCAKE_ENOTSUP};
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_extent(&segment, 0, 1000, 1);
    uint8_t bytes[MC_TCP_HELLO_LEN];
    struct rig_op op;
    int fd;

    rig_op_init(&op, &f->engine, MC_RIGHT_READ, &extent, f->memory);
    rig_submit(&f->engine, &op);
    f->engine.transport->ops->flush(f->engine.transport);
    fd = liar_accept(f);
    mc_tcp_hello_encode(&hello, bytes);
    liar_send(fd, bytes, sizeof(bytes));
    rig_wait(&f->engine, &op);
    assert_int_equal(op.op.err, MOONCAKE_ERPC);
    (void)close(fd);
}

enum lie {
    LIE_GARBAGE,
    LIE_WRONG_ID,
    LIE_TOO_LONG,
    LIE_TOO_SHORT,
    LIE_LENGTH_WITH_ERROR,
    LIE_CLOSE,
    LIES,
};

static void tell(enum lie lie, int fd, const struct mc_tcp_request *request)
{
    static const uint8_t garbage[200] = "HTTP/1.1 400 Bad Request";
    const uint64_t len = request->part_len;

    switch (lie) {
    case LIE_GARBAGE:
        liar_send(fd, garbage, sizeof(garbage));
        break;
    case LIE_WRONG_ID:
        liar_answer(fd, request->id + 1, MOONCAKE_OK, len);
        liar_send(fd, garbage, MC_EXTENT_HEADER_LEN);
        break;
    case LIE_TOO_LONG:
        liar_answer(fd, request->id, MOONCAKE_OK, len + 1);
        liar_send(fd, garbage, MC_EXTENT_HEADER_LEN);
        break;
    case LIE_TOO_SHORT:
        liar_answer(fd, request->id, MOONCAKE_OK, len - 1);
        liar_send(fd, garbage, MC_EXTENT_HEADER_LEN);
        break;
    case LIE_LENGTH_WITH_ERROR:
        liar_answer(fd, request->id, MOONCAKE_ENOTOWNER, 5);
        break;
    case LIE_CLOSE:
    case LIES:
        break;
    }
    if (lie == LIE_CLOSE) {
        (void)shutdown(fd, SHUT_RDWR);
    }
}

static void op__is_tried_twice_and_no_more_on_a_store_that_lies(void **state)
{
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_extent(&segment, 0, 100000, 1);

    for (enum lie lie = 0; lie < LIES; lie++) {
        struct rig_op op;
        int fds[2];

        rig_op_init(&op, &f->engine, MC_RIGHT_READ, &extent, f->memory);
        rig_submit(&f->engine, &op);
        f->engine.transport->ops->flush(f->engine.transport);
        for (size_t i = 0; i < 2; i++) {
            struct mc_tcp_request request;

            fds[i] = liar_open(f);
            request = liar_request(f, fds[i]);
            assert_false(op.done);
            tell(lie, fds[i], &request);
        }
        rig_wait(&f->engine, &op);
        assert_int_equal(op.op.err, MOONCAKE_ERPC);
        (void)close(fds[0]);
        (void)close(fds[1]);
    }
}

static void op__with_an_unknown_status_is_an_internal_error(void **state)
{
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_extent(&segment, 0, 1000, 1);
    struct rig_op op;
    int fd;

    rig_op_init(&op, &f->engine, MC_RIGHT_READ, &extent, f->memory);
    rig_submit(&f->engine, &op);
    f->engine.transport->ops->flush(f->engine.transport);
    fd = liar_open(f);
    liar_answer(fd, liar_request(f, fd).id, -12345, 0);
    rig_wait(&f->engine, &op);
    assert_int_equal(op.op.err, MOONCAKE_EINTERNAL);
    (void)close(fd);
}

static void begin(struct fixture *f, struct rig_op *op)
{
    rig_submit(&f->engine, op);
    f->engine.transport->ops->flush(f->engine.transport);
}

/* Take the next request and its bytes, unless @p op ends before. */
static bool liar_take(struct fixture *f, int fd, const struct rig_op *op,
                      struct mc_tcp_request *out, uint8_t *last)
{
    static uint8_t sink[1 << 20];
    uint8_t byte;

    RIG_RUN_UNTIL(f->engine.loop, op->done || recv(fd, &byte, 1, MSG_PEEK) == 1);
    if (op->done) {
        return false;
    }
    *out = liar_request(f, fd);
    assert_true(out->part_len <= sizeof(sink));
    liar_receive(f, fd, sink, out->part_len);
    memcpy(last, sink, MC_EXTENT_HEADER_LEN);
    return true;
}

/* The parts of a large write are requests of their own, and so is the header, which goes last. */
static void write__of_many_requests_ends_with_its_header(void **state)
{
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_extent(&segment, 0, LARGE_LEN, 1);
    struct mc_tcp_request request;
    uint8_t header[MC_EXTENT_HEADER_LEN];
    uint64_t checksum, done = 0;
    struct rig_op op;
    int fd;

    rig_op_init(&op, &f->engine, MC_RIGHT_WRITE, &extent, f->memory);
    begin(f, &op);
    fd = liar_open(f);
    while (done < LARGE_LEN) {
        assert_true(liar_take(f, fd, &op, &request, header));
        assert_int_equal(request.part_offset, MC_EXTENT_HEADER_LEN + done);
        done += request.part_len;
        liar_answer(fd, request.id, MOONCAKE_OK, 0);
    }
    assert_int_equal(done, LARGE_LEN);
    assert_true(liar_take(f, fd, &op, &request, header));
    assert_int_equal(request.part_offset, 0);
    assert_int_equal(request.part_len, MC_EXTENT_HEADER_LEN);
    assert_int_equal(mc_extent_header_check(&extent, header, &checksum), MOONCAKE_OK);
    assert_int_equal(checksum, mc_extent_hash_iov(&op.piece, 1));
    assert_false(op.done);
    liar_answer(fd, request.id, MOONCAKE_OK, 0);
    rig_wait(&f->engine, &op);
    assert_int_equal(op.op.err, MOONCAKE_OK);
    (void)close(fd);
}

static void write__of_many_requests_goes_no_further_than_the_first_refusal(void **state)
{
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_extent(&segment, 0, LARGE_LEN, 1);
    struct mc_tcp_request request;
    uint8_t header[MC_EXTENT_HEADER_LEN];
    uint64_t done = 0;
    struct rig_op op;
    int fd;

    rig_op_init(&op, &f->engine, MC_RIGHT_WRITE, &extent, f->memory);
    begin(f, &op);
    fd = liar_open(f);
    while (liar_take(f, fd, &op, &request, header)) {
        liar_answer(fd, request.id, done == 0 ? MOONCAKE_ENOTOWNER : MOONCAKE_OK, 0);
        assert_int_not_equal(request.part_offset, 0);
        done += request.part_len;
    }
    assert_int_equal(op.op.err, MOONCAKE_ENOTOWNER);
    assert_true(done < LARGE_LEN);
    (void)close(fd);
}

static void write__answered_before_it_was_asked_is_a_lie(void **state)
{
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_extent(&segment, 0, LARGE_LEN, 1);
    struct rig_op op;
    int fds[2];

    rig_op_init(&op, &f->engine, MC_RIGHT_WRITE, &extent, f->memory);
    begin(f, &op);
    for (size_t i = 0; i < 2; i++) {
        uint64_t id;

        fds[i] = liar_open(f);
        id = liar_request(f, fds[i]).id;
        assert_false(op.done);
        for (uint64_t n = 0; n < 100; n++) { /* for more parts than can be under way */
            liar_answer(fds[i], id + n, MOONCAKE_OK, 0);
        }
    }
    rig_wait(&f->engine, &op);
    assert_int_equal(op.op.err, MOONCAKE_ERPC);
    (void)close(fds[0]);
    (void)close(fds[1]);
}

/* A write that is refused while its payload is still on the way out is not over. */
static void write__refused_early_ends_when_its_pieces_are_quiet(void **state)
{
    const size_t len = 100000; /* one request, lent to the stream */
    static struct rig_op ops[LARGE_LEN / 100000];
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_extent(&segment, 0, len, 1);
    static uint8_t sink[100000];
    size_t held = 0;
    int fd;

    for (size_t i = 0; i < MC_ARRAY_LEN(ops); i++) {
        rig_op_init(&ops[i], &f->engine, MC_RIGHT_WRITE, &extent, f->memory + i * len);
        begin(f, &ops[i]);
    }
    fd = liar_open(f);
    for (unsigned i = 0; i < 20; i++) { /* until the sockets' buffers are full */
        rig_run_a_little(f->engine.loop);
    }
    for (; held < MC_ARRAY_LEN(ops);
         held++) { /* refuse one after another, up to the one on its way */
        liar_answer(fd, held + 1, MOONCAKE_ENOTOWNER, 0);
        for (unsigned i = 0; i < 5 && !ops[held].done; i++) {
            rig_run_a_little(f->engine.loop);
        }
        if (!ops[held].done) {
            break;
        }
    }
    assert_true(held > 0 && held < MC_ARRAY_LEN(ops));
    for (uint64_t until_ns = mc_monotonic_ns() + RIG_WAIT_NS; !ops[held].done;) {
        assert_true(mc_monotonic_ns() < until_ns);
        (void)recv(fd, sink, sizeof(sink), 0);
        rig_run_a_little(f->engine.loop);
    }
    assert_int_equal(ops[held].op.err, MOONCAKE_ENOTOWNER);
    assert_int_equal(mc_counter_get(&rig_stats(&f->engine)->reconnects), 0);
    (void)close(fd);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_fixture, close_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(op__fails_when_the_store_speaks_another_protocol),
        TEST(op__is_tried_twice_and_no_more_on_a_store_that_lies),
        TEST(op__with_an_unknown_status_is_an_internal_error),
        TEST(write__of_many_requests_ends_with_its_header),
        TEST(write__of_many_requests_goes_no_further_than_the_first_refusal),
        TEST(write__answered_before_it_was_asked_is_a_lie),
        TEST(write__refused_early_ends_when_its_pieces_are_quiet),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Streams that are up: reading, sending, closing, with a raw socket as the peer. */
#include "io_fixture.h"

#include <errno.h>
#include <linux/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Bytes that tell where in a flow they belong. */
static uint8_t pattern(size_t at)
{
    return (uint8_t)(at * 131u ^ at >> 8 ^ at >> 17);
}

static void fill(uint8_t *out, size_t len, size_t from)
{
    for (size_t i = 0; i < len; i++) {
        out[i] = pattern(from + i);
    }
}

static void expect(const uint8_t *in, size_t len, size_t from)
{
    for (size_t i = 0; i < len; i++) {
        if (in[i] != pattern(from + i)) {
            fail_msg("byte %zu is wrong", from + i);
        }
    }
}

/* ---- reading ------------------------------------------------------------------------------- */

static void stream__bytes_that_come_one_by_one_land_in_order(void **state)
{
    struct fixture f;

    (void)state;
    fixture_init_connected(&f);
    for (size_t i = 0; i < 300; i++) {
        uint8_t byte = pattern(i);

        peer_send(&f, &byte, 1);
        RUN_UNTIL(&f, f.end.in_len == i + 1);
    }
    expect(f.end.in, 300, 0);
    fixture_fini(&f);
}

static void stream__ranges_are_filled_one_after_another(void **state)
{
    struct fixture f;
    uint8_t bytes[5000];

    (void)state;
    fixture_init_connected(&f);
    fill(bytes, sizeof(bytes), 0);
    f.end.ranges = MC_STREAM_IOV_MAX;
    f.end.space_max = 999; /* no multiple of 16: the last range is shorter */
    peer_send(&f, bytes, sizeof(bytes));
    RUN_UNTIL(&f, f.end.in_len == sizeof(bytes));
    expect(f.end.in, sizeof(bytes), 0);
    fixture_fini(&f);
}

static void stream__reads_nothing_while_paused_and_all_after_resume(void **state)
{
    struct fixture f;
    uint8_t bytes[1000];
    unsigned spaces;

    (void)state;
    fixture_init_connected(&f);
    fill(bytes, sizeof(bytes), 0);
    f.end.space_max = 100;
    f.end.pause_at = 300;
    peer_send(&f, bytes, sizeof(bytes));
    RUN_UNTIL(&f, f.end.in_len == 300);
    spaces = f.end.spaces;
    for (int i = 0; i < 5; i++) {
        run_some(&f);
    }
    assert_int_equal(f.end.in_len, 300);
    assert_in_range(f.end.spaces, spaces, spaces + 1); /* asked once more at most: no spinning */
    f.end.pause_at = 0;
    mc_stream_resume(f.end.stream);
    RUN_UNTIL(&f, f.end.in_len == sizeof(bytes));
    expect(f.end.in, sizeof(bytes), 0);
    fixture_fini(&f);
}

static void stream__end_of_peer_is_noticed_behind_the_last_byte(void **state)
{
    struct fixture f;

    (void)state;
    fixture_init_connected(&f);
    peer_send(&f, "last", 4);
    (void)close(f.peer);
    f.peer = -1;
    RUN_UNTIL(&f, f.end.closed);
    assert_memory_equal(f.end.in, "last", 4);
    assert_int_equal(f.end.in_len, 4);
    assert_int_equal(f.end.why, MOONCAKE_ERPC);
    assert_non_null(strstr(f.end.sentence, f.address));
    fixture_fini(&f);
}

static void stream__bytes_before_a_reset_are_still_delivered(void **state)
{
    struct fixture f;
    uint8_t bytes[3000];

    (void)state;
    fixture_init_connected(&f);
    fill(bytes, sizeof(bytes), 0);
    f.end.space_max = 100; /* 30 reads: more than one turn's worth */
    assert_int_equal(send(f.peer, bytes, sizeof(bytes), MSG_NOSIGNAL), sizeof(bytes));
    peer_reset(&f);
    RUN_UNTIL(&f, f.end.closed);
    assert_int_equal(f.end.in_len, sizeof(bytes));
    expect(f.end.in, sizeof(bytes), 0);
    assert_int_equal(f.end.why, MOONCAKE_ERPC);
    fixture_fini(&f);
}

static void stream__reset_while_paused_ends_it_after_resume(void **state)
{
    struct fixture f;

    (void)state;
    fixture_init_connected(&f);
    f.end.pause_at = 1;
    peer_send(&f, "xy", 2);
    RUN_UNTIL(&f, f.end.in_len == 2);
    peer_send(&f, "z", 1);
    run_some(&f);
    peer_reset(&f);
    run_some(&f);
    assert_false(f.end.closed); /* the z may still be wanted */
    f.end.pause_at = 0;
    mc_stream_resume(f.end.stream);
    RUN_UNTIL(&f, f.end.closed);
    assert_int_equal(f.end.why, MOONCAKE_ERPC);
    assert_memory_equal(f.end.in, "xyz", 3);
    fixture_fini(&f);
}

static size_t read_this_turn;

static void count_and_forget(struct end *end, size_t len)
{
    read_this_turn += len;
    end->in_len = 0;
}

static void stream__reads_no_more_than_its_share_in_one_turn(void **state)
{
    static uint8_t bytes[64 << 10];
    const int buffer_len = 8 << 20;
    struct fixture f;
    int waiting = 0;

    (void)state;
    fixture_init_connected(&f);
    f.end.when_bytes = count_and_forget;
    (void)setsockopt(f.peer, SOL_SOCKET, SO_SNDBUF, &buffer_len, sizeof(buffer_len));
    /* The kernel may widen the window as we read, until it holds more than a share. */
    for (int i = 0; i < 30 && waiting < 2 << 20; i++) {
        while (send(f.peer, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
        }
        waiting = end_waiting_bytes(&f);
        read_this_turn = 0;
        mc_loop_run_ready(f.loop);
        assert_in_range(read_this_turn, 1, ((size_t)1 << 20) + END_IN_LEN);
    }
    assert_true(waiting > 160); /* of the reads' share there is more than enough */
    read_this_turn = 0;
    f.end.space_max = 10;
    mc_loop_run_ready(f.loop);
    assert_in_range(read_this_turn, 1, 160);
    fixture_fini(&f);
}

/* ---- sending ------------------------------------------------------------------------------- */

struct sent {
    unsigned *counter;
    unsigned number, runs;
    mooncake_err err;
};

static void on_sent(void *arg, mooncake_err err)
{
    struct sent *sent = arg;

    sent->number = (*sent->counter)++;
    sent->runs++;
    sent->err = err;
}

static uint32_t segments_out(const struct fixture *f)
{
    struct tcp_info info;
    socklen_t len = sizeof(info);

    memset(&info, 0, sizeof(info));
    assert_int_equal(getsockopt(f->peer, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
    return info.tcpi_data_segs_in;
}

static void stream__small_sends_wait_for_the_flush_and_go_together(void **state)
{
    struct fixture f;
    uint8_t got[1000];
    uint8_t byte;

    (void)state;
    fixture_init_connected(&f);
    for (size_t i = 0; i < sizeof(got); i++) {
        byte = pattern(i);
        assert_int_equal(mc_stream_send(f.end.stream, &byte, 1, NULL, NULL), MOONCAKE_OK);
    }
    run_some(&f);
    assert_int_equal(mc_stream_queued(f.end.stream), sizeof(got));
    assert_int_equal(recv(f.peer, got, sizeof(got), MSG_DONTWAIT), -1);
    mc_stream_flush(f.end.stream);
    assert_int_equal(mc_stream_queued(f.end.stream), 0);
    peer_receive(&f, got, sizeof(got));
    expect(got, sizeof(got), 0);
    assert_int_equal(segments_out(&f), 1);
    assert_int_equal(f.end.draineds, 1);
    fixture_fini(&f);
}

static void stream__borrowed_and_copied_sends_keep_their_order(void **state)
{
    static uint8_t bytes[400 * 40];
    static uint8_t got[sizeof(bytes)];
    struct sent sents[400];
    unsigned counter = 0;
    struct fixture f;

    (void)state;
    memset(sents, 0, sizeof(sents));
    fixture_init_connected(&f);
    fill(bytes, sizeof(bytes), 0);
    for (unsigned i = 0; i < 400; i++) {
        sents[i].counter = &counter;
        /* copied, copied, borrowed, empty and borrowed, in turn; more than one call can gather */
        assert_int_equal(mc_stream_send(f.end.stream, bytes + (size_t)i * 40, 13, NULL, NULL),
                         MOONCAKE_OK);
        assert_int_equal(mc_stream_send(f.end.stream, bytes + (size_t)i * 40 + 13, 7, NULL, NULL),
                         MOONCAKE_OK);
        assert_int_equal(mc_stream_send(f.end.stream, bytes + (size_t)i * 40 + 20,
                                        i % 5 == 0 ? 0 : 20, on_sent, &sents[i]),
                         MOONCAKE_OK);
        if (i % 5 == 0) {
            assert_int_equal(
                mc_stream_send(f.end.stream, bytes + (size_t)i * 40 + 20, 20, NULL, NULL),
                MOONCAKE_OK);
        }
    }
    mc_stream_flush(f.end.stream);
    peer_receive(&f, got, sizeof(got));
    expect(got, sizeof(got), 0);
    assert_int_equal(counter, 400);
    for (unsigned i = 0; i < 400; i++) {
        assert_int_equal(sents[i].runs, 1);
        assert_int_equal(sents[i].number, i);
        assert_int_equal(sents[i].err, MOONCAKE_OK);
    }
    fixture_fini(&f);
}

static void stream__large_flow_survives_a_slow_reader(void **state)
{
    enum { TOTAL = 24 << 20 };
    static uint8_t got[64 << 10];
    uint8_t *bytes;
    struct sent sent = {0};
    unsigned counter = 0;
    size_t received = 0;
    struct fixture f;
    uint32_t random = 1;

    (void)state;
    fixture_init_connected(&f);
    bytes = mc_malloc(TOTAL);
    assert_non_null(bytes);
    fill(bytes, TOTAL, 0);
    sent.counter = &counter;
    assert_int_equal(mc_stream_send(f.end.stream, bytes, 1, NULL, NULL), MOONCAKE_OK);
    assert_int_equal(mc_stream_send(f.end.stream, bytes + 1, TOTAL - 1, on_sent, &sent),
                     MOONCAKE_OK);
    mc_stream_flush(f.end.stream);
    assert_int_equal(counter, 0); /* the kernel cannot take it all */
    while (received < TOTAL) {
        size_t want = (random = random * 1664525u + 1013904223u) % sizeof(got) + 1;

        want = want < TOTAL - received ? want : TOTAL - received;
        peer_receive(&f, got, want);
        expect(got, want, received);
        received += want;
    }
    RUN_UNTIL(&f, f.end.drained);
    assert_int_equal(sent.runs, 1);
    assert_int_equal(f.end.draineds, 1);
    assert_int_equal(mc_stream_queued(f.end.stream), 0);
    mc_free(bytes);
    fixture_fini(&f);
}

static void stream__queued_counts_what_the_kernel_has_not_taken(void **state)
{
    enum { TOTAL = 16 << 20 };
    uint8_t *bytes;
    struct fixture f;

    (void)state;
    fixture_init_connected(&f);
    bytes = mc_calloc(1, TOTAL);
    assert_non_null(bytes);
    assert_int_equal(mc_stream_send(f.end.stream, bytes, TOTAL, NULL, NULL), MOONCAKE_OK);
    mc_free(bytes); /* it was copied */
    assert_int_equal(mc_stream_queued(f.end.stream), TOTAL);
    mc_stream_flush(f.end.stream);
    assert_in_range(mc_stream_queued(f.end.stream), 1, TOTAL - 1);
    fixture_fini(&f);
}

struct chain {
    struct mc_stream *stream;
    unsigned left;
    unsigned deepest, depth;
    bool done;
};

static void send_next(void *arg, mooncake_err err)
{
    struct chain *chain = arg;

    assert_int_equal(err, MOONCAKE_OK);
    chain->depth++;
    chain->deepest = chain->depth > chain->deepest ? chain->depth : chain->deepest;
    if (chain->left-- > 0) {
        assert_int_equal(mc_stream_send(chain->stream, "x", 1, send_next, chain), MOONCAKE_OK);
        mc_stream_flush(chain->stream);
    } else {
        chain->done = true;
    }
    chain->depth--;
}

static void stream__sending_from_sent_does_not_recurse(void **state)
{
    struct chain chain = {.left = 5000};
    struct fixture f;

    (void)state;
    fixture_init_connected(&f);
    chain.stream = f.end.stream;
    send_next(&chain, MOONCAKE_OK);
    RUN_UNTIL(&f, chain.done);
    assert_int_equal(chain.deepest, 2); /* our own first call and the one inside it */
    fixture_fini(&f);
}

/* ---- closing ------------------------------------------------------------------------------- */

static void close_it(struct end *end)
{
    mc_stream_close(end->stream, MOONCAKE_ESTATE);
    mc_stream_close(end->stream, MOONCAKE_OK); /* harmless, and changes nothing */
}

static void close_on_bytes(struct end *end, size_t len)
{
    (void)len;
    close_it(end);
}

static void expect_closed(struct fixture *f)
{
    RUN_UNTIL(f, f->end.closed);
    run_some(f);
    assert_int_equal(f->end.closeds, 1);
    assert_int_equal(f->end.why, MOONCAKE_ESTATE);
    assert_string_equal(f->end.sentence, ""); /* no stale one */
    fixture_fini(f);
}

static void stream__close_from_on_bytes_ends_it_once_from_the_loop(void **state)
{
    struct fixture f;

    (void)state;
    fixture_init_connected(&f);
    (void)mc_err_set(MOONCAKE_ENOMEM, "stale");
    f.end.when_bytes = close_on_bytes;
    f.end.space_max = 1;
    peer_send(&f, "abc", 3);
    RUN_UNTIL(&f, f.end.closed);
    assert_int_equal(f.end.in_len, 1); /* nothing is read after the close */
    expect_closed(&f);
}

static void stream__close_from_on_connected_ends_it_once(void **state)
{
    struct fixture f;

    (void)state;
    fixture_init(&f);
    f.end.when_connected = close_it;
    assert_int_equal(mc_stream_connect(f.loop, f.address, 5000, &end_ops, &f.end, &f.end.stream),
                     MOONCAKE_OK);
    assert_int_equal(mc_stream_send(f.end.stream, "x", 1, NULL, NULL), MOONCAKE_OK);
    expect_closed(&f);
}

static void stream__close_from_on_drained_ends_it_once(void **state)
{
    struct fixture f;

    (void)state;
    fixture_init_connected(&f);
    f.end.when_drained = close_it;
    assert_int_equal(mc_stream_send(f.end.stream, "x", 1, NULL, NULL), MOONCAKE_OK);
    mc_stream_flush(f.end.stream);
    expect_closed(&f);
}

static void close_when_sent(void *arg, mooncake_err err)
{
    struct end *end = arg;

    if (err == MOONCAKE_OK) {
        close_it(end);
    }
}

static void stream__close_from_sent_ends_it_and_fails_the_sends_behind(void **state)
{
    struct sent behind = {0};
    unsigned counter = 0;
    struct fixture f;

    (void)state;
    behind.counter = &counter;
    fixture_init_connected(&f);
    assert_int_equal(mc_stream_send(f.end.stream, "x", 1, close_when_sent, &f.end), MOONCAKE_OK);
    assert_int_equal(mc_stream_send(f.end.stream, "y", 1, on_sent, &behind), MOONCAKE_OK);
    mc_stream_flush(f.end.stream);
    RUN_UNTIL(&f, f.end.closed);
    assert_int_equal(behind.runs, 1);
    assert_int_equal(behind.err, MOONCAKE_ESTATE);
    expect_closed(&f);
}

static void stream__no_send_byte_is_read_after_close(void **state)
{
    enum { TOTAL = 16 << 20 };
    struct sent sent = {0};
    unsigned counter = 0;
    struct fixture f;
    uint8_t *bytes;

    (void)state;
    sent.counter = &counter;
    fixture_init_connected(&f);
    bytes = mc_calloc(1, TOTAL);
    assert_non_null(bytes);
    assert_int_equal(mc_stream_send(f.end.stream, bytes, TOTAL, on_sent, &sent), MOONCAKE_OK);
    mc_stream_flush(f.end.stream);
    f.end.in_call = true;
    mc_stream_close(f.end.stream, MOONCAKE_OK);
    assert_int_equal(mc_stream_send(f.end.stream, "x", 1, NULL, NULL), MOONCAKE_ERPC);
    mc_free(bytes); /* the address sanitizer tells if it is read again */
    f.end.in_call = false;
    assert_int_equal(counter, 0);
    RUN_UNTIL(&f, f.end.closed);
    assert_int_equal(counter, 1);
    assert_int_equal(sent.err, MOONCAKE_ERPC);
    fixture_fini(&f);
}

static void stream__finish_saves_the_last_bytes_from_a_reset(void **state)
{
    static uint8_t noise[100000];
    struct fixture f;
    char got[4];

    (void)state;
    fixture_init_connected(&f);
    f.end.pause_at = 1;
    f.end.space_max = 10;
    assert_true(send(f.peer, noise, sizeof(noise), MSG_DONTWAIT | MSG_NOSIGNAL) > 0);
    RUN_UNTIL(&f, f.end.in_len >= 1);
    assert_int_equal(mc_stream_send(f.end.stream, "bye!", 4, NULL, NULL), MOONCAKE_OK);
    mc_stream_finish(f.end.stream, 10000);
    assert_int_equal(mc_stream_send(f.end.stream, "x", 1, NULL, NULL), MOONCAKE_ERPC);
    peer_receive(&f, got, sizeof(got));
    assert_memory_equal(got, "bye!", 4);
    assert_int_equal(peer_wait_end(&f), 0);
    assert_false(f.end.closed); /* it waits for us to close, too */
    assert_true(send(f.peer, noise, sizeof(noise), MSG_DONTWAIT | MSG_NOSIGNAL) > 0);
    (void)close(f.peer);
    f.peer = -1;
    RUN_UNTIL(&f, f.end.closed);
    assert_int_equal(f.end.why, MOONCAKE_OK);
    assert_int_equal(f.end.in_len, 10); /* the rest was dropped */
    fixture_fini(&f);
}

static void stream__finish_gives_a_peer_that_stays_only_its_time(void **state)
{
    enum { TOTAL = 16 << 20 };
    struct fixture f;
    uint8_t *bytes;

    (void)state;
    fixture_init_connected(&f);
    bytes = mc_calloc(1, TOTAL);
    assert_non_null(bytes);
    assert_int_equal(mc_stream_send(f.end.stream, bytes, TOTAL, NULL, NULL), MOONCAKE_OK);
    mc_free(bytes);
    mc_stream_finish(f.end.stream, 20); /* the peer does not read */
    RUN_UNTIL(&f, f.end.closed);
    assert_int_equal(f.end.why, MOONCAKE_OK);
    fixture_fini(&f);
}

static void stream__out_of_memory_is_an_error_and_not_half_a_send(void **state)
{
    struct fixture f;
    uint8_t got[8];

    (void)state;
    fixture_init_connected(&f);
    for (int n = 0; n < 2; n++) {
        mc_mem_fail_after(n);
        assert_int_equal(mc_stream_send(f.end.stream, "12345678", 8, NULL, NULL), MOONCAKE_ENOMEM);
        mc_mem_fail_after(-1);
        assert_int_equal(mc_stream_queued(f.end.stream), 0);
    }
    assert_int_equal(mc_stream_send(f.end.stream, "abcdefgh", 8, NULL, NULL), MOONCAKE_OK);
    mc_stream_flush(f.end.stream);
    peer_receive(&f, got, 8);
    assert_memory_equal(got, "abcdefgh", 8);
    fixture_fini(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stream__bytes_that_come_one_by_one_land_in_order),
        cmocka_unit_test(stream__ranges_are_filled_one_after_another),
        cmocka_unit_test(stream__reads_nothing_while_paused_and_all_after_resume),
        cmocka_unit_test(stream__end_of_peer_is_noticed_behind_the_last_byte),
        cmocka_unit_test(stream__bytes_before_a_reset_are_still_delivered),
        cmocka_unit_test(stream__reset_while_paused_ends_it_after_resume),
        cmocka_unit_test(stream__reads_no_more_than_its_share_in_one_turn),
        cmocka_unit_test(stream__small_sends_wait_for_the_flush_and_go_together),
        cmocka_unit_test(stream__borrowed_and_copied_sends_keep_their_order),
        cmocka_unit_test(stream__large_flow_survives_a_slow_reader),
        cmocka_unit_test(stream__queued_counts_what_the_kernel_has_not_taken),
        cmocka_unit_test(stream__sending_from_sent_does_not_recurse),
        cmocka_unit_test(stream__close_from_on_bytes_ends_it_once_from_the_loop),
        cmocka_unit_test(stream__close_from_on_connected_ends_it_once),
        cmocka_unit_test(stream__close_from_on_drained_ends_it_once),
        cmocka_unit_test(stream__close_from_sent_ends_it_and_fails_the_sends_behind),
        cmocka_unit_test(stream__no_send_byte_is_read_after_close),
        cmocka_unit_test(stream__finish_saves_the_last_bytes_from_a_reset),
        cmocka_unit_test(stream__finish_gives_a_peer_that_stays_only_its_time),
        cmocka_unit_test(stream__out_of_memory_is_an_error_and_not_half_a_send),
    };

    return cmocka_run_group_tests_name("io/stream", tests, NULL, NULL);
}

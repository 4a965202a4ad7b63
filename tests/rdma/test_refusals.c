/* Strangers, and clients that are let in and then do what they may not. Plain verbs against a real
 * store, beside a client of the store that must not notice. */
#include "rdma/scene.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rdma/raw_verbs.h"
#include "rdma/ticket.h"
#include "transport/rdma_wire.h"

#define LEN ((size_t)256 << 10)
#define ANSWER_SECONDS (30u * patience())
#define UNUSED_BYTE 7u /* of a request */

static struct scene scene;
static mooncake_client *client;

/* The store's first address, and the extent of a value in it. */
static struct ticket ticket;
static char store_host[INET6_ADDRSTRLEN];
static uint16_t store_port;
static uint64_t friends; /* the queue pairs of client and store, before any attack */

static int open_scene(void **state)
{
    struct mc_rdma_place place;

    (void)state;
    scene_open(&scene, 1, 1, "16MiB");
    client = scene_client(&scene, "rdma", 0);
    put_filled(client, "key", LEN, 1);
    get_filled(client, "key", LEN, 1);
    ticket_get(scene.pool.master_address, "key", &ticket);
    assert_int_equal(mc_rdma_places_parse(ticket.addresses, &place, 1), 1);
    assert_int_equal(place.address.any.sa_family, AF_INET);
    assert_non_null(inet_ntop(AF_INET, &place.address.v4.sin_addr, store_host, sizeof(store_host)));
    store_port = ntohs(place.address.v4.sin_port);
    friends = queue_pairs_fingerprint();
    return 0;
}

static int close_scene(void **state)
{
    (void)state;
    mooncake_client_close(client);
    scene_close(&scene);
    return 0;
}

static bool only_friends_are_left(void *arg)
{
    (void)arg;
    return queue_pairs_fingerprint() == friends;
}

/* The client still reads and writes, over the very connections that it had. */
static void expect_unharmed(void)
{
    get_filled(client, "key", LEN, 1);
    put_filled(client, "other", LEN, 2);
    get_filled(client, "other", LEN, 2);
    assert_true(wait_until(only_friends_are_left, NULL, 30 * patience()));
}

static bool is_let_in(struct raw_end *end, const void *data, uint8_t len)
{
    struct raw_answer answer;

    raw_prepare(end, host_a[0], store_host, store_port);
    raw_ask(end, data, len);
    raw_await_answer(end, ANSWER_SECONDS, &answer);
    return answer.accepted;
}

static void stranger__is_refused(void **state)
{
    static const uint8_t noise[56] = {'G', 'E', 'T', ' ', '/', 255, 254, 253};
    struct mc_rdma_request request = {.extent = ticket.extent, .right = MC_RIGHT_READ};
    uint8_t good[MC_RDMA_REQUEST_LEN];
    struct raw_end end;

    (void)state;
    assert_int_equal(mc_rdma_request_encode(&request, good), MOONCAKE_OK);
    assert_false(is_let_in(&end, NULL, 0));
    raw_close(&end);
    assert_false(is_let_in(&end, noise, 1));
    raw_close(&end);
    assert_false(is_let_in(&end, noise, sizeof(noise)));
    raw_close(&end);
    assert_false(is_let_in(&end, good, MC_RDMA_REQUEST_LEN / 2)); /* padded with zeros */
    raw_close(&end);
    for (unsigned i = 0; i < MC_RDMA_REQUEST_LEN; i += guest_is_slow() ? 8 : 1) {
        uint8_t bad[MC_RDMA_REQUEST_LEN];

        if (i == UNUSED_BYTE) {
            continue;
        }
        memcpy(bad, good, sizeof(bad));
        bad[i] ^= 0x10;
        if (is_let_in(&end, bad, sizeof(bad))) {
            fail_msg("byte %u of the request was changed, and it was let in", i);
        }
        raw_close(&end);
    }
    expect_unharmed();
}

/* Whose capability is for reading does not write. */
static void reader__may_not_connect_for_writing(void **state)
{
    struct mc_rdma_request request = {.extent = ticket.extent, .right = MC_RIGHT_WRITE};
    uint8_t bytes[MC_RDMA_REQUEST_LEN];
    struct raw_end end;

    (void)state;
    assert_int_equal(mc_rdma_request_encode(&request, bytes), MOONCAKE_OK);
    assert_false(is_let_in(&end, bytes, sizeof(bytes)));
    raw_close(&end);
    expect_unharmed();
}

/* One that was let in for reading, with memory of its own. */
struct intruder {
    struct raw_end end;
    struct mc_rdma_answer answer;
    struct ibv_mr *mr;
    uint8_t *bytes; /* LEN of them, and the header */
    struct ibv_sge local;
};

static void intrude(struct intruder *x)
{
    struct mc_rdma_request request = {.extent = ticket.extent, .right = MC_RIGHT_READ};
    uint8_t bytes[MC_RDMA_REQUEST_LEN];
    struct raw_answer answer;

    assert_int_equal(mc_rdma_request_encode(&request, bytes), MOONCAKE_OK);
    raw_prepare(&x->end, host_a[0], store_host, store_port);
    raw_ask(&x->end, bytes, sizeof(bytes));
    raw_await_answer(&x->end, ANSWER_SECONDS, &answer);
    assert_true(answer.accepted);
    assert_int_equal(mc_rdma_answer_decode(answer.data, answer.len, &x->answer), MOONCAKE_OK);
    x->bytes = calloc(1, LEN + 64);
    assert_non_null(x->bytes);
    x->mr = raw_register(&x->end, x->bytes, LEN + 64, IBV_ACCESS_LOCAL_WRITE);
    x->local = (struct ibv_sge){
        .addr = (uintptr_t)x->bytes, .length = (uint32_t)LEN + 64, .lkey = x->mr->lkey};
}

static void leave(struct intruder *x)
{
    (void)ibv_dereg_mr(x->mr);
    raw_close(&x->end);
    free(x->bytes);
}

/* Where the value is, and the key of the part that it is in. */
static uint64_t value_at(const struct intruder *x, uint32_t *out_key)
{
    uint64_t left = 0;

    *out_key = x->answer.keys[mc_rdma_part_of(&x->answer, ticket.extent.offset, &left)];
    return x->answer.base + ticket.extent.offset;
}

static void reader__reads_what_it_may(void **state)
{
    struct intruder x;
    uint32_t key;
    uint64_t at;

    (void)state;
    intrude(&x);
    at = value_at(&x, &key);
    assert_int_equal(raw_do(&x.end, IBV_WR_RDMA_READ, &x.local, at, key), IBV_WC_SUCCESS);
    assert_true(is_filled(x.bytes + 64, LEN, 1));
    leave(&x);
    expect_unharmed();
}

static void wrong_key__is_refused_and_ends_that_connection_alone(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit < 32; bit += guest_is_slow() ? 16 : 5) {
        struct intruder x;
        uint32_t key;
        uint64_t at;

        intrude(&x);
        at = value_at(&x, &key);
        assert_int_equal(raw_do(&x.end, IBV_WR_RDMA_READ, &x.local, at, key ^ 1u << bit),
                         IBV_WC_REM_ACCESS_ERR);
        assert_int_equal(raw_do(&x.end, IBV_WR_RDMA_READ, &x.local, at, key), IBV_WC_WR_FLUSH_ERR);
        leave(&x);
    }
    expect_unharmed();
}

static void range_outside__is_refused_and_ends_that_connection_alone(void **state)
{
    struct intruder x;
    uint32_t key;

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        uint64_t at;

        intrude(&x);
        at = value_at(&x, &key);
        if (i == 0) {
            at = x.answer.base + x.answer.len - LEN; /* begins inside, ends 64 bytes beyond */
        } else if (i == 1) {
            at = x.answer.base + x.answer.len;
        } else if (i == 2) {
            at = x.answer.base - 1;
        } else {
            at = UINT64_MAX - 100;
        }
        assert_int_equal(raw_do(&x.end, IBV_WR_RDMA_READ, &x.local, at, key),
                         IBV_WC_REM_ACCESS_ERR);
        leave(&x);
    }
    expect_unharmed();
}

static void reader__cannot_write(void **state)
{
    struct intruder x;
    enum ibv_wc_status status;
    uint32_t key;
    uint64_t at;

    (void)state;
    intrude(&x);
    at = value_at(&x, &key);
    memset(x.bytes, 0xdd, LEN + 64);
    status = raw_do(&x.end, IBV_WR_RDMA_WRITE, &x.local, at, key);
    assert_true(status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR);
    leave(&x);
    expect_unharmed(); /* "key" has its bytes */
}

/* Nobody waits for messages. */
static void message__is_refused(void **state)
{
    struct intruder x;

    (void)state;
    intrude(&x);
    assert_int_not_equal(raw_do(&x.end, IBV_WR_SEND, &x.local, 0, 0), IBV_WC_SUCCESS);
    leave(&x);
    expect_unharmed();
}

/* Those who ask and go away before they hear the answer, many at once. */
static void crowd_that_asks_and_goes__leaves_nothing(void **state)
{
    enum { CROWD = 40 };
    struct mc_rdma_request request = {.extent = ticket.extent, .right = MC_RIGHT_READ};
    uint8_t bytes[MC_RDMA_REQUEST_LEN];
    static struct raw_end ends[CROWD];

    (void)state;
    assert_int_equal(mc_rdma_request_encode(&request, bytes), MOONCAKE_OK);
    for (unsigned i = 0; i < CROWD; i++) {
        raw_prepare(&ends[i], host_a[0], store_host, store_port);
        raw_ask(&ends[i], bytes, sizeof(bytes));
    }
    for (unsigned i = 0; i < CROWD; i++) {
        raw_close(&ends[i]);
    }
    expect_unharmed();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reader__reads_what_it_may),
        cmocka_unit_test(stranger__is_refused),
        cmocka_unit_test(reader__may_not_connect_for_writing),
        cmocka_unit_test(reader__cannot_write),
        cmocka_unit_test(wrong_key__is_refused_and_ends_that_connection_alone),
        cmocka_unit_test(range_outside__is_refused_and_ends_that_connection_alone),
        cmocka_unit_test(message__is_refused),
        cmocka_unit_test(crowd_that_asks_and_goes__leaves_nothing),
    };

    return cmocka_run_group_tests_name("rdma refusals", tests, open_scene, close_scene);
}

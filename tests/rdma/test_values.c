/* Values over RDMA, every byte of them compared; the suite runs once with one card and once with
 * two cards a host. Over RDMA alone: nothing can fall back unseen. */
#include "rdma/scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 48u
#define STRIPED ((size_t)8 << 20)

static struct scene scene;
static mooncake_client *client;

static int open_with(unsigned nics)
{
    scene_open(&scene, nics, 2, "40MiB");
    client = scene_client(&scene, "rdma", 0);
    return 0;
}

static int open_one_nic(void **state)
{
    (void)state;
    return open_with(1);
}

static int open_two_nics(void **state)
{
    (void)state;
    return open_with(2);
}

static int close_scene(void **state)
{
    (void)state;
    mooncake_client_close(client);
    scene_close(&scene);
    return 0;
}

static void put_and_get__of_every_size_return_every_byte(void **state)
{
    static const size_t sizes[] = {0,    1,     63,        64,      4032,
                                   4096, 65537, (1 << 20), 3000001, STRIPED + 7};

    (void)state;
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char key[32];

        (void)snprintf(key, sizeof(key), "size-%zu", sizes[i]);
        put_filled(client, key, sizes[i], i);
        get_filled(client, key, sizes[i], i);
    }
}

static void registered_memory__is_used_in_place(void **state)
{
    const size_t len = 2 << 20;
    uint8_t *bytes = malloc(2 * len);
    uint64_t got = 0;

    (void)state;
    assert_non_null(bytes);
    fill(bytes, len, 3);
    memset(bytes + len, 0xee, len);
    assert_int_equal(mooncake_register_buffer(client, bytes, 2 * len), MOONCAKE_OK);
    assert_int_equal(mooncake_put(client, "registered", bytes, len, NULL, 0), MOONCAKE_OK);
    assert_int_equal(mooncake_get_into(client, "registered", bytes + len, len - 1, 0, &got),
                     MOONCAKE_EINVAL);
    assert_int_equal(mooncake_get_into(client, "registered", bytes + len, len, 0, &got),
                     MOONCAKE_OK);
    assert_int_equal(got, len);
    assert_true(is_filled(bytes + len, len, 3));
    assert_int_equal(mooncake_unregister_buffer(client, bytes), MOONCAKE_OK);
    memset(bytes + len, 0xee, len);
    assert_int_equal(mooncake_get_into(client, "registered", bytes + len, len, 0, &got),
                     MOONCAKE_OK);
    assert_true(is_filled(bytes + len, len, 3));
    free(bytes);
}

static size_t batch_len(unsigned i)
{
    return i % 8 == 3 ? 500000 + i : 4096 * (1 + i % 5) + i;
}

static void batch__keeps_its_items_apart(void **state)
{
    static char names[BATCH][24];
    const char *keys[BATCH];
    const void *from[BATCH];
    void *to[BATCH];
    uint64_t lens[BATCH], got[BATCH];
    mooncake_err results[BATCH];

    (void)state;
    for (unsigned i = 0; i < BATCH; i++) {
        uint8_t *bytes = malloc(batch_len(i));

        (void)snprintf(names[i], sizeof(names[i]), "batch-%u", i);
        keys[i] = names[i];
        lens[i] = batch_len(i);
        fill(bytes, lens[i], i);
        from[i] = bytes;
        to[i] = calloc(1, lens[i]);
    }
    assert_int_equal(mooncake_batch_put(client, keys, from, lens, BATCH, NULL, 0, results),
                     MOONCAKE_OK);
    for (unsigned i = 0; i < BATCH; i++) {
        assert_int_equal(results[i], MOONCAKE_OK);
    }
    assert_int_equal(mooncake_batch_get_into(client, keys, to, lens, BATCH, 0, results, got),
                     MOONCAKE_OK);
    for (unsigned i = 0; i < BATCH; i++) {
        assert_int_equal(results[i], MOONCAKE_OK);
        assert_int_equal(got[i], lens[i]);
        assert_true(is_filled(to[i], lens[i], i));
        free((void *)(uintptr_t)from[i]);
        free(to[i]);
    }
}

/* Pieces of uneven lengths, some empty: many entries for one work request, or several requests. */
static void pieces__are_gathered_and_scattered(void **state)
{
    enum { PIECES = 300, STRIDE = 3000 };
    static uint8_t in[PIECES * STRIDE], out[PIECES * STRIDE];
    static mooncake_piece from[PIECES];
    static mooncake_space to[PIECES];
    uint64_t got = 0, sum = 0;

    (void)state;
    fill(in, sizeof(in), 8);
    for (unsigned i = 0; i < PIECES; i++) {
        uint64_t len = i % 7 == 0 ? 0 : STRIDE - i;

        from[i] = (mooncake_piece){.data = in + (size_t)i * STRIDE, .len = len};
        to[i] = (mooncake_space){.data = out + (size_t)i * STRIDE, .len = len};
        sum += len;
    }
    assert_int_equal(mooncake_put_pieces(client, "pieces", from, PIECES, NULL, 0), MOONCAKE_OK);
    assert_int_equal(mooncake_get_into_pieces(client, "pieces", to, PIECES, 0, &got), MOONCAKE_OK);
    assert_int_equal(got, sum);
    for (unsigned i = 0; i < PIECES; i++) {
        if (to[i].len > 0) {
            assert_memory_equal(to[i].data, from[i].data, to[i].len);
        }
    }
}

static void large_values__use_every_card_and_nothing_else(void **state)
{
    uint64_t before[NICS + 1], moved[NICS + 1];

    (void)state;
    for (unsigned i = 0; i < NICS; i++) {
        before[i] = cable_bytes(i);
    }
    before[NICS] = sent_bytes("lo");
    put_filled(client, "striped", STRIPED, 11);
    get_filled(client, "striped", STRIPED, 11);
    for (unsigned i = 0; i < NICS; i++) {
        moved[i] = cable_bytes(i) - before[i];
    }
    moved[NICS] = sent_bytes("lo") - before[NICS];
    print_message("           card 0 %llu KiB, card 1 %llu KiB, loopback %llu KiB\n",
                  (unsigned long long)moved[0] >> 10, (unsigned long long)moved[1] >> 10,
                  (unsigned long long)moved[NICS] >> 10);
    assert_true(moved[0] + moved[1] >= 2 * STRIPED);
    assert_true(moved[NICS] < STRIPED / 8);
    if (scene.nics == 2) {
        assert_true(moved[0] >= STRIPED / 2);
        assert_true(moved[1] >= STRIPED / 2);
    } else {
        assert_true(moved[1] < STRIPED / 8);
    }
}

static void replicas__are_both_written_and_either_serves(void **state)
{
    const size_t len = 1500000;
    mooncake_put_options options;
    uint8_t *bytes = malloc(len);
    uint64_t before = cable_bytes(0) + cable_bytes(1);

    (void)state;
    mooncake_put_options_init(&options);
    options.replicas = 2;
    options.all_replicas = true;
    fill(bytes, len, 21);
    assert_int_equal(mooncake_put(client, "twice", bytes, len, &options, 0), MOONCAKE_OK);
    free(bytes);
    assert_true(cable_bytes(0) + cable_bytes(1) - before >= 2 * len);
    daemon_kill(&scene.pool.stores[scene.nics - 1]); /* another one in each run */
    get_filled(client, "twice", len, 21);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(put_and_get__of_every_size_return_every_byte),
        cmocka_unit_test(registered_memory__is_used_in_place),
        cmocka_unit_test(batch__keeps_its_items_apart),
        cmocka_unit_test(pieces__are_gathered_and_scattered),
        cmocka_unit_test(large_values__use_every_card_and_nothing_else),
        cmocka_unit_test(replicas__are_both_written_and_either_serves),
    };
    int failed = cmocka_run_group_tests_name("rdma values, one card a host", tests, open_one_nic,
                                             close_scene);

    return failed + cmocka_run_group_tests_name("rdma values, two cards a host", tests,
                                                open_two_nics, close_scene);
}

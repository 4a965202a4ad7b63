/* Batches on a healthy pool: each item judged alone, few questions, and none that waits for
 * another. */
#include "client/client_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 1500u
#define ITEM_LEN 300u

struct batch {
    char names[BATCH][16];
    const char *keys[BATCH];
    const void *in[BATCH];
    void *out[BATCH];
    uint64_t lens[BATCH], got[BATCH];
    mooncake_err results[BATCH];
    uint8_t *memory; /* in, then out */
};

static struct batch *make_batch(void)
{
    struct batch *b = calloc(1, sizeof(*b));

    assert_non_null(b);
    b->memory = malloc((size_t)BATCH * ITEM_LEN * 2);
    assert_non_null(b->memory);
    for (unsigned i = 0; i < BATCH; i++) {
        (void)snprintf(b->names[i], sizeof(b->names[i]), "b%u", i);
        b->keys[i] = b->names[i];
        b->lens[i] = i % (ITEM_LEN + 1);
        rig_fill(b->memory + (size_t)i * ITEM_LEN, ITEM_LEN, i);
        b->in[i] = b->memory + (size_t)i * ITEM_LEN;
        b->out[i] = b->memory + (size_t)(BATCH + i) * ITEM_LEN;
    }
    return b;
}

static void free_batch(struct batch *b)
{
    free(b->memory);
    free(b);
}

static void batch__of_nothing_is_ok(void **state)
{
    struct rig *rig = *state;

    assert_int_equal(mooncake_batch_put(rig->client, NULL, NULL, NULL, 0, NULL, 0, NULL),
                     MOONCAKE_OK);
    assert_int_equal(mooncake_batch_get_into(rig->client, NULL, NULL, NULL, 0, 0, NULL, NULL),
                     MOONCAKE_OK);
    assert_int_equal(mooncake_batch_exist(rig->client, NULL, 0, 0, NULL), MOONCAKE_OK);
    assert_int_equal(mooncake_batch_get(rig->client, NULL, 0, 0, NULL, NULL, NULL), MOONCAKE_OK);
}

static void batch__of_many_windows_comes_back_in_order(void **state)
{
    struct rig *rig = *state;
    struct batch *b = make_batch();
    uint64_t caps[BATCH];

    for (unsigned i = 0; i < BATCH; i++) {
        caps[i] = ITEM_LEN;
    }
    assert_int_equal(
        mooncake_batch_put(rig->client, b->keys, b->in, b->lens, BATCH, NULL, 0, b->results),
        MOONCAKE_OK);
    for (unsigned i = 0; i < BATCH; i++) {
        assert_int_equal(b->results[i], MOONCAKE_OK);
    }
    assert_true(fake_master_seen(rig->master, MC_METHOD_PUT_START) > 1);
    assert_int_equal(
        mooncake_batch_get_into(rig->client, b->keys, b->out, caps, BATCH, 0, b->results, b->got),
        MOONCAKE_OK);
    for (unsigned i = 0; i < BATCH; i++) {
        assert_int_equal(b->results[i], MOONCAKE_OK);
        assert_int_equal(b->got[i], b->lens[i]);
        assert_true(rig_is_filled(b->out[i], b->lens[i], i));
    }
    assert_int_equal(mooncake_batch_size(rig->client, b->keys, BATCH, 0, b->results, b->got),
                     MOONCAKE_OK);
    for (unsigned i = 0; i < BATCH; i++) {
        assert_int_equal(b->got[i], b->lens[i]);
    }
    free_batch(b);
}

static void batch__judges_each_item_alone(void **state)
{
    struct rig *rig = *state;
    const char *keys[] = {"x", "", "nobody", NULL, "y"};
    const void *data[] = {"1", "2", "3", "4", NULL};
    uint64_t lens[] = {1, 1, 1, 1, 1}, caps[] = {9, 9, 9, 9, 9}, got[5] = {0};
    char out[5][9];
    void *outs[] = {out[0], out[1], out[2], out[3], out[4]};
    mooncake_err r[5];

    assert_int_equal(mooncake_put(rig->client, "nobody", "3", 1, NULL, 0), MOONCAKE_OK);
    assert_int_equal(mooncake_batch_put(rig->client, keys, data, lens, 5, NULL, 0, r), MOONCAKE_OK);
    assert_int_equal(r[0], MOONCAKE_OK);
    assert_int_equal(r[1], MOONCAKE_EBADKEY);
    assert_int_equal(r[2], MOONCAKE_EEXIST);
    assert_int_equal(r[3], MOONCAKE_EINVAL);
    assert_int_equal(r[4], MOONCAKE_EINVAL);
    assert_int_equal(mooncake_remove(rig->client, "nobody", true, 0), MOONCAKE_OK);
    caps[0] = 0;
    assert_int_equal(mooncake_batch_get_into(rig->client, keys, outs, caps, 5, 0, r, got),
                     MOONCAKE_OK);
    assert_int_equal(r[0], MOONCAKE_EINVAL);
    assert_int_equal(got[0], 1);
    assert_int_equal(r[1], MOONCAKE_EBADKEY);
    assert_int_equal(r[2], MOONCAKE_ENOENT);
    assert_int_equal(r[3], MOONCAKE_EINVAL);
    assert_int_equal(r[4], MOONCAKE_ENOENT);
    assert_int_equal(mooncake_batch_exist(rig->client, keys, 5, 0, r), MOONCAKE_OK);
    assert_int_equal(r[0], MOONCAKE_OK);
    assert_int_equal(r[1], MOONCAKE_EBADKEY);
    assert_int_equal(r[2], MOONCAKE_ENOENT);
    assert_int_equal(mooncake_batch_remove(rig->client, keys, 5, true, 0, r), MOONCAKE_OK);
    assert_int_equal(r[0], MOONCAKE_OK);
    assert_int_equal(r[4], MOONCAKE_ENOENT);
}

static void batch__with_a_key_several_times_stores_the_first_and_fills_every_buffer(void **state)
{
    struct rig *rig = *state;
    const char *keys[] = {"k", "other", "k", "k"};
    const void *data[] = {"first", "other", "third", "forth"};
    uint64_t lens[] = {6, 6, 6, 6}, got[4] = {0};
    void *fresh[4] = {0};
    char out[4][6];
    void *outs[] = {out[0], out[1], out[2], out[3]};
    mooncake_err r[4];

    assert_int_equal(mooncake_batch_put(rig->client, keys, data, lens, 4, NULL, 0, r), MOONCAKE_OK);
    assert_int_equal(r[0], MOONCAKE_OK);
    assert_int_equal(r[1], MOONCAKE_OK);
    assert_int_equal(r[2], MOONCAKE_EEXIST);
    assert_int_equal(r[3], MOONCAKE_EEXIST);
    assert_int_equal(mooncake_batch_get_into(rig->client, keys, outs, lens, 4, 0, r, NULL),
                     MOONCAKE_OK);
    assert_string_equal(out[0], "first");
    assert_string_equal(out[1], "other");
    assert_string_equal(out[2], "first");
    assert_string_equal(out[3], "first");
    keys[1] = "nobody";
    assert_int_equal(mooncake_batch_get(rig->client, keys, 4, 0, r, fresh, got), MOONCAKE_OK);
    assert_string_equal(fresh[0], "first");
    assert_null(fresh[1]);
    assert_int_equal(r[1], MOONCAKE_ENOENT);
    assert_string_equal(fresh[3], "first");
    assert_ptr_not_equal(fresh[0], fresh[3]);
    for (unsigned i = 0; i < 4; i++) {
        mooncake_free(fresh[i]);
    }
}

static void batch__repeats_share_the_fate_of_a_first_that_failed(void **state)
{
    struct rig *rig = *state;
    const char *keys[] = {"k", "k"};
    const void *data[] = {"1", "2"};
    uint64_t lens[] = {1, 1};
    mooncake_err r[2];

    fake_master_rule(rig->master, MC_METHOD_PUT_START, FAKE_ITEM, 1, MOONCAKE_ENOSPACE);
    assert_int_equal(mooncake_batch_put(rig->client, keys, data, lens, 2, NULL, 0, r), MOONCAKE_OK);
    assert_int_equal(r[0], MOONCAKE_ENOSPACE);
    assert_int_equal(r[1], MOONCAKE_ENOSPACE); /* EEXIST would be a lie */
}

static void batch__of_pieces_works_as_the_single_calls(void **state)
{
    struct rig *rig = *state;
    const char *keys[] = {"m", "n"};
    mooncake_piece m[] = {{"ab", 2}, {"cd", 2}}, n[] = {{"xyz", 3}};
    const mooncake_piece *from[] = {m, n};
    size_t counts[] = {2, 1}, to_counts[] = {1, 3};
    char out_m[8] = "", out_n[8] = "";
    mooncake_space tm[] = {{out_m, 8}}, tn[] = {{out_n + 2, 1}, {out_n + 1, 1}, {out_n, 1}};
    const mooncake_space *to[] = {tm, tn};
    uint64_t got[2] = {0};
    mooncake_err r[2];

    assert_int_equal(mooncake_batch_put_pieces(rig->client, keys, from, counts, 2, NULL, 0, r),
                     MOONCAKE_OK);
    assert_int_equal(r[0], MOONCAKE_OK);
    assert_int_equal(r[1], MOONCAKE_OK);
    assert_int_equal(mooncake_batch_get_into_pieces(rig->client, keys, to, to_counts, 2, 0, r, got),
                     MOONCAKE_OK);
    assert_string_equal(out_m, "abcd");
    assert_string_equal(out_n, "zyx");
    assert_int_equal(got[0], 4);
    assert_int_equal(got[1], 3);
}

/* ---- what it costs and what waits ------------------------------------------------------------ */

/* Keys that are asked for in one question at least. */
#define WINDOW 256u

static void batch__is_one_question(void **state)
{
    struct rig *rig = *state;
    struct batch *b = make_batch();

    assert_int_equal(
        mooncake_batch_put(rig->client, b->keys, b->in, b->lens, WINDOW, NULL, 0, b->results),
        MOONCAKE_OK);
    assert_int_equal(fake_master_seen(rig->master, MC_METHOD_PUT_START), 1);
    assert_int_equal(fake_master_seen(rig->master, MC_METHOD_PUT_END), 1);
    assert_int_equal(mooncake_batch_get_into(rig->client, b->keys, b->out, b->lens, WINDOW, 0,
                                             b->results, b->got),
                     MOONCAKE_OK);
    assert_int_equal(fake_master_seen(rig->master, MC_METHOD_QUERY), 1);
    assert_int_equal(mooncake_batch_exist(rig->client, b->keys, 2 * WINDOW, 0, b->results),
                     MOONCAKE_OK);
    assert_int_equal(fake_master_seen(rig->master, MC_METHOD_EXIST), 1);
    free_batch(b);
}

/* The question about the first keys is not answered; what is known of the others is read. */
static void batch__reads_what_is_answered_while_the_rest_is_not(void **state)
{
    struct rig *rig = *state;
    struct batch *b = make_batch();

    assert_int_equal(
        mooncake_batch_put(rig->client, b->keys, b->in, b->lens, 2 * WINDOW, NULL, 0, b->results),
        MOONCAKE_OK);
    fake_master_rule(rig->master, MC_METHOD_QUERY, FAKE_SILENT, 1, MOONCAKE_OK);
    assert_int_equal(mooncake_batch_get_into(rig->client, b->keys, b->out, b->lens, 2 * WINDOW,
                                             5000, b->results, b->got),
                     MOONCAKE_OK);
    for (unsigned i = 0; i < 2 * WINDOW; i++) {
        if (i < WINDOW) {
            assert_int_equal(b->results[i], MOONCAKE_ETIMEDOUT);
        } else {
            assert_int_equal(b->results[i], MOONCAKE_OK);
            assert_true(rig_is_filled(b->out[i], b->lens[i], i));
        }
    }
    free_batch(b);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        TEST(batch__of_nothing_is_ok),
        TEST(batch__of_many_windows_comes_back_in_order),
        TEST(batch__judges_each_item_alone),
        TEST(batch__with_a_key_several_times_stores_the_first_and_fills_every_buffer),
        TEST(batch__repeats_share_the_fate_of_a_first_that_failed),
        TEST(batch__of_pieces_works_as_the_single_calls),
        TEST(batch__is_one_question),
        TEST(batch__reads_what_is_answered_while_the_rest_is_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

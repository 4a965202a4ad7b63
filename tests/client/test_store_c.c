/* The C API of the C++ Mooncake: its numbers, and that it moves the same bytes. */
#include "client/client_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mooncake/store_c.h"

static mooncake_store_t open_store(struct rig *rig, const char *name)
{
    mooncake_store_t store = mooncake_store_create();

    assert_non_null(store);
    assert_int_equal(mooncake_store_setup(store, name, "unused", 16 << 20, 1 << 20, "tcp", "",
                                          fake_master_address(rig->master)),
                     0);
    return store;
}

static void store__without_setup_refuses_calls(void **state)
{
    mooncake_store_t store = mooncake_store_create();
    char buffer[8];

    (void)state;
    assert_int_equal(mooncake_store_health_check(NULL), 1);
    assert_int_equal(mooncake_store_health_check(store), 1);
    assert_int_equal(mooncake_store_put(NULL, "k", "v", 1, NULL), MOONCAKE_EINVAL);
    assert_int_equal(mooncake_store_put(store, "k", "v", 1, NULL), MOONCAKE_EUNAVAILABLE);
    assert_int_equal(mooncake_store_get_into(store, "k", buffer, 8), MOONCAKE_EUNAVAILABLE);
    assert_int_equal(mooncake_store_setup(NULL, "h", "", 0, 0, "tcp", "", ""), MOONCAKE_EINVAL);
    assert_int_equal(mooncake_store_setup(store, "", "", 0, 0, "tcp", "", ""), MOONCAKE_EINVAL);
    assert_int_equal(mooncake_store_setup(store, "h", "", 0, 0, "smoke", "", ""), MOONCAKE_EINVAL);
    mooncake_store_destroy(store);
    mooncake_store_destroy(NULL);
}

static void store__moves_values_and_answers_in_the_old_numbers(void **state)
{
    struct rig *rig = *state;
    mooncake_store_t store = open_store(rig, "localhost");
    mooncake_replicate_config_t config = {.replica_num = 0, .with_soft_pin = 1};
    char out[8] = "";

    assert_int_equal(mooncake_store_health_check(store), 0);
    assert_int_equal(mooncake_store_put(store, "k", "value", 6, &config), 0);
    assert_int_equal(mooncake_store_put(store, "k", "other", 6, NULL), 0); /* exists: no error */
    assert_int_equal(mooncake_store_put_from(store, "", out, 1, NULL), MOONCAKE_EBADKEY);
    assert_int_equal(mooncake_store_get_into(store, "k", out, 8), 6);
    assert_string_equal(out, "value");
    assert_int_equal(mooncake_store_get_into(store, "k", out, 5), MOONCAKE_EINVAL);
    assert_int_equal(mooncake_store_get_into(store, "nobody", out, 8), MOONCAKE_ENOENT);
    assert_int_equal(mooncake_store_is_exist(store, "k"), 1);
    assert_int_equal(mooncake_store_is_exist(store, "nobody"), 0);
    assert_int_equal(mooncake_store_get_size(store, "k"), 6);
    assert_int_equal(mooncake_store_register_buffer(store, out, 8), 0);
    assert_int_equal(mooncake_store_unregister_buffer(store, out), 0);
    assert_int_equal(mooncake_store_remove_by_regex(store, "", 1), MOONCAKE_EINVAL);
    assert_int_equal(mooncake_store_remove_by_regex(store, "^k$", 1), 1);
    assert_int_equal(mooncake_store_remove(store, "k", 1), MOONCAKE_ENOENT);
    assert_int_equal(mooncake_store_put(store, "l", "v", 1, NULL), 0);
    assert_int_equal(mooncake_store_remove_all(store, 1), 1);
    mooncake_store_destroy(store);
}

static void store__batches_answer_one_number_an_item(void **state)
{
    struct rig *rig = *state;
    mooncake_store_t store = open_store(rig, "localhost");
    const char *keys[] = {"a", "b", "a", ""};
    char in[4][4] = {"AAA", "BBB", "CCC", "DDD"}, out[4][4] = {"", "", "", ""};
    void *ins[] = {in[0], in[1], in[2], in[3]}, *outs[] = {out[0], out[1], out[2], out[3]};
    size_t sizes[] = {4, 4, 4, 4};
    int64_t lens[4];
    int results[4];

    assert_int_equal(mooncake_store_batch_put_from(store, keys, ins, sizes, 4, NULL, results), 0);
    assert_int_equal(results[0], 0);
    assert_int_equal(results[1], 0);
    assert_int_equal(results[2], 0); /* exists: no error */
    assert_int_equal(results[3], MOONCAKE_EBADKEY);
    sizes[1] = 3;
    assert_int_equal(mooncake_store_batch_get_into(store, keys, outs, sizes, 4, lens), 0);
    assert_int_equal(lens[0], 4);
    assert_int_equal(lens[1], MOONCAKE_EINVAL);
    assert_int_equal(lens[2], 4);
    assert_string_equal(out[0], "AAA");
    assert_string_equal(out[2], "AAA");
    keys[1] = "nobody";
    assert_int_equal(mooncake_store_batch_is_exist(store, keys, 4, results), 0);
    assert_int_equal(results[0], 1);
    assert_int_equal(results[1], 0);
    assert_int_equal(results[3], MOONCAKE_EBADKEY);
    mooncake_store_destroy(store);
}

static void store__name_without_a_port_gets_a_free_one_of_the_range(void **state)
{
    struct rig *rig = *state;
    mooncake_store_t stores[3];
    char name[64], small[4];
    unsigned port = 0;

    for (unsigned i = 0; i < 3; i++) {
        stores[i] = open_store(rig, "localhost");
        assert_true(mooncake_store_get_hostname(stores[i], name, sizeof(name)) > 0);
        assert_int_equal(sscanf(name, "localhost:%u", &port), 1);
        assert_in_range(port, 12300, 14300);
        assert_int_equal(mooncake_store_get_hostname(stores[i], small, sizeof(small)),
                         MOONCAKE_EINVAL);
    }
    for (unsigned i = 0; i < 3; i++) {
        mooncake_store_destroy(stores[i]);
    }
}

static void store__with_a_master_that_is_down_is_unhealthy(void **state)
{
    struct rig *rig = *state;
    mooncake_store_t store = open_store(rig, "localhost:7");

    fake_master_listen(rig->master, false);
    assert_int_equal(mooncake_store_health_check(store), 2);
    fake_master_listen(rig->master, true);
    assert_int_equal(mooncake_store_health_check(store), 0);
    mooncake_store_destroy(store);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(store__without_setup_refuses_calls),
        TEST(store__moves_values_and_answers_in_the_old_numbers),
        TEST(store__batches_answer_one_number_an_item),
        TEST(store__name_without_a_port_gets_a_free_one_of_the_range),
        TEST(store__with_a_master_that_is_down_is_unhealthy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

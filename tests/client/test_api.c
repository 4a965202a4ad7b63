/* The public functions on a healthy pool, and their answers to bad arguments. */
#include "client/client_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

#define BIG ((size_t)3 << 20)

/* ---- bad input --------------------------------------------------------------------------- */

static void open__names_the_option_that_is_out_of_range(void **state)
{
    mooncake_client_options options;
    mooncake_client *const before = (mooncake_client *)0x1;
    mooncake_client *client = before;

    (void)state;
    mooncake_client_options_init(&options);
    options.engines_max = 0;
    assert_int_equal(mooncake_client_open(&options, &client), MOONCAKE_EINVAL);
    assert_non_null(strstr(mooncake_last_error(), "engines_max"));
    mooncake_client_options_init(&options);
    options.tcp_connections = 0;
    assert_int_equal(mooncake_client_open(&options, &client), MOONCAKE_EINVAL);
    assert_non_null(strstr(mooncake_last_error(), "tcp_connections"));
    mooncake_client_options_init(&options);
    options.copy_threads = 65;
    assert_int_equal(mooncake_client_open(&options, &client), MOONCAKE_EINVAL);
    assert_non_null(strstr(mooncake_last_error(), "copy_threads"));
    mooncake_client_options_init(&options);
    options.segment_size = 1;
    assert_int_equal(mooncake_client_open(&options, &client), MOONCAKE_EINVAL);
    assert_non_null(strstr(mooncake_last_error(), "segment_size"));
    mooncake_client_options_init(&options);
    options.transport = "pigeon";
    assert_int_equal(mooncake_client_open(&options, &client), MOONCAKE_EINVAL);
    assert_non_null(strstr(mooncake_last_error(), "pigeon"));
    mooncake_client_options_init(&options);
    options.master = "no port:x";
    assert_int_equal(mooncake_client_open(&options, &client), MOONCAKE_EINVAL);
    assert_non_null(strstr(mooncake_last_error(), "master"));
    options.struct_size = 0;
    assert_int_equal(mooncake_client_open(&options, &client), MOONCAKE_EINVAL);
    assert_int_equal(mooncake_client_open(NULL, NULL), MOONCAKE_EINVAL);
    assert_ptr_equal(client, before);
}

/* A caller of an older or newer version knows another length than the library. */
static void options_init__writes_the_length_that_the_caller_knows(void **state)
{
    struct {
        mooncake_put_options options;
        unsigned char later[16]; /* what a later version adds */
    } given;
    const size_t older = offsetof(mooncake_put_options, upsert);

    (void)state;
    memset(&given, 0xee, sizeof(given));
    mooncake_put_options_init_sized(&given.options, older);
    assert_int_equal(given.options.struct_size, older);
    assert_int_equal(given.options.replicas, 1);
    assert_int_equal(((unsigned char *)&given)[older], 0xee); /* nothing behind it */
    memset(&given, 0xee, sizeof(given));
    mooncake_put_options_init_sized(&given.options, sizeof(given));
    assert_int_equal(given.options.struct_size, sizeof(given));
    assert_false(given.options.upsert);
    for (size_t i = 0; i < sizeof(given.later); i++) {
        assert_int_equal(given.later[i], 0); /* the default of what this version does not know */
    }
}

static void options__of_a_later_version_are_taken(void **state)
{
    struct rig *rig = *state;
    struct {
        mooncake_put_options options;
        uint64_t later;
    } given;

    mooncake_put_options_init_sized(&given.options, sizeof(given));
    assert_int_equal(mooncake_put(rig->client, "later", "v", 1, &given.options, 0), MOONCAKE_OK);
}

static void stats__tell_what_waiting_has_cost(void **state)
{
    struct rig *rig = *state;
    mooncake_client_stats stats = {.struct_size = sizeof(stats)};
    mooncake_client_options options;
    mooncake_client *sleeper = NULL;
    bool exists;

    /* Often: while others want the processor it leaves polling, for seconds in the end. */
    for (int i = 0; i < 100000 && stats.polls_found + stats.polls_missed == 0; i++) {
        assert_int_equal(mooncake_exist(rig->client, "k", 0, &exists), MOONCAKE_OK);
        assert_int_equal(mooncake_client_get_stats(rig->client, &stats), MOONCAKE_OK);
    }
    assert_true(stats.polls_found + stats.polls_missed > 0);
    assert_true(stats.poll_ns > 0);

    mooncake_client_options_init(&options);
    options.master = fake_master_address(rig->master);
    options.poll_us = 0;
    assert_int_equal(mooncake_client_open(&options, &sleeper), MOONCAKE_OK);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(mooncake_exist(sleeper, "k", 0, &exists), MOONCAKE_OK);
    }
    assert_int_equal(mooncake_client_get_stats(sleeper, &stats), MOONCAKE_OK);
    assert_int_equal(stats.polls_found + stats.polls_missed, 0);
    assert_int_equal(stats.poll_ns, 0);
    assert_true(stats.sleeps > 0);
    mooncake_client_close(sleeper);
}

static void every_call__refuses_null(void **state)
{
    struct rig *rig = *state;
    mooncake_client *c = rig->client;
    uint64_t len;
    bool exists;
    void *data;

    assert_int_equal(mooncake_put(NULL, "k", "v", 1, NULL, 0), MOONCAKE_EINVAL);
    assert_int_equal(mooncake_put(c, NULL, "v", 1, NULL, 0), MOONCAKE_EINVAL);
    assert_int_equal(mooncake_put(c, "k", NULL, 1, NULL, 0), MOONCAKE_EINVAL);
    assert_int_equal(mooncake_put_pieces(c, "k", NULL, 1, NULL, 0), MOONCAKE_EINVAL);
    assert_int_equal(mooncake_get_into(c, "k", NULL, 1, 0, &len), MOONCAKE_EINVAL);
    assert_int_equal(mooncake_get_into_pieces(c, "k", NULL, 2, 0, &len), MOONCAKE_EINVAL);
    assert_int_equal(mooncake_get(c, "k", 0, NULL, &len), MOONCAKE_EINVAL);
    assert_int_equal(mooncake_get(c, "k", 0, &data, NULL), MOONCAKE_EINVAL);
    assert_int_equal(mooncake_exist(c, "k", 0, NULL), MOONCAKE_EINVAL);
    assert_int_equal(mooncake_exist(NULL, "k", 0, &exists), MOONCAKE_EINVAL);
    assert_int_equal(mooncake_size(c, "k", 0, NULL), MOONCAKE_EINVAL);
    assert_int_equal(mooncake_remove(NULL, "k", false, 0), MOONCAKE_EINVAL);
    assert_int_equal(mooncake_remove_all(NULL, false, 0, NULL, NULL), MOONCAKE_EINVAL);
    assert_int_equal(mooncake_batch_put(c, NULL, NULL, NULL, 1, NULL, 0, NULL), MOONCAKE_EINVAL);
    assert_int_equal(mooncake_batch_exist(c, NULL, 1, 0, NULL), MOONCAKE_EINVAL);
    assert_int_equal(mooncake_register_buffer(c, NULL, 1), MOONCAKE_EINVAL);
    assert_int_equal(mooncake_client_check(NULL, 0), MOONCAKE_EINVAL);
    assert_true(strlen(mooncake_last_error()) > 0);
    mooncake_client_close(NULL);
    mooncake_free(NULL);
}

static void key__that_is_empty_or_too_long_is_refused_and_the_client_goes_on(void **state)
{
    struct rig *rig = *state;
    char key[MC_KEY_LEN_MAX + 2];
    bool exists = true;

    memset(key, 'k', sizeof(key) - 1);
    key[sizeof(key) - 1] = '\0';
    assert_int_equal(mooncake_put(rig->client, "", "v", 1, NULL, 0), MOONCAKE_EBADKEY);
    assert_int_equal(mooncake_put(rig->client, key, "v", 1, NULL, 0), MOONCAKE_EBADKEY);
    assert_int_equal(mooncake_exist(rig->client, "", 0, &exists), MOONCAKE_EBADKEY);
    assert_int_equal(mooncake_remove(rig->client, key, false, 0), MOONCAKE_EBADKEY);
    assert_int_equal(fake_master_seen(rig->master, MC_METHOD_PUT_START), 0);
    key[MC_KEY_LEN_MAX] = '\0';
    assert_int_equal(mooncake_exist(rig->client, key, 0, &exists), MOONCAKE_OK);
    assert_false(exists);
}

static void put__options_out_of_range_are_named(void **state)
{
    struct rig *rig = *state;
    mooncake_put_options options;

    mooncake_put_options_init(&options);
    options.replicas = 9;
    assert_int_equal(mooncake_put(rig->client, "k", "v", 1, &options, 0), MOONCAKE_EINVAL);
    assert_non_null(strstr(mooncake_last_error(), "replicas"));
    mooncake_put_options_init(&options);
    options.preferred_segments_count = 1;
    assert_int_equal(mooncake_put(rig->client, "k", "v", 1, &options, 0), MOONCAKE_EINVAL);
    assert_non_null(strstr(mooncake_last_error(), "preferred_segments"));
}

/* ---- one value --------------------------------------------------------------------------- */

static void round_trip(mooncake_client *client, const char *key, size_t len, uint32_t seed)
{
    uint8_t *in = malloc(len + 1), *out = malloc(len + 2);
    uint64_t got = 0;
    void *fresh = NULL;

    assert_non_null(in);
    assert_non_null(out);
    rig_fill(in, len, seed);
    memset(out, 0xee, len + 2);
    assert_int_equal(mooncake_put(client, key, in, len, NULL, 0), MOONCAKE_OK);
    assert_int_equal(mooncake_get_into(client, key, out, len + 1, 0, &got), MOONCAKE_OK);
    assert_int_equal(got, len);
    assert_true(rig_is_filled(out, len, seed));
    assert_int_equal(out[len], 0xee); /* beyond the value nothing is touched */
    got = 99;
    assert_int_equal(mooncake_get(client, key, 0, &fresh, &got), MOONCAKE_OK);
    assert_non_null(fresh);
    assert_int_equal(got, len);
    assert_true(rig_is_filled(fresh, len, seed));
    mooncake_free(fresh);
    got = 99;
    assert_int_equal(mooncake_size(client, key, 0, &got), MOONCAKE_OK);
    assert_int_equal(got, len);
    assert_string_equal(mooncake_last_error(), "");
    free(in);
    free(out);
}

static void value__of_every_size_comes_back_over_tcp(void **state)
{
    struct rig *rig = *state;
    const size_t sizes[] = {0, 1, 63, 64, 65, 4096, 16384, 16385, 1000000, BIG};

    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char key[32];

        (void)snprintf(key, sizeof(key), "size-%u", i);
        round_trip(rig->client, key, sizes[i], i);
    }
}

static void value__comes_back_within_one_process(void **state)
{
    struct rig *rig = *state;

    round_trip(rig->lenders[0], "local-0", 0, 1);
    round_trip(rig->lenders[0], "local-big", BIG, 2);
}

static void value__in_several_extents_comes_back_whole(void **state)
{
    struct rig *rig = *state;

    for (unsigned extents = 2; extents <= MC_EXTENTS_MAX; extents += 7) {
        char key[32];

        fake_master_set_extents(rig->master, extents);
        (void)snprintf(key, sizeof(key), "cut-%u", extents);
        round_trip(rig->client, key, 100003, extents);
        (void)snprintf(key, sizeof(key), "cut-small-%u", extents);
        round_trip(rig->client, key, extents, extents);
    }
}

static void get__with_too_small_a_buffer_says_the_length_and_writes_nothing(void **state)
{
    struct rig *rig = *state;
    char out[4] = "abc";
    uint64_t len = 0;

    assert_int_equal(mooncake_put(rig->client, "k", "0123456789", 10, NULL, 0), MOONCAKE_OK);
    assert_int_equal(mooncake_get_into(rig->client, "k", out, 4, 0, &len), MOONCAKE_EINVAL);
    assert_int_equal(len, 10);
    assert_string_equal(out, "abc");
    assert_non_null(strstr(mooncake_last_error(), "10 bytes"));
}

static void get__of_a_key_that_is_not_there_is_a_miss(void **state)
{
    struct rig *rig = *state;
    char out[4];
    uint64_t len = 77;
    void *fresh = NULL;

    assert_int_equal(mooncake_get_into(rig->client, "nobody", out, 4, 0, &len), MOONCAKE_ENOENT);
    assert_int_equal(len, 77);
    assert_int_equal(mooncake_get(rig->client, "nobody", 0, &fresh, &len), MOONCAKE_ENOENT);
    assert_null(fresh);
    assert_int_equal(mooncake_size(rig->client, "nobody", 0, &len), MOONCAKE_ENOENT);
    assert_int_equal(mooncake_remove(rig->client, "nobody", false, 0), MOONCAKE_ENOENT);
    assert_non_null(strstr(mooncake_last_error(), "nobody"));
}

static void put__of_a_key_that_exists_changes_nothing(void **state)
{
    struct rig *rig = *state;
    char out[4] = "";

    assert_int_equal(mooncake_put(rig->client, "k", "old", 4, NULL, 0), MOONCAKE_OK);
    assert_int_equal(mooncake_put(rig->client, "k", "new", 4, NULL, 0), MOONCAKE_EEXIST);
    assert_int_equal(mooncake_get_into(rig->client, "k", out, 4, 0, NULL), MOONCAKE_OK);
    assert_string_equal(out, "old");
}

static void pieces__are_gathered_and_scattered_in_order(void **state)
{
    struct rig *rig = *state;
    uint8_t in[1000], out[1200];
    mooncake_piece from[MC_PIECES_MAX + 1];
    mooncake_space to[4];
    uint64_t len = 0;

    rig_fill(in, sizeof(in), 5);
    memset(from, 0, sizeof(from));
    for (unsigned i = 0; i < 1000; i++) {
        from[i * 2] = (mooncake_piece){.data = in + i, .len = 1};
    }
    assert_int_equal(mooncake_put_pieces(rig->client, "p", from, MC_PIECES_MAX + 1, NULL, 0),
                     MOONCAKE_EINVAL);
    assert_int_equal(mooncake_put_pieces(rig->client, "p", from, 2000, NULL, 0), MOONCAKE_OK);
    memset(out, 0xee, sizeof(out));
    to[0] = (mooncake_space){.data = out + 700, .len = 300};
    to[1] = (mooncake_space){.data = NULL, .len = 0};
    to[2] = (mooncake_space){.data = out, .len = 600};
    to[3] = (mooncake_space){.data = out + 1000, .len = 200};
    assert_int_equal(mooncake_get_into_pieces(rig->client, "p", to, 4, 0, &len), MOONCAKE_OK);
    assert_int_equal(len, 1000);
    assert_memory_equal(out + 700, in, 300);
    assert_memory_equal(out, in + 300, 600);
    assert_memory_equal(out + 1000, in + 900, 100);
    assert_int_equal(out[1100], 0xee);
    assert_int_equal(mooncake_put_pieces(rig->client, "empty", NULL, 0, NULL, 0), MOONCAKE_OK);
    assert_int_equal(mooncake_get_into_pieces(rig->client, "empty", NULL, 0, 0, &len), MOONCAKE_OK);
    assert_int_equal(len, 0);
}

static void remove__takes_keys_away(void **state)
{
    struct rig *rig = *state;
    uint64_t removed = 0, left = 9;
    bool exists = false;

    assert_int_equal(mooncake_put(rig->client, "a", "v", 1, NULL, 0), MOONCAKE_OK);
    assert_int_equal(mooncake_put(rig->client, "b", "v", 1, NULL, 0), MOONCAKE_OK);
    assert_int_equal(mooncake_exist(rig->client, "a", 0, &exists), MOONCAKE_OK);
    assert_true(exists);
    assert_int_equal(mooncake_remove(rig->client, "a", true, 0), MOONCAKE_OK);
    assert_int_equal(mooncake_exist(rig->client, "a", 0, &exists), MOONCAKE_OK);
    assert_false(exists);
    assert_int_equal(mooncake_remove_all(rig->client, true, 0, &removed, &left), MOONCAKE_OK);
    assert_int_equal(removed, 1);
    assert_int_equal(left, 0);
}

static void register__wants_each_range_to_be_given_back(void **state)
{
    struct rig *rig = *state;
    char memory[100];

    assert_int_equal(mooncake_register_buffer(rig->client, memory, 0), MOONCAKE_EINVAL);
    assert_int_equal(mooncake_register_buffer(rig->client, memory, 100), MOONCAKE_OK);
    assert_int_equal(mooncake_register_buffer(rig->client, memory, 100), MOONCAKE_OK);
    assert_int_equal(mooncake_unregister_buffer(rig->client, memory), MOONCAKE_OK);
    assert_int_equal(mooncake_unregister_buffer(rig->client, memory), MOONCAKE_OK);
    assert_int_equal(mooncake_unregister_buffer(rig->client, memory), MOONCAKE_EINVAL);
}

static void hostname__is_the_segments_name_or_the_hosts(void **state)
{
    struct rig *rig = *state;

    assert_non_null(strstr(mooncake_client_hostname(rig->lenders[0]), "127.0.0.1:"));
    assert_string_equal(mooncake_client_hostname(rig->client), "127.0.0.1");
    assert_string_equal(mooncake_version(), "0.1.0");
    assert_int_equal(mooncake_client_check(rig->client, 0), MOONCAKE_OK);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open__names_the_option_that_is_out_of_range),
        cmocka_unit_test(options_init__writes_the_length_that_the_caller_knows),
        TEST(options__of_a_later_version_are_taken),
        TEST(stats__tell_what_waiting_has_cost),
        TEST(every_call__refuses_null),
        TEST(key__that_is_empty_or_too_long_is_refused_and_the_client_goes_on),
        TEST(put__options_out_of_range_are_named),
        TEST(value__of_every_size_comes_back_over_tcp),
        TEST(value__comes_back_within_one_process),
        TEST(value__in_several_extents_comes_back_whole),
        TEST(get__with_too_small_a_buffer_says_the_length_and_writes_nothing),
        TEST(get__of_a_key_that_is_not_there_is_a_miss),
        TEST(put__of_a_key_that_exists_changes_nothing),
        TEST(pieces__are_gathered_and_scattered_in_order),
        TEST(remove__takes_keys_away),
        TEST(register__wants_each_range_to_be_given_back),
        TEST(hostname__is_the_segments_name_or_the_hosts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The list of errors. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"

static void err__number_outside_the_list_is_a_bug(void **state)
{
    static const int unknown[] = {1, -3, -100, -103 - 1, -9999, INT32_MAX, INT32_MIN};

    (void)state;
    for (size_t i = 0; i < MC_ARRAY_LEN(unknown); i++) {
        assert_false(mc_err_known(unknown[i]));
        assert_int_equal(mc_err_from_wire(unknown[i]), MOONCAKE_EINTERNAL);
        assert_string_equal(mooncake_err_name((mooncake_err)unknown[i]), "EUNKNOWN");
        assert_non_null(mooncake_err_text((mooncake_err)unknown[i]));
        assert_int_equal(mc_err_radius((mooncake_err)unknown[i]), MC_ERR_RADIUS_BUG);
    }
}

static void err__every_number_has_name_text_and_survives_the_wire(void **state)
{
    (void)state;
#define CHECK(name, number, radius, text)                                                          \
    assert_int_equal(MOONCAKE_##name, number);                                                     \
    assert_string_equal(mooncake_err_name(MOONCAKE_##name), #name);                                \
    assert_true(strlen(mooncake_err_text(MOONCAKE_##name)) > 3);                                   \
    assert_true(mc_err_known(number));                                                             \
    assert_int_equal(mc_err_from_wire(number), MOONCAKE_##name);                                   \
    assert_int_equal(mc_err_radius(MOONCAKE_##name), MC_ERR_RADIUS_##radius);
    MOONCAKE_ERR_LIST(CHECK)
#undef CHECK
}

/* The list is ABI: a number that changes must change here too, on purpose. */
static void err__numbers_are_those_of_the_cpp_mooncake(void **state)
{
    static const struct {
        mooncake_err err;
        int number;
        enum mc_err_radius radius;
    } fixed[] = {
        {MOONCAKE_OK, 0, MC_ERR_RADIUS_CALL},
        {MOONCAKE_EINTERNAL, -1, MC_ERR_RADIUS_BUG},
        {MOONCAKE_ENOSEGMENT, -101, MC_ERR_RADIUS_PEER},
        {MOONCAKE_ESEGMENTEXISTS, -102, MC_ERR_RADIUS_PEER},
        {MOONCAKE_ENOCLIENT, -103, MC_ERR_RADIUS_CLIENT},
        {MOONCAKE_ENOSPACE, -200, MC_ERR_RADIUS_CALL},
        {MOONCAKE_EBADKEY, -400, MC_ERR_RADIUS_CALL},
        {MOONCAKE_EINVAL, -600, MC_ERR_RADIUS_CALL},
        {MOONCAKE_ENOTOWNER, -601, MC_ERR_RADIUS_OBJECT},
        {MOONCAKE_ESTATE, -700, MC_ERR_RADIUS_OBJECT},
        {MOONCAKE_ENOTREADY, -703, MC_ERR_RADIUS_OBJECT},
        {MOONCAKE_ENOENT, -704, MC_ERR_RADIUS_OBJECT},
        {MOONCAKE_EEXIST, -705, MC_ERR_RADIUS_OBJECT},
        {MOONCAKE_ELEASED, -706, MC_ERR_RADIUS_OBJECT},
        {MOONCAKE_ELEASEEXPIRED, -707, MC_ERR_RADIUS_OBJECT},
        {MOONCAKE_ETASKRUNNING, -708, MC_ERR_RADIUS_OBJECT},
        {MOONCAKE_ENOREPLICA, -710, MC_ERR_RADIUS_OBJECT},
        {MOONCAKE_EREPLICABUSY, -714, MC_ERR_RADIUS_OBJECT},
        {MOONCAKE_ETRANSFER, -800, MC_ERR_RADIUS_PEER},
        {MOONCAKE_ECHECKSUM, -801, MC_ERR_RADIUS_OBJECT},
        {MOONCAKE_ERPC, -900, MC_ERR_RADIUS_PEER},
        {MOONCAKE_ETIMEDOUT, -901, MC_ERR_RADIUS_PEER},
        {MOONCAKE_ECANCELED, -902, MC_ERR_RADIUS_CALL},
        {MOONCAKE_EUNAVAILABLE, -1010, MC_ERR_RADIUS_CLIENT},
        {MOONCAKE_EMODE, -1011, MC_ERR_RADIUS_CLIENT},
        {MOONCAKE_ENOTSUP, -1012, MC_ERR_RADIUS_CALL},
        {MOONCAKE_ENOTASK, -1400, MC_ERR_RADIUS_CALL},
        {MOONCAKE_ETASKQUEUE, -1401, MC_ERR_RADIUS_CALL},
        {MOONCAKE_EQUOTA, -1700, MC_ERR_RADIUS_CALL},
        {MOONCAKE_ENOTENANT, -1701, MC_ERR_RADIUS_CALL},
    };

    (void)state;
    for (size_t i = 0; i < MC_ARRAY_LEN(fixed); i++) {
        assert_int_equal(fixed[i].err, fixed[i].number);
        assert_int_equal(mc_err_radius(fixed[i].err), fixed[i].radius);
    }
}

static void err__errno_becomes_ours(void **state)
{
    (void)state;
    assert_int_equal(mc_err_from_errno(0), MOONCAKE_OK);
    assert_int_equal(mc_err_from_errno(ENOMEM), MOONCAKE_ENOMEM);
    assert_int_equal(mc_err_from_errno(ETIMEDOUT), MOONCAKE_ETIMEDOUT);
    assert_int_equal(mc_err_from_errno(ECONNRESET), MOONCAKE_ERPC);
    assert_int_equal(mc_err_from_errno(EADDRINUSE), MOONCAKE_ERPC);
    assert_int_equal(mc_err_from_errno(ENOENT), MOONCAKE_EINTERNAL);
    assert_int_equal(mc_err_from_errno(-1), MOONCAKE_EINTERNAL);
}

static void err__sentence_may_quote_the_one_before(void **state)
{
    (void)state;
    mc_err_clear();
    assert_string_equal(mooncake_last_error(), "");
    assert_int_equal(mc_err_set(MOONCAKE_EINVAL, "inner %d", 1), MOONCAKE_EINVAL);
    assert_int_equal(
        mc_err_set(MOONCAKE_ERPC, "outer: %s, %s", mooncake_last_error(), mooncake_last_error()),
        MOONCAKE_ERPC);
    assert_string_equal(mooncake_last_error(), "outer: inner 1, inner 1");
}

static void err__sentence_stays_one_line(void **state)
{
    (void)state;
    (void)mc_err_set(MOONCAKE_EINVAL, "not JSON near '%s'", "a\nWARN forged\r\x1b[2J\x7f \xc3\xa9");
    assert_string_equal(mooncake_last_error(), "not JSON near 'a?WARN forged??[2J? \xc3\xa9'");
}

static void err__long_sentence_is_cut(void **state)
{
    char text[2000];

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    (void)mc_err_set(MOONCAKE_EINVAL, "%s", text);
    assert_int_equal(strlen(mooncake_last_error()), 511);
}

static void *say_other(void *arg)
{
    (void)arg;
    (void)mc_err_set(MOONCAKE_EINVAL, "other thread");
    return NULL;
}

static void err__sentence_belongs_to_its_thread(void **state)
{
    pthread_t thread;

    (void)state;
    (void)mc_err_set(MOONCAKE_EINVAL, "mine");
    assert_int_equal(pthread_create(&thread, NULL, say_other, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(mooncake_last_error(), "mine");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(err__number_outside_the_list_is_a_bug),
        cmocka_unit_test(err__every_number_has_name_text_and_survives_the_wire),
        cmocka_unit_test(err__numbers_are_those_of_the_cpp_mooncake),
        cmocka_unit_test(err__errno_becomes_ours),
        cmocka_unit_test(err__sentence_may_quote_the_one_before),
        cmocka_unit_test(err__sentence_stays_one_line),
        cmocka_unit_test(err__long_sentence_is_cut),
        cmocka_unit_test(err__sentence_belongs_to_its_thread),
    };

    return cmocka_run_group_tests_name("err", tests, NULL, NULL);
}

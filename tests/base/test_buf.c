/* The growable buffer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/mem.h"

static void buf__impossible_length_is_refused_and_changes_nothing(void **state)
{
    struct mc_buf buf;

    (void)state;
    mc_buf_init(&buf);
    assert_int_equal(mc_buf_append(&buf, "abc", 3), MOONCAKE_OK);
    assert_int_equal(mc_buf_reserve(&buf, SIZE_MAX), MOONCAKE_ENOMEM);
    assert_int_equal(mc_buf_reserve(&buf, SIZE_MAX - 3), MOONCAKE_ENOMEM);
    assert_int_equal(mc_buf_reserve(&buf, SIZE_MAX / 2), MOONCAKE_ENOMEM);
    assert_int_equal(mc_buf_len(&buf), 3);
    assert_memory_equal(mc_buf_bytes(&buf), "abc", 3);
    mc_buf_fini(&buf);
}

static void buf__out_of_memory_changes_nothing(void **state)
{
    struct mc_buf buf;
    char bytes[4096] = {0};

    (void)state;
    mc_buf_init(&buf);
    mc_mem_fail_after(0);
    assert_int_equal(mc_buf_append(&buf, "abc", 3), MOONCAKE_ENOMEM);
    assert_int_equal(mc_buf_len(&buf), 0);
    assert_int_equal(mc_buf_append(&buf, "abc", 3), MOONCAKE_OK);
    mc_mem_fail_after(0);
    assert_int_equal(mc_buf_append(&buf, bytes, sizeof(bytes)), MOONCAKE_ENOMEM);
    assert_int_equal(mc_buf_len(&buf), 3);
    assert_memory_equal(mc_buf_bytes(&buf), "abc", 3);
    mc_buf_fini(&buf);
}

static void buf__empty_buffer_has_no_bytes(void **state)
{
    struct mc_buf buf;

    (void)state;
    mc_buf_init(&buf);
    assert_null(mc_buf_bytes(&buf));
    assert_int_equal(mc_buf_len(&buf), 0);
    assert_int_equal(mc_buf_append(&buf, NULL, 0), MOONCAKE_OK);
    mc_buf_consume(&buf, 0);
    mc_buf_clear(&buf, 0);
    mc_buf_fini(&buf);
    mc_buf_fini(&buf);
}

/* Fill and empty in uneven steps; what comes out is what went in. */
static void buf__bytes_come_out_in_order(void **state)
{
    struct mc_buf buf;
    uint8_t in = 0;
    uint8_t out = 0;

    (void)state;
    mc_buf_init(&buf);
    for (unsigned round = 0; round < 5000; round++) {
        uint8_t bytes[97];
        size_t fill = round * 7 % sizeof(bytes);
        size_t drain;

        for (size_t i = 0; i < fill; i++) {
            bytes[i] = in++;
        }
        assert_int_equal(mc_buf_append(&buf, bytes, fill), MOONCAKE_OK);
        drain = round * 13 % 101;
        drain = drain > mc_buf_len(&buf) ? mc_buf_len(&buf) : drain;
        for (size_t i = 0; i < drain; i++) {
            assert_int_equal(mc_buf_bytes(&buf)[i], out++);
        }
        mc_buf_consume(&buf, drain);
    }
    assert_true(buf.cap <= 4096); /* no growth without need */
    mc_buf_fini(&buf);
}

static void buf__space_at_the_front_is_used_again(void **state)
{
    struct mc_buf buf;
    uint8_t bytes[256];

    (void)state;
    memset(bytes, 7, sizeof(bytes));
    mc_buf_init(&buf);
    assert_int_equal(mc_buf_append(&buf, bytes, sizeof(bytes)), MOONCAKE_OK);
    mc_buf_consume(&buf, 200);
    mc_mem_fail_after(0); /* moving needs no memory */
    assert_int_equal(mc_buf_append(&buf, bytes, 200), MOONCAKE_OK);
    mc_mem_fail_after(-1);
    assert_int_equal(mc_buf_len(&buf), 256);
    assert_memory_equal(mc_buf_bytes(&buf), bytes, 256);
    mc_buf_fini(&buf);
}

static void buf__clear_gives_large_memory_back(void **state)
{
    int64_t live = mc_mem_live_count();
    struct mc_buf buf;

    (void)state;
    mc_buf_init(&buf);
    assert_int_equal(mc_buf_reserve(&buf, 10000), MOONCAKE_OK);
    mc_buf_clear(&buf, 1 << 20);
    assert_true(buf.cap >= 10000);
    mc_buf_clear(&buf, 100);
    assert_int_equal(buf.cap, 0);
    assert_int_equal(mc_mem_live_count(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buf__impossible_length_is_refused_and_changes_nothing),
        cmocka_unit_test(buf__out_of_memory_changes_nothing),
        cmocka_unit_test(buf__empty_buffer_has_no_bytes),
        cmocka_unit_test(buf__bytes_come_out_in_order),
        cmocka_unit_test(buf__space_at_the_front_is_used_again),
        cmocka_unit_test(buf__clear_gives_large_memory_back),
    };

    return cmocka_run_group_tests_name("buf", tests, NULL, NULL);
}

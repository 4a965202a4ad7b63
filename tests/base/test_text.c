/* Bytes from outside, for a person to read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/text.h"

#define CAP 12u

static void expect_words(const char *bytes, size_t len, const char *words)
{
    char out[CAP] = "untouched";
    char *exact = mc_malloc(len == 0 ? 1 : len); /* a byte read too many is found */

    assert_non_null(exact);
    memcpy(exact, bytes, len);
    assert_int_equal(mc_text_first_words(exact, len, out, sizeof(out)), words != NULL);
    assert_string_equal(out, words != NULL ? words : "untouched");
    mc_free(exact);
}

#define EXPECT(bytes, words) expect_words(bytes, sizeof(bytes) - 1, words)

static void text__without_words_gives_none(void **state)
{
    (void)state;
    EXPECT("", NULL);
    EXPECT("abc", NULL);
    EXPECT("\1a\2b\3c\4d\5", NULL);
    EXPECT("abc\n123\n", NULL);
    EXPECT("!?--++!?", NULL);
    EXPECT("\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9", NULL);
}

static void text__first_words_are_the_first_run_that_reads_as_such(void **state)
{
    (void)state;
    EXPECT("220 mail\r\n221 more", "220 mail");
    EXPECT("220 mail", "220 mail");
    EXPECT("J\0\0\0\n8.0.33\0x", "8.0.33");
    EXPECT("\33[2Jbad", "[2Jbad");
    EXPECT("a \"b\" c\n", "a 'b' c");
}

static void text__words_that_are_too_long_end_in_dots(void **state)
{
    (void)state;
    EXPECT("12345678901\n", "12345678901");
    EXPECT("123456789012\n", "12345678...");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(text__without_words_gives_none),
        cmocka_unit_test(text__first_words_are_the_first_run_that_reads_as_such),
        cmocka_unit_test(text__words_that_are_too_long_end_in_dots),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

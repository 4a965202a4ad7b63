/* Options from flags and environment. */
#include "option_fixture.h"

static void option__unknown_flag_is_refused_with_the_nearest_name(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(READ(f, 0, "--rpc_prot=1"), MOONCAKE_EINVAL);
    assert_sentence_has("\"rpc_prot\"", "flag", "did you mean \"rpc_port\"", "prog --help");
    assert_int_equal(READ(f, 0, "-segmnt-size=1"), MOONCAKE_EINVAL);
    assert_sentence_has("did you mean \"segment_size\"");
    assert_int_equal(READ(f, 0, "--print-confg"), MOONCAKE_EINVAL);
    assert_sentence_has("did you mean \"print_config\"");
    assert_int_equal(READ(f, 0, "--zzzzzzzzzzzzzzzzzz"), MOONCAKE_EINVAL);
    assert_null(strstr(mooncake_last_error(), "did you mean"));
    assert_int_equal(READ(f, 0, "---rpc_port=1"), MOONCAKE_EINVAL);
    assert_int_equal(READ(f, 0, "--=1"), MOONCAKE_EINVAL);
    assert_int_equal(READ(f, 0, "--RPC_PORT=1"), MOONCAKE_EINVAL);
}

static void option__flag_name_of_any_length_is_refused_not_overrun(void **state)
{
    struct fixture *f = *state;
    char word[4000];

    for (size_t len = 3; len < sizeof(word); len = len * 3 / 2) {
        memset(word, 'p', len);
        word[0] = '-';
        word[1] = '-';
        word[len] = '\0';
        assert_int_equal(READ(f, 0, word), MOONCAKE_EINVAL);
    }
}

static void option__bad_value_is_refused_with_name_value_source_and_range(void **state)
{
    static const struct {
        const char *word, *name, *value, *allowed;
    } bad[] = {
        {"--verbose=maybe", "verbose", "\"maybe\"", "true"},
        {"--verbose=", "verbose", "\"\"", "true"},
        {"--io_threads=0", "io_threads", "\"0\"", "1 to 64"},
        {"--io_threads=65", "io_threads", "\"65\"", "1 to 64"},
        {"--io_threads=4294967297", "io_threads", "\"4294967297\"", "0 to 4294967295"},
        {"--objects_max=-1", "objects_max", "\"-1\"", "0 to 18446744073709551615"},
        {"--rpc_port=65536", "rpc_port", "\"65536\"", "0 to 65535"},
        {"--rpc_port=", "rpc_port", "\"\"", "0 to 65535"},
        {"--port=x", "rpc_port", "\"x\"", "0 to 65535"},
        {"--watermark=1.01", "watermark", "\"1.01\"", "0 to 1"},
        {"--watermark=-0.5", "watermark", "\"-0.5\"", "0 to 1"},
        {"--watermark=-0", "watermark", "\"-0\"", "0 to 1"},
        {"--watermark=nan", "watermark", "\"nan\"", "0 to 1"},
        {"--watermark=inf", "watermark", "\"inf\"", "0 to 1"},
        {"--watermark=0x1", "watermark", "\"0x1\"", "0 to 1"},
        {"--watermark=", "watermark", "\"\"", "0 to 1"},
        {"--watermark=0.5.5", "watermark", "\"0.5.5\"", "0 to 1"},
        {"--segment_size=4X", "segment_size", "\"4X\"", "4GiB"},
        {"--segment_size=1K", "segment_size", "\"1K\"", "1MiB to 1TiB"},
        {"--segment_size=2T", "segment_size", "\"2T\"", "1MiB to 1TiB"},
        {"--lease=0", "lease", "\"0\"", "1ms or more"},
        {"--lease=soon", "lease", "\"soon\"", "10s"},
        {"--client_ttl=1d", "client_ttl", "\"1d\"", "ms, s, m or h"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < MC_ARRAY_LEN(bad); i++) {
        assert_int_equal(READ(f, 0, bad[i].word), MOONCAKE_EINVAL);
        assert_sentence_has(bad[i].name, bad[i].value, bad[i].allowed, "(from flag)");
    }
    assert_int_equal(f->conf.rpc_port, 50051); /* and nothing was half set */
    assert_int_equal(f->conf.segment_size, 4ull << 30);
}

static void option__flag_without_its_value_is_refused(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(READ(f, 0, "--rpc_port"), MOONCAKE_EINVAL);
    assert_sentence_has("rpc_port", "needs a value", "--rpc_port=VALUE");
    assert_int_equal(READ(f, 0, "--name", "--verbose"), MOONCAKE_EINVAL);
    assert_sentence_has("name", "needs a value");
    assert_int_equal(READ(f, 0, "--config_path"), MOONCAKE_EINVAL);
    assert_sentence_has("config_path", "needs a value");
    assert_int_equal(READ(f, 0, "--help=yes"), MOONCAKE_EINVAL);
    assert_sentence_has("help", "takes no value");
}

static void option__flag_given_twice_is_refused_with_both_values(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(READ(f, 0, "--rpc_port=1", "--rpc-port", "2"), MOONCAKE_EINVAL);
    assert_sentence_has("rpc_port", "more than once", "\"1\"", "\"2\"");
    assert_int_equal(READ(f, 0, "--rpc_port=1", "--port=2"), MOONCAKE_EINVAL);
    assert_sentence_has("rpc_port", "more than once");
    assert_int_equal(READ(f, 0, "--config_path=a", "--config_path=b"), MOONCAKE_EINVAL);
    assert_sentence_has("config_path", "more than once");
}

static void option__word_too_many_is_refused(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(READ(f, 0, "--verbose", "false"), MOONCAKE_EINVAL);
    assert_sentence_has("\"false\"", "--name=value");
    assert_int_equal(READ(f, 2, "a", "b", "c"), MOONCAKE_EINVAL);
    assert_sentence_has("\"c\"", "at most 2");
    assert_int_equal(f->argc, 4); /* the command line is as it was */
}

static void option__bad_environment_is_refused_with_the_variable(void **state)
{
    struct fixture *f = *state;

    (void)setenv("MOONCAKE_RPC_PORT", "tcp://10.0.0.1:50051", 1);
    assert_int_equal(READ(f, 0, "--verbose"), MOONCAKE_EINVAL);
    assert_sentence_has("rpc_port", "tcp://10.0.0.1:50051", "environment MOONCAKE_RPC_PORT",
                        "0 to 65535");
}

static void option__set_refuses_as_a_flag_does(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(mc_options_set(f->options, "leese", "1s", "open()"), MOONCAKE_EINVAL);
    assert_sentence_has("\"leese\"", "open()", "\"lease\"");
    assert_int_equal(mc_options_set(f->options, "lease", "1q", "open()"), MOONCAKE_EINVAL);
    assert_sentence_has("lease", "\"1q\"", "open()");
    assert_int_equal(mc_options_set(f->options, "lease", "1s", "open()"), MOONCAKE_OK);
    assert_int_equal(f->conf.lease, 1000);
    assert_shown(f, "lease", "1s", "open()");
}

static void option__defaults_fill_the_struct(void **state)
{
    struct fixture *f = *state;

    assert_false(f->conf.verbose);
    assert_int_equal(f->conf.io_threads, 2);
    assert_int_equal(f->conf.objects_max, 0);
    assert_int_equal(f->conf.rpc_port, 50051);
    assert_true(f->conf.watermark > 0.89 && f->conf.watermark < 0.91);
    assert_int_equal(f->conf.segment_size, 4ull << 30);
    assert_int_equal(f->conf.lease, 10000);
    assert_int_equal(f->conf.client_ttl, 10000);
    assert_string_equal(f->conf.name, "");
    assert_int_equal(f->conf.segment.count, 0);
    assert_shown(f, "rpc_port", "50051", "default");
}

static void option__flags_in_every_spelling_are_taken(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(READ(f, 0, "--verbose", "--io-threads", "3", "-rpc_port=1", "--watermark=0.95",
                          "--segment-size=2.5GiB", "-lease", "250ms", "--client_ttl=7", "--name="),
                     MOONCAKE_OK);
    assert_true(f->conf.verbose);
    assert_int_equal(f->conf.io_threads, 3);
    assert_int_equal(f->conf.rpc_port, 1);
    assert_shown(f, "watermark", "0.95", "flag");
    assert_shown(f, "segment_size", "2560MiB", "flag");
    assert_shown(f, "lease", "250ms", "flag");
    assert_shown(f, "client_ttl", "7s", "flag");
    assert_shown(f, "name", "", "flag");
    assert_shown(f, "objects_max", "0", "default");
    assert_int_equal(f->argc, 1);
}

static void option__value_may_hold_equals_signs_and_begin_with_a_dash(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(READ(f, 0, "--name=--a=b=c"), MOONCAKE_OK);
    assert_string_equal(f->conf.name, "--a=b=c");
    assert_int_equal(READ(f, 0, "--name", "-"), MOONCAKE_OK);
    assert_string_equal(f->conf.name, "-");
    assert_int_equal(READ(f, 0, "--io_threads", "-3"), MOONCAKE_EINVAL); /* read as a number */
    assert_sentence_has("\"-3\"");
}

static void option__bool_flag_takes_every_word(void **state)
{
    static const char *const yes[] = {"--verbose", "--verbose=true", "--verbose=1", "--verbose=YES",
                                      "--verbose=on"};
    static const char *const no[] = {"--verbose=false", "--verbose=0", "--verbose=No",
                                     "--verbose=off"};
    struct fixture *f = *state;

    for (size_t i = 0; i < MC_ARRAY_LEN(yes); i++) {
        f->conf.verbose = false;
        assert_int_equal(READ(f, 0, yes[i]), MOONCAKE_OK);
        assert_true(f->conf.verbose);
    }
    for (size_t i = 0; i < MC_ARRAY_LEN(no); i++) {
        f->conf.verbose = true;
        assert_int_equal(READ(f, 0, no[i]), MOONCAKE_OK);
        assert_false(f->conf.verbose);
    }
}

static void option__words_are_left_in_order(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(READ(f, 4, "put", "--rpc_port=1", "-", "--verbose", "key", "--", "--file"),
                     MOONCAKE_OK);
    assert_int_equal(f->argc, 5);
    assert_string_equal(f->argv[0], "prog");
    assert_string_equal(f->argv[1], "put");
    assert_string_equal(f->argv[2], "-");
    assert_string_equal(f->argv[3], "key");
    assert_string_equal(f->argv[4], "--file");
    assert_null(f->argv[5]);
}

static void option__repeated_list_flag_adds_up(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(READ(f, 0, "--segment=4GiB", "--segment", "a,b", "--segment=2GiB"),
                     MOONCAKE_OK);
    assert_int_equal(f->conf.segment.count, 3);
    assert_string_equal(f->conf.segment.items[1], "a,b");
    assert_shown(f, "segment", "4GiB,a,b,2GiB", "flag");
}

static void option__environment_beats_default_and_flag_beats_environment(void **state)
{
    struct fixture *f = *state;

    (void)setenv("MOONCAKE_RPC_PORT", "7", 1);
    (void)setenv("MOONCAKE_SEGMENT", "1GiB,2GiB", 1);
    (void)setenv("MOONCAKE_NAME", "", 1); /* empty is unset */
    assert_int_equal(READ(f, 0, "--verbose"), MOONCAKE_OK);
    assert_int_equal(f->conf.rpc_port, 7);
    assert_shown(f, "rpc_port", "7", "environment MOONCAKE_RPC_PORT");
    assert_shown(f, "name", "", "default");
    assert_int_equal(f->conf.segment.count, 2);
    assert_string_equal(f->conf.segment.items[1], "2GiB");
    assert_int_equal(READ(f, 0, "--rpc_port=8", "--segment=3GiB"), MOONCAKE_OK);
    assert_int_equal(f->conf.rpc_port, 8);
    assert_shown(f, "segment", "3GiB", "flag"); /* the flag replaces the list */
}

static void option__alias_works_in_the_environment(void **state)
{
    struct fixture *f = *state;

    (void)setenv("MOONCAKE_PORT", "9", 1);
    assert_int_equal(READ(f, 0, "--verbose"), MOONCAKE_OK);
    assert_int_equal(f->conf.rpc_port, 9);
    assert_shown(f, "rpc_port", "9", "environment MOONCAKE_PORT");
}

static void option__help_version_and_print_config_are_noticed(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(READ(f, 0, "--verbose"), MOONCAKE_OK);
    assert_false(mc_options_asked(f->options, "help"));
    assert_false(mc_options_asked(f->options, "version"));
    assert_false(mc_options_asked(f->options, "print-config"));
    /* help answers even when the configuration is broken */
    assert_int_equal(READ(f, 0, "--help", "--config_path=/nonexistent"), MOONCAKE_OK);
    assert_true(mc_options_asked(f->options, "help"));
}

static void option__print_config_shows_value_and_source(void **state)
{
    struct fixture *f = *state;
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    assert_non_null(out);
    assert_int_equal(READ(f, 0, "--print-config", "--rpc_port=5"), MOONCAKE_OK);
    assert_true(mc_options_asked(f->options, "print_config"));
    mc_options_print(f->options, out);
    (void)fclose(out);
    assert_non_null(strstr(text, "rpc_port = 5 (flag)\n"));
    assert_non_null(strstr(text, "segment_size = 4GiB (default)\n"));
    assert_non_null(strstr(text, "watermark = 0.9 (default)\n"));
    free(text);
}

static void option__help_has_a_line_for_each_option(void **state)
{
    struct fixture *f = *state;
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    assert_non_null(out);
    mc_options_print_help(f->options, out, "prog [flags]");
    (void)fclose(out);
    assert_non_null(strstr(text, "usage: prog [flags]\n"));
    for (size_t i = 0; i < MC_ARRAY_LEN(conf_options); i++) {
        char flag[80];

        (void)snprintf(flag, sizeof(flag), "  --%s=", conf_options[i].name);
        assert_non_null(strstr(text, flag));
    }
    assert_non_null(strstr(text, "[default 50051; MOONCAKE_RPC_PORT; also --port]"));
    free(text);
}

static void option__help_fits_100_columns_and_loses_no_word(void **state)
{
    static const struct mc_option wordy[] = {
        MC_OPTION(
            struct conf, rpc_port, PORT, "1",
            "one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
            "fifteen sixteen seventeen eighteen nineteen twenty"),
    };
    struct fixture *f = *state;
    char *text = NULL, *save = NULL;
    size_t len = 0;
    unsigned lines = 0;
    FILE *out = open_memstream(&text, &len);

    assert_non_null(out);
    mc_options_destroy(&f->options);
    assert_int_equal(mc_options_create("prog", wordy, 1, &f->conf, &f->options), MOONCAKE_OK);
    mc_options_print_help(f->options, out, "prog [flags]");
    (void)fclose(out);
    assert_non_null(strstr(text, " nineteen"));
    assert_non_null(strstr(text, " twenty"));
    assert_non_null(strstr(text, "[default 1; MOONCAKE_RPC_PORT]"));
    for (char *line = strtok_r(text, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        assert_true(strlen(line) <= 100);
        lines++;
    }
    assert_true(lines > 10);
    free(text);
}

static void option__out_of_memory_is_said_and_nothing_leaks(void **state)
{
    struct fixture *f = *state;
    mooncake_err err = MOONCAKE_ENOMEM;

    (void)setenv("MOONCAKE_SEGMENT", "a,b", 1);
    for (int64_t n = 0; err != MOONCAKE_OK; n++) {
        assert_true(n < 1000);
        mc_options_destroy(&f->options);
        memset(&f->conf, 0, sizeof(f->conf));
        mc_mem_fail_after(n);
        err = mc_options_create("prog", conf_options, MC_ARRAY_LEN(conf_options), &f->conf,
                                &f->options);
        if (err == MOONCAKE_OK) {
            err = READ(f, 1, "--name=x", "--segment=c", "--segment=d", "word");
        }
        mc_mem_fail_after(-1);
        assert_true(err == MOONCAKE_OK || err == MOONCAKE_ENOMEM);
    }
    assert_string_equal(f->conf.segment.items[1], "d");
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        T(option__unknown_flag_is_refused_with_the_nearest_name),
        T(option__flag_name_of_any_length_is_refused_not_overrun),
        T(option__bad_value_is_refused_with_name_value_source_and_range),
        T(option__flag_without_its_value_is_refused),
        T(option__flag_given_twice_is_refused_with_both_values),
        T(option__word_too_many_is_refused),
        T(option__bad_environment_is_refused_with_the_variable),
        T(option__set_refuses_as_a_flag_does),
        T(option__defaults_fill_the_struct),
        T(option__flags_in_every_spelling_are_taken),
        T(option__value_may_hold_equals_signs_and_begin_with_a_dash),
        T(option__bool_flag_takes_every_word),
        T(option__words_are_left_in_order),
        T(option__repeated_list_flag_adds_up),
        T(option__environment_beats_default_and_flag_beats_environment),
        T(option__alias_works_in_the_environment),
        T(option__help_version_and_print_config_are_noticed),
        T(option__print_config_shows_value_and_source),
        T(option__help_has_a_line_for_each_option),
        T(option__help_fits_100_columns_and_loses_no_word),
        T(option__out_of_memory_is_said_and_nothing_leaks),
    };
#undef T

    return cmocka_run_group_tests_name("option", tests, NULL, NULL);
}

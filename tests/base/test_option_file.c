/* Options from a JSON file. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "option_fixture.h"

static char file_path[64];
static char flag[96];

/* Write @p len bytes of @p text to a fresh file and read it as the configuration. */
static mooncake_err read_bytes(struct fixture *f, const char *text, size_t len)
{
    int fd;

    (void)unlink(file_path);
    (void)snprintf(file_path, sizeof(file_path), "/tmp/mc_option_XXXXXX");
    fd = mkstemp(file_path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, len), len);
    assert_int_equal(close(fd), 0);
    (void)snprintf(flag, sizeof(flag), "--config_path=%s", file_path);
    return READ(f, 0, flag);
}

static mooncake_err read_text(struct fixture *f, const char *text)
{
    return read_bytes(f, text, strlen(text));
}

static int teardown(void **state)
{
    (void)unlink(file_path);
    return fixture_teardown(state);
}

static void option_file__missing_file_is_named(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(READ(f, 0, "--config_path=/nonexistent/x.json"), MOONCAKE_EINVAL);
    assert_sentence_has("config_path", "/nonexistent/x.json", "No such file");
    assert_int_equal(READ(f, 0, "--print_config"), MOONCAKE_EINVAL); /* it is remembered */
}

static void option_file__what_is_no_regular_file_is_refused_at_once(void **state)
{
    struct fixture *f = *state;
    char fifo_flag[128];

    assert_int_equal(READ(f, 0, "--config_path=/dev/zero"), MOONCAKE_EINVAL);
    assert_sentence_has("/dev/zero", "regular file");
    fixture_teardown(state);
    fixture_setup(state);
    assert_int_equal(READ(f, 0, "--config_path=/tmp"), MOONCAKE_EINVAL);
    fixture_teardown(state);
    fixture_setup(state);
    (void)snprintf(file_path, sizeof(file_path), "/tmp/mc_option_fifo_%d", (int)getpid());
    assert_int_equal(mkfifo(file_path, 0600), 0);
    (void)snprintf(fifo_flag, sizeof(fifo_flag), "--config_path=%s", file_path);
    assert_int_equal(READ(f, 0, fifo_flag), MOONCAKE_EINVAL);
    assert_sentence_has("regular file");
}

static void option_file__larger_than_a_mebibyte_is_refused(void **state)
{
    struct fixture *f = *state;
    size_t len = ((size_t)1 << 20) + 1;
    char *text = mc_malloc(len);

    assert_non_null(text);
    memset(text, ' ', len);
    assert_int_equal(read_bytes(f, text, len), MOONCAKE_EINVAL);
    assert_sentence_has("1048576 bytes");
    mc_free(text);
}

static void option_file__broken_syntax_is_refused_with_its_line(void **state)
{
    static const struct {
        const char *text, *line;
    } bad[] = {
        {"", "line 1"},
        {"{", "line 1"},
        {"{\n\"rpc_port\": 1,\n}\n", "line 3"},
        {"{\n\n\"rpc_port\" 1}", "line 3"},
        {"{\"rpc_port\": 1}\nx", "line 2"},
        {"{\"rpc_port\": 1,\n\"rpc_port\": 2}", "line 2"},
        {"{\"name\": \"\\u0000\"}", "line 1"},
        {"{\"name\": \"\xff\"}", "line 1"},
        {"{\"objects_max\": 99999999999999999999999999}", "line 1"},
        {"{\"watermark\": NaN}", "line 1"},
        {"[[[[[[[[", "line 1"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < MC_ARRAY_LEN(bad); i++) {
        fixture_teardown(state);
        fixture_setup(state);
        assert_int_equal(read_text(f, bad[i].text), MOONCAKE_EINVAL);
        assert_sentence_has(file_path, bad[i].line, "not JSON");
    }
}

static void option_file__other_than_an_object_is_refused(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(read_text(f, "[1, 2]"), MOONCAKE_EINVAL);
    assert_sentence_has(file_path, "object");
}

static void option_file__unknown_key_is_refused_with_line_and_nearest_name(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(read_text(f, "{\n\"name\": \"rpc_prt\",\n\"rpc_prt\": 1}"), MOONCAKE_EINVAL);
    assert_sentence_has("\"rpc_prt\"", "line 3", "did you mean \"rpc_port\"");
}

static void option_file__wrong_type_is_refused_with_line_and_what_is_allowed(void **state)
{
    static const struct {
        const char *member, *name, *allowed;
    } bad[] = {
        {"\"verbose\": 1", "verbose", "true or false"},
        {"\"verbose\": null", "verbose", "true or false"},
        {"\"io_threads\": 2.0", "io_threads", "a whole number"},
        {"\"io_threads\": true", "io_threads", "a whole number"},
        {"\"io_threads\": [2]", "io_threads", "a whole number"},
        {"\"rpc_port\": {\"a\": 1}", "rpc_port", "a whole number"},
        {"\"watermark\": false", "watermark", "0 to 1"},
        {"\"segment_size\": 1.5", "segment_size", "4GiB"},
        {"\"lease\": null", "lease", "milliseconds"},
        {"\"client_ttl\": []", "client_ttl", "seconds"},
        {"\"name\": 5", "name", "a string"},
        {"\"segment\": 5", "segment", "an array of strings"},
        {"\"segment\": [\"a\", 5]", "segment", "an array of strings"},
        {"\"segment\": [[\"a\"]]", "segment", "an array of strings"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < MC_ARRAY_LEN(bad); i++) {
        char text[128];

        fixture_teardown(state);
        fixture_setup(state);
        (void)snprintf(text, sizeof(text), "{\n%s\n}", bad[i].member);
        assert_int_equal(read_text(f, text), MOONCAKE_EINVAL);
        assert_sentence_has(bad[i].name, "line 2", bad[i].allowed);
    }
}

static void option_file__bad_value_is_refused_with_its_line(void **state)
{
    static const struct {
        const char *member, *value, *allowed;
    } bad[] = {
        {"\"io_threads\": -1", "\"-1\"", "0 to 4294967295"},
        {"\"io_threads\": 65", "\"65\"", "1 to 64"},
        {"\"port\": 65536", "\"65536\"", "0 to 65535"},
        {"\"watermark\": 1.5", "\"1.5\"", "0 to 1"},
        {"\"watermark\": -0.5", "\"-0.5\"", "0 to 1"},
        {"\"segment-size\": 0", "\"0\"", "above 0"},
        {"\"segment_size\": \"many\"", "\"many\"", "4GiB"},
        {"\"lease\": -5", "\"-5\"", "10s"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < MC_ARRAY_LEN(bad); i++) {
        char text[128];

        fixture_teardown(state);
        fixture_setup(state);
        (void)snprintf(text, sizeof(text), "{\n\n%s}", bad[i].member);
        assert_int_equal(read_text(f, text), MOONCAKE_EINVAL);
        assert_sentence_has(bad[i].value, file_path, "line 3", bad[i].allowed);
    }
}

static void option_file__one_option_under_two_names_is_refused(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(read_text(f, "{\"rpc_port\": 1,\n\"port\": 2}"), MOONCAKE_EINVAL);
    assert_sentence_has("rpc_port", "twice", "line 2");
}

static void option_file__every_kind_is_taken(void **state)
{
    struct fixture *f = *state;
    char source[96];

    assert_int_equal(read_text(f, "{\"verbose\": true, \"io-threads\": 3, \"objects_max\": \"12\","
                                  "\"rpc_port\": 0, \"watermark\": 0.95,\n"
                                  "\"segment_size\": \"1.5 GiB\", \"lease\": 250, "
                                  "\"client_ttl\": 7, \"name\": \"\xc3\xb6\","
                                  "\"segment\": [\"a\", \"b\"]}"),
                     MOONCAKE_OK);
    (void)snprintf(source, sizeof(source), "file %s", file_path);
    assert_shown(f, "verbose", "true", source);
    assert_shown(f, "io_threads", "3", source);
    assert_shown(f, "objects_max", "12", source);
    assert_shown(f, "rpc_port", "0", source);
    assert_shown(f, "watermark", "0.95", source);
    assert_shown(f, "segment_size", "1536MiB", source);
    assert_shown(f, "lease", "250ms", source);
    assert_shown(f, "client_ttl", "7s", source);
    assert_shown(f, "name", "\xc3\xb6", source);
    assert_shown(f, "segment", "a,b", source);
}

static void option_file__environment_and_flag_beat_the_file(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(
        read_text(f, "{\"rpc_port\": 1, \"name\": \"file\", \"segment\": [\"a\", \"b\"]}"),
        MOONCAKE_OK);
    fixture_teardown(state);
    fixture_setup(state);
    (void)setenv("MOONCAKE_RPC_PORT", "2", 1);
    (void)setenv("MOONCAKE_NAME", "env", 1);
    (void)setenv("MOONCAKE_CONFIG_FILE", file_path, 1);
    assert_int_equal(READ(f, 0, "--name=flag", "--segment=c"), MOONCAKE_OK);
    assert_shown(f, "rpc_port", "2", "environment MOONCAKE_RPC_PORT");
    assert_shown(f, "name", "flag", "flag");
    assert_shown(f, "segment", "c", "flag");
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, fixture_setup, teardown)
    const struct CMUnitTest tests[] = {
        T(option_file__missing_file_is_named),
        T(option_file__what_is_no_regular_file_is_refused_at_once),
        T(option_file__larger_than_a_mebibyte_is_refused),
        T(option_file__broken_syntax_is_refused_with_its_line),
        T(option_file__other_than_an_object_is_refused),
        T(option_file__unknown_key_is_refused_with_line_and_nearest_name),
        T(option_file__wrong_type_is_refused_with_line_and_what_is_allowed),
        T(option_file__bad_value_is_refused_with_its_line),
        T(option_file__one_option_under_two_names_is_refused),
        T(option_file__every_kind_is_taken),
        T(option_file__environment_and_flag_beat_the_file),
    };
#undef T

    return cmocka_run_group_tests_name("option_file", tests, NULL, NULL);
}

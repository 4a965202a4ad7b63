/* Log lines. A sink catches them; windows are moved by hand, not waited for. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"

static unsigned lines_count;
static char last_line[2048];
static enum mc_log_level last_level;

static void take_line(void *arg, enum mc_log_level level, const char *line)
{
    (void)arg;
    lines_count++;
    last_level = level;
    (void)snprintf(last_line, sizeof(last_line), "%s", line);
}

static int setup(void **state)
{
    (void)state;
    lines_count = 0;
    last_line[0] = '\0';
    mc_log_set_level(MC_LOG_DEBUG);
    mc_log_set_sink(take_line, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mc_log_set_sink(NULL, NULL);
    mc_log_set_level(MC_LOG_WARN);
    return 0;
}

/* Make the site's window end now. */
static void end_window(struct mc_log_site *site)
{
    atomic_store(&site->window_start_ns, mc_monotonic_ns() - MC_NS_PER_S);
}

static void log__line_breaks_in_values_do_not_make_lines(void **state)
{
    (void)state;
    mc_log_warn("test.hostile", "key=%s", "a\nE fake.event x=1\r\x1b[2J\x7f end");
    assert_int_equal(lines_count, 1);
    assert_null(strpbrk(last_line, "\n\r\x1b\x7f"));
    assert_non_null(strstr(last_line, "key=a?E fake.event x=1??[2J? end"));
}

static void log__long_line_is_cut_and_still_says_what_was_left_out(void **state)
{
    struct mc_log_site site = {0};
    char text[5000];

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    for (int i = 0; i < 10; i++) {
        mc_log_write_(&site, MC_LOG_INFO, "test.long", "v=%s", text);
    }
    assert_int_equal(lines_count, 5);
    assert_true(strlen(last_line) < 1024);
    assert_true(strlen(last_line) > 900);
    end_window(&site);
    mc_log_write_(&site, MC_LOG_INFO, "test.long", "v=%s", text);
    assert_int_equal(lines_count, 6);
    assert_true(strlen(last_line) < 1024);
    assert_non_null(strstr(last_line, "xxx left_out=5"));
}

static void log__event_of_any_length_does_not_overrun(void **state)
{
    struct mc_log_site site = {0};
    char text[5000];

    (void)state;
    memset(text, 'e', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    mc_log_write_(&site, MC_LOG_INFO, text, "v=%d", 1);
    assert_non_null(strstr(last_line, "eee v=1"));
}

static void log__each_site_has_its_own_limit(void **state)
{
    struct mc_log_site first = {0};
    struct mc_log_site second = {0};

    (void)state;
    for (int i = 0; i < 100; i++) {
        mc_log_write_(&first, MC_LOG_INFO, "test.first", "i=%d", i);
    }
    assert_int_equal(lines_count, 5);
    mc_log_write_(&second, MC_LOG_INFO, "test.second", "i=%d", 1);
    assert_int_equal(lines_count, 6);
    end_window(&first);
    mc_log_write_(&first, MC_LOG_INFO, "test.first", "i=%d", 2);
    assert_int_equal(lines_count, 7);
    assert_non_null(strstr(last_line, "i=2 left_out=95"));
    mc_log_write_(&first, MC_LOG_INFO, "test.first", "i=%d", 3);
    assert_null(strstr(last_line, "left_out")); /* said once */
}

static void log__window_begun_by_another_thread_is_not_begun_again(void **state)
{
    struct mc_log_site site = {0};

    (void)state;
    for (int i = 0; i < 5; i++) {
        mc_log_write_(&site, MC_LOG_INFO, "test.race", "i=%d", i);
    }
    /* as this thread sees it when it asked for the time before the other began the window */
    atomic_store(&site.window_start_ns, mc_monotonic_ns() + MC_NS_PER_S);
    mc_log_write_(&site, MC_LOG_INFO, "test.race", "i=%d", 6);
    assert_int_equal(lines_count, 5);
}

static void *write_many(void *arg)
{
    for (int i = 0; i < 1000; i++) {
        mc_log_write_(arg, MC_LOG_INFO, "test.threads", "i=%d", i);
    }
    return NULL;
}

static void log__limit_holds_for_threads_together(void **state)
{
    struct mc_log_site site = {0};
    pthread_t threads[4];
    uint64_t start_ns = mc_monotonic_ns();

    (void)state;
    for (size_t i = 0; i < MC_ARRAY_LEN(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, write_many, &site), 0);
    }
    for (size_t i = 0; i < MC_ARRAY_LEN(threads); i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    /* 5 for each second that it took, one second begun, and one line a thread at each change */
    assert_true(lines_count <= ((mc_monotonic_ns() - start_ns) / MC_NS_PER_S + 1) * (5 + 4));
    assert_true(lines_count >= 5);
}

static void log__level_decides_what_is_printed(void **state)
{
    (void)state;
    mc_log_set_level(MC_LOG_WARN);
    mc_log_info("test.info", "x=%d", 1);
    mc_log_debug("test.debug", "x=%d", 1);
    assert_int_equal(lines_count, 0);
    mc_log_warn("test.warn", "x=%d", 1);
    assert_int_equal(last_level, MC_LOG_WARN);
    mc_log_error("test.error", "x=%d", 1);
    assert_int_equal(last_level, MC_LOG_ERROR);
    assert_int_equal(lines_count, 2);
    mc_log_set_level(MC_LOG_OFF);
    mc_log_error("test.error", "x=%d", 2);
    assert_int_equal(lines_count, 2);
}

static void log__line_has_time_level_event_and_pairs(void **state)
{
    (void)state;
    mc_log_warn("test.form", "peer=%s try=%d", "10.0.0.7:1", 3);
    /* 2026-03-01T12:00:00.123456Z W test.form peer=... */
    assert_int_equal(strspn(last_line, "0123456789-:.TZ"), 27);
    assert_int_equal(last_line[10], 'T');
    assert_int_equal(last_line[19], '.');
    assert_string_equal(last_line + 26, "Z W test.form peer=10.0.0.7:1 try=3");
}

static void log__line_goes_to_standard_error_with_one_write(void **state)
{
    int fds[2];
    int saved = dup(STDERR_FILENO);
    char text[2048] = {0};

    (void)state;
    assert_int_equal(pipe(fds), 0);
    assert_true(dup2(fds[1], STDERR_FILENO) >= 0);
    mc_log_set_sink(NULL, NULL);
    mc_log_warn("test.stderr", "x=%d", 1);
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    assert_true(read(fds[0], text, sizeof(text) - 1) > 0);
    assert_non_null(strstr(text, " W test.stderr x=1\n"));
    (void)close(fds[0]);
    (void)close(fds[1]);
    (void)close(saved);
}

static void log__level_names_are_read(void **state)
{
    (void)state;
    assert_int_equal(mc_log_level_from_text("error"), MC_LOG_ERROR);
    assert_int_equal(mc_log_level_from_text("debug"), MC_LOG_DEBUG);
    assert_int_equal(mc_log_level_from_text("off"), MC_LOG_OFF);
    assert_int_equal(mc_log_level_from_text(""), -2);
    assert_int_equal(mc_log_level_from_text("WARN"), -2);
    assert_int_equal(mc_log_level_from_text("warning"), -2);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(log__line_breaks_in_values_do_not_make_lines),
        T(log__long_line_is_cut_and_still_says_what_was_left_out),
        T(log__event_of_any_length_does_not_overrun),
        T(log__each_site_has_its_own_limit),
        T(log__window_begun_by_another_thread_is_not_begun_again),
        T(log__limit_holds_for_threads_together),
        T(log__level_decides_what_is_printed),
        T(log__line_has_time_level_event_and_pairs),
        T(log__line_goes_to_standard_error_with_one_write),
        T(log__level_names_are_read),
    };
#undef T

    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}

/* The file with a daemon's ports. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/port_file.h"

#define LINES "data_port=1\nadmin_port=2\n"

static char folder[64], path[80];

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof(folder), "/tmp/mc_port_file_XXXXXX");
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    (void)snprintf(path, sizeof(path), "%s/ports", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    (void)remove(path);
    return rmdir(folder); /* nothing else may be left in it */
}

static void expect_refused(const char *at, const char *words)
{
    assert_int_equal(mc_port_file_write(at, LINES), MOONCAKE_EINVAL);
    if (strstr(mooncake_last_error(), words) == NULL) {
        fail_msg("\"%s\" is not in: %s", words, mooncake_last_error());
    }
}

static void port_file__replaces_no_pipe_and_no_folder(void **state)
{
    struct stat there;

    (void)state;
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_refused(path, "no regular file");
    assert_int_equal(stat(path, &there), 0);
    assert_true(S_ISFIFO(there.st_mode));
    assert_int_equal(unlink(path), 0);
    expect_refused(folder, "no regular file");
}

static void port_file__in_a_folder_that_is_not_there_is_refused(void **state)
{
    char nowhere[100];

    (void)state;
    (void)snprintf(nowhere, sizeof(nowhere), "%s/none/ports", folder);
    expect_refused(nowhere, "cannot create");
}

static void port_file__replaces_a_file_and_leaves_nothing_beside_it(void **state)
{
    char lines[64] = "";
    FILE *file;

    (void)state;
    assert_int_equal(mc_port_file_write(path, "older and longer than what comes next\n"),
                     MOONCAKE_OK);
    assert_int_equal(mc_port_file_write(path, LINES), MOONCAKE_OK);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fread(lines, 1, sizeof(lines) - 1, file), strlen(LINES));
    assert_string_equal(lines, LINES);
    assert_int_equal(fclose(file), 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        T(port_file__replaces_no_pipe_and_no_folder),
        T(port_file__in_a_folder_that_is_not_there_is_refused),
        T(port_file__replaces_a_file_and_leaves_nothing_beside_it),
#undef T
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Writes two small lawful messages of each method and direction to FOLDER, as inputs for
 * tests/fuzz/fuzz_wire.c: make_wire_seeds FOLDER. The files are committed; run it again when the
 * messages change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "wire/walk.h"

static const char *folder;

static void write_seed(enum mc_method method, bool reply, unsigned number)
{
    const uint8_t choice = (uint8_t)((unsigned)method | (reply ? 0x80u : 0));
    struct mc_buf bytes;
    char path[512];
    FILE *file;

    mc_buf_init(&bytes);
    walk_make_small(method, reply, 1000 * number + (uint64_t)method, &bytes);
    (void)snprintf(path, sizeof(path), "%s/%s_%s_%u", folder, mc_method_name(method),
                   reply ? "reply" : "request", number);
    file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(&choice, 1, 1, file), 1);
    assert_int_equal(fwrite(mc_buf_bytes(&bytes), 1, mc_buf_len(&bytes), file), mc_buf_len(&bytes));
    assert_int_equal(fclose(file), 0);
    mc_buf_fini(&bytes);
}

static void write_all(void **state)
{
    unsigned turn;

    (void)state;
#define WRITE(number, NAME, name, request, reply)                                                  \
    for (turn = 1; turn <= 2; turn++) {                                                            \
        write_seed(MC_METHOD_##NAME, false, turn);                                                 \
        write_seed(MC_METHOD_##NAME, true, turn);                                                  \
    }
    MC_METHOD_LIST(WRITE)
#undef WRITE
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(write_all)};

    if (argc != 2) {
        (void)fprintf(stderr, "usage: make_wire_seeds FOLDER\n");
        return 2;
    }
    folder = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A program's options as the tests of `option` use them: one of each kind. */
#ifndef MC_TESTS_OPTION_FIXTURE_H
#define MC_TESTS_OPTION_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/option.h"

struct conf {
    bool verbose;
    uint32_t io_threads;
    uint64_t objects_max;
    uint16_t rpc_port;
    double watermark;
    uint64_t segment_size;
    uint64_t lease;
    uint64_t client_ttl;
    char *name;
    struct mc_option_texts segment;
};

static const struct mc_option conf_options[] = {
    MC_OPTION(struct conf, verbose, BOOL, "false", "say more"),
    MC_OPTION(struct conf, io_threads, U32, "2", "threads", .min = 1, .max = 64),
    MC_OPTION(struct conf, objects_max, U64, NULL, "objects"),
    MC_OPTION(struct conf, rpc_port, PORT, "50051", "port", .alias = "port"),
    MC_OPTION(struct conf, watermark, RATIO, "0.9", "ratio"),
    MC_OPTION(struct conf, segment_size, SIZE, "4GiB", "bytes", .min = 1 << 20,
              .max = (uint64_t)1 << 40),
    MC_OPTION(struct conf, lease, MS, "10s", "lease", .min = 1),
    MC_OPTION(struct conf, client_ttl, SECONDS, "10", "time to live"),
    MC_OPTION(struct conf, name, TEXT, NULL, "name"),
    MC_OPTION(struct conf, segment, TEXTS, NULL, "segments"),
};

struct fixture {
    struct conf conf;
    struct mc_options *options;
    int64_t live_before;
    int argc;
    char *argv[16];
};

static inline int fixture_setup(void **state)
{
    static struct fixture f;

    memset(&f, 0, sizeof(f));
    f.live_before = mc_mem_live_count();
    *state = &f;
    return mc_options_create("prog", conf_options, MC_ARRAY_LEN(conf_options), &f.conf,
                             &f.options) == MOONCAKE_OK
               ? 0
               : -1;
}

static inline int fixture_teardown(void **state)
{
    struct fixture *f = *state;

    mc_mem_fail_after(-1);
    mc_options_destroy(&f->options);
    (void)unsetenv("MOONCAKE_RPC_PORT");
    (void)unsetenv("MOONCAKE_PORT");
    (void)unsetenv("MOONCAKE_SEGMENT");
    (void)unsetenv("MOONCAKE_NAME");
    (void)unsetenv("MOONCAKE_CONFIG_FILE");
    return mc_mem_live_count() == f->live_before ? 0 : -1; /* everything was given back */
}

/* Read a command line of the words given, ending with NULL. */
static inline mooncake_err fixture_read(struct fixture *f, int words_max, const char *const *words)
{
    static char program[] = "prog";
    static char copies[16][4096];

    f->argc = 1;
    f->argv[0] = program;
    for (; *words != NULL; words++) {
        assert_true(f->argc < 15 && strlen(*words) < sizeof(copies[0]));
        memcpy(copies[f->argc], *words, strlen(*words) + 1);
        f->argv[f->argc] = copies[f->argc];
        f->argc++;
    }
    f->argv[f->argc] = NULL;
    mc_err_clear();
    return mc_options_read(f->options, &f->argc, f->argv, words_max);
}

#define READ(f, words_max, ...)                                                                    \
    fixture_read((f), (words_max), (const char *const[]){__VA_ARGS__, NULL})

/* The sentence must hold each of the parts given. */
static inline void fixture_sentence_has(const char *const *parts)
{
    for (; *parts != NULL; parts++) {
        if (strstr(mooncake_last_error(), *parts) == NULL) {
            fail_msg("\"%s\" lacks \"%s\"", mooncake_last_error(), *parts);
        }
    }
}

#define assert_sentence_has(...) fixture_sentence_has((const char *const[]){__VA_ARGS__, NULL})

/* Finds one option's value and source by mc_options_visit. */
struct fixture_seen {
    const char *name;
    char value[128], source[128], default_value[128], unit[16];
};

static inline void fixture_look(void *arg, const struct mc_option_view *view)
{
    struct fixture_seen *seen = arg;

    assert_true(view->help[0] != '\0');
    if (strcmp(view->name, seen->name) == 0) {
        (void)snprintf(seen->value, sizeof(seen->value), "%s", view->value);
        (void)snprintf(seen->source, sizeof(seen->source), "%s", view->source);
        (void)snprintf(seen->default_value, sizeof(seen->default_value), "%s", view->default_value);
        (void)snprintf(seen->unit, sizeof(seen->unit), "%s", view->unit);
    }
}

static inline void assert_shown(struct fixture *f, const char *name, const char *value,
                                const char *source)
{
    struct fixture_seen seen = {.name = name};

    mc_options_visit(f->options, fixture_look, &seen);
    assert_string_equal(seen.value, value);
    assert_string_equal(seen.source, source);
}

#endif

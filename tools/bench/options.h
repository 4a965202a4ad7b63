/*
 * The command line: one struct for all commands, one table of options for each. An option is
 * written --name=value or --name value, with - or _ in its name.
 */
#ifndef MC_BENCH_OPTIONS_H
#define MC_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MC_LIST_MAX 16

enum mc_exit {
    MC_EXIT_OK = 0,
    MC_EXIT_FAILED = 1, /* no pool, no memory, calls that failed */
    MC_EXIT_USAGE = 2,
    MC_EXIT_WRONG = 3, /* bytes that were read are not those that were put */
};

struct mc_list {
    uint64_t items[MC_LIST_MAX];
    size_t count;
};

struct mc_bench_options {
    /* of every command that talks to a pool */
    const char *master, *transport, *verify;
    uint64_t timeout_ms, seed, poll_us, tcp_connections, copy_threads;
    bool json, no_limits;
    /* replay */
    const char *trace, *prefix;
    uint64_t block_bytes, requests, conversations, system_prompts, turns, batch;
    struct mc_list capacity;
    bool offline, cleanup;
    /* io and meta */
    struct mc_list sizes, batches, pids;
    const char *ops;
    uint64_t threads, processes, working_set, get_percent, time_ms, keys, repeat;
};

enum mc_arg_kind {
    MC_ARG_FLAG,    /* bool */
    MC_ARG_TEXT,    /* const char *, borrowed from argv; NULL if there is none */
    MC_ARG_NUMBER,  /* uint64_t */
    MC_ARG_SIZE,    /* uint64_t bytes: 4096, 4KiB, 1.5GiB, 1MB */
    MC_ARG_TIME,    /* uint64_t milliseconds: 500ms, 2s, 1m */
    MC_ARG_NUMBERS, /* struct mc_list: 1,8,32 */
    MC_ARG_SIZES,   /* struct mc_list: 4KiB,1MiB */
};

struct mc_arg {
    const char *name; /* with - */
    enum mc_arg_kind kind;
    size_t offset;
    const char *default_text; /* NULL: zero, empty, NULL */
    const char *value_name;   /* for --help */
    const char *help;
    uint64_t min, max; /* of a number; both 0: any */
};

struct mc_command {
    const char *name, *summary, *about;
    const struct mc_arg *args; /* ends with a NULL name */
    bool pool;                 /* the options of a pool apply too */
    enum mc_exit (*run)(const struct mc_bench_options *options);
};

/**
 * Fill @p out with the defaults and then with argv[0 .. argc), which starts behind the command's
 * name. On a fault the sentence about it is on stderr.
 *
 * @param out_help  --help was asked for
 */
bool mc_args_parse(const struct mc_command *command, int argc, char **argv,
                   struct mc_bench_options *out, bool *out_help);
void mc_args_print_help(const struct mc_command *command);

/** "4KiB" to bytes; false: not a size, or beyond 64 bits. Exact for whole numbers. */
bool mc_parse_size(const char *text, size_t len, uint64_t *out);

#endif

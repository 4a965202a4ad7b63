/* mooncake_bench: commands and their options. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/close_stdout.h"
#include "chat.h"
#include "io.h"
#include "mooncake/client.h"
#include "options.h"
#include "peers.h"
#include "replay.h"
#include "report.h"
#include "rival.h"
#include "tally.h"

#define OPTION(field) offsetof(struct mc_bench_options, field)
#define END                                                                                        \
    {                                                                                              \
        NULL, MC_ARG_FLAG, 0, NULL, NULL, NULL, 0, 0                                               \
    }
#define TIB ((uint64_t)1 << 40)

static const struct mc_arg replay_args[] = {
    {"trace", MC_ARG_TEXT, OPTION(trace), NULL, "FILE",
     "JSON lines with \"hash_ids\"; without it a chat workload is made", 0, 0},
    {"block-bytes", MC_ARG_SIZE, OPTION(block_bytes), NULL, "SIZE",
     "bytes of a block [4KiB for a trace, 64KiB for chat]", 1, TIB},
    {"batch", MC_ARG_NUMBER, OPTION(batch), "128", "N", "blocks of one call at most", 1, 8192},
    {"capacity", MC_ARG_NUMBERS, OPTION(capacity), NULL, "N,...",
     "also give the exact LRU's hit ratio at so many blocks", 1, UINT32_MAX},
    {"offline", MC_ARG_FLAG, OPTION(offline), NULL, NULL, "the LRU model only: no pool", 0, 0},
    {"prefix", MC_ARG_TEXT, OPTION(prefix), NULL, "TEXT",
     "what keys start with [a new one each run]", 0, 0},
    {"cleanup", MC_ARG_FLAG, OPTION(cleanup), NULL, NULL, "remove the blocks at the end", 0, 0},
    {"requests", MC_ARG_NUMBER, OPTION(requests), "1000", "N", "chat: requests in all", 1,
     10000000},
    {"conversations", MC_ARG_NUMBER, OPTION(conversations), "64", "N",
     "chat: under way at the same time", 1, MC_CHAT_CONVERSATIONS_MAX},
    {"system-prompts", MC_ARG_NUMBER, OPTION(system_prompts), "8", "N",
     "chat: how many conversations share", 1, 100000},
    {"turns", MC_ARG_NUMBER, OPTION(turns), "6", "N", "chat: of a conversation on average", 1,
     10000},
    END,
};

static const struct mc_arg io_args[] = {
    {"sizes", MC_ARG_SIZES, OPTION(sizes), "4KiB,64KiB,1MiB", "SIZE,...", "bytes of a value", 0,
     TIB},
    {"batches", MC_ARG_NUMBERS, OPTION(batches), "1,32", "N,...",
     "keys of a call; 1 uses the single calls", 1, 8192},
    {"ops", MC_ARG_TEXT, OPTION(ops), "put,get", "OP,...", MC_IO_OP_WORDS, 0, 0},
    {"get-percent", MC_ARG_NUMBER, OPTION(get_percent), "67", "N", "share of gets in mix", 0, 100},
    {"threads", MC_ARG_NUMBER, OPTION(threads), "1", "N", "of each process, on one client", 1, 256},
    {"processes", MC_ARG_NUMBER, OPTION(processes), "1", "N", "each with a client of its own", 1,
     256},
    {"working-set", MC_ARG_SIZE, OPTION(working_set), "256MiB", "SIZE",
     "bytes that all workers keep in the pool", 1, 1024 * TIB},
    {"keys", MC_ARG_NUMBER, OPTION(keys), "2048", "N", "that each worker keeps in it at most", 1,
     100000000},
    {"time", MC_ARG_TIME, OPTION(time_ms), "1s", "TIME", "of each case", 1, 86400000},
    {"repeat", MC_ARG_NUMBER, OPTION(repeat), "1", "N",
     "run each case so often, and show the run with the median rate", 1, MC_REPEAT_MAX},
    {"pids", MC_ARG_NUMBERS, OPTION(pids), NULL, "PID,...",
     "master and stores of this machine, whose CPU time counts too", 1, INT32_MAX},
    END,
};

static const struct mc_arg meta_args[] = {
    {"batches", MC_ARG_NUMBERS, OPTION(batches), "1,512", "N,...",
     "keys of a call; 1 uses the single calls", 1, 8192},
    {"ops", MC_ARG_TEXT, OPTION(ops), "exist,miss,size,put,get,remove", "OP,...", MC_IO_OP_WORDS, 0,
     0},
    {"keys", MC_ARG_NUMBER, OPTION(keys), "8192", "N", "that each worker keeps in the pool", 1,
     100000000},
    {"sizes", MC_ARG_SIZES, OPTION(sizes), "0", "SIZE,...", "bytes of a value", 0, TIB},
    {"get-percent", MC_ARG_NUMBER, OPTION(get_percent), "67", "N", "share of gets in mix", 0, 100},
    {"threads", MC_ARG_NUMBER, OPTION(threads), "1", "N", "of each process, on one client", 1, 256},
    {"processes", MC_ARG_NUMBER, OPTION(processes), "1", "N", "each with a client of its own", 1,
     256},
    {"working-set", MC_ARG_SIZE, OPTION(working_set), "256MiB", "SIZE",
     "bytes that all workers keep in the pool, if values are not empty", 1, 1024 * TIB},
    {"time", MC_ARG_TIME, OPTION(time_ms), "1s", "TIME", "of each case", 1, 86400000},
    {"repeat", MC_ARG_NUMBER, OPTION(repeat), "1", "N",
     "run each case so often, and show the run with the median rate", 1, MC_REPEAT_MAX},
    {"pids", MC_ARG_NUMBERS, OPTION(pids), NULL, "PID,...",
     "master and stores of this machine, whose CPU time counts too", 1, INT32_MAX},
    END,
};

static const struct mc_arg peers_args[] = {
    {"sizes", MC_ARG_SIZES, OPTION(sizes), "4KiB,64KiB,1MiB", "SIZE,...", "bytes of a value", 1,
     MC_RIVAL_VALUE_LEN_MAX},
    {"batches", MC_ARG_NUMBERS, OPTION(batches), "1,32,128", "N,...",
     "keys of a call, or requests in flight", 1, MC_RIVAL_KEYS_MAX},
    {"working-set", MC_ARG_SIZE, OPTION(working_set), "256MiB", "SIZE", "bytes that each keeps", 1,
     TIB},
    {"keys", MC_ARG_NUMBER, OPTION(keys), "2048", "N", "that each keeps at most", 1, 100000000},
    {"time", MC_ARG_TIME, OPTION(time_ms), "1s", "TIME", "of each case and each peer", 1, 86400000},
    {"repeat", MC_ARG_NUMBER, OPTION(repeat), "1", "N",
     "run each case so often, all peers in turn, and show each one's median rate", 1,
     MC_REPEAT_MAX},
    {"threads", MC_ARG_NUMBER, OPTION(threads), "1", "N", "always 1 here", 1, 1},
    {"processes", MC_ARG_NUMBER, OPTION(processes), "1", "N", "always 1 here", 1, 1},
    END,
};

static const struct mc_arg limits_args[] = {
    {"json", MC_ARG_FLAG, OPTION(json), NULL, NULL, "print one JSON object", 0, 0},
    END,
};

static enum mc_exit limits_run(const struct mc_bench_options *options)
{
    struct mc_limits limits;

    mc_report_measure_limits(options, &limits);
    if (!limits.measured) {
        return MC_EXIT_FAILED;
    }
    if (options->json) {
        mc_json_print(mc_json_limits(&limits));
    } else {
        mc_report_limits(&limits);
    }
    return MC_EXIT_OK;
}

static const struct mc_command commands[] = {
    {"replay", "multi-turn chat against a pool, as an inference engine does it",
     "For each request: batch_exist on the prompt's blocks, batch_get_into of the unbroken\n"
     "prefix that is there, with every byte compared, then batch_put of the rest. Hits are\n"
     "blocks of that prefix. Requests go one after another, so that the hit ratio can be set\n"
     "beside that of an exact LRU cache of the pool's size. Rates count time inside calls.",
     replay_args, true, mc_replay_run},
    {"io", "put and get in a loop, for each size and batch, every byte compared",
     "Each case runs for --time on --processes times --threads workers. Rates and latencies\n"
     "count the time inside the calls; making and comparing data is outside. Columns with an x\n"
     "are over limits of the machine that were measured just before and after: the rate over one\n"
     "thread's copy with checksum (\"x copy\"), over a raw loopback TCP stream (\"x stream\"), "
     "and\n"
     "over one of two connections (\"x two\"; a client may have --tcp-connections); the median\n"
     "over a raw 1-byte TCP round trip between two processors whose ends sleep (\"x trip\"), and,\n"
     "for gets of 1 MiB one at a time, over a raw request for 1 MiB and one trip (\"x ask\"). "
     "Puts\n"
     "go to space that was used before: the first use of memory is the kernel's time. What was\n"
     "put is removed again.\n"
     "\"CPU s/GiB\" is the callers' CPU time inside the calls and that of --pids meanwhile.",
     io_args, true, mc_io_run},
    {"meta", "calls that move no bytes: exist, size, and put, get and remove of empty values",
     "As io, with empty values and larger batches.", meta_args, true, mc_meta_run},
    {"peers", "put and get beside Redis and memcached, in the same run",
     "For each case the pool is measured with all its transports and with TCP alone, then\n"
     "redis-server and memcached, as far as they are installed, over TCP and Unix sockets, by a\n"
     "pipelining client of this program; every byte that is read is compared. They are started\n"
     "for it and gone after it. \"tcp x\" is this pool's TCP over the better rival's.",
     peers_args, true, mc_peers_run},
    {"limits", "what this machine can do at all: memory, checksum, loopback TCP",
     "Takes about four seconds and 320 MiB.", limits_args, false, limits_run},
};
#define COMMANDS_COUNT (sizeof(commands) / sizeof(commands[0]))

static void print_usage(FILE *to)
{
    (void)fprintf(to, "usage: mooncake_bench COMMAND [OPTIONS]\n\n");
    for (size_t i = 0; i < COMMANDS_COUNT; i++) {
        (void)fprintf(to, "  %-8s %s\n", commands[i].name, commands[i].summary);
    }
    (void)fprintf(to, "\nmooncake_bench COMMAND --help lists its options. Exit status: 0 fine, "
                      "1 failed calls,\n2 wrong usage, 3 wrong bytes.\n");
}

static const struct mc_command *find(const char *name)
{
    for (size_t i = 0; i < COMMANDS_COUNT; i++) {
        if (strcmp(commands[i].name, name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
}

static enum mc_exit fail_command(const char *name)
{
    (void)fprintf(stderr, "mooncake_bench: there is no command \"%.80s\"\n\n", name);
    print_usage(stderr);
    return MC_EXIT_USAGE;
}

/* `help` alone, or of one command. */
static enum mc_exit help_run(const char *name)
{
    const struct mc_command *command = name == NULL ? NULL : find(name);

    if (name == NULL) {
        print_usage(stdout);
        return MC_EXIT_OK;
    }
    if (command == NULL) {
        return fail_command(name);
    }
    mc_args_print_help(command);
    return MC_EXIT_OK;
}

static enum mc_exit run(int argc, char **argv)
{
    static struct mc_bench_options options;
    const struct mc_command *command;
    bool help;

    if (argc < 2) {
        print_usage(stderr);
        return MC_EXIT_USAGE;
    }
    if (is_help(argv[1])) {
        return help_run(argc > 2 ? argv[2] : NULL);
    }
    if (strcmp(argv[1], "--version") == 0) {
        (void)printf("mooncake_bench %s\n", mooncake_version());
        return MC_EXIT_OK;
    }
    command = find(argv[1]);
    if (command == NULL) {
        return fail_command(argv[1]);
    }
    if (!mc_args_parse(command, argc - 2, argv + 2, &options, &help)) {
        return MC_EXIT_USAGE;
    }
    if (help) {
        mc_args_print_help(command);
        return MC_EXIT_OK;
    }
    return command->run(&options);
}

int main(int argc, char **argv)
{
    (void)signal(SIGPIPE, SIG_IGN);
    return mc_close_stdout("mooncake_bench", (int)run(argc, argv), MC_EXIT_FAILED);
}

/* The list of commands, and the help that is made of it. */
#include <stdio.h>
#include <string.h>

#include "args.h"
#include "bench.h"
#include "completion.h"
#include "output.h"

#define KEYS_MAX 1000000 /* words; the kernel's limit comes sooner */

static const struct mc_command commands[] = {
    {"put", "KEY FILE|-", "store a file's bytes, or those of the standard input, under a key",
     "A key that exists keeps its value, and the exit status is 1; unless --upsert is given: then\n"
     "readers see the old value or the new one, each whole.",
     2, 2,
     MC_OPTION_BIT(MC_CTL_REPLICAS) | MC_OPTION_BIT(MC_CTL_SOFT_PIN) |
         MC_OPTION_BIT(MC_CTL_HARD_PIN) | MC_OPTION_BIT(MC_CTL_UPSERT),
     true, mc_cmd_put, mc_check_key},
    {"get", "KEY [FILE|-]", "write a key's value to a file, or to the standard output",
     "FILE appears whole or not at all; a file of that name is replaced at once.", 1, 2, 0, true,
     mc_cmd_get, mc_check_key},
    {"exist", "KEY...", "say whether keys can be read",
     "A key that exists is protected for a lease (10 s unless the master was told otherwise).\n"
     "Exit status 0: all exist; 1: some do not.",
     1, KEYS_MAX, 0, true, mc_cmd_exist, mc_check_keys},
    {"rm", "[KEY...]", "remove keys, or those with a --pattern, or --all",
     "Without --force a key that somebody reads (lease) stays, with an error, or counted with\n"
     "--pattern and --all. A pattern is a PCRE2 regular expression; ^ and $ anchor it.",
     0, KEYS_MAX,
     MC_OPTION_BIT(MC_CTL_FORCE) | MC_OPTION_BIT(MC_CTL_ALL) | MC_OPTION_BIT(MC_CTL_PATTERN), true,
     mc_cmd_rm, mc_check_rm},
    {"ls", "[REGEX]", "list the keys, or those with a pattern, in no order",
     "One key a line; control bytes and bytes that are not UTF-8 are shown as \\xNN, a backslash\n"
     "as two. With --null the raw keys. In JSON a key that is not UTF-8 is {\"hex\": \"...\"}.",
     0, 1, MC_OPTION_BIT(MC_CTL_LIMIT) | MC_OPTION_BIT(MC_CTL_NULL_ENDS), true, mc_cmd_ls,
     mc_check_ls},
    {"key", "KEY", "show one key: state, length, lease, and where its copies are",
     "Grants no lease. An unfinished put is shown as \"writing\".", 1, 1, 0, true, mc_cmd_key,
     mc_check_key},
    {"status", "", "show the pool: capacity, keys, members, hit ratio, evictions", NULL, 0, 0, 0,
     true, mc_cmd_status, NULL},
    {"segments", "", "list the memory that stores lend", NULL, 0, 0, 0, true, mc_cmd_segments,
     NULL},
    {"stores", "", "list the processes that lend memory: address, version, last ping, state",
     "States: ok; draining: leaving, takes nothing new; suspect: silent, or clients cannot reach\n"
     "it; gone: lost, what it held is being forgotten.",
     0, 0, 0, true, mc_cmd_stores, NULL},
    {"clients", "", "list the processes that the master knows, stores included", NULL, 0, 0, 0,
     true, mc_cmd_clients, NULL},
    {"why-full", "", "show what keeps the pool's bytes from new objects, segment by segment",
     "Bytes by what must happen first; the next lease to end; the segments with the least room\n"
     "(free or evictable); and those where nothing new is placed, with the reason. BUSY is being\n"
     "written, or left by a lost writer until a time has passed.",
     0, 0, MC_OPTION_BIT(MC_CTL_LIMIT), true, mc_cmd_why_full, NULL},
    {"why-miss", "KEY",
     "say what became of a key: evicted, removed, lost with which store, never put",
     "Exit status 0: it can be read; 1: it cannot. The master remembers the last keys that went\n"
     "(its option miss_history), since it was started.",
     1, 1, 0, true, mc_cmd_why_miss, mc_check_key},
    {"check", "", "put, get and remove a probe on every segment, with the time of each",
     "Probes are 64 KiB under keys that begin with mooncakectl/check/. Segments that are draining\n"
     "are not tried. --timeout is for each step (5 s). Exit status 0: all well; 1: some failed.",
     0, 0, 0, true, mc_cmd_check, NULL},
    {"peers", "", "show how this host reaches each store: transport, RDMA device, fall-backs",
     "Puts and gets a small probe on every segment to find out. Exit status as of check.", 0, 0, 0,
     true, mc_cmd_peers, NULL},
    {"top", "", "watch the pool: hit ratio, gets, puts, evictions a second, bytes, per segment",
     "Drawn anew each second on a terminal; else, and with --json, one line each time.", 0, 0,
     MC_OPTION_BIT(MC_CTL_COUNT) | MC_OPTION_BIT(MC_CTL_INTERVAL), true, mc_cmd_top, NULL},
    {"diag", "[FILE]", "write one archive of what is needed to help from afar",
     "Versions, configuration, status, segments, members, space, counters (/metrics), and with\n"
     "--log the last lines of a log. No values, no secrets; keys in the log become hashes.\n"
     "FILE is mooncake-diag.tar.gz unless given. Works also when the pool is out of reach.",
     0, 1, MC_OPTION_BIT(MC_CTL_LOG) | MC_OPTION_BIT(MC_CTL_METRICS), false, mc_cmd_diag, NULL},
    {"drain", "STORE", "place nothing new on a store, wait for its readers, say what only it has",
     "STORE is an id, an address or the name of a segment, as stores and segments show them.\n"
     "What it holds stays readable until the store leaves; keys without another copy are lost\n"
     "then. It ends when no lease is left, with 0, or after --timeout (10 min) with 1: the store\n"
     "stays draining. Ctrl-C cancels, and so does --cancel later. Forgotten when the master\n"
     "restarts: drain again. Then stop the store with SIGTERM.",
     1, 1, MC_OPTION_BIT(MC_CTL_CANCEL) | MC_OPTION_BIT(MC_CTL_LIMIT), true, mc_cmd_drain, NULL},
    {"verify", "", "recount everything on the master and compare its gauges",
     "Exit status 0: they agree; 1: they do not. It goes in slices of 2 ms beside the others'\n"
     "requests: the more keys there are, the longer.",
     0, 0, 0, true, mc_cmd_verify, NULL},
    {"config", "", "show the master's effective configuration and where each value comes from",
     "UNIT is that of a number without one.", 0, 0, 0, true, mc_cmd_config, NULL},
    {"bench", "[ARG...]", "measure: becomes mooncake_bench with the arguments that follow",
     "Every word after bench is mooncake_bench's: mooncakectl bench --help lists them.\n"
     "--master before it holds for it too.",
     0, KEYS_MAX, 0, false, mc_cmd_bench, NULL},
    {"completion", "bash", "print a script that completes these commands in a shell",
     "Load it with: source <(mooncakectl completion bash). Installed with the packages.", 1, 1, 0,
     false, mc_cmd_completion, NULL},
    {"version", "", "print the version of this program and of its library", NULL, 0, 0, 0, false,
     mc_cmd_version, NULL},
    {"help", "[COMMAND]", "say what there is, or what a command does", NULL, 0, 1, 0, false,
     mc_cmd_help, NULL},
};

static const struct {
    const char *name, *value, *help;
} options[MC_CTL_OPTIONS_COUNT] = {
#define ENTRY(name, text, value, help) {text, value, help},
    MC_CTL_OPTION_LIST(ENTRY)
#undef ENTRY
};

const struct mc_command *mc_command_at(size_t i)
{
    return i < sizeof(commands) / sizeof(commands[0]) ? &commands[i] : NULL;
}

const struct mc_command *mc_command_find(const char *name)
{
    for (size_t i = 0; mc_command_at(i) != NULL; i++) {
        if (strcmp(name, commands[i].name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

static void print_option(size_t i)
{
    char text[64];

    (void)snprintf(text, sizeof(text), "--%s%s%s", options[i].name,
                   options[i].value != NULL ? "=" : "",
                   options[i].value != NULL ? options[i].value : "");
    (void)printf("  %-20s %s\n", text, options[i].help);
}

static void print_help(const struct mc_command *command)
{
    if (command != NULL) {
        (void)printf("mooncakectl %s%s%s\n\n%s.\n", command->name,
                     command->synopsis[0] != '\0' ? " " : "", command->synopsis, command->summary);
        if (command->details != NULL) {
            (void)printf("%s\n", command->details);
        }
        if (command->options != 0) {
            (void)printf("\nOptions beside --master, --timeout and --json:\n");
        }
        for (size_t i = 0; i < MC_CTL_OPTIONS_COUNT; i++) {
            if ((command->options & MC_OPTION_BIT(i)) != 0) {
                print_option(i);
            }
        }
        return;
    }
    (void)printf("mooncakectl [OPTION...] COMMAND [WORD...]: ask a Mooncake pool, and act on it.\n"
                 "\nCommands:\n");
    for (size_t i = 0; mc_command_at(i) != NULL; i++) {
        char text[64];

        (void)snprintf(text, sizeof(text), "%s %s", commands[i].name, commands[i].synopsis);
        (void)printf("  %-20s %s\n", text, commands[i].summary);
    }
    (void)printf("\nOptions, anywhere on the line; -- ends them:\n");
    for (size_t i = 0; i <= MC_CTL_VERSION; i++) {
        print_option(i);
    }
    (void)printf(
        "\nExit status:\n"
        "  0  success\n"
        "  1  the answer is no: no such key, put found the key stored already, a check failed\n"
        "  2  the command line or the key is wrong\n"
        "  3  the master or a store cannot be reached, or did not answer in time\n"
        "  4  any other failure; the message says which\n"
        "With --json a failure is also told as {\"error\": ...} on the standard output.\n");
}

enum mc_exit mc_cmd_help(struct mc_ctl *ctl)
{
    const struct mc_command *command = NULL;

    if (ctl->topic != NULL) {
        command = mc_command_find(ctl->topic);
        if (command == NULL) {
            return mc_fail_command(ctl, ctl->topic);
        }
    }
    if (ctl->json) {
        json_t *list = mc_json_object();

        for (size_t i = 0; mc_command_at(i) != NULL; i++) {
            mc_json_set(list, commands[i].name, json_string(commands[i].summary));
        }
        mc_json_print_field("commands", list);
        return MC_EXIT_OK;
    }
    print_help(command);
    return MC_EXIT_OK;
}

enum mc_exit mc_cmd_bench(struct mc_ctl *ctl)
{
    return mc_bench_exec(ctl, ctl->words);
}

enum mc_exit mc_cmd_version(struct mc_ctl *ctl)
{
    if (ctl->json) {
        json_t *object = mc_json_object();

        mc_json_set(object, "mooncakectl", json_string(MC_VERSION));
        mc_json_set(object, "library", json_string(mooncake_version()));
        mc_json_print(object);
        return MC_EXIT_OK;
    }
    (void)printf("mooncakectl %s (library %s)\n", MC_VERSION, mooncake_version());
    return MC_EXIT_OK;
}

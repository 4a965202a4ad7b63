/* The command line: options, commands, what each takes, and the help that is made of it. */
#ifndef MC_CTL_ARGS_H
#define MC_CTL_ARGS_H

#include "ctl.h"

/** One command. The table of them is in commands.c. */
struct mc_command {
    const char *name;
    const char *synopsis; /* what follows the name */
    const char *summary;  /* one line, without a period */
    const char *details;  /* paragraphs for its own help */
    size_t words_min, words_max;
    unsigned options; /* mc_option_bit()s beyond those that every command takes */
    bool needs_pool;
    enum mc_exit (*run)(struct mc_ctl *ctl);
    /* What is wrong with the words, beyond their number and options, before any pool is asked;
     * NULL: nothing can be. */
    enum mc_exit (*check)(const struct mc_ctl *ctl);
};

/* X(NAME, long name, value or NULL, help) */
#define MC_CTL_OPTION_LIST(X)                                                                      \
    X(MASTER, "master", "HOST:PORT", "RPC address of the master; or MOONCAKE_MASTER")              \
    X(CONFIG_PATH, "config-path", "FILE",                                                          \
      "file with that address; or ~/.config/mooncake/ctl.json")                                    \
    X(TIMEOUT, "timeout", "TIME", "longest time for the command: 500ms, 10s, 2m")                  \
    X(JSON, "json", NULL, "print JSON, with exact numbers")                                        \
    X(HELP, "help", NULL, "say what there is, or what a command does")                             \
    X(VERSION, "version", NULL, "print the version")                                               \
    X(FORCE, "force", NULL, "also what is under a lease or pinned")                                \
    X(ALL, "all", NULL, "every key of the pool")                                                   \
    X(PATTERN, "pattern", "REGEX", "every key in which this regular expression is found")          \
    X(LIMIT, "limit", "N", "at most N keys or segments")                                           \
    X(NULL_ENDS, "null", NULL, "raw keys, each ended by a NUL byte, for xargs -0")                 \
    X(REPLICAS, "replicas", "N", "copies wished, 1 to 8")                                          \
    X(SOFT_PIN, "soft-pin", NULL, "evict only when nothing else can be")                           \
    X(HARD_PIN, "hard-pin", NULL, "never evict")                                                   \
    X(COUNT, "count", "N", "end after N lines")                                                    \
    X(INTERVAL, "interval", "TIME", "time between two lines: 500ms, 1s")                           \
    X(LOG, "log", "FILE", "log of a master or store: its last lines go in, without keys")          \
    X(METRICS, "metrics", "HOST:PORT", "admin port of the master, if it is not as configured")     \
    X(CANCEL, "cancel", NULL, "undo it: place new data on the store again")                        \
    X(UPSERT, "upsert", NULL, "replace the value of a key that exists")

enum mc_ctl_option {
#define MC_CTL_OPTION_ENUM_(name, text, value, help) MC_CTL_##name,
    MC_CTL_OPTION_LIST(MC_CTL_OPTION_ENUM_)
#undef MC_CTL_OPTION_ENUM_
        MC_CTL_OPTIONS_COUNT
};

#define MC_OPTION_BIT(option) (1u << (option))

/* What every command takes. */
#define MC_COMMON_OPTIONS                                                                          \
    (MC_OPTION_BIT(MC_CTL_MASTER) | MC_OPTION_BIT(MC_CTL_CONFIG_PATH) |                            \
     MC_OPTION_BIT(MC_CTL_TIMEOUT) | MC_OPTION_BIT(MC_CTL_JSON) | MC_OPTION_BIT(MC_CTL_HELP) |     \
     MC_OPTION_BIT(MC_CTL_VERSION))

const char *mc_option_name(size_t option);
bool mc_option_takes_value(size_t option);

/**
 * Parse the command line. Options may stand anywhere; "--" ends them; a "_" in a name is a "-".
 *
 * @param argv         words are moved to its front; out_ctl points into it
 * @param out_command  what to run
 * @return MC_EXIT_OK, or MC_EXIT_USAGE when the fault has been told
 */
enum mc_exit mc_args_parse(int argc, char **argv, struct mc_ctl *out_ctl,
                           const struct mc_command **out_command);

/** The command of that name, or NULL. */
const struct mc_command *mc_command_find(const char *name);
/** The i-th command, or NULL after the last. */
const struct mc_command *mc_command_at(size_t i);

/** Tell that there is no such command. */
enum mc_exit mc_fail_command(const struct mc_ctl *ctl, const char *name);

#endif

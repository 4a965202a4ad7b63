/*
 * What the files of mooncakectl share: the parsed command line, the exit statuses, the commands,
 * and how a failure is told.
 */
#ifndef MC_CTL_CTL_H
#define MC_CTL_CTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mooncake/admin.h"

/* Exit status of the program. The values are a promise to scripts: see --help. */
enum mc_exit {
    MC_EXIT_OK = 0,
    MC_EXIT_NO = 1,          /* the answer is no: no such key, or the key exists already */
    MC_EXIT_USAGE = 2,       /* the command line is wrong */
    MC_EXIT_UNREACHABLE = 3, /* master or store cannot be reached, or did not answer in time */
    MC_EXIT_FAILED = 4,      /* anything else */
};

/* The command line, parsed. Texts are argv's. */
struct mc_ctl {
    const char *master;        /* NULL: the library's default */
    const char *master_source; /* where it comes from, for sentences */
    const char *config_path;   /* file to look for it; NULL: the usual ones */
    uint32_t timeout_ms;       /* 0: the library's default */
    uint64_t limit;            /* keys that ls shows at most; 0: all */
    uint64_t count;            /* of top's lines; 0: no end */
    uint32_t interval_ms;      /* between them; 0: a second */
    const char *log;           /* file whose last lines diag takes; NULL: none */
    const char *metrics; /* HOST:PORT of the master's admin port; NULL: as its configuration says */
    uint32_t replicas;   /* copies that put asks for; 0: the library's default */
    bool json, force, all, null_ends, soft_pin, hard_pin, upsert, cancel;
    const char *pattern; /* of the keys that rm removes; NULL: none */
    const char *topic;   /* the command, or what help was asked about; NULL: none */
    char **words;        /* what follows the command */
    size_t words_count;
    mooncake_client *client; /* owned by main.c; NULL for commands that need no pool */
};

enum mc_exit mc_cmd_put(struct mc_ctl *ctl);
enum mc_exit mc_cmd_get(struct mc_ctl *ctl);
enum mc_exit mc_cmd_exist(struct mc_ctl *ctl);
enum mc_exit mc_cmd_rm(struct mc_ctl *ctl);
enum mc_exit mc_cmd_key(struct mc_ctl *ctl);
enum mc_exit mc_cmd_ls(struct mc_ctl *ctl);
enum mc_exit mc_cmd_status(struct mc_ctl *ctl);
enum mc_exit mc_cmd_segments(struct mc_ctl *ctl);
enum mc_exit mc_cmd_stores(struct mc_ctl *ctl);
enum mc_exit mc_cmd_clients(struct mc_ctl *ctl);
enum mc_exit mc_cmd_why_miss(struct mc_ctl *ctl);
enum mc_exit mc_cmd_check(struct mc_ctl *ctl);
enum mc_exit mc_cmd_peers(struct mc_ctl *ctl);
enum mc_exit mc_cmd_top(struct mc_ctl *ctl);
enum mc_exit mc_cmd_diag(struct mc_ctl *ctl);
enum mc_exit mc_cmd_drain(struct mc_ctl *ctl);
enum mc_exit mc_cmd_why_full(struct mc_ctl *ctl);
enum mc_exit mc_cmd_verify(struct mc_ctl *ctl);
enum mc_exit mc_cmd_config(struct mc_ctl *ctl);
enum mc_exit mc_cmd_bench(struct mc_ctl *ctl);
enum mc_exit mc_cmd_version(struct mc_ctl *ctl);
enum mc_exit mc_cmd_help(struct mc_ctl *ctl);

/* Wrong usage is told before a pool is asked: the first word, each word, and what a command refuses
 * beside that. */
enum mc_exit mc_check_key(const struct mc_ctl *ctl);
enum mc_exit mc_check_keys(const struct mc_ctl *ctl);
enum mc_exit mc_check_rm(const struct mc_ctl *ctl);
enum mc_exit mc_check_ls(const struct mc_ctl *ctl);

/** The exit status that says @p err. */
enum mc_exit mc_exit_of(mooncake_err err);

/**
 * Tell that a call of the library failed: what we wanted (printf), the library's sentence, the
 * error's name and number. To stderr, and under --json also as an object on stdout.
 *
 * @return the exit status for @p err
 */
enum mc_exit mc_fail(const struct mc_ctl *ctl, mooncake_err err, const char *want, ...)
    __attribute__((format(printf, 3, 4)));

/** Tell a fault that is not the library's, in the same two places. Returns @p status. */
enum mc_exit mc_fail_plain(const struct mc_ctl *ctl, enum mc_exit status, const char *text, ...)
    __attribute__((format(printf, 3, 4)));

/** Memory or the end of the program: a tool has nothing better to do. Free with free(). */
void *mc_need(void *ptr);

#endif

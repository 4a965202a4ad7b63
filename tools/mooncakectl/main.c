/*
 * mooncakectl: operators ask a pool, and act on it. Stands on the public headers only, so that it
 * tests them. Read this first, then commands.c for what there is.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "args.h"
#include "base/close_stdout.h"
#include "config.h"
#include "output.h"

#define TELL_AFTER_MS 1000u

static uint64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* What to look at first, where the library's sentence does not say so already. */
static const char *what_first(const char *detail)
{
    if (strstr(detail, "cannot resolve") != NULL) {
        return "that host's name is not known here: is it mistyped? ";
    }
    if (strstr(detail, "Connection refused") != NULL) {
        return "nothing listens there: the master is down, or its RPC port is another one (50051 "
               "unless it was changed). ";
    }
    if (strstr(detail, "accepted the connection but said nothing") != NULL) {
        return "look on that host: \"ss -ltnp\" shows which process listens there, and state T in "
               "\"ps\" that it is stopped (kill -CONT lets it go on). ";
    }
    return "";
}

/* Somebody who waits is told so after a second, if it is a person. */
struct patience {
    const struct mc_ctl *ctl;
    const char *address;
    uint32_t most_ms;
    uint64_t since_ms;
    bool told;
};

static bool wait_on(void *arg)
{
    struct patience *patience = arg;
    char most[MC_NUMBER_CAP];

    if (!patience->told && now_ms() - patience->since_ms >= TELL_AFTER_MS) {
        patience->told = true;
        mc_print_text(stderr, "mooncakectl: waiting for the master at ");
        mc_print_text(stderr, patience->address);
        (void)fprintf(stderr, " (address from %s), at most %s in all; Ctrl-C ends it\n",
                      patience->ctl->master_source, mc_format_duration(patience->most_ms, most));
    }
    return false; /* it is not we who end it */
}

static enum mc_exit open_pool(struct mc_ctl *ctl)
{
    mooncake_client_options options;
    struct patience patience = {.ctl = ctl, .since_ms = now_ms()};
    mooncake_err err;

    mooncake_client_options_init(&options);
    options.master = ctl->master;
    options.program = "mooncakectl " MC_VERSION;
    options.tool = true;
    options.engines_max = 2; /* the progress of a removal is asked for beside it */
    if (ctl->timeout_ms != 0) {
        options.timeout_ms = ctl->timeout_ms;
        /* It ends before the whole does, because it knows what was wrong with the connection. */
        if (options.connect_timeout_ms > ctl->timeout_ms - ctl->timeout_ms / 4) {
            options.connect_timeout_ms = ctl->timeout_ms - ctl->timeout_ms / 4;
        }
    }
    patience.address = options.master != NULL ? options.master : "127.0.0.1:50051";
    patience.most_ms = options.connect_timeout_ms;
    if (isatty(STDERR_FILENO) == 1) {
        mooncake_set_interrupt(wait_on, &patience);
    }
    err = mooncake_client_open(&options, &ctl->client);
    mooncake_set_interrupt(NULL, NULL);
    if (err == MOONCAKE_OK) {
        return MC_EXIT_OK;
    }
    if (err == MOONCAKE_EINVAL) {
        (void)mc_fail(ctl, err, "cannot open the pool (address from %s)", ctl->master_source);
        return MC_EXIT_USAGE; /* an address that is none */
    }
    (void)mc_fail(ctl, err, "cannot reach the pool (address from %s)", ctl->master_source);
    (void)fprintf(stderr,
                  "mooncakectl: %sName another address with --master=HOST:PORT, MOONCAKE_MASTER or "
                  "a file: mooncakectl help\n",
                  what_first(mooncake_last_error()));
    return mc_exit_of(err);
}

int main(int argc, char **argv)
{
    struct mc_ctl ctl = {.master = NULL};
    const struct mc_command *command = NULL;
    enum mc_exit status;

    (void)signal(SIGPIPE, SIG_IGN);
    status = mc_args_parse(argc, argv, &ctl, &command);
    if (status == MC_EXIT_OK &&
        (command->needs_pool || command->run == mc_cmd_diag || command->run == mc_cmd_bench)) {
        status = mc_config_find_master(&ctl);
    }
    if (status == MC_EXIT_OK && command->needs_pool) {
        status = open_pool(&ctl);
    }
    if (status == MC_EXIT_OK) {
        status = command->run(&ctl);
    }
    mooncake_client_close(ctl.client);
    mc_json_finish();
    return mc_close_stdout("mooncakectl", (int)status, MC_EXIT_FAILED);
}

/*
 * mooncakectl: operators ask a pool, and act on it. Stands on the public headers only, so that it
 * tests them. Read this first, then commands.c for what there is.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "args.h"
#include "base/close_stdout.h"
#include "config.h"
#include "output.h"

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
    return "";
}

static enum mc_exit open_pool(struct mc_ctl *ctl)
{
    mooncake_client_options options;
    mooncake_err err;

    mooncake_client_options_init(&options);
    options.master = ctl->master;
    options.program = "mooncakectl " MC_VERSION;
    options.tool = true;
    options.engines_max = 1;
    if (ctl->timeout_ms != 0) {
        options.timeout_ms = ctl->timeout_ms;
        if (options.connect_timeout_ms > ctl->timeout_ms) {
            options.connect_timeout_ms = ctl->timeout_ms;
        }
    }
    err = mooncake_client_open(&options, &ctl->client);
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

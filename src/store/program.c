/* Options, help, run: the same for each program of this room. */
#include "store/program.h"

#include <stdio.h>

#include "base/close_stdout.h"
#include "base/log.h"

#define EXIT_FAILED 1
#define EXIT_USAGE 2

static int complain(const struct mc_store_program *program)
{
    (void)fprintf(stderr, "%s: %s\n", program->name, mooncake_last_error());
    return EXIT_USAGE;
}

/* --help, --version, --print-config. */
static bool answer(const struct mc_store_program *program, const struct mc_options *options)
{
    if (mc_options_asked(options, "help")) {
        mc_options_print_help(options, stdout, program->synopsis);
        return true;
    }
    if (mc_options_asked(options, "version")) {
        (void)printf("%s %s\n", program->name, MC_VERSION);
        return true;
    }
    if (mc_options_asked(options, "print-config")) {
        mc_options_print(options, stdout);
        return true;
    }
    return false;
}

static int run(const struct mc_store_program *program)
{
    struct mc_store_config config = {0};
    int level;
    mooncake_err err = program->configure(program->target, &config);

    if (err != MOONCAKE_OK) {
        return complain(program);
    }
    config.program = program->name;
    level = mc_log_level_from_text(config.log_level);
    if (level == -2) {
        (void)mc_err_set(MOONCAKE_EINVAL,
                         "log_level: \"%s\" is unknown; allowed are error, warn, info, debug, off",
                         config.log_level);
        return complain(program);
    }
    mc_log_set_level((enum mc_log_level)level);
    err = mc_store_run(&config);
    if (err == MOONCAKE_EINVAL) {
        return complain(program);
    }
    if (err != MOONCAKE_OK) {
        (void)fprintf(stderr, "%s: %s: %s\n", program->name, mooncake_err_name(err),
                      mooncake_last_error()[0] != '\0' ? mooncake_last_error()
                                                       : mooncake_err_text(err));
        return EXIT_FAILED;
    }
    return 0;
}

int mc_store_program_main(const struct mc_store_program *program, int argc, char **argv)
{
    struct mc_options *options = NULL;
    int status;

    if (mc_options_create(program->name, program->options, program->options_count, program->target,
                          &options) != MOONCAKE_OK) {
        (void)fprintf(stderr, "%s: out of memory\n", program->name);
        return EXIT_FAILED;
    }
    if (mc_options_read(options, &argc, argv, 0) != MOONCAKE_OK) {
        status = complain(program);
    } else if (answer(program, options)) {
        status = mc_close_stdout(program->name, 0, EXIT_FAILED);
    } else {
        mc_options_print(options, stderr);
        status = run(program);
    }
    mc_options_destroy(&options);
    return status;
}

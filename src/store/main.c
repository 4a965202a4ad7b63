/* mooncake_store: lends memory of this machine to a pool. Options, then mc_store_run(). */
#include <stdio.h>

#include "base/log.h"
#include "store/store.h"

#define EXIT_USAGE 2

static int complain(void)
{
    (void)fprintf(stderr, "mooncake_store: %s\n", mooncake_last_error());
    return EXIT_USAGE;
}

/* --help, --version, --print-config. */
static bool answer(const struct mc_options *options)
{
    if (mc_options_asked(options, "help")) {
        mc_options_print_help(options, stdout,
                              "mooncake_store --master=HOST:PORT --segment=SIZE [...]");
        return true;
    }
    if (mc_options_asked(options, "version")) {
        (void)printf("mooncake_store %s\n", MC_VERSION);
        return true;
    }
    if (mc_options_asked(options, "print-config")) {
        mc_options_print(options, stdout);
        return true;
    }
    return false;
}

static int run(const struct mc_store_config *config)
{
    int level = mc_log_level_from_text(config->log_level);
    mooncake_err err;

    if (level == -2) {
        (void)mc_err_set(MOONCAKE_EINVAL,
                         "log_level: \"%s\" is unknown; allowed are error, warn, info, debug, off",
                         config->log_level);
        return complain();
    }
    mc_log_set_level((enum mc_log_level)level);
    err = mc_store_run(config);
    if (err == MOONCAKE_EINVAL) {
        return complain();
    }
    if (err != MOONCAKE_OK) {
        (void)fprintf(stderr, "mooncake_store: %s: %s\n", mooncake_err_name(err),
                      mooncake_last_error()[0] != '\0' ? mooncake_last_error()
                                                       : mooncake_err_text(err));
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct mc_store_config config = {0};
    struct mc_options *options = NULL;
    const struct mc_option *table;
    size_t count;
    int status;

    table = mc_store_option_table(&count);
    if (mc_options_create("mooncake_store", table, count, &config, &options) != MOONCAKE_OK) {
        (void)fprintf(stderr, "mooncake_store: out of memory\n");
        return 1;
    }
    if (mc_options_read(options, &argc, argv, 0) != MOONCAKE_OK) {
        status = complain();
    } else if (answer(options)) {
        status = 0;
    } else {
        mc_options_print(options, stderr);
        status = run(&config);
    }
    mc_options_destroy(&options);
    return status;
}

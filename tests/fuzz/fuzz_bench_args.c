/*
 * mooncake_bench's command line, one word a line, on a command with an argument of each kind. Laws:
 * taken with numbers in their ranges, or refused; a size agrees with floating point arithmetic.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "law.h"
#include "options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define WORDS_MAX 24
#define OPTION(field) offsetof(struct mc_bench_options, field)

static const struct mc_arg args[] = {
    {"offline", MC_ARG_FLAG, OPTION(offline), NULL, NULL, "help", 0, 0},
    {"trace", MC_ARG_TEXT, OPTION(trace), NULL, "FILE", "help", 0, 0},
    {"threads", MC_ARG_NUMBER, OPTION(threads), "1", "N", "help", 1, 64},
    {"working-set", MC_ARG_SIZE, OPTION(working_set), "64MiB", "SIZE", "help", 0, 0},
    {"time", MC_ARG_TIME, OPTION(time_ms), "5s", "TIME", "help", 1, 86400000},
    {"batches", MC_ARG_NUMBERS, OPTION(batches), "1,32", "N,..", "help", 1, 4096},
    {"sizes", MC_ARG_SIZES, OPTION(sizes), "4KiB", "SIZE,..", "help", 1, (uint64_t)1 << 34},
    {NULL, MC_ARG_FLAG, 0, NULL, NULL, NULL, 0, 0},
};

static enum mc_exit run_nothing(const struct mc_bench_options *options)
{
    (void)options;
    return MC_EXIT_OK;
}

static const struct mc_command command = {"io", "summary", "about", args, true, run_nothing};

static void check_size(const char *text, size_t len)
{
    uint64_t bytes = 0;

    if (len > 0 && len < 32 && mc_parse_size(text, len, &bytes)) {
        char copy[32];
        double number;

        memcpy(copy, text, len);
        copy[len] = '\0';
        number = strtod(copy, NULL);
        law(number >= 0 && (double)bytes >= number * 0.999 - 1);
        law((double)bytes <= number * 1.1 * 1099511627776.0 + 1);
    }
}

static void check_list(const struct mc_list *list, uint64_t min, uint64_t max)
{
    law(list->count >= 1 && list->count <= MC_LIST_MAX);
    for (size_t i = 0; i < list->count; i++) {
        law(list->items[i] >= min && list->items[i] <= max);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char *argv[WORDS_MAX + 1] = {NULL};
    struct mc_bench_options options;
    char *text = strndup((const char *)data, len);
    char *rest = text;
    bool help = false;
    int argc = 0;

    if (stderr != NULL && fileno(stderr) == STDERR_FILENO) {
        stderr = fopen("/dev/null", "w"); /* what is told is told a million times */
    }
    law(text != NULL && stderr != NULL);
    check_size(text, strlen(text));
    while (argc < WORDS_MAX && rest != NULL) {
        argv[argc++] = strsep(&rest, "\n");
    }
    if (mc_args_parse(&command, argc, argv, &options, &help) && !help) {
        law(options.threads >= 1 && options.threads <= 64);
        law(options.time_ms >= 1 && options.time_ms <= 86400000);
        check_list(&options.batches, 1, 4096);
        check_list(&options.sizes, 1, (uint64_t)1 << 34);
    }
    free(text);
    return 0;
}

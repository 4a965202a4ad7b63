/* Parsing of the command line, from tables. */
#include "options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(options, arg, type) ((type *)(void *)((char *)(options) + (arg)->offset))
#define OPTION(field) offsetof(struct mc_bench_options, field)

static const struct mc_arg pool_args[] = {
    {"master", MC_ARG_TEXT, OPTION(master), NULL, "HOST:PORT",
     "RPC address of the master; or environment MOONCAKE_MASTER", 0, 0},
    {"timeout", MC_ARG_TIME, OPTION(timeout_ms), "30s", "TIME", "deadline of each call", 1,
     86400000},
    {"transport", MC_ARG_TEXT, OPTION(transport), NULL, "LIST", "transports that may be used", 0,
     0},
    {"verify", MC_ARG_TEXT, OPTION(verify), "full", "full|header|none",
     "what the client library proves; bytes are compared here in any case", 0, 0},
    {"poll-us", MC_ARG_NUMBER, OPTION(poll_us), "50", "N",
     "microseconds that a waiting call polls before it sleeps", 0, 1000000},
    {"tcp-connections", MC_ARG_NUMBER, OPTION(tcp_connections), "2", "N",
     "TCP connections of each thread to one store, at most", 1, 64},
    {"copy-threads", MC_ARG_NUMBER, OPTION(copy_threads), "0", "N",
     "threads that help to copy large batches within the host", 0, 64},
    {"seed", MC_ARG_NUMBER, OPTION(seed), "1", "N", "seed of everything random", 0, 0},
    {"json", MC_ARG_FLAG, OPTION(json), NULL, NULL, "print one JSON object", 0, 0},
    {"no-limits", MC_ARG_FLAG, OPTION(no_limits), NULL, NULL,
     "do not measure the machine's limits, print no ratios", 0, 0},
    {NULL, MC_ARG_FLAG, 0, NULL, NULL, NULL, 0, 0},
};

static bool whole_number(const char *text, size_t len, uint64_t *out)
{
    uint64_t number = 0;

    for (size_t i = 0; i < len; i++) {
        uint64_t digit = (uint64_t)(text[i] - '0');

        if (text[i] < '0' || text[i] > '9' || number > (UINT64_MAX - digit) / 10) {
            return false;
        }
        number = number * 10 + digit;
    }
    *out = number;
    return len > 0;
}

/* Digits, and with a dot in them a fraction; times @p unit. */
static bool scaled(const char *text, size_t len, uint64_t unit, uint64_t *out)
{
    char copy[32];
    double product;
    uint64_t number;

    if (whole_number(text, len, &number)) {
        if (number > UINT64_MAX / unit) {
            return false;
        }
        *out = number * unit;
        return true;
    }
    if (len == 0 || len >= sizeof(copy) || strspn(text, "0123456789.") < len) {
        return false;
    }
    memcpy(copy, text, len);
    copy[len] = '\0';
    if (copy[0] == '.' || strchr(copy, '.') != strrchr(copy, '.') || copy[len - 1] == '.') {
        return false;
    }
    product = strtod(copy, NULL) * (double)unit;
    if (!(product < 9e18)) {
        return false;
    }
    *out = (uint64_t)llround(product);
    return true;
}

static size_t number_len(const char *text, size_t len)
{
    size_t n = 0;

    while (n < len && ((text[n] >= '0' && text[n] <= '9') || text[n] == '.')) {
        n++;
    }
    return n;
}

struct unit {
    const char *name;
    uint64_t factor;
};

static bool with_unit(const struct unit *units, const char *text, size_t len, uint64_t *out)
{
    size_t digits = number_len(text, len);

    for (size_t i = 0; units[i].name != NULL; i++) {
        if (strlen(units[i].name) == len - digits &&
            strncmp(units[i].name, text + digits, len - digits) == 0) {
            return scaled(text, digits, units[i].factor, out);
        }
    }
    return false;
}

bool mc_parse_size(const char *text, size_t len, uint64_t *out)
{
    static const struct unit units[] = {
        {"", 1},
        {"B", 1},
        {"K", 1ull << 10},
        {"KiB", 1ull << 10},
        {"KB", 1000},
        {"M", 1ull << 20},
        {"MiB", 1ull << 20},
        {"MB", 1000000},
        {"G", 1ull << 30},
        {"GiB", 1ull << 30},
        {"GB", 1000000000},
        {"T", 1ull << 40},
        {"TiB", 1ull << 40},
        {"TB", 1000000000000},
        {NULL, 0},
    };

    return with_unit(units, text, len, out);
}

static bool parse_time(const char *text, size_t len, uint64_t *out)
{
    static const struct unit units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"", 1}, {NULL, 0}};

    return with_unit(units, text, len, out);
}

static bool parse_one(enum mc_arg_kind kind, const char *text, size_t len, uint64_t *out)
{
    switch (kind) {
    case MC_ARG_NUMBER:
    case MC_ARG_NUMBERS:
        return whole_number(text, len, out);
    case MC_ARG_SIZE:
    case MC_ARG_SIZES:
        return mc_parse_size(text, len, out);
    case MC_ARG_TIME:
        return parse_time(text, len, out);
    case MC_ARG_FLAG:
    case MC_ARG_TEXT:
        break;
    }
    return false;
}

static const char *example(enum mc_arg_kind kind)
{
    switch (kind) {
    case MC_ARG_NUMBER:
        return "a whole number";
    case MC_ARG_SIZE:
        return "a size; write e.g. 4KiB";
    case MC_ARG_TIME:
        return "a time; write e.g. 500ms or 2s";
    case MC_ARG_NUMBERS:
        return "a list of at most 16 whole numbers; write e.g. 1,8,32";
    case MC_ARG_SIZES:
        return "a list of at most 16 sizes; write e.g. 4KiB,1MiB";
    case MC_ARG_FLAG:
    case MC_ARG_TEXT:
        break;
    }
    return "a text";
}

static bool parse_list(const struct mc_arg *arg, const char *value, struct mc_list *out)
{
    const char *at = value;

    out->count = 0;
    for (;;) {
        size_t len = strcspn(at, ",");

        if (out->count == MC_LIST_MAX || !parse_one(arg->kind, at, len, &out->items[out->count])) {
            return false;
        }
        out->count++;
        if (at[len] == '\0') {
            return true;
        }
        at += len + 1;
    }
}

static bool in_range(const char *command, const struct mc_arg *arg, uint64_t number)
{
    if ((arg->min != 0 || arg->max != 0) && (number < arg->min || number > arg->max)) {
        (void)fprintf(stderr, "mooncake_bench %s: --%s: %llu is not in %llu to %llu\n", command,
                      arg->name, (unsigned long long)number, (unsigned long long)arg->min,
                      (unsigned long long)arg->max);
        return false;
    }
    return true;
}

static bool fail_value(const char *command, const struct mc_arg *arg, const char *value)
{
    (void)fprintf(stderr, "mooncake_bench %s: --%s: \"%.80s\" is not %s\n", command, arg->name,
                  value, example(arg->kind));
    return false;
}

static bool set(const char *command, const struct mc_arg *arg, const char *value,
                struct mc_bench_options *options)
{
    struct mc_list *list = AT(options, arg, struct mc_list);

    switch (arg->kind) {
    case MC_ARG_FLAG:
        *AT(options, arg, bool) = true;
        return true;
    case MC_ARG_TEXT:
        *AT(options, arg, const char *) = value;
        return true;
    case MC_ARG_NUMBER:
    case MC_ARG_SIZE:
    case MC_ARG_TIME:
        if (!parse_one(arg->kind, value, strlen(value), AT(options, arg, uint64_t))) {
            return fail_value(command, arg, value);
        }
        return in_range(command, arg, *AT(options, arg, uint64_t));
    case MC_ARG_NUMBERS:
    case MC_ARG_SIZES:
        if (!parse_list(arg, value, list)) {
            return fail_value(command, arg, value);
        }
        for (size_t i = 0; i < list->count; i++) {
            if (!in_range(command, arg, list->items[i])) {
                return false;
            }
        }
        return true;
    }
    return false;
}

static bool same_name(const char *name, const char *text, size_t len)
{
    size_t i = 0;

    for (; i < len && name[i] != '\0'; i++) {
        if (name[i] != (text[i] == '_' ? '-' : text[i])) {
            return false;
        }
    }
    return i == len && name[i] == '\0';
}

static const struct mc_arg *arg_find(const struct mc_arg *args, const char *text, size_t len)
{
    for (; args->name != NULL; args++) {
        if (same_name(args->name, text, len)) {
            return args;
        }
    }
    return NULL;
}

static bool set_defaults(const struct mc_command *command, const struct mc_arg *args,
                         struct mc_bench_options *options)
{
    for (; args->name != NULL; args++) {
        if (args->default_text != NULL && !set(command->name, args, args->default_text, options)) {
            return false;
        }
    }
    return true;
}

/* One option; *i moves behind its value. */
static bool parse_option(const struct mc_command *command, int argc, char **argv, int *i,
                         struct mc_bench_options *options)
{
    const char *text = argv[*i] + 2;
    size_t len = strcspn(text, "=");
    const struct mc_arg *arg = arg_find(command->args, text, len);
    const char *value = text[len] == '=' ? text + len + 1 : NULL;

    if (arg == NULL && command->pool) {
        arg = arg_find(pool_args, text, len);
    }
    if (arg == NULL) {
        (void)fprintf(stderr,
                      "mooncake_bench %s: unknown option --%.*s; mooncake_bench %s --help lists "
                      "what there is\n",
                      command->name, (int)(len > 80 ? 80 : len), text, command->name);
        return false;
    }
    if (arg->kind == MC_ARG_FLAG && value != NULL) {
        (void)fprintf(stderr, "mooncake_bench %s: --%s takes no value\n", command->name, arg->name);
        return false;
    }
    if (arg->kind != MC_ARG_FLAG && value == NULL) {
        if (*i + 1 >= argc) {
            (void)fprintf(stderr, "mooncake_bench %s: --%s needs a value: %s\n", command->name,
                          arg->name, arg->value_name);
            return false;
        }
        value = argv[++*i];
    }
    return set(command->name, arg, value, options);
}

bool mc_args_parse(const struct mc_command *command, int argc, char **argv,
                   struct mc_bench_options *out, bool *out_help)
{
    *out_help = false;
    memset(out, 0, sizeof(*out));
    if (!set_defaults(command, command->args, out) ||
        (command->pool && !set_defaults(command, pool_args, out))) {
        return false;
    }
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            *out_help = true;
            return true;
        }
        if (strncmp(argv[i], "--", 2) != 0) {
            (void)fprintf(stderr, "mooncake_bench %s: what is \"%.80s\"? Options start with --\n",
                          command->name, argv[i]);
            return false;
        }
        if (!parse_option(command, argc, argv, &i, out)) {
            return false;
        }
    }
    return true;
}

static void print_args(const struct mc_arg *args)
{
    for (; args->name != NULL; args++) {
        char left[80];

        (void)snprintf(left, sizeof(left), "--%s%s%s", args->name,
                       args->value_name == NULL ? "" : " ",
                       args->value_name == NULL ? "" : args->value_name);
        (void)printf("  %-30s %s%s%s%s\n", left, args->help, args->default_text == NULL ? "" : " [",
                     args->default_text == NULL ? "" : args->default_text,
                     args->default_text == NULL ? "" : "]");
    }
}

void mc_args_print_help(const struct mc_command *command)
{
    (void)printf("mooncake_bench %s: %s\n\n%s\n", command->name, command->summary, command->about);
    (void)printf("\nOptions:\n");
    print_args(command->args);
    if (command->pool) {
        (void)printf("\nThe pool and the run:\n");
        print_args(pool_args);
    }
}

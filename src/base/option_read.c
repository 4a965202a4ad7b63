/*
 * Flags and environment. The flags are only understood at first, because one of them names the
 * file, which must be read before them; then file, environment and flags are applied in this order.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/option.h"
#include "base/option_private.h"

/* One flag of the command line, understood but not applied. */
struct flag {
    size_t index;      /* of the option */
    const char *value; /* borrowed from argv */
};

/* What a command line comes to. */
struct line {
    struct flag *flags; /* owned; room for argc */
    size_t flags_count;
    char **words; /* owned array of argv's own strings; room for argc */
    int words_count;
};

/* The name in a flag's word, without dashes and value. */
static mooncake_err flag_name(const struct mc_options *options, const char *word,
                              char name[MC_OPTION_NAME_CAP])
{
    const char *start = word + (word[1] == '-' ? 2 : 1);
    size_t len = strcspn(start, "=");

    if (len == 0 || len >= MC_OPTION_NAME_CAP) {
        return mc_option_unknown(options, start, "flag");
    }
    memcpy(name, start, len);
    name[len] = '\0';
    for (char *at = name; *at != '\0'; at++) {
        *at = *at == '-' ? '_' : *at;
    }
    return MOONCAKE_OK;
}

/* Does a word look like a flag? "-" alone and negative numbers do not. */
static bool is_flag(const char *word)
{
    return word[0] == '-' && word[1] != '\0' && !(word[1] >= '0' && word[1] <= '9');
}

/* The value of the flag argv[*at]: behind '=', or the next word (and *at moves on). */
static mooncake_err flag_value(const char *name, int argc, char **argv, int *at,
                               const char **out_value)
{
    const char *equals = strchr(argv[*at], '=');

    if (equals != NULL) {
        *out_value = equals + 1;
        return MOONCAKE_OK;
    }
    if (*at + 1 >= argc || is_flag(argv[*at + 1])) {
        return mc_err_set(MOONCAKE_EINVAL,
                          "%s: the flag needs a value (from flag); write --%s=VALUE", name, name);
    }
    (*at)++;
    *out_value = argv[*at];
    return MOONCAKE_OK;
}

/* Is @p name one of the flags that this file answers itself? If so, take it. */
static mooncake_err take_own_flag(struct mc_options *options, const char *name, int argc,
                                  char **argv, int *at, bool *out_taken)
{
    const char *value = NULL;
    bool *asked = NULL;

    if (strcmp(name, "help") == 0 || strcmp(name, "h") == 0) {
        asked = &options->help;
    } else if (strcmp(name, "version") == 0) {
        asked = &options->version;
    } else if (strcmp(name, "print_config") == 0) {
        asked = &options->print_config;
    }
    if (asked != NULL) {
        if (strchr(argv[*at], '=') != NULL) {
            return mc_err_set(MOONCAKE_EINVAL, "%s: the flag takes no value (from flag)", name);
        }
        *asked = true;
        *out_taken = true;
        return MOONCAKE_OK;
    }
    if (strcmp(name, "config_path") != 0) {
        *out_taken = false;
        return MOONCAKE_OK;
    }
    MC_TRY(flag_value(name, argc, argv, at, &value));
    if (options->config_path != NULL) {
        return mc_err_set(MOONCAKE_EINVAL, "config_path: the flag is given more than once");
    }
    options->config_path = mc_strndup(value, strlen(value));
    options->config_source = mc_strndup("flag", 4);
    *out_taken = true;
    return options->config_path == NULL || options->config_source == NULL ? MOONCAKE_ENOMEM
                                                                          : MOONCAKE_OK;
}

static mooncake_err take_flag(struct mc_options *options, struct line *line, int argc, char **argv,
                              int *at)
{
    char name[MC_OPTION_NAME_CAP];
    const char *value = "true";
    bool taken = false;
    int index;

    MC_TRY(flag_name(options, argv[*at], name));
    MC_TRY(take_own_flag(options, name, argc, argv, at, &taken));
    if (taken) {
        return MOONCAKE_OK;
    }
    index = mc_option_find(options, name);
    if (index < 0) {
        return mc_option_unknown(options, name, "flag");
    }
    if (options->table[index].kind != MC_OPTION_BOOL || strchr(argv[*at], '=') != NULL) {
        MC_TRY(flag_value(options->table[index].name, argc, argv, at, &value));
    }
    for (size_t i = 0; i < line->flags_count; i++) {
        if (line->flags[i].index == (size_t)index &&
            options->table[index].kind != MC_OPTION_TEXTS) {
            char first[MC_OPTION_QUOTE_CAP];
            char second[MC_OPTION_QUOTE_CAP];

            return mc_err_set(
                MOONCAKE_EINVAL, "%s: the flag is given more than once, as %s and as %s; keep one",
                options->table[index].name, mc_option_quote(line->flags[i].value, first),
                mc_option_quote(value, second));
        }
    }
    line->flags[line->flags_count++] = (struct flag){.index = (size_t)index, .value = value};
    return MOONCAKE_OK;
}

static mooncake_err take_word(struct line *line, char *word, int words_max)
{
    char quoted[MC_OPTION_QUOTE_CAP];

    if (line->words_count < words_max) {
        line->words[line->words_count++] = word;
        return MOONCAKE_OK;
    }
    if (words_max > 0) {
        return mc_err_set(MOONCAKE_EINVAL, "unexpected word %s: at most %d may follow",
                          mc_option_quote(word, quoted), words_max);
    }
    return mc_err_set(MOONCAKE_EINVAL,
                      "unexpected word %s: only flags may follow, --name=value "
                      "(on/off flags need the =)",
                      mc_option_quote(word, quoted));
}

static mooncake_err understand(struct mc_options *options, struct line *line, int argc, char **argv,
                               int words_max)
{
    bool flags_end = false;

    for (int at = 1; at < argc; at++) {
        if (!flags_end && strcmp(argv[at], "--") == 0) {
            flags_end = true;
        } else if (!flags_end && is_flag(argv[at])) {
            MC_TRY(take_flag(options, line, argc, argv, &at));
        } else {
            MC_TRY(take_word(line, argv[at], words_max));
        }
    }
    return MOONCAKE_OK;
}

void mc_option_environment_name(const char *name, char *out, size_t cap)
{
    (void)snprintf(out, cap, "MOONCAKE_%s", name);
    for (char *at = out; *at != '\0'; at++) {
        *at = *at >= 'a' && *at <= 'z' ? (char)(*at - 'a' + 'A') : *at;
        *at = *at == '-' ? '_' : *at;
    }
}

/* An empty variable counts as unset: that is how shells and service files leave one out. */
static const char *environment(const char *name)
{
    const char *value = getenv(name);

    return value == NULL || value[0] == '\0' ? NULL : value;
}

/* Each part between commas of a list's variable is one value. */
static mooncake_err assign_list(struct mc_options *options, size_t index, const char *value,
                                const char *source)
{
    const char *at = value;

    for (;;) {
        size_t len = strcspn(at, ",");
        char *part = mc_strndup(at, len);
        mooncake_err err = MOONCAKE_ENOMEM;

        if (part != NULL) {
            err = mc_option_assign(options, index, part, MC_OPTION_FROM_ENVIRONMENT, source);
            mc_free(part);
        }
        if (err != MOONCAKE_OK || at[len] == '\0') {
            return err;
        }
        at += len + 1;
    }
}

static mooncake_err read_variable(struct mc_options *options, size_t index, const char *name)
{
    char variable[MC_OPTION_NAME_CAP + 16];
    char source[MC_OPTION_NAME_CAP + 32];
    const char *value;

    mc_option_environment_name(name, variable, sizeof(variable));
    value = environment(variable);
    if (value == NULL) {
        return MOONCAKE_OK;
    }
    (void)snprintf(source, sizeof(source), "environment %s", variable);
    if (options->table[index].kind == MC_OPTION_TEXTS) {
        return assign_list(options, index, value, source);
    }
    return mc_option_assign(options, index, value, MC_OPTION_FROM_ENVIRONMENT, source);
}

static mooncake_err read_environment(struct mc_options *options)
{
    for (size_t i = 0; i < options->count; i++) {
        const struct mc_option *option = &options->table[i];
        char variable[MC_OPTION_NAME_CAP + 16];

        mc_option_environment_name(option->name, variable, sizeof(variable));
        if (environment(variable) != NULL || option->alias == NULL) {
            MC_TRY(read_variable(options, i, option->name));
        } else {
            MC_TRY(read_variable(options, i, option->alias));
        }
    }
    return MOONCAKE_OK;
}

/* The file's name may come from the environment when no flag gives it. */
static mooncake_err find_file(struct mc_options *options)
{
    const char *path = environment("MOONCAKE_CONFIG_FILE");
    const char *source = "environment MOONCAKE_CONFIG_FILE";

    if (options->config_path != NULL || path == NULL) {
        return MOONCAKE_OK;
    }
    options->config_path = mc_strndup(path, strlen(path));
    options->config_source = mc_strndup(source, strlen(source));
    return options->config_path == NULL || options->config_source == NULL ? MOONCAKE_ENOMEM
                                                                          : MOONCAKE_OK;
}

static mooncake_err apply(struct mc_options *options, const struct line *line)
{
    if (options->help || options->version) {
        return MOONCAKE_OK; /* these must answer even when the file is broken */
    }
    MC_TRY(find_file(options));
    if (options->config_path != NULL) {
        MC_TRY(mc_option_read_file(options));
    }
    MC_TRY(read_environment(options));
    for (size_t i = 0; i < line->flags_count; i++) {
        MC_TRY(mc_option_assign(options, line->flags[i].index, line->flags[i].value,
                                MC_OPTION_FROM_FLAG, "flag"));
    }
    return MOONCAKE_OK;
}

mooncake_err mc_options_read(struct mc_options *options, int *argc, char **argv, int words_max)
{
    struct line line = {0};
    mooncake_err err = MOONCAKE_ENOMEM;

    MC_ASSERT(*argc >= 0);
    line.flags = mc_calloc((size_t)*argc + 1, sizeof(*line.flags));
    line.words = mc_calloc((size_t)*argc + 1, sizeof(*line.words));
    if (line.flags == NULL || line.words == NULL) {
        goto free_line;
    }
    err = understand(options, &line, *argc, argv, words_max);
    if (err != MOONCAKE_OK) {
        goto free_line;
    }
    err = apply(options, &line);
    if (err == MOONCAKE_OK && *argc > 0) {
        memcpy(argv + 1, line.words, (size_t)line.words_count * sizeof(*line.words));
        *argc = 1 + line.words_count;
        argv[*argc] = NULL;
    }

free_line:
    mc_free(line.flags);
    mc_free(line.words);
    return err;
}

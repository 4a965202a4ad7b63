/* The option object: defaults, look-up, setting one, showing all. */
#include "base/option.h"

#include <string.h>

#include "base/mem.h"
#include "base/option_private.h"

/* Names that mc_options_read() answers itself. */
static const char *const own_names[] = {"config_path", "help", "version", "print_config"};

static char fold(char c)
{
    return c == '-' ? '_' : c;
}

/* Are the names the same but for - and _? */
static bool same_name(const char *a, const char *b)
{
    while (*a != '\0' && fold(*a) == fold(*b)) {
        a++;
        b++;
    }
    return fold(*a) == fold(*b);
}

int mc_option_find(const struct mc_options *options, const char *name)
{
    for (size_t i = 0; i < options->count; i++) {
        const struct mc_option *option = &options->table[i];

        if (same_name(name, option->name) ||
            (option->alias != NULL && same_name(name, option->alias))) {
            return (int)i;
        }
    }
    return -1;
}

/* Edits (insert, drop, replace) between two names, each cut to MC_OPTION_NAME_CAP bytes. */
static unsigned edit_distance(const char *a, const char *b)
{
    unsigned row[MC_OPTION_NAME_CAP + 1];
    size_t a_len = strnlen(a, MC_OPTION_NAME_CAP);
    size_t b_len = strnlen(b, MC_OPTION_NAME_CAP);

    for (size_t j = 0; j <= b_len; j++) {
        row[j] = (unsigned)j;
    }
    for (size_t i = 1; i <= a_len; i++) {
        unsigned diagonal = row[0];

        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b_len; j++) {
            unsigned replace = diagonal + (fold(a[i - 1]) == fold(b[j - 1]) ? 0 : 1);
            unsigned drop = row[j] + 1;
            unsigned insert = row[j - 1] + 1;

            diagonal = row[j];
            row[j] = drop < insert ? drop : insert;
            row[j] = replace < row[j] ? replace : row[j];
        }
    }
    return row[b_len];
}

static void keep_nearer(const char *name, const char *candidate, const char **best,
                        unsigned *best_distance)
{
    unsigned distance = candidate == NULL ? *best_distance : edit_distance(name, candidate);

    if (distance < *best_distance) {
        *best = candidate;
        *best_distance = distance;
    }
}

mooncake_err mc_option_unknown(const struct mc_options *options, const char *name,
                               const char *source)
{
    char quoted[MC_OPTION_QUOTE_CAP];
    const char *best = NULL;
    /* Further away than half the name, a suggestion would be noise. */
    unsigned distance = (unsigned)strnlen(name, MC_OPTION_NAME_CAP) / 2 + 2;

    for (size_t i = 0; i < options->count; i++) {
        keep_nearer(name, options->table[i].name, &best, &distance);
        keep_nearer(name, options->table[i].alias, &best, &distance);
    }
    for (size_t i = 0; i < MC_ARRAY_LEN(own_names); i++) {
        keep_nearer(name, own_names[i], &best, &distance);
    }
    if (best == NULL) {
        return mc_err_set(MOONCAKE_EINVAL, "unknown option %s (from %s); %s --help lists all",
                          mc_option_quote(name, quoted), source, options->program);
    }
    return mc_err_set(MOONCAKE_EINVAL,
                      "unknown option %s (from %s); did you mean \"%s\"? %s --help lists all",
                      mc_option_quote(name, quoted), source, best, options->program);
}

void mc_option_list_clear(struct mc_options *options, size_t index)
{
    if (options->table[index].kind == MC_OPTION_TEXTS) {
        mc_option_value_clear(&options->table[index], options->target);
    }
}

mooncake_err mc_option_assign(struct mc_options *options, size_t index, const char *value,
                              enum mc_option_level level, const char *source)
{
    const struct mc_option *option = &options->table[index];
    struct mc_option_state *state = &options->states[index];
    char *kept = mc_strndup(source, strlen(source));
    mooncake_err err;

    if (kept == NULL) {
        return MOONCAKE_ENOMEM;
    }
    if (state->level != level) {
        mc_option_list_clear(options, index);
    }
    err = mc_option_value_set(option, options->target, value);
    if (err != MOONCAKE_OK) {
        mc_free(kept);
        if (err == MOONCAKE_EINVAL) {
            return mc_err_set(err, "%s: %s (from %s)", option->name, mooncake_last_error(), source);
        }
        return err;
    }
    mc_free(state->source);
    state->source = kept;
    state->level = level;
    return MOONCAKE_OK;
}

/* The default in the form in which values are shown. */
static mooncake_err keep_default(struct mc_options *options, size_t index)
{
    char number[MC_OPTION_VALUE_CAP];
    char *list = NULL;
    const char *text = mc_option_value_text(&options->table[index], options->target, number,
                                            sizeof(number), &list);

    options->states[index].default_value = mc_strndup(text, strlen(text));
    mc_free(list);
    return options->states[index].default_value == NULL ? MOONCAKE_ENOMEM : MOONCAKE_OK;
}

static mooncake_err set_default(struct mc_options *options, size_t index)
{
    const struct mc_option *option = &options->table[index];
    mooncake_err err = MOONCAKE_OK;

    MC_ASSERT(strlen(option->name) < MC_OPTION_NAME_CAP && option->help != NULL);
    MC_ASSERT(option->alias == NULL || strlen(option->alias) < MC_OPTION_NAME_CAP);
    MC_ASSERT(mc_option_find(options, option->name) == (int)index); /* no name twice */
    MC_ASSERT(option->alias == NULL || mc_option_find(options, option->alias) == (int)index);
    for (size_t i = 0; i < MC_ARRAY_LEN(own_names); i++) {
        MC_ASSERT(!same_name(option->name, own_names[i]));
    }
    if (option->default_text != NULL) {
        err = mc_option_value_set(option, options->target, option->default_text);
    } else if (option->kind == MC_OPTION_TEXT) {
        err = mc_option_value_set(option, options->target, "");
    }
    MC_ASSERT(err == MOONCAKE_OK || err == MOONCAKE_ENOMEM);
    return err == MOONCAKE_OK ? keep_default(options, index) : err;
}

mooncake_err mc_options_create(const char *program, const struct mc_option *table, size_t count,
                               void *target, struct mc_options **out)
{
    struct mc_options *options = mc_calloc(1, sizeof(*options));
    mooncake_err err = MOONCAKE_OK;

    if (options == NULL) {
        return MOONCAKE_ENOMEM;
    }
    options->program = program;
    options->table = table;
    options->count = count;
    options->target = target;
    options->states = mc_calloc(count, sizeof(*options->states));
    if (options->states == NULL) {
        mc_free(options);
        return MOONCAKE_ENOMEM;
    }
    for (size_t i = 0; i < count && err == MOONCAKE_OK; i++) {
        err = set_default(options, i);
    }
    if (err != MOONCAKE_OK) {
        mc_options_destroy(&options);
        return err;
    }
    *out = options;
    return MOONCAKE_OK;
}

void mc_options_destroy(struct mc_options **options)
{
    struct mc_options *o = *options;

    if (o == NULL) {
        return;
    }
    for (size_t i = 0; i < o->count; i++) {
        mc_option_value_clear(&o->table[i], o->target);
        mc_free(o->states[i].source);
        mc_free(o->states[i].default_value);
    }
    mc_free(o->states);
    mc_free(o->config_path);
    mc_free(o->config_source);
    mc_free(o);
    *options = NULL;
}

mooncake_err mc_options_set(struct mc_options *options, const char *name, const char *value,
                            const char *source)
{
    int index = mc_option_find(options, name);

    if (index < 0) {
        return mc_option_unknown(options, name, source);
    }
    return mc_option_assign(options, (size_t)index, value, MC_OPTION_FROM_FLAG, source);
}

bool mc_options_asked(const struct mc_options *options, const char *name)
{
    if (same_name(name, "help")) {
        return options->help;
    }
    if (same_name(name, "version")) {
        return options->version;
    }
    return same_name(name, "print_config") && options->print_config;
}

/* ---- help ------------------------------------------------------------------------------------ */

#define HELP_COLUMNS 100u
#define HELP_INDENT 6u

/* Words of one paragraph, each behind a blank or, where the line is full, on the next one. What is
 * in brackets at its end stays together. */
static void print_wrapped(FILE *out, const char *text)
{
    size_t column = 0;

    while (*text != '\0') {
        size_t len = *text == '[' ? strlen(text) : strcspn(text, " ");

        if (column == 0 || column + 1 + len > HELP_COLUMNS) {
            (void)fprintf(out, "%s%*s", column == 0 ? "" : "\n", (int)HELP_INDENT, "");
            column = HELP_INDENT;
        } else {
            (void)fputc(' ', out);
            column++;
        }
        (void)fprintf(out, "%.*s", (int)len, text);
        column += len;
        text += len;
        text += strspn(text, " ");
    }
    (void)fputc('\n', out);
}

static void print_option_help(FILE *out, const struct mc_option *option)
{
    char environment[MC_OPTION_NAME_CAP + 16], text[1024];
    bool has_default = option->default_text != NULL && option->default_text[0] != '\0';

    mc_option_environment_name(option->name, environment, sizeof(environment));
    (void)snprintf(text, sizeof(text), "%s%s [default %s; %s%s%s]", option->help,
                   option->kind == MC_OPTION_TEXTS ? "; may be repeated" : "",
                   has_default ? option->default_text : "none", environment,
                   option->alias == NULL ? "" : "; also --",
                   option->alias == NULL ? "" : option->alias);
    (void)fprintf(out, "  --%s=%s\n", option->name, mc_option_kind_word(option->kind));
    print_wrapped(out, text);
}

void mc_options_print_help(const struct mc_options *options, FILE *out, const char *synopsis)
{
    (void)fprintf(out, "usage: %s\n\n", synopsis);
    for (size_t i = 0; i < options->count; i++) {
        print_option_help(out, &options->table[i]);
    }
    (void)fprintf(out, "  --config_path=FILE\n"
                       "      JSON file with these options [default none; MOONCAKE_CONFIG_FILE]\n"
                       "  --print_config\n"
                       "      show every option's value and where it came from, and end\n"
                       "  --version\n"
                       "      show the version and end\n"
                       "  --help\n"
                       "      show this and end\n"
                       "\nSIZE: 4096, 64KiB, 4GiB. DURATION: 250ms, 10s, 5m, 2h, or a number of "
                       "the unit shown.\nOrder: default, JSON file, environment, flag; the last "
                       "one wins.\n");
}

void mc_options_visit(const struct mc_options *options,
                      void (*visit)(void *arg, const struct mc_option_view *view), void *arg)
{
    for (size_t i = 0; i < options->count; i++) {
        const struct mc_option *option = &options->table[i];
        const struct mc_option_state *state = &options->states[i];
        char number[MC_OPTION_VALUE_CAP];
        char *list = NULL;
        struct mc_option_view const view = {
            .name = option->name,
            .value = mc_option_value_text(option, options->target, number, sizeof(number), &list),
            .default_value = state->default_value,
            .help = option->help,
            .source = state->source == NULL ? "default" : state->source,
            .unit = mc_option_unit(option),
        };

        visit(arg, &view);
        mc_free(list);
    }
}

static void print_one(void *arg, const struct mc_option_view *view)
{
    (void)fprintf(arg, "%s = %s (%s)\n", view->name, view->value, view->source);
}

void mc_options_print(const struct mc_options *options, FILE *out)
{
    if (options->config_path != NULL) {
        (void)fprintf(out, "config_path = %s (%s)\n", options->config_path, options->config_source);
    }
    mc_options_visit(options, print_one, out);
}

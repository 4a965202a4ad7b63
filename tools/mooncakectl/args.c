/* Parsing of the command line. */
#include "args.h"

#include <stdlib.h>
#include <string.h>

#define NAME_LEN_MAX 32
#define NAMES_MAX 32
#define TIMEOUT_MS_MAX (24u * 60 * 60 * 1000)
#define REPLICAS_MAX 8

static const struct {
    const char *name, *value;
} options[MC_CTL_OPTIONS_COUNT] = {
#define ENTRY(name, text, value, help) {text, value},
    MC_CTL_OPTION_LIST(ENTRY)
#undef ENTRY
};

const char *mc_option_name(size_t option)
{
    return options[option].name;
}

bool mc_option_takes_value(size_t option)
{
    return options[option].value != NULL;
}

/* Edits between two names: insert, drop or replace a byte, swap two neighbours. */
static size_t distance(const char *a, const char *b)
{
    size_t rows[3][NAME_LEN_MAX + 1];
    size_t a_len = strlen(a);
    size_t b_len = strlen(b);

    if (a_len > NAME_LEN_MAX || b_len > NAME_LEN_MAX) {
        return SIZE_MAX;
    }
    for (size_t k = 0; k <= b_len; k++) {
        rows[0][k] = k;
    }
    for (size_t i = 1; i <= a_len; i++) {
        size_t *now = rows[i % 3];
        const size_t *above = rows[(i - 1) % 3];
        const size_t *above2 = rows[(i + 1) % 3];

        now[0] = i;
        for (size_t k = 1; k <= b_len; k++) {
            size_t best = above[k - 1] + (a[i - 1] != b[k - 1]);

            best = above[k] + 1 < best ? above[k] + 1 : best;
            best = now[k - 1] + 1 < best ? now[k - 1] + 1 : best;
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1]) {
                best = above2[k - 2] + 1 < best ? above2[k - 2] + 1 : best;
            }
            now[k] = best;
        }
    }
    return rows[a_len % 3][b_len];
}

/* The nearest name among names[0 .. count), or NULL if none is near. */
static const char *suggest(const char *text, const char *const *names, size_t count)
{
    const char *nearest = NULL;
    size_t best = 1 + strlen(text) / 3; /* beyond that it is another word */

    for (size_t i = 0; i < count; i++) {
        size_t edits = distance(text, names[i]);

        if (edits <= best && (nearest == NULL || edits < best)) {
            best = edits;
            nearest = names[i];
        }
    }
    return nearest;
}

enum mc_exit mc_fail_command(const struct mc_ctl *ctl, const char *name)
{
    const char *names[NAMES_MAX];
    const char *near;
    size_t count = 0;

    for (; count < NAMES_MAX && mc_command_at(count) != NULL; count++) {
        names[count] = mc_command_at(count)->name;
    }
    near = suggest(name, names, count);
    if (near != NULL) {
        return mc_fail_plain(ctl, MC_EXIT_USAGE, "unknown command \"%.80s\": did you mean \"%s\"?",
                             name, near);
    }
    return mc_fail_plain(ctl, MC_EXIT_USAGE,
                         "unknown command \"%.80s\": mooncakectl help lists the commands", name);
}

static enum mc_exit fail_option(const struct mc_ctl *ctl, const char *name)
{
    const char *names[MC_CTL_OPTIONS_COUNT];
    const char *near;

    for (size_t i = 0; i < MC_CTL_OPTIONS_COUNT; i++) {
        names[i] = options[i].name;
    }
    near = suggest(name, names, MC_CTL_OPTIONS_COUNT);
    if (near != NULL) {
        return mc_fail_plain(ctl, MC_EXIT_USAGE,
                             "unknown option \"--%.80s\": did you mean \"--%s\"?", name, near);
    }
    return mc_fail_plain(ctl, MC_EXIT_USAGE,
                         "unknown option \"--%.80s\": mooncakectl help lists the options", name);
}

/* Decimal digits only. Returns what follows them, or NULL when there are none or too many. */
static const char *read_number(const char *text, uint64_t max, uint64_t *out)
{
    uint64_t number = 0;
    const char *at = text;

    for (; *at >= '0' && *at <= '9'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');

        if (digit > max || number > (max - digit) / 10) {
            return NULL;
        }
        number = 10 * number + digit;
    }
    if (at == text) {
        return NULL;
    }
    *out = number;
    return at;
}

static bool read_time(const char *text, uint32_t *out_ms)
{
    static const struct {
        const char *unit;
        uint32_t ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"", 1000}, {"m", 60000}, {"h", 3600000}};
    uint64_t number = 0;
    const char *unit = read_number(text, TIMEOUT_MS_MAX, &number);

    for (size_t i = 0; unit != NULL && i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(unit, units[i].unit) == 0 && number > 0 &&
            number <= TIMEOUT_MS_MAX / units[i].ms) {
            *out_ms = (uint32_t)number * units[i].ms;
            return true;
        }
    }
    return false;
}

static enum mc_exit set_number(struct mc_ctl *ctl, enum mc_ctl_option option, const char *value)
{
    bool is_replicas = option == MC_CTL_REPLICAS;
    uint64_t max = is_replicas ? REPLICAS_MAX : INT64_MAX;
    uint64_t number = 0;
    const char *rest = read_number(value, max, &number);

    if (rest == NULL || *rest != '\0' || number == 0) {
        return mc_fail_plain(ctl, MC_EXIT_USAGE, "--%s: \"%.80s\" is not a number from 1 to %s",
                             options[option].name, value, is_replicas ? "8" : "2^63-1");
    }
    if (is_replicas) {
        ctl->replicas = (uint32_t)number;
    } else if (option == MC_CTL_COUNT) {
        ctl->count = number;
    } else {
        ctl->limit = number;
    }
    return MC_EXIT_OK;
}

static enum mc_exit set_time(const struct mc_ctl *ctl, enum mc_ctl_option option, const char *value,
                             uint32_t *out_ms)
{
    if (!read_time(value, out_ms)) {
        return mc_fail_plain(ctl, MC_EXIT_USAGE,
                             "--%s: \"%.80s\" is not a time from 1ms to 24h, such as 500ms, 10s, "
                             "2m",
                             options[option].name, value);
    }
    return MC_EXIT_OK;
}

static enum mc_exit set_option(struct mc_ctl *ctl, enum mc_ctl_option option, const char *value)
{
    switch (option) {
    case MC_CTL_MASTER:
        ctl->master = value;
        break;
    case MC_CTL_CONFIG_PATH:
        ctl->config_path = value;
        break;
    case MC_CTL_TIMEOUT:
        return set_time(ctl, option, value, &ctl->timeout_ms);
    case MC_CTL_INTERVAL:
        return set_time(ctl, option, value, &ctl->interval_ms);
    case MC_CTL_LOG:
        ctl->log = value;
        break;
    case MC_CTL_METRICS:
        ctl->metrics = value;
        break;
    case MC_CTL_COUNT:
    case MC_CTL_LIMIT:
    case MC_CTL_REPLICAS:
        return set_number(ctl, option, value);
    case MC_CTL_PATTERN:
        ctl->pattern = value;
        break;
    case MC_CTL_JSON:
        ctl->json = true;
        break;
    case MC_CTL_FORCE:
        ctl->force = true;
        break;
    case MC_CTL_ALL:
        ctl->all = true;
        break;
    case MC_CTL_NULL_ENDS:
        ctl->null_ends = true;
        break;
    case MC_CTL_SOFT_PIN:
        ctl->soft_pin = true;
        break;
    case MC_CTL_HARD_PIN:
        ctl->hard_pin = true;
        break;
    case MC_CTL_CANCEL:
        ctl->cancel = true;
        break;
    case MC_CTL_UPSERT:
        ctl->upsert = true;
        break;
    case MC_CTL_HELP:
    case MC_CTL_VERSION:
    case MC_CTL_OPTIONS_COUNT:
        break;
    }
    return MC_EXIT_OK;
}

/* One word that starts with "-". *at is its index and moves on if its value is the next word. */
static enum mc_exit read_option(struct mc_ctl *ctl, int argc, char **argv, int *at, unsigned *given)
{
    const char *word = argv[*at];
    const char *value = strchr(word, '=');
    char name[NAME_LEN_MAX + 1];
    size_t len = value != NULL ? (size_t)(value - word) : strlen(word);
    size_t option = 0;

    if (strcmp(word, "-h") == 0) {
        word = "--help";
        len = strlen(word);
    }
    if (word[1] != '-' || len - 2 > NAME_LEN_MAX) {
        return mc_fail_plain(ctl, MC_EXIT_USAGE,
                             "unknown option \"%.80s\": a word that starts with - goes after --",
                             word);
    }
    for (size_t i = 2; i <= len; i++) {
        name[i - 2] = i == len ? '\0' : word[i] == '_' ? '-' : word[i];
    }
    while (option < MC_CTL_OPTIONS_COUNT && strcmp(name, options[option].name) != 0) {
        option++;
    }
    if (option == MC_CTL_OPTIONS_COUNT) {
        return fail_option(ctl, name);
    }
    if (options[option].value == NULL && value != NULL) {
        return mc_fail_plain(ctl, MC_EXIT_USAGE, "--%s takes no value", name);
    }
    if (options[option].value != NULL && value == NULL && *at + 1 == argc) {
        return mc_fail_plain(ctl, MC_EXIT_USAGE, "--%s needs a value: --%s=%s", name, name,
                             options[option].value);
    }
    if (options[option].value != NULL) {
        value = value != NULL ? value + 1 : argv[++*at];
    }
    *given |= MC_OPTION_BIT(option);
    return set_option(ctl, (enum mc_ctl_option)option, value);
}

/* Do the words and options suit the command? */
static enum mc_exit check(const struct mc_ctl *ctl, const struct mc_command *command,
                          unsigned given)
{
    unsigned wrong = given & ~(command->options | MC_COMMON_OPTIONS);

    for (size_t i = 0; i < MC_CTL_OPTIONS_COUNT; i++) {
        if ((wrong & MC_OPTION_BIT(i)) != 0) {
            return mc_fail_plain(ctl, MC_EXIT_USAGE, "%s does not take --%s: mooncakectl help %s",
                                 command->name, options[i].name, command->name);
        }
    }
    if (ctl->words_count < command->words_min || ctl->words_count > command->words_max) {
        return mc_fail_plain(ctl, MC_EXIT_USAGE,
                             "%s: too %s words: it is used as: mooncakectl %s%s%s", command->name,
                             ctl->words_count < command->words_min ? "few" : "many", command->name,
                             command->synopsis[0] != '\0' ? " " : "", command->synopsis);
    }
    return command->check == NULL ? MC_EXIT_OK : command->check(ctl);
}

/* Tell words from options; the words move to the front of argv. */
static enum mc_exit read_words(struct mc_ctl *ctl, int argc, char **argv, unsigned *given,
                               size_t *out_words)
{
    bool options_end = false;
    size_t words = 0;

    for (int i = 1; i < argc; i++) {
        if (!options_end && strcmp(argv[i], "--") == 0) {
            options_end = true;
        } else if (!options_end && argv[i][0] == '-' && argv[i][1] != '\0') {
            enum mc_exit status = read_option(ctl, argc, argv, &i, given);

            if (status != MC_EXIT_OK) {
                return status;
            }
        } else {
            argv[words++] = argv[i];
            if (words == 1 && strcmp(argv[0], "bench") == 0) { /* the rest is another program's */
                while (++i < argc) {
                    argv[words++] = argv[i];
                }
            }
        }
    }
    argv[words] = NULL; /* argv has a place for it */
    *out_words = words;
    return MC_EXIT_OK;
}

enum mc_exit mc_args_parse(int argc, char **argv, struct mc_ctl *out_ctl,
                           const struct mc_command **out_command)
{
    struct mc_ctl *ctl = out_ctl;
    enum mc_exit status;
    unsigned given = 0;
    size_t words = 0;
    bool help;

    /* Ahead of the rest: also a fault before --json is to be told as JSON. */
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        ctl->json = ctl->json || strcmp(argv[i], "--json") == 0;
    }
    status = read_words(ctl, argc, argv, &given, &words);
    if (status != MC_EXIT_OK) {
        return status;
    }
    ctl->topic = words > 0 ? argv[0] : NULL;
    ctl->words = argv + 1;
    ctl->words_count = words > 0 ? words - 1 : 0;
    help = ctl->topic != NULL && strcmp(ctl->topic, "help") == 0;
    if (help) {
        ctl->topic = ctl->words_count > 0 ? ctl->words[0] : NULL;
    }
    if (help || (given & MC_OPTION_BIT(MC_CTL_HELP)) != 0) {
        *out_command = mc_command_find("help");
        return MC_EXIT_OK;
    }
    if ((given & MC_OPTION_BIT(MC_CTL_VERSION)) != 0) {
        *out_command = mc_command_find("version");
        return MC_EXIT_OK;
    }
    if (ctl->topic == NULL) {
        return mc_fail_plain(ctl, MC_EXIT_USAGE,
                             "say what to do: mooncakectl help lists the commands");
    }
    *out_command = mc_command_find(ctl->topic);
    if (*out_command == NULL) {
        return mc_fail_command(ctl, ctl->topic);
    }
    return check(ctl, *out_command, given);
}

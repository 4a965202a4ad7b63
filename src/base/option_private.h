/*
 * What the files of `option` share: the object, lookup by name, and values by kind. For option*.c
 * only.
 */
#ifndef MC_BASE_OPTION_PRIVATE_H
#define MC_BASE_OPTION_PRIVATE_H

#include "base/option.h"

/* Longest name of an option in bytes, NUL included. */
#define MC_OPTION_NAME_CAP 64u
/* Room for a value in quotes, cut to a bearable length, for a sentence. */
#define MC_OPTION_QUOTE_CAP 96u
/* Room for any value but texts. */
#define MC_OPTION_VALUE_CAP 48u

/* Where a value came from; a later one wins. */
enum mc_option_level {
    MC_OPTION_FROM_DEFAULT,
    MC_OPTION_FROM_FILE,
    MC_OPTION_FROM_ENVIRONMENT,
    MC_OPTION_FROM_FLAG,
};

struct mc_option_state {
    enum mc_option_level level;
    char *source;        /* owned; NULL stands for "default" */
    char *default_value; /* owned; as it is shown */
};

struct mc_options {
    const char *program;           /* borrowed */
    const struct mc_option *table; /* borrowed */
    size_t count;
    void *target; /* borrowed; the texts in it are owned */
    struct mc_option_state *states;
    char *config_path;   /* owned; NULL: none */
    char *config_source; /* owned */
    bool help, version, print_config;
};

/** Index of the option called @p name or having it as alias, - and _ alike; -1 if there is none. */
int mc_option_find(const struct mc_options *options, const char *name);
/** Set the sentence about an unknown @p name, with the nearest known one. Returns EINVAL. */
mooncake_err mc_option_unknown(const struct mc_options *options, const char *name,
                               const char *source);
/** Set option @p index from @p value. The sentence names all. EINVAL, ENOMEM. */
mooncake_err mc_option_assign(struct mc_options *options, size_t index, const char *value,
                              enum mc_option_level level, const char *source) MC_MUST_CHECK;
/** A list starts anew when a higher level speaks first: drop what a lower level has put there. */
void mc_option_list_clear(struct mc_options *options, size_t index);
/** Read the JSON file at options->config_path. EINVAL, ENOMEM. */
mooncake_err mc_option_read_file(struct mc_options *options) MC_MUST_CHECK;
/** MOONCAKE_<NAME> for @p name. @p out holds MC_OPTION_NAME_CAP + 16 bytes. */
void mc_option_environment_name(const char *name, char *out, size_t cap);

/* ---- values by kind ---------------------------------------------------------------------- */

/** Parse @p text as @p option's kind into the field; frees an old text. Lists are appended to. */
mooncake_err mc_option_value_set(const struct mc_option *option, void *target,
                                 const char *text) MC_MUST_CHECK;
/** Free what the field owns and zero it. */
void mc_option_value_clear(const struct mc_option *option, void *target);
/** The field's value as text that parses to the same value. @p out serves numbers; a list is put
 * into *list, which the caller frees. */
const char *mc_option_value_text(const struct mc_option *option, const void *target, char *out,
                                 size_t cap, char **list);
/** Unit of a number without one; "": it has none. */
const char *mc_option_unit(const struct mc_option *option);
/** A word for help: "SIZE". */
const char *mc_option_kind_word(enum mc_option_kind kind);

/** @p text in quotes, at most 60 bytes of it, other than printable bytes shown as '?'. */
const char *mc_option_quote(const char *text, char out[MC_OPTION_QUOTE_CAP]);

#endif

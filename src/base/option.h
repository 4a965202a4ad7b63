/*
 * Options from tables. A module lists its options once; from the table come the defaults, the JSON
 * file's keys, the environment's names, the flags, --help and --print-config. Later sources win:
 * default, JSON file, environment, flag. Start-up code: not thread-safe, not fast.
 *
 *     struct conf { uint16_t rpc_port; uint64_t lease_ms; char *name; };
 *     static const struct mc_option options[] = {
 *         MC_OPTION(struct conf, rpc_port, PORT, "50051", "port for RPC; 0 lets the kernel pick"),
 *         ...
 *     };
 */
#ifndef MC_BASE_OPTION_H
#define MC_BASE_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

/* Kind, and the type of the struct's field. */
enum mc_option_kind {
    MC_OPTION_BOOL,    /* bool; true|false|1|0|yes|no|on|off; a bare flag is true */
    MC_OPTION_U32,     /* uint32_t; decimal */
    MC_OPTION_U64,     /* uint64_t; decimal */
    MC_OPTION_PORT,    /* uint16_t; 0 to 65535 */
    MC_OPTION_RATIO,   /* double; 0 to 1, no NaN */
    MC_OPTION_SIZE,    /* uint64_t bytes; "4GiB" */
    MC_OPTION_MS,      /* uint64_t milliseconds; "10s", "250ms", a plain number is ms */
    MC_OPTION_SECONDS, /* uint64_t milliseconds; as MS but a plain number is seconds */
    MC_OPTION_TEXT,    /* char *, owned by the struct, never NULL */
    MC_OPTION_TEXTS,   /* struct mc_option_texts; a repeatable flag; JSON array of strings; in the
                        * environment one value with commas. A later source replaces the list */
};

struct mc_option_texts {
    char **items; /* owned */
    size_t count;
};

struct mc_option {
    const char *name; /* with underscores: "rpc_port" */
    enum mc_option_kind kind;
    size_t offset;            /* of the field in the struct */
    const char *default_text; /* parsed like a flag's value; NULL: zero or "" */
    const char *help;         /* a sentence with the unit, without a period */
    const char *alias;        /* another name for the same option, or NULL */
    uint64_t min, max;        /* allowed range of a number, in the field's unit; both 0: any */
    const char *unit;         /* of a number without one: "us"; NULL: as the kind has it */
};

/* MC_OPTION(struct, field, kind, default, help [, .min = .., .max = .., .alias = ..]): what follows
 * the default starts with the help, because C11 wants at least one argument for the dots. */
#define MC_OPTION(type, field, option_kind, text, ...)                                             \
    {                                                                                              \
        .name = #field, .kind = MC_OPTION_##option_kind, .offset = offsetof(type, field),          \
        .default_text = (text), .help = __VA_ARGS__                                                \
    }

struct mc_options;

/**
 * @param program  for messages; borrowed. Variables of the environment are MOONCAKE_<NAME>, upper
 *                 case; an empty one counts as unset
 * @param table    borrowed for the life of the result
 * @param target   the struct to fill; zeroed by the caller; defaults are set here
 * ENOMEM. A bad default is a bug (asserted).
 */
mooncake_err mc_options_create(const char *program, const struct mc_option *table, size_t count,
                               void *target, struct mc_options **out) MC_MUST_CHECK;
/** Frees texts in the target as well. */
void mc_options_destroy(struct mc_options **options);

/**
 * Read JSON file, environment and flags. Flags: --name=value, --name value, -name=value, with -
 * or _ in names. --config_path names the JSON file (also MOONCAKE_CONFIG_FILE). Words that are no
 * flags are left in *argv, argc adjusted, argv[0] kept; with @p words_max 0 such a word is an
 * error.
 *
 * @retval EINVAL  the sentence is in mooncake_last_error(): the option, the value, where it came
 *                 from, what is allowed; for an unknown name, the nearest known one
 */
mooncake_err mc_options_read(struct mc_options *options, int *argc, char **argv,
                             int words_max) MC_MUST_CHECK;

/** Set one option from text, as a flag would. For library callers. EINVAL as above. */
mooncake_err mc_options_set(struct mc_options *options, const char *name, const char *value,
                            const char *source) MC_MUST_CHECK;

/** Was --help, --version or --print-config given? */
bool mc_options_asked(const struct mc_options *options, const char *name);
/** Usage text: one option a line, with default, unit and environment name. */
void mc_options_print_help(const struct mc_options *options, FILE *out, const char *synopsis);
/** One line an option: name = value (source). */
void mc_options_print(const struct mc_options *options, FILE *out);
/* One option as it stands. Texts live until the visit returns. */
struct mc_option_view {
    const char *name, *value, *default_value, *help;
    const char *source; /* "default", "file /etc/x.json", "environment MOONCAKE_X", "flag" */
    const char *unit;   /* of a number without one: "ms"; "": it has none */
};

/** Call @p visit for each option. */
void mc_options_visit(const struct mc_options *options,
                      void (*visit)(void *arg, const struct mc_option_view *view), void *arg);

/* The parsers themselves. On EINVAL *out is untouched; the sentence names neither option nor
 * source (the caller knows those): it is in mooncake_last_error(). */

/** "4096", "64KiB", "64KB", "64K", "4.5gb": K M G T, with iB or B, all powers of 1024, in any
 * case, a space allowed before the unit. Refuses <= 0, NaN, overflow, leftovers. */
mooncake_err mc_parse_size(const char *text, uint64_t *out_bytes) MC_MUST_CHECK;
/** "250ms", "10s", "5m", "2h", or a plain number in units of @p plain_ms milliseconds. 0 is
 * allowed; negative is not. */
mooncake_err mc_parse_duration(const char *text, uint64_t plain_ms, uint64_t *out_ms) MC_MUST_CHECK;
/** "host:port", "[v6]:port", "host" with @p default_port (0: a port is needed). host_cap counts
 * the NUL. */
mooncake_err mc_parse_address(const char *text, uint16_t default_port, char *out_host,
                              size_t host_cap, uint16_t *out_port) MC_MUST_CHECK;
/** Decimal digits only, in [min, max]. */
mooncake_err mc_parse_u64(const char *text, uint64_t min, uint64_t max,
                          uint64_t *out) MC_MUST_CHECK;
/** Bytes for a person: "4.0GiB". @p out holds at least 16 bytes. Returns out. */
char *mc_format_size(uint64_t bytes, char *out, size_t cap);

#endif

/* Options from a JSON file: one flat object, each member an option. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/option.h"
#include "base/option_private.h"

/* Bytes of a configuration file: more is surely another file. */
#define FILE_LEN_MAX ((size_t)1 << 20)
/* A path is shown up to this length. */
#define SOURCE_CAP 320u

/* The file while it is read. */
struct file {
    char *text; /* owned, NUL-terminated */
    size_t len;
    char source[SOURCE_CAP]; /* "file PATH" */
};

/* All of a regular file. Others (pipes, devices) could block or never end. */
static mooncake_err read_all(const char *path, struct file *file)
{
    struct stat st;
    mooncake_err err = MOONCAKE_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0) {
        return mc_err_set(MOONCAKE_EINVAL, "config_path: cannot open \"%s\": %s", path,
                          strerror(errno));
    }
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size > FILE_LEN_MAX) {
        err = mc_err_set(MOONCAKE_EINVAL,
                         "config_path: \"%s\" is no regular file of at most %zu bytes", path,
                         FILE_LEN_MAX);
        goto close_fd;
    }
    file->text = mc_malloc((size_t)st.st_size + 1);
    if (file->text == NULL) {
        err = MOONCAKE_ENOMEM;
        goto close_fd;
    }
    while (file->len < (size_t)st.st_size) {
        ssize_t n = read(fd, file->text + file->len, (size_t)st.st_size - file->len);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            err = mc_err_set(MOONCAKE_EINVAL, "config_path: cannot read \"%s\": %s", path,
                             strerror(errno));
            goto close_fd;
        }
        if (n == 0) {
            break; /* it has become shorter */
        }
        file->len += (size_t)n;
    }
    file->text[file->len] = '\0';

close_fd:
    (void)close(fd);
    return err;
}

/* Line of the member @p key, counted from 1. The parser does not tell; members are flat, so the
 * first "key" that a colon follows is it. 0 if it is written with escapes and cannot be found. */
static unsigned line_of(const struct file *file, const char *key)
{
    size_t key_len = strlen(key);
    unsigned line = 1;

    for (const char *at = file->text; *at != '\0'; at++) {
        line += *at == '\n' ? 1 : 0;
        if (*at == '"' && strncmp(at + 1, key, key_len) == 0 && at[1 + key_len] == '"') {
            const char *after = at + key_len + 2;

            if (after[strspn(after, " \t\r\n")] == ':') {
                return line;
            }
        }
    }
    return 0;
}

static const char *kind_wanted(enum mc_option_kind kind)
{
    switch (kind) {
    case MC_OPTION_BOOL:
        return "true or false";
    case MC_OPTION_U32:
    case MC_OPTION_U64:
    case MC_OPTION_PORT:
        return "a whole number";
    case MC_OPTION_RATIO:
        return "a number from 0 to 1";
    case MC_OPTION_SIZE:
        return "a number of bytes or a string such as \"4GiB\"";
    case MC_OPTION_MS:
        return "a number of milliseconds or a string such as \"250ms\"";
    case MC_OPTION_SECONDS:
        return "a number of seconds or a string such as \"10s\"";
    case MC_OPTION_TEXT:
        return "a string";
    case MC_OPTION_TEXTS:
        return "an array of strings";
    }
    return "another type";
}

/* The scalar @p value as the text a flag would have; NULL if its type does not suit @p kind. */
static const char *scalar_text(const json_t *value, enum mc_option_kind kind, char *out, size_t cap)
{
    if (json_is_string(value)) {
        return json_string_value(value);
    }
    if (kind == MC_OPTION_BOOL) {
        return json_is_boolean(value) ? (json_is_true(value) ? "true" : "false") : NULL;
    }
    if (kind == MC_OPTION_TEXT || kind == MC_OPTION_TEXTS) {
        return NULL;
    }
    if (json_is_integer(value)) {
        (void)snprintf(out, cap, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        return out;
    }
    if (json_is_real(value) && kind == MC_OPTION_RATIO) {
        (void)snprintf(out, cap, "%.17g", json_real_value(value));
        return out;
    }
    return NULL;
}

static mooncake_err refuse_type(const struct mc_options *options, size_t index, const json_t *value,
                                const char *source)
{
    char quoted[MC_OPTION_QUOTE_CAP];
    char dump[256] = {0}; /* what does not fit is left out; the quote is shorter still */

    (void)json_dumpb(value, dump, sizeof(dump) - 1,
                     JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
    return mc_err_set(MOONCAKE_EINVAL, "%s: the value %s must be %s (from %s)",
                      options->table[index].name, mc_option_quote(dump, quoted),
                      kind_wanted(options->table[index].kind), source);
}

static mooncake_err apply_member(struct mc_options *options, size_t index, const json_t *value,
                                 const char *source, const char *where)
{
    const struct mc_option *option = &options->table[index];
    bool array = option->kind == MC_OPTION_TEXTS && json_is_array(value);
    size_t count = array ? json_array_size(value) : 1;

    if (array && count == 0) {
        mc_option_list_clear(options, index); /* an empty list is a value as well */
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *item = array ? json_array_get(value, i) : value;
        char number[MC_OPTION_VALUE_CAP];
        const char *text = scalar_text(item, option->kind, number, sizeof(number));
        mooncake_err err;

        if (text == NULL) {
            return refuse_type(options, index, value, where);
        }
        err = mc_option_assign(options, index, text, MC_OPTION_FROM_FILE, source);
        if (err == MOONCAKE_EINVAL) { /* say it again with the line */
            err = mc_option_assign(options, index, text, MC_OPTION_FROM_FILE, where);
        }
        MC_TRY(err);
    }
    return MOONCAKE_OK;
}

static mooncake_err apply_object(struct mc_options *options, const struct file *file, json_t *root)
{
    const char *key;
    json_t *value;

    json_object_foreach(root, key, value)
    {
        char where[SOURCE_CAP + 32];
        unsigned line = line_of(file, key);
        int index = mc_option_find(options, key);

        (void)snprintf(where, sizeof(where), "%s line %u", file->source, line);
        if (line == 0) {
            (void)snprintf(where, sizeof(where), "%s", file->source);
        }
        if (index < 0) {
            return mc_option_unknown(options, key, where);
        }
        if (options->states[index].level == MC_OPTION_FROM_FILE) {
            return mc_err_set(MOONCAKE_EINVAL, "%s: given twice (from %s); keep one",
                              options->table[index].name, where);
        }
        MC_TRY(apply_member(options, (size_t)index, value, file->source, where));
    }
    return MOONCAKE_OK;
}

mooncake_err mc_option_read_file(struct mc_options *options)
{
    struct file file = {0};
    json_error_t at;
    json_t *root = NULL;
    mooncake_err err;

    (void)snprintf(file.source, sizeof(file.source), "file %s", options->config_path);
    err = read_all(options->config_path, &file);
    if (err != MOONCAKE_OK) {
        goto free_text;
    }
    root = json_loadb(file.text, file.len, JSON_REJECT_DUPLICATES, &at);
    if (root == NULL && json_error_code(&at) == json_error_out_of_memory) {
        err = MOONCAKE_ENOMEM;
    } else if (root == NULL) {
        err = mc_err_set(MOONCAKE_EINVAL, "%s line %d column %d: not JSON: %s", file.source,
                         at.line, at.column, at.text);
    } else if (!json_is_object(root)) {
        err = mc_err_set(MOONCAKE_EINVAL, "%s line 1: must be one JSON object {\"option\": value}",
                         file.source);
    } else {
        err = apply_object(options, &file, root);
    }
    json_decref(root);

free_text:
    mc_free(file.text);
    return err;
}

/* Commands on objects: put, get, exist, rm. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "files.h"
#include "mooncake/observe.h"
#include "output.h"
#include "progress.h"

/* How a key stands in a message: enough of it to know which one. */
#define KEY "\"%.80s\""

static enum mc_exit check_keys(const struct mc_ctl *ctl, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(ctl->words[i]);

        if (len == 0 || len > MOONCAKE_KEY_MAX) {
            return mc_fail(ctl, MOONCAKE_EBADKEY, "%s: the key " KEY " has %zu bytes", ctl->topic,
                           ctl->words[i], len);
        }
    }
    return MC_EXIT_OK;
}

enum mc_exit mc_check_key(const struct mc_ctl *ctl)
{
    return check_keys(ctl, 1);
}

enum mc_exit mc_check_keys(const struct mc_ctl *ctl)
{
    return check_keys(ctl, ctl->words_count);
}

/* "No space" of a pool without memory has another cure than that of a full one. */
static bool has_no_stores(struct mc_ctl *ctl)
{
    mooncake_pool_status status;

    (void)memset(&status, 0, sizeof(status));
    status.struct_size = sizeof(status);
    return mooncake_admin_status(ctl->client, ctl->timeout_ms, &status) == MOONCAKE_OK &&
           status.segments == 0;
}

enum mc_exit mc_cmd_put(struct mc_ctl *ctl)
{
    const char *key = ctl->words[0];
    mooncake_client_stats stats = {.struct_size = sizeof(stats)};
    mooncake_put_options options;
    char number[MC_NUMBER_CAP];
    enum mc_exit status;
    void *data = NULL;
    uint64_t len = 0;
    mooncake_err err;
    json_t *object;

    status = mc_file_read(ctl, ctl->words[1], &data, &len);
    if (status != MC_EXIT_OK) {
        return status;
    }
    mooncake_put_options_init(&options);
    if (ctl->replicas != 0) {
        options.replicas = ctl->replicas;
    }
    options.soft_pin = ctl->soft_pin;
    options.hard_pin = ctl->hard_pin;
    options.upsert = ctl->upsert;
    err = mooncake_put(ctl->client, key, data, len, &options, ctl->timeout_ms);
    free(data);
    if (err == MOONCAKE_ENOSPACE && has_no_stores(ctl)) {
        return mc_fail_plain(ctl, MC_EXIT_FAILED,
                             "cannot put " KEY ": no store has joined the pool; start one with "
                             "mooncake_store --segment=SIZE [ENOSPACE -200]",
                             key);
    }
    if (err != MOONCAKE_OK) {
        status = mc_fail(ctl, err, "cannot put " KEY, key);
        if (err == MOONCAKE_ENOSPACE) {
            (void)fputs("mooncakectl: mooncakectl why-full shows what keeps the space\n", stderr);
        }
        return status;
    }
    if (mooncake_client_get_stats(ctl->client, &stats) == MOONCAKE_OK && stats.puts_degraded > 0) {
        (void)fprintf(stderr,
                      "mooncakectl: there was no room for as many copies as were wished (%u): "
                      "mooncakectl key shows where they are, why-full what keeps the space\n",
                      (unsigned)options.replicas);
    }
    if (ctl->json) {
        object = mc_json_object();
        mc_json_set(object, "key", mc_json_text(key));
        mc_json_set(object, "len", mc_json_number(len));
        mc_json_print(object);
    } else {
        (void)fputs("put ", stdout);
        mc_print_bytes(stdout, key, strlen(key));
        (void)printf(": %s\n", mc_format_size(len, number));
    }
    return MC_EXIT_OK;
}

enum mc_exit mc_cmd_get(struct mc_ctl *ctl)
{
    const char *key = ctl->words[0];
    const char *path = ctl->words_count > 1 ? ctl->words[1] : "-";
    enum mc_exit status;
    void *data = NULL;
    uint64_t len = 0;
    mooncake_err err;
    json_t *object;

    if (ctl->json && strcmp(path, "-") == 0) {
        return mc_fail_plain(ctl, MC_EXIT_USAGE,
                             "get: a value is no JSON: name a FILE to write it to, or leave out "
                             "--json");
    }
    err = mooncake_get(ctl->client, key, ctl->timeout_ms, &data, &len);
    if (err != MOONCAKE_OK) {
        return mc_fail(ctl, err, "cannot get " KEY, key);
    }
    status = mc_file_write(ctl, path, data, len);
    mooncake_free(data);
    if (status == MC_EXIT_OK && ctl->json) {
        object = mc_json_object();
        mc_json_set(object, "key", mc_json_text(key));
        mc_json_set(object, "len", mc_json_number(len));
        mc_json_set(object, "file", mc_json_text(path));
        mc_json_print(object);
    }
    return status;
}

/* The status of a batch: a failure counts for more than a "no". */
static enum mc_exit worse(enum mc_exit a, enum mc_exit b)
{
    return a > b ? a : b;
}

static void add_item(json_t *list, const char *key, const char *field, mooncake_err err)
{
    json_t *item = mc_json_object();

    mc_json_set(item, "key", mc_json_text(key));
    if (err == MOONCAKE_OK || err == MOONCAKE_ENOENT) {
        mc_json_set(item, field, json_boolean(err == MOONCAKE_OK));
    } else {
        mc_json_set(item, "error", json_string(mooncake_err_name(err)));
        mc_json_set(item, "code", json_integer(err));
        mc_json_set(item, "message", json_string(mooncake_err_text(err)));
    }
    mc_json_append(list, item);
}

static void print_item(const char *key, const char *yes, const char *no, mooncake_err err)
{
    FILE *out = err == MOONCAKE_OK || err == MOONCAKE_ENOENT ? stdout : stderr;

    (void)fputs(err == MOONCAKE_OK ? yes : err == MOONCAKE_ENOENT ? no : "mooncakectl: ", out);
    mc_print_bytes(out, key, strlen(key) > 80 ? 80 : strlen(key));
    if (out == stderr) {
        (void)fprintf(out, ": %s%s [%s %d]", mooncake_err_text(err),
                      err == MOONCAKE_ELEASED ? ": try again later, or use --force" : "",
                      mooncake_err_name(err), (int)err);
    }
    (void)fputc('\n', out);
}

/* Tell the results of a batch of all words; field names the answer in JSON. */
static enum mc_exit tell_batch(const struct mc_ctl *ctl, const mooncake_err *results,
                               const char *field, const char *yes, const char *no)
{
    json_t *list = ctl->json ? mc_json_array() : NULL;
    enum mc_exit status = MC_EXIT_OK;

    for (size_t i = 0; i < ctl->words_count; i++) {
        status = worse(status, mc_exit_of(results[i]));
        if (ctl->json) {
            add_item(list, ctl->words[i], field, results[i]);
        } else {
            print_item(ctl->words[i], yes, no, results[i]);
        }
    }
    if (ctl->json) {
        mc_json_print_field("keys", list);
    }
    return status;
}

enum mc_exit mc_cmd_exist(struct mc_ctl *ctl)
{
    mooncake_err *results = mc_need(calloc(ctl->words_count, sizeof(*results)));
    enum mc_exit status;
    mooncake_err err;

    err = mooncake_batch_exist(ctl->client, (const char *const *)ctl->words, ctl->words_count,
                               ctl->timeout_ms, results);
    if (err == MOONCAKE_OK) {
        status = tell_batch(ctl, results, "exists", "yes ", "no  ");
    } else {
        status = mc_fail(ctl, err, "cannot ask for %zu keys", ctl->words_count);
    }
    free(results);
    return status;
}

static void print_left(const struct mc_ctl *ctl, const mooncake_removal *removal)
{
    char numbers[2][MC_NUMBER_CAP];

    if (removal->left_leased > 0) {
        (void)printf("left %s that are leased: %s\n",
                     mc_format_count(removal->left_leased, numbers[0]),
                     ctl->force ? "they were read meanwhile"
                                : "try again when their leases have ended, or use --force");
    }
    if (removal->left_writing > 0) {
        (void)printf("left %s that are being written: they go when their puts have ended\n",
                     mc_format_count(removal->left_writing, numbers[1]));
    }
}

/* All keys, or those with the pattern. */
static enum mc_exit remove_many(struct mc_ctl *ctl)
{
    struct mc_progress *progress;
    mooncake_removal removal;
    char number[MC_NUMBER_CAP];
    mooncake_err err;
    json_t *object;

    (void)memset(&removal, 0, sizeof(removal));
    removal.struct_size = sizeof(removal);
    progress = mc_progress_begin(ctl);
    err = mooncake_admin_remove(ctl->client, ctl->all ? NULL : ctl->pattern, ctl->force,
                                ctl->timeout_ms, &removal);
    mc_progress_end(&progress);
    if (err != MOONCAKE_OK) {
        return mc_fail(ctl, err, "cannot remove %s", ctl->all ? "all keys" : "by pattern");
    }
    if (ctl->json) {
        object = mc_json_object();
        mc_json_set(object, "removed", mc_json_number(removal.removed));
        mc_json_set(object, "left", mc_json_number(removal.left_leased + removal.left_writing));
        mc_json_set(object, "left_leased", mc_json_number(removal.left_leased));
        mc_json_set(object, "left_writing", mc_json_number(removal.left_writing));
        mc_json_print(object);
    } else {
        (void)printf("removed %s\n", mc_format_count(removal.removed, number));
        print_left(ctl, &removal);
    }
    return MC_EXIT_OK;
}

enum mc_exit mc_check_rm(const struct mc_ctl *ctl)
{
    int ways = (ctl->all ? 1 : 0) + (ctl->pattern != NULL ? 1 : 0) + (ctl->words_count > 0 ? 1 : 0);

    if (ways != 1) {
        return mc_fail_plain(ctl, MC_EXIT_USAGE,
                             "rm: name keys, or give --pattern, or say --all: one of the three");
    }
    return mc_check_keys(ctl);
}

enum mc_exit mc_cmd_rm(struct mc_ctl *ctl)
{
    mooncake_err *results;
    enum mc_exit status;
    mooncake_err err;

    if (ctl->words_count == 0) {
        return remove_many(ctl);
    }
    results = mc_need(calloc(ctl->words_count, sizeof(*results)));
    err = mooncake_batch_remove(ctl->client, (const char *const *)ctl->words, ctl->words_count,
                                ctl->force, ctl->timeout_ms, results);
    if (err == MOONCAKE_OK) {
        status = tell_batch(ctl, results, "removed", "removed ", "no such key: ");
    } else {
        status = mc_fail(ctl, err, "cannot remove %zu keys", ctl->words_count);
    }
    free(results);
    return status;
}

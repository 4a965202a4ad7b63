/*
 * What operators ask: the pool, its segments and members, one key, where the bytes are.
 *
 * Shows: mooncake_admin_status mooncake_admin_segments mooncake_admin_clients mooncake_admin_key
 *        mooncake_admin_space mooncake_admin_config mooncake_admin_options
 *        mooncake_admin_removed
 *
 * Prints:
 *     capacity 64 MiB in 1 segment, 1 key
 *     segment ...: ok
 *     store on ...
 *     key: readable, 5 bytes, 1 copy
 *     the books agree: all is free but 128 bytes
 *     rpc_port = ...
 *     client_ttl = 10s, counted in s
 *     removed by removals under way: 0
 */
#include <mooncake/admin.h>
#include <stdio.h>
#include <string.h>

static void show_segment(void *arg, const mooncake_segment_status *segment)
{
    (void)arg;
    printf("segment %s: %s\n", segment->name, segment->state);
}

static void show_client(void *arg, const mooncake_client_status *status)
{
    (void)arg;
    if (strcmp(status->role, "store") == 0) {
        printf("store on %s\n", status->host);
    }
}

static void show_key(void *arg, const mooncake_key_status *status)
{
    (void)arg;
    printf("key: %s, %llu bytes, %u copy\n", status->state, (unsigned long long)status->len,
           status->replicas);
}

static void show_option(void *arg, const char *name, const char *value, const char *source,
                        const char *help)
{
    (void)arg;
    (void)source;
    (void)help;
    if (strcmp(name, "rpc_port") == 0) {
        printf("%s = %s\n", name, value);
    }
}

static void show_ttl(void *arg, const mooncake_option_status *option)
{
    (void)arg;
    if (strcmp(option->name, "client_ttl") == 0) {
        printf("%s = %s, counted in %s\n", option->name, option->value, option->unit);
    }
}

static mooncake_err show_all(mooncake_client *client)
{
    mooncake_pool_status pool = {.struct_size = sizeof(pool)};
    mooncake_space_status space = {.struct_size = sizeof(space)};
    char mismatch[256];
    uint64_t removed = 0;
    mooncake_err err = mooncake_admin_status(client, 0, &pool);

    if (err == MOONCAKE_OK) {
        printf("capacity %llu MiB in %llu segment, %llu key\n",
               (unsigned long long)(pool.capacity >> 20), (unsigned long long)pool.segments,
               (unsigned long long)pool.keys);
        err = mooncake_admin_segments(client, 0, show_segment, NULL);
    }
    if (err == MOONCAKE_OK) {
        err = mooncake_admin_clients(client, 0, show_client, NULL);
    }
    if (err == MOONCAKE_OK) {
        err = mooncake_admin_key(client, "asked", 0, show_key, NULL);
    }
    if (err == MOONCAKE_OK) {
        err = mooncake_admin_space(client, true, 0, &space, mismatch, sizeof(mismatch));
    }
    if (err == MOONCAKE_OK && mismatch[0] == '\0') {
        printf("the books agree: all is free but %llu bytes\n",
               (unsigned long long)(space.capacity - space.free));
    }
    if (err == MOONCAKE_OK) {
        err = mooncake_admin_config(client, 0, show_option, NULL);
    }
    if (err == MOONCAKE_OK) {
        err = mooncake_admin_options(client, 0, show_ttl, NULL);
    }
    if (err == MOONCAKE_OK) { /* from another thread than one that waits for a removal */
        err = mooncake_admin_removed(client, 0, &removed);
    }
    if (err == MOONCAKE_OK) {
        printf("removed by removals under way: %llu\n", (unsigned long long)removed);
    }
    return err;
}

int main(void)
{
    mooncake_client_options options;
    mooncake_client *client = NULL;
    mooncake_err err;

    mooncake_client_options_init(&options);
    options.tool = true; /* does not count as a client of the pool */
    err = mooncake_client_open(&options, &client);
    if (err == MOONCAKE_OK) {
        err = mooncake_put(client, "asked", "value", 5, NULL, 0);
    }
    if (err == MOONCAKE_OK) {
        err = show_all(client);
        (void)mooncake_remove(client, "asked", true, 0);
    }
    if (err != MOONCAKE_OK) {
        fprintf(stderr, "%s\n", mooncake_last_error());
    }
    mooncake_client_close(client);
    return err == MOONCAKE_OK ? 0 : 1;
}

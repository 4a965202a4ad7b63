/*
 * Stop a store without a surprise: what only it has, no new data there, and back again. And what
 * became of a key.
 *
 * Shows: mooncake_admin_drain mooncake_admin_sole_keys mooncake_admin_why_miss
 *
 * Prints:
 *     a key that is nowhere else: precious
 *     1 key in 128 bytes is lost if its store stops
 *     1 segment takes nothing new
 *     0 segments take nothing new
 *     afterwards: removed
 */
#include <mooncake/admin.h>
#include <stdio.h>

static void keep_mount(void *arg, const mooncake_segment_status *segment)
{
    uint64_t *mount_id = arg;

    *mount_id = segment->mount_id;
}

static bool show_key(void *arg, const char *key, size_t key_len)
{
    (void)arg;
    printf("a key that is nowhere else: %.*s\n", (int)key_len, key);
    return true;
}

static void show_miss(void *arg, const mooncake_miss *miss)
{
    (void)arg;
    printf("afterwards: %s\n", miss->fate);
}

static mooncake_err drain(mooncake_client *client)
{
    mooncake_drain_status status = {.struct_size = sizeof(status)};
    mooncake_sole_keys sums = {.struct_size = sizeof(sums)};
    uint64_t mount_id = 0;
    mooncake_err err = mooncake_admin_segments(client, 0, keep_mount, &mount_id);

    if (err == MOONCAKE_OK) {
        err = mooncake_admin_sole_keys(client, &mount_id, 1, 10, 0, show_key, NULL, &sums);
    }
    if (err == MOONCAKE_OK) {
        printf("%llu key in %llu bytes is lost if its store stops\n",
               (unsigned long long)sums.sole_keys, (unsigned long long)sums.sole_bytes);
        err = mooncake_admin_drain(client, &mount_id, 1, MOONCAKE_DRAIN_BEGIN, 0, &status);
    }
    if (err == MOONCAKE_OK) {
        /* Ask again with MOONCAKE_DRAIN_LOOK until leased, reading and writing are 0. */
        printf("%llu segment takes nothing new\n", (unsigned long long)status.draining);
        err = mooncake_admin_drain(client, &mount_id, 1, MOONCAKE_DRAIN_CANCEL, 0, &status);
    }
    if (err == MOONCAKE_OK) {
        printf("%llu segments take nothing new\n", (unsigned long long)status.draining);
    }
    return err;
}

int main(void)
{
    mooncake_client *client = NULL;
    mooncake_err err = mooncake_client_open(NULL, &client);

    if (err == MOONCAKE_OK) {
        err = mooncake_put(client, "precious", "a value.", 8, NULL, 0);
    }
    if (err == MOONCAKE_OK) {
        err = drain(client);
        (void)mooncake_remove(client, "precious", true, 0);
    }
    if (err == MOONCAKE_OK) {
        err = mooncake_admin_why_miss(client, "precious", 0, show_miss, NULL);
    }
    if (err != MOONCAKE_OK) {
        fprintf(stderr, "%s\n", mooncake_last_error());
    }
    mooncake_client_close(client);
    return err == MOONCAKE_OK ? 0 : 1;
}

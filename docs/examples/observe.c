/*
 * What a client has met, and how it reaches each store.
 *
 * Shows: mooncake_client_get_stats mooncake_client_peers
 *
 * Prints:
 *     0 puts again, 0 damaged extents
 *     1 segment, 1 MiB read over ...
 */
#include <mooncake/observe.h>
#include <stdio.h>
#include <stdlib.h>

#define LEN ((uint64_t)1 << 20)

int main(void)
{
    mooncake_client_stats stats = {.struct_size = sizeof(stats)};
    mooncake_client *client = NULL;
    mooncake_peer peers[4];
    char *value = calloc(1, LEN);
    size_t count = 0;
    mooncake_err err = mooncake_client_open(NULL, &client);

    if (value == NULL || err != MOONCAKE_OK) {
        goto done;
    }
    err = mooncake_put(client, "watched", value, LEN, NULL, 0);
    if (err == MOONCAKE_OK) {
        err = mooncake_get_into(client, "watched", value, LEN, 0, NULL);
    }
    if (err == MOONCAKE_OK) {
        err = mooncake_client_get_stats(client, &stats);
    }
    if (err == MOONCAKE_OK) {
        err = mooncake_client_peers(client, peers, 4, &count);
    }
    if (err == MOONCAKE_OK && count > 0) {
        printf("%llu puts again, %llu damaged extents\n", (unsigned long long)stats.puts_again,
               (unsigned long long)stats.damaged_extents);
        printf("%zu segment, %llu MiB read over %s\n", count,
               (unsigned long long)(peers[0].bytes_read >> 20), peers[0].transport);
    }
    (void)mooncake_remove(client, "watched", true, 0);
done:
    if (err != MOONCAKE_OK) {
        fprintf(stderr, "%s\n", mooncake_last_error());
    }
    free(value);
    mooncake_client_close(client);
    return err == MOONCAKE_OK ? 0 : 1;
}

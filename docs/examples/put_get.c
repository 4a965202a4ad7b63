/*
 * Store a value, read it back both ways, remove it.
 *
 * Shows: mooncake_client_open mooncake_client_close mooncake_put mooncake_get_into mooncake_get
 *        mooncake_free mooncake_exist mooncake_size mooncake_remove mooncake_last_error
 *
 * Prints:
 *     exists, 16 bytes: the moon is full
 *     again: the moon is full
 *     gone
 */
#include <mooncake/client.h>
#include <stdio.h>

int main(void)
{
    static const char value[] = "the moon is full";
    mooncake_client *client = NULL;
    bool exists = false;
    char buffer[64];
    void *copy = NULL;
    uint64_t len = 0;
    mooncake_err err;

    /* NULL: all defaults; the master of MOONCAKE_MASTER, or 127.0.0.1:50051. */
    err = mooncake_client_open(NULL, &client);
    if (err != MOONCAKE_OK) {
        fprintf(stderr, "%s\n", mooncake_last_error());
        return 1;
    }
    if (mooncake_put(client, "example", value, sizeof(value) - 1, NULL, 0) != MOONCAKE_OK ||
        mooncake_exist(client, "example", 0, &exists) != MOONCAKE_OK || !exists ||
        mooncake_size(client, "example", 0, &len) != MOONCAKE_OK ||
        mooncake_get_into(client, "example", buffer, sizeof(buffer), 0, &len) != MOONCAKE_OK) {
        fprintf(stderr, "%s\n", mooncake_last_error());
        mooncake_client_close(client);
        return 1;
    }
    printf("exists, %llu bytes: %.*s\n", (unsigned long long)len, (int)len, buffer);

    /* Into memory that the library allocates. */
    err = mooncake_get(client, "example", 0, &copy, &len);
    if (err == MOONCAKE_OK) {
        printf("again: %.*s\n", (int)len, (const char *)copy);
        mooncake_free(copy);
    }

    /* By force, because the reads above hold a lease of some seconds. */
    (void)mooncake_remove(client, "example", true, 0);
    err = mooncake_get_into(client, "example", buffer, sizeof(buffer), 0, &len);
    puts(err == MOONCAKE_ENOENT ? "gone" : "still there");
    mooncake_client_close(client);
    return 0;
}

/*
 * Options: of a client that lends memory to the pool, and of a put that replaces a value.
 *
 * Shows: mooncake_client_options_init mooncake_put_options_init mooncake_client_check
 *        mooncake_client_hostname mooncake_client_leave mooncake_version
 *
 * Prints:
 *     library 0.1.0, lends as example-host:7777
 *     1 copy, version 2
 *     left
 */
#include <mooncake/client.h>
#include <stdio.h>

int main(void)
{
    mooncake_client_options options;
    mooncake_put_options put;
    mooncake_client *client = NULL;
    uint32_t copies = 0;
    char buffer[16];
    uint64_t len = 0;
    mooncake_err err;

    mooncake_client_options_init(&options); /* always first */
    options.local_hostname = "example-host:7777";
    options.segment_size = 4u << 20;
    options.data_address = "127.0.0.1:0";
    options.timeout_ms = 10000;
    if (mooncake_client_open(&options, &client) != MOONCAKE_OK ||
        mooncake_client_check(client, 1000) != MOONCAKE_OK) {
        fprintf(stderr, "%s\n", mooncake_last_error());
        mooncake_client_close(client);
        return 1;
    }
    printf("library %s, lends as %s\n", mooncake_version(), mooncake_client_hostname(client));

    mooncake_put_options_init(&put);
    put.upsert = true; /* readers see the old value or the new one, each whole */
    put.soft_pin = true;
    put.copies = &copies;
    err = mooncake_put(client, "versioned", "version 1", 9, &put, 0);
    if (err == MOONCAKE_OK) {
        err = mooncake_put(client, "versioned", "version 2", 9, &put, 0);
    }
    if (err == MOONCAKE_OK) {
        err = mooncake_get_into(client, "versioned", buffer, sizeof(buffer), 0, &len);
    }
    if (err == MOONCAKE_OK) {
        printf("%u copy, %.*s\n", copies, (int)len, buffer);
    } else {
        fprintf(stderr, "%s\n", mooncake_last_error());
    }
    (void)mooncake_remove(client, "versioned", true, 0);
    if (err == MOONCAKE_OK) {
        err = mooncake_client_leave(client, 100); /* readers have 100 ms more */
        puts(err == MOONCAKE_OK ? "left" : mooncake_last_error());
    }
    mooncake_client_close(client);
    return err == MOONCAKE_OK ? 0 : 1;
}

/*
 * A thin client: a process of this host serves it, names the pool's master, and shares memory that
 * values can be put from and got into. Start `mooncake_store --serve_clients`, and give its data
 * port in MOONCAKE_SERVER.
 *
 * Shows: mooncake_pool_alloc
 *
 * Prints:
 *     from shared memory: page of an engine
 */
#include <mooncake/client.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
    static const char text[] = "page of an engine";
    mooncake_client_options options;
    mooncake_client *client = NULL;
    void *page = NULL;
    char back[32];
    uint64_t len = 0;
    mooncake_err err;

    mooncake_client_options_init(&options);
    options.server = getenv("MOONCAKE_SERVER"); /* "127.0.0.1:12345"; the master is not needed */
    options.pool_size = 1u << 20;
    err = mooncake_client_open(&options, &client);
    if (err == MOONCAKE_OK) {
        err = mooncake_pool_alloc(client, sizeof(text), &page);
    }
    if (err == MOONCAKE_OK) {
        memcpy(page, text, sizeof(text));
        err = mooncake_put(client, "thin", page, sizeof(text), NULL, 0);
    }
    if (err == MOONCAKE_OK) {
        err = mooncake_get_into(client, "thin", back, sizeof(back), 0, &len);
        (void)mooncake_remove(client, "thin", true, 0);
    }
    if (err == MOONCAKE_OK) {
        printf("from shared memory: %s\n", back);
    } else {
        fprintf(stderr, "%s\n", mooncake_last_error());
    }
    mooncake_client_close(client); /* the page goes with it */
    return err == MOONCAKE_OK ? 0 : 1;
}

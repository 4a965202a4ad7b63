/*
 * One value from and into several pieces of registered memory: a header and two layers.
 *
 * Shows: mooncake_put_pieces mooncake_get_into_pieces mooncake_register_buffer
 *        mooncake_unregister_buffer
 *
 * Prints:
 *     header | layer 0 | layer 1
 */
#include <mooncake/client.h>
#include <stdio.h>

int main(void)
{
    static char memory[2][64] = {"layer 0", "layer 1"}; /* where an engine keeps its pages */
    const mooncake_piece from[] = {{"header", 7}, {memory[0], 64}, {memory[1], 64}};
    char header[7], layers[2][64];
    const mooncake_space into[] = {{header, 7}, {layers[0], 64}, {layers[1], 64}};
    mooncake_client *client = NULL;
    uint64_t len = 0;
    mooncake_err err = mooncake_client_open(NULL, &client);

    if (err == MOONCAKE_OK) {
        /* Once, early: transports that need memory pinned pin it here. */
        err = mooncake_register_buffer(client, memory, sizeof(memory));
    }
    if (err == MOONCAKE_OK) {
        err = mooncake_put_pieces(client, "page", from, 3, NULL, 0);
        if (err == MOONCAKE_OK) {
            err = mooncake_get_into_pieces(client, "page", into, 3, 0, &len);
        }
        if (err == MOONCAKE_OK) {
            printf("%s | %s | %s\n", header, layers[0], layers[1]);
        }
        (void)mooncake_remove(client, "page", true, 0);
        (void)mooncake_unregister_buffer(client, memory);
    }
    if (err != MOONCAKE_OK) {
        fprintf(stderr, "%s\n", mooncake_last_error());
    }
    mooncake_client_close(client);
    return err == MOONCAKE_OK ? 0 : 1;
}

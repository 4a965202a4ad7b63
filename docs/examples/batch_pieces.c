/*
 * A batch whose items lie in pieces: K and V of each page apart.
 *
 * Shows: mooncake_batch_put_pieces mooncake_batch_get_into_pieces
 *
 * Prints:
 *     page 0: k0 v0
 *     page 1: k1 v1
 */
#include <mooncake/client.h>
#include <stdio.h>

int main(void)
{
    static const char *const keys[] = {"page/0", "page/1"};
    static const mooncake_piece page0[] = {{"k0", 3}, {"v0", 3}}, page1[] = {{"k1", 3}, {"v1", 3}};
    static const mooncake_piece *const from[] = {page0, page1};
    static const size_t counts[] = {2, 2};
    char k[2][3], v[2][3];
    const mooncake_space space0[] = {{k[0], 3}, {v[0], 3}}, space1[] = {{k[1], 3}, {v[1], 3}};
    const mooncake_space *const into[] = {space0, space1};
    mooncake_err results[2] = {MOONCAKE_ENOENT, MOONCAKE_ENOENT};
    mooncake_client *client = NULL;
    uint64_t lens[2];
    int i;

    if (mooncake_client_open(NULL, &client) != MOONCAKE_OK ||
        mooncake_batch_put_pieces(client, keys, from, counts, 2, NULL, 0, results) != MOONCAKE_OK ||
        mooncake_batch_get_into_pieces(client, keys, into, counts, 2, 0, results, lens) !=
            MOONCAKE_OK) {
        fprintf(stderr, "%s\n", mooncake_last_error());
        mooncake_client_close(client);
        return 1;
    }
    for (i = 0; i < 2; i++) {
        if (results[i] == MOONCAKE_OK) {
            printf("page %d: %s %s\n", i, k[i], v[i]);
        }
    }
    (void)mooncake_batch_remove(client, keys, 2, true, 0, results);
    mooncake_client_close(client);
    return 0;
}

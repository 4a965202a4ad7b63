/*
 * What an inference engine does: which blocks of a prompt are there, read those, store the rest.
 *
 * Shows: mooncake_batch_put mooncake_batch_exist mooncake_batch_size mooncake_batch_get_into
 *        mooncake_batch_get mooncake_batch_remove mooncake_err_name
 *
 * Prints:
 *     block 0: OK
 *     block 1: OK
 *     block 2: ENOENT
 *     got 2 blocks of 5 bytes: AAAAA BBBBB
 *     block 2 is there now: CCCCC
 */
#include <mooncake/client.h>
#include <stdio.h>

#define BLOCKS 3u
#define LEN 5u

static int failed(mooncake_client *client)
{
    fprintf(stderr, "%s\n", mooncake_last_error());
    mooncake_client_close(client);
    return 1;
}

int main(void)
{
    static const char *const keys[BLOCKS] = {"block/0", "block/1", "block/2"};
    static const void *const data[BLOCKS] = {"AAAAA", "BBBBB", "CCCCC"};
    static const uint64_t lens[BLOCKS] = {LEN, LEN, LEN};
    char memory[BLOCKS][LEN];
    void *const into[BLOCKS] = {memory[0], memory[1], memory[2]};
    mooncake_err results[BLOCKS];
    mooncake_client *client = NULL;
    uint64_t got[BLOCKS];
    void *copy = NULL;
    size_t hits = 0;

    /* The first two are stored by somebody else. */
    if (mooncake_client_open(NULL, &client) != MOONCAKE_OK ||
        mooncake_batch_put(client, keys, data, lens, 2, NULL, 0, results) != MOONCAKE_OK ||
        mooncake_batch_exist(client, keys, BLOCKS, 0, results) != MOONCAKE_OK) {
        return failed(client);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        printf("block %zu: %s\n", i, mooncake_err_name(results[i]));
        hits += results[i] == MOONCAKE_OK ? 1 : 0; /* each item is judged alone */
    }
    if (mooncake_batch_size(client, keys, hits, 0, results, got) != MOONCAKE_OK ||
        mooncake_batch_get_into(client, keys, into, lens, hits, 0, results, got) != MOONCAKE_OK) {
        return failed(client);
    }
    printf("got %zu blocks of %llu bytes: %.5s %.5s\n", hits, (unsigned long long)got[0], memory[0],
           memory[1]);
    if (mooncake_batch_put(client, keys + hits, data + hits, lens + hits, BLOCKS - hits, NULL, 0,
                           results) != MOONCAKE_OK ||
        mooncake_batch_get(client, keys + 2, 1, 0, results, &copy, got) != MOONCAKE_OK) {
        return failed(client);
    }
    printf("block 2 is there now: %.5s\n", (const char *)copy);
    mooncake_free(copy);
    (void)mooncake_batch_remove(client, keys, BLOCKS, true, 0, results);
    mooncake_client_close(client);
    return 0;
}

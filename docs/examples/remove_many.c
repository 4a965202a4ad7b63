/*
 * List keys, and remove many at once.
 *
 * Shows: mooncake_admin_keys mooncake_admin_remove mooncake_remove_matching mooncake_remove_all
 *
 * Prints:
 *     model-a/0
 *     model-a: 1 removed, 1 left because somebody reads it
 *     model-b: 1 removed
 *     all: 1 removed, 0 left
 */
#include <mooncake/admin.h>
#include <stdio.h>

static bool show(void *arg, const char *key, size_t key_len)
{
    (void)arg;
    printf("%.*s\n", (int)key_len, key);
    return true; /* go on */
}

static mooncake_err remove_many(mooncake_client *client)
{
    mooncake_removal removal = {.struct_size = sizeof(removal)};
    uint64_t removed = 0, left = 0;
    bool exists;
    mooncake_err err = mooncake_admin_keys(client, "^model-a/0$", 0, 0, show, NULL);

    if (err == MOONCAKE_OK) {
        err = mooncake_exist(client, "model-a/1", 0, &exists); /* takes a lease */
    }
    if (err == MOONCAKE_OK) {
        err = mooncake_admin_remove(client, "^model-a/", false, 0, &removal);
    }
    if (err == MOONCAKE_OK) {
        printf("model-a: %llu removed, %llu left because somebody reads it\n",
               (unsigned long long)removal.removed, (unsigned long long)removal.left_leased);
        err = mooncake_remove_matching(client, "^model-b/", false, 0, &removed, NULL);
    }
    if (err == MOONCAKE_OK) {
        printf("model-b: %llu removed\n", (unsigned long long)removed);
        err = mooncake_remove_all(client, true, 0, &removed, &left); /* leased ones too */
    }
    if (err == MOONCAKE_OK) {
        printf("all: %llu removed, %llu left\n", (unsigned long long)removed,
               (unsigned long long)left);
    }
    return err;
}

int main(void)
{
    mooncake_client *client = NULL;
    mooncake_err err = mooncake_client_open(NULL, &client);

    if (err == MOONCAKE_OK) {
        (void)mooncake_put(client, "model-a/0", "x", 1, NULL, 0);
        (void)mooncake_put(client, "model-a/1", "x", 1, NULL, 0);
        (void)mooncake_put(client, "model-b/0", "x", 1, NULL, 0);
        err = remove_many(client);
    }
    if (err != MOONCAKE_OK) {
        fprintf(stderr, "%s\n", mooncake_last_error());
    }
    mooncake_client_close(client);
    return err == MOONCAKE_OK ? 0 : 1;
}

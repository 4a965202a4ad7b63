/*
 * Look at values where they lie: in the memory of a store on this host, without a copy if possible.
 *
 * Shows: mooncake_view_options_init mooncake_get_view mooncake_get_views mooncake_view_data
 *        mooncake_view_size mooncake_view_in_place mooncake_view_check mooncake_view_release
 *
 * Prints:
 *     6 bytes: weight
 *     they were right all the time
 *     two at once: weight, and no such key
 */
#include <mooncake/view.h>
#include <stdio.h>

static int look(mooncake_client *client)
{
    static const char *const keys[] = {"layer", "no layer"};
    mooncake_view_options options;
    mooncake_view *view = NULL, *views[2];
    mooncake_err results[2];

    mooncake_view_options_init(&options);
    options.copy_len_max = 1u << 20; /* a longer value only without a copy */
    if (mooncake_get_view(client, "layer", &options, 0, &view) != MOONCAKE_OK) {
        return 1;
    }
    printf("%llu bytes: %.*s\n", (unsigned long long)mooncake_view_size(view),
           (int)mooncake_view_size(view), (const char *)mooncake_view_data(view));
    if (!mooncake_view_in_place(view)) {
        fprintf(stderr, "(of a copy: the store is on another host, or of another user)\n");
    }
    if (mooncake_view_check(view) == MOONCAKE_OK) { /* after the last look */
        puts("they were right all the time");
    }
    mooncake_view_release(view);

    if (mooncake_get_views(client, keys, 2, NULL, 0, results, views) != MOONCAKE_OK ||
        results[0] != MOONCAKE_OK) {
        return 1;
    }
    printf("two at once: %.6s, and %s\n", (const char *)mooncake_view_data(views[0]),
           results[1] == MOONCAKE_ENOENT ? "no such key" : "?");
    mooncake_view_release(views[0]);
    return 0;
}

int main(void)
{
    mooncake_client *client = NULL;
    int status = 1;

    if (mooncake_client_open(NULL, &client) == MOONCAKE_OK &&
        mooncake_put(client, "layer", "weight", 6, NULL, 0) == MOONCAKE_OK) {
        status = look(client);
        (void)mooncake_remove(client, "layer", true, 0);
    }
    if (status != 0) {
        fprintf(stderr, "%s\n", mooncake_last_error());
    }
    mooncake_client_close(client);
    return status;
}

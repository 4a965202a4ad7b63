/*
 * Options for a library that may be newer or older than the headers: say how long the structure is
 * as this program knows it, as a binding of another language must. In C, the functions without
 * "_sized" do the same.
 *
 * Shows: mooncake_client_options_init_sized mooncake_put_options_init_sized
 *        mooncake_view_options_init_sized
 *
 * Prints:
 *     value
 */
#include <mooncake/view.h>
#include <stdio.h>

int main(void)
{
    mooncake_client_options options;
    mooncake_put_options put;
    mooncake_view_options look;
    mooncake_client *client = NULL;
    mooncake_view *view = NULL;
    mooncake_err err;

    mooncake_client_options_init_sized(&options, sizeof(options));
    mooncake_put_options_init_sized(&put, sizeof(put));
    mooncake_view_options_init_sized(&look, sizeof(look));
    put.upsert = true;
    err = mooncake_client_open(&options, &client);
    if (err == MOONCAKE_OK) {
        err = mooncake_put(client, "sized", "value", 5, &put, 0);
    }
    if (err == MOONCAKE_OK) {
        err = mooncake_get_view(client, "sized", &look, 0, &view);
    }
    if (err == MOONCAKE_OK) {
        printf("%.*s\n", (int)mooncake_view_size(view), (const char *)mooncake_view_data(view));
        mooncake_view_release(view);
        err = mooncake_remove(client, "sized", true, 0);
    }
    if (err != MOONCAKE_OK) {
        fprintf(stderr, "%s\n", mooncake_last_error());
    }
    mooncake_client_close(client);
    return err == MOONCAKE_OK ? 0 : 1;
}

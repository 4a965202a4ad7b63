/* A program of somebody else's: C11 and C++, public headers only. */
#include <mooncake/admin.h>
#include <mooncake/client.h>
#include <mooncake/error.h>
#include <mooncake/store_c.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    mooncake_client_options options;
    mooncake_client *client = NULL;
    mooncake_store_t store = mooncake_store_create();
    mooncake_err err;

    mooncake_client_options_init(&options);
    options.master = "127.0.0.1:1"; /* nobody listens there */
    err = mooncake_client_open(&options, &client);
    printf("mooncake %s: %s: %s\n", mooncake_version(), mooncake_err_name(err),
           mooncake_last_error());
    if (err != MOONCAKE_ERPC || client != NULL || strstr(mooncake_last_error(), ":1") == NULL) {
        return 1;
    }
    err = mooncake_put(NULL, "key", "value", 5, NULL, 0);
    if (err != MOONCAKE_EINVAL || store == NULL || mooncake_store_health_check(store) != 1) {
        return 2;
    }
    mooncake_store_destroy(store);
    return 0;
}

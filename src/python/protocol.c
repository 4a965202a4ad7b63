/*
 * What the protocol given to setup() means. "tcp" keeps away from RDMA devices. "rdma" wants them;
 * whether there are any that can be used, only the library can tell, so it is asked to open a
 * client of nothing else. Where it cannot, TCP is used, unless MOONCAKE_FORBID_FALLBACK is set.
 * Shared memory of the same host is used in any case: it is no fallback but the shorter way.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "py_store.h"

static bool fallback_is_forbidden(void)
{
    static const char *const yes[] = {"1", "true", "yes", "on"};
    const char *text = getenv("MOONCAKE_FORBID_FALLBACK");

    for (size_t i = 0; text != NULL && i < sizeof(yes) / sizeof(yes[0]); i++) {
        if (strcasecmp(text, yes[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* OK: RDMA can be used. ENOTSUP or EINVAL: there is no device, or none of these names. */
static mooncake_err try_rdma(const struct py_protocol *protocol, const char *master)
{
    mooncake_client_options options;
    mooncake_client *client = NULL;
    mooncake_err err;

    mooncake_client_options_init(&options);
    options.master = master;
    options.transport = "rdma";
    options.rdma_devices = protocol->devices;
    options.tool = true;
    err = mooncake_client_open(&options, &client);
    if (err == MOONCAKE_OK) {
        mooncake_client_close(client);
    }
    return err;
}

mooncake_err py_protocol_choose(struct py_protocol *protocol, const char *master)
{
    mooncake_err err;

    protocol->why_not[0] = '\0';
    protocol->transport = NULL;
    if (strcmp(protocol->name, "rdma") != 0) {
        protocol->devices = NULL;
        protocol->transport = strcmp(protocol->name, "tcp") == 0 ? "local,shm,tcp" : NULL;
        return MOONCAKE_OK;
    }
    if (protocol->devices != NULL && protocol->devices[0] == '\0') {
        protocol->devices = NULL; /* MOONCAKE_RDMA_DEVICES, or all */
    }
    err = try_rdma(protocol, master);
    if (err == MOONCAKE_OK) {
        protocol->transport = fallback_is_forbidden() ? "local,shm,rdma" : NULL;
        return MOONCAKE_OK;
    }
    if (err != MOONCAKE_ENOTSUP && err != MOONCAKE_EINVAL) {
        return err;
    }
    (void)snprintf(protocol->why_not, sizeof(protocol->why_not), "%s", mooncake_last_error());
    if (fallback_is_forbidden()) {
        return MOONCAKE_ENOTSUP;
    }
    protocol->devices = NULL;
    protocol->transport = "local,shm,tcp";
    return MOONCAKE_OK;
}

void py_protocol_say(const struct py_protocol *protocol)
{
    static bool said; /* guarded by the interpreter lock */

    if (protocol->why_not[0] != '\0' && !said) {
        said = true;
        PySys_FormatStderr("mooncake: protocol rdma: TCP and shared memory are used instead "
                           "(MOONCAKE_FORBID_FALLBACK=1 refuses that): %s\n",
                           protocol->why_not);
    }
}

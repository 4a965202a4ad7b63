/* Stands in for io/admin_http.c until that is there: the master serves RPC and no HTTP. */
#include "base/mem.h"
#include "io/admin_http.h"

struct mc_admin_http {
    char unused;
};

mooncake_err mc_admin_http_open(struct mc_loop *loop, const char *host, uint16_t port,
                                const struct mc_admin_route *routes, size_t count, void *arg,
                                uint32_t timeout_ms, struct mc_admin_http **out)
{
    (void)loop;
    (void)host;
    (void)port;
    (void)routes;
    (void)count;
    (void)arg;
    (void)timeout_ms;
    *out = mc_calloc(1, sizeof(**out));
    return *out == NULL ? MOONCAKE_ENOMEM : MOONCAKE_OK;
}

uint16_t mc_admin_http_port(const struct mc_admin_http *http)
{
    (void)http;
    return 0;
}

void mc_admin_http_close(struct mc_admin_http **http)
{
    mc_free(*http);
    *http = NULL;
}

const char *mc_admin_param(const struct mc_admin_request *request, const char *name)
{
    (void)request;
    (void)name;
    return NULL;
}

void mc_admin_reply_error(struct mc_admin_reply *reply, mooncake_err err, const char *message)
{
    (void)reply;
    (void)err;
    (void)message;
}

/*
 * Admin HTTP on libmicrohttpd.
 *
 * Design notes
 * - One thread per connection, at most 80 (see admin_conn.c for 64 of them): a thread may then
 *   simply wait for the loop, and a busy loop does not keep others from /health. The threads cost
 *   nothing while nobody asks.
 * - A handler never sees the HTTP library's memory: parameters and body are copied into the
 *   request, which outlives the connection if the loop is late (admin_request.c).
 */
#include "io/admin_http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/option.h"
#include "io/admin_impl.h"
#include "io/admin_reply.h"

/* Body bytes that a handler may get. */
#define BODY_LEN_MAX ((uint64_t)1 << 20)
/* A larger body is read and dropped up to here, so that the peer gets our 413 and not a reset. */
#define DROP_LEN_MAX ((uint64_t)8 << 20)
/* Headers and URL of one request, in bytes; the library answers 431 or 414 beyond. */
#define HEADERS_LEN_MAX ((size_t)32 << 10)
/* Above our own limit, so that a newcomer reaches admin_conn.c, which decides who goes, while some
 * are still going. */
#define LIBRARY_CONNS_MAX 80u
#define IDLE_S_MAX 10u
#define STACK_LEN ((size_t)1 << 20)
#define PARAMS_MAX 64u
#define LISTEN_BACKLOG 64
/* How long a close waits for last answers to reach their peers, in milliseconds. */
#define LINGER_MS 1000u

struct mc_admin_http {
    struct mc_loop *loop;
    const struct mc_admin_route *routes; /* borrowed */
    size_t routes_count;
    void *arg;
    uint32_t timeout_ms;
    uint16_t port;
    struct mc_admin_gate *gate; /* counted */
    struct MHD_Daemon *daemon;
};

/* ---- what handlers may ask ------------------------------------------------------------------ */

const char *mc_admin_param(const struct mc_admin_request *request, const char *name)
{
    for (const struct mc_admin_param *p = request->params; p != NULL; p = p->next) {
        if (strcmp(p->name, name) == 0) {
            return p->value;
        }
    }
    return NULL;
}

const struct mc_buf *mc_admin_body(const struct mc_admin_request *request)
{
    return &request->body;
}

/* ---- reading a request ---------------------------------------------------------------------- */

/* What MHD_get_connection_values_n() fills. */
struct param_list {
    struct mc_admin_request *request;
    struct mc_admin_param **tail;
    unsigned count;
};

static char *copy_text(struct mc_arena *arena, const char *text, size_t len)
{
    char *copy = mc_arena_alloc(arena, len + 1);

    if (copy != NULL) {
        if (len > 0) {
            memcpy(copy, text, len);
        }
        copy[len] = '\0';
    }
    return copy;
}

/* A parameter with a NUL byte would look shorter to a handler than it is. */
static enum MHD_Result on_param(void *cls, enum MHD_ValueKind kind, const char *name,
                                size_t name_len, const char *value, size_t value_len)
{
    struct param_list *list = cls;
    struct mc_admin_request *request = list->request;
    struct mc_admin_param *param = mc_arena_alloc(&request->arena, sizeof(*param));

    (void)kind;
    list->count++;
    if (param == NULL || list->count > PARAMS_MAX || memchr(name, '\0', name_len) != NULL ||
        (value_len > 0 && memchr(value, '\0', value_len) != NULL)) {
        request->params_bad = true;
        return MHD_NO;
    }
    param->next = NULL;
    param->name = copy_text(&request->arena, name, name_len);
    param->value = copy_text(&request->arena, value, value_len);
    if (param->name == NULL || param->value == NULL) {
        request->params_bad = true;
        return MHD_NO;
    }
    *list->tail = param;
    list->tail = &param->next;
    return MHD_YES;
}

/* Does the route answer this method? HEAD is GET without the bytes, which the library leaves out.
 */
static bool takes_method(const struct mc_admin_route *route, const char *method)
{
    return strcmp(route->method, method) == 0 ||
           (strcmp(route->method, "GET") == 0 && strcmp(method, "HEAD") == 0);
}

static const struct mc_admin_route *find_route(const struct mc_admin_http *http, const char *method,
                                               const char *path)
{
    for (size_t i = 0; i < http->routes_count; i++) {
        const struct mc_admin_route *route = &http->routes[i];

        if (strcmp(route->path, path) == 0 && takes_method(route, method)) {
            return route;
        }
    }
    return NULL;
}

static enum MHD_Result begin_request(struct mc_admin_http *http, struct MHD_Connection *conn,
                                     const char *path, const char *method, void **req_cls)
{
    const char *length = MHD_lookup_connection_value(conn, MHD_HEADER_KIND, "Content-Length");
    const char *expect = MHD_lookup_connection_value(conn, MHD_HEADER_KIND, "Expect");
    struct mc_admin_request *request = NULL;
    struct param_list list = {0};
    uint64_t body_len = 0;

    if (mc_admin_request_create(http->gate, http->loop, http->arg, http->timeout_ms, &request) !=
        MOONCAKE_OK) {
        return MHD_NO;
    }
    *req_cls = request; /* from here on_completed() lets it go */
    (void)pthread_mutex_lock(&http->gate->lock);
    http->gate->requests_count++;
    (void)pthread_mutex_unlock(&http->gate->lock);
    request->route = find_route(http, method, path);
    list.request = request;
    list.tail = &request->params;
    (void)MHD_get_connection_values_n(conn, MHD_GET_ARGUMENT_KIND, on_param, &list);

    /* Refuse at once what would be too much to read and drop, or what the peer has not sent yet. */
    if (length != NULL && mc_parse_u64(length, 0, UINT64_MAX, &body_len) == MOONCAKE_OK &&
        body_len > (expect != NULL ? BODY_LEN_MAX : DROP_LEN_MAX)) {
        return mc_admin_send_error(conn, MHD_HTTP_CONTENT_TOO_LARGE, MOONCAKE_EINVAL,
                                   "the body is too large; at most 1048576 bytes are taken", NULL);
    }
    return MHD_YES;
}

/* Keep or drop body bytes. MHD_NO closes the connection. */
static enum MHD_Result take_body(struct mc_admin_request *request, const char *bytes, size_t len)
{
    if (len > DROP_LEN_MAX - request->body_len) {
        return MHD_NO;
    }
    request->body_len += len;
    if (request->body_len > BODY_LEN_MAX || request->route == NULL) {
        mc_buf_clear(&request->body, 0);
        return MHD_YES;
    }
    return mc_buf_append(&request->body, bytes, len) == MOONCAKE_OK ? MHD_YES : MHD_NO;
}

/* ---- answering ------------------------------------------------------------------------------ */

/* GET /: one line a route. */
static enum MHD_Result send_list(struct mc_admin_http *http, struct MHD_Connection *conn)
{
    enum MHD_Result result = MHD_NO;
    mooncake_err err = MOONCAKE_OK;
    struct mc_buf body;

    mc_buf_init(&body);
    for (size_t i = 0; i < http->routes_count && err == MOONCAKE_OK; i++) {
        const struct mc_admin_route *route = &http->routes[i];
        const char *params = route->params == NULL ? "" : route->params;
        char path[160], line[512];
        int len;

        (void)snprintf(path, sizeof(path), "%s%s%s", route->path, params[0] == '\0' ? "" : "?",
                       params);
        len = snprintf(line, sizeof(line), "%-6s %-48s %s\n", route->method, path, route->help);

        err =
            mc_buf_append(&body, line, (size_t)len < sizeof(line) ? (size_t)len : sizeof(line) - 1);
    }
    if (err == MOONCAKE_OK) {
        result = mc_admin_send_text(conn, &body);
    }
    mc_buf_fini(&body);
    return result;
}

/* No route fits path and method: 404, or 405 with what the path does take. */
static enum MHD_Result send_no_route(struct mc_admin_http *http, struct MHD_Connection *conn,
                                     const char *path, const char *method)
{
    char allow[128] = "";
    size_t len = 0;

    if (strcmp(path, "/") == 0) {
        if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0) {
            return send_list(http, conn);
        }
        len = (size_t)snprintf(allow, sizeof(allow), "GET, HEAD");
    }
    for (size_t i = 0; i < http->routes_count && len < sizeof(allow); i++) {
        const struct mc_admin_route *route = &http->routes[i];

        if (strcmp(route->path, path) == 0) {
            len +=
                (size_t)snprintf(allow + len, sizeof(allow) - len, "%s%s%s", len == 0 ? "" : ", ",
                                 route->method, strcmp(route->method, "GET") == 0 ? ", HEAD" : "");
        }
    }
    if (len == 0) {
        return mc_admin_send_error(conn, MHD_HTTP_NOT_FOUND, MOONCAKE_ENOENT,
                                   "no such path; GET / lists them", NULL);
    }
    return mc_admin_send_error(conn, MHD_HTTP_METHOD_NOT_ALLOWED, MOONCAKE_EINVAL,
                               "the path does not take this method", allow);
}

static void *conn_context(struct MHD_Connection *conn)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(conn, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info == NULL ? NULL : info->socket_context;
}

static enum MHD_Result answer(struct mc_admin_http *http, struct MHD_Connection *conn,
                              const char *path, const char *method,
                              struct mc_admin_request *request)
{
    mc_admin_conn_mark(http->gate, conn_context(conn), true);
    if (request->body_len > BODY_LEN_MAX) {
        return mc_admin_send_error(conn, MHD_HTTP_CONTENT_TOO_LARGE, MOONCAKE_EINVAL,
                                   "the body is too large; at most 1048576 bytes are taken", NULL);
    }
    if (request->params_bad) {
        return mc_admin_send_error(conn, MHD_HTTP_BAD_REQUEST, MOONCAKE_EINVAL,
                                   "a parameter holds a NUL byte, or there are more than 64", NULL);
    }
    if (request->route == NULL) {
        return send_no_route(http, conn, path, method);
    }
    if (request->route->timeout_ms != 0) {
        request->timeout_ms = request->route->timeout_ms;
    }
    if (request->route->anywhere) {
        mc_admin_request_run_here(request, MC_ADMIN_HANDLE);
    } else if (!mc_admin_request_ask(request, MC_ADMIN_HANDLE,
                                     mc_deadline_ns(mc_monotonic_ns(), request->timeout_ms))) {
        char message[160];

        (void)snprintf(message, sizeof(message),
                       "no answer within %u ms: the process is busy, or what was begun goes on",
                       request->timeout_ms);
        mc_log_warn("admin.busy", "path=%s timeout_ms=%u", path, request->timeout_ms);
        return mc_admin_send_error(conn, MHD_HTTP_SERVICE_UNAVAILABLE, MOONCAKE_ETIMEDOUT, message,
                                   NULL);
    }
    mc_log_debug("admin.request", "method=%s path=%s status=%u", method, path,
                 request->reply.status);
    return mc_admin_send_reply(conn, request, strcmp(method, "HEAD") == 0);
}

/* ---- called by the HTTP library, on its threads --------------------------------------------- */

static enum MHD_Result on_request(void *cls, struct MHD_Connection *conn, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_len, void **req_cls)
{
    struct mc_admin_http *http = cls;
    struct mc_admin_request *request = *req_cls;

    (void)version;
    if (request == NULL) {
        return begin_request(http, conn, url, method, req_cls);
    }
    if (*upload_len > 0) {
        enum MHD_Result result = take_body(request, upload, *upload_len);

        *upload_len = 0;
        return result;
    }
    return answer(http, conn, url, method, request);
}

static void on_completed(void *cls, struct MHD_Connection *conn, void **req_cls,
                         enum MHD_RequestTerminationCode why)
{
    struct mc_admin_http *http = cls;
    struct mc_admin_request *request = *req_cls;

    (void)why;
    if (request == NULL) {
        return;
    }
    *req_cls = NULL;
    mc_admin_conn_mark(http->gate, conn_context(conn), false);
    mc_admin_request_unref(request);
    (void)pthread_mutex_lock(&http->gate->lock);
    http->gate->requests_count--;
    (void)pthread_cond_broadcast(&http->gate->changed);
    (void)pthread_mutex_unlock(&http->gate->lock);
}

static void on_connection(void *cls, struct MHD_Connection *conn, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct mc_admin_http *http = cls;
    const union MHD_ConnectionInfo *info;

    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        mc_admin_conn_end(http->gate, *context);
        *context = NULL;
        return;
    }
    info = MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info != NULL) {
        *context = mc_admin_conn_begin(http->gate, info->connect_fd);
    }
}

static void MC_PRINTF(2, 0) on_log(void *cls, const char *fmt, va_list args)
{
    char text[256];

    (void)cls;
    (void)vsnprintf(text, sizeof(text), fmt, args);
    text[strcspn(text, "\n")] = '\0';
    mc_log_debug("admin.library", "text=\"%s\"", text);
}

/* ---- opening -------------------------------------------------------------------------------- */

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static mooncake_err make_address(const char *host, uint16_t port, union address *address,
                                 socklen_t *len)
{
    memset(address, 0, sizeof(*address));
    if (inet_pton(AF_INET, host, &address->v4.sin_addr) == 1) {
        address->v4.sin_family = AF_INET;
        address->v4.sin_port = htons(port);
        *len = sizeof(address->v4);
        return MOONCAKE_OK;
    }
    if (inet_pton(AF_INET6, host, &address->v6.sin6_addr) == 1) {
        address->v6.sin6_family = AF_INET6;
        address->v6.sin6_port = htons(port);
        *len = sizeof(address->v6);
        return MOONCAKE_OK;
    }
    return mc_err_set(MOONCAKE_EINVAL,
                      "admin HTTP: \"%s\" is not a numeric address; write e.g. 0.0.0.0", host);
}

static mooncake_err listen_on(const char *host, uint16_t port, int *out_fd, uint16_t *out_port)
{
    union address address;
    socklen_t len = 0;
    int on = 1;
    int fd;
    int error;

    MC_TRY(make_address(host, port, &address, &len));
    fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        error = errno;
        return mc_err_set(mc_err_from_errno(error), "admin HTTP: cannot make a socket: %s",
                          strerror(error));
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, &address.any, len) != 0 || listen(fd, LISTEN_BACKLOG) != 0 ||
        getsockname(fd, &address.any, &len) != 0) {
        error = errno;
        (void)close(fd);
        return mc_err_set(
            MOONCAKE_ERPC,
            "admin HTTP: cannot listen on %s port %u: %s; stop the program that has it, or "
            "take another port (0: any; option metrics_port of a master, admin_port "
            "of a store)",
            host, port, strerror(error));
    }
    *out_fd = fd;
    *out_port =
        ntohs(address.any.sa_family == AF_INET ? address.v4.sin_port : address.v6.sin6_port);
    return MOONCAKE_OK;
}

/* The library's threads inherit the mask: signals are for the program's own threads. */
static struct MHD_Daemon *start_daemon(struct mc_admin_http *http, int fd)
{
    struct MHD_Daemon *daemon;
    sigset_t all;
    sigset_t old;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    daemon = MHD_start_daemon(
        MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL |
            MHD_USE_ITC | MHD_USE_ERROR_LOG,
        0, NULL, NULL, on_request, http,
        /* the logger first, so that it also gets what goes wrong with the rest */
        MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, http, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, http, MHD_OPTION_CONNECTION_LIMIT, LIBRARY_CONNS_MAX,
        MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        HEADERS_LEN_MAX, MHD_OPTION_THREAD_STACK_SIZE, STACK_LEN, MHD_OPTION_END);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    return daemon;
}

mooncake_err mc_admin_http_open(struct mc_loop *loop, const char *host, uint16_t port,
                                const struct mc_admin_route *routes, size_t count, void *arg,
                                uint32_t timeout_ms, struct mc_admin_http **out)
{
    struct mc_admin_http *http = mc_calloc(1, sizeof(*http));
    mooncake_err err;
    int fd = -1;

    if (http == NULL) {
        return MOONCAKE_ENOMEM;
    }
    http->loop = loop;
    http->routes = routes;
    http->routes_count = count;
    http->arg = arg;
    http->timeout_ms = timeout_ms;
    err = mc_admin_gate_create(&http->gate);
    if (err != MOONCAKE_OK) {
        goto free_http;
    }
    err = listen_on(host, port, &fd, &http->port);
    if (err != MOONCAKE_OK) {
        goto unref_gate;
    }
    http->daemon = start_daemon(http, fd); /* takes fd */
    if (http->daemon == NULL) {
        err = mc_err_set(MOONCAKE_EINTERNAL, "admin HTTP: cannot start libmicrohttpd on port %u",
                         http->port);
        goto unref_gate;
    }
    *out = http;
    return MOONCAKE_OK;

unref_gate:
    mc_admin_gate_unref(http->gate);
free_http:
    mc_free(http);
    return err;
}

uint16_t mc_admin_http_port(const struct mc_admin_http *http)
{
    return http->port;
}

/* ---- closing -------------------------------------------------------------------------------- */

/* Wait until no request is under way, but at most @p ms. */
static void wait_requests(struct mc_admin_gate *gate, uint64_t ms)
{
    uint64_t deadline_ns = mc_deadline_ns(mc_monotonic_ns(), ms);
    const struct timespec until = {
        .tv_sec = (time_t)(deadline_ns / MC_NS_PER_S),
        .tv_nsec = (long)(deadline_ns % MC_NS_PER_S),
    };

    (void)pthread_mutex_lock(&gate->lock);
    while (gate->requests_count > 0 && mc_monotonic_ns() < deadline_ns) {
        (void)pthread_cond_timedwait(&gate->changed, &gate->lock, &until);
    }
    (void)pthread_mutex_unlock(&gate->lock);
}

/* Passes when everything posted to the loop before it has run. */
struct barrier {
    struct mc_post post;
    struct mc_admin_gate *gate;
    bool passed; /* guarded by the gate's lock */
};

static void pass(struct mc_post *post)
{
    struct barrier *barrier = MC_CONTAINER_OF(post, struct barrier, post);

    mc_admin_release_all(barrier->gate);
    /* broadcast under the lock: the barrier is gone once its waiter has the lock */
    (void)pthread_mutex_lock(&barrier->gate->lock);
    barrier->passed = true;
    (void)pthread_cond_broadcast(&barrier->gate->changed);
    (void)pthread_mutex_unlock(&barrier->gate->lock);
}

/* Until a handler that is running on another thread has returned, those in the queue have been let
 * go, and unfinished answers are freed. As long as the loop runs, this ends. */
static void wait_loop(struct mc_admin_http *http)
{
    struct barrier barrier = {.post = {.run = pass}, .gate = http->gate};

    mc_loop_post(http->loop, &barrier.post);
    (void)pthread_mutex_lock(&http->gate->lock);
    while (!barrier.passed) {
        (void)pthread_cond_wait(&http->gate->changed, &http->gate->lock);
    }
    (void)pthread_mutex_unlock(&http->gate->lock);
}

static void set_closing(struct mc_admin_gate *gate)
{
    (void)pthread_mutex_lock(&gate->lock);
    gate->closing = true;
    (void)pthread_cond_broadcast(&gate->changed);
    (void)pthread_mutex_unlock(&gate->lock);
}

void mc_admin_http_close(struct mc_admin_http **http_ptr)
{
    struct mc_admin_http *http = *http_ptr;
    int listen_fd;

    if (http == NULL) {
        return;
    }
    listen_fd = MHD_quiesce_daemon(http->daemon); /* accepts no more; the socket is ours again */
    if (mc_loop_is_owner(http->loop)) {
        set_closing(http->gate); /* nobody could answer while we are here */
        wait_requests(http->gate, LINGER_MS);
    } else {
        wait_requests(http->gate, (uint64_t)http->timeout_ms + LINGER_MS);
        set_closing(http->gate);
    }
    MHD_stop_daemon(http->daemon); /* joins its threads */
    if (listen_fd >= 0) {
        (void)close(listen_fd);
    }
    if (mc_loop_is_owner(http->loop)) {
        mc_admin_release_all(http->gate);
    } else {
        wait_loop(http);
    }
    mc_admin_gate_unref(http->gate);
    mc_free(http);
    *http_ptr = NULL;
}

/* Answers of admin HTTP: from a handler's reply to the HTTP library's response. */
#include <jansson.h>
#include <string.h>

#include "base/clock.h"
#include "io/admin_impl.h"
#include "io/admin_reply.h"

/* Bytes the HTTP library asks for at a time. */
#define BLOCK_LEN ((size_t)32 << 10)
/* Memory a request keeps between two parts. */
#define PART_KEEP_MAX ((size_t)256 << 10)

static unsigned status_of(mooncake_err err)
{
    switch ((int)err) { /* some of these numbers are not in the list yet */
    case 0:
        return 200;
    case -400: /* not in the C++ Mooncake's mapping: its admin HTTP checks no keys */
    case -600:
        return 400;
    case -101:
    case -704:
    case -1402:
    case -1701:
        return 404;
    case -1010:
    case -1011:
    case -1702:
        return 409;
    case -1012: /* not built: a client should not try again */
        return 501;
    default:
        return 500;
    }
}

static int append_json(const char *text, size_t len, void *arg)
{
    return mc_buf_append(arg, text, len) == MOONCAKE_OK ? 0 : -1;
}

/* {"success":false,"error_code":..,"error_message":..}; nothing without memory. */
static void append_error(struct mc_buf *out, mooncake_err err, const char *message)
{
    json_t *root =
        json_pack("{s:b,s:i,s:s}", "success", 0, "error_code", (int)err, "error_message", message);

    if (root == NULL) { /* the message is not UTF-8 */
        root = json_pack("{s:b,s:i,s:s}", "success", 0, "error_code", (int)err, "error_message",
                         mooncake_err_text(err));
    }
    if (root == NULL || json_dump_callback(root, append_json, out, JSON_COMPACT) != 0 ||
        mc_buf_append(out, "\n", 1) != MOONCAKE_OK) {
        mc_buf_clear(out, 0);
    }
    json_decref(root);
}

void mc_admin_reply_error(struct mc_admin_reply *reply, mooncake_err err, const char *message)
{
    reply->status = status_of(err);
    reply->content_type = "application/json";
    mc_buf_clear(&reply->body, PART_KEEP_MAX);
    append_error(&reply->body, err, message != NULL ? message : mooncake_err_text(err));
}

/* The next bytes of the answer, where handlers run. False: the loop did not answer in time. */
static bool next_part(struct mc_admin_request *request, uint64_t deadline_ns)
{
    mc_buf_clear(&request->reply.body, PART_KEEP_MAX);
    if (request->route->anywhere) {
        mc_admin_request_run_here(request, MC_ADMIN_PART);
        return true;
    }
    return mc_admin_request_ask(request, MC_ADMIN_PART, deadline_ns);
}

/* The HTTP library wants bytes: MHD_ContentReaderCallback. An answer that cannot be finished is
 * ended with an error: the connection is closed before the last chunk, so the client knows. */
static ssize_t on_read(void *cls, uint64_t pos, char *out, size_t max)
{
    struct mc_admin_request *request = cls;
    struct mc_buf *body = &request->reply.body;
    uint64_t deadline_ns = mc_deadline_ns(mc_monotonic_ns(), request->timeout_ms);
    size_t len;

    (void)pos;
    while (mc_buf_len(body) == 0) {
        if (request->part_err != MOONCAKE_OK) {
            return MHD_CONTENT_READER_END_WITH_ERROR;
        }
        if (!request->more) {
            return MHD_CONTENT_READER_END_OF_STREAM;
        }
        if (mc_monotonic_ns() >= deadline_ns || !next_part(request, deadline_ns)) {
            return MHD_CONTENT_READER_END_WITH_ERROR;
        }
    }
    len = mc_buf_len(body) < max ? mc_buf_len(body) : max;
    memcpy(out, mc_buf_bytes(body), len);
    mc_buf_consume(body, len);
    return (ssize_t)len;
}

/* The HTTP library lets go of the response: MHD_ContentReaderFreeCallback. */
static void on_response_free(void *cls)
{
    mc_admin_request_release(cls);
    mc_admin_request_unref(cls);
}

static enum MHD_Result queue(struct MHD_Connection *conn, unsigned status, const char *content_type,
                             const char *allow, struct MHD_Response *response)
{
    enum MHD_Result result;

    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    /* Keys are anybody's bytes: no browser may take an answer for a page that it is not. */
    (void)MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (allow != NULL) {
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, allow);
    }
    result = MHD_queue_response(conn, status, response);
    MHD_destroy_response(response);
    return result;
}

enum MHD_Result mc_admin_send_reply(struct MHD_Connection *conn, struct mc_admin_request *request,
                                    bool head_only)
{
    struct mc_admin_reply *reply = &request->reply;
    uint64_t size = request->more ? MHD_SIZE_UNKNOWN : mc_buf_len(&reply->body);
    struct MHD_Response *response;

    mc_admin_request_ref(request); /* the response's */
    response =
        MHD_create_response_from_callback(size, BLOCK_LEN, on_read, request, on_response_free);
    if (response == NULL) {
        on_response_free(request);
        return MHD_NO;
    }
    if (head_only && size == MHD_SIZE_UNKNOWN) {
        /* libmicrohttpd 0.9.75 would send a last chunk where no body may be. */
        (void)MHD_set_response_options(response, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END);
    }
    if (reply->policy != NULL) {
        (void)MHD_add_response_header(response, "Content-Security-Policy", reply->policy);
    }
    return queue(conn, reply->status, reply->content_type, NULL, response);
}

enum MHD_Result mc_admin_send_error(struct MHD_Connection *conn, unsigned status, mooncake_err err,
                                    const char *message, const char *allow)
{
    struct MHD_Response *response;
    struct mc_buf body;

    mc_buf_init(&body);
    append_error(&body, err, message);
    response = MHD_create_response_from_buffer(mc_buf_len(&body), mc_buf_bytes(&body),
                                               MHD_RESPMEM_MUST_COPY);
    mc_buf_fini(&body);
    if (response == NULL) {
        return MHD_NO;
    }
    return queue(conn, status, "application/json", allow, response);
}

enum MHD_Result mc_admin_send_text(struct MHD_Connection *conn, const struct mc_buf *body)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        mc_buf_len(body), mc_buf_bytes(body), MHD_RESPMEM_MUST_COPY);

    if (response == NULL) {
        return MHD_NO;
    }
    return queue(conn, MHD_HTTP_OK, "text/plain; charset=utf-8", NULL, response);
}

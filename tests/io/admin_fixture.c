#include "admin_fixture.h"

#include <sched.h>

struct fixture f;

static void note_thread(void)
{
    if (!mc_loop_is_owner(f.loop)) {
        atomic_fetch_add(&f.wrong_thread, 1);
    }
    atomic_fetch_add(&f.calls, 1);
}

static void append(struct mc_admin_reply *reply, const char *text, size_t len)
{
    if (mc_buf_append(&reply->body, text, len) != MOONCAKE_OK) {
        mc_admin_reply_error(reply, MOONCAKE_ENOMEM, NULL);
    }
}

static void handle_hello(void *arg, const struct mc_admin_request *request,
                         struct mc_admin_reply *reply)
{
    const char *name = mc_admin_param(request, "name");

    assert_ptr_equal(arg, &f);
    note_thread();
    append(reply, "hello ", 6);
    append(reply, name == NULL ? "?" : name, name == NULL ? 1 : strlen(name));
}

static void handle_health(void *arg, const struct mc_admin_request *request,
                          struct mc_admin_reply *reply)
{
    (void)arg;
    (void)request;
    append(reply, "alive", 5);
}

static void handle_block(void *arg, const struct mc_admin_request *request,
                         struct mc_admin_reply *reply)
{
    (void)arg;
    note_thread();
    (void)sem_post(&f.entered);
    (void)sem_wait(&f.let_go);
    /* what the request holds is still there, though nobody waits any more */
    append(reply, mc_admin_param(request, "name"), strlen(mc_admin_param(request, "name")));
}

static void handle_later(void *arg, const struct mc_admin_request *request,
                         struct mc_admin_reply *reply)
{
    (void)arg;
    reply->later = true;
    if (mc_admin_param(request, "name") != NULL) {
        assert_true(f.later_count < MC_ARRAY_LEN(f.later));
        f.later[f.later_count++] = reply;
    } else {
        append(reply, "at once", 7);
        mc_admin_answer(reply);
    }
    note_thread();
}

static void answer_all(struct mc_post *post)
{
    (void)post;
    for (unsigned i = 0; i < f.later_count; i++) {
        append(f.later[i], "at last", 7);
        mc_admin_answer(f.later[i]);
    }
    f.later_count = 0;
    (void)sem_post(&f.let_go);
}

void admin_answer_later(void)
{
    struct mc_post post = {.run = answer_all};

    mc_loop_post(f.loop, &post);
    if (!f.threaded) {
        mc_loop_run_ready(f.loop);
    }
    assert_int_equal(sem_wait(&f.let_go), 0);
}

static void handle_length(void *arg, const struct mc_admin_request *request,
                          struct mc_admin_reply *reply)
{
    const struct mc_buf *body = mc_admin_body(request);
    char text[64];
    unsigned sum = 0;

    (void)arg;
    note_thread();
    for (size_t i = 0; i < mc_buf_len(body); i++) {
        sum += mc_buf_bytes(body)[i];
    }
    append(reply, text,
           (size_t)snprintf(text, sizeof(text), "len=%zu sum=%u", mc_buf_len(body), sum));
}

static void handle_error(void *arg, const struct mc_admin_request *request,
                         struct mc_admin_reply *reply)
{
    const char *code = mc_admin_param(request, "code");

    (void)arg;
    note_thread();
    append(reply, "half an answer", 14);
    mc_admin_reply_error(reply, (mooncake_err)strtol(code, NULL, 10),
                         mc_admin_param(request, "text"));
}

static mooncake_err make_part(void *state, struct mc_buf *out, bool *more)
{
    char bytes[PART_LEN];
    int n = atomic_fetch_add(&f.parts, 1);
    int end = atomic_load(&f.parts_end);

    note_thread();
    assert_ptr_equal(state, &f.parts);
    assert_int_equal(mc_buf_len(out), 0); /* only asked when the last part is gone */
    if (end < 0 && n >= -end) {
        return MOONCAKE_EINTERNAL;
    }
    memset(bytes, 'a' + n % 26, sizeof(bytes));
    *more = end <= 0 || n + 1 < end;
    return mc_buf_append(out, bytes, sizeof(bytes));
}

static void free_part(void *state)
{
    assert_ptr_equal(state, &f.parts);
    if (!mc_loop_is_owner(f.loop)) {
        atomic_fetch_add(&f.wrong_thread, 1);
    }
    atomic_fetch_add(&f.parts_freed, 1);
}

static void handle_stream(void *arg, const struct mc_admin_request *request,
                          struct mc_admin_reply *reply)
{
    (void)arg;
    (void)request;
    note_thread();
    atomic_fetch_add(&f.streams, 1);
    append(reply, "begin ", 6);
    reply->part = make_part;
    reply->part_state = &f.parts;
    reply->part_free = free_part;
}

const struct mc_admin_route routes[ROUTES_COUNT] = {
    {.method = "GET", .path = "/hello", .help = "says hello", .handle = handle_hello},
    {.method = "GET",
     .path = "/health",
     .help = "lives",
     .handle = handle_health,
     .anywhere = true},
    {.method = "GET", .path = "/block", .help = "blocks", .handle = handle_block},
    {.method = "POST", .path = "/length", .help = "measures", .handle = handle_length},
    {.method = "PUT", .path = "/length", .help = "measures", .handle = handle_length},
    {.method = "GET", .path = "/error", .help = "fails", .handle = handle_error},
    {.method = "GET", .path = "/stream", .help = "streams", .handle = handle_stream},
    {.method = "GET",
     .path = "/later",
     .help = "answers later",
     .handle = handle_later,
     .params = "[name=NAME]"},
};

static int setup_loop(bool threaded, uint32_t timeout_ms)
{
    memset(&f, 0, sizeof(f));
    if (sem_init(&f.entered, 0, 0) != 0 || sem_init(&f.let_go, 0, 0) != 0 ||
        mc_loop_create(0, &f.loop) != MOONCAKE_OK) {
        return -1;
    }
    f.threaded = threaded;
    if (threaded && mc_loop_start(f.loop, "test") != MOONCAKE_OK) {
        return -1;
    }
    if (mc_admin_http_open(f.loop, "127.0.0.1", 0, routes, ROUTES_COUNT, &f, timeout_ms, &f.http) !=
        MOONCAKE_OK) {
        return -1;
    }
    f.port = mc_admin_http_port(f.http);
    return 0;
}

int admin_setup(void **state)
{
    (void)state;
    return setup_loop(true, TIMEOUT_MS);
}

int admin_setup_hasty(void **state)
{
    (void)state;
    return setup_loop(true, HASTY_MS);
}

int admin_setup_own_loop(void **state)
{
    (void)state;
    return setup_loop(false, TIMEOUT_MS);
}

int admin_teardown(void **state)
{
    (void)state;
    (void)sem_post(&f.let_go);
    mc_admin_http_close(&f.http);
    if (f.threaded) {
        mc_loop_stop(f.loop);
    }
    mc_loop_destroy(&f.loop);
    (void)sem_destroy(&f.entered);
    (void)sem_destroy(&f.let_go);
    return atomic_load(&f.wrong_thread) == 0 ? 0 : -1;
}

void admin_wait_for(atomic_int *value, int wanted)
{
    uint64_t deadline_ns = mc_deadline_ns(mc_monotonic_ns(), HTTP_WAIT_MS);

    while (atomic_load(value) < wanted) {
        assert_true(mc_monotonic_ns() < deadline_ns);
        (void)sched_yield();
    }
}

int admin_begin(const char *path)
{
    char request[256];
    int len = snprintf(request, sizeof(request),
                       "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path);
    int fd = http_connect(f.port);

    assert_true(fd >= 0);
    assert_true(http_send(fd, request, (size_t)len));
    return fd;
}

int admin_end(int fd, const char *part)
{
    char text[4096];
    struct http_answer answer = {.text = text};

    answer.len = http_read(fd, text, sizeof(text) - 1);
    (void)close(fd);
    http_parse(&answer);
    if (part != NULL) {
        assert_non_null(strstr(answer.body, part));
    }
    return answer.status;
}

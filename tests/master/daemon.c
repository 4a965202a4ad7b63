/* See daemon.h. */
#include "master/daemon.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "rpc/frame.h"

#define WAIT_MS 60000u
#define ARGS_MAX 16u

/* ---- process --------------------------------------------------------------------------------- */

static void exec_master(const char *const *fixed, const char *const *options, int output)
{
    const char *threads = getenv("MC_TEST_IO_THREADS");
    char *args[ARGS_MAX] = {(char *)(uintptr_t)MC_MASTER_PATH};
    char io_threads[32];
    size_t count = 1, i;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (i = 0; fixed != NULL && fixed[i] != NULL; i++) {
        args[count++] = (char *)(uintptr_t)fixed[i];
    }
    if (fixed != NULL && threads != NULL) {
        (void)snprintf(io_threads, sizeof(io_threads), "--io_threads=%s", threads);
        args[count++] = io_threads;
    }
    for (i = 0; options != NULL && options[i] != NULL && count + 1 < ARGS_MAX; i++) {
        args[count++] = (char *)(uintptr_t)options[i];
    }
    (void)dup2(output, STDOUT_FILENO);
    (void)dup2(output, STDERR_FILENO);
    (void)execv(MC_MASTER_PATH, args);
    _exit(127);
}

static void spawn(struct daemon *d, const char *const *fixed, const char *const *options)
{
    int ends[2];

    memset(d, 0, sizeof(*d));
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    d->pid = fork();
    assert_true(d->pid >= 0);
    if (d->pid == 0) {
        exec_master(fixed, options, ends[1]);
    }
    (void)close(ends[1]);
    d->output = ends[0];
}

/* Read more of its output; false at its end. Fails the test after WAIT_MS of silence. */
static bool read_output(struct daemon *d)
{
    struct pollfd pollfd = {.fd = d->output, .events = POLLIN};
    size_t used = strlen(d->text);
    ssize_t len;

    if (used + 1 >= sizeof(d->text)) { /* keep the newer half */
        memmove(d->text, d->text + used / 2, used - used / 2 + 1);
        used -= used / 2;
    }
    if (poll(&pollfd, 1, (int)WAIT_MS) != 1) {
        daemon_kill(d);
        fail_msg("the master is silent; it said: %s", d->text);
    }
    len = read(d->output, d->text + used, sizeof(d->text) - used - 1);
    if (len <= 0) {
        return false;
    }
    d->text[used + (size_t)len] = '\0';
    return true;
}

static unsigned port_in(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    return at == NULL ? 0 : (unsigned)strtoul(at + strlen(name), NULL, 10);
}

void daemon_start(struct daemon *d, const char *const *options)
{
    static const char *const fixed[] = {"--rpc_port=0", "--metrics_port=0",
                                        "--rpc_address=127.0.0.1", NULL};
    struct mc_master_stub_options stub = {
        .program = "test_master 1.0", .client_id = DAEMON_CLIENT_ID, .connect_timeout_ms = 5000};
    char address[32];
    const char *line;

    spawn(d, fixed, options);
    while ((line = strstr(d->text, " serving ")) == NULL || strchr(line, '\n') == NULL) {
        if (!read_output(d)) {
            daemon_kill(d);
            fail_msg("the master did not start; it said: %s", d->text);
        }
    }
    d->rpc_port = (uint16_t)port_in(line, "rpc_port=");
    d->metrics_port = (uint16_t)port_in(line, "metrics_port=");
    assert_true(d->rpc_port != 0 && d->metrics_port != 0);
    mc_arena_init(&d->arena, 0);
    assert_int_equal(mc_loop_create(0, &d->loop), MOONCAKE_OK);
    (void)snprintf(address, sizeof(address), "127.0.0.1:%u", d->rpc_port);
    stub.address = address;
    assert_int_equal(mc_master_stub_open(d->loop, &stub, &d->stub), MOONCAKE_OK);
}

static void close_calls(struct daemon *d)
{
    if (d->loop != NULL) {
        mc_master_stub_close(&d->stub);
        mc_loop_destroy(&d->loop);
        mc_arena_fini(&d->arena);
    }
}

static void close_ours(struct daemon *d)
{
    close_calls(d);
    if (d->output >= 0) {
        (void)close(d->output);
        d->output = -1;
    }
}

/* Exit status, or -1 if it had to be killed or was. */
static int wait_for_end(struct daemon *d)
{
    int pidfd = (int)syscall(SYS_pidfd_open, d->pid, 0), status = 0;
    struct pollfd pollfd = {.fd = pidfd, .events = POLLIN};
    bool ended = pidfd >= 0 && poll(&pollfd, 1, (int)WAIT_MS) == 1;

    if (!ended) {
        (void)kill(d->pid, SIGKILL);
    }
    (void)waitpid(d->pid, &status, 0);
    (void)close(pidfd);
    d->pid = 0;
    return ended && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int daemon_run_to_end(struct daemon *d, const char *const *options)
{
    int status;

    spawn(d, NULL, options);
    while (read_output(d)) {
    }
    status = wait_for_end(d);
    close_ours(d);
    return status;
}

int daemon_stop(struct daemon *d, int signum)
{
    int status;

    close_calls(d); /* or the master waits for us to close: we run no loop now */
    assert_int_equal(kill(d->pid, signum), 0);
    status = wait_for_end(d);
    close_ours(d);
    return status;
}

void daemon_kill(struct daemon *d)
{
    if (d->pid > 0) {
        (void)kill(d->pid, SIGKILL);
        (void)waitpid(d->pid, NULL, 0);
        d->pid = 0;
    }
    close_ours(d);
}

/* ---- calls ----------------------------------------------------------------------------------- */

struct ending {
    struct daemon *daemon;
    bool done;
    mooncake_err err;
};

static void on_done(struct mc_master_call *call, mooncake_err err)
{
    struct ending *ending = call->arg;

    ending->err = err;
    ending->done = true;
    (void)snprintf(ending->daemon->sentence, sizeof(ending->daemon->sentence), "%s",
                   err == MOONCAKE_OK ? "" : mooncake_last_error());
}

mooncake_err daemon_call(struct daemon *d, enum mc_method method, const void *request, void *reply)
{
    struct ending ending = {.daemon = d};
    struct mc_master_call call;
    uint64_t deadline_ns = mc_deadline_ns(mc_monotonic_ns(), WAIT_MS);

    mc_master_call_init(&call, &d->arena, deadline_ns, on_done, &ending);
    assert_int_equal(mc_master_call_start(d->stub.rpc, &call, method, request, reply), MOONCAKE_OK);
    mc_rpc_client_flush(d->stub.rpc);
    assert_int_equal(mc_loop_run_until(d->loop, &ending.done, deadline_ns + WAIT_MS * MC_NS_PER_MS),
                     MOONCAKE_OK);
    return ending.err;
}

struct mc_key daemon_key(const char *text)
{
    return (struct mc_key){.bytes = text, .len = (uint32_t)strlen(text)};
}

mooncake_err daemon_mount(struct daemon *d, const char *name, uint64_t mount_id, uint64_t len)
{
    const struct mc_mount_item item = {.name = name,
                                       .addresses = "tcp://127.0.0.1:1",
                                       .mount_id = mount_id,
                                       .len = len,
                                       .secret = {mount_id, 1}};
    const struct mc_mount_request request = {.client_id = DAEMON_CLIENT_ID,
                                             .host = "host-a",
                                             .program = "test_master 1.0",
                                             .items = &item,
                                             .count = 1};
    struct mc_status_reply reply;

    assert_int_equal(daemon_call(d, MC_METHOD_MOUNT, &request, &reply), MOONCAKE_OK);
    return reply.statuses[0];
}

mooncake_err daemon_put_start(struct daemon *d, const char *key, uint64_t value_len,
                              uint64_t *out_attempt)
{
    static uint64_t nonce;
    const struct mc_key one = daemon_key(key);
    const struct mc_put_start_request request = {.client_id = DAEMON_CLIENT_ID,
                                                 .nonce = ++nonce,
                                                 .keys = &one,
                                                 .value_lens = &value_len,
                                                 .count = 1,
                                                 .replicas = 1};
    struct mc_put_start_reply reply;

    assert_int_equal(daemon_call(d, MC_METHOD_PUT_START, &request, &reply), MOONCAKE_OK);
    if (out_attempt != NULL) {
        *out_attempt = reply.attempts[0];
    }
    return reply.statuses[0];
}

mooncake_err daemon_put_end(struct daemon *d, const char *key, uint64_t attempt)
{
    const struct mc_key one = daemon_key(key);
    const struct mc_put_end_request request = {
        .client_id = DAEMON_CLIENT_ID, .keys = &one, .attempts = &attempt, .count = 1};
    struct mc_status_reply reply;

    assert_int_equal(daemon_call(d, MC_METHOD_PUT_END, &request, &reply), MOONCAKE_OK);
    return reply.statuses[0];
}

void daemon_put(struct daemon *d, const char *key, uint64_t value_len)
{
    uint64_t attempt;

    assert_int_equal(daemon_put_start(d, key, value_len, &attempt), MOONCAKE_OK);
    assert_int_equal(daemon_put_end(d, key, attempt), MOONCAKE_OK);
}

mooncake_err daemon_exist(struct daemon *d, const char *key)
{
    const struct mc_key one = daemon_key(key);
    const struct mc_keys_request request = {
        .client_id = DAEMON_CLIENT_ID, .keys = &one, .count = 1};
    struct mc_exist_reply reply;

    assert_int_equal(daemon_call(d, MC_METHOD_EXIST, &request, &reply), MOONCAKE_OK);
    return reply.statuses[0];
}

/* ---- bytes ----------------------------------------------------------------------------------- */

int daemon_connect(uint16_t port)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons(port),
                                        .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    const struct timeval timeout = {.tv_sec = WAIT_MS / 1000};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

void daemon_send(int fd, const void *bytes, size_t len)
{
    const char *at = bytes;

    while (len > 0) {
        ssize_t sent = send(fd, at, len, MSG_NOSIGNAL);

        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent < 0) {
            return; /* closed on us: the test looks for that itself */
        }
        at += sent;
        len -= (size_t)sent;
    }
}

void daemon_send_frame(int fd, uint16_t method, uint64_t id, const void *body, uint32_t body_len,
                       size_t sent_len)
{
    const struct mc_frame frame = {.version = MC_PROTOCOL_MAX, .method = method, .request_id = id};
    uint8_t header[MC_FRAME_LEN];

    mc_frame_encode(&frame, header);
    mc_store_u32(header + 20, body_len); /* the encoder would not write any length */
    daemon_send(fd, header, sizeof(header));
    daemon_send(fd, body, sent_len);
}

static bool read_exactly(int fd, void *out, size_t len)
{
    char *at = out;

    while (len > 0) {
        ssize_t got = recv(fd, at, len, 0);

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return false;
        }
        at += got;
        len -= (size_t)got;
    }
    return true;
}

mooncake_err daemon_read_reply(int fd, uint64_t id, char *body, size_t cap)
{
    uint8_t header[MC_FRAME_LEN];
    struct mc_frame frame;
    uint32_t left, keep;

    assert_true(read_exactly(fd, header, sizeof(header)));
    assert_int_equal(mc_frame_decode(header, &frame), MOONCAKE_OK);
    assert_int_equal(frame.flags, MC_FRAME_REPLY);
    assert_int_equal(frame.request_id, id);
    keep = frame.body_len < cap ? frame.body_len : (uint32_t)cap - 1;
    assert_true(read_exactly(fd, body, keep));
    body[keep] = '\0';
    for (left = frame.body_len - keep; left > 0; left--) {
        char byte;

        assert_true(read_exactly(fd, &byte, 1));
    }
    return (mooncake_err)frame.status;
}

mooncake_err daemon_hello(int fd, uint32_t protocol_min, uint32_t protocol_max, char *body,
                          size_t cap)
{
    const struct mc_hello hello = {.protocol_min = protocol_min,
                                   .protocol_max = protocol_max,
                                   .program = "test_raw 9.9",
                                   .client_id = 7};
    struct mc_buf bytes;

    mc_buf_init(&bytes);
    assert_int_equal(mc_method_codec(MC_METHOD_HELLO)->encode_request(&hello, &bytes), MOONCAKE_OK);
    daemon_send_frame(fd, MC_METHOD_HELLO, 1, mc_buf_bytes(&bytes), (uint32_t)mc_buf_len(&bytes),
                      mc_buf_len(&bytes));
    mc_buf_fini(&bytes);
    return daemon_read_reply(fd, 1, body, cap);
}

bool daemon_is_closed(int fd)
{
    char bytes[256];
    ssize_t got;

    do {
        got = recv(fd, bytes, sizeof(bytes), 0);
    } while (got > 0 || (got < 0 && errno == EINTR));
    return got == 0 || errno == ECONNRESET || errno == EPIPE;
}

/* ---- HTTP ------------------------------------------------------------------------------------ */

unsigned daemon_http(struct daemon *d, const char *method, const char *path, struct mc_buf *out)
{
    int fd = daemon_connect(d->metrics_port);
    char request[6000], chunk[4096];
    const char *head_end;
    unsigned status;
    ssize_t got;
    int len = snprintf(request, sizeof(request), "%s %s HTTP/1.0\r\nHost: x\r\n\r\n", method, path);

    assert_true(len > 0 && (size_t)len < sizeof(request));
    daemon_send(fd, request, (size_t)len);
    mc_buf_clear(out, SIZE_MAX);
    while ((got = recv(fd, chunk, sizeof(chunk), 0)) > 0) {
        assert_int_equal(mc_buf_append(out, chunk, (size_t)got), MOONCAKE_OK);
    }
    (void)close(fd);
    assert_int_equal(mc_buf_append(out, "", 1), MOONCAKE_OK); /* a text from here on */
    out->end--;
    assert_int_equal(sscanf((const char *)mc_buf_bytes(out), "HTTP/%*s %u", &status), 1);
    head_end = strstr((const char *)mc_buf_bytes(out), "\r\n\r\n");
    assert_non_null(head_end);
    mc_buf_consume(out, (size_t)((const uint8_t *)head_end + 4 - mc_buf_bytes(out)));
    return status;
}

double daemon_metric(const struct mc_buf *page, const char *name)
{
    const char *at = (const char *)mc_buf_bytes(page);
    size_t len = strlen(name);

    while (at != NULL) {
        if (strncmp(at, name, len) == 0 && at[len] == ' ') {
            return strtod(at + len, NULL);
        }
        at = strchr(at, '\n');
        at = at == NULL ? NULL : at + 1;
    }
    fail_msg("no metric %s on the page", name);
    return 0;
}

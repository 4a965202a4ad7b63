/*
 * A real mooncake_master for tests: its process, typed calls to it over a real socket, raw bytes,
 * and HTTP. What a test starts is gone at its end, also when the test fails.
 */
#ifndef MC_TESTS_MASTER_DAEMON_H
#define MC_TESTS_MASTER_DAEMON_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/mem.h"
#include "io/loop.h"
#include "wire/master_stub.h"
#include "wire/messages.h"

#define DAEMON_CLIENT_ID 0xc0ffeeu
#define DAEMON_OUTPUT_LEN 8192u

struct daemon {
    pid_t pid;
    int output;                   /* read end of its standard output and error */
    char text[DAEMON_OUTPUT_LEN]; /* what it has printed up to the serving line, or all of it */
    uint16_t rpc_port, metrics_port;
    struct mc_loop *loop;
    struct mc_master_stub stub;
    struct mc_arena arena; /* of replies; reset by daemon_call_begin() only */
    bool maybe_executed;
    char sentence[512]; /* of the last call that failed */
};

/* Start it with ports picked by the kernel and @p options (NULL-terminated; NULL: none), and wait
 * until it serves. */
void daemon_start(struct daemon *d, const char *const *options);
/* Run it with @p options only, until it ends by itself; its exit status. Output is in d->text. */
int daemon_run_to_end(struct daemon *d, const char *const *options);
/* Send @p signum and wait; the exit status, or -1 if it did not end by itself. */
int daemon_stop(struct daemon *d, int signum);
/* Whatever state it is in. */
void daemon_kill(struct daemon *d);

/* One call, waited for. The sentence of an error is in d->sentence. */
mooncake_err daemon_call(struct daemon *d, enum mc_method method, const void *request, void *reply);

/* ---- short forms; they fail the test if the call as a whole fails ---------------------------- */

struct mc_key daemon_key(const char *text);
mooncake_err daemon_mount(struct daemon *d, const char *name, uint64_t mount_id, uint64_t len);
/* PutStart of one key; @p out_attempt may be NULL. */
mooncake_err daemon_put_start(struct daemon *d, const char *key, uint64_t value_len,
                              uint64_t *out_attempt);
mooncake_err daemon_put_end(struct daemon *d, const char *key, uint64_t attempt);
/* Start and end. */
void daemon_put(struct daemon *d, const char *key, uint64_t value_len);
mooncake_err daemon_exist(struct daemon *d, const char *key);

/* ---- bytes ----------------------------------------------------------------------------------- */

/* A blocking connection to @p port; reads time out after 60 s. */
int daemon_connect(uint16_t port);
void daemon_send(int fd, const void *bytes, size_t len);
/* A frame with @p body; @p body_len is what the header says, @p sent_len what follows it. */
void daemon_send_frame(int fd, uint16_t method, uint64_t id, const void *body, uint32_t body_len,
                       size_t sent_len);
/* The next reply; its status. The body's first bytes go to @p body (terminated). */
mooncake_err daemon_read_reply(int fd, uint64_t id, char *body, size_t cap);
/* Hello with the protocol range given, and its answer. */
mooncake_err daemon_hello(int fd, uint32_t protocol_min, uint32_t protocol_max, char *body,
                          size_t cap);
/* Did the peer close? Waits for it; false after 20 s of silence. Skips bytes before that. */
bool daemon_is_closed(int fd);

/* GET (or @p method) @p path; the HTTP status. The body goes to @p out (cleared first). */
unsigned daemon_http(struct daemon *d, const char *method, const char *path, struct mc_buf *out);
/* Value of a metric's line that starts with @p name and a space; fails the test if absent. */
double daemon_metric(const struct mc_buf *page, const char *name);

#endif

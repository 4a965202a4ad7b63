/*
 * A loop with a server on it, a handler with a few methods, calls that remember their end, and raw
 * blocking sockets for peers that misbehave. All on one thread; the server runs when the test runs
 * the loop.
 */
#ifndef MC_TESTS_RPC_FIXTURE_H
#define MC_TESTS_RPC_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "rpc/frame.h"
#include "rpc/rpc_client.h"
#include "rpc/rpc_server.h"

#define WAIT_NS (60 * MC_NS_PER_S)

enum fixture_method {
    FIXTURE_HELLO = 1,
    FIXTURE_ECHO = 2,  /* the body comes back */
    FIXTURE_KEEP = 3,  /* answered when the test says so: kept[] */
    FIXTURE_FAIL = 4,  /* ENOENT with a sentence */
    FIXTURE_GROW = 5,  /* u32 in, that many bytes out */
    FIXTURE_QUIET = 6, /* ENOENT without a sentence */
};

#define KEPT_MAX 4096u

struct fixture {
    struct mc_loop *loop;
    struct mc_rpc_server *server;
    struct mc_rpc_client *client;
    char address[64];
    int held_fd; /* keeps the server's port while it is closed */
    struct mc_rpc_request *kept[KEPT_MAX];
    unsigned kept_count;
    unsigned hellos, conns_closed, handled;
    unsigned ups, downs;
    mooncake_err hello_err; /* what the server's on_hello answers */
    bool drained;
};

/* A call of a test. */
struct call {
    struct mc_rpc_call rpc;
    bool done;
    unsigned dones;
    mooncake_err err;
    uint8_t *body; /* a copy; call_fini() frees it */
    size_t body_len;
    char sentence[512];
};

/* Server and client on one loop; the client is not connected yet. */
void fixture_init(struct fixture *f);
/* Closes all that is open, destroys the loop, checks that no memory is left. */
void fixture_fini(struct fixture *f);
void fixture_open_server(struct fixture *f, const char *address);
void fixture_open_client(struct fixture *f, const char *address);
extern const struct mc_rpc_client_options fixture_options;

void call_init(struct call *call, uint64_t timeout_ms);
void call_fini(struct call *call);
void call_start(struct fixture *f, struct call *call, uint16_t method, const void *body,
                size_t body_len);
/* Run the loop until *flag. Fails the test if that takes more than WAIT_NS. */
void run_until(struct fixture *f, const bool *flag);
/* Run the loop until the condition holds. */
#define RUN_UNTIL(f, condition)                                                                    \
    do {                                                                                           \
        uint64_t give_up_ns_ = mc_monotonic_ns() + WAIT_NS;                                        \
        while (!(condition)) {                                                                     \
            assert_true(mc_monotonic_ns() < give_up_ns_);                                          \
            run_some(f);                                                                           \
        }                                                                                          \
    } while (0)
/* One turn, which waits for at most a few milliseconds. */
void run_some(struct fixture *f);

/* A blocking socket to the server. */
int raw_connect(const struct fixture *f);
void raw_send(int fd, const void *bytes, size_t len);
/* Send a frame. */
void raw_send_frame(int fd, uint16_t method, uint64_t request_id, const void *body,
                    uint32_t body_len);
/* Run the loop until the server has closed @p fd. Returns bytes that came before. */
size_t raw_wait_closed(struct fixture *f, int fd);
/* Run the loop until a frame has come; its body (at most cap bytes) goes to @p body. */
void raw_receive_frame(struct fixture *f, int fd, struct mc_frame *out, void *body, size_t cap);

#endif

/*
 * Streams with a memory of what happened to them, and raw blocking sockets as their peers. All on
 * one thread; streams move when the test runs the loop.
 */
#ifndef MC_TESTS_IO_FIXTURE_H
#define MC_TESTS_IO_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "io/stream.h"

#define WAIT_NS (20 * MC_NS_PER_S)
#define END_IN_LEN ((size_t)256 << 10)

/* One end of a connection. Filled by the ops below; behaviour is set by the test. */
struct end {
    struct mc_loop *loop;
    struct mc_stream *stream;
    uint8_t *in; /* END_IN_LEN bytes */
    size_t in_len;
    size_t space_max; /* largest range offered; 0: all there is */
    unsigned ranges;  /* that it is cut into; 0: 1 */
    size_t pause_at;  /* on_space returns 0 once so many bytes have come; 0: never */
    unsigned connecteds, spaces, closeds, draineds;
    bool connected, closed, drained;
    bool in_callback;   /* on_closed must not come inside another call */
    bool in_call;       /* set by tests around calls of theirs */
    bool closed_inside; /* and this tells that it did */
    mooncake_err why;
    char sentence[512];
    /* Called at the end of the callbacks, if not NULL. */
    void (*when_connected)(struct end *end);
    void (*when_bytes)(struct end *end, size_t len);
    void (*when_drained)(struct end *end);
};

extern const struct mc_stream_ops end_ops;

struct fixture {
    struct mc_loop *loop;
    struct mc_listener *listener;
    char address[64];
    int accepted_fd; /* -1: none yet */
    struct end end;  /* the stream under test */
    int peer;        /* the raw socket at its other end */
};

/* A loop and a listener whose accepted descriptors land in accepted_fd. */
void fixture_init(struct fixture *f);
/* The above, and `end` connected to `peer`. */
void fixture_init_connected(struct fixture *f);
/* Close what is open, destroy the loop, check that no memory is left. */
void fixture_fini(struct fixture *f);

void run_some(struct fixture *f);
#define RUN_UNTIL(f, condition)                                                                    \
    do {                                                                                           \
        uint64_t give_up_ns_ = mc_monotonic_ns() + WAIT_NS;                                        \
        while (!(condition)) {                                                                     \
            assert_true(mc_monotonic_ns() < give_up_ns_);                                          \
            run_some(f);                                                                           \
        }                                                                                          \
    } while (0)

void peer_send(struct fixture *f, const void *bytes, size_t len);
/* Receive exactly @p len bytes, turning the loop meanwhile. */
void peer_receive(struct fixture *f, void *out, size_t len);
/* Turn the loop until the peer sees the end; returns bytes that came before. */
size_t peer_wait_end(struct fixture *f);
/* Bytes that wait in the socket of the stream under test. */
int end_waiting_bytes(const struct fixture *f);
/* Close with a reset instead of an orderly end. */
void peer_reset(struct fixture *f);

#endif

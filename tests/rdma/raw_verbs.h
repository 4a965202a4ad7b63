/*
 * Plain verbs for tests, with nothing of the transport in between: a connection from host A to host
 * B and one-sided requests on it. One thread drives both ends, or one end against somebody else's.
 * Whatever fails here fails the test.
 */
#ifndef MC_TESTS_RDMA_RAW_VERBS_H
#define MC_TESTS_RDMA_RAW_VERBS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>

/* One end of a connection. */
struct raw_end {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    struct ibv_comp_channel *told; /* who sleeps is woken by it */
    struct ibv_cq *cq;
};

/* The passive end, before anybody connects. */
struct raw_listener {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    uint16_t port;
};

/* How asking for a connection ended. */
struct raw_answer {
    bool accepted;
    uint8_t data[256]; /* what the peer sent along, padded by the connection manager */
    size_t len;
};

void raw_listen(struct raw_listener *listener, const char *address);
void raw_listener_close(struct raw_listener *listener);

/** Resolve from @p from to @p to and make a queue pair; nothing is sent yet. */
void raw_prepare(struct raw_end *end, const char *from, const char *to, uint16_t port);
/** Ask the peer; @p data goes along. The other end must be answered by somebody. */
void raw_ask(struct raw_end *end, const void *data, uint8_t len);
/** Wait for the answer, for at most @p seconds. */
void raw_await_answer(struct raw_end *end, unsigned seconds, struct raw_answer *out);
/** Accept what was asked of @p listener. */
void raw_accept(struct raw_listener *listener, struct raw_end *out);
/** All of it: both ends, connected. */
void raw_connect(struct raw_end *a, struct raw_end *b, const char *from, const char *to);
void raw_close(struct raw_end *end);

struct ibv_mr *raw_register(struct raw_end *end, void *at, size_t len, unsigned access);

/** Post one READ or WRITE of the whole of @p local. */
void raw_post(struct raw_end *end, enum ibv_wr_opcode opcode, const struct ibv_sge *local,
              uint64_t remote_at, uint32_t remote_key);
/** The status of the next completion; fails the test if none comes within @p seconds. */
enum ibv_wc_status raw_await(struct raw_end *end, unsigned seconds);

/** Post @p count READs of as many neighbouring ranges there, with one call; only the last one asks
 * for a completion. */
void raw_post_reads(struct raw_end *end, struct ibv_sge *locals, unsigned count, uint64_t remote_at,
                    uint32_t remote_key);
/** As raw_await(), but asleep meanwhile. */
enum ibv_wc_status raw_sleep(struct raw_end *end, unsigned seconds);

/** Both in one. */
enum ibv_wc_status raw_do(struct raw_end *end, enum ibv_wr_opcode opcode,
                          const struct ibv_sge *local, uint64_t remote_at, uint32_t remote_key);

#endif

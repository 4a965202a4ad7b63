/*
 * What a client knows about the segments it exchanges bytes with: which transport is in use, over
 * what, how much has moved, and why a transport gave way to the next. Transports and xfer.c write
 * it, operators read it. Thread-safe; where a function takes NULL for the table, it does nothing.
 */
#ifndef MC_TRANSPORT_PEERS_H
#define MC_TRANSPORT_PEERS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/ids.h"
#include "base/limits.h"

#define MC_PEER_PATHS_MAX 8u
#define MC_PEER_REASON_LEN_MAX 255u
/* Segments that are remembered; further ones are not. */
#define MC_PEERS_MAX 4096u

/* One RDMA path: a device of ours, and what was seen of it last. */
struct mc_peer_path {
    char device[64];
    char gid_kind[16]; /* "rocev2", "rocev1", "ib" */
    char gid[48];      /* our own, as an IP address */
    uint32_t gid_index, mtu;
    char state[16]; /* "up", "lost", "paused", "idle", "port down", "device gone" */
};

struct mc_peer_info {
    char name[MC_SEGMENT_NAME_LEN_MAX + 1]; /* of the segment */
    const char *transport;                  /* of the last op that went well; "" before */
    uint64_t ops, failures, bytes_read, bytes_written;
    uint64_t retries;   /* RDMA connections that failed or were lost */
    uint64_t fallbacks; /* ops that went on over another transport */
    int64_t queue_pairs;
    char fallback_reason[MC_PEER_REASON_LEN_MAX + 1]; /* of the last one; "" if there was none */
    const char *fallback_from;                        /* which transport gave way; "" as above */
    struct mc_peer_path paths[MC_PEER_PATHS_MAX];
    unsigned paths_count;
};

struct mc_peers;

mooncake_err mc_peers_create(struct mc_peers **out) MC_MUST_CHECK;
/** Nulls *peers. */
void mc_peers_destroy(struct mc_peers **peers);

/** An op of @p len payload bytes has ended over @p kind (a static text). */
void mc_peers_note_op(struct mc_peers *peers, const char *name, const char *kind,
                      enum mc_rights right, uint64_t len, mooncake_err err);
/** An op goes on over @p to because of what mooncake_last_error() says about @p from. The first one
 * is logged, and again the first one after @p from has worked. */
void mc_peers_note_fallback(struct mc_peers *peers, const char *name, const char *from,
                            const char *to);
/** Ops that have gone on over another transport than @p from ("rdma", "shm"; NULL: any other), all
 * peers together, also those that are gone. Any thread. */
uint64_t mc_peers_fallbacks(const struct mc_peers *peers, const char *from);
void mc_peers_note_path(struct mc_peers *peers, const char *name, const struct mc_peer_path *path);
void mc_peers_note_connections(struct mc_peers *peers, const char *name, int change);
void mc_peers_note_retry(struct mc_peers *peers, const char *name);

/** Copy up to @p cap of them, in the order in which they were met; returns how many there are. */
size_t mc_peers_list(struct mc_peers *peers, struct mc_peer_info *out, size_t cap);

#endif

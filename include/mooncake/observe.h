/* What a client has met and whom it talks to: numbers for operators. Nothing here asks anybody. */
#ifndef MOONCAKE_OBSERVE_H
#define MOONCAKE_OBSERVE_H

#include "mooncake/client.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Numbers since the client was opened. */
typedef struct mooncake_client_stats {
    size_t struct_size;          /**< set by the caller to sizeof(mooncake_client_stats) */
    uint64_t puts_again;         /**< puts placed anew because a store died or hung */
    uint64_t puts_degraded;      /**< puts that succeeded with fewer copies than wished */
    uint64_t damaged_extents;    /**< extents read whose checksum did not hold; none was returned */
    uint64_t descriptor_exists;  /**< questions to the master that asked for descriptors too */
    uint64_t descriptor_keys;    /**< keys of their answers */
    uint64_t descriptors_reused; /**< keys that were got without asking the master again */
    uint64_t descriptors_stale;  /**< of these: could not be read so, and the master was asked */
    uint64_t poll_ns;            /**< processor time of calls that polled and found nothing yet,
                                      in nanoseconds; like the next four, of calls that ended */
    uint64_t polls_found;        /**< answers that came while a call polled for them */
    uint64_t polls_missed;       /**< times that a call polled for nothing and then slept */
    uint64_t sleeps;             /**< times that a call slept */
    uint64_t poll_rests;         /**< times that polling was left for a while, because others
                                      wanted the processor */
    uint64_t reads_disturbed;    /**< extents whose place in the caller's memory was written by
                                      somebody else while they were read; they were read again */
} mooncake_client_stats;

/**
 * What this client has met since it was opened. Asks nobody.
 *
 * @param out_stats  receives the numbers; its struct_size is set by the caller
 */
MOONCAKE_API mooncake_err mooncake_client_get_stats(mooncake_client *client,
                                                    mooncake_client_stats *out_stats);

#define MOONCAKE_PEER_PATHS_MAX 8

/** One RDMA path to a peer. */
typedef struct mooncake_peer_path {
    char device[64];   /**< of this machine */
    char gid_kind[16]; /**< "rocev2", "rocev1" or "ib" */
    char gid[48];      /**< as an IP address */
    uint32_t gid_index;
    uint32_t mtu;   /**< bytes of payload in a packet: the smaller of both ends' */
    char state[16]; /**< "up", "idle", "lost", "paused", "port down" or "device gone" */
} mooncake_peer_path;

/** What this client knows about one segment it has exchanged bytes with. */
typedef struct mooncake_peer {
    char segment[256];
    char transport[16]; /**< that did the last transfer that went well; "" before */
    uint64_t ops, failures, bytes_read, bytes_written;
    uint64_t retries;          /**< RDMA connections that failed or were lost */
    uint64_t fallbacks;        /**< transfers that went on over another transport */
    char fallback_from[16];    /**< which one gave way last; "" if none has */
    char fallback_reason[256]; /**< and why */
    uint32_t queue_pairs;      /**< connected now */
    uint32_t paths_count;
    mooncake_peer_path paths[MOONCAKE_PEER_PATHS_MAX]; /**< in use, or used last */
} mooncake_peer;

/**
 * The segments that this client has exchanged bytes with, in the order in which they were met. Asks
 * nobody.
 *
 * @param out        room for @p cap of them; may be NULL if cap is 0
 * @param cap        how many there is room for
 * @param out_count  how many there are, also if that is more than @p cap
 */
MOONCAKE_API mooncake_err mooncake_client_peers(mooncake_client *client, mooncake_peer *out,
                                                size_t cap, size_t *out_count);

#ifdef __cplusplus
}
#endif

#endif

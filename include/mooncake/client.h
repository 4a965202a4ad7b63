/*
 * The client of a Mooncake pool: put, get, exist, remove, and their batches.
 *
 * Calls block the calling thread until they are done or their deadline has passed, whichever comes
 * first; they work on the caller's own thread. A client may be used from any number of threads at
 * once. A process that forked must not use its parent's clients: every call there returns
 * MOONCAKE_EUNAVAILABLE.
 *
 * Errors that every call can return, beside those it lists:
 *   MOONCAKE_EINVAL        a pointer that must not be NULL is, a count or length is out of range
 *   MOONCAKE_ENOMEM        this process is out of memory
 *   MOONCAKE_ETIMEDOUT     the deadline has passed
 *   MOONCAKE_ECANCELED     this thread's interrupt hook ended it (mooncake_set_interrupt())
 *   MOONCAKE_ERPC          the master could not be reached, or the connection to it was lost
 *   MOONCAKE_EUNAVAILABLE  the client is closing, or this is a forked child
 * mooncake_last_error() has the sentence. After any return nothing writes to a caller's buffer.
 *
 * Keys are 1 to MOONCAKE_KEY_MAX bytes, NUL-terminated; others: MOONCAKE_EBADKEY. Lengths are in
 * bytes and 64 bit. `timeout_ms` is for the whole call; 0 takes the client's default.
 */
#ifndef MOONCAKE_CLIENT_H
#define MOONCAKE_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mooncake/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MOONCAKE_KEY_MAX 4096

/** A connection to a pool. Opaque; made by mooncake_client_open(). */
typedef struct mooncake_client mooncake_client;

/** How much of what is read is proven before a get returns OK. */
typedef enum mooncake_verify {
    MOONCAKE_VERIFY_FULL = 0,   /**< header and payload checksum: the bytes that were put */
    MOONCAKE_VERIFY_HEADER = 1, /**< the right object; damage in the payload goes unseen */
    MOONCAKE_VERIFY_NONE = 2    /**< nothing: for measuring */
} mooncake_verify;

/**
 * Options of a client. Call mooncake_client_options_init() first; later versions add fields at the
 * end and read no further than struct_size.
 */
typedef struct mooncake_client_options {
    size_t struct_size;
    /** "host:port" of the master. NULL: environment MOONCAKE_MASTER, else 127.0.0.1:50051. */
    const char *master;
    /** Name of this process' segment, and its host for placement. NULL: host name and port. */
    const char *local_hostname;
    /** Bytes this process lends to the pool; 0 lends nothing. Memory is touched as it is used. */
    uint64_t segment_size;
    /** Address the lent segment is served on; NULL: "0.0.0.0:0", the kernel picks the port. */
    const char *data_address;
    /** Default deadline of a call, milliseconds (30000). */
    uint32_t timeout_ms;
    /** Longest time for one connection attempt, milliseconds (3000). */
    uint32_t connect_timeout_ms;
    /** Calls that run at the same time; further ones wait for their turn (8). */
    uint32_t engines_max;
    /** See mooncake_verify (FULL). */
    mooncake_verify verify;
    /** Transports that may be used: "local,shm,rdma,tcp"; NULL or "auto": all that this machine
     * has. What one cannot do goes over the next in this order within the same call; "rdma" alone
     * forbids that. */
    const char *transport;
    /** Microseconds a waiting call polls before it sleeps, at most (50); 0 sleeps at once. While
     * that does not pay, calls sleep at once. */
    uint32_t poll_us;
    /** What this program calls itself in the pool's lists; NULL: its process name. */
    const char *program;
    /** Used by command-line tools: do not count as a client, do not ping. */
    bool tool;
    /** Which processes of this host may map the lent segment: "uid" (those of the same user, and
     * root), "any" or "off". NULL: "uid". */
    const char *shm;
    /** Directory of the socket for that. NULL: /run/mooncake for root, else one of the user's. */
    const char *shm_dir;
    /** RDMA devices to use, "mlx5_0,mlx5_1:2". NULL: environment MOONCAKE_RDMA_DEVICES, else all
     * whose port has a routable GID. */
    const char *rdma_devices;
    /** Index of the GID to use on each of them, or "auto": RoCE v2 with an IPv4 address first.
     * NULL: environment MOONCAKE_RDMA_GID_INDEX, else "auto". */
    const char *rdma_gid_index;
    /** How RDMA completions are noticed: "event" (a waiting call sleeps) or "poll" (it spins while
     * something is under way, for the least delay). NULL: "event". */
    const char *rdma_completion;
    /** Registered memory of each engine through which RDMA moves buffers that were not registered,
     * bytes; 0: 16 MiB. A transfer that gets none of it for 2 s ends with MOONCAKE_ENOSPACE. */
    uint64_t rdma_staging;
    /** A get right after an exist of the same keys reads what the exist has told, without asking
     * the master again (true). The master allows it for a short time (its descriptor_reuse_ttl), in
     * which a removal by force or a replacement of such keys, by anybody, waits; so gets see what
     * they would see otherwise. Exists ask for it only while gets are seen to follow them. */
    bool reuse_descriptors;
    /** "host:port" of a process of this host that serves thin clients (mooncake_client, or
     * mooncake_store --serve_clients). Master, transports and RDMA devices are then those that it
     * names, except where an option above names them; `master` is not read. NULL: none. */
    const char *server;
    /** Bytes of memory to share with that process, see mooncake_pool_alloc(); 0: none. Mapped at
     * once, touched as it is used. */
    uint64_t pool_size;
    /** TCP connections to one store, at most, of each call that runs at a time (as many as this
     * process may use CPUs, but 2 at least and 4 at most). Large values move in parts over all of
     * them; idle ones are closed after a minute. */
    uint32_t tcp_connections;
    /** Threads of this client that help calls with large batches of copies from and to memory of
     * this host (a quarter of the CPUs that this process may use, 4 at most: none on small
     * machines). 0: a call does all on its own thread. They are made when first of use. */
    uint32_t copy_threads;
} mooncake_client_options;

/**
 * Set every field of a client's options to its default, as mooncake_client_options_init() does.
 *
 * @param options  the caller's
 * @param size     of the structure as the caller knows it, in bytes; later versions are longer
 */
MOONCAKE_API void mooncake_client_options_init_sized(mooncake_client_options *options, size_t size);

/** Set every field of a client's options to its default. */
static inline void mooncake_client_options_init(mooncake_client_options *options)
{
    mooncake_client_options_init_sized(options, sizeof(*options));
}

/**
 * Connect to a pool. Returns when the master has answered, and when the segment that this process
 * lends (if any) is mounted: a put would work.
 *
 * @param options     borrowed for the call; NULL: all defaults
 * @param out_client  the caller's; give it to mooncake_client_close()
 * @retval MOONCAKE_EINVAL         an option is out of range: the sentence names it
 * @retval MOONCAKE_ESEGMENTEXISTS a live process has mounted a segment of this name
 * With `server` also:
 * @retval MOONCAKE_ERPC           nobody serves there
 * @retval MOONCAKE_EUNAVAILABLE   it has not joined the pool yet, or does not trust this user
 * @retval MOONCAKE_ENOSPACE       it shares no more memory than its limit
 * @retval MOONCAKE_ENOTSUP        it serves no thin clients, or runs on another host
 * Needs at most connect_timeout_ms per attempt and timeout_ms in all.
 */
MOONCAKE_API mooncake_err mooncake_client_open(const mooncake_client_options *options,
                                               mooncake_client **out_client);

/**
 * Take the lent segment out of the pool gently: nothing new is placed there from now on, reads are
 * served for @p grace_ms more, then it is unmounted and this returns. What lay only there is lost.
 * At most once; only mooncake_client_close() may follow, which ends a grace that goes on.
 *
 * @param grace_ms  how long reads are still served, in milliseconds; 0: not at all
 * @retval MOONCAKE_EINVAL     no segment is lent, it was asked for already, or the grace is longer
 *                             than a week
 * @retval MOONCAKE_ECANCELED  this thread's interrupt hook asked for it: the grace goes on
 */
MOONCAKE_API mooncake_err mooncake_client_leave(mooncake_client *client, uint64_t grace_ms);

/**
 * Leave the pool: waits for calls under way (they end by their deadlines), unmounts the lent
 * segment, frees everything. NULL is ignored. In a forked child: frees what is safe, says nothing
 * to the pool. This thread's interrupt hook ends the waiting for the master's answer.
 */
MOONCAKE_API void mooncake_client_close(mooncake_client *client);

/** How one object is stored. Call mooncake_put_options_init() first. */
typedef struct mooncake_put_options {
    size_t struct_size;
    /** Copies wished, 1 to 8, on different segments (1). Fewer is a success. */
    uint32_t replicas;
    /** Return MOONCAKE_ENOSPACE rather than store fewer copies (false). */
    bool all_replicas;
    /** Evict only when nothing else can be, for soft_pin_ms from now on (false). */
    bool soft_pin;
    /** Milliseconds; 0: the master's default. */
    uint64_t soft_pin_ms;
    /** Never evict (false). */
    bool hard_pin;
    /** Names of segments to place on first; borrowed for the call. */
    const char *const *preferred_segments;
    size_t preferred_segments_count;
    /** Replace a readable value instead of returning MOONCAKE_EEXIST (false). Until the put has
     * ended, readers see the old value, then the new one, each whole; if it fails, the old one
     * stays. A key that another put is writing at that moment still gives MOONCAKE_EEXIST. */
    bool upsert;
    /** Receives the number of copies that were written, 0 if the put failed: one number, or of a
     * batch one an item. NULL: not asked for. */
    uint32_t *copies;
} mooncake_put_options;

/**
 * Set every field of a put's options to its default, as mooncake_put_options_init() does.
 *
 * @param options  the caller's
 * @param size     of the structure as the caller knows it, in bytes; later versions are longer
 */
MOONCAKE_API void mooncake_put_options_init_sized(mooncake_put_options *options, size_t size);

/** Set every field of a put's options to its default. */
static inline void mooncake_put_options_init(mooncake_put_options *options)
{
    mooncake_put_options_init_sized(options, sizeof(*options));
}

/** A piece of memory to write from. */
typedef struct mooncake_piece {
    const void *data;
    uint64_t len;
} mooncake_piece;

/** A piece of memory to read into. */
typedef struct mooncake_space {
    void *data;
    uint64_t len;
} mooncake_space;

/**
 * Store one value. When it returns OK every reader sees the whole value.
 *
 * @param data     borrowed for the call; may be NULL if len is 0
 * @param len      bytes at @p data
 * @param options  borrowed for the call; NULL: all defaults
 * @retval MOONCAKE_EEXIST    the key is stored or being written by somebody; nothing was written
 * @retval MOONCAKE_ENOSPACE  no room, also after eviction
 * @retval MOONCAKE_ETRANSFER no copy could be written to its store, nor to another one: stores that
 *                            die during a put are left out and the value is placed anew, twice
 * After anything but OK and EEXIST the key is absent, unless the answer to the last step was lost
 * (ERPC, ETIMEDOUT): then it is absent or holds the whole value.
 */
MOONCAKE_API mooncake_err mooncake_put(mooncake_client *client, const char *key, const void *data,
                                       uint64_t len, const mooncake_put_options *options,
                                       uint32_t timeout_ms);

/**
 * As mooncake_put() from several pieces of memory: the value is the pieces laid end to end.
 *
 * @param pieces  borrowed for the call, as what they point to
 */
MOONCAKE_API mooncake_err mooncake_put_pieces(mooncake_client *client, const char *key,
                                              const mooncake_piece *pieces, size_t pieces_count,
                                              const mooncake_put_options *options,
                                              uint32_t timeout_ms);

/**
 * Read one value into the caller's memory.
 *
 * @param data     receives the value. Within a host a large one takes half as long again unless
 *                 a cache line begins there (a multiple of 64), which malloc() does not see to.
 * @param cap      bytes at @p data; what lies beyond the value's length is not touched
 * @param out_len  the value's length, also set with MOONCAKE_EINVAL when cap is too small (nothing
 *                 was written then). NULL allowed.
 * @retval MOONCAKE_ENOENT     no such key, or its bytes were lost or evicted meanwhile: a miss
 * @retval MOONCAKE_ENOTREADY  it is being written: a miss for now
 * @retval MOONCAKE_ECHECKSUM  every copy is damaged
 * @retval MOONCAKE_ETRANSFER  no copy's store can be reached
 * After an error the content of @p data is undefined, but nothing writes to it any more.
 */
MOONCAKE_API mooncake_err mooncake_get_into(mooncake_client *client, const char *key, void *data,
                                            uint64_t cap, uint32_t timeout_ms, uint64_t *out_len);

/**
 * As mooncake_get_into() into several pieces of memory, which the value fills in order.
 *
 * @param pieces  where to, and how much room there is
 */
MOONCAKE_API mooncake_err mooncake_get_into_pieces(mooncake_client *client, const char *key,
                                                   const mooncake_space *pieces,
                                                   size_t pieces_count, uint32_t timeout_ms,
                                                   uint64_t *out_len);

/**
 * Read one value into fresh memory.
 *
 * @param out_data  the caller's; give it to mooncake_free(). Not NULL also for an empty value.
 */
MOONCAKE_API mooncake_err mooncake_get(mooncake_client *client, const char *key,
                                       uint32_t timeout_ms, void **out_data, uint64_t *out_len);

/**
 * Free memory that a get returned. NULL is ignored.
 *
 * @param data  made by mooncake_get() or mooncake_batch_get()
 */
MOONCAKE_API void mooncake_free(void *data);

/**
 * Is the key readable? Then it stays so for the lease (10 s by default). A miss is no error here:
 * the call returns OK and *out_exists is false.
 *
 * @param out_exists  receives the answer
 */
MOONCAKE_API mooncake_err mooncake_exist(mooncake_client *client, const char *key,
                                         uint32_t timeout_ms, bool *out_exists);

/**
 * Length of a value.
 *
 * @retval MOONCAKE_ENOENT    no such key
 * @retval MOONCAKE_ENOTREADY it is being written
 */
MOONCAKE_API mooncake_err mooncake_size(mooncake_client *client, const char *key,
                                        uint32_t timeout_ms, uint64_t *out_len);

/**
 * Remove one key.
 *
 * @param force  also when it is under a lease; pins protect from eviction, not from this
 * @retval MOONCAKE_ENOENT    no such key
 * @retval MOONCAKE_ELEASED   somebody reads it; try again when the lease has ended
 * @retval MOONCAKE_ENOTREADY it is being written
 */
MOONCAKE_API mooncake_err mooncake_remove(mooncake_client *client, const char *key, bool force,
                                          uint32_t timeout_ms);

/**
 * Remove every key. Without @p force, leased ones stay; those that are being written stay in any
 * case. mooncake_admin_remove() says why keys are left.
 */
MOONCAKE_API mooncake_err mooncake_remove_all(mooncake_client *client, bool force,
                                              uint32_t timeout_ms, uint64_t *out_removed,
                                              uint64_t *out_left);

/**
 * Remove every key in which a regular expression (PCRE2) is found; ^ and $ anchor it. Keys stay as
 * in mooncake_remove_all(). Both counts are of matching keys only.
 *
 * @param pattern  the regular expression, NUL-terminated
 * @retval MOONCAKE_EINVAL  no regular expression, or one that costs too much to match: the sentence
 *                          says which. In the second case what was removed stays removed.
 */
MOONCAKE_API mooncake_err mooncake_remove_matching(mooncake_client *client, const char *pattern,
                                                   bool force, uint32_t timeout_ms,
                                                   uint64_t *out_removed, uint64_t *out_left);

/*
 * Batches. Arrays have @p count elements; element i of each belongs to item i. `results` receives
 * one error per item; each item is judged alone and may return whatever the single call does. The
 * call itself returns OK when every item was judged, also if all failed; otherwise `results` is
 * filled with the error that the call returns. The same key may stand in a batch several times: a
 * get fills every buffer, a put stores the first and gives EEXIST for the rest. count 0 is OK.
 */

/**
 * Store many values: as mooncake_put(), each item judged alone.
 *
 * @param data  from where, one an item; borrowed for the call
 * @param lens  bytes there, one an item
 */
MOONCAKE_API mooncake_err mooncake_batch_put(mooncake_client *client, const char *const *keys,
                                             const void *const *data, const uint64_t *lens,
                                             size_t count, const mooncake_put_options *options,
                                             uint32_t timeout_ms, mooncake_err *results);

/**
 * Store many values, each from several pieces of memory, as mooncake_put_pieces() does.
 *
 * @param pieces         item i is put from pieces[i][0 .. pieces_counts[i])
 * @param pieces_counts  how many pieces, one number an item
 */
MOONCAKE_API mooncake_err mooncake_batch_put_pieces(mooncake_client *client,
                                                    const char *const *keys,
                                                    const mooncake_piece *const *pieces,
                                                    const size_t *pieces_counts, size_t count,
                                                    const mooncake_put_options *options,
                                                    uint32_t timeout_ms, mooncake_err *results);

/**
 * Read many values into the caller's memory: as mooncake_get_into(), each item judged alone.
 *
 * @param data      receives the values, one an item; no two overlap, as several arrive at a time:
 *                  one that another has spoilt is read once more
 * @param caps      bytes there, one an item
 * @param out_lens  as out_len of mooncake_get_into(), one an item; NULL allowed
 */
MOONCAKE_API mooncake_err mooncake_batch_get_into(mooncake_client *client, const char *const *keys,
                                                  void *const *data, const uint64_t *caps,
                                                  size_t count, uint32_t timeout_ms,
                                                  mooncake_err *results, uint64_t *out_lens);

/**
 * Read many values, each into several pieces of memory, as mooncake_get_into_pieces() does.
 *
 * @param pieces         item i fills pieces[i][0 .. pieces_counts[i]) in order
 * @param pieces_counts  how many pieces, one number an item
 */
MOONCAKE_API mooncake_err mooncake_batch_get_into_pieces(mooncake_client *client,
                                                         const char *const *keys,
                                                         const mooncake_space *const *pieces,
                                                         const size_t *pieces_counts, size_t count,
                                                         uint32_t timeout_ms, mooncake_err *results,
                                                         uint64_t *out_lens);

/**
 * Read many values into fresh memory.
 *
 * @param out_data  out_data[i] is NULL where results[i] is not OK; free each with mooncake_free()
 */
MOONCAKE_API mooncake_err mooncake_batch_get(mooncake_client *client, const char *const *keys,
                                             size_t count, uint32_t timeout_ms,
                                             mooncake_err *results, void **out_data,
                                             uint64_t *out_lens);

/**
 * Which of these keys are readable?
 *
 * @param results  results[i] is OK (readable), ENOENT (not), EBADKEY, or what went wrong
 */
MOONCAKE_API mooncake_err mooncake_batch_exist(mooncake_client *client, const char *const *keys,
                                               size_t count, uint32_t timeout_ms,
                                               mooncake_err *results);

/**
 * Lengths of many values.
 *
 * @param results   as what mooncake_size() returns, one an item
 * @param out_lens  the lengths, where results[i] is OK
 */
MOONCAKE_API mooncake_err mooncake_batch_size(mooncake_client *client, const char *const *keys,
                                              size_t count, uint32_t timeout_ms,
                                              mooncake_err *results, uint64_t *out_lens);

/** Remove many keys: as mooncake_remove(), each item judged alone. */
MOONCAKE_API mooncake_err mooncake_batch_remove(mooncake_client *client, const char *const *keys,
                                                size_t count, bool force, uint32_t timeout_ms,
                                                mooncake_err *results);

/**
 * Announce memory that puts and gets will use, so that transports which need it pinned do that
 * once. Under TCP and shared memory this costs nothing; with RDMA the range is pinned here, once
 * with each device, for as long as it is registered or in use. Ranges may overlap; each
 * registration wants its own unregister. Memory that cannot be pinned goes through staging, and
 * the log says why; with "rdma" as the only transport that is an error.
 *
 * @param data  begin of the range; the caller's memory, until unregistered
 * @param len   its length in bytes, at least 1
 * @retval MOONCAKE_EINVAL  len is 0 or the range wraps; unregister: not registered
 * @retval MOONCAKE_ENOMEM  RLIMIT_MEMLOCK does not allow it: the sentence has what is needed and
 *                          what there is
 */
MOONCAKE_API mooncake_err mooncake_register_buffer(mooncake_client *client, void *data,
                                                   uint64_t len);
/**
 * Take back what mooncake_register_buffer() announced, once for each time it was announced.
 *
 * @param data  begin of a registered range
 * @retval MOONCAKE_EINVAL  not registered
 */
MOONCAKE_API mooncake_err mooncake_unregister_buffer(mooncake_client *client, void *data);

/**
 * Take memory from the pool that this client shares with the process that serves it (`pool_size`).
 * It is registered already, and page-aligned. There is no giving back: it all goes when the client
 * is closed, after which nobody may touch it. If the other process ends, it stays.
 *
 * @param len       bytes, at least 1
 * @param out_data  valid until the client is closed
 * @retval MOONCAKE_ENOSPACE  less than that is left of the pool
 * @retval MOONCAKE_EINVAL    len is 0
 * @retval MOONCAKE_EMODE     the client has no pool
 */
MOONCAKE_API mooncake_err mooncake_pool_alloc(mooncake_client *client, uint64_t len,
                                              void **out_data);

/**
 * Let the calling thread end its own calls early. While a call of this thread waits, it asks
 * @p asked about ten times a second; when that returns true, the call ends as it does at its
 * deadline, but with MOONCAKE_ECANCELED, which also is the verdict of a batch's items that were not
 * done. Valid for every client, also for mooncake_client_open(), until set again.
 *
 * @param asked  runs on this thread, inside the call: it must not call this library. NULL: no hook
 * @param arg    handed to @p asked
 */
MOONCAKE_API void mooncake_set_interrupt(bool (*asked)(void *arg), void *arg);

/**
 * Name under which this process' segment is mounted.
 *
 * @return "host:port", or the host name if none is mounted; valid as long as the client
 */
MOONCAKE_API const char *mooncake_client_hostname(const mooncake_client *client);

/** Does the master answer? OK, or why not. */
MOONCAKE_API mooncake_err mooncake_client_check(mooncake_client *client, uint32_t timeout_ms);

/** The library's version. @return "0.1.0"; static text */
MOONCAKE_API const char *mooncake_version(void);

#ifdef __cplusplus
}
#endif

#endif

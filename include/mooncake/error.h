/*
 * The one list of errors. Numbers are ABI and wire format, and they are the numbers that the C++
 * Mooncake uses, so that programs written for it read ours.
 */
#ifndef MOONCAKE_ERROR_H
#define MOONCAKE_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define MOONCAKE_API __attribute__((visibility("default")))
#else
#define MOONCAKE_API
#endif

/*
 * X(name, number, radius, text). The radius says what the error spoils, which is what a caller
 * needs to choose a cure: CALL (this call only: correct it or try again), OBJECT (this key),
 * PEER (this connection or store), CLIENT (this client's membership), BUG (report it).
 */
#define MOONCAKE_ERR_LIST(X)                                                                       \
    X(OK, 0, CALL, "success")                                                                      \
    X(EINTERNAL, -1, BUG, "internal error")                                                        \
    X(ENOMEM, -2, CALL, "out of memory in this process")                                           \
    X(ENOSEGMENT, -101, PEER, "no such segment")                                                   \
    X(ESEGMENTEXISTS, -102, PEER, "a segment of this name is mounted already")                     \
    X(ENOCLIENT, -103, CLIENT, "client is not known to the master")                                \
    X(ENOSPACE, -200, CALL, "no space in the pool")                                                \
    X(EBADKEY, -400, CALL, "key is empty, too long or holds a NUL byte")                           \
    X(EINVAL, -600, CALL, "invalid parameters")                                                    \
    X(ENOTOWNER, -601, OBJECT, "not the attempt that owns this put")                               \
    X(ESTATE, -700, OBJECT, "object is in a state that does not allow this")                       \
    X(ENOTREADY, -703, OBJECT, "object is still being written")                                    \
    X(ENOENT, -704, OBJECT, "no such object")                                                      \
    X(EEXIST, -705, OBJECT, "object exists already")                                               \
    X(ELEASED, -706, OBJECT, "object is protected by a lease")                                     \
    X(ELEASEEXPIRED, -707, OBJECT, "lease expired")                                                \
    X(ETASKRUNNING, -708, OBJECT, "a replication task is running on this object")                  \
    X(ENOREPLICA, -710, OBJECT, "replica not found")                                               \
    X(EREPLICABUSY, -714, OBJECT, "replica is busy")                                               \
    X(ETRANSFER, -800, PEER, "transfer failed")                                                    \
    X(ECHECKSUM, -801, OBJECT, "checksum mismatch")                                                \
    X(ERPC, -900, PEER, "remote procedure call failed")                                            \
    X(ETIMEDOUT, -901, PEER, "timed out")                                                          \
    X(ECANCELED, -902, CALL, "interrupted by the caller")                                          \
    X(EUNAVAILABLE, -1010, CLIENT, "not available in this state")                                  \
    X(EMODE, -1011, CLIENT, "not available in this mode")                                          \
    X(ENOTSUP, -1012, CALL, "not supported")                                                       \
    X(ENOTASK, -1400, CALL, "no such task")                                                        \
    X(ETASKQUEUE, -1401, CALL, "task queue is full")                                               \
    X(EQUOTA, -1700, CALL, "over quota")                                                           \
    X(ENOTENANT, -1701, CALL, "no such tenant")

/** Result of every call that can fail. */
typedef enum mooncake_err {
#define MOONCAKE_ERR_ENUM_(name, number, radius, text) MOONCAKE_##name = (number),
    MOONCAKE_ERR_LIST(MOONCAKE_ERR_ENUM_)
#undef MOONCAKE_ERR_ENUM_
} mooncake_err;

/**
 * Name of an error, such as "ENOSPACE".
 *
 * @param err  any number
 * @return static text, never NULL; "EUNKNOWN" for a number that is not in the list
 */
MOONCAKE_API const char *mooncake_err_name(mooncake_err err);

/**
 * One sentence about an error, such as "no space in the pool".
 *
 * @param err  any number
 * @return static text, never NULL
 */
MOONCAKE_API const char *mooncake_err_text(mooncake_err err);

/**
 * What went wrong in the calling thread's last failed call, for a person: the peer, the value, the
 * limit, what to do.
 *
 * @return text that stays valid until this thread's next mooncake call; "" if there is none.
 *         Never NULL. Thread-local.
 */
MOONCAKE_API const char *mooncake_last_error(void);

#ifdef __cplusplus
}
#endif

#endif

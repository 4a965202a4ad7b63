/*
 * Getting: ask the master where the copies are, read the best one straight into the caller's
 * memory, on any doubt the next. A window of the batch walks
 *
 *     ASKING --Query--> READING --xfer--> done
 *        ^__ once more for the items of which no copy was good: what we know may be stale
 */
#ifndef MC_CLIENT_GET_H
#define MC_CLIENT_GET_H

#include "client/job.h"
#include "client/pieces.h"
#include "client/replica_choice.h"
#include "transport/xfer.h"

/* Where values go. */
enum mc_get_mode {
    MC_GET_INTO,  /* the items' spaces */
    MC_GET_FRESH, /* memory that is made for them */
    MC_GET_VIEW,  /* nowhere: lent in place where that can be, else as FRESH */
};

/* One value to read. */
struct mc_get_item {
    struct mc_key key;
    const struct iovec *spaces; /* borrowed until the job is done; INTO only */
    size_t spaces_count;
    uint64_t cap;          /* of all spaces together */
    uint64_t copy_len_max; /* VIEW: a longer value is lent or not had at all (ENOTSUP) */

    /* Results. */
    mooncake_err err;
    uint64_t len;        /* the value's; set with OK, and with EINVAL for a cap that is too small */
    struct iovec own;    /* the fresh memory, the caller's if err is OK */
    struct mc_lend lend; /* VIEW: the caller's if err is OK; nothing in it: look at own */
    struct mc_object_id id; /* VIEW: the version, and until when its lease lasts, measured from */
    uint64_t lease_end_ns;  /* the question's sending */
    uint64_t lease_ms;

    bool skip; /* judged before the job began */
};

/**
 * Read all items that are not to be skipped. When it returns, every item is judged and nothing
 * writes to the spaces any more. Returns what the call as a whole returns.
 */
mooncake_err mc_get_run(struct mc_call *call, struct mc_get_item *items, size_t count,
                        enum mc_get_mode mode) MC_MUST_CHECK;

#endif

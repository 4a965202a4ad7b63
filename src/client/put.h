/*
 * Putting: ask the master for space, write every replica, tell the master the end. A window of the
 * batch walks
 *
 *     ASKING --PutStart--> WRITING --xfer--> ENDING --PutEnd, PutRevoke--> done
 *        ^__ WAITING (the master evicts; it said when to come again)
 *
 * An item of which no copy could be written, because stores have died or hang that the master still
 * takes for living, is put once more in a later window, without those stores; if they only hang and
 * there is no other place, once more with them, until the deadline.
 */
#ifndef MC_CLIENT_PUT_H
#define MC_CLIENT_PUT_H

#include "client/job.h"
#include "client/pieces.h"

/* One value to store. */
struct mc_put_item {
    struct mc_key key;
    const struct iovec *pieces; /* borrowed until the job is done */
    size_t pieces_count;
    uint64_t len;     /* of all pieces together */
    mooncake_err err; /* judged before: an error; else set by the job */
    bool skip;        /* judged before the job began */
    uint32_t copies;  /* written, if err is OK */
    /* Set by the job: */
    bool again;       /* waits to be put once more */
    bool stalled;     /* its store took no bytes for a while */
    unsigned tries;   /* that failed */
    mooncake_err why; /* the last of them did */
};

/**
 * Store all items that are not to be skipped. When it returns, every item is judged and nothing
 * reads the pieces any more. Returns what the call as a whole returns.
 */
mooncake_err mc_put_run(struct mc_call *call, struct mc_put_item *items, size_t count,
                        const mooncake_put_options *options) MC_MUST_CHECK;

#endif

/*
 * What an attacker who may read one value knows: where it lies, and the capability for it. Asked of
 * the real master, as the client library does.
 */
#ifndef MC_TESTS_RDMA_TICKET_H
#define MC_TESTS_RDMA_TICKET_H

#include "base/ids.h"

struct ticket {
    struct mc_extent_ref extent; /* the first of the value */
    char addresses[1024];        /* of its segment */
};

/** Fails the test if the key is not there. */
void ticket_get(const char *master, const char *key, struct ticket *out);

#endif

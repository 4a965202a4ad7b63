/*
 * Hosts A and B inside the guest (see guest/network): their addresses and devices, their cables,
 * and what the kernel counts. Commands that fail, fail the test.
 */
#ifndef MC_TESTS_RDMA_GUEST_H
#define MC_TESTS_RDMA_GUEST_H

#include <stdbool.h>
#include <stdint.h>

#define NICS 2u

extern const char *const host_a[NICS]; /* addresses */
extern const char *const host_b[NICS];
extern const char *const nic_a[NICS]; /* cards, for cables */
extern const char *const nic_b[NICS];

/** What the script "cable" says of itself; @p percent is for "lose", else 0. */
void cable(const char *verb, const char *nic, unsigned percent);
/** Plug and mend every cable, whatever was done to it. */
void cables_restore(void);

/** Bytes that a card has sent over its cable. */
uint64_t sent_bytes(const char *nic);

/* What the kernel holds of one device. */
struct rdma_resources {
    unsigned pds, cqs, qps, cm_ids, mrs, contexts;
};
/** Of all devices together, as "rdma resource show" has it. */
struct rdma_resources count_resources(void);

/** A number that tells whether the same queue pairs are there: it changes when one comes, goes, or
 * is replaced by another. */
uint64_t queue_pairs_fingerprint(void);

/** Is this the slow, emulated machine? Then tests move less. */
bool guest_is_slow(void);
/** What to multiply a limit of time by: what is slow may take longer, and no less be right. */
unsigned patience(void);

#endif

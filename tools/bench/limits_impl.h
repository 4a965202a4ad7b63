/*
 * What the parts of limits share: limits.c (memory, and the whole), limits_net.c (what is measured
 * over loopback sockets), limits_ends.c (the processes at their other ends).
 */
#ifndef MC_BENCH_LIMITS_IMPL_H
#define MC_BENCH_LIMITS_IMPL_H

#include <sched.h>

#include "limits.h"

#define MC_LIMITS_RING_LEN (32 * MC_LIMITS_MESSAGE_LEN) /* what a batch of 32 moves through */
#define MC_LIMITS_TIMEOUT_S 5
#define MC_LIMITS_BUFFERS 2u /* sizes of socket buffers that are tried */
#define MC_LIMITS_ENDS 2u    /* processes, and so connections at a time */

/** Memory whose pages have all been touched; NULL: there is none. For munmap(). */
unsigned char *mc_limits_memory(size_t len);
/** All that loopback sockets can do. False: errno says what failed. */
bool mc_limits_sockets(struct mc_limits *out);
/** Of @p kinds those that need sockets, shorter; what fails stays 0. */
void mc_limits_sockets_look(unsigned kinds, struct mc_limits *out);

/* ---- processors ------------------------------------------------------------------------------ */

/* Trips and messages are measured between two processors, as between two hosts. On one processor
 * they take half the time: nobody is woken, and the bytes are in its cache. The kernel may choose
 * either, so without this a limit is one or the other by chance. */
struct mc_places {
    cpu_set_t all; /* where this process may run */
    int count;
};

void mc_places_init(struct mc_places *places);
/** Run on the @p index-th processor, if there are so many. */
void mc_places_take(const struct mc_places *places, int index);
/** Run anywhere again. */
void mc_places_free(const struct mc_places *places);

/* ---- the other ends -------------------------------------------------------------------------- */

/* What one byte asks the other end for. */
enum mc_end_command {
    MC_END_TRIP = 't',        /* the byte itself; it sleeps meanwhile */
    MC_END_POLLED_TRIP = 'p', /* the same; from here on it polls */
    MC_END_MESSAGE = 'm',     /* MC_LIMITS_MESSAGE_LEN bytes */
    MC_END_STREAM = 's',      /* such messages until we close */
};

/** Start the processes, unless they run. They end with this one. False: errno says why not. */
bool mc_ends_start(void);
/**
 * A connection to one that has none. -1: none.
 * @param buffer  which size of socket buffers, below MC_LIMITS_BUFFERS
 * @param apart  that end is to run on the second processor
 */
int mc_end_connect(size_t buffer, bool apart);
bool mc_end_send(int fd, const void *bytes, size_t len);
/** Takes what there is, as a program does that has other connections too, until @p len have come.
 */
bool mc_end_receive(int fd, void *to, size_t len);
/** One byte, looked for without sleeping. */
bool mc_end_poll(int fd, unsigned char *out);

#endif

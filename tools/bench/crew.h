/*
 * Workers: so many processes with so many threads each, started together. Processes are forked
 * before any of them opens its client; the threads of one share it.
 */
#ifndef MC_BENCH_CREW_H
#define MC_BENCH_CREW_H

#include "mooncake/client.h"
#include "options.h"
#include "tally.h"

struct mc_worker {
    const struct mc_bench_options *options;
    const void *job_case; /* what mc_crew_run() was given */
    mooncake_client *client;
    struct mc_tally *tally;
    uint64_t rnd;
    uint32_t index, count; /* of all workers */
    void *state;           /* the job's own */
};

/** What a worker does. Each step is at least one call; steps go on until the time is over. */
struct mc_job {
    bool (*prepare)(struct mc_worker *worker); /* false: cannot; the tally says why */
    bool (*step)(struct mc_worker *worker);    /* false: no sense in going on */
    void (*finish)(struct mc_worker *worker);  /* also after a failed prepare */
};

/** @param out_sum  of all workers. False: a worker could not start or died; @p out_sum says why. */
bool mc_crew_run(const struct mc_bench_options *options, const struct mc_job *job,
                 const void *job_case, struct mc_tally *out_sum);

#endif

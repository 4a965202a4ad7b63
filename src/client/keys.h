/* Calls about keys that move no bytes: exist, size, remove. */
#ifndef MC_CLIENT_KEYS_H
#define MC_CLIENT_KEYS_H

#include "client/job.h"

enum mc_keys_question {
    MC_KEYS_EXIST,
    MC_KEYS_SIZE,
    MC_KEYS_REMOVE,
};

struct mc_keys_job_options {
    enum mc_keys_question question;
    bool force; /* REMOVE */
};

/**
 * Ask the master about @p count keys.
 *
 * @param results  one an item. On entry EINTERNAL: ask; anything else: judged already, left alone
 * @param lens     SIZE: one an item, set where the result is OK; NULL allowed
 */
mooncake_err mc_keys_run(struct mc_call *call, const struct mc_key *keys, size_t count,
                         struct mc_keys_job_options options, mooncake_err *results,
                         uint64_t *lens) MC_MUST_CHECK;

#endif

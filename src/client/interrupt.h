/*
 * The calling thread's interrupt hook (mooncake_set_interrupt()), for everything that waits on
 * behalf of a public call. Waits are cut into slices, between which the hook is asked.
 */
#ifndef MC_CLIENT_INTERRUPT_H
#define MC_CLIENT_INTERRUPT_H

#include <stdbool.h>
#include <stdint.h>

/** Does this thread's hook want its calls to end? False without a hook. */
bool mc_interrupt_asked(void);

/** Wait until then at most before asking again; @p deadline_ns itself without a hook. */
uint64_t mc_interrupt_slice_ns(uint64_t deadline_ns);

#endif

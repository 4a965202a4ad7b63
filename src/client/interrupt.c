/* The interrupt hook of a thread. Thread-local, because a blocking call runs on the thread that
 * made it: whoever wants that thread back knows how to ask it, and nobody else is concerned. */
#include "client/interrupt.h"

#include <stddef.h>

#include "base/clock.h"
#include "mooncake/client.h"

/* People who press Ctrl-C do not notice less; and asking ten times a second costs nothing. */
#define SLICE_NS (100u * MC_NS_PER_MS)

static _Thread_local bool (*hook)(void *arg);
static _Thread_local void *hook_arg;

void mooncake_set_interrupt(bool (*asked)(void *arg), void *arg)
{
    hook = asked;
    hook_arg = arg;
}

bool mc_interrupt_asked(void)
{
    return hook != NULL && hook(hook_arg);
}

uint64_t mc_interrupt_slice_ns(uint64_t deadline_ns)
{
    uint64_t slice_ns;

    if (hook == NULL) {
        return deadline_ns;
    }
    slice_ns = mc_monotonic_ns() + SLICE_NS;
    return slice_ns < deadline_ns ? slice_ns : deadline_ns;
}

/* Two marks of what the threads have used, and the share between the older one and now. */
#include "master/master_busy.h"

#include "base/clock.h"
#include "master/master_impl.h"

#define PERMILLE_MAX 1000u

static unsigned io_threads(const struct mc_master *master)
{
    return master->fronts == NULL ? 0 : mc_rpc_fronts_count(master->fronts);
}

/* Polling without finding work is not being busy. */
static uint64_t used_ns(const struct mc_master *master, unsigned index)
{
    const struct mc_loop *loop =
        index == 0 ? master->loop : mc_rpc_fronts_loop(master->fronts, index - 1);
    uint64_t cpu_ns = mc_loop_cpu_ns(loop);
    uint64_t idle_ns = mc_loop_stats(loop).idle_poll_ns;

    return cpu_ns > idle_ns ? cpu_ns - idle_ns : 0;
}

void mc_master_busy_note(struct mc_master *master)
{
    struct mc_busy *busy = &master->busy;

    busy->older = busy->newer;
    busy->newer = (struct mc_busy_mark){.at_ns = mc_monotonic_ns()};
    for (unsigned i = 0; i <= io_threads(master); i++) {
        busy->newer.used_ns[i] = used_ns(master, i);
    }
    if (busy->older.at_ns == 0) {
        busy->older = busy->newer;
    }
}

uint32_t mc_master_thread_permille(const struct mc_master *master, unsigned index)
{
    const struct mc_busy_mark *since = &master->busy.older;
    uint64_t now_ns = mc_monotonic_ns();
    uint64_t now_used_ns = used_ns(master, index);
    uint64_t permille;

    MC_ASSERT(index <= io_threads(master));
    if (since->at_ns == 0 || now_ns <= since->at_ns || now_used_ns <= since->used_ns[index]) {
        return 0;
    }
    permille = (now_used_ns - since->used_ns[index]) * PERMILLE_MAX / (now_ns - since->at_ns);
    return permille < PERMILLE_MAX ? (uint32_t)permille : PERMILLE_MAX;
}

void mc_master_busy(const struct mc_master *master, struct mc_master_busy *out)
{
    uint64_t since_ns = master->busy.older.at_ns;

    *out = (struct mc_master_busy){
        .span_ms = since_ns == 0 ? 0 : (mc_monotonic_ns() - since_ns) / MC_NS_PER_MS,
        .io_threads = io_threads(master),
        .core_permille = mc_master_thread_permille(master, 0),
    };
    for (unsigned i = 1; i <= out->io_threads; i++) {
        uint32_t permille = mc_master_thread_permille(master, i);

        out->io_permille = permille > out->io_permille ? permille : out->io_permille;
    }
}

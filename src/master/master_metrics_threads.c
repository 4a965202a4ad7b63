/* Metrics of the master's threads: what their time goes into, and how requests pass between them.
 */
#include "master/master_metrics.h"

#include <stdio.h>

/* A thread of the page; `core` comes first. */
struct thread {
    char name[8];
    struct mc_loop *loop;
    uint32_t busy_permille;
    struct mc_rpc_server_stats stats; /* of the connections that it has */
};

static unsigned threads_count(const struct mc_master *master)
{
    return 1 + (master->fronts == NULL ? 0 : mc_rpc_fronts_count(master->fronts));
}

static void get_thread(const struct mc_master *master, unsigned index, struct thread *out)
{
    *out = (struct thread){.name = "core",
                           .loop = master->loop,
                           .busy_permille = mc_master_thread_permille(master, index)};
    if (index > 0) {
        (void)snprintf(out->name, sizeof(out->name), "io-%u", (index - 1) % MC_IO_THREADS_MAX);
        out->loop = mc_rpc_fronts_loop(master->fronts, index - 1);
        mc_rpc_server_stats_add(&out->stats, mc_rpc_fronts_server_stats(master->fronts, index - 1));
    } else if (master->server != NULL) {
        mc_rpc_server_stats_add(&out->stats, mc_rpc_server_stats(master->server));
    }
}

static double cpu(const struct thread *thread)
{
    return (double)mc_loop_cpu_ns(thread->loop) / 1e9;
}

static double poll_idle(const struct thread *thread)
{
    return (double)mc_loop_stats(thread->loop).idle_poll_ns / 1e9;
}

static double busy(const struct thread *thread)
{
    return (double)thread->busy_permille / 1000;
}

static double requests(const struct thread *thread)
{
    return (double)mc_counter_get(&thread->stats.requests);
}

static double connections(const struct thread *thread)
{
    return (double)mc_gauge_get(&thread->stats.connections);
}

static mooncake_err print_spent(const struct thread *thread, const char *name, struct mc_buf *out)
{
    static const char *const kinds[] = {
#define NAME_OF(NAME, name) #name,
        MC_SPENT_LIST(NAME_OF)
#undef NAME_OF
    };
    const struct mc_spent *spent = mc_loop_spent(thread->loop);
    const char *labels[] = {"thread", thread->name, "work", NULL, NULL};

    for (size_t i = 0; i < MC_ARRAY_LEN(kinds); i++) {
        labels[3] = kinds[i];
        MC_TRY(
            mc_metric_print_double(out, name, labels, (double)mc_counter_get(&spent->ns[i]) / 1e9));
    }
    return MOONCAKE_OK;
}

mooncake_err mc_metrics_threads(struct mc_metrics_page *page, struct mc_buf *out, bool *again)
{
    static const struct {
        const char *name, *type, *help;
        double (*value)(const struct thread *thread); /* NULL: print_spent() */
    } rows[] = {
        {"mooncake_master_thread_cpu_seconds_total", "counter", "Processor time of a thread", cpu},
        {"mooncake_master_thread_spent_seconds_total", "counter",
         "What a thread's processor time goes into, from samples", NULL},
        {"mooncake_master_thread_busy_ratio", "gauge",
         "Share of a processor that a thread used in the last 10 to 20 s, polling in vain left out",
         busy},
        {"mooncake_master_thread_poll_idle_seconds_total", "counter",
         "Time a thread has polled without finding work", poll_idle},
        {"mooncake_master_thread_requests_total", "counter", "Requests read by a thread", requests},
        {"mooncake_master_thread_connections", "gauge", "Control connections of a thread",
         connections},
    };
    unsigned const count = threads_count(page->master);
    const char *pair[3];
    struct thread thread;

    (void)again;
    for (size_t row = 0; row < MC_ARRAY_LEN(rows); row++) {
        MC_TRY(mc_metric_print_head(out, rows[row].name, rows[row].type, rows[row].help));
        for (unsigned i = 0; i < count; i++) {
            get_thread(page->master, i, &thread);
            if (rows[row].value == NULL) {
                MC_TRY(print_spent(&thread, rows[row].name, out));
            } else {
                MC_TRY(mc_metric_print_double(out, rows[row].name,
                                              mc_metrics_label(pair, "thread", thread.name),
                                              rows[row].value(&thread)));
            }
        }
    }
    return MOONCAKE_OK;
}

mooncake_err mc_metrics_handover(struct mc_metrics_page *page, struct mc_buf *out, bool *again)
{
    struct mc_rpc_fronts_stats stats = {0};

    (void)again;
    if (page->master->fronts != NULL) {
        stats = mc_rpc_fronts_stats(page->master->fronts);
    }
    MC_TRY(mc_metrics_counter(out, "mooncake_master_handover_requests_total",
                              "Requests that io threads have given to the core loop",
                              stats.requests));
    MC_TRY(mc_metrics_counter(out, "mooncake_master_handover_bursts_total",
                              "Times that the core loop took some of them", stats.bursts));
    MC_TRY(mc_metrics_gauge(out, "mooncake_master_handover_queue_max",
                            "Most requests of one io thread that ever waited for the core loop",
                            stats.queue_max));
    MC_TRY(mc_metrics_counter(out, "mooncake_master_handover_stalls_total",
                              "Times that an io thread stopped reading: too much was waiting",
                              stats.stalls));
    return mc_metrics_counter(out, "mooncake_master_handover_holds_total",
                              "Times that the core loop waited for an io thread to send answers",
                              stats.holds);
}

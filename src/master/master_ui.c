/* The page at /ui: its files, and the samples that it begins with. */
#include "master/master_ui.h"

#include "base/clock.h"
#include "master/master_admin.h"

/* The page takes nothing from elsewhere and runs no code but that of its own files: a key that
 * looks like markup cannot do anything, even if one day it were shown as such. */
#define POLICY                                                                                     \
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "                \
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/* On the HTTP thread, so that the page comes also when the core loop is late, and says so. */
static void send_file(struct mc_admin_reply *reply, const unsigned char *bytes, size_t len,
                      const char *content_type)
{
    reply->content_type = content_type;
    reply->policy = POLICY;
    if (mc_buf_append(&reply->body, bytes, len) != MOONCAKE_OK) {
        mc_err_clear();
        mc_page_error(reply, MOONCAKE_ENOMEM);
    }
}

#define DEFINE(handler, file, type)                                                                \
    void mc_page_##handler(void *arg, const struct mc_admin_request *request,                      \
                           struct mc_admin_reply *reply)                                           \
    {                                                                                              \
        (void)arg;                                                                                 \
        (void)request;                                                                             \
        send_file(reply, mc_file_##file, mc_file_##file##_len, type);                              \
    }
MC_UI_FILE_LIST(DEFINE)
#undef DEFINE

/* ---- history -------------------------------------------------------------------------------- */

static void take_sample(void *arg)
{
    struct mc_master *master = arg;
    const struct mc_core_metrics *m = mc_core_metrics(master->core);
    const struct mc_history_sample sample = {
        .at_ns = mc_monotonic_ns(),
        .used = (uint64_t)mc_gauge_get(&m->used_bytes),
        .capacity = (uint64_t)mc_gauge_get(&m->capacity_bytes),
        .keys = (uint64_t)mc_gauge_get(&m->keys),
        .hits = mc_counter_get(&m->hits),
        .misses = mc_counter_get(&m->misses),
        .read_bytes = mc_counter_get(&m->query_hit_bytes),
        .written_bytes =
            atomic_load_explicit(&m->value_size_bytes.sum_scaled, memory_order_relaxed),
        .evicted_bytes = mc_counter_get(&m->evicted_bytes),
        .evicted_for_puts_bytes = mc_counter_get(&m->evicted_for_puts_bytes),
        .put_rejected = mc_counter_get(&m->put_rejected),
    };

    mc_history_add(&master->history, &sample);
    mc_master_busy_note(master);
}

void mc_page_ui_history(void *arg, const struct mc_admin_request *request,
                        struct mc_admin_reply *reply)
{
    struct mc_master *master = arg;
    mooncake_err err = mc_history_print(&master->history, mc_monotonic_ns(), &reply->body);

    (void)request;
    reply->content_type = "application/json; charset=utf-8";
    if (err != MOONCAKE_OK) {
        mc_err_clear();
        mc_page_error(reply, err);
    }
}

mooncake_err mc_master_history_start(struct mc_master *master)
{
    MC_TRY(mc_timer_create(master->loop, take_sample, master, &master->sampling));
    mc_timer_set(master->sampling, MC_HISTORY_STEP_MS, MC_HISTORY_STEP_MS);
    take_sample(master);
    return MOONCAKE_OK;
}

/* The public functions about views. */
#include "client/view.h"

#include <string.h>

#include "client/api.h"

/* ---- the lock ---------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

/* In a fork's child a thread that is not there may have held it. */
static void on_forked(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

    lock = fresh;
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, on_forked);
}

void mc_views_lock(void)
{
    (void)pthread_mutex_lock(&lock);
}

void mc_views_unlock(void)
{
    (void)pthread_mutex_unlock(&lock);
}

/* ---- life -------------------------------------------------------------------------------- */

static void free_view(struct mooncake_view *view)
{
    mc_free(view->own);
    mc_free(view->key);
    mc_free(view);
}

void mc_view_unref(struct mooncake_view *view)
{
    bool last;

    mc_views_lock();
    MC_ASSERT(view->refs > 0);
    last = --view->refs == 0;
    mc_views_unlock();
    if (last) {
        mc_lend_return(&view->lend);
        free_view(view);
    }
}

/* The client's keeper, which is made for its first view in place. */
static mooncake_err keeper_of(mooncake_client *client, struct mc_view_keeper **out)
{
    const struct mc_view_keeper_options options = {
        .master = client->master,
        .program = client->program,
        .client_id = client->client_id,
        .connect_timeout_ms = client->connect_timeout_ms,
    };
    mooncake_err err = MOONCAKE_OK;

    (void)pthread_mutex_lock(&client->lock);
    if (client->view_keeper == NULL) {
        err = mc_view_keeper_open(&options, &client->view_keeper);
    }
    *out = client->view_keeper;
    (void)pthread_mutex_unlock(&client->lock);
    return err;
}

/* Takes what the item holds, also on an error. */
static mooncake_err open_view(mooncake_client *client, struct mc_get_item *item,
                              mooncake_view **out)
{
    struct mooncake_view *view = mc_calloc(1, sizeof(*view));
    bool const in_place = item->lend.map != NULL;
    struct mc_view_keeper *keeper = NULL;
    mooncake_err err = MOONCAKE_ENOMEM;

    if (view == NULL) {
        goto free_item;
    }
    if (in_place) {
        view->key = mc_strndup(item->key.bytes, item->key.len);
        err = view->key == NULL ? MOONCAKE_ENOMEM : keeper_of(client, &keeper);
        if (err != MOONCAKE_OK) {
            goto free_view;
        }
    }
    view->key_len = item->key.len;
    view->id = item->id;
    view->lend = item->lend;
    view->own = item->own.iov_base;
    view->data = in_place ? item->lend.data : item->own.iov_base;
    view->len = item->len;
    view->lease_ms = item->lease_ms;
    view->fork_generation = client->fork_generation;
    view->refs = 1;
    atomic_init(&view->lease_end_ns, item->lease_end_ns);
    mc_list_init(&view->node);
    if (in_place) {
        mc_view_keeper_add(keeper, view);
    }
    *out = view;
    return MOONCAKE_OK;

free_view:
    free_view(view);
free_item:
    mc_free(item->own.iov_base);
    mc_lend_return(&item->lend);
    return err;
}

void mooncake_view_release(mooncake_view *view)
{
    if (view == NULL) {
        return;
    }
    if (view->fork_generation != mc_fork_generation()) {
        free_view(view); /* the mapping is the parent's, and so is the keeper */
        return;
    }
    mc_views_lock();
    mc_list_drop(&view->node);
    view->keeper = NULL;
    mc_views_unlock();
    mc_view_unref(view);
}

/* ---- getting ----------------------------------------------------------------------------- */

void mooncake_view_options_init_sized(mooncake_view_options *options, size_t size)
{
    const mooncake_view_options defaults = {.struct_size = size, .copy_len_max = UINT64_MAX};

    mc_api_init_options(options, size, &defaults, sizeof(defaults));
}

static mooncake_err read_options(const mooncake_view_options *given, mooncake_view_options *out)
{
    mooncake_view_options_init(out);
    if (given == NULL) {
        return MOONCAKE_OK;
    }
    if (given->struct_size < sizeof(given->struct_size)) {
        return mc_err_set(MOONCAKE_EINVAL,
                          "options: struct_size is %zu; call mooncake_view_options_init() first",
                          given->struct_size);
    }
    memcpy(out, given, given->struct_size < sizeof(*out) ? given->struct_size : sizeof(*out));
    return MOONCAKE_OK;
}

static mooncake_err run(struct mc_call *call, const char *const *keys, size_t count,
                        const mooncake_view_options *options, mooncake_err *results,
                        mooncake_view **out_views)
{
    struct mc_get_item *items = mc_arena_array(&call->engine->arena, count + 1, sizeof(*items));
    mooncake_err err;

    if (items == NULL) {
        return MOONCAKE_ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        items[i] = (struct mc_get_item){.copy_len_max = options->copy_len_max};
        items[i].err = mc_key_from_text(keys[i], &items[i].key);
        items[i].skip = items[i].err != MOONCAKE_OK;
        if (items[i].skip) {
            mc_call_note(call, "item %zu: %s", i, mooncake_last_error());
        }
    }
    err = mc_get_run(call, items, count, MC_GET_VIEW);
    for (size_t i = 0; i < count; i++) {
        if (items[i].err == MOONCAKE_OK) {
            items[i].err = open_view(call->client, &items[i], &out_views[i]);
        }
        results[i] = items[i].err;
    }
    return err;
}

mooncake_err mooncake_get_views(mooncake_client *client, const char *const *keys, size_t count,
                                const mooncake_view_options *options, uint32_t timeout_ms,
                                mooncake_err *results, mooncake_view **out_views)
{
    mooncake_view_options effective;
    struct mc_call call;
    mooncake_err err;

    if (count > 0 && (keys == NULL || results == NULL || out_views == NULL)) {
        return mc_api_fail_all(
            results, count,
            mc_err_set(MOONCAKE_EINVAL, "get_views: keys, results or out_views is NULL"));
    }
    for (size_t i = 0; i < count; i++) {
        out_views[i] = NULL;
    }
    (void)pthread_once(&fork_once, watch_forks);
    err = read_options(options, &effective);
    err = err == MOONCAKE_OK ? mc_call_begin(client, timeout_ms, &call) : err;
    if (err != MOONCAKE_OK) {
        return mc_api_fail_all(results, count, err);
    }
    err = run(&call, keys, count, &effective, results, out_views);
    if (err != MOONCAKE_OK) {
        (void)mc_api_fail_all(results, count, err);
    }
    return mc_call_end(&call, "get_views", err);
}

mooncake_err mooncake_get_view(mooncake_client *client, const char *key,
                               const mooncake_view_options *options, uint32_t timeout_ms,
                               mooncake_view **out_view)
{
    mooncake_view_options effective;
    mooncake_err result = MOONCAKE_EINTERNAL;
    mooncake_view *view = NULL;
    struct mc_call call;
    mooncake_err err;

    MC_TRY(mc_api_need(out_view, "out_view"));
    MC_TRY(read_options(options, &effective));
    (void)pthread_once(&fork_once, watch_forks);
    MC_TRY(mc_call_begin(client, timeout_ms, &call));
    err = run(&call, &key, 1, &effective, &result, &view);
    err = err == MOONCAKE_OK ? result : err;
    if (err == MOONCAKE_OK) {
        *out_view = view;
    }
    return mc_call_end(&call, "get_view", err);
}

/* ---- looking ----------------------------------------------------------------------------- */

const void *mooncake_view_data(const mooncake_view *view)
{
    return view->data;
}

uint64_t mooncake_view_size(const mooncake_view *view)
{
    return view->len;
}

bool mooncake_view_in_place(const mooncake_view *view)
{
    return view->own == NULL;
}

mooncake_err mooncake_view_check(const mooncake_view *view)
{
    MC_TRY(mc_api_need(view, "view"));
    mc_err_clear();
    if (view->own != NULL) {
        return MOONCAKE_OK;
    }
    if (view->fork_generation != mc_fork_generation()) {
        return mc_err_set(MOONCAKE_EUNAVAILABLE, "view: was opened before a fork, and its memory "
                                                 "is not mapped here");
    }
    /* The store first: it gives a mount up before its space can be anybody else's, so a lease that
     * is in force afterwards covers all the time before. */
    if (!mc_lend_is_sure(&view->lend)) {
        return mc_err_set(MOONCAKE_ELEASEEXPIRED, "view: its store has died or begun anew");
    }
    if (mc_monotonic_ns() >= atomic_load_explicit(&view->lease_end_ns, memory_order_acquire)) {
        return mc_err_set(MOONCAKE_ELEASEEXPIRED, "view: its lease could not be renewed");
    }
    return MOONCAKE_OK;
}

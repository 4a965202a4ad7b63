/*
 * Host names to addresses.
 *
 * Design note: the question is freed by whoever is last to need it. Under the lock the thread
 * either posts the answer or sees that nobody waits for it; so after an abandon it never touches
 * the loop.
 */
#include "io/resolve.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

/* Enough for the resolver and its plug-ins. */
#define STACK_LEN ((size_t)512 << 10)

struct mc_resolve {
    struct mc_loop *loop; /* borrowed until abandoned */
    struct mc_address_parts parts;
    void (*done)(void *arg, int gai_error, const struct addrinfo *found);
    void *arg;
    struct mc_post post;

    pthread_mutex_t lock; /* guards `abandoned` */
    bool abandoned;

    int gai_error;
    struct addrinfo *found; /* owned */
};

static atomic_uint under_way;

static void free_resolve(struct mc_resolve *resolve)
{
    if (resolve->found != NULL) {
        freeaddrinfo(resolve->found);
    }
    (void)pthread_mutex_destroy(&resolve->lock);
    mc_free(resolve);
}

/* From the loop, which may have been told meanwhile that nobody waits. */
static void deliver(struct mc_post *post)
{
    struct mc_resolve *resolve = MC_CONTAINER_OF(post, struct mc_resolve, post);
    bool abandoned;

    /* Taking the lock also waits until the thread has let go of it. */
    (void)pthread_mutex_lock(&resolve->lock);
    abandoned = resolve->abandoned;
    (void)pthread_mutex_unlock(&resolve->lock);
    if (!abandoned) {
        resolve->done(resolve->arg, resolve->gai_error, resolve->found);
    }
    free_resolve(resolve);
}

static void *thread_main(void *arg)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct mc_resolve *resolve = arg;
    bool abandoned;
    char port[6];

    (void)pthread_setname_np(pthread_self(), "mc-resolve");
    (void)snprintf(port, sizeof(port), "%u", (unsigned)resolve->parts.port);
    resolve->gai_error = getaddrinfo(resolve->parts.host, port, &hints, &resolve->found);
    if (resolve->gai_error != 0) {
        resolve->found = NULL;
    }
    (void)pthread_mutex_lock(&resolve->lock);
    abandoned = resolve->abandoned;
    if (!abandoned) {
        mc_loop_post(resolve->loop, &resolve->post);
    }
    (void)pthread_mutex_unlock(&resolve->lock);
    if (abandoned) {
        free_resolve(resolve);
    }
    (void)atomic_fetch_sub(&under_way, 1);
    return NULL;
}

/* Returns an errno. */
static int start_thread(struct mc_resolve *resolve)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, old;
    int error = pthread_attr_init(&attr);

    if (error != 0) {
        return error;
    }
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attr, STACK_LEN);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    error = pthread_create(&thread, &attr, thread_main, resolve);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    (void)pthread_attr_destroy(&attr);
    return error;
}

mooncake_err mc_resolve_start(struct mc_loop *loop, const struct mc_address_parts *parts,
                              void (*done)(void *arg, int gai_error, const struct addrinfo *found),
                              void *arg, struct mc_resolve **out)
{
    struct mc_resolve *resolve;
    mooncake_err err = MOONCAKE_ENOMEM;
    int error;

    MC_ASSERT_ON_LOOP(loop);
    if (atomic_fetch_add(&under_way, 1) >= MC_RESOLVES_MAX) {
        err = mc_err_set(MOONCAKE_ETASKQUEUE,
                         "cannot resolve %s: %u names are being resolved; does the name server "
                         "answer?",
                         parts->host, MC_RESOLVES_MAX);
        goto count_down;
    }
    resolve = mc_calloc(1, sizeof(*resolve));
    if (resolve == NULL) {
        goto count_down;
    }
    resolve->loop = loop;
    resolve->parts = *parts;
    resolve->done = done;
    resolve->arg = arg;
    resolve->post.run = deliver;
    (void)pthread_mutex_init(&resolve->lock, NULL);
    error = start_thread(resolve);
    if (error != 0) {
        err = mc_err_set(MOONCAKE_ENOMEM, "cannot start a thread to resolve %s: %s", parts->host,
                         strerror(error));
        goto free_resolve;
    }
    *out = resolve;
    return MOONCAKE_OK;

free_resolve:
    free_resolve(resolve);
count_down:
    (void)atomic_fetch_sub(&under_way, 1);
    return err;
}

void mc_resolve_abandon(struct mc_resolve **resolve_ptr)
{
    struct mc_resolve *resolve = *resolve_ptr;

    if (resolve != NULL) {
        *resolve_ptr = NULL;
        (void)pthread_mutex_lock(&resolve->lock);
        resolve->abandoned = true;
        (void)pthread_mutex_unlock(&resolve->lock);
    }
}

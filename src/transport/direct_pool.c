/* Threads that help with copies. */
#include "transport/direct_pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"

/* One run: on its caller's stack. */
struct job {
    struct mc_list node; /* in the pool's list while there may be pieces left; guarded by lock */
    void (*work)(void *arg, size_t piece);
    void *arg;
    size_t count;
    _Atomic size_t next;
    unsigned helpers;     /* threads that are at it; guarded by lock */
    pthread_cond_t alone; /* helpers has become 0 */
};

struct mc_direct_pool {
    pthread_mutex_t lock;
    pthread_cond_t wanted; /* there is a job, or the end */
    struct mc_list jobs;   /* guarded by lock, as are the next */
    bool started, stopping;
    unsigned threads_count; /* alive */
    unsigned threads_max;
    uint64_t len_min;
    pthread_t threads[MC_DIRECT_POOL_THREADS_MAX];
};

mooncake_err mc_direct_pool_create(unsigned threads, uint64_t len_min, struct mc_direct_pool **out)
{
    struct mc_direct_pool *pool = mc_calloc(1, sizeof(*pool));

    MC_ASSERT(threads > 0 && threads <= MC_DIRECT_POOL_THREADS_MAX);
    if (pool == NULL) {
        return MOONCAKE_ENOMEM;
    }
    (void)pthread_mutex_init(&pool->lock, NULL);
    (void)pthread_cond_init(&pool->wanted, NULL);
    mc_list_init(&pool->jobs);
    pool->threads_max = threads;
    pool->len_min = len_min;
    *out = pool;
    return MOONCAKE_OK;
}

unsigned mc_direct_pool_width(const struct mc_direct_pool *pool)
{
    return pool == NULL ? 1 : pool->threads_max + 1;
}

static void do_pieces(struct job *job)
{
    size_t piece;

    while ((piece = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed)) < job->count) {
        job->work(job->arg, piece);
    }
}

/* What the pieces are is seen, and what was done to them is seen by the caller, by way of the lock:
 * a thread takes it to come to a job and to leave it. */
static void *thread_main(void *arg)
{
    struct mc_direct_pool *pool = arg;

    (void)pthread_mutex_lock(&pool->lock);
    while (!pool->stopping) {
        struct job *job;

        if (mc_list_empty(&pool->jobs)) {
            (void)pthread_cond_wait(&pool->wanted, &pool->lock);
            continue;
        }
        job = mc_list_first(&pool->jobs, struct job, node);
        job->helpers++;
        (void)pthread_mutex_unlock(&pool->lock);
        do_pieces(job);
        (void)pthread_mutex_lock(&pool->lock);
        mc_list_drop(&job->node); /* nothing is left of it */
        if (--job->helpers == 0) {
            (void)pthread_cond_signal(&job->alone);
        }
    }
    (void)pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* Under the lock. Fewer threads than wished, or none, are a slower pool and no error. */
static void start_threads(struct mc_direct_pool *pool)
{
    sigset_t all, old;
    int error = 0;

    pool->started = true;
    /* Signals are for the application's own threads. */
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    while (error == 0 && pool->threads_count < pool->threads_max) {
        pthread_t *thread = &pool->threads[pool->threads_count];
        char name[16];

        error = pthread_create(thread, NULL, thread_main, pool);
        if (error == 0) {
            (void)snprintf(name, sizeof(name), "mc-copy-%u", pool->threads_count % 1000u);
            (void)pthread_setname_np(*thread, name);
            pool->threads_count++;
        }
    }
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (error != 0) {
        mc_log_warn("copy.threads", "wished=%u made=%u err=\"%s\"", pool->threads_max,
                    pool->threads_count, strerror(error));
    }
}

/* Let threads come to the job. */
static void offer(struct mc_direct_pool *pool, struct job *job)
{
    (void)pthread_cond_init(&job->alone, NULL);
    (void)pthread_mutex_lock(&pool->lock);
    if (!pool->started) {
        start_threads(pool);
    }
    mc_list_add_tail(&pool->jobs, &job->node);
    for (size_t i = 1; i < job->count && i <= pool->threads_count; i++) {
        (void)pthread_cond_signal(&pool->wanted);
    }
    (void)pthread_mutex_unlock(&pool->lock);
}

/* No thread comes to the job any more, and those at it end the piece that they have begun. */
static void withdraw(struct mc_direct_pool *pool, struct job *job)
{
    (void)pthread_mutex_lock(&pool->lock);
    mc_list_drop(&job->node);
    while (job->helpers > 0) {
        (void)pthread_cond_wait(&job->alone, &pool->lock);
    }
    (void)pthread_mutex_unlock(&pool->lock);
    (void)pthread_cond_destroy(&job->alone);
}

void mc_direct_pool_run(struct mc_direct_pool *pool, void (*work)(void *arg, size_t piece),
                        void *arg, size_t count, uint64_t len)
{
    struct job job = {.work = work, .arg = arg, .count = count};

    mc_list_init(&job.node);
    if (pool == NULL || count < 2 || len < pool->len_min) {
        do_pieces(&job);
        return;
    }
    offer(pool, &job);
    do_pieces(&job);
    withdraw(pool, &job);
}

void mc_direct_pool_destroy(struct mc_direct_pool **pool_ptr)
{
    struct mc_direct_pool *pool = *pool_ptr;

    if (pool == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&pool->lock);
    MC_ASSERT(mc_list_empty(&pool->jobs));
    pool->stopping = true;
    (void)pthread_cond_broadcast(&pool->wanted);
    (void)pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->threads_count; i++) {
        (void)pthread_join(pool->threads[i], NULL);
    }
    (void)pthread_cond_destroy(&pool->wanted);
    (void)pthread_mutex_destroy(&pool->lock);
    mc_free(pool);
    *pool_ptr = NULL;
}

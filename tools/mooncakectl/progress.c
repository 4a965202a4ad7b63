/* The progress line of rm: another thread looks while the first waits for its answer. */
#include "progress.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "output.h"

#define LOOK_EVERY_MS 250
#define LOOK_TIMEOUT_MS 2000u

struct mc_progress {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool ending; /* under the lock */
    bool drawn;
    mooncake_client *client; /* borrowed */
};

/* False: it is time to end. */
static bool wait_a_little(struct mc_progress *progress)
{
    struct timespec until;
    bool go_on;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += LOOK_EVERY_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    (void)pthread_mutex_lock(&progress->lock);
    while (!progress->ending &&
           pthread_cond_timedwait(&progress->wake, &progress->lock, &until) == 0) {
    }
    go_on = !progress->ending;
    (void)pthread_mutex_unlock(&progress->lock);
    return go_on;
}

static void *look(void *arg)
{
    struct mc_progress *progress = arg;

    while (wait_a_little(progress)) {
        mooncake_pool_status s = {.struct_size = sizeof(s)};
        char text[2][MC_NUMBER_CAP];
        uint64_t removed = 0;

        if (mooncake_admin_removed(progress->client, LOOK_TIMEOUT_MS, &removed) != MOONCAKE_OK ||
            mooncake_admin_status(progress->client, LOOK_TIMEOUT_MS, &s) != MOONCAKE_OK) {
            continue; /* the call that matters tells what is wrong */
        }
        (void)printf("\r\x1b[K%s removed, %s keys in the pool", mc_format_count(removed, text[0]),
                     mc_format_count(s.keys, text[1]));
        (void)fflush(stdout);
        progress->drawn = true;
    }
    return NULL;
}

struct mc_progress *mc_progress_begin(const struct mc_ctl *ctl)
{
    struct mc_progress *progress;
    pthread_condattr_t monotonic;

    if (ctl->json || !mc_is_terminal()) {
        return NULL;
    }
    progress = mc_need(calloc(1, sizeof(*progress)));
    (void)pthread_mutex_init(&progress->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&progress->wake, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    progress->client = ctl->client;
    if (pthread_create(&progress->thread, NULL, look, progress) == 0) {
        return progress;
    }
    (void)pthread_cond_destroy(&progress->wake);
    (void)pthread_mutex_destroy(&progress->lock);
    free(progress);
    return NULL;
}

void mc_progress_end(struct mc_progress **progress)
{
    struct mc_progress *p = *progress;

    if (p == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&p->lock);
    p->ending = true;
    (void)pthread_cond_signal(&p->wake);
    (void)pthread_mutex_unlock(&p->lock);
    (void)pthread_join(p->thread, NULL);
    if (p->drawn) {
        (void)fputs("\r\x1b[K", stdout);
    }
    (void)pthread_cond_destroy(&p->wake);
    (void)pthread_mutex_destroy(&p->lock);
    free(p);
    *progress = NULL;
}

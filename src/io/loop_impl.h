/*
 * A loop's inside, for loop.c (life, posts, signals) and loop_turn.c (turning, polling, the
 * thread), and what streams and listeners may know of it. Nobody outside io/ includes this.
 */
#ifndef MC_IO_LOOP_IMPL_H
#define MC_IO_LOOP_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#include "base/metric.h"
#include "io/loop.h"
#include "io/polling.h"

#define MC_THREAD_NAME_LEN_MAX 15u

/* The part that changes also through a const loop. */
struct mc_turn_time {
    uint64_t now_ns; /* 0: to be read again */
};

/* Written by the owner, read by anybody. */
struct mc_loop_counters {
    struct mc_counter idle_poll_ns, polls_found, polls_missed, turns, sleeps, rests;
};

struct mc_loop {
    uv_loop_t uv;
    uv_async_t wake;      /* ends a sleep */
    uv_prepare_t prepare; /* a last look before waiting */
    uv_idle_t idle;       /* while active, libuv does not wait */
    uv_timer_t deadline;  /* bounds a sleep of mc_loop_run_until() */
    uv_signal_t signals[2];
    bool has_signals;
    void (*on_signal)(void *arg, int signum);
    void *on_signal_arg;

    struct mc_turn_time *time; /* owned */
    uint64_t events;           /* ever seen */
    uint64_t gap_start_ns;     /* of the last of them */
    struct mc_polling polling;
    uint64_t poll_until_ns; /* in this gap */
    uint64_t polled_ns;     /* in this gap, in vain */
    bool slept;             /* in this gap */
    uint64_t rest_until_ns; /* but not before this: the core is crowded */
    uint64_t rest_ns;       /* how long that was; 0: it was not */
    uint64_t calm_ns;       /* polled since then without anybody in the way */
    struct mc_loop_counters stats;
    struct mc_spent spent;
    bool running;     /* libuv cannot be entered twice */
    const bool *done; /* borrowed: what mc_loop_run_until() turns for; NULL: nothing */

    pthread_t thread;
    bool has_thread;
    char name[MC_THREAD_NAME_LEN_MAX + 1];
    _Atomic(uintptr_t) owner; /* a pthread_t */
    atomic_bool stop;

    pthread_mutex_t lock;  /* guards the next two */
    struct mc_list posts;  /* of struct mc_post */
    bool may_sleep;        /* a post must wake the loop */
    atomic_bool has_posts; /* hint, read without the lock */
};

/** Something came from outside (bytes, a connection, a post): polling goes on. Owner thread. */
void mc_loop_note_event(struct mc_loop *loop);

/** Run what was posted until now. */
void mc_loop_run_posts(struct mc_loop *loop);
/** From now on a post wakes the loop. False if one is waiting already. */
bool mc_loop_allow_sleep(struct mc_loop *loop);
void mc_loop_forbid_sleep(struct mc_loop *loop);

/** libuv's callbacks for `wake`, `prepare` and `deadline`. */
void mc_loop_on_wake(uv_async_t *wake);
void mc_loop_on_prepare(uv_prepare_t *prepare);
void mc_loop_on_deadline(uv_timer_t *timer);

#endif

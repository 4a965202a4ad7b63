/* A server with one route of each kind, on a loop with a thread of its own or on the test's. */
#ifndef MC_TESTS_ADMIN_FIXTURE_H
#define MC_TESTS_ADMIN_FIXTURE_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "http_client.h"

#include "base/mem.h"
#include "io/admin_http.h"

/* How long a request waits for the loop: longer than any test, or as short as one can wait. */
#define TIMEOUT_MS 60000u
#define HASTY_MS 1000u
#define STREAM_PARTS 200
#define PART_LEN 20000

#define ROUTES_COUNT 8

struct fixture {
    struct mc_loop *loop;
    struct mc_admin_http *http;
    uint16_t port;
    bool threaded;
    pthread_t loop_thread;
    sem_t entered, let_go; /* of /block */
    atomic_int calls;      /* of handlers on the loop */
    atomic_int wrong_thread;
    atomic_int streams, parts, parts_freed;
    atomic_int parts_end;             /* 0: endless; < 0: fails after so many */
    struct mc_admin_reply *later[64]; /* of /later; the loop's */
    unsigned later_count;
};

extern struct fixture f;
extern const struct mc_admin_route routes[ROUTES_COUNT];

int admin_setup(void **state);
/** Requests give up after HASTY_MS. */
int admin_setup_hasty(void **state);
/** The loop is the test's own: nothing runs on it unless the test turns it. */
int admin_setup_own_loop(void **state);
/** Fails if something ran on another thread than the loop's. */
int admin_teardown(void **state);

/** Wait until @p value is at least @p wanted; the deadline is for a broken program only. */
void admin_wait_for(atomic_int *value, int wanted);
/** Send a GET, whose answer admin_end() reads later. */
int admin_begin(const char *path);
/** The status; the body must hold @p part (NULL: whatever). */
int admin_end(int fd, const char *part);

/** Answer all requests for /later?name=.. that have come, and wait until that is done. */
void admin_answer_later(void);

#endif

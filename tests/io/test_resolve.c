/* Names, with a resolver that is silent as long as a test wishes. */
#include "io_fixture.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "io/resolve.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool silent;
static unsigned asking;
/* What is answered: this many dead addresses, then the living one. */
static unsigned dead_count;
static uint16_t living_port;

/* In place of libc's: every address is one of the loopback network. */
int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                struct addrinfo **found)
{
    struct addrinfo *first = NULL;
    uint16_t living;
    unsigned dead;

    (void)hints;
    (void)port;
    (void)pthread_mutex_lock(&lock);
    asking++;
    while (silent) {
        (void)pthread_cond_wait(&changed, &lock);
    }
    asking--;
    dead = dead_count;
    living = living_port;
    (void)pthread_mutex_unlock(&lock);
    if (strcmp(host, "unknown.invalid") == 0) {
        return EAI_NONAME;
    }
    for (unsigned i = 0; i < dead + 1; i++) {
        struct addrinfo *info = calloc(1, sizeof(*info));
        struct sockaddr_in *at = calloc(1, sizeof(*at));

        at->sin_family = AF_INET;
        at->sin_addr.s_addr = htonl(i == 0 ? INADDR_LOOPBACK : INADDR_LOOPBACK + 1 + i);
        at->sin_port = htons(i == 0 ? living : 1);
        info->ai_family = AF_INET;
        info->ai_addr = (struct sockaddr *)at;
        info->ai_addrlen = sizeof(*at);
        info->ai_next = first;
        first = info;
    }
    *found = first;
    return 0;
}

void freeaddrinfo(struct addrinfo *found)
{
    while (found != NULL) {
        struct addrinfo *next = found->ai_next;

        free(found->ai_addr);
        free(found);
        found = next;
    }
}

static void set_silent(bool value)
{
    (void)pthread_mutex_lock(&lock);
    silent = value;
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&lock);
}

static unsigned count_asking(void)
{
    unsigned count;

    (void)pthread_mutex_lock(&lock);
    count = asking;
    (void)pthread_mutex_unlock(&lock);
    return count;
}

/* Abandoned questions are freed by their threads. */
static void wait_no_block_left(void)
{
    uint64_t give_up_ns = mc_monotonic_ns() + WAIT_NS;

    while (mc_mem_live_count() > 0) {
        assert_true(mc_monotonic_ns() < give_up_ns);
        (void)sched_yield();
    }
}

static int64_t fixture_blocks; /* of a fixture without a stream */

static void begin(struct fixture *f, const char *host, uint32_t timeout_ms)
{
    char address[64];

    fixture_init(f);
    fixture_blocks = mc_mem_live_count();
    (void)pthread_mutex_lock(&lock);
    living_port = mc_listener_port(f->listener);
    (void)pthread_mutex_unlock(&lock);
    (void)snprintf(address, sizeof(address), "%s:%u", host, living_port);
    assert_int_equal(
        mc_stream_connect(f->loop, address, timeout_ms, &end_ops, &f->end, &f->end.stream),
        MOONCAKE_OK);
}

static void resolve__unknown_name_is_named(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f, "unknown.invalid", 5000);
    RUN_UNTIL(&f, f.end.closed);
    assert_int_equal(f.end.why, MOONCAKE_ERPC);
    assert_non_null(strstr(f.end.sentence, "unknown.invalid"));
    fixture_fini(&f);
}

static void resolve__addresses_are_tried_until_one_answers(void **state)
{
    struct fixture f;

    (void)state;
    dead_count = 5;
    begin(&f, "many.invalid", 5000);
    RUN_UNTIL(&f, f.end.connected);
    assert_string_equal(mc_stream_peer(f.end.stream), f.address);
    fixture_fini(&f);

    dead_count = 20; /* more than are tried: the living one is behind them */
    begin(&f, "many.invalid", 5000);
    RUN_UNTIL(&f, f.end.closed);
    assert_int_equal(f.end.why, MOONCAKE_ERPC);
    assert_non_null(strstr(f.end.sentence, strerror(ECONNREFUSED)));
    dead_count = 0;
    fixture_fini(&f);
}

static void resolve__silent_resolver_costs_no_more_than_the_deadline(void **state)
{
    struct fixture f;

    (void)state;
    set_silent(true);
    begin(&f, "slow.invalid", 30);
    RUN_UNTIL(&f, f.end.closed);
    assert_int_equal(f.end.why, MOONCAKE_ETIMEDOUT);
    assert_non_null(strstr(f.end.sentence, "slow.invalid"));
    set_silent(false);
    RUN_UNTIL(&f,
              mc_mem_live_count() == fixture_blocks); /* the question is freed, late and unheard */
    assert_int_equal(f.end.closeds, 1);
    fixture_fini(&f);
}

static void resolve__loop_ends_though_the_resolver_does_not(void **state)
{
    struct fixture f;

    (void)state;
    set_silent(true);
    begin(&f, "slow.invalid", 5000);
    RUN_UNTIL(&f, count_asking() == 1);
    mc_stream_close(f.end.stream, MOONCAKE_OK);
    RUN_UNTIL(&f, f.end.closed);
    mc_listener_close(&f.listener);
    mc_loop_destroy(&f.loop); /* returns: that is the test */
    mc_free(f.end.in);
    assert_int_equal(count_asking(), 1);
    assert_int_equal(mc_mem_live_count(), 1);
    set_silent(false);
    wait_no_block_left();
}

static void resolve__answer_that_comes_with_the_close_is_not_delivered(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        struct fixture f;

        begin(&f, "quick.invalid", 5000);
        for (int turns = 0; turns < i % 4; turns++) {
            mc_loop_run_ready(f.loop);
        }
        if (f.end.stream != NULL) {
            mc_stream_close(f.end.stream, MOONCAKE_OK);
        }
        RUN_UNTIL(&f, f.end.closed);
        if (f.accepted_fd < 0) {
            assert_int_equal(f.end.connecteds, 0);
        }
        RUN_UNTIL(&f, count_asking() == 0 && mc_mem_live_count() == fixture_blocks);
        fixture_fini(&f);
    }
}

static void resolve__questions_at_once_are_bounded(void **state)
{
    static struct end ends[MC_RESOLVES_MAX];
    struct mc_stream *extra = NULL;
    struct fixture f;

    (void)state;
    set_silent(true);
    fixture_init(&f);
    fixture_blocks = mc_mem_live_count();
    for (unsigned i = 0; i < MC_RESOLVES_MAX; i++) {
        memset(&ends[i], 0, sizeof(ends[i]));
        assert_int_equal(
            mc_stream_connect(f.loop, "slow.invalid:1", 5000, &end_ops, &ends[i], &ends[i].stream),
            MOONCAKE_OK);
    }
    assert_int_equal(mc_stream_connect(f.loop, "slow.invalid:1", 5000, &end_ops, &f.end, &extra),
                     MOONCAKE_ETASKQUEUE);
    for (unsigned i = 0; i < MC_RESOLVES_MAX; i++) {
        mc_stream_close(ends[i].stream, MOONCAKE_OK);
    }
    RUN_UNTIL(&f, ends[MC_RESOLVES_MAX - 1].closed);
    set_silent(false);
    RUN_UNTIL(&f, mc_mem_live_count() == fixture_blocks);
    fixture_fini(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resolve__unknown_name_is_named),
        cmocka_unit_test(resolve__addresses_are_tried_until_one_answers),
        cmocka_unit_test(resolve__silent_resolver_costs_no_more_than_the_deadline),
        cmocka_unit_test(resolve__loop_ends_though_the_resolver_does_not),
        cmocka_unit_test(resolve__answer_that_comes_with_the_close_is_not_delivered),
        cmocka_unit_test(resolve__questions_at_once_are_bounded),
    };

    return cmocka_run_group_tests_name("io/resolve", tests, NULL, NULL);
}

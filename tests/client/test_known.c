/* What a client knows of places from its exists: for how long, how much, and how it is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "client/known.h"

#define SENT_NS (1000 * MC_NS_PER_MS)
#define REUSE_MS 500u
#define END_NS (SENT_NS + REUSE_MS * MC_NS_PER_MS)

static struct mc_replica_info replica;

/* An answer that says of one key where it is. */
static void keep(struct mc_known *known, const char *name)
{
    struct mc_key key = {.bytes = name, .len = (uint32_t)strlen(name)};
    struct mc_exist_reply reply = {.count = 1, .reuse_ms = REUSE_MS};
    struct mc_arena arena;

    mc_arena_init(&arena, (size_t)1 << 20);
    reply.table.objects = mc_arena_array(&arena, 1, sizeof(*reply.table.objects));
    assert_non_null(reply.table.objects);
    reply.table.count = 1;
    reply.table.objects[0] = (struct mc_object_info){
        .value_len = strlen(name), .replicas = &replica, .replicas_count = 1};
    mc_known_keep(known, &key, &reply, SENT_NS, &arena);
    mc_arena_fini(&arena);
}

/* Is it known where the key is? Tells that this was not so, if @p stale. */
static bool knows(struct mc_known *known, const char *name, uint64_t now_ns, bool stale)
{
    struct mc_key key = {.bytes = name, .len = (uint32_t)strlen(name)};
    struct mc_known_answer *answer;
    struct mc_query_reply reply;
    struct mc_arena arena;

    mc_arena_init(&arena, (size_t)1 << 20);
    answer = mc_known_find(known, &key, 1, now_ns, &arena, &reply);
    if (answer != NULL) {
        assert_int_equal(reply.table.objects[0].value_len, strlen(name));
        mc_known_return(known, &answer, stale ? 1 : 0);
        assert_null(answer);
        mc_arena_fini(&arena);
        return true;
    }
    mc_arena_fini(&arena);
    return false;
}

static int open_known(void **state)
{
    static struct mc_known known;

    mc_known_init(&known, true);
    *state = &known;
    return 0;
}

static int close_known(void **state)
{
    mc_known_fini(*state);
    return mc_mem_live_count() == 0 ? 0 : -1;
}

static void known__is_believed_for_the_promised_time_after_the_question(void **state)
{
    keep(*state, "k");
    assert_false(knows(*state, "other", SENT_NS, false));
    assert_true(knows(*state, "k", END_NS - 1, false));
    assert_true(knows(*state, "k", END_NS - 1, false));
    assert_false(knows(*state, "k", END_NS, false));
    assert_int_equal(mc_known_totals(*state).reused, 2);
}

static void known__that_was_found_wrong_is_known_no_more(void **state)
{
    keep(*state, "k");
    keep(*state, "l");
    assert_true(knows(*state, "k", SENT_NS, true));
    assert_false(knows(*state, "k", SENT_NS, false));
    assert_true(knows(*state, "l", SENT_NS, false));
    assert_int_equal(mc_known_totals(*state).stale, 1);
}

static void known__is_no_more_than_its_bound_and_the_newest(void **state)
{
    char name[16];

    for (unsigned i = 0; i <= MC_KNOWN_MAX; i++) {
        (void)snprintf(name, sizeof(name), "k-%u", i);
        keep(*state, name);
    }
    assert_false(knows(*state, "k-0", SENT_NS, false));
    for (unsigned i = 1; i <= MC_KNOWN_MAX; i++) {
        (void)snprintf(name, sizeof(name), "k-%u", i);
        assert_true(knows(*state, name, SENT_NS, false));
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_known, close_known)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(known__is_believed_for_the_promised_time_after_the_question),
        TEST(known__that_was_found_wrong_is_known_no_more),
        TEST(known__is_no_more_than_its_bound_and_the_newest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

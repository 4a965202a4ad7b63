/* Workloads: the parser of traces, the chat generator, and the LRU model against a naive one. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "chat.h"
#include "lru.h"
#include "trace.h"

#define SEEDS 30

/* ---- trace ------------------------------------------------------------------------------- */

static void trace__bad_lines_are_refused_with_a_reason(void **state)
{
    static const struct {
        const char *line, *reason;
    } bad[] = {
        {"", "not JSON"},
        {"{", "not JSON"},
        {"[1,2]", "no array"},
        {"{}", "no array"},
        {"{\"hash_ids\": 5}", "no array"},
        {"{\"hash_ids\": {\"0\": 1}}", "no array"},
        {"{\"hash_ids\": [1, -1]}", "[1] is not"},
        {"{\"hash_ids\": [1.5]}", "[0] is not"},
        {"{\"hash_ids\": [\"1\"]}", "[0] is not"},
        {"{\"hash_ids\": [null]}", "[0] is not"},
        {"{\"hash_ids\": [99999999999999999999]}", "not JSON"},
        {"{\"hash_ids\": [1], \"hash_ids\": [2]}", "not JSON"},
        {"{\"hash_ids\": [1]} {}", "not JSON"},
    };
    struct mc_requests requests = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char why[200] = "";

        assert_false(
            mc_trace_parse_line(bad[i].line, strlen(bad[i].line), &requests, why, sizeof(why)));
        if (strstr(why, bad[i].reason) == NULL) {
            fail_msg("%s: %s", bad[i].line, why);
        }
    }
    assert_int_equal(requests.count, 0);
    assert_int_equal(requests.ids_count, 0);
    mc_requests_fini(&requests);
}

static void trace__too_many_blocks_are_refused(void **state)
{
    struct mc_requests requests = {0};
    char *line = malloc(2 * (MC_TRACE_BLOCKS_MAX + 1) + 32);
    size_t at = strlen("{\"hash_ids\":[");
    char why[200];

    (void)state;
    memcpy(line, "{\"hash_ids\":[", at);
    for (uint32_t i = 0; i < MC_TRACE_BLOCKS_MAX; i++) {
        memcpy(line + at, "7,", 2);
        at += 2;
    }
    memcpy(line + at, "7]}", 3);
    assert_false(mc_trace_parse_line(line, at + 3, &requests, why, sizeof(why)));
    assert_non_null(strstr(why, "65537 blocks"));
    memcpy(line + at - 1, "]}", 2);
    assert_true(mc_trace_parse_line(line, at + 1, &requests, why, sizeof(why)));
    assert_int_equal(requests.ids_count, MC_TRACE_BLOCKS_MAX);
    mc_requests_fini(&requests);
    free(line);
}

static void trace__line_becomes_a_request(void **state)
{
    static const char line[] = "{\"timestamp\": 3, \"hash_ids\": [5, 0, 9223372036854775807]}";
    struct mc_requests requests = {0};
    const uint64_t *ids;
    size_t count;
    char why[200];

    (void)state;
    assert_true(mc_trace_parse_line("{\"hash_ids\":[]}", 15, &requests, why, sizeof(why)));
    assert_true(mc_trace_parse_line(line, sizeof(line) - 1, &requests, why, sizeof(why)));
    assert_int_equal(requests.count, 2);
    (void)mc_requests_at(&requests, 0, &count);
    assert_int_equal(count, 0);
    ids = mc_requests_at(&requests, 1, &count);
    assert_int_equal(count, 3);
    assert_true(ids[0] == 5 && ids[1] == 0 && ids[2] == INT64_MAX);
    mc_requests_fini(&requests);
}

static void trace__bad_file_is_named_with_its_line(void **state)
{
    char path[] = "/tmp/mooncake-trace-XXXXXX";
    struct mc_requests requests = {0};
    char why[400];
    FILE *file = fdopen(mkstemp(path), "w");

    (void)state;
    assert_non_null(file);
    (void)fputs("{\"hash_ids\": [1]}\r\n\n{\"hash_ids\": [1,]}\n", file);
    (void)fclose(file);
    assert_false(mc_trace_load(path, &requests, why, sizeof(why)));
    (void)unlink(path);
    assert_non_null(strstr(why, path));
    assert_non_null(strstr(why, "line 3"));
    assert_int_equal(requests.count, 1);
    assert_false(mc_trace_load(path, &requests, why, sizeof(why)));
    assert_non_null(strstr(why, "No such file"));
    mc_requests_fini(&requests);
}

/* ---- chat -------------------------------------------------------------------------------- */

static struct mc_requests chat_of(uint64_t seed)
{
    struct mc_chat chat = {seed, 500, 16, 4, 5};
    struct mc_requests requests = {0};

    assert_true(mc_chat_generate(&chat, &requests));
    return requests;
}

static void chat__same_seed_gives_the_same_requests(void **state)
{
    struct mc_requests a = chat_of(7);
    struct mc_requests b = chat_of(7);
    struct mc_requests c = chat_of(8);

    (void)state;
    assert_int_equal(a.count, 500);
    assert_int_equal(a.ids_count, b.ids_count);
    assert_memory_equal(a.ids, b.ids, a.ids_count * sizeof(*a.ids));
    assert_memory_equal(a.ends, b.ends, a.count * sizeof(*a.ends));
    assert_true(a.ids_count != c.ids_count ||
                memcmp(a.ids, c.ids, a.ids_count * sizeof(*a.ids)) != 0);
    mc_requests_fini(&a);
    mc_requests_fini(&b);
    mc_requests_fini(&c);
}

/* An id stands for a block and all before it: it may follow one other id only, at one place. */
static void chat__equal_blocks_have_equal_prefixes(void **state)
{
    struct mc_requests r = chat_of(3);
    uint64_t *before = calloc(r.ids_count + 4096, sizeof(*before));
    size_t *place = calloc(r.ids_count + 4096, sizeof(*place));

    (void)state;
    for (size_t i = 0; i < r.count; i++) {
        size_t count;
        const uint64_t *ids = mc_requests_at(&r, i, &count);

        assert_in_range(count, 1, MC_CHAT_BLOCKS_MAX);
        for (size_t k = 0; k < count; k++) {
            uint64_t previous = k == 0 ? UINT64_MAX : ids[k - 1];

            assert_true(ids[k] < r.ids_count + 4096);
            assert_true(place[ids[k]] == 0 || place[ids[k]] == k + 1);
            assert_true(place[ids[k]] == 0 || before[ids[k]] == previous);
            place[ids[k]] = k + 1;
            before[ids[k]] = previous;
        }
    }
    free(before);
    free(place);
    mc_requests_fini(&r);
}

static void chat__much_is_shared(void **state)
{
    struct mc_requests r = chat_of(1);
    uint64_t hits = 0;

    (void)state;
    assert_true(mc_lru_run(&r, 0, &hits));
    assert_true(hits * 2 > r.ids_count);
    assert_true(hits < r.ids_count);
    mc_requests_fini(&r);
}

/* ---- lru --------------------------------------------------------------------------------- */

/* The same by searching arrays: used[] holds ids from the oldest to the newest use. */
static uint64_t naive_lru(const struct mc_requests *r, size_t capacity)
{
    uint64_t *used = calloc(r->ids_count + 1, sizeof(*used));
    size_t used_count = 0;
    uint64_t hits = 0;

    for (size_t i = 0; i < r->count; i++) {
        size_t count;
        const uint64_t *ids = mc_requests_at(r, i, &count);
        bool unbroken = true;

        for (size_t pass = 0; pass < 2; pass++) {
            for (size_t k = 0; k < count; k++) {
                size_t at = 0;

                while (at < used_count && used[at] != ids[k]) {
                    at++;
                }
                unbroken = unbroken && pass == 0 && at < used_count;
                hits += unbroken;
                if (pass == 0) {
                    continue;
                }
                if (at == used_count && used_count == capacity) {
                    at = 0;
                }
                if (at < used_count) {
                    memmove(used + at, used + at + 1, (used_count - at - 1) * sizeof(*used));
                    used_count--;
                }
                used[used_count++] = ids[k];
            }
        }
    }
    free(used);
    return hits;
}

static void lru__random_workloads_equal_the_naive_model(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        uint64_t rnd = seed;
        struct mc_requests r = {0};
        uint64_t distinct = 0;
        uint64_t hits = 0;
        uint64_t ids_max = 1 + mc_random_below(&rnd, 60);

        print_message("seed %" PRIu64 "\n", seed);
        for (size_t i = 0; i < 100; i++) {
            uint64_t ids[20];
            size_t count = mc_random_below(&rnd, 20);

            for (size_t k = 0; k < count; k++) {
                ids[k] = mc_random_below(&rnd, ids_max) << 40; /* far apart, also repeated */
            }
            assert_true(mc_requests_add(&r, ids, count));
        }
        for (size_t capacity = 1; capacity < 70; capacity += 1 + capacity / 3) {
            assert_true(mc_lru_run(&r, capacity, &hits));
            assert_int_equal(hits, naive_lru(&r, capacity));
        }
        assert_true(mc_lru_run(&r, 0, &hits));
        assert_int_equal(hits, naive_lru(&r, SIZE_MAX));
        assert_true(mc_lru_distinct(&r, &distinct));
        assert_true(distinct <= ids_max);
        mc_requests_fini(&r);
    }
}

static void lru__no_requests_no_hits(void **state)
{
    struct mc_requests r = {0};
    uint64_t hits = 9;

    (void)state;
    assert_true(mc_lru_run(&r, 1, &hits));
    assert_int_equal(hits, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trace__bad_lines_are_refused_with_a_reason),
        cmocka_unit_test(trace__too_many_blocks_are_refused),
        cmocka_unit_test(trace__line_becomes_a_request),
        cmocka_unit_test(trace__bad_file_is_named_with_its_line),
        cmocka_unit_test(chat__same_seed_gives_the_same_requests),
        cmocka_unit_test(chat__equal_blocks_have_equal_prefixes),
        cmocka_unit_test(chat__much_is_shared),
        cmocka_unit_test(lru__random_workloads_equal_the_naive_model),
        cmocka_unit_test(lru__no_requests_no_hits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

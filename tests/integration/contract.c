/* See the header. */
#include "integration/contract.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <xxhash.h>

/* ---- values ------------------------------------------------------------------------------ */

struct block {
    uint64_t key, version, index, proof;
};

static struct block make_block(uint64_t key, uint64_t version, uint64_t index)
{
    struct block block = {.key = key, .version = version, .index = index};

    block.proof = XXH3_64bits(&block, offsetof(struct block, proof));
    return block;
}

void value_make(void *data, size_t len, const char *key, uint64_t version)
{
    uint64_t hash = XXH3_64bits(key, strlen(key));
    uint8_t *bytes = data;

    for (size_t at = 0; at < len; at += sizeof(struct block)) {
        struct block block = make_block(hash, version, at);

        memcpy(bytes + at, &block, len - at < sizeof(block) ? len - at : sizeof(block));
    }
}

static bool is_zero(const uint8_t *bytes, size_t len)
{
    size_t i = 0;

    while (i < len && bytes[i] == 0) {
        i++;
    }
    return i == len;
}

/* Is a whole block one that value_make() wrote, of whatever key? */
static bool is_genuine(const struct block *block)
{
    struct block again = make_block(block->key, block->version, block->index);

    return again.proof == block->proof;
}

enum verdict value_judge(const void *data, size_t len, const char *key, uint64_t version)
{
    uint64_t hash = XXH3_64bits(key, strlen(key));
    const uint8_t *bytes = data;
    struct block first;

    assert_true(len >= sizeof(first));
    memcpy(&first, bytes, sizeof(first));
    if (is_zero(bytes, sizeof(first))) {
        return VALUE_ZEROS;
    }
    if (!is_genuine(&first)) {
        return VALUE_DAMAGED;
    }
    for (size_t at = 0; at < len; at += sizeof(struct block)) {
        struct block want = make_block(first.key, first.version, at);

        if (memcmp(bytes + at, &want, len - at < sizeof(want) ? len - at : sizeof(want)) != 0) {
            return VALUE_MIXED;
        }
    }
    if (first.key != hash) {
        return VALUE_OTHER_KEY;
    }
    return first.version == version ? VALUE_RIGHT : VALUE_OTHER_VERSION;
}

uint64_t value_version(const void *data)
{
    struct block first;

    memcpy(&first, data, sizeof(first));
    return first.version;
}

const char *verdict_name(enum verdict verdict)
{
    static const char *const names[] = {
        "right", "of another version", "of another key", "mixed", "zeros", "damaged"};

    return names[verdict];
}

mooncake_err value_put(mooncake_client *client, const char *key, size_t len, uint64_t version,
                       const mooncake_put_options *options, uint32_t timeout_ms)
{
    uint64_t start_ms = now_ms();
    uint8_t *data = malloc(len + 1);
    mooncake_err err;

    assert_non_null(data);
    value_make(data, len, key, version);
    err = mooncake_put(client, key, data, len, options, timeout_ms);
    free(data);
    if (timeout_ms != 0) {
        assert_true(now_ms() - start_ms <= timeout_ms + HANG_MS);
    }
    return err;
}

mooncake_err value_get(mooncake_client *client, const char *key, size_t len, uint64_t version,
                       uint32_t timeout_ms)
{
    uint64_t start_ms = now_ms(), got = 0;
    uint8_t *data = calloc(1, len + 1);
    enum verdict verdict = VALUE_RIGHT;
    mooncake_err err;

    assert_non_null(data);
    err = mooncake_get_into(client, key, data, len, timeout_ms, &got);
    if (err == MOONCAKE_OK) {
        verdict = value_judge(data, len, key, version);
    }
    free(data);
    if (timeout_ms != 0) {
        assert_true(now_ms() - start_ms <= timeout_ms + HANG_MS);
    }
    if (err == MOONCAKE_OK && (verdict != VALUE_RIGHT || got != len)) {
        fail_msg("%s: %llu bytes that are %s", key, (unsigned long long)got, verdict_name(verdict));
    }
    return err;
}

/* ---- the scene --------------------------------------------------------------------------- */

int contract_setup_ttl(void **state, const char *ttl)
{
    struct contract *c = calloc(1, sizeof(*c));
    const char *const timers[] = {"--default_kv_lease_ttl=2000",
                                  ttl,
                                  "--put_start_discard_timeout_sec=4",
                                  "--put_start_release_timeout_sec=8",
                                  "--log_level=warn",
                                  NULL};

    assert_non_null(c);
    pool_init(&c->pool);
    for (unsigned i = 0; timers[i] != NULL; i++) {
        c->pool.master_args[i] = timers[i];
    }
    pool_start_master(&c->pool, 0);
    *state = c;
    return 0;
}

int contract_setup(void **state)
{
    return contract_setup_ttl(state, "--client_ttl=5");
}

int contract_teardown(void **state)
{
    struct contract *c = *state;

    mooncake_client_close(c->client);
    pool_fini(&c->pool);
    free(c);
    return 0;
}

mooncake_client *contract_open(struct contract *c, const char *transport, uint32_t timeout_ms)
{
    mooncake_client_options options;
    mooncake_client *client = NULL;
    mooncake_err err;

    mooncake_client_options_init(&options);
    options.master = c->pool.master_address;
    options.transport = transport != NULL ? transport : c->pool.transport;
    options.timeout_ms = timeout_ms;
    err = mooncake_client_open(&options, &client);
    if (err != MOONCAKE_OK) {
        fail_msg("open: %s: %s", mooncake_err_name(err), mooncake_last_error());
    }
    return client;
}

static unsigned descriptors_of(const struct daemon *daemon)
{
    char path[40];
    unsigned count = 0;
    DIR *dir;

    (void)snprintf(path, sizeof(path), "/proc/%ld/fd", (long)daemon->pid);
    dir = opendir(path);
    assert_non_null(dir);
    while (readdir(dir) != NULL) {
        count++;
    }
    (void)closedir(dir);
    return count - 2; /* "." and ".." */
}

/* A value with a copy in each store, there and back. */
static void use_every_store(mooncake_client *client)
{
    mooncake_put_options options;

    mooncake_put_options_init(&options);
    options.replicas = POOL_STORES_MAX;
    assert_int_equal(value_put(client, "round-trip", 1000, 1, &options, 5000), MOONCAKE_OK);
    for (unsigned i = 0; i < 2 * POOL_STORES_MAX; i++) { /* copies take turns */
        assert_int_equal(value_get(client, "round-trip", 1000, 1, 5000), MOONCAKE_OK);
    }
    assert_int_equal(mooncake_remove(client, "round-trip", true, 5000), MOONCAKE_OK);
}

void contract_count(struct contract *c)
{
    use_every_store(c->client);
    c->descriptors[0] = count_descriptors();
    c->descriptors[1] = descriptors_of(&c->pool.master);
    for (unsigned i = 0; i < POOL_STORES_MAX; i++) {
        if (c->pool.stores[i].pid > 0) {
            c->descriptors[2 + i] = descriptors_of(&c->pool.stores[i]);
        }
    }
}

void contract_begin(struct contract *c)
{
    c->client = contract_open(c, NULL, 10000);
    contract_count(c);
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

void assert_calls_are_short(const char *when, uint32_t *times_us, unsigned count)
{
    assert_true(count > 0);
    qsort(times_us, count, sizeof(*times_us), compare);
    (void)printf("%s: %u calls, p50 %u us, p99 %u us, longest %u us\n", when, count,
                 times_us[count / 2], times_us[count * 99 / 100], times_us[count - 1]);
    assert_true(times_us[count * 99 / 100] <= 500000);
    assert_true(times_us[count - 1] <= 5000000);
}

/* ---- what must be true ------------------------------------------------------------------- */

void contract_status(struct contract *c, mooncake_pool_status *out_status)
{
    *out_status = (mooncake_pool_status){.struct_size = sizeof(*out_status)};
    assert_int_equal(mooncake_admin_status(c->client, 5000, out_status), MOONCAKE_OK);
}

void contract_metrics(struct contract *c, char *page, size_t cap)
{
    static const char request[] = "GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n";
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t len = 0;
    ssize_t n;

    assert_true(fd >= 0);
    address.sin_port = htons(daemon_port(&c->pool.master, "metrics_port"));
    assert_int_equal(connect(fd, (struct sockaddr *)(void *)&address, sizeof(address)), 0);
    assert_int_equal(write(fd, request, sizeof(request) - 1), sizeof(request) - 1);
    while (len + 1 < cap && (n = read(fd, page + len, cap - 1 - len)) > 0) {
        len += (size_t)n;
    }
    (void)close(fd);
    page[len] = '\0';
    assert_true(len + 1 < cap);
}

uint64_t metric_of(const char *page, const char *name)
{
    char line[100];
    const char *at;

    (void)snprintf(line, sizeof(line), "\nmooncake_master_%s ", name);
    at = strstr(page, line);
    if (at == NULL) {
        fail_msg("no metric %s", name);
        return 0;
    }
    return strtoull(at + strlen(line), NULL, 10);
}

static void check_lookups(struct contract *c)
{
    static char page[256 << 10];

    contract_metrics(c, page, sizeof(page));
    assert_int_equal(metric_of(page, "hits_total") + metric_of(page, "misses_total"),
                     metric_of(page, "lookups_total"));
    assert_int_equal(metric_of(page, "query_hits_total") + metric_of(page, "exist_hits_total"),
                     metric_of(page, "hits_total"));
    assert_true(metric_of(page, "lookups_total") > 0);
}

void contract_check_books(struct contract *c)
{
    mooncake_space_status space = {.struct_size = sizeof(space)};
    char mismatch[200] = "";

    assert_int_equal(
        mooncake_admin_space(c->client, true, 10000, &space, mismatch, sizeof(mismatch)),
        MOONCAKE_OK);
    assert_string_equal(mismatch, "");
    assert_int_equal(space.free + space.evictable + space.leased + space.soft_pinned +
                         space.hard_pinned + space.writing + space.parked + space.unplaceable,
                     space.capacity);
    check_lookups(c);
}

static void check_alive(struct daemon *daemon)
{
    int status = 0;

    if (daemon->pid > 0 && !daemon_runs(daemon, &status)) {
        fail_msg("%s has ended with %d", daemon->name, status);
    }
}

static bool has_no_unfinished_put(void *arg)
{
    mooncake_pool_status status;

    contract_status(arg, &status);
    return status.unfinished_puts == 0;
}

static bool is_empty(void *arg)
{
    mooncake_pool_status status;

    contract_status(arg, &status);
    return status.used == 0 && status.keys == 0;
}

/* What a client that is open may add to a store: a second connection for large puts, and what the
 * store shares. */
#define MORE_WHILE_OPEN 2u

/* Of which process too many descriptors are open: its place in the list, or -1. */
static int who_holds_more(struct contract *c, unsigned more)
{
    int who = count_descriptors() > c->descriptors[0] + more * POOL_STORES_MAX ? 0 : -1;

    who = descriptors_of(&c->pool.master) > c->descriptors[1] ? 1 : who;
    for (unsigned i = 0; i < POOL_STORES_MAX; i++) {
        if (c->pool.stores[i].pid > 0 &&
            descriptors_of(&c->pool.stores[i]) > c->descriptors[2 + i] + more) {
            who = 2 + (int)i;
        }
    }
    return who;
}

static bool nobody_holds_more(void *arg)
{
    return who_holds_more(arg, 0) < 0;
}

static bool nobody_holds_much_more(void *arg)
{
    return who_holds_more(arg, MORE_WHILE_OPEN) < 0;
}

/* With the clients that the case has used, and exactly when all of them are closed and one is in
 * the state of the start again. */
static void check_descriptors(struct contract *c)
{
    bool well = wait_until(nobody_holds_much_more, c, SLACK_MS / 1000);

    mooncake_client_close(c->client);
    c->client = contract_open(c, NULL, 10000);
    use_every_store(c->client);
    if (!well || !wait_until(nobody_holds_more, c, SLACK_MS / 1000)) {
        int who = who_holds_more(c, 0);

        fail_msg("process %d holds more descriptors than %u", who,
                 who < 0 ? 0 : c->descriptors[who]);
    }
}

void contract_check(struct contract *c)
{
    const unsigned seconds = (RELEASE_MS + SLACK_MS) / 1000;
    mooncake_pool_status status;

    check_alive(&c->pool.master);
    for (unsigned i = 0; i < POOL_STORES_MAX; i++) {
        check_alive(&c->pool.stores[i]);
    }
    use_every_store(c->client);
    contract_check_books(c);
    assert_true(wait_until(has_no_unfinished_put, c, seconds));
    assert_int_equal(mooncake_remove_all(c->client, true, 10000, NULL, NULL), MOONCAKE_OK);
    if (!wait_until(is_empty, c, seconds)) { /* space of lost writers waits for its time */
        contract_status(c, &status);
        fail_msg("%llu bytes and %llu keys are left", (unsigned long long)status.used,
                 (unsigned long long)status.keys);
    }
    contract_check_books(c);
    check_descriptors(c);
}

/* Writes the seeds of fuzz_master: talks of a client that mean something. make_master_seeds DIR */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "a_master.h"
#include "base/bytes.h"
#include "base/mem.h"
#include "wire/methods.h"

/* A talk under construction, and the core that tells which attempts its puts will get. */
static struct mc_buf talk;
static struct mc_core *core;
static struct mc_arena arena;
static const char *directory;

static void must(bool holds, const char *what)
{
    if (!holds) {
        (void)fprintf(stderr, "make_master_seeds: %s: %s\n", what, mooncake_last_error());
        exit(1);
    }
}

static void say(enum mc_method method, const void *request)
{
    const struct mc_method_codec *codec = mc_method_codec(method);
    struct mc_buf body;
    uint8_t header[3];

    mc_buf_init(&body);
    must(codec->encode_request(request, &body) == MOONCAKE_OK, codec->name);
    header[0] = (uint8_t)method;
    mc_store_u16(header + 1, (uint16_t)mc_buf_len(&body));
    must(mc_buf_append(&talk, header, sizeof(header)) == MOONCAKE_OK, "memory");
    must(mc_buf_append(&talk, mc_buf_bytes(&body), mc_buf_len(&body)) == MOONCAKE_OK, "memory");
    mc_buf_fini(&body);
}

static void begin(void)
{
    const struct mc_clock *clock = mc_clock_system();
    const struct mc_hello hello = {
        .protocol_min = 1, .protocol_max = 1, .program = "seed", .client_id = 9};
    struct mc_core_options options;

    a_master_options(&options);
    must(mc_core_create(&options, clock, &core) == MOONCAKE_OK, "core");
    a_master_fill(core);
    mc_buf_init(&talk);
    mc_arena_init(&arena, 0);
    say(MC_METHOD_HELLO, &hello);
}

static void end(const char *name)
{
    char path[1024];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s", directory, name);
    file = fopen(path, "wb");
    must(file != NULL &&
             fwrite(mc_buf_bytes(&talk), 1, mc_buf_len(&talk), file) == mc_buf_len(&talk) &&
             fclose(file) == 0,
         path);
    mc_arena_fini(&arena);
    mc_buf_fini(&talk);
    mc_core_destroy(&core);
}

static uint64_t say_start(const char *text, uint64_t len, bool upsert)
{
    static const char *const preferred[] = {"one"};
    const struct mc_key key = {.bytes = text, .len = (uint32_t)strlen(text)};
    const struct mc_put_start_request request = {.client_id = 9,
                                                 .nonce = len,
                                                 .keys = &key,
                                                 .value_lens = &len,
                                                 .count = 1,
                                                 .replicas = 2,
                                                 .soft_pin = !upsert,
                                                 .soft_pin_ms = 1000,
                                                 .preferred_segments = preferred,
                                                 .preferred_count = 1,
                                                 .upsert = upsert};
    struct mc_put_start_reply reply;

    say(MC_METHOD_PUT_START, &request);
    must(mc_core_put_start(core, &request, &arena, &reply) == MOONCAKE_OK, "put_start");
    must(reply.statuses[0] == MOONCAKE_OK, text);
    return reply.attempts[0];
}

static void say_end(enum mc_method method, const char *text, uint64_t attempt, uint32_t failed)
{
    const struct mc_key key = {.bytes = text, .len = (uint32_t)strlen(text)};
    const struct mc_put_end_request request = {
        .client_id = 9, .keys = &key, .attempts = &attempt, .failed_replicas = &failed, .count = 1};

    say(method, &request);
}

static void say_keys(enum mc_method method, const char *one, const char *two, bool flag)
{
    const struct mc_key keys[] = {{.bytes = one, .len = (uint32_t)strlen(one)},
                                  {.bytes = two, .len = (uint32_t)strlen(two)}};
    const struct mc_keys_request request = {
        .client_id = 9,
        .keys = keys,
        .count = method == MC_METHOD_DESCRIBE_KEY ? 1 : 2,
        .sizes_only = flag && method == MC_METHOD_QUERY,
        .force = flag && method == MC_METHOD_REMOVE,
    };

    say(method, &request);
}

static void make_puts(void)
{
    uint64_t attempt;

    begin();
    attempt = say_start("new", 70000, false);
    say_end(MC_METHOD_PUT_END, "new", attempt, 0);
    attempt = say_start("key1", 30, true);
    say_end(MC_METHOD_PUT_END, "key1", attempt, 1);
    attempt = say_start("gone", 31, false);
    say_end(MC_METHOD_PUT_REVOKE, "gone", attempt, 0);
    attempt = say_start("bad", 32, false);
    say_end(MC_METHOD_PUT_END, "bad", attempt, 3);
    (void)say_start("left", 33, false);
    end("puts");
}

/* Pinned objects, one of which is not removed because it is leased. */
static void make_pins(void)
{
    uint64_t attempt;

    begin();
    attempt = say_start("pin", 100, false);
    say_end(MC_METHOD_PUT_END, "pin", attempt, 0);
    attempt = say_start("old", 200, false);
    say_end(MC_METHOD_PUT_END, "old", attempt, 0);
    say_keys(MC_METHOD_QUERY, "pin", "key1", false);
    say_keys(MC_METHOD_REMOVE, "pin", "ole", false);
    end("pins");
}

static void make_reads(void)
{
    const struct mc_list_keys_request list = {.keys_max = 5, .pattern = "key[1-5]"};
    const struct mc_remove_all_request all = {.client_id = 9, .pattern = "y1"};
    const struct mc_remove_all_request rest = {.client_id = 9, .force = true};
    const struct mc_list_request page = {0};
    const struct mc_pool_status_request status = {.removals_of = 9};
    const struct mc_empty_request empty = {0};
    const struct mc_space_request space = {.recount = true};

    begin();
    say_keys(MC_METHOD_QUERY, "key1", "none", false);
    say_keys(MC_METHOD_QUERY, "key2", "key2", true);
    say_keys(MC_METHOD_EXIST, "key3", "", false);
    say_keys(MC_METHOD_REMOVE, "key4", "key1", false);
    say_keys(MC_METHOD_REMOVE, "key1", "key5", true);
    say_keys(MC_METHOD_DESCRIBE_KEY, "key7", "", false);
    say(MC_METHOD_LIST_KEYS, &list);
    say(MC_METHOD_LIST_SEGMENTS, &page);
    say(MC_METHOD_LIST_CLIENTS, &page);
    say(MC_METHOD_POOL_STATUS, &status);
    say(MC_METHOD_CONFIG, &empty);
    say(MC_METHOD_REMOVE_ALL, &all);
    say(MC_METHOD_SPACE, &space);
    say(MC_METHOD_REMOVE_ALL, &rest);
    end("reads");
}

static void make_members(void)
{
    static const struct mc_mount_item item = {.name = "three",
                                              .addresses = "tcp://10.0.0.8:2",
                                              .mount_id = 3,
                                              .len = 1u << 16,
                                              .secret = {1, 2}};
    static const uint64_t ids[] = {3, 44};
    const struct mc_mount_request mount = {
        .client_id = 9, .host = "h", .program = "p", .items = &item, .count = 1};
    const struct mc_ping_request ping = {.client_id = 9,
                                         .role = MC_ROLE_STORE,
                                         .host = "h",
                                         .program = "p",
                                         .mount_ids = ids,
                                         .count = 2};
    const struct mc_report_item bad = {
        .mount_id = 1, .reason = MOONCAKE_ETRANSFER, .key = {.bytes = "key1", .len = 4}};
    const struct mc_report_request report = {.client_id = 9, .items = &bad, .count = 1};
    const struct mc_unmount_request drain = {
        .client_id = 9, .mount_ids = ids, .count = 1, .grace_ms = 1000};
    const struct mc_unmount_request leave = {.client_id = 9, .mount_ids = ids, .count = 2};

    begin();
    say(MC_METHOD_MOUNT, &mount);
    say(MC_METHOD_PING, &ping);
    say(MC_METHOD_REPORT, &report);
    say(MC_METHOD_UNMOUNT, &drain);
    say(MC_METHOD_UNMOUNT, &leave);
    end("members");
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        (void)fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
        return 2;
    }
    directory = argv[1];
    make_puts();
    make_pins();
    make_reads();
    make_members();
    return 0;
}

/* The store's data loops: each has its part of the connections. */
#include "rig.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

#define ENGINES 8u
#define FDS_MAX 256u

/* How many descriptors each epoll of this process watches, by the epoll's own number. */
static void count_watched(unsigned watched[FDS_MAX])
{
    char path[64], line[256], target[64];

    memset(watched, 0, FDS_MAX * sizeof(watched[0]));
    for (unsigned fd = 0; fd < FDS_MAX; fd++) {
        ssize_t len;
        FILE *file;

        (void)snprintf(path, sizeof(path), "/proc/self/fd/%u", fd);
        len = readlink(path, target, sizeof(target) - 1);
        target[len < 0 ? 0 : len] = '\0';
        if (strcmp(target, "anon_inode:[eventpoll]") != 0) {
            continue;
        }
        (void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%u", fd);
        file = fopen(path, "re");
        assert_non_null(file);
        while (fgets(line, sizeof(line), file) != NULL) {
            watched[fd] += strncmp(line, "tfd:", 4) == 0 ? 1 : 0;
        }
        (void)fclose(file);
    }
}

static void loops__share_the_connections_of_their_port(void **state)
{
    static const struct mc_tcp_server_options options = {.address = "127.0.0.1:0", .loops = 2};
    unsigned before[FDS_MAX], now[FDS_MAX], sharing = 0;
    struct rig_engine engines[ENGINES];
    struct mc_tcp_server *server = NULL;
    struct mc_extent_ref extent;
    struct rig_segment segment;
    uint8_t bytes[1000];

    (void)state;
    rig_segment_open(&segment, 21, (uint64_t)1 << 20);
    rig_segment_serve(&segment);
    extent = rig_plant(&segment, sizeof(bytes), 1);
    assert_int_equal(mc_tcp_server_open(&options, &server), MOONCAKE_OK);
    for (unsigned i = 0; i < ENGINES; i++) {
        rig_engine_open(&engines[i], "tcp", 21, mc_tcp_server_port(server), &rig_options);
        rig_run_a_little(engines[i].loop); /* its epoll has what is its own */
    }
    count_watched(before);
    for (unsigned i = 0; i < ENGINES; i++) {
        assert_int_equal(rig_do(&engines[i], MC_RIGHT_READ, &extent, bytes), MOONCAKE_OK);
    }
    count_watched(now);
    for (unsigned fd = 0; fd < FDS_MAX; fd++) {
        sharing += now[fd] == before[fd] + ENGINES / 2 ? 1 : 0; /* an engine's own has one more */
    }
    assert_int_equal(sharing, 2);
    for (unsigned i = 0; i < ENGINES; i++) {
        rig_engine_close(&engines[i]);
    }
    mc_tcp_server_close(&server, 0);
    rig_segment_close(&segment);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loops__share_the_connections_of_their_port),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * What is special about `shm`: who gets the memory, how its end is noticed, what a store that is
 * frozen, dead or hostile can do. The common promises are in conformance.c.
 */
#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "transport/shm_map.h"
#include "transport/shm_server.h"
#include "transport/shm_wire.h"

#define SEGMENT_LEN ((uint64_t)4 << 20)
#define MOUNT_ID 77u

struct fixture {
    struct rig_segment segment;
    char dir[32];
    char address[MC_SHM_ADDRESS_LEN_MAX];
    pid_t pid; /* the store, in a process of its own; 0: none */
    int to_child;
    struct rig_engine engine;
    uint8_t bytes[65536];
};

/* A store that serves the fixture's segment until its standard input ends. */
static _Noreturn void be_store(struct fixture *f, enum mc_shm_policy policy, int in, int out)
{
    struct mc_shm_server *server = NULL;
    char byte;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (mc_mount_add(&f->segment.mount) != MOONCAKE_OK ||
        mc_shm_server_open(f->dir, policy, &server) != MOONCAKE_OK) {
        (void)fprintf(stderr, "store process: %s\n", mooncake_last_error());
        _exit(1);
    }
    (void)!write(out, mc_shm_server_address(server), MC_SHM_ADDRESS_LEN_MAX);
    while (read(in, &byte, 1) > 0) {
        mc_mount_drop(f->segment.mount.mount_id); /* told to unmount */
        (void)!write(out, &byte, 1);
    }
    mc_shm_server_close(&server);
    _exit(0);
}

static void start_store(struct fixture *f, enum mc_shm_policy policy, int *out_from_child)
{
    int in[2];
    int out[2];

    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    f->pid = fork();
    assert_true(f->pid >= 0);
    if (f->pid == 0) {
        (void)close(in[1]);
        (void)close(out[0]);
        be_store(f, policy, in[0], out[1]);
    }
    (void)close(in[0]);
    (void)close(out[1]);
    f->to_child = in[1];
    assert_int_equal(read(out[0], f->address, sizeof(f->address)), (int)sizeof(f->address));
    if (out_from_child != NULL) {
        *out_from_child = out[0];
    } else {
        (void)close(out[0]);
    }
}

static void end_store(struct fixture *f, int sig)
{
    if (f->pid > 0) {
        (void)kill(f->pid, sig);
        (void)kill(f->pid, SIGCONT);
        (void)close(f->to_child);
        (void)waitpid(f->pid, NULL, 0);
        f->pid = 0;
    }
}

static void open_engine(struct fixture *f, struct rig_engine *engine)
{
    rig_engine_open(engine, "shm", MOUNT_ID, 1, &rig_options);
    (void)snprintf(engine->addresses, sizeof(engine->addresses), "tcp://127.0.0.1:1 %s",
                   f->address);
}

static int open_fixture(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    rig_segment_open(&f->segment, MOUNT_ID, SEGMENT_LEN);
    (void)snprintf(f->dir, sizeof(f->dir), "/tmp/mc-test-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    rig_fill(f->bytes, sizeof(f->bytes), 1);
    *state = f;
    return 0;
}

/* Returns when the store has really stopped. */
static void freeze(struct fixture *f)
{
    int status;

    assert_int_equal(kill(f->pid, SIGSTOP), 0);
    assert_int_equal(waitpid(f->pid, &status, WUNTRACED), f->pid);
    assert_true(WIFSTOPPED(status));
}

static int close_fixture(void **state)
{
    struct fixture *f = *state;
    char command[64];

    end_store(f, SIGKILL);
    rig_engine_close(&f->engine);
    mc_shm_map_sweep();
    rig_segment_close(&f->segment);
    (void)snprintf(command, sizeof(command), "rm -rf %s", f->dir);
    (void)!system(command);
    free(f);
    return mc_mem_live_count() == 0 ? 0 : -1;
}

static mooncake_err try_write(struct fixture *f, struct rig_engine *engine)
{
    struct mc_extent_ref extent = rig_extent(&f->segment, 0, sizeof(f->bytes), 1);

    return rig_do(engine, MC_RIGHT_WRITE, &extent, f->bytes);
}

static void segment__is_mapped_once_for_all_engines(void **state)
{
    struct fixture *f = *state;
    struct rig_engine second;
    uint64_t count, bytes;

    start_store(f, MC_SHM_UID, NULL);
    open_engine(f, &f->engine);
    open_engine(f, &second);
    assert_int_equal(try_write(f, &f->engine), MOONCAKE_OK);
    assert_int_equal(try_write(f, &second), MOONCAKE_OK);
    mc_shm_map_totals(&count, &bytes);
    assert_int_equal(count, 1);
    assert_int_equal(bytes, SEGMENT_LEN);
    rig_engine_close(&second);
    rig_check(f->segment.view + MC_EXTENT_HEADER_LEN, sizeof(f->bytes), 1);
}

static void write__into_the_memory_of_a_dead_store_is_no_success(void **state)
{
    struct fixture *f = *state;
    uint64_t count, bytes;

    start_store(f, MC_SHM_UID, NULL);
    open_engine(f, &f->engine);
    assert_int_equal(try_write(f, &f->engine), MOONCAKE_OK);
    end_store(f, SIGKILL);
    assert_int_equal(try_write(f, &f->engine), MOONCAKE_ERPC);
    mc_shm_map_totals(&count, &bytes);
    assert_int_equal(count, 0);
}

/* The store that dies while its memory is being written: at the first touch of the second page. */
static struct {
    struct fixture *f;
    uint8_t *page;
    size_t len;
} trap;

static void on_trap(int sig)
{
    (void)sig;
    (void)kill(trap.f->pid, SIGKILL);
    (void)waitpid(trap.f->pid, NULL, 0);
    (void)mprotect(trap.page, trap.len, PROT_READ);
}

static void write__during_which_its_store_dies_is_no_success(void **state)
{
    const size_t page_len = (size_t)sysconf(_SC_PAGESIZE);
    const struct sigaction action = {.sa_handler = on_trap};
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_extent(&f->segment, 0, 2 * page_len, 1);
    struct sigaction before;
    uint64_t count, bytes;
    uint8_t *from =
        mmap(NULL, 2 * page_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(from != MAP_FAILED);
    start_store(f, MC_SHM_UID, NULL);
    open_engine(f, &f->engine);
    assert_int_equal(rig_do(&f->engine, MC_RIGHT_WRITE, &extent, from), MOONCAKE_OK);
    trap.f = f;
    trap.page = from + page_len;
    trap.len = page_len;
    assert_int_equal(mprotect(trap.page, trap.len, PROT_NONE), 0);
    assert_int_equal(sigaction(SIGSEGV, &action, &before), 0);
    assert_int_equal(rig_do(&f->engine, MC_RIGHT_WRITE, &extent, from), MOONCAKE_ERPC);
    assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
    assert_int_equal(kill(f->pid, 0), -1); /* it has died then, and not later */
    (void)close(f->to_child);
    f->pid = 0;
    mc_shm_map_totals(&count, &bytes);
    assert_int_equal(count, 0);
    (void)munmap(from, 2 * page_len);
}

static void sweep__gives_the_memory_of_a_dead_store_back(void **state)
{
    struct fixture *f = *state;
    uint64_t count, bytes;

    start_store(f, MC_SHM_UID, NULL);
    open_engine(f, &f->engine);
    assert_int_equal(try_write(f, &f->engine), MOONCAKE_OK);
    mc_shm_map_sweep();
    mc_shm_map_totals(&count, &bytes);
    assert_int_equal(count, 1);
    end_store(f, SIGKILL);
    mc_shm_map_sweep();
    mc_shm_map_totals(&count, &bytes);
    assert_int_equal(count, 0);
}

static void mount__that_is_dropped_is_known_to_be_gone(void **state)
{
    struct fixture *f = *state;
    char byte = 'x';
    int from_child;

    start_store(f, MC_SHM_UID, &from_child);
    open_engine(f, &f->engine);
    assert_int_equal(try_write(f, &f->engine), MOONCAKE_OK);
    assert_int_equal(write(f->to_child, &byte, 1), 1);
    assert_int_equal(read(from_child, &byte, 1), 1); /* mc_mount_drop() has returned there */
    assert_int_equal(try_write(f, &f->engine), MOONCAKE_ENOSEGMENT);
    (void)close(from_child);
}

static void frozen_store__costs_a_first_op_a_bounded_wait_and_later_ones_none(void **state)
{
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_extent(&f->segment, 0, 100, 1);
    struct rig_op op;
    uint64_t start_ns;

    start_store(f, MC_SHM_UID, NULL);
    open_engine(f, &f->engine);
    freeze(f);
    start_ns = mc_monotonic_ns();
    assert_int_equal(try_write(f, &f->engine), MOONCAKE_ERPC);
    assert_true(mc_monotonic_ns() - start_ns < RIG_WAIT_NS / 2);
    rig_op_init(&op, &f->engine, MC_RIGHT_READ, &extent, f->bytes);
    assert_int_equal(f->engine.transport->ops->submit(f->engine.transport, &op.op), MOONCAKE_ERPC);
    assert_false(f->engine.transport->ops->reaches(f->engine.transport, &f->engine.target));
}

static void cancelled_op__is_quiet_while_the_store_is_frozen(void **state)
{
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_extent(&f->segment, 0, 100, 1);
    struct rig_op op;

    start_store(f, MC_SHM_UID, NULL);
    open_engine(f, &f->engine);
    freeze(f);
    rig_op_init(&op, &f->engine, MC_RIGHT_READ, &extent, f->bytes);
    rig_submit(&f->engine, &op);
    f->engine.transport->ops->flush(f->engine.transport);
    f->engine.transport->ops->cancel(f->engine.transport, &op.op);
    assert_int_equal(kill(f->pid, SIGCONT), 0);
    assert_int_equal(try_write(f, &f->engine), MOONCAKE_OK); /* the answer has come */
    assert_false(op.done);
    rig_check(f->bytes, sizeof(f->bytes), 1);
}

/* What somebody else gets who asks for the memory: 0 nothing, 1 an answer, 3 and 4 no way to ask.
 * Only root can become somebody else. */
static int ask_as_nobody(const struct fixture *f, bool force)
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        struct sockaddr_un un;
        struct mc_shm_request request = {.mount_id = MOUNT_ID};
        uint8_t bytes[MC_SHM_MESSAGE_LEN];
        int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
        bool found = mc_shm_address_find(f->address, &un);

        if (!found || (force && chmod(un.sun_path, 0666) != 0) || setuid(65534) != 0) {
            _exit(3);
        }
        if (connect(fd, (struct sockaddr *)(void *)&un, sizeof(un)) != 0) {
            _exit(4);
        }
        mc_shm_request_encode(&request, bytes);
        (void)!send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL);
        _exit(recv(fd, bytes, sizeof(bytes), 0) > 0 ? 1 : 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void policy_uid__refuses_another_user(void **state)
{
    struct fixture *f = *state;

    if (geteuid() != 0) {
        skip();
    }
    start_store(f, MC_SHM_UID, NULL);
    assert_int_equal(chmod(f->dir, 0777), 0);
    assert_int_equal(ask_as_nobody(f, true), 0);
}

static void policy_any__serves_another_user(void **state)
{
    struct fixture *f = *state;

    if (geteuid() != 0) {
        skip();
    }
    start_store(f, MC_SHM_ANY, NULL);
    assert_int_equal(chmod(f->dir, 0755), 0); /* it was there before the store, with its own mode */
    assert_int_equal(ask_as_nobody(f, false), 1);
}

/* Whoever owns the directory could put a socket of their own in the place of ours. */
static void directory__of_another_user_is_refused(void **state)
{
    struct mc_shm_server *server = NULL;
    struct fixture *f = *state;

    if (geteuid() != 0) {
        skip();
    }
    assert_int_equal(chown(f->dir, 65534, 65534), 0);
    assert_int_equal(mc_shm_server_open(f->dir, MC_SHM_UID, &server), MOONCAKE_EINVAL);
    assert_non_null(strstr(mooncake_last_error(), "belongs to user 65534"));
    assert_null(server);
}

static void server__survives_nonsense(void **state)
{
    static const char nonsense[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    struct fixture *f = *state;
    struct sockaddr_un un;

    start_store(f, MC_SHM_UID, NULL);
    assert_true(mc_shm_address_find(f->address, &un));
    for (size_t len = 0; len <= sizeof(nonsense); len += 4) {
        uint8_t answer[MC_SHM_MESSAGE_LEN];
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

        assert_int_equal(connect(fd, (struct sockaddr *)(void *)&un, sizeof(un)), 0);
        assert_true(send(fd, nonsense, len, MSG_NOSIGNAL) >= 0);
        assert_true(recv(fd, answer, sizeof(answer), 0) <= 0); /* closed, nothing given */
        (void)close(fd);
    }
    open_engine(f, &f->engine);
    assert_int_equal(try_write(f, &f->engine), MOONCAKE_OK);
}

static void memory__that_could_shrink_is_not_mapped(void **state)
{
    int memfd = memfd_create("loose", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    int sockets[2];
    struct mc_shm_map *map = NULL;

    (void)state;
    assert_int_equal(ftruncate(memfd, 4096), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
    assert_int_equal(mc_shm_map_add(5, memfd, 4096, sockets[0], &map), MOONCAKE_EINVAL);
    assert_null(map);
    (void)close(sockets[1]);
}

static void memory__that_is_shorter_than_promised_is_not_mapped(void **state)
{
    int memfd = memfd_create("short", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    int sockets[2];
    struct mc_shm_map *map = NULL;

    (void)state;
    assert_int_equal(ftruncate(memfd, 4096), 0);
    assert_int_equal(fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
    assert_int_equal(mc_shm_map_add(5, memfd, 8192, sockets[0], &map), MOONCAKE_EINVAL);
    assert_null(map);
    (void)close(sockets[1]);
}

static void sockets__of_killed_stores_are_cleared_away(void **state)
{
    struct fixture *f = *state;
    struct sockaddr_un un;

    start_store(f, MC_SHM_UID, NULL);
    assert_true(mc_shm_address_find(f->address, &un));
    end_store(f, SIGKILL);
    assert_int_equal(access(un.sun_path, F_OK), 0);
    start_store(f, MC_SHM_UID, NULL);
    assert_int_equal(access(un.sun_path, F_OK), -1);
    assert_int_equal(errno, ENOENT);
}

static void engines__that_come_and_go_leave_no_descriptor(void **state)
{
    struct fixture *f = *state;
    unsigned before;

    start_store(f, MC_SHM_UID, NULL);
    before = rig_count_fds();
    for (int i = 0; i < 200; i++) {
        open_engine(f, &f->engine);
        assert_int_equal(try_write(f, &f->engine), MOONCAKE_OK);
        rig_engine_close(&f->engine);
        memset(&f->engine, 0, sizeof(f->engine));
    }
    end_store(f, SIGTERM);
    mc_shm_map_sweep();
    assert_int_equal(rig_count_fds(), before - 1); /* the pipe to the store has gone as well */
}

static void address__of_another_machine_is_not_ours(void **state)
{
    char address[MC_SHM_ADDRESS_LEN_MAX];
    struct sockaddr_un un;

    (void)state;
    assert_int_equal(mc_shm_address_format("relative.sock", address), MOONCAKE_EINVAL);
    assert_int_equal(mc_shm_address_format("/run/x.sock", address), MOONCAKE_OK);
    assert_true(mc_shm_address_find(address, &un));
    assert_string_equal(un.sun_path, "/run/x.sock");
    address[6] = address[6] == 'a' ? 'b' : 'a'; /* another boot id */
    assert_false(mc_shm_address_find(address, &un));
    assert_false(mc_shm_address_find("tcp://1.2.3.4:5 shm:// shm:///x", &un));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_fixture, close_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(address__of_another_machine_is_not_ours),
        cmocka_unit_test(memory__that_could_shrink_is_not_mapped),
        cmocka_unit_test(memory__that_is_shorter_than_promised_is_not_mapped),
        TEST(segment__is_mapped_once_for_all_engines),
        TEST(write__into_the_memory_of_a_dead_store_is_no_success),
        TEST(write__during_which_its_store_dies_is_no_success),
        TEST(sweep__gives_the_memory_of_a_dead_store_back),
        TEST(mount__that_is_dropped_is_known_to_be_gone),
        TEST(frozen_store__costs_a_first_op_a_bounded_wait_and_later_ones_none),
        TEST(cancelled_op__is_quiet_while_the_store_is_frozen),
        TEST(policy_uid__refuses_another_user),
        TEST(policy_any__serves_another_user),
        TEST(directory__of_another_user_is_refused),
        TEST(server__survives_nonsense),
        TEST(sockets__of_killed_stores_are_cleared_away),
        TEST(engines__that_come_and_go_leave_no_descriptor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* See rig.h. */
#include "rig.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

const struct mc_transport_options rig_options = {
    .connect_timeout_ms = 3000, .idle_close_ms = 60000, .connections_max = 1};

uint32_t rig_poll_us;

/* ---- segment --------------------------------------------------------------------------------- */

void rig_segment_open(struct rig_segment *segment, uint64_t mount_id, uint64_t len)
{
    int fd = memfd_create("segment", MFD_ALLOW_SEALING); /* inherited by a store process */

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)len), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    segment->mount =
        (struct mc_mount){.mount_id = mount_id,
                          .base = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0),
                          .len = len,
                          .secret = {mount_id, 99},
                          .memfd = fd};
    assert_ptr_not_equal(segment->mount.base, MAP_FAILED);
    segment->view = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(segment->view, MAP_FAILED);
}

void rig_segment_serve(struct rig_segment *segment)
{
    assert_int_equal(mc_mount_add(&segment->mount), MOONCAKE_OK);
}

void rig_segment_close(struct rig_segment *segment)
{
    mc_mount_drop(segment->mount.mount_id);
    (void)munmap(segment->mount.base, segment->mount.len);
    (void)munmap(segment->view, segment->mount.len);
    (void)close(segment->mount.memfd);
}

/* ---- store process --------------------------------------------------------------------------- */

static _Noreturn void child_main(char **argv)
{
    struct mc_mount mount = {.memfd = (int)strtol(argv[2], NULL, 10),
                             .mount_id = strtoull(argv[3], NULL, 10),
                             .len = strtoull(argv[4], NULL, 10)};
    struct mc_tcp_server_options options = {.loops = 1};
    struct mc_tcp_server *server = NULL;
    char address[32];
    char byte;

    mount.secret[0] = mount.mount_id;
    mount.secret[1] = 99;
    mount.base = mmap(NULL, mount.len, PROT_READ | PROT_WRITE, MAP_SHARED, mount.memfd, 0);
    (void)snprintf(address, sizeof(address), "127.0.0.1:%s", argv[5]);
    options.address = address;
    options.poll_us = (uint32_t)strtoul(argv[6], NULL, 10);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (mount.base == MAP_FAILED || mc_mount_add(&mount) != MOONCAKE_OK ||
        mc_tcp_server_open(&options, &server) != MOONCAKE_OK) {
        (void)fprintf(stderr, "store process: %s\n", mooncake_last_error());
        exit(1);
    }
    (void)printf("%u\n", mc_tcp_server_port(server));
    (void)fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    mc_tcp_server_close(&server, 0);
    mc_mount_drop(mount.mount_id);
    exit(0);
}

void rig_store_main(int argc, char **argv)
{
    if (argc == 7 && strcmp(argv[1], "store") == 0) {
        child_main(argv);
    }
}

void rig_store_open(struct rig_store *store, const struct rig_segment *segment, uint16_t port)
{
    char fd[16];
    char id[24];
    char len[24];
    char on[8];
    char poll_us[16];
    char *argv[] = {(char[]){"/proc/self/exe"}, (char[]){"store"}, fd, id, len, on, poll_us, NULL};
    char line[16] = "";
    int in[2];
    int out[2];

    (void)snprintf(fd, sizeof(fd), "%d", segment->mount.memfd);
    (void)snprintf(id, sizeof(id), "%" PRIu64, segment->mount.mount_id);
    (void)snprintf(len, sizeof(len), "%" PRIu64, segment->mount.len);
    (void)snprintf(on, sizeof(on), "%u", port);
    (void)snprintf(poll_us, sizeof(poll_us), "%" PRIu32, rig_poll_us);
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    store->pid = fork();
    assert_true(store->pid >= 0);
    if (store->pid == 0) {
        (void)dup2(in[0], STDIN_FILENO);
        (void)dup2(out[1], STDOUT_FILENO);
        (void)close(in[1]);
        (void)close(out[0]);
        (void)execv(argv[0], argv);
        _exit(1);
    }
    (void)close(in[0]);
    (void)close(out[1]);
    store->to_child = in[1];
    assert_true(read(out[0], line, sizeof(line) - 1) > 0); /* one short line comes whole */
    (void)close(out[0]);
    store->port = (uint16_t)strtoul(line, NULL, 10);
    assert_int_not_equal(store->port, 0);
}

static void reap(struct rig_store *store)
{
    if (store->pid > 0) {
        (void)close(store->to_child);
        (void)waitpid(store->pid, NULL, 0);
        memset(store, 0, sizeof(*store));
    }
}

void rig_store_close(struct rig_store *store)
{
    if (store->pid > 0) {
        (void)kill(store->pid, SIGCONT);
    }
    reap(store);
}

void rig_store_kill(struct rig_store *store)
{
    assert_int_equal(kill(store->pid, SIGKILL), 0);
    reap(store);
}

void rig_store_freeze(struct rig_store *store)
{
    int status = 0;

    assert_int_equal(kill(store->pid, SIGSTOP), 0);
    assert_int_equal(waitpid(store->pid, &status, WUNTRACED), store->pid);
    assert_true(WIFSTOPPED(status));
}

void rig_store_thaw(struct rig_store *store)
{
    assert_int_equal(kill(store->pid, SIGCONT), 0);
}

/* ---- engine ---------------------------------------------------------------------------------- */

void rig_engine_open(struct rig_engine *engine, const char *kind, uint64_t mount_id, uint16_t port,
                     const struct mc_transport_options *options)
{
    memset(engine, 0, sizeof(*engine));
    (void)snprintf(engine->addresses, sizeof(engine->addresses), "nope://x tcp://127.0.0.1:%u",
                   port);
    engine->target = (struct mc_target){
        .mount_id = mount_id, .name = "segment-under-test", .addresses = engine->addresses};
    assert_int_equal(mc_loop_create(rig_poll_us, &engine->loop), MOONCAKE_OK);
    assert_int_equal(mc_transport_set_open(engine->loop, kind, options, &engine->set), MOONCAKE_OK);
    for (unsigned i = 0; i < engine->set.count; i++) {
        if (engine->set.instances[i] != NULL) {
            engine->transport = engine->set.instances[i];
        }
    }
}

void rig_engine_add_shm(struct rig_engine *engine, const struct mc_shm_server *server)
{
    size_t len = strlen(engine->addresses);

    (void)snprintf(engine->addresses + len, sizeof(engine->addresses) - len, " %s",
                   mc_shm_server_address(server));
}

void rig_engine_add_rdma(struct rig_engine *engine, const struct mc_rdma_server *server)
{
    size_t len = strlen(engine->addresses);

    engine->addresses[len] = ' ';
    mc_rdma_server_addresses(server, engine->addresses + len + 1,
                             sizeof(engine->addresses) - len - 1);
}

void rig_engine_close(struct rig_engine *engine)
{
    if (engine->loop != NULL) {
        mc_transport_set_close(&engine->set);
        mc_loop_destroy(&engine->loop);
    }
}

void rig_run_a_little(struct mc_loop *loop)
{
    const bool never = false;

    (void)!mc_loop_run_until(loop, &never, mc_monotonic_ns() + MC_NS_PER_MS);
}

/* ---- ops ------------------------------------------------------------------------------------- */

struct mc_extent_ref rig_extent(const struct rig_segment *segment, uint64_t offset, uint64_t len,
                                uint64_t object)
{
    struct mc_extent_ref extent = {
        .mount_id = segment->mount.mount_id,
        .offset = offset,
        .payload_len = len,
        .object_id = {.hi = 0xabc, .lo = object},
        .slice_count = 1,
        .rights = MC_RIGHT_READ | MC_RIGHT_WRITE,
    };

    extent.capability = mc_capability(segment->mount.secret, &extent);
    return extent;
}

struct mc_extent_ref rig_plant(struct rig_segment *segment, size_t len, uint64_t seed)
{
    struct mc_extent_ref extent = rig_extent(segment, 0, len, seed);
    uint8_t *payload = segment->view + MC_EXTENT_HEADER_LEN;
    struct iovec iov = {.iov_base = payload, .iov_len = len};

    rig_fill(payload, len, seed);
    mc_extent_header_build(&extent, mc_extent_hash_iov(&iov, 1), segment->view);
    return extent;
}

const struct mc_transport_stats *rig_stats(const struct rig_engine *engine)
{
    return engine->transport->ops->stats(engine->transport);
}

static void on_done(struct mc_xfer_op *op)
{
    struct rig_op *rig = MC_CONTAINER_OF(op, struct rig_op, op);

    assert_false(rig->done); /* once */
    rig->done = true;
}

void rig_op_init(struct rig_op *op, const struct rig_engine *engine, enum mc_rights right,
                 const struct mc_extent_ref *extent, void *bytes)
{
    memset(op, 0, sizeof(*op));
    op->piece = (struct iovec){.iov_base = bytes, .iov_len = extent->payload_len};
    op->op.right = right;
    op->op.extent = *extent;
    op->op.target = &engine->target;
    op->op.pieces = &op->piece;
    op->op.pieces_count = 1;
    op->op.verify = MC_VERIFY_FULL;
    op->op.done = on_done;
}

void rig_submit(struct rig_engine *engine, struct rig_op *op)
{
    assert_int_equal(engine->transport->ops->submit(engine->transport, &op->op), MOONCAKE_OK);
}

void rig_wait(struct rig_engine *engine, struct rig_op *op)
{
    engine->transport->ops->flush(engine->transport);
    assert_int_equal(mc_loop_run_until(engine->loop, &op->done, mc_monotonic_ns() + RIG_WAIT_NS),
                     MOONCAKE_OK);
}

mooncake_err rig_do(struct rig_engine *engine, enum mc_rights right,
                    const struct mc_extent_ref *extent, void *bytes)
{
    struct rig_op op;

    rig_op_init(&op, engine, right, extent, bytes);
    rig_submit(engine, &op);
    rig_wait(engine, &op);
    return op.op.err;
}

/* 4 KiB of the endless run that @p seed makes, beginning at byte @p at. Sanitizers need not watch
 * the arithmetic; they see the copies. */
#define BLOCK_WORDS 512u

#if defined(__SANITIZE_THREAD__)
__attribute__((no_sanitize("thread")))
#endif
static void
make_block(uint64_t words[BLOCK_WORDS], size_t at, uint64_t seed)
{
    for (size_t i = 0; i < BLOCK_WORDS; i++) {
        uint64_t x = (at / 8 + i + 1) * 0x9e3779b97f4a7c15ull ^ seed * 0xd6e8feb86659fd93ull;

        words[i] = x ^ x >> 29;
    }
}

void rig_fill(void *bytes, size_t len, uint64_t seed)
{
    uint64_t words[BLOCK_WORDS];

    for (size_t at = 0; at < len; at += sizeof(words)) {
        make_block(words, at, seed);
        memcpy((uint8_t *)bytes + at, words, len - at < sizeof(words) ? len - at : sizeof(words));
    }
}

void rig_check(const void *bytes, size_t len, uint64_t seed)
{
    uint64_t words[BLOCK_WORDS];

    for (size_t at = 0; at < len; at += sizeof(words)) {
        size_t n = len - at < sizeof(words) ? len - at : sizeof(words);

        make_block(words, at, seed);
        if (memcmp((const uint8_t *)bytes + at, words, n) != 0) {
            fail_msg("a wrong byte among the %zu at %zu of %zu", n, at, len);
        }
    }
}

unsigned rig_count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned count = 0;

    assert_non_null(dir);
    while (readdir(dir) != NULL) {
        count++;
    }
    (void)closedir(dir);
    return count;
}

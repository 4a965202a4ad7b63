/*
 * Redis and memcached, to stand beside: a server process of our own that is gone at the end, and a
 * small pipelining client for their text protocols. What it does is what the pool's client does:
 * batches of sets and gets whose values land in the caller's memory.
 */
#ifndef MC_BENCH_RIVAL_H
#define MC_BENCH_RIVAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MC_RIVAL_KEYS_MAX 1024u /* of a batch */
#define MC_RIVAL_VALUE_LEN_MAX ((uint64_t)64 << 20)

/** X(NAME, program, way): who, and by what kind of socket. */
#define MC_RIVAL_LIST(X)                                                                           \
    X(REDIS_TCP, "redis-server", "redis tcp")                                                      \
    X(REDIS_UNIX, "redis-server", "redis unix")                                                    \
    X(MEMCACHED_TCP, "memcached", "memcached tcp")                                                 \
    X(MEMCACHED_UNIX, "memcached", "memcached unix")

enum mc_rival_kind {
#define MC_RIVAL_ENUM_(name, program, way) MC_RIVAL_##name,
    MC_RIVAL_LIST(MC_RIVAL_ENUM_)
#undef MC_RIVAL_ENUM_
        MC_RIVALS_COUNT
};

extern const char *const mc_rival_names[MC_RIVALS_COUNT];

struct mc_rival {
    enum mc_rival_kind kind;
    pid_t pid;
    int fd;
    int port_fd;  /* keeps the port of a server for this one */
    char dir[64]; /* holds the socket; removed at the end */
    char *buffer; /* what was received and not yet taken */
    size_t at, len;
};

/**
 * Start the server, with @p memory bytes for values and nothing on disk, and connect.
 * False: @p why says what is wrong; with *out_missing the program is not installed.
 */
bool mc_rival_start(enum mc_rival_kind kind, uint64_t memory, struct mc_rival *out,
                    bool *out_missing, char *why, size_t why_len);
/** Kill the server and remove what it left. */
void mc_rival_stop(struct mc_rival *rival);

/** Store @p count values of @p len bytes in one pipeline. False: @p why says what came back. */
bool mc_rival_set(struct mc_rival *rival, const char *const *keys, const void *const *values,
                  uint64_t len, size_t count, char *why, size_t why_len);
/** Read @p count values of @p len bytes in one pipeline, each to its place. */
bool mc_rival_get(struct mc_rival *rival, const char *const *keys, void *const *values,
                  uint64_t len, size_t count, char *why, size_t why_len);

#endif

/* The commands `io` and `meta`: one operation in a loop, for each size and batch. */
#ifndef MC_BENCH_IO_H
#define MC_BENCH_IO_H

#include "options.h"

/** X(NAME, word): what --ops may say. */
#define MC_IO_OP_LIST(X)                                                                           \
    X(PUT, "put")                                                                                  \
    X(GET, "get")                                                                                  \
    X(VIEW, "view")                                                                                \
    X(MIX, "mix")                                                                                  \
    X(EXIST, "exist")                                                                              \
    X(MISS, "miss")                                                                                \
    X(SIZE, "size")                                                                                \
    X(REMOVE, "remove")

enum mc_io_op {
#define MC_IO_OP_ENUM_(name, word) MC_IO_##name,
    MC_IO_OP_LIST(MC_IO_OP_ENUM_)
#undef MC_IO_OP_ENUM_
        MC_IO_OPS_COUNT
};

/* All of them, for people: "put, get, ...". */
#define MC_IO_OP_WORD_(name, word) ", " word
#define MC_IO_OP_WORDS (&("" MC_IO_OP_LIST(MC_IO_OP_WORD_))[2])

struct mc_io_case {
    enum mc_io_op op;
    uint64_t size, batch; /* bytes of a value, keys of a call; a batch of 1 uses the single call */
    uint64_t run;         /* makes the keys of this case its own */
};

/* From here on a value's bytes, and not its calls, are what takes the time. */
#define MC_IO_BULK_LEN ((uint64_t)64 << 10)

extern const char *const mc_io_op_names[MC_IO_OPS_COUNT];
extern const struct mc_job mc_io_job;

enum mc_exit mc_io_run(const struct mc_bench_options *options);
enum mc_exit mc_meta_run(const struct mc_bench_options *options);

#endif

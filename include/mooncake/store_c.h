/*
 * The C API of the C++ Mooncake, on top of client.h, so that bindings written for it link. Numbers
 * returned are those of error.h as plain ints; a put of a key that exists returns 0, as there.
 * Threads and deadlines as in client.h. A NULL store gives -600.
 */
#ifndef MOONCAKE_STORE_C_H
#define MOONCAKE_STORE_C_H

#include <stddef.h>
#include <stdint.h>

#include "mooncake/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A store object; made by mooncake_store_create(). */
typedef void *mooncake_store_t;

typedef struct mooncake_replicate_config {
    size_t replica_num; /**< 0 counts as 1 */
    int with_soft_pin;
    int with_hard_pin;
    const char **preferred_segments; /**< borrowed for the call */
    size_t preferred_segments_count;
} mooncake_replicate_config_t;

/** NULL when out of memory. Not connected: call mooncake_store_setup(). */
MOONCAKE_API mooncake_store_t mooncake_store_create(void);
/** Leaves the pool. NULL is ignored. */
MOONCAKE_API void mooncake_store_destroy(mooncake_store_t store);

/**
 * Connect. metadata_server is accepted and not needed; local_buffer_size likewise. local_hostname
 * without a port gets a free one of 12300 to 14300. protocol: "tcp" keeps away from RDMA; "rdma",
 * "" and NULL use it where there is a device, device_name ("mlx5_0,mlx5_1"; NULL or "": all) says
 * which.
 */
MOONCAKE_API int mooncake_store_setup(mooncake_store_t store, const char *local_hostname,
                                      const char *metadata_server, uint64_t global_segment_size,
                                      uint64_t local_buffer_size, const char *protocol,
                                      const char *device_name, const char *master_server_addr);
/** setup() with local_hostname "localhost", the master of MOONCAKE_MASTER or 127.0.0.1:50051. */
MOONCAKE_API int mooncake_store_init_all(mooncake_store_t store, const char *protocol,
                                         const char *device_name, uint64_t mount_segment_size);
/** 0 healthy, 1 not set up, 2 master unreachable. */
MOONCAKE_API int mooncake_store_health_check(mooncake_store_t store);

MOONCAKE_API int mooncake_store_put(mooncake_store_t store, const char *key, const void *value,
                                    size_t size, const mooncake_replicate_config_t *config);
MOONCAKE_API int mooncake_store_put_from(mooncake_store_t store, const char *key, void *buffer,
                                         size_t size, const mooncake_replicate_config_t *config);
/** One code per item in results_out. Returns 0 if every item was judged. */
MOONCAKE_API int mooncake_store_batch_put_from(mooncake_store_t store, const char **keys,
                                               void **buffers, const size_t *sizes, size_t count,
                                               const mooncake_replicate_config_t *config,
                                               int *results_out);
/** The value's length, or a negative code (-704 miss, -600 buffer too small). */
MOONCAKE_API int64_t mooncake_store_get_into(mooncake_store_t store, const char *key, void *buffer,
                                             size_t size);
MOONCAKE_API int mooncake_store_batch_get_into(mooncake_store_t store, const char **keys,
                                               void **buffers, const size_t *sizes, size_t count,
                                               int64_t *results_out);
/** 1 exists, 0 does not, or a negative code. */
MOONCAKE_API int mooncake_store_is_exist(mooncake_store_t store, const char *key);
MOONCAKE_API int mooncake_store_batch_is_exist(mooncake_store_t store, const char **keys,
                                               size_t count, int *results_out);
MOONCAKE_API int64_t mooncake_store_get_size(mooncake_store_t store, const char *key);
/** "host:port", NUL-terminated. Returns its length, or -600 if buf_len is too small. */
MOONCAKE_API int mooncake_store_get_hostname(mooncake_store_t store, char *buf_out, size_t buf_len);
MOONCAKE_API int mooncake_store_remove(mooncake_store_t store, const char *key, int force);
/** Number removed, or a negative code (-600: no regular expression, or one that costs too much). */
MOONCAKE_API int64_t mooncake_store_remove_by_regex(mooncake_store_t store, const char *pattern,
                                                    int force);
/** Number removed, or a negative code. */
MOONCAKE_API int64_t mooncake_store_remove_all(mooncake_store_t store, int force);
MOONCAKE_API int mooncake_store_register_buffer(mooncake_store_t store, void *buffer, size_t size);
MOONCAKE_API int mooncake_store_unregister_buffer(mooncake_store_t store, void *buffer);

#ifdef __cplusplus
}
#endif

#endif

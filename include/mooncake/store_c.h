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

/**
 * Make a store object. It is not connected: call mooncake_store_setup().
 *
 * @return NULL when out of memory; give it to mooncake_store_destroy()
 */
MOONCAKE_API mooncake_store_t mooncake_store_create(void);
/** Leave the pool and free a store object. NULL is ignored. */
MOONCAKE_API void mooncake_store_destroy(mooncake_store_t store);

/**
 * Connect to a pool.
 *
 * @param local_hostname       name of this process in the pool; without a port it gets a free one
 *                             of 12300 to 14300
 * @param metadata_server      accepted and not needed
 * @param global_segment_size  bytes that this process lends to the pool; 0: none
 * @param local_buffer_size    accepted and not needed
 * @param protocol             "tcp" keeps away from RDMA; "rdma", "" and NULL use it where there is
 *                             a device
 * @param device_name          which: "mlx5_0,mlx5_1"; NULL or "": all
 * @param master_server_addr   "host:port" of the master
 * @return 0, or a negative code
 */
MOONCAKE_API int mooncake_store_setup(mooncake_store_t store, const char *local_hostname,
                                      const char *metadata_server, uint64_t global_segment_size,
                                      uint64_t local_buffer_size, const char *protocol,
                                      const char *device_name, const char *master_server_addr);
/**
 * As mooncake_store_setup() with local_hostname "localhost" and the master of MOONCAKE_MASTER, or
 * 127.0.0.1:50051.
 *
 * @param mount_segment_size  bytes that this process lends to the pool; 0: none
 */
MOONCAKE_API int mooncake_store_init_all(mooncake_store_t store, const char *protocol,
                                         const char *device_name, uint64_t mount_segment_size);
/**
 * How does it stand with the pool?
 *
 * @return 0 healthy, 1 not set up, 2 master unreachable
 */
MOONCAKE_API int mooncake_store_health_check(mooncake_store_t store);

/**
 * Store one value.
 *
 * @param value  borrowed for the call
 * @param size   bytes there
 * @return 0, also if the key exists (nothing is written then), or a negative code (-200 no space)
 */
MOONCAKE_API int mooncake_store_put(mooncake_store_t store, const char *key, const void *value,
                                    size_t size, const mooncake_replicate_config_t *config);
/**
 * As mooncake_store_put() from a buffer, which may be a registered one.
 *
 * @param buffer  borrowed for the call
 */
MOONCAKE_API int mooncake_store_put_from(mooncake_store_t store, const char *key, void *buffer,
                                         size_t size, const mooncake_replicate_config_t *config);
/**
 * Store many values.
 *
 * @param buffers  from where, one an item
 * @return 0 if every item was judged; its code is in results_out
 */
MOONCAKE_API int mooncake_store_batch_put_from(mooncake_store_t store, const char **keys,
                                               void **buffers, const size_t *sizes, size_t count,
                                               const mooncake_replicate_config_t *config,
                                               int *results_out);
/**
 * Read one value into the caller's memory.
 *
 * @param buffer  receives the value
 * @param size    bytes there
 * @return the value's length, or a negative code (-704 miss, -600 buffer too small)
 */
MOONCAKE_API int64_t mooncake_store_get_into(mooncake_store_t store, const char *key, void *buffer,
                                             size_t size);
/**
 * Read many values into the caller's memory.
 *
 * @param buffers      receive the values, one an item
 * @param results_out  receives the value's length or a negative code, one an item
 * @return 0 if every item was judged
 */
MOONCAKE_API int mooncake_store_batch_get_into(mooncake_store_t store, const char **keys,
                                               void **buffers, const size_t *sizes, size_t count,
                                               int64_t *results_out);
/**
 * Is the key readable?
 *
 * @return 1 exists, 0 does not, or a negative code
 */
MOONCAKE_API int mooncake_store_is_exist(mooncake_store_t store, const char *key);
/**
 * Which of these keys are readable?
 *
 * @param results_out  receives as what mooncake_store_is_exist() returns, one an item
 * @return 0 if every item was judged
 */
MOONCAKE_API int mooncake_store_batch_is_exist(mooncake_store_t store, const char **keys,
                                               size_t count, int *results_out);
/**
 * Length of a value.
 *
 * @return bytes, or a negative code (-704 miss)
 */
MOONCAKE_API int64_t mooncake_store_get_size(mooncake_store_t store, const char *key);
/**
 * Name of this process in the pool, "host:port".
 *
 * @param buf_out  receives it, NUL-terminated
 * @param buf_len  bytes there
 * @return its length, or -600 if buf_len is too small
 */
MOONCAKE_API int mooncake_store_get_hostname(mooncake_store_t store, char *buf_out, size_t buf_len);
/**
 * Remove one key.
 *
 * @return 0, or a negative code (-704 no such key, -706 somebody reads it and force is 0)
 */
MOONCAKE_API int mooncake_store_remove(mooncake_store_t store, const char *key, int force);
/**
 * Remove every key in which a regular expression (PCRE2) is found.
 *
 * @param pattern  the regular expression, NUL-terminated
 * @return number removed, or a negative code (-600: no regular expression, or one that costs too
 *         much)
 */
MOONCAKE_API int64_t mooncake_store_remove_by_regex(mooncake_store_t store, const char *pattern,
                                                    int force);
/**
 * Remove every key.
 *
 * @return number removed, or a negative code
 */
MOONCAKE_API int64_t mooncake_store_remove_all(mooncake_store_t store, int force);
/**
 * As mooncake_register_buffer(): announce memory that puts and gets will use.
 *
 * @param buffer  begin of the range
 * @param size    its length in bytes
 * @return 0, or a negative code
 */
MOONCAKE_API int mooncake_store_register_buffer(mooncake_store_t store, void *buffer, size_t size);
/**
 * As mooncake_unregister_buffer(): take back what was announced.
 *
 * @param buffer  begin of a registered range
 * @return 0, or a negative code
 */
MOONCAKE_API int mooncake_store_unregister_buffer(mooncake_store_t store, void *buffer);

#ifdef __cplusplus
}
#endif

#endif

/*
 * Every bound of the system, with its unit and its reason. A buffer, queue or loop whose size does
 * not come from here comes from an option.
 */
#ifndef MC_BASE_LIMITS_H
#define MC_BASE_LIMITS_H

/* Key length in bytes. Engines use 80 to 250; the C++ Mooncake has no stated bound. */
#define MC_KEY_LEN_MAX 4096u

/* Segment name in bytes: "host:port" or a path. */
#define MC_SEGMENT_NAME_LEN_MAX 255u

/* Host name or address with port, in bytes. */
#define MC_ADDR_LEN_MAX 300u

/* What a recount found, as one sentence in bytes. */
#define MC_MISMATCH_LEN_MAX 511u

/* Program with version ("mooncake_store 0.1.0"), and all addresses of one segment, in bytes. */
#define MC_PROGRAM_LEN_MAX 63u
#define MC_ADDRESSES_LEN_MAX 1023u

/* A pattern over keys; a name, value or help text of an option; in bytes. */
#define MC_PATTERN_LEN_MAX 4096u
#define MC_CONFIG_TEXT_LEN_MAX 4096u

/* Options in one answer about the configuration; preferred segments of one put. */
#define MC_CONFIG_ITEMS_MAX 256u
#define MC_PREFERRED_SEGMENTS_MAX 64u

/* Mounts that one put may exclude: those that a value's extents were refused by before. */
#define MC_EXCLUDED_MOUNTS_MAX 16u

/* Keys in one control message. The client cuts larger batches. */
#define MC_BATCH_KEYS_MAX 8192u

/* Body of one control message in bytes: refuses a hostile length before any allocation. */
#define MC_RPC_BODY_LEN_MAX (64u << 20)

/* Control calls in flight on one connection; more wait in the client, the server stops reading. */
#define MC_RPC_IN_FLIGHT_MAX 1024u

/* Bytes of unfinished requests on all connections of one server, and of replies that its peers have
 * not taken yet. Beyond the first the peer that asks for more is closed, beyond the second no more
 * requests are read from peers that have not taken their replies. */
#define MC_RPC_INPUT_TOTAL_MAX (1ull << 30)
#define MC_RPC_OUTPUT_TOTAL_MAX (1ull << 30)

/* Where requests are read on one thread and answered on another (--io_threads). Threads that read.
 * Of one such thread: requests on their way to the other, bytes decoded from them, bytes of answers
 * on their way back; at any of these the thread stops reading, or the other stops answering. */
#define MC_IO_THREADS_MAX 16u
#define MC_RPC_AWAY_MAX 512u
#define MC_RPC_AWAY_TOTAL_MAX ((size_t)64 << 20)

/* Bytes of the requests of one connection that are on their way: beyond this it is not read from.
 * And of replies that its peer has not taken: more than these requests honestly come to; who has
 * made them come to more, and reads none, is closed. */
#define MC_RPC_AWAY_LEN_MAX ((size_t)1 << 20)
#define MC_RPC_AWAY_OUTPUT_LEN_MAX                                                                 \
    ((size_t)MC_STREAM_QUEUE_LEN_MAX + 2 * (size_t)MC_RPC_BODY_LEN_MAX)

/* Connections one daemon accepts on one port. Further ones are closed at once. */
#define MC_CONNECTIONS_MAX 16384u

/* Replicas of one object, and extents of one replica (a value may be cut over fragments). */
#define MC_REPLICAS_MAX 8u
#define MC_EXTENTS_MAX 16u

/* Bytes of the header in front of each extent's payload; also the allocation unit, so that
 * every header starts a cache line. */
#define MC_EXTENT_HEADER_LEN 64u
#define MC_EXTENT_ALIGN 64u

/* Segments in one mount call and in one pool. */
#define MC_SEGMENTS_PER_STORE_MAX 64u
#define MC_SEGMENTS_MAX 65536u

/* Memory pools that one serving process shares with thin clients: several for each rank of a host.
 */
#define MC_CLIENT_POOLS_MAX 128u

/* Unsent bytes queued on one control stream before its owner stops reading requests. */
#define MC_STREAM_QUEUE_LEN_MAX (8u << 20)

/* Pieces of one value in a put from pieces or get into pieces (vLLM uses 128). */
#define MC_PIECES_MAX 4096u

/* Nanoseconds that one request for a page of keys, or the eviction inside one request, may take on
 * the core loop. */
#define MC_SLICE_NS_MAX 2000000u
/* The same of a slice of background work, after which whoever has asked meanwhile is served. With
 * 2 ms, exists over three seconds, two of them beside the removal of 2 M keys by a pattern, took
 * 37 us on average and not 30; the removal took 2.6 to 2.8 s, with this 2.8, 2.8 and 3.8. */
#define MC_TICK_NS_MAX 100000u

#endif

/*
 * Published traces: one JSON object a line with "hash_ids", the ids of the prompt's blocks.
 * "timestamp", "input_length" and "output_length" may be there and are not used.
 */
#ifndef MC_BENCH_TRACE_H
#define MC_BENCH_TRACE_H

#include "requests.h"

/* Blocks of one request: 32 M tokens at 512 a block. */
#define MC_TRACE_BLOCKS_MAX 65536u
#define MC_TRACE_LINE_LEN_MAX ((size_t)4 << 20)

/**
 * Add the request of one line. Pure.
 *
 * @param why  receives a sentence when the result is false
 */
bool mc_trace_parse_line(const char *line, size_t len, struct mc_requests *requests, char *why,
                         size_t why_len);

/** Add the requests of a file; empty lines are skipped. @p why then names the file and the line. */
bool mc_trace_load(const char *path, struct mc_requests *requests, char *why, size_t why_len);

#endif

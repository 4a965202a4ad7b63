/* Figures for people and for programs. */
#ifndef MC_BENCH_REPORT_H
#define MC_BENCH_REPORT_H

#include <jansson.h>

#include "limits.h"
#include "options.h"
#include "tally.h"

#define MC_TEXT_LEN 32

/** "4 KiB", "17 B". Each writes to @p text, of MC_TEXT_LEN bytes, and returns it. */
const char *mc_text_size(char *text, uint64_t bytes);
/** "12.3 us". */
const char *mc_text_time(char *text, uint64_t ns);
/** "1.23 GB/s". */
const char *mc_text_rate(char *text, double bytes_per_second);
/** "1.23 M". */
const char *mc_text_count(char *text, double count);

/** Measure the limits unless --no-limits; a machine that refuses is told of on stderr. */
void mc_report_measure_limits(const struct mc_bench_options *options, struct mc_limits *out);

/** Prints nothing if they were not measured. */
void mc_report_limits(const struct mc_limits *limits);

/** A table of calls; the title of the first column is the caller's. Ratios have columns if limits
 * were measured. */
void mc_report_head(const char *title, const struct mc_limits *limits);
void mc_report_line(const char *title, const struct mc_tally *tally,
                    const struct mc_limits *limits);
/** Verified bytes, wrong values and errors, and the first sentence about them. */
void mc_report_verdict(const struct mc_tally *tally);

json_t *mc_json_limits(const struct mc_limits *limits);
json_t *mc_json_tally(const struct mc_tally *tally);
/** Write to stdout with a line end and give @p root back. */
void mc_json_print(json_t *root);

/** What a command ends with. */
enum mc_exit mc_exit_of(const struct mc_tally *tally);

#endif

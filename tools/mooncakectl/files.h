/* Whole files in and out. */
#ifndef MC_CTL_FILES_H
#define MC_CTL_FILES_H

#include "ctl.h"

/**
 * Read a file, or the standard input if path is "-", to its end into memory. Not mapped: a file
 * that shrinks while it is mapped would kill us, and one that changes would store a mixture.
 *
 * @param out_data  the caller's, to be freed with free(); not NULL also for an empty file
 * @return MC_EXIT_OK, or the status when the failure has been told
 */
enum mc_exit mc_file_read(const struct mc_ctl *ctl, const char *path, void **out_data,
                          uint64_t *out_len);

/**
 * Write a file, or the standard output if path is "-". A plain file appears whole or not at all:
 * written beside its place and renamed. What is no plain file (a pipe, a device) is written to.
 */
enum mc_exit mc_file_write(const struct mc_ctl *ctl, const char *path, const void *data,
                           uint64_t len);

#endif

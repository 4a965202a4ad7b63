/*
 * The last act of every program, tools included: what was printed counts only when it has arrived.
 * A library of its own, without anything else of this folder: tools may have no more of it.
 */
#ifndef MC_BASE_CLOSE_STDOUT_H
#define MC_BASE_CLOSE_STDOUT_H

/**
 * Write what the standard output still holds and close it. If not all could be written, that is
 * said on stderr, except to a reader who went away. Thread: the last one.
 *
 * @param status  what the program would end with
 * @param failed  what it ends with instead if that is 0 and output was lost
 * @return the exit status
 */
int mc_close_stdout(const char *program, int status, int failed);

#endif

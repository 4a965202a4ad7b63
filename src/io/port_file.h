/* The file that tells who starts a daemon which ports it got. */
#ifndef MC_IO_PORT_FILE_H
#define MC_IO_PORT_FILE_H

#include "base/err.h"

/**
 * Write @p lines to the file, whole or not at all: a reader that sees it sees all of them. A file
 * of that name is replaced; a device, a folder or the like is not. Blocks.
 *
 * @retval EINVAL  it cannot be; the sentence names the option port_file and says why
 */
mooncake_err mc_port_file_write(const char *path, const char *lines) MC_MUST_CHECK;

#endif

/* What the kernel knows about this process, as metrics. */
#ifndef MC_IO_ADMIN_PROCESS_H
#define MC_IO_ADMIN_PROCESS_H

#include "base/buf.h"

/** Append PREFIX_process_resident_bytes, _cpu_seconds_total and _threads. What cannot be read is
 * left out. Takes some microseconds. ENOMEM. */
mooncake_err mc_admin_process_print(struct mc_buf *out, const char *prefix) MC_MUST_CHECK;

#endif

/* Metrics of the process, from /proc. */
#include "io/admin_process.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/metric.h"

/* The number behind @p field ("VmRSS:") in /proc/self/status. */
static bool find_number(const char *status, const char *field, double *out)
{
    const char *at = strstr(status, field);

    if (at == NULL) {
        return false;
    }
    *out = (double)strtoull(at + strlen(field), NULL, 10);
    return true;
}

static bool read_status(char *out, size_t cap)
{
    FILE *file = fopen("/proc/self/status", "re");
    size_t len;

    if (file == NULL) {
        return false;
    }
    len = fread(out, 1, cap - 1, file);
    out[len] = '\0';
    return fclose(file) == 0 && len > 0;
}

static double cpu_seconds(void)
{
    struct timespec time = {0};

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static mooncake_err print(struct mc_buf *out, const char *prefix, const char *what,
                          const char *type, const char *help, double value)
{
    char name[96];

    (void)snprintf(name, sizeof(name), "%s_process_%s", prefix, what);
    MC_TRY(mc_metric_print_head(out, name, type, help));
    return mc_metric_print_double(out, name, NULL, value);
}

mooncake_err mc_admin_process_print(struct mc_buf *out, const char *prefix)
{
    char status[4096];
    double kib = 0, threads = 0;

    if (read_status(status, sizeof(status))) {
        if (find_number(status, "VmRSS:", &kib)) {
            MC_TRY(print(out, prefix, "resident_bytes", "gauge", "Memory that the process holds",
                         kib * 1024));
        }
        if (find_number(status, "Threads:", &threads)) {
            MC_TRY(print(out, prefix, "threads", "gauge", "Threads of the process", threads));
        }
    }
    return print(out, prefix, "cpu_seconds_total", "counter", "Processor time of the process",
                 cpu_seconds());
}

/* See the header. */
#include "rdma/guest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

const char *const host_a[NICS] = {"10.77.0.1", "10.77.1.1"};
const char *const host_b[NICS] = {"10.77.0.2", "10.77.1.2"};
const char *const nic_a[NICS] = {"a0", "a1"};
const char *const nic_b[NICS] = {"b0", "b1"};

static int run_cable(const char *verb, const char *nic, const char *percent, bool quiet)
{
    int status = -1;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        if (quiet) {
            (void)close(STDERR_FILENO);
        }
        (void)execlp("cable", "cable", verb, nic, percent, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static bool cables_touched; /* since they were restored: each command costs two processes */

void cable(const char *verb, const char *nic, unsigned percent)
{
    char text[12];

    cables_touched = true;
    (void)snprintf(text, sizeof(text), "%u", percent);
    assert_int_equal(run_cable(verb, nic, text, false), 0);
}

static void restore(const char *nic)
{
    (void)run_cable("plug", nic, "0", true);
    (void)run_cable("mend", nic, "0", true); /* fails if it was not losing */
}

void cables_restore(void)
{
    for (unsigned i = 0; i < NICS && cables_touched; i++) {
        restore(nic_a[i]);
        restore(nic_b[i]);
    }
    cables_touched = false;
}

uint64_t sent_bytes(const char *nic)
{
    char path[80];
    unsigned long long bytes = 0;
    FILE *file;

    (void)snprintf(path, sizeof(path), "/sys/class/net/%s/statistics/tx_bytes", nic);
    file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%llu", &bytes), 1);
    (void)fclose(file);
    return bytes;
}

/* "0: rxea0: pd 1 cq 1 qp 1 cm_id 0 mr 0 ctx 0 srq 0" */
static void add_line(struct rdma_resources *sum, const char *line)
{
    struct rdma_resources one = {0};

    assert_int_equal(sscanf(line, "%*u: %*[^:]: pd %u cq %u qp %u cm_id %u mr %u ctx %u", &one.pds,
                            &one.cqs, &one.qps, &one.cm_ids, &one.mrs, &one.contexts),
                     6);
    sum->pds += one.pds;
    sum->cqs += one.cqs;
    sum->qps += one.qps;
    sum->cm_ids += one.cm_ids;
    sum->mrs += one.mrs;
    sum->contexts += one.contexts;
}

struct rdma_resources count_resources(void)
{
    struct rdma_resources sum = {0};
    FILE *pipe = popen("rdma resource show", "re");
    char line[200];
    unsigned lines = 0;

    assert_non_null(pipe);
    while (fgets(line, sizeof(line), pipe) != NULL) {
        add_line(&sum, line);
        lines++;
    }
    assert_int_equal(pclose(pipe), 0);
    assert_int_equal(lines, 2 * NICS);
    return sum;
}

/* "link rxea0/1 lqpn 17 rqpn 18 type RC state RTS ...": the device and the first number name it. */
uint64_t queue_pairs_fingerprint(void)
{
    FILE *pipe = popen("rdma resource show qp", "re");
    uint64_t sum = 0;
    char line[400];

    assert_non_null(pipe);
    while (fgets(line, sizeof(line), pipe) != NULL) {
        char *end = strstr(line, " rqpn");
        uint64_t hash = 14695981039346656037u;

        end = end != NULL ? end : strstr(line, " type");
        assert_non_null(end);
        for (const char *at = line; at < end; at++) {
            hash = (hash ^ (uint8_t)*at) * 1099511628211u;
        }
        sum += hash;
    }
    assert_int_equal(pclose(pipe), 0);
    return sum;
}

bool guest_is_slow(void)
{
    struct utsname names;

    return uname(&names) == 0 && strcmp(names.nodename, "qemu") == 0;
}

unsigned patience(void)
{
    return guest_is_slow() ? 4 : 1;
}

/* Nodes and distances from sysfs, and the node of a page from the kernel. */
#include "transport/rdma_numa.h"

#include <linux/mempolicy.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DISTANCE_LOCAL 10u
#define DISTANCE_MAX 255u
#define NODES_MAX 64
#define NODE_MAX 4095
#define NODES_DIR "/sys/devices/system/node"
#define PATH_LEN_MAX 512u

static const char *nodes_dir = NODES_DIR; /* changed by tests only, while nobody looks */
static int (*other_node_of)(const void *at);
static _Atomic uint8_t known[NODES_MAX][NODES_MAX]; /* distances; 0: not read yet */

void mc_rdma_numa_replace(const char *dir, int (*node_of)(const void *at))
{
    nodes_dir = dir == NULL ? NODES_DIR : dir;
    other_node_of = node_of;
    for (unsigned i = 0; i < NODES_MAX; i++) {
        for (unsigned k = 0; k < NODES_MAX; k++) {
            known[i][k] = 0;
        }
    }
}

/* The first line of a file; "" if there is none. */
static void read_line(const char *path, char *out, size_t cap)
{
    FILE *file = fopen(path, "re");

    out[0] = '\0';
    if (file == NULL) {
        return;
    }
    if (fgets(out, (int)cap, file) == NULL) {
        out[0] = '\0';
    }
    (void)fclose(file);
}

static unsigned read_distance(int from, int to)
{
    char path[PATH_LEN_MAX];
    char text[1024];
    char *at = text;
    unsigned long value = DISTANCE_LOCAL;

    (void)snprintf(path, sizeof(path), "%s/node%d/distance", nodes_dir, from);
    read_line(path, text, sizeof(text));
    for (int i = 0; i <= to; i++) {
        char *end = at;

        value = strtoul(at, &end, 10);
        if (end == at || value == 0) {
            return DISTANCE_LOCAL;
        }
        at = end;
    }
    return value > DISTANCE_MAX ? DISTANCE_MAX : (unsigned)value;
}

unsigned mc_rdma_numa_distance(int from, int to)
{
    unsigned distance;

    if (from < 0 || to < 0 || from == to || from >= NODES_MAX || to >= NODES_MAX) {
        return DISTANCE_LOCAL;
    }
    distance = known[from][to];
    if (distance == 0) {
        distance = read_distance(from, to);
        known[from][to] = (uint8_t)distance;
    }
    return distance;
}

int mc_rdma_numa_node_of(const void *at)
{
    int node = -1;

    if (other_node_of != NULL) {
        return other_node_of(at);
    }
    if (syscall(SYS_get_mempolicy, &node, NULL, 0ul, (unsigned long)(uintptr_t)at,
                (unsigned long)(MPOL_F_NODE | MPOL_F_ADDR)) != 0) {
        return -1;
    }
    return node;
}

int mc_rdma_numa_node_of_device(const char *sysfs_path)
{
    char path[PATH_LEN_MAX];
    char text[32];
    char *end = text;
    long value;

    (void)snprintf(path, sizeof(path), "%s/device/numa_node", sysfs_path);
    read_line(path, text, sizeof(text));
    value = strtol(text, &end, 10);
    return end == text || value < 0 || value > NODE_MAX ? -1 : (int)value;
}

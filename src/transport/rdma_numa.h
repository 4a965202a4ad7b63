/*
 * Where memory and devices are in the machine, as the kernel has it. Thread-safe.
 */
#ifndef MC_TRANSPORT_RDMA_NUMA_H
#define MC_TRANSPORT_RDMA_NUMA_H

/** Distance between two nodes as the kernel has it (10 is the same node); 10 if unknown. */
unsigned mc_rdma_numa_distance(int from, int to);
/** Node of the page at @p at; -1: unknown or not touched. */
int mc_rdma_numa_node_of(const void *at);
/** Node of the device at this place of sysfs; -1: unknown. */
int mc_rdma_numa_node_of_device(const char *sysfs_path);

/** Tests: nodes are described below @p nodes_dir, and @p node_of says where memory is; NULL: as the
 * kernel has it. Nothing of RDMA may be open. */
void mc_rdma_numa_replace(const char *nodes_dir, int (*node_of)(const void *at));

#endif

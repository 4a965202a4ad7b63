/*
 * The RDMA devices of this machine, once per process, and the choice among their ports and GIDs.
 * Thread-safe.
 */
#ifndef MC_TRANSPORT_RDMA_DEVICE_H
#define MC_TRANSPORT_RDMA_DEVICE_H

#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "transport/rdma_verbs.h"

#define MC_RDMA_DEVICES_MAX 16u
#define MC_RDMA_PORTS_MAX 8u

struct mc_rdma_device {
    struct ibv_context *context; /* librdmacm's own: connection ids find it again */
    struct ibv_pd *pd;           /* of this process; every memory region and queue pair is in it */
    char name[IBV_SYSFS_NAME_MAX];
    unsigned index;
    int numa_node; /* -1: unknown */
    uint32_t send_max, sge_max;
    _Atomic uint32_t said;       /* the choice of port and GID that was logged last */
    _Atomic uint32_t ports_down; /* bit by number: the port has no link */
    atomic_bool gone;            /* removed or broken: of no use to this process any more */
    uint8_t reads_max;           /* READs in flight: initiator and responder alike */
};

union mc_rdma_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* One port of a device with the GID that was chosen on it. */
struct mc_rdma_port {
    struct mc_rdma_device *device;
    union mc_rdma_address address; /* the GID as an IP address, port 0 */
    uint32_t gid_index, mtu;       /* mtu in bytes of payload a packet */
    uint8_t port;
    const char *gid_kind; /* "rocev2", "rocev1", "ib" */
};

struct mc_rdma_events;

struct mc_rdma_devices {
    struct mc_rdma_events *events; /* owned */
    const struct mc_verbs *verbs;
    struct ibv_context **list; /* owned; keeps the contexts open */
    struct mc_rdma_device devices[MC_RDMA_DEVICES_MAX];
    unsigned count;
};

/**
 * The devices, opened with the first call and shared from then on.
 *
 * @retval ENOTSUP  no library or no device, or forked from a process that has had them open
 * @retval ENOMEM, ERPC  the kernel refuses: the sentence says what
 */
mooncake_err mc_rdma_devices_open(struct mc_rdma_devices **out) MC_MUST_CHECK;
/** The last one closes them. Accepts NULL in it and nulls it. */
void mc_rdma_devices_close(struct mc_rdma_devices **devices);

/** Which ports and GIDs to use. */
struct mc_rdma_choice {
    const char *names;     /* "mlx5_0,mlx5_1:2"; NULL or "": all with a routable GID */
    const char *gid_index; /* "auto", NULL or a number, for all ports */
};

/**
 * The ports that can be used, in the order of @p choice or of the devices, each with its best GID:
 * RoCE v2 before RoCE v1, IPv4 before IPv6, never a link-local one unless gid_index names it.
 *
 * @param out  MC_RDMA_PORTS_MAX of them
 * @retval EINVAL   a name or index is wrong: the sentence lists the devices there are
 * @retval ENOTSUP  no port can be used
 */
mooncake_err mc_rdma_ports_choose(struct mc_rdma_devices *devices,
                                  const struct mc_rdma_choice *choice, struct mc_rdma_port *out,
                                  unsigned *out_count) MC_MUST_CHECK;

/** The device whose context this is; NULL: not ours. */
struct mc_rdma_device *mc_rdma_device_find(struct mc_rdma_devices *devices,
                                           const struct ibv_context *context);

enum mc_rdma_port_state {
    MC_RDMA_PORT_UP,
    MC_RDMA_PORT_DOWN, /* no link */
    MC_RDMA_PORT_GONE, /* with its device, for good */
};

/** As events have told (rdma_events.h) or somebody has seen. Any thread. */
enum mc_rdma_port_state mc_rdma_port_state(const struct mc_rdma_port *port);
/** Ask the device, because an event may have been missed. Returns the MTU it has now; 0: unknown.
 */
uint32_t mc_rdma_port_look(const struct mc_verbs *verbs, const struct mc_rdma_port *port);
void mc_rdma_device_note_port(struct mc_rdma_device *device, uint8_t port, bool active);
void mc_rdma_device_note_gone(struct mc_rdma_device *device);

/** "10.0.0.7" or "fe80::1". Returns out; @p cap at least INET6_ADDRSTRLEN. */
char *mc_rdma_address_print(const union mc_rdma_address *address, char *out, size_t cap);
socklen_t mc_rdma_address_len(const union mc_rdma_address *address);

#endif

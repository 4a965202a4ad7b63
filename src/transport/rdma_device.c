/*
 * Devices and GIDs.
 *
 * Design notes: contexts are those of librdmacm, because a queue pair must live in the context of
 * its connection id. The connection manager picks the GID by the source address, so choosing a GID
 * is choosing the address to bind. On InfiniBand the address is that of the IPoIB interface whose
 * hardware address ends with the port's GUID.
 */
#include "transport/rdma_device.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if_arp.h>
#include <netpacket/packet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/option.h"
#include "transport/rdma_events.h"
#include "transport/rdma_numa.h"

#define SEND_MAX 256u
#define SGE_MAX 16u
#define READS_MAX 16u
#define GIDS_LOOKED_AT_MAX 256u
#define IPOIB_HARDWARE_LEN 20u

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct mc_rdma_devices *shared; /* guarded by mutex, as is the next */
static unsigned users;
static pid_t opened_by; /* the process that first opened them; 0: none has. Also under mutex. */

/* ---- opening --------------------------------------------------------------------------------- */

static uint32_t least(uint32_t a, int b)
{
    return b > 0 && (uint32_t)b < a ? (uint32_t)b : a;
}

static mooncake_err open_device(const struct mc_verbs *verbs, struct ibv_context *context,
                                struct mc_rdma_device *out)
{
    const struct ibv_device *device = context->device;
    struct ibv_device_attr attr;
    int error;

    memset(&attr, 0, sizeof(attr));
    error = verbs->query_device(context, &attr);
    if (error != 0) {
        return mc_verbs_err(error, "asking a device for its limits");
    }
    out->pd = verbs->alloc_pd(context);
    if (out->pd == NULL) {
        return mc_verbs_err(errno, "making a protection domain");
    }
    out->context = context;
    (void)snprintf(out->name, sizeof(out->name), "%s", device->name);
    out->numa_node = mc_rdma_numa_node_of_device(device->ibdev_path);
    out->send_max = least(SEND_MAX, attr.max_qp_wr);
    out->sge_max = least(least(SGE_MAX, attr.max_sge), attr.max_sge_rd);
    out->reads_max =
        (uint8_t)least(least(READS_MAX, attr.max_qp_rd_atom), attr.max_qp_init_rd_atom);
    return MOONCAKE_OK;
}

static void free_devices(struct mc_rdma_devices *devices)
{
    mc_rdma_events_close(&devices->events);
    for (unsigned i = 0; i < devices->count; i++) {
        if (devices->verbs->dealloc_pd(devices->devices[i].pd) != 0) {
            mc_log_warn("rdma.close", "device=%s left=\"memory or queue pairs\"",
                        devices->devices[i].name);
        }
    }
    devices->verbs->free_devices(devices->list);
    mc_free(devices);
}

static mooncake_err open_all(const struct mc_verbs *verbs, struct mc_rdma_devices **out)
{
    struct mc_rdma_devices *devices;
    struct ibv_context **list;
    mooncake_err err;
    int count = 0;

    list = verbs->get_devices(&count);
    if (list == NULL) {
        return mc_err_set(MOONCAKE_ENOTSUP,
                          "rdma: no device can be opened: %s (are /dev/infiniband/uverbs* and "
                          "rdma_cm there, and may this user open them?)",
                          strerror(errno));
    }
    devices = mc_calloc(1, sizeof(*devices));
    if (devices == NULL) {
        verbs->free_devices(list);
        return MOONCAKE_ENOMEM;
    }
    devices->verbs = verbs;
    devices->list = list;
    for (int i = 0; i < count; i++) {
        struct mc_rdma_device *device = &devices->devices[devices->count];

        if (devices->count == MC_RDMA_DEVICES_MAX) {
            mc_log_warn("rdma.devices", "used=%u present=%d", MC_RDMA_DEVICES_MAX, count);
            break;
        }
        if (open_device(verbs, list[i], device) == MOONCAKE_OK) {
            device->index = devices->count++;
        } else {
            mc_log_warn("rdma.device", "device=%s detail=\"%s\"", list[i]->device->name,
                        mooncake_last_error());
        }
    }
    if (devices->count == 0) {
        free_devices(devices);
        return mc_err_set(MOONCAKE_ENOTSUP, "rdma: no RDMA device of this machine can be used");
    }
    err = mc_rdma_events_open(devices, &devices->events);
    if (err != MOONCAKE_OK) {
        free_devices(devices);
        return err;
    }
    *out = devices;
    return MOONCAKE_OK;
}

mooncake_err mc_rdma_devices_open(struct mc_rdma_devices **out)
{
    const struct mc_verbs *verbs = NULL;
    mooncake_err err = MOONCAKE_OK;

    MC_TRY(mc_verbs_load(&verbs));
    (void)pthread_mutex_lock(&mutex);
    if (opened_by != 0 && opened_by != getpid()) {
        /* librdmacm keeps its devices open for good, and the kernel takes no work through the
         * descriptors of another process. */
        err = mc_err_set(MOONCAKE_ENOTSUP, "rdma: this process was forked from one that used RDMA, "
                                           "which the RDMA libraries do not allow; fork before the "
                                           "first client is opened, or exec");
    } else if (shared == NULL) {
        opened_by = getpid();
        err = open_all(verbs, &shared);
    }
    if (err == MOONCAKE_OK) {
        users++;
        *out = shared;
    }
    (void)pthread_mutex_unlock(&mutex);
    return err;
}

void mc_rdma_devices_close(struct mc_rdma_devices **devices)
{
    if (*devices == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&mutex);
    MC_ASSERT(*devices == shared && users > 0);
    /* In a fork's child they stay: its threads are gone, and the kernel would not hear it. */
    if (--users == 0 && opened_by == getpid()) {
        free_devices(shared);
        shared = NULL;
    }
    (void)pthread_mutex_unlock(&mutex);
    *devices = NULL;
}

struct mc_rdma_device *mc_rdma_device_find(struct mc_rdma_devices *devices,
                                           const struct ibv_context *context)
{
    for (unsigned i = 0; i < devices->count; i++) {
        if (devices->devices[i].context == context) {
            return &devices->devices[i];
        }
    }
    return NULL;
}

/* ---- states of ports ------------------------------------------------------------------------- */

void mc_rdma_device_note_port(struct mc_rdma_device *device, uint8_t port, bool active)
{
    if (active) {
        (void)atomic_fetch_and(&device->ports_down, ~(1u << port % 32u));
    } else {
        (void)atomic_fetch_or(&device->ports_down, 1u << port % 32u);
    }
}

void mc_rdma_device_note_gone(struct mc_rdma_device *device)
{
    if (!atomic_exchange(&device->gone, true)) {
        mc_log_error("rdma.gone",
                     "device=%s detail=\"it was removed or is broken; this process does "
                     "without it until it is started anew\"",
                     device->name);
    }
}

enum mc_rdma_port_state mc_rdma_port_state(const struct mc_rdma_port *port)
{
    if (atomic_load(&port->device->gone)) {
        return MC_RDMA_PORT_GONE;
    }
    return (atomic_load(&port->device->ports_down) & 1u << port->port % 32u) == 0
               ? MC_RDMA_PORT_UP
               : MC_RDMA_PORT_DOWN;
}

uint32_t mc_rdma_port_look(const struct mc_verbs *verbs, const struct mc_rdma_port *port)
{
    struct ibv_port_attr attr;

    memset(&attr, 0, sizeof(attr));
    if (verbs->query_port_attr(port->device->context, port->port, &attr) != 0) {
        return 0;
    }
    mc_rdma_device_note_port(port->device, port->port, attr.state == IBV_PORT_ACTIVE);
    return 128u << attr.active_mtu;
}

/* ---- addresses ------------------------------------------------------------------------------- */

char *mc_rdma_address_print(const union mc_rdma_address *address, char *out, size_t cap)
{
    const void *at = address->any.sa_family == AF_INET ? (const void *)&address->v4.sin_addr
                                                       : (const void *)&address->v6.sin6_addr;

    if (inet_ntop(address->any.sa_family, at, out, (socklen_t)cap) == NULL) {
        (void)snprintf(out, cap, "?");
    }
    return out;
}

socklen_t mc_rdma_address_len(const union mc_rdma_address *address)
{
    return address->any.sa_family == AF_INET ? sizeof(address->v4) : sizeof(address->v6);
}

static bool is_link_local(const union mc_rdma_address *address)
{
    if (address->any.sa_family == AF_INET) {
        uint32_t ip = ntohl(address->v4.sin_addr.s_addr);

        return ip >> 16 == 0xa9fe || ip == 0;
    }
    return IN6_IS_ADDR_LINKLOCAL(&address->v6.sin6_addr) ||
           IN6_IS_ADDR_UNSPECIFIED(&address->v6.sin6_addr);
}

static void address_from_gid(const struct ibv_gid_entry *entry, union mc_rdma_address *out)
{
    struct in6_addr ip;

    memset(out, 0, sizeof(*out));
    memcpy(&ip, entry->gid.raw, sizeof(ip));
    if (IN6_IS_ADDR_V4MAPPED(&ip)) {
        out->v4.sin_family = AF_INET;
        memcpy(&out->v4.sin_addr, &ip.s6_addr[12], sizeof(out->v4.sin_addr));
        return;
    }
    out->v6.sin6_family = AF_INET6;
    out->v6.sin6_addr = ip;
    if (IN6_IS_ADDR_LINKLOCAL(&ip)) {
        out->v6.sin6_scope_id = entry->ndev_ifindex;
    }
}

static const char *ipoib_name(const struct ifaddrs *all, const union ibv_gid *gid)
{
    for (const struct ifaddrs *at = all; at != NULL; at = at->ifa_next) {
        const struct sockaddr_ll *ll = (const struct sockaddr_ll *)(const void *)at->ifa_addr;

        if (ll != NULL && ll->sll_family == AF_PACKET && ll->sll_hatype == ARPHRD_INFINIBAND &&
            ll->sll_halen == IPOIB_HARDWARE_LEN) {
            const uint8_t *hardware =
                (const uint8_t *)ll + offsetof(struct sockaddr_ll, sll_addr); /* longer than 8 */

            if (memcmp(hardware + IPOIB_HARDWARE_LEN - 8, gid->raw + 8, 8) == 0) {
                return at->ifa_name;
            }
        }
    }
    return NULL;
}

/* An InfiniBand port is addressed by the IP address of its IPoIB interface. */
static bool address_from_ipoib(const union ibv_gid *gid, union mc_rdma_address *out)
{
    struct ifaddrs *all = NULL;
    const char *name;
    bool found = false;

    if (getifaddrs(&all) != 0) {
        return false;
    }
    name = ipoib_name(all, gid);
    for (const struct ifaddrs *at = all; at != NULL && name != NULL && !found; at = at->ifa_next) {
        if (at->ifa_addr != NULL && strcmp(at->ifa_name, name) == 0 &&
            (at->ifa_addr->sa_family == AF_INET || at->ifa_addr->sa_family == AF_INET6)) {
            memset(out, 0, sizeof(*out));
            memcpy(out, at->ifa_addr,
                   at->ifa_addr->sa_family == AF_INET ? sizeof(out->v4) : sizeof(out->v6));
            found = !is_link_local(out);
        }
    }
    freeifaddrs(all);
    return found;
}

/* ---- GIDs ------------------------------------------------------------------------------------ */

#define SCORE_LINK_LOCAL 1u
#define SCORE_ROUTABLE 2u

/* 0: of no use. */
static unsigned score_gid(const struct ibv_gid_entry *entry, const union mc_rdma_address *address)
{
    if (is_link_local(address)) {
        return SCORE_LINK_LOCAL;
    }
    return SCORE_ROUTABLE + (entry->gid_type == IBV_GID_TYPE_ROCE_V1 ? 0u : 2u) +
           (address->any.sa_family == AF_INET ? 1u : 0u);
}

static const char *gid_kind_name(uint32_t type)
{
    return type == IBV_GID_TYPE_ROCE_V2 ? "rocev2" : type == IBV_GID_TYPE_ROCE_V1 ? "rocev1" : "ib";
}

/* Take the entry at @p index if it is better than what @p port has; returns the new best score. */
static unsigned try_gid(const struct mc_verbs *verbs, uint32_t index, unsigned best,
                        struct mc_rdma_port *port)
{
    struct ibv_gid_entry entry;
    union mc_rdma_address address;
    unsigned score;

    memset(&entry, 0, sizeof(entry));
    if (verbs->query_gid_entry(port->device->context, port->port, index, &entry, 0,
                               sizeof(entry)) != 0) {
        return best; /* a free place in the table */
    }
    address_from_gid(&entry, &address);
    if (entry.gid_type == IBV_GID_TYPE_IB && !address_from_ipoib(&entry.gid, &address)) {
        return best;
    }
    score = score_gid(&entry, &address);
    if (score > best) {
        port->address = address;
        port->gid_index = index;
        port->gid_kind = gid_kind_name(entry.gid_type);
        return score;
    }
    return best;
}

/* Find the port's GID. False: none that can be used. */
static bool choose_gid(const struct mc_verbs *verbs, bool fixed, uint32_t index,
                       struct mc_rdma_port *port)
{
    struct ibv_port_attr attr;
    unsigned best = 0;

    memset(&attr, 0, sizeof(attr));
    if (verbs->query_port_attr(port->device->context, port->port, &attr) != 0) {
        return false;
    }
    port->mtu = 128u << attr.active_mtu;
    mc_rdma_device_note_port(port->device, port->port, attr.state == IBV_PORT_ACTIVE);
    if (fixed) {
        return try_gid(verbs, index, 0, port) > 0;
    }
    for (uint32_t i = 0; i < least(GIDS_LOOKED_AT_MAX, attr.gid_tbl_len); i++) {
        best = try_gid(verbs, i, best, port);
    }
    return best >= SCORE_ROUTABLE;
}

/* ---- choice of ports ------------------------------------------------------------------------- */

/* Position of DEVICE or DEVICE:PORT in the comma list @p names; 0: it is not there. */
static unsigned position_of(const char *names, const char *device, unsigned port)
{
    char with_port[IBV_SYSFS_NAME_MAX + 8];
    unsigned position = 1;

    (void)snprintf(with_port, sizeof(with_port), "%s:%u", device, port);
    for (const char *at = names + strspn(names, ", "); *at != '\0'; position++) {
        size_t len = strcspn(at, ", ");

        if ((strlen(device) == len && memcmp(at, device, len) == 0) ||
            (strlen(with_port) == len && memcmp(at, with_port, len) == 0)) {
            return position;
        }
        at += len;
        at += strspn(at, ", ");
    }
    return 0;
}

static void list_names(const struct mc_rdma_devices *devices, char *out, size_t cap)
{
    size_t len = 0;

    out[0] = '\0';
    for (unsigned i = 0; i < devices->count && len < cap; i++) {
        int n =
            snprintf(out + len, cap - len, "%s%s", i == 0 ? "" : ", ", devices->devices[i].name);

        len += n > 0 ? (size_t)n : 0;
    }
}

/* Every wished name must be a device of this machine. */
static mooncake_err check_names(const struct mc_rdma_devices *devices, const char *names)
{
    for (const char *at = names + strspn(names, ", "); *at != '\0';) {
        size_t len = strcspn(at, ", ");
        bool known = false;
        char all[256];

        for (unsigned i = 0; i < devices->count; i++) {
            size_t name_len = strlen(devices->devices[i].name);

            known =
                known || (name_len <= len && memcmp(at, devices->devices[i].name, name_len) == 0 &&
                          (name_len == len || at[name_len] == ':'));
        }
        if (!known) {
            list_names(devices, all, sizeof(all));
            return mc_err_set(MOONCAKE_EINVAL,
                              "rdma_devices: \"%.*s\" is no RDMA device of this machine; there "
                              "are: %s",
                              (int)(len > 64 ? 64 : len), at, all);
        }
        at += len;
        at += strspn(at, ", ");
    }
    return MOONCAKE_OK;
}

static mooncake_err parse_gid_index(const char *text, bool *out_fixed, uint32_t *out_index)
{
    uint64_t value = 0;

    *out_fixed = text != NULL && text[0] != '\0' && strcmp(text, "auto") != 0;
    if (*out_fixed && mc_parse_u64(text, 0, GIDS_LOOKED_AT_MAX - 1, &value) != MOONCAKE_OK) {
        return mc_err_set(MOONCAKE_EINVAL,
                          "rdma_gid_index: \"%.40s\" is no index; write auto or 0 to %u", text,
                          GIDS_LOOKED_AT_MAX - 1);
    }
    *out_index = (uint32_t)value;
    return MOONCAKE_OK;
}

/* Once for each choice: every engine of a client chooses. */
static void log_port(const struct mc_rdma_port *port)
{
    const uint32_t said = (uint32_t)port->port << 16 | (port->gid_index + 1);
    char ip[INET6_ADDRSTRLEN];

    if (atomic_exchange(&port->device->said, said) == said) {
        return;
    }

    mc_log_info("rdma.port",
                "device=%s port=%u address=%s gid_index=%u gid_kind=%s mtu=%u numa_node=%d link=%s",
                port->device->name, (unsigned)port->port,
                mc_rdma_address_print(&port->address, ip, sizeof(ip)), port->gid_index,
                port->gid_kind, port->mtu, port->device->numa_node,
                mc_rdma_port_state(port) == MC_RDMA_PORT_UP ? "up" : "down");
}

/* The ports of one device that stand at @p position of the wish list (0: no list). */
static void add_ports(struct mc_rdma_devices *devices, struct mc_rdma_device *device,
                      const char *names, unsigned position, const char *gid_index,
                      struct mc_rdma_port *out, unsigned *count)
{
    struct ibv_port_attr attr;
    bool fixed = false;
    uint32_t index = 0;

    (void)!parse_gid_index(gid_index, &fixed, &index); /* was checked */
    for (unsigned n = 1; n <= 4 && *count < MC_RDMA_PORTS_MAX; n++) {
        struct mc_rdma_port port = {.device = device, .port = (uint8_t)n};

        memset(&attr, 0, sizeof(attr));
        if (devices->verbs->query_port_attr(device->context, (uint8_t)n, &attr) != 0) {
            return; /* the device has no more */
        }
        if (position > 0 && position_of(names, device->name, n) != position) {
            continue;
        }
        if (choose_gid(devices->verbs, fixed, index, &port)) {
            log_port(&port);
            out[(*count)++] = port;
        } else {
            mc_log_info("rdma.port", "device=%s port=%u used=no reason=\"no %s\"", device->name, n,
                        fixed ? "GID at rdma_gid_index"
                              : "routable GID: has its interface an IP "
                                "address?");
        }
    }
}

mooncake_err mc_rdma_ports_choose(struct mc_rdma_devices *devices,
                                  const struct mc_rdma_choice *choice, struct mc_rdma_port *out,
                                  unsigned *out_count)
{
    const char *names = choice->names == NULL ? "" : choice->names;
    bool listed = names[strspn(names, ", ")] != '\0';
    unsigned count = 0;
    uint32_t index;
    bool fixed;

    MC_TRY(check_names(devices, names));
    MC_TRY(parse_gid_index(choice->gid_index, &fixed, &index));
    for (unsigned position = listed ? 1 : 0; position <= (listed ? MC_RDMA_PORTS_MAX : 0);
         position++) {
        for (unsigned i = 0; i < devices->count; i++) {
            add_ports(devices, &devices->devices[i], names, position, choice->gid_index, out,
                      &count);
        }
    }
    if (count == 0) {
        return mc_err_set(MOONCAKE_ENOTSUP,
                          "rdma: no port of the %s has a GID that can be used; give the port's "
                          "network interface an IP address",
                          listed ? "devices in rdma_devices" : "RDMA devices");
    }
    *out_count = count;
    return MOONCAKE_OK;
}

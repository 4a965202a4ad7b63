/*
 * How many connections there may be, and who goes when there are too many: a connection that has
 * not finished a request for a while, so that 64 peers who connect and dawdle cannot lock operators
 * out; else the newcomer.
 */
#include <stddef.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"
#include "io/admin_impl.h"

#define CONNS_MAX 64u
#define IDLE_NS_MAX (30u * MC_NS_PER_S)

struct conn {
    struct mc_list node;  /* in gate->conns, the one used longest ago first */
    int fd;               /* the HTTP library's; open until mc_admin_conn_end() */
    uint64_t last_use_ns; /* it came, or it finished a request */
};

void *mc_admin_conn_begin(struct mc_admin_gate *gate, int fd, uint64_t now_ns)
{
    struct conn *conn = mc_calloc(1, sizeof(*conn));
    int victim = -1;

    if (conn == NULL) {
        (void)shutdown(fd, SHUT_RDWR);
        return NULL;
    }
    conn->fd = fd;
    conn->last_use_ns = now_ns;
    (void)pthread_mutex_lock(&gate->lock);
    if (gate->conns_count >= CONNS_MAX) {
        struct conn *oldest = mc_list_first(&gate->conns, struct conn, node);

        victim = now_ns - oldest->last_use_ns > IDLE_NS_MAX ? oldest->fd : fd;
        (void)shutdown(victim, SHUT_RDWR); /* under the lock: it cannot be closed meanwhile */
        oldest->last_use_ns = victim == fd ? oldest->last_use_ns : now_ns;
        if (victim != fd) {
            mc_list_move_tail(&gate->conns, &oldest->node);
        }
    }
    gate->conns_count++;
    mc_list_add_tail(&gate->conns, &conn->node);
    (void)pthread_mutex_unlock(&gate->lock);
    if (victim >= 0) {
        mc_log_warn("admin.connections", "count=%u dropped=%s", CONNS_MAX,
                    victim == fd ? "newest" : "idle");
    }
    return conn;
}

void mc_admin_conn_end(struct mc_admin_gate *gate, void *conn)
{
    struct conn *c = conn;

    if (c == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&gate->lock);
    gate->conns_count--;
    mc_list_drop(&c->node);
    (void)pthread_mutex_unlock(&gate->lock);
    mc_free(c);
}

void mc_admin_conn_touch(struct mc_admin_gate *gate, void *conn, uint64_t now_ns)
{
    struct conn *c = conn;

    if (c != NULL) {
        (void)pthread_mutex_lock(&gate->lock);
        c->last_use_ns = now_ns;
        mc_list_move_tail(&gate->conns, &c->node);
        (void)pthread_mutex_unlock(&gate->lock);
    }
}

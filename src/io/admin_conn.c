/*
 * How many connections there may be, and who goes when there are too many: the one that has been
 * idle for the longest time, so that peers who connect and dawdle cannot lock operators out. Idle
 * is who has no request being answered: also a peer in the middle of a header or a body. An
 * operator's request is sent as soon as it is connected, and newer idle ones go after older ones.
 * The newcomer goes if all are being answered.
 */
#include <stddef.h>
#include <sys/socket.h>

#include "base/log.h"
#include "io/admin_impl.h"

#define CONNS_MAX 64u

struct conn {
    struct mc_list node; /* in gate->conns, the one used longest ago first */
    int fd;              /* the HTTP library's; open until mc_admin_conn_end() */
    bool busy;           /* a request of its is being answered */
    bool told_to_go;     /* shut down, and not counted any more */
};

/* With the gate's lock held, so that the descriptor cannot be closed meanwhile. */
static void tell_to_go(struct mc_admin_gate *gate, struct conn *conn)
{
    (void)shutdown(conn->fd, SHUT_RDWR);
    conn->told_to_go = true;
    gate->conns_count--;
}

static struct conn *find_idle(const struct mc_admin_gate *gate)
{
    mc_list_for_each (node, &gate->conns) {
        struct conn *conn = MC_CONTAINER_OF(node, struct conn, node);

        if (!conn->busy && !conn->told_to_go) {
            return conn;
        }
    }
    return NULL;
}

void *mc_admin_conn_begin(struct mc_admin_gate *gate, int fd)
{
    struct conn *conn = mc_calloc(1, sizeof(*conn));
    struct conn *victim = NULL;

    if (conn == NULL) {
        (void)shutdown(fd, SHUT_RDWR);
        return NULL;
    }
    conn->fd = fd;
    (void)pthread_mutex_lock(&gate->lock);
    gate->conns_count++;
    if (gate->conns_count > CONNS_MAX) {
        victim = find_idle(gate);
        tell_to_go(gate, victim != NULL ? victim : conn);
    }
    mc_list_add_tail(&gate->conns, &conn->node);
    if (conn->told_to_go || victim != NULL) {
        mc_log_warn("admin.connections", "max=%u dropped=%s", CONNS_MAX,
                    victim == NULL ? "newest" : "idle");
    }
    (void)pthread_mutex_unlock(&gate->lock);
    return conn;
}

void mc_admin_conn_end(struct mc_admin_gate *gate, void *conn)
{
    struct conn *c = conn;

    if (c == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&gate->lock);
    gate->conns_count -= c->told_to_go ? 0 : 1;
    mc_list_drop(&c->node);
    (void)pthread_mutex_unlock(&gate->lock);
    mc_free(c);
}

void mc_admin_conn_mark(struct mc_admin_gate *gate, void *conn, bool busy)
{
    struct conn *c = conn;

    if (c != NULL) {
        (void)pthread_mutex_lock(&gate->lock);
        c->busy = busy;
        mc_list_move_tail(&gate->conns, &c->node);
        (void)pthread_mutex_unlock(&gate->lock);
    }
}

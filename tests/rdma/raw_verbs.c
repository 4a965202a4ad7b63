/* See the header. */
#include "rdma/raw_verbs.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <string.h>

#include "integration/harness.h"
#include "rdma/guest.h"

#define WAIT_SECONDS (30u * patience())
#define SEND_MAX 128u
/* 4.096 us * 2^16 = 0.27 s for each of the tries; seven of them would mean "for ever" here. */
#define ACK_TIMEOUT 16u
#define RETRIES 5u

static struct sockaddr_in address_of(const char *text, uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};

    assert_int_equal(inet_pton(AF_INET, text, &address.sin_addr), 1);
    return address;
}

/* The next event; it must be given to rdma_ack_cm_event(). */
static struct rdma_cm_event *next_event(struct rdma_event_channel *channel, unsigned seconds)
{
    struct pollfd fd = {.fd = channel->fd, .events = POLLIN};
    struct rdma_cm_event *event = NULL;

    assert_int_equal(poll(&fd, 1, (int)(seconds * 1000)), 1);
    assert_int_equal(rdma_get_cm_event(channel, &event), 0);
    return event;
}

static void expect(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event = next_event(channel, WAIT_SECONDS);

    if (event->event != type) {
        fail_msg("%s came (%d), %s was due", rdma_event_str(event->event), event->status,
                 rdma_event_str(type));
    }
    assert_int_equal(rdma_ack_cm_event(event), 0);
}

void raw_listen(struct raw_listener *listener, const char *address)
{
    struct sockaddr_in at = address_of(address, 0);

    listener->channel = rdma_create_event_channel();
    assert_non_null(listener->channel);
    assert_int_equal(rdma_create_id(listener->channel, &listener->id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_bind_addr(listener->id, (struct sockaddr *)&at), 0);
    assert_int_equal(rdma_listen(listener->id, 8), 0);
    listener->port = ntohs(rdma_get_src_port(listener->id));
}

void raw_listener_close(struct raw_listener *listener)
{
    (void)rdma_destroy_id(listener->id);
    rdma_destroy_event_channel(listener->channel);
}

static void make_queue_pair(struct raw_end *end)
{
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = SEND_MAX, .max_recv_wr = 1, .max_send_sge = 4, .max_recv_sge = 1}};

    end->told = ibv_create_comp_channel(end->id->verbs);
    assert_non_null(end->told);
    end->cq = ibv_create_cq(end->id->verbs, 2 * (int)SEND_MAX, NULL, end->told, 0);
    assert_non_null(end->cq);
    attr.send_cq = end->cq;
    attr.recv_cq = end->cq;
    assert_int_equal(rdma_create_qp(end->id, NULL, &attr), 0);
}

void raw_prepare(struct raw_end *end, const char *from, const char *to, uint16_t port)
{
    struct sockaddr_in source = address_of(from, 0), peer = address_of(to, port);
    uint8_t ack_timeout = ACK_TIMEOUT;

    end->channel = rdma_create_event_channel();
    assert_non_null(end->channel);
    assert_int_equal(rdma_create_id(end->channel, &end->id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(end->id, (struct sockaddr *)&source,
                                       (struct sockaddr *)&peer, (int)(WAIT_SECONDS * 1000)),
                     0);
    expect(end->channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    assert_int_equal(rdma_set_option(end->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT,
                                     &ack_timeout, sizeof(ack_timeout)),
                     0);
    assert_int_equal(rdma_resolve_route(end->id, (int)(WAIT_SECONDS * 1000)), 0);
    expect(end->channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
    make_queue_pair(end);
}

void raw_ask(struct raw_end *end, const void *data, uint8_t len)
{
    struct rdma_conn_param param = {.private_data = data,
                                    .private_data_len = len,
                                    .initiator_depth = 16,
                                    .responder_resources = 16,
                                    .retry_count = RETRIES,
                                    .rnr_retry_count = 3};

    assert_int_equal(rdma_connect(end->id, &param), 0);
}

void raw_await_answer(struct raw_end *end, unsigned seconds, struct raw_answer *out)
{
    struct rdma_cm_event *event = next_event(end->channel, seconds);
    size_t len = event->param.conn.private_data_len;

    assert_true(event->event == RDMA_CM_EVENT_ESTABLISHED ||
                event->event == RDMA_CM_EVENT_REJECTED);
    memset(out, 0, sizeof(*out));
    out->accepted = event->event == RDMA_CM_EVENT_ESTABLISHED;
    if (event->param.conn.private_data != NULL && len <= sizeof(out->data)) {
        memcpy(out->data, event->param.conn.private_data, len);
        out->len = len;
    }
    assert_int_equal(rdma_ack_cm_event(event), 0);
}

void raw_accept(struct raw_listener *listener, struct raw_end *out)
{
    struct rdma_cm_event *event = next_event(listener->channel, WAIT_SECONDS);
    struct rdma_conn_param param = {
        .initiator_depth = 16, .responder_resources = 16, .rnr_retry_count = 3};

    assert_int_equal(event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
    *out = (struct raw_end){.id = event->id};
    assert_int_equal(rdma_ack_cm_event(event), 0);
    out->channel = rdma_create_event_channel();
    assert_non_null(out->channel);
    assert_int_equal(rdma_migrate_id(out->id, out->channel), 0);
    make_queue_pair(out);
    assert_int_equal(rdma_accept(out->id, &param), 0);
}

void raw_connect(struct raw_end *a, struct raw_end *b, const char *from, const char *to)
{
    struct raw_listener listener;
    struct raw_answer answer;

    raw_listen(&listener, to);
    raw_prepare(a, from, to, listener.port);
    raw_ask(a, NULL, 0);
    raw_accept(&listener, b);
    raw_await_answer(a, WAIT_SECONDS, &answer);
    assert_true(answer.accepted);
    raw_listener_close(&listener);
}

/* No rdma_disconnect(): it waits for the peer's answer, for minutes when a cable is pulled. */
void raw_close(struct raw_end *end)
{
    rdma_destroy_qp(end->id);
    (void)ibv_destroy_cq(end->cq);
    (void)ibv_destroy_comp_channel(end->told);
    (void)rdma_destroy_id(end->id);
    rdma_destroy_event_channel(end->channel);
}

struct ibv_mr *raw_register(struct raw_end *end, void *at, size_t len, unsigned access)
{
    struct ibv_mr *mr = ibv_reg_mr(end->id->pd, at, len, access);

    assert_non_null(mr);
    return mr;
}

void raw_post(struct raw_end *end, enum ibv_wr_opcode opcode, const struct ibv_sge *local,
              uint64_t remote_at, uint32_t remote_key)
{
    struct ibv_sge piece = *local;
    struct ibv_send_wr wr = {.sg_list = &piece,
                             .num_sge = 1,
                             .opcode = opcode,
                             .send_flags = IBV_SEND_SIGNALED,
                             .wr.rdma = {.remote_addr = remote_at, .rkey = remote_key}};
    struct ibv_send_wr *bad = NULL;

    assert_int_equal(ibv_post_send(end->id->qp, &wr, &bad), 0);
}

enum ibv_wc_status raw_await(struct raw_end *end, unsigned seconds)
{
    uint64_t deadline_ms = now_ms() + seconds * 1000u;
    struct ibv_wc wc;
    int count = 0;

    while ((count = ibv_poll_cq(end->cq, 1, &wc)) == 0) {
        assert_true(now_ms() < deadline_ms);
        (void)sched_yield();
    }
    assert_int_equal(count, 1);
    return wc.status;
}

void raw_post_reads(struct raw_end *end, struct ibv_sge *locals, unsigned count, uint64_t remote_at,
                    uint32_t remote_key)
{
    struct ibv_send_wr wrs[SEND_MAX];
    struct ibv_send_wr *bad = NULL;

    assert_in_range(count, 1, SEND_MAX);
    for (unsigned i = 0; i < count; i++) {
        wrs[i] = (struct ibv_send_wr){.next = i + 1 < count ? &wrs[i + 1] : NULL,
                                      .sg_list = &locals[i],
                                      .num_sge = 1,
                                      .opcode = IBV_WR_RDMA_READ,
                                      .send_flags = i + 1 < count ? 0 : IBV_SEND_SIGNALED,
                                      .wr.rdma = {.remote_addr = remote_at, .rkey = remote_key}};
        remote_at += locals[i].length;
    }
    assert_int_equal(ibv_post_send(end->id->qp, wrs, &bad), 0);
}

enum ibv_wc_status raw_sleep(struct raw_end *end, unsigned seconds)
{
    struct pollfd fd = {.fd = end->told->fd, .events = POLLIN};
    struct ibv_cq *cq = NULL;
    void *context = NULL;
    struct ibv_wc wc;
    int count;

    assert_int_equal(ibv_req_notify_cq(end->cq, 0), 0);
    while ((count = ibv_poll_cq(end->cq, 1, &wc)) == 0) {
        assert_int_equal(poll(&fd, 1, (int)(seconds * 1000)), 1);
        assert_int_equal(ibv_get_cq_event(end->told, &cq, &context), 0);
        ibv_ack_cq_events(cq, 1);
        assert_int_equal(ibv_req_notify_cq(end->cq, 0), 0);
    }
    assert_int_equal(count, 1);
    return wc.status;
}

enum ibv_wc_status raw_do(struct raw_end *end, enum ibv_wr_opcode opcode,
                          const struct ibv_sge *local, uint64_t remote_at, uint32_t remote_key)
{
    raw_post(end, opcode, local, remote_at, remote_key);
    return raw_await(end, WAIT_SECONDS);
}

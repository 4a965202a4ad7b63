/* What the two halves of the fake share. Everything is guarded by fake.mutex. */
#ifndef MC_TESTS_FAKE_IMPL_H
#define MC_TESTS_FAKE_IMPL_H

#include <pthread.h>

#include "base/list.h"
#include "fake_verbs.h"

#define FAKE_SGES_MAX 32

struct fake_device {
    struct ibv_device device;
    struct ibv_context context;
    enum ibv_mtu mtu;
    bool up, removed, hold, hold_answers, lie, keys_broken, events_ended;
    int fail_in; /* requests until one fails; -1: none */
    enum ibv_wc_status fail_status;
    uint64_t moved;
    unsigned connects;     /* that were begun */
    struct mc_list events; /* of struct fake_async */
};

/* An event of a device. What it names may not go before it is acknowledged. */
struct fake_async {
    struct mc_list node;
    struct ibv_async_event event;
};

struct fake_mr {
    struct ibv_mr mr;
    struct mc_list node;
    int access;
};

struct fake_channel {
    struct ibv_comp_channel channel;
    struct mc_list events; /* of struct fake_cq */
};

struct fake_cq {
    struct ibv_cq cq;
    struct mc_list node; /* of its channel's events */
    struct ibv_wc *wcs;
    int begin, count;
    bool armed;
};

struct fake_request {
    struct mc_list node;
    uint64_t wr_id, remote_at;
    uint32_t remote_key;
    enum ibv_wr_opcode opcode;
    bool signaled;
    struct ibv_sge sges[FAKE_SGES_MAX];
    int count;
};

struct fake_qp {
    struct ibv_qp qp;
    struct mc_list node;
    struct mc_list requests; /* not done */
    unsigned under_way;      /* as the queue sees it: until a completion covers them */
    unsigned unsignaled;
    struct ibv_qp_cap cap;
    unsigned access;
    uint32_t peer; /* number of the other queue pair */
    unsigned reads_max;
    unsigned events_unacked; /* of it */
    bool dead;               /* does nothing any more, and says nothing */
};

struct fake {
    pthread_mutex_t mutex;
    struct fake_device devices[FAKE_DEVICES];
    struct mc_list mrs, qps, ids;
    struct fake_counts counts;
    uint64_t memlock, registered;
    uint32_t next_number;
    unsigned mute;
    bool silent; /* completion channels never tell */
    bool pair;
    pthread_cond_t paired; /* two registrations go on, or pair was changed */
    unsigned registering, registering_ms;
    int fail_registration_in;
    int send_max;
};

extern struct fake fake;

struct fake_device *fake_device_of(const struct ibv_context *context);
struct fake_qp *fake_find_qp(uint32_t number);
/** Do what can be done; with the mutex held. */
void fake_run(struct fake_qp *qp, unsigned max);
/** Everything on it ends with @p status. */
void fake_break_qp(struct fake_qp *qp, enum ibv_wc_status status);
void fake_set_verbs(struct mc_verbs *table);
void fake_set_cm(struct mc_verbs *table);
void fake_set_events(struct mc_verbs *table);
void fake_set_memory(struct mc_verbs *table);
/** Does the key allow it? With the mutex held. */
bool fake_may_access(uint32_t key, uint64_t at, uint64_t len, int access,
                     const struct ibv_context *context);
/** Events of it that nobody has read go with it; with the mutex held. */
void fake_drop_events(const struct fake_qp *qp);
void fake_cm_remove(struct fake_device *device);
/** Answers that are kept back from it; with @p release they come now. With the mutex held. */
unsigned fake_cm_answers_held(const struct fake_device *device, bool release);
/** Queue an event; with the mutex held. */
void fake_push_async(struct fake_device *device, const struct ibv_async_event *event);
void fake_signal(int fd);
bool fake_unsignal(int fd);

#endif

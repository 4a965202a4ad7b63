/* RDMA devices that exist in this process only; see README.md. */
#ifndef MC_TESTS_FAKE_VERBS_H
#define MC_TESTS_FAKE_VERBS_H

#include "transport/rdma_verbs.h"

#define FAKE_DEVICES 4u

/** Make the devices and have everybody use them. Nothing is held, no link is down. */
void fake_verbs_install(void);
/** The real ones again. Fails the test if anything made from the fake is left. */
void fake_verbs_uninstall(void);

struct fake_counts {
    unsigned pds, mrs, channels, cqs, qps, ids, event_channels; /* that exist now */
    unsigned posts;                                             /* calls of post_send so far */
    unsigned requests;                                          /* work requests so far */
    unsigned signaled;        /* of which so many asked for a completion */
    unsigned overflows;       /* requests beyond a queue's length: must stay 0 */
    unsigned under_way_max;   /* the most requests that one queue pair ever had */
    unsigned registered;      /* registrations so far */
    unsigned tried;           /* the same, with those that failed */
    unsigned registering_max; /* the most that went on at once */
    unsigned polls;           /* calls of poll_cq so far */
    unsigned notices;         /* calls of request_notify so far */
    unsigned events_told;     /* events of devices that were read */
    unsigned events_acked;    /* of which so many were acknowledged */
    uint64_t locked;          /* bytes that are registered now, once for each device */
};
struct fake_counts fake_counts(void);

/** From now on nothing that @p device posts is done (a device that never completes). */
void fake_hold(unsigned device, bool hold);
/** Do up to @p count held requests of each queue pair, in order. */
void fake_release(unsigned device, unsigned count);
/** The @p nth next request that @p device posts (0: the very next) ends with @p status; the queue
 * pair goes into error and the others are flushed. */
void fake_fail_nth(unsigned device, unsigned nth, enum ibv_wc_status status);
/** The next completion of @p device carries a number that was never posted. */
void fake_lie_once(unsigned device);
/** Pull the cable: what is posted ends with RETRY_EXC, whoever connects hears nothing. */
void fake_set_link(unsigned device, bool up);
/** The same, and the device tells: its port has lost its link, or has it again. */
void fake_set_port(unsigned device, bool up);
/** The device tells of itself, such as IBV_EVENT_DEVICE_FATAL; port 1. */
void fake_tell(unsigned device, enum ibv_event_type type);
/** The device tells of each of its queue pairs, such as IBV_EVENT_QP_FATAL or IBV_EVENT_CQ_ERR,
 * which do nothing more from now on. */
void fake_tell_queues(unsigned device, enum ibv_event_type type);
/** Nothing can be read any more of what the device tells (the kernel has taken it away). */
void fake_end_events(unsigned device);
/** Completion channels tell nobody that there are completions. */
void fake_silence_channels(bool silent);
/** Take the device away. */
void fake_remove(unsigned device);
/** Registering more than so many bytes in all fails with ENOMEM. */
void fake_set_memlock(uint64_t bytes);
/** Registering takes until a second registration goes on beside it, or five seconds. */
void fake_pair_registrations(bool pair);
/** Each registration takes so long. */
void fake_delay_registrations(unsigned ms);
/** The @p nth next registration (0: the very next) fails with ENOMEM; -1: none. */
void fake_fail_registration(int nth);
/** Where sysfs describes @p device; borrowed until the fake is uninstalled. Before it is opened. */
void fake_set_sysfs(unsigned device, const char *path);
/** The next @p count connection requests are answered by nobody. */
void fake_mute_connects(unsigned count);
/** Answers to what @p device has asked for, refusals included, are kept back until it is false. */
void fake_hold_answers(unsigned device, bool hold);
/** How many are kept back now. */
unsigned fake_answers_held(unsigned device);
void fake_set_mtu(unsigned device, enum ibv_mtu mtu);
/** Deregistered behind its owner's back: every key of @p device is refused from now on. */
void fake_break_keys(unsigned device, bool broken);
void fake_set_send_max(int send_max);
/** Bytes that READ and WRITE of @p device have moved. */
uint64_t fake_moved(unsigned device);
unsigned fake_qps_of(unsigned device);
/** Connections that were asked for from @p device. */
unsigned fake_connects(unsigned device);

#endif

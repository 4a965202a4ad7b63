/* The fake's devices, and what tests make of them. */
#include "fake_impl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

struct fake fake = {.mutex = PTHREAD_MUTEX_INITIALIZER, .paired = PTHREAD_COND_INITIALIZER};

static void lock(void)
{
    (void)pthread_mutex_lock(&fake.mutex);
}

static void unlock(void)
{
    (void)pthread_mutex_unlock(&fake.mutex);
}

void fake_verbs_install(void)
{
    static struct mc_verbs table;

    memset(&fake.counts, 0, sizeof(fake.counts));
    mc_list_init(&fake.mrs);
    mc_list_init(&fake.qps);
    mc_list_init(&fake.ids);
    fake.memlock = UINT64_MAX;
    fake.registered = 0;
    fake.mute = 0;
    fake.silent = false;
    fake.pair = false;
    fake.registering = 0;
    fake.registering_ms = 0;
    fake.fail_registration_in = -1;
    fake.send_max = 64;
    for (unsigned i = 0; i < FAKE_DEVICES; i++) {
        struct fake_device *device = &fake.devices[i];

        memset(device, 0, sizeof(*device));
        device->up = true;
        device->mtu = IBV_MTU_4096;
        device->fail_in = -1;
        device->context.device = &device->device;
        device->context.async_fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
        mc_list_init(&device->events);
        (void)snprintf(device->device.name, sizeof(device->device.name), "fake%u", i);
    }
    fake_set_verbs(&table);
    fake_set_cm(&table);
    fake_set_events(&table);
    fake_set_memory(&table);
    mc_verbs_replace(&table);
}

void fake_verbs_uninstall(void)
{
    mc_verbs_replace(NULL);
    for (unsigned i = 0; i < FAKE_DEVICES; i++) {
        while (!mc_list_empty(&fake.devices[i].events)) {
            struct fake_async *async =
                mc_list_first(&fake.devices[i].events, struct fake_async, node);

            mc_list_drop(&async->node);
            free(async);
        }
        (void)close(fake.devices[i].context.async_fd);
    }
    assert_int_equal(fake.counts.events_acked, fake.counts.events_told);
    assert_int_equal(fake.counts.pds, 0);
    assert_int_equal(fake.counts.mrs, 0);
    assert_int_equal(fake.counts.channels, 0);
    assert_int_equal(fake.counts.cqs, 0);
    assert_int_equal(fake.counts.qps, 0);
    assert_int_equal(fake.counts.ids, 0);
    assert_int_equal(fake.counts.event_channels, 0);
    assert_int_equal(fake.counts.overflows, 0);
}

struct fake_counts fake_counts(void)
{
    struct fake_counts counts;

    lock();
    counts = fake.counts;
    counts.locked = fake.registered;
    unlock();
    return counts;
}

static void run_all(const struct fake_device *device, unsigned count)
{
    mc_list_for_each (node, &fake.qps) {
        struct fake_qp *qp = MC_CONTAINER_OF(node, struct fake_qp, node);

        if (fake_device_of(qp->qp.context) == device) {
            fake_run(qp, count);
        }
    }
}

void fake_hold(unsigned device, bool hold)
{
    lock();
    fake.devices[device].hold = hold;
    if (!hold) {
        run_all(&fake.devices[device], UINT32_MAX);
    }
    unlock();
}

void fake_release(unsigned device, unsigned count)
{
    lock();
    run_all(&fake.devices[device], count);
    unlock();
}

void fake_fail_nth(unsigned device, unsigned nth, enum ibv_wc_status status)
{
    lock();
    fake.devices[device].fail_in = (int)nth;
    fake.devices[device].fail_status = status;
    unlock();
}

void fake_lie_once(unsigned device)
{
    lock();
    fake.devices[device].lie = true;
    unlock();
}

void fake_set_link(unsigned device, bool up)
{
    lock();
    fake.devices[device].up = up;
    unlock();
}

void fake_silence_channels(bool silent)
{
    lock();
    fake.silent = silent;
    unlock();
}

void fake_remove(unsigned device)
{
    lock();
    fake.devices[device].removed = true;
    fake.devices[device].up = false;
    fake_cm_remove(&fake.devices[device]);
    unlock();
}

void fake_set_memlock(uint64_t bytes)
{
    lock();
    fake.memlock = bytes;
    unlock();
}

void fake_pair_registrations(bool pair)
{
    lock();
    fake.pair = pair;
    unlock();
}

void fake_delay_registrations(unsigned ms)
{
    lock();
    fake.registering_ms = ms;
    unlock();
}

void fake_fail_registration(int nth)
{
    lock();
    fake.fail_registration_in = nth;
    unlock();
}

void fake_set_sysfs(unsigned device, const char *path)
{
    struct ibv_device *of = &fake.devices[device].device;

    (void)snprintf(of->ibdev_path, sizeof(of->ibdev_path), "%s", path);
}

void fake_mute_connects(unsigned count)
{
    lock();
    fake.mute = count;
    unlock();
}

void fake_hold_answers(unsigned device, bool hold)
{
    lock();
    fake.devices[device].hold_answers = hold;
    if (!hold) {
        (void)fake_cm_answers_held(&fake.devices[device], true);
    }
    unlock();
}

unsigned fake_answers_held(unsigned device)
{
    unsigned count;

    lock();
    count = fake_cm_answers_held(&fake.devices[device], false);
    unlock();
    return count;
}

void fake_set_mtu(unsigned device, enum ibv_mtu mtu)
{
    fake.devices[device].mtu = mtu;
}

void fake_break_keys(unsigned device, bool broken)
{
    lock();
    fake.devices[device].keys_broken = broken;
    unlock();
}

void fake_set_send_max(int send_max)
{
    fake.send_max = send_max;
}

uint64_t fake_moved(unsigned device)
{
    uint64_t moved;

    lock();
    moved = fake.devices[device].moved;
    unlock();
    return moved;
}

unsigned fake_qps_of(unsigned device)
{
    unsigned count = 0;

    lock();
    mc_list_for_each (node, &fake.qps) {
        const struct fake_qp *qp = MC_CONTAINER_OF(node, struct fake_qp, node);

        count += fake_device_of(qp->qp.context) == &fake.devices[device] ? 1 : 0;
    }
    unlock();
    return count;
}

unsigned fake_connects(unsigned device)
{
    unsigned count;

    lock();
    count = fake.devices[device].connects;
    unlock();
    return count;
}

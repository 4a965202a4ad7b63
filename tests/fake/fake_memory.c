/* Protection domains and memory regions. */
#include "fake_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void lock(void)
{
    (void)pthread_mutex_lock(&fake.mutex);
}

static void unlock(void)
{
    (void)pthread_mutex_unlock(&fake.mutex);
}

static struct ibv_pd *alloc_pd(struct ibv_context *context)
{
    struct ibv_pd *pd = calloc(1, sizeof(*pd));

    pd->context = context;
    lock();
    fake.counts.pds++;
    unlock();
    return pd;
}

static int dealloc_pd(struct ibv_pd *pd)
{
    int error = 0;

    lock();
    mc_list_for_each (node, &fake.mrs) {
        error = MC_CONTAINER_OF(node, struct fake_mr, node)->mr.pd == pd ? EBUSY : error;
    }
    fake.counts.pds -= error == 0 ? 1 : 0;
    unlock();
    if (error == 0) {
        free(pd);
    }
    return error;
}

/* With the mutex held. */
static void pass_time(void)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)fake.registering_ms * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (fake.registering_ms > 0 &&
           pthread_cond_timedwait(&fake.paired, &fake.mutex, &until) == 0) {
    }
}

/* With the mutex held. */
static void await_second(void)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 5;
    while (fake.pair && fake.counts.registering_max < 2 &&
           pthread_cond_timedwait(&fake.paired, &fake.mutex, &until) == 0) {
    }
}

/* With the mutex held. */
static bool registration_fails(size_t len)
{
    bool scripted = fake.fail_registration_in == 0;

    fake.fail_registration_in -= fake.fail_registration_in >= 0 ? 1 : 0;
    return scripted || len > fake.memlock || fake.registered > fake.memlock - len;
}

static struct ibv_mr *register_mr(struct ibv_pd *pd, void *at, size_t len, int access)
{
    struct fake_mr *mr = NULL;

    lock();
    fake.registering++;
    fake.counts.tried++;
    if (fake.registering > fake.counts.registering_max) {
        fake.counts.registering_max = fake.registering;
        (void)pthread_cond_broadcast(&fake.paired);
    }
    await_second();
    pass_time();
    fake.registering--;
    if (registration_fails(len)) {
        errno = ENOMEM;
    } else {
        mr = calloc(1, sizeof(*mr));
        mr->mr = (struct ibv_mr){.context = pd->context,
                                 .pd = pd,
                                 .addr = at,
                                 .length = len,
                                 .lkey = ++fake.next_number,
                                 .rkey = fake.next_number};
        mr->access = access;
        mc_list_add_tail(&fake.mrs, &mr->node);
        fake.registered += len;
        fake.counts.mrs++;
        fake.counts.registered++;
    }
    unlock();
    return mr == NULL ? NULL : &mr->mr;
}

static int deregister_mr(struct ibv_mr *mr)
{
    struct fake_mr *own = MC_CONTAINER_OF(mr, struct fake_mr, mr);

    lock();
    mc_list_drop(&own->node);
    fake.registered -= mr->length;
    fake.counts.mrs--;
    unlock();
    free(own);
    return 0;
}

bool fake_may_access(uint32_t key, uint64_t at, uint64_t len, int access,
                     const struct ibv_context *context)
{
    mc_list_for_each (node, &fake.mrs) {
        const struct fake_mr *mr = MC_CONTAINER_OF(node, struct fake_mr, node);
        uint64_t base = (uintptr_t)mr->mr.addr;

        if (mr->mr.lkey == key && mr->mr.context == context) {
            return (mr->access & access) == access && at >= base && at - base <= mr->mr.length &&
                   len <= mr->mr.length - (at - base);
        }
    }
    return false;
}

void fake_set_memory(struct mc_verbs *table)
{
    table->alloc_pd = alloc_pd;
    table->dealloc_pd = dealloc_pd;
    table->register_mr = register_mr;
    table->deregister_mr = deregister_mr;
}

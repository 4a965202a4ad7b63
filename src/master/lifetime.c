/* Leases, and the ends of puts that nobody ends. */
#include "master/lifetime.h"

#include "master/fates.h"

/* Asking whether an object exists protects it for at most so many lease times after the last real
 * read or write: otherwise polling could freeze eviction. */
#define ASK_LEASES_MAX 3u

/* Versions that were taken over and lie before the oldest unfinished put: look past so many. */
#define OLDEST_STEPS_MAX 1024u

void mc_lifetime_init(struct mc_lifetime *lifetime, struct mc_core_env *env,
                      struct mc_objects *objects)
{
    lifetime->env = env;
    lifetime->objects = objects;
    mc_list_init(&lifetime->unfinished);
    mc_list_init(&lifetime->failed);
    mc_list_init(&lifetime->retired);
    mc_list_init(&lifetime->viewed);
    for (unsigned i = 0; i < MC_VIEW_BUCKETS; i++) {
        mc_list_init(&lifetime->viewed_by_attempt[i]);
    }
}

static struct mc_put *first_put(const struct mc_list *list)
{
    return mc_list_first(list, struct mc_put, node);
}

void mc_lifetime_fini(struct mc_lifetime *lifetime)
{
    struct mc_list *const lists[] = {
        &lifetime->unfinished,
        &lifetime->failed,
        &lifetime->retired,
        &lifetime->viewed,
    };

    for (unsigned i = 0; i < MC_ARRAY_LEN(lists); i++) {
        while (!mc_list_empty(lists[i])) {
            struct mc_object *const object = first_put(lists[i])->object;

            if (object->life == MC_LIFE_WRITING) {
                mc_objects_detach(lifetime->objects, object);
            }
            mc_objects_free(lifetime->objects, object);
        }
    }
}

/* ---- puts ---------------------------------------------------------------------------------- */

void mc_lifetime_add(struct mc_lifetime *lifetime, struct mc_object *object)
{
    MC_ASSERT(object->life == MC_LIFE_WRITING);
    mc_list_add_tail(&lifetime->unfinished, &object->u.put->node);
}

bool mc_lifetime_discardable(const struct mc_lifetime *lifetime, const struct mc_object *object)
{
    const struct mc_core_env *env = lifetime->env;

    MC_ASSERT(object->life == MC_LIFE_WRITING);
    return env->now_ns >= mc_deadline_ns(object->u.put->start_ns, env->options.put_discard_ms);
}

void mc_lifetime_take_over(struct mc_lifetime *lifetime, struct mc_object *object)
{
    MC_ASSERT(mc_lifetime_discardable(lifetime, object));
    mc_objects_detach(lifetime->objects, object);
    /* Its record stays where it is: the list is in the order of the starts. */
    mc_objects_park(lifetime->objects, object, object->u.put, MC_CLASS_PARKED);
    MC_COUNT(lifetime->env, put_taken_over, 1);
}

void mc_lifetime_park(struct mc_lifetime *lifetime, struct mc_object *object, struct mc_put *put,
                      enum mc_park_reason reason)
{
    const struct mc_core_options *options = &lifetime->env->options;
    struct mc_list *const lists[] = {
        [MC_PARK_FAILED] = &lifetime->failed,
        [MC_PARK_RETIRED] = &lifetime->retired,
        [MC_PARK_VIEWED] = &lifetime->viewed,
    };

    /* A lease may end earlier; one time for all keeps the list in order. */
    put->until_ns =
        mc_deadline_ns(lifetime->env->now_ns,
                       reason == MC_PARK_FAILED ? options->client_ttl_ms : options->lease_ms);
    mc_tally_drop_put(&lifetime->objects->tally, put);
    mc_list_add_tail(lists[reason], &put->node);
    if (reason == MC_PARK_VIEWED) {
        mc_list_add_tail(&lifetime->viewed_by_attempt[object->attempt % MC_VIEW_BUCKETS],
                         &put->view_node);
    }
    if (object->life != MC_LIFE_PARKED) {
        mc_objects_park(lifetime->objects, object, put,
                        reason == MC_PARK_FAILED ? MC_CLASS_PARKED : MC_CLASS_READING);
    } else {
        mc_tally_after(&lifetime->objects->tally, object); /* a walk may miss it in its new list */
    }
}

mooncake_err mc_lifetime_retire(struct mc_lifetime *lifetime, struct mc_object *object)
{
    struct mc_put *put = mc_calloc(1, sizeof(*put));

    MC_ASSERT(object->life == MC_LIFE_READABLE);
    if (put == NULL) {
        return MOONCAKE_ENOMEM;
    }
    mc_list_init(&put->node);
    mc_list_init(&put->view_node);
    put->start_ns = lifetime->env->now_ns;
    mc_objects_detach(lifetime->objects, object);
    mc_lifetime_park(lifetime, object, put, MC_PARK_VIEWED);
    return MOONCAKE_OK;
}

static uint64_t due_ns(const struct mc_lifetime *lifetime, const struct mc_list *list)
{
    if (mc_list_empty(list)) {
        return UINT64_MAX;
    }
    if (list == &lifetime->unfinished) {
        return mc_deadline_ns(first_put(list)->start_ns, lifetime->env->options.put_release_ms);
    }
    return first_put(list)->until_ns;
}

static void release_first(struct mc_lifetime *lifetime, struct mc_list *list)
{
    struct mc_object *const object = first_put(list)->object;

    if (list == &lifetime->unfinished) {
        MC_COUNT(lifetime->env, put_released, 1);
    }
    if (object->life == MC_LIFE_WRITING) {
        mc_fates_note(lifetime->env->fates, object, MC_FATE_ABANDONED, lifetime->env->now_ns, NULL);
        mc_objects_detach(lifetime->objects, object);
    }
    mc_objects_free(lifetime->objects, object);
}

bool mc_lifetime_step(struct mc_lifetime *lifetime, struct mc_budget *budget)
{
    struct mc_list *const lists[] = {
        &lifetime->unfinished,
        &lifetime->failed,
        &lifetime->retired,
        &lifetime->viewed,
    };

    for (unsigned i = 0; i < MC_ARRAY_LEN(lists); i++) {
        while (due_ns(lifetime, lists[i]) <= lifetime->env->now_ns) {
            if (!mc_budget_step(budget)) {
                return false;
            }
            release_first(lifetime, lists[i]);
        }
    }
    return true;
}

uint64_t mc_lifetime_oldest_ns(const struct mc_lifetime *lifetime)
{
    unsigned steps = 0;

    mc_list_for_each (node, &lifetime->unfinished) {
        const struct mc_put *put = MC_CONTAINER_OF(node, struct mc_put, node);

        if (put->object->life == MC_LIFE_WRITING || ++steps == OLDEST_STEPS_MAX) {
            return put->start_ns;
        }
    }
    return UINT64_MAX;
}

uint64_t mc_lifetime_next_ns(const struct mc_lifetime *lifetime)
{
    uint64_t const a = due_ns(lifetime, &lifetime->unfinished);
    uint64_t const b = due_ns(lifetime, &lifetime->failed);
    uint64_t const c = due_ns(lifetime, &lifetime->retired);
    uint64_t const d = due_ns(lifetime, &lifetime->viewed);
    uint64_t const ab = a < b ? a : b;
    uint64_t const cd = c < d ? c : d;

    return ab < cd ? ab : cd;
}

/* ---- leases -------------------------------------------------------------------------------- */

/* Returns the end that the client may rely on. */
static uint64_t set_lease(struct mc_lifetime *lifetime, struct mc_object *object, uint64_t end_ns)
{
    uint64_t const old_ns = object->lease_end_ns;

    if (end_ns <= old_ns) {
        return old_ns;
    }
    if (lifetime->env->fault == MC_CORE_FAULT_LEASE_FORGOTTEN) {
        return end_ns;
    }
    mc_objects_set_lease(lifetime->objects, object, end_ns);
    return end_ns;
}

uint64_t mc_lifetime_read(struct mc_lifetime *lifetime, struct mc_object *object)
{
    uint64_t const now_ns = lifetime->env->now_ns;

    MC_ASSERT(object->life == MC_LIFE_READABLE);
    object->touched_ns = now_ns;
    if (!mc_object_leased(object, now_ns)) {
        object->viewed = 0; /* by a reader whose lease has ended */
    }
    (void)set_lease(lifetime, object, mc_deadline_ns(now_ns, lifetime->env->options.lease_ms));
    for (unsigned i = 0; i < object->extents_count; i++) {
        struct mc_extent *const extent = &object->extents[i];

        if (extent->segment == NULL) {
            continue;
        }
        if (extent->klass == MC_CLASS_PLAIN) {
            mc_segments_requeue(extent, MC_QUEUE_LRU, false);
        } else if (extent->queue == MC_QUEUE_HELD) {
            mc_segments_requeue(extent, MC_QUEUE_HELD, false);
        }
    }
    return lifetime->env->options.lease_ms;
}

uint64_t mc_lifetime_view(struct mc_lifetime *lifetime, struct mc_object *object)
{
    uint64_t const lease_ms = mc_lifetime_read(lifetime, object);

    object->viewed = 1;
    return lease_ms;
}

bool mc_lifetime_renew_parked(struct mc_lifetime *lifetime, uint64_t attempt, uint64_t mount_id)
{
    bool found = false;

    mc_list_for_each (node, &lifetime->viewed_by_attempt[attempt % MC_VIEW_BUCKETS]) {
        struct mc_put *const put = MC_CONTAINER_OF(node, struct mc_put, view_node);

        if (put->object->attempt == attempt && mc_object_on_mount(put->object, mount_id)) {
            put->until_ns = mc_deadline_ns(lifetime->env->now_ns, lifetime->env->options.lease_ms);
            mc_tally_drop_put(&lifetime->objects->tally, put);
            mc_list_add_tail(&lifetime->viewed, &put->node);
            mc_tally_after(&lifetime->objects->tally, put->object);
            found = true;
        }
    }
    return found;
}

uint64_t mc_lifetime_ask(struct mc_lifetime *lifetime, struct mc_object *object)
{
    uint64_t const lease_ms = lifetime->env->options.lease_ms;
    uint64_t const now_ns = lifetime->env->now_ns;
    uint64_t const wish_ns = mc_deadline_ns(now_ns, lease_ms);
    uint64_t const most_ns = mc_deadline_ns(object->touched_ns, ASK_LEASES_MAX * lease_ms);

    uint64_t end_ns;

    MC_ASSERT(object->life == MC_LIFE_READABLE);
    if (!mc_object_leased(object, now_ns)) {
        object->viewed = 0;
    }
    end_ns = set_lease(lifetime, object, wish_ns < most_ns ? wish_ns : most_ns);
    for (unsigned i = 0; i < object->extents_count; i++) {
        struct mc_extent *const extent = &object->extents[i];

        if (extent->segment != NULL && extent->queue == MC_QUEUE_HELD) {
            mc_segments_requeue(extent, MC_QUEUE_HELD, false);
        }
    }
    /* Rounded down: the client must not believe in more than there is. */
    return end_ns > now_ns ? (end_ns - now_ns) / MC_NS_PER_MS : 0;
}

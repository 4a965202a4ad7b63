/* The table of objects and the life of a version. */
#include "master/objects.h"

#include <string.h>

#include "master/fates.h"

#define TABLE_HINT 1024u

static bool match_key(const void *element, const void *key, size_t key_len)
{
    const struct mc_object *object = element;

    return object->key_len == key_len && memcmp(mc_object_key(object), key, key_len) == 0;
}

static uint64_t hash_element(const void *element)
{
    return mc_object_hash(element);
}

uint64_t mc_object_hash(const struct mc_object *object)
{
    return mc_htab_hash(mc_object_key(object), object->key_len);
}

mooncake_err mc_objects_init(struct mc_objects *objects, struct mc_core_env *env,
                             struct mc_segments *segments)
{
    memset(objects, 0, sizeof(*objects));
    objects->env = env;
    objects->segments = segments;
    mc_tally_init(&objects->tally, segments);
    return mc_htab_create(TABLE_HINT, match_key, hash_element, &objects->table);
}

static void drop_visited(void *arg, void *element)
{
    struct mc_objects *const objects = arg;
    struct mc_object *const head = element;

    if (head->life == MC_LIFE_READABLE && head->u.pending != NULL) {
        mc_objects_drop(objects, head->u.pending);
    }
    mc_objects_drop(objects, head);
}

void mc_objects_fini(struct mc_objects *objects)
{
    uint64_t cursor = 0;

    if (objects->table == NULL) {
        return;
    }
    do {
        mc_htab_walk(objects->table, &cursor, 1024, drop_visited, objects);
    } while (cursor != 0);
    MC_ASSERT(mc_htab_count(objects->table) == 0);
    mc_htab_destroy(&objects->table);
}

struct mc_object *mc_objects_find(const struct mc_objects *objects, const struct mc_key *key,
                                  uint64_t hash)
{
    return mc_htab_find(objects->table, hash, key->bytes, key->len);
}

struct mc_object *mc_objects_find_live(struct mc_objects *objects, const struct mc_key *key,
                                       uint64_t hash)
{
    struct mc_object *head = mc_objects_find(objects, key, hash);
    struct mc_object *pending;

    if (head == NULL || head->life != MC_LIFE_READABLE || mc_object_any_complete(head)) {
        return head;
    }
    pending = head->u.pending;
    mc_objects_lose(objects, head);
    return pending;
}

void mc_objects_lose(struct mc_objects *objects, struct mc_object *object)
{
    const char *store = NULL;

    for (unsigned i = 0; i < object->extents_count && store == NULL; i++) {
        const struct mc_segment *segment = object->extents[i].segment;

        store = segment != NULL && segment->state == MC_SEGMENT_GONE ? segment->name : NULL;
    }
    MC_COUNT(objects->env, lost_keys, 1);
    mc_fates_note(objects->env->fates, object, MC_FATE_LOST, objects->env->now_ns, store);
    mc_objects_drop(objects, object);
}

/* ---- replicas ------------------------------------------------------------------------------ */

bool mc_object_replica_complete(const struct mc_object *object, unsigned replica)
{
    bool any = false;

    for (unsigned i = 0; i < object->extents_count; i++) {
        const struct mc_extent *extent = &object->extents[i];

        if (mc_extent_replica(extent) != replica) {
            continue;
        }
        if (extent->segment == NULL || extent->segment->state == MC_SEGMENT_GONE) {
            return false;
        }
        any = true;
    }
    return any;
}

bool mc_object_any_complete(const struct mc_object *object)
{
    for (unsigned replica = 0; replica < object->replicas; replica++) {
        if (mc_object_replica_complete(object, replica)) {
            return true;
        }
    }
    return false;
}

bool mc_object_on_mount(const struct mc_object *object, uint64_t mount_id)
{
    for (unsigned i = 0; i < object->extents_count; i++) {
        const struct mc_segment *segment = object->extents[i].segment;

        if (segment != NULL && segment->state != MC_SEGMENT_GONE && segment->mount_id == mount_id) {
            return true;
        }
    }
    return false;
}

uint64_t mc_objects_drop_replica(struct mc_objects *objects, struct mc_object *object,
                                 unsigned replica)
{
    uint64_t bytes = 0;

    mc_tally_before(&objects->tally, object);
    for (unsigned i = 0; i < object->extents_count; i++) {
        struct mc_extent *extent = &object->extents[i];

        if (extent->segment != NULL && mc_extent_replica(extent) == replica) {
            bytes += mc_extent_bytes(extent->payload_len);
            mc_segments_drop(objects->segments, extent);
        }
    }
    mc_tally_after(&objects->tally, object);
    return bytes;
}

/* ---- the steps of a life ------------------------------------------------------------------- */

static struct mc_object *object_alloc(unsigned extents, const char *key, size_t key_len)
{
    size_t const fixed = sizeof(struct mc_object) + extents * sizeof(struct mc_extent);
    struct mc_object *object = mc_malloc(fixed + key_len);

    MC_ASSERT(key_len <= MC_KEY_LEN_MAX);
    if (object == NULL) {
        return NULL;
    }
    memset(object, 0, fixed);
    object->key_len = (uint16_t)key_len;
    object->extents_count = (uint8_t)extents;
    memcpy(mc_object_key(object), key, key_len);
    return object;
}

mooncake_err mc_objects_open(struct mc_objects *objects, const struct mc_object_spec *spec,
                             struct mc_object *head, struct mc_object **out)
{
    struct mc_object *object;
    struct mc_put *put;

    MC_ASSERT(head == NULL || (head->life == MC_LIFE_READABLE && head->u.pending == NULL));
    put = mc_calloc(1, sizeof(*put));
    if (put == NULL) {
        return MOONCAKE_ENOMEM;
    }
    object = object_alloc(spec->slots->count, spec->key->bytes, spec->key->len);
    if (object == NULL) {
        goto free_put;
    }
    if (head == NULL && mc_htab_add(objects->table, spec->hash, object) != MOONCAKE_OK) {
        goto free_object;
    }
    if (head != NULL) {
        head->u.pending = object;
    }
    mc_list_init(&put->node);
    mc_list_init(&put->view_node);
    put->object = object;
    put->client_id = spec->client_id;
    put->nonce = spec->nonce;
    put->request_seq = spec->request_seq;
    put->start_ns = objects->env->now_ns;
    object->attempt = ++objects->last_attempt;
    object->value_len = spec->value_len;
    object->u.put = put;
    object->since_ns = objects->env->now_ns;
    object->pin = (uint8_t)spec->pin;
    object->pin_ns = spec->pin_len_ns;
    object->life = MC_LIFE_WRITING;
    object->replicas = (uint8_t)spec->slots->replicas;
    for (unsigned i = 0; i < spec->slots->count; i++) {
        mc_segments_link(&object->extents[i], &spec->slots->slots[i], i);
    }
    MC_GAUGE(objects->env, unfinished_puts, 1);
    mc_tally_after(&objects->tally, object);
    *out = object;
    return MOONCAKE_OK;

free_object:
    mc_free(object);
free_put:
    mc_free(put);
    return MOONCAKE_ENOMEM;
}

/* The readable version on which this WRITING one hangs, or NULL if it is the head itself. */
static struct mc_object *head_above(const struct mc_objects *objects,
                                    const struct mc_object *object, uint64_t hash)
{
    struct mc_object *head =
        mc_htab_find(objects->table, hash, mc_object_key(object), object->key_len);

    MC_ASSERT(head != NULL);
    if (head == object) {
        return NULL;
    }
    MC_ASSERT(head->life == MC_LIFE_READABLE && head->u.pending == object);
    return head;
}

static void enter_queues(struct mc_objects *objects, struct mc_object *object)
{
    static const struct {
        enum mc_class klass;
        enum mc_queue queue;
    } places[] = {
        [MC_PIN_NONE] = {MC_CLASS_PLAIN, MC_QUEUE_LRU},
        [MC_PIN_SOFT] = {MC_CLASS_SOFT, MC_QUEUE_SOFT},
        [MC_PIN_HARD] = {MC_CLASS_HARD, MC_QUEUE_HARD},
    };

    for (unsigned i = 0; i < object->extents_count; i++) {
        if (object->extents[i].segment != NULL) {
            mc_segments_reclass(objects->segments, &object->extents[i], places[object->pin].klass,
                                places[object->pin].queue, false);
        }
    }
}

/* A readable version answers for its key no more. */
static void count_unreadable(struct mc_objects *objects, const struct mc_object *object)
{
    MC_GAUGE(objects->env, keys, -1);
    MC_GAUGE(objects->env, soft_pinned_keys, object->pin == MC_PIN_SOFT ? -1 : 0);
}

void mc_objects_make_readable(struct mc_objects *objects, struct mc_object *object,
                              struct mc_put **out_put, struct mc_object **out_old)
{
    uint64_t const now_ns = objects->env->now_ns;
    uint64_t const hash = mc_object_hash(object);
    struct mc_object *old;

    MC_ASSERT(object->life == MC_LIFE_WRITING);
    mc_tally_before(&objects->tally, object);
    old = head_above(objects, object, hash);
    if (old != NULL) {
        old->u.pending = NULL;
        mc_htab_replace(objects->table, hash, old, object);
        count_unreadable(objects, old);
    }
    *out_put = object->u.put;
    *out_old = old;
    object->u.pending = NULL;
    object->life = MC_LIFE_READABLE;
    object->since_ns = now_ns;
    object->touched_ns = now_ns;
    object->pin_ns = object->pin == MC_PIN_SOFT ? now_ns + object->pin_ns : 0;
    enter_queues(objects, object);
    mc_histogram_observe(&objects->env->metrics.value_size_bytes, object->value_len);
    MC_GAUGE(objects->env, unfinished_puts, -1);
    MC_GAUGE(objects->env, keys, 1);
    MC_GAUGE(objects->env, soft_pinned_keys, object->pin == MC_PIN_SOFT ? 1 : 0);
    mc_tally_after(&objects->tally, object);
}

void mc_objects_detach(struct mc_objects *objects, struct mc_object *object)
{
    uint64_t const hash = mc_object_hash(object);
    struct mc_object *heir = NULL;

    MC_ASSERT(object->life != MC_LIFE_PARKED);
    if (object->life == MC_LIFE_WRITING) {
        struct mc_object *const head = head_above(objects, object, hash);

        MC_GAUGE(objects->env, unfinished_puts, -1);
        if (head != NULL) {
            head->u.pending = NULL;
            return;
        }
    } else {
        count_unreadable(objects, object);
        heir = object->u.pending;
        object->u.pending = NULL;
    }
    if (heir != NULL) {
        mc_htab_replace(objects->table, hash, object, heir);
    } else {
        mc_htab_drop(objects->table, hash, object);
    }
}

void mc_objects_park(struct mc_objects *objects, struct mc_object *object, struct mc_put *put,
                     enum mc_class klass)
{
    MC_ASSERT(klass == MC_CLASS_PARKED || klass == MC_CLASS_READING);
    mc_tally_before(&objects->tally, object);
    object->parked_class = (uint8_t)klass;
    for (unsigned i = 0; i < object->extents_count; i++) {
        if (object->extents[i].segment != NULL) {
            mc_segments_reclass(objects->segments, &object->extents[i], klass, MC_QUEUE_BUSY,
                                false);
        }
    }
    object->life = MC_LIFE_PARKED;
    object->u.put = put;
    put->object = object;
    MC_GAUGE(objects->env, parked_puts, 1);
    mc_tally_after(&objects->tally, object);
}

void mc_objects_free(struct mc_objects *objects, struct mc_object *object)
{
    mc_tally_before(&objects->tally, object);
    for (unsigned i = 0; i < object->extents_count; i++) {
        if (object->extents[i].segment != NULL) {
            mc_segments_drop(objects->segments, &object->extents[i]);
        }
    }
    if (object->life == MC_LIFE_PARKED) {
        MC_GAUGE(objects->env, parked_puts, -1);
    }
    if (object->life != MC_LIFE_READABLE) {
        mc_tally_drop_put(&objects->tally, object->u.put);
        mc_list_drop(&object->u.put->view_node);
        mc_free(object->u.put);
    }
    mc_free(object);
}

void mc_objects_drop(struct mc_objects *objects, struct mc_object *object)
{
    mc_objects_detach(objects, object);
    mc_objects_free(objects, object);
}

mooncake_err mc_objects_split(struct mc_objects *objects, struct mc_object *object, uint32_t mask,
                              struct mc_object **out)
{
    struct mc_object *part;
    struct mc_put *put;

    MC_ASSERT(object->life != MC_LIFE_PARKED);
    put = mc_calloc(1, sizeof(*put));
    if (put == NULL) {
        return MOONCAKE_ENOMEM;
    }
    part = object_alloc(object->extents_count, mc_object_key(object), object->key_len);
    if (part == NULL) {
        mc_free(put);
        return MOONCAKE_ENOMEM;
    }
    mc_tally_before(&objects->tally, object);
    for (unsigned i = 0; i < object->extents_count; i++) {
        struct mc_extent *const from = &object->extents[i];

        part->extents[i].index = (uint8_t)i;
        if (from->segment != NULL && (mask >> mc_extent_replica(from) & 1u) != 0) {
            mc_segments_move(&part->extents[i], from, i);
        }
    }
    part->attempt = object->attempt;
    part->value_len = object->value_len;
    part->since_ns = object->since_ns;
    part->replicas = object->replicas;
    part->lease_end_ns = object->lease_end_ns; /* by which its bytes are in the books */
    mc_list_init(&put->node);
    mc_list_init(&put->view_node);
    if (object->life == MC_LIFE_WRITING) {
        put->client_id = object->u.put->client_id;
        put->start_ns = object->u.put->start_ns;
    }
    mc_objects_park(objects, part, put,
                    object->life == MC_LIFE_WRITING ? MC_CLASS_PARKED : MC_CLASS_READING);
    mc_tally_after(&objects->tally, object);
    *out = part;
    return MOONCAKE_OK;
}

void mc_objects_lose_extent(struct mc_objects *objects, struct mc_extent *extent)
{
    struct mc_object *const object = mc_extent_object(extent);

    mc_tally_before(&objects->tally, object);
    mc_segments_drop(objects->segments, extent);
    mc_tally_after(&objects->tally, object);
}

void mc_objects_set_lease(struct mc_objects *objects, struct mc_object *object, uint64_t end_ns)
{
    uint64_t const old_ns = object->lease_end_ns;

    mc_tally_before(&objects->tally, object);
    object->lease_end_ns = end_ns;
    for (unsigned i = 0; i < object->extents_count; i++) {
        if (object->extents[i].segment != NULL) {
            mc_segments_lease_move(objects->segments, &object->extents[i], old_ns, end_ns);
        }
    }
    mc_tally_after(&objects->tally, object);
}

void mc_objects_unpin(struct mc_objects *objects, struct mc_object *object)
{
    /* Nobody read it since it became readable: then it is as old as it looks, and first to go. */
    bool const at_head = object->touched_ns == object->since_ns;

    MC_ASSERT(object->life == MC_LIFE_READABLE && object->pin == MC_PIN_SOFT);
    mc_tally_before(&objects->tally, object);
    MC_GAUGE(objects->env, soft_pinned_keys, -1);
    object->pin = MC_PIN_NONE;
    object->pin_ns = 0;
    for (unsigned i = 0; i < object->extents_count; i++) {
        if (object->extents[i].segment != NULL) {
            mc_segments_reclass(objects->segments, &object->extents[i], MC_CLASS_PLAIN,
                                MC_QUEUE_LRU, at_head);
        }
    }
    mc_tally_after(&objects->tally, object);
}

/* The cache of answers: a handful of them, each with an index of its own. */
#include "client/known.h"

#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/htab.h"

#define CREDIT_OF_GET 4u
#define CREDIT_MAX 16u
#define CREDIT_ENOUGH 4u
/* A get so long after an exist is not taken for its consequence. */
#define FOLLOWS_NS (500u * MC_NS_PER_MS)

void mc_known_init(struct mc_known *known, bool enabled)
{
    memset(known, 0, sizeof(*known));
    (void)pthread_mutex_init(&known->lock, NULL);
    mc_list_init(&known->answers);
    known->enabled = enabled;
}

static void free_answer(struct mc_known_answer *answer)
{
    struct mc_arena arena = answer->arena; /* the answer lies in it */

    MC_ASSERT(answer->refs == 0);
    mc_arena_fini(&arena);
}

/* Out of the cache; freed when the last holder returns it. Under the lock. */
static void drop(struct mc_known *known, struct mc_known_answer *answer)
{
    if (mc_list_linked(&answer->node)) {
        mc_list_drop(&answer->node);
        known->count--;
        if (--answer->refs == 0) {
            free_answer(answer);
        }
    }
}

void mc_known_fini(struct mc_known *known)
{
    while (!mc_list_empty(&known->answers)) {
        drop(known, mc_list_first(&known->answers, struct mc_known_answer, node));
    }
    (void)pthread_mutex_destroy(&known->lock);
}

static uint64_t hash_of(const struct mc_key *key)
{
    return mc_htab_hash(key->bytes, key->len);
}

/* ---- exists -------------------------------------------------------------------------------- */

bool mc_known_before_exist(struct mc_known *known, const struct mc_key *keys, size_t count,
                           uint64_t now_ns)
{
    bool wanted;

    if (!known->enabled || count == 0) {
        return false;
    }
    (void)pthread_mutex_lock(&known->lock);
    known->firsts[known->next_first].hash = hash_of(&keys[0]);
    known->firsts[known->next_first].until_ns = now_ns + FOLLOWS_NS;
    known->next_first = (known->next_first + 1) % MC_KNOWN_FIRSTS;
    wanted = known->credit >= CREDIT_ENOUGH;
    known->credit -= known->credit > 0 ? 1 : 0;
    known->asked += wanted ? 1 : 0;
    (void)pthread_mutex_unlock(&known->lock);
    return wanted;
}

/* Keys and index into the answer's arena. */
static bool index_keys(struct mc_known_answer *answer, const struct mc_key *keys, size_t count)
{
    struct mc_key *copies = mc_arena_array(&answer->arena, count, sizeof(*copies));
    size_t slots = 4;

    while (slots < 2 * count) {
        slots *= 2;
    }
    answer->slots = mc_arena_array(&answer->arena, slots, sizeof(*answer->slots));
    if (copies == NULL || answer->slots == NULL) {
        return false;
    }
    memset(answer->slots, 0, slots * sizeof(*answer->slots));
    answer->slots_mask = (uint32_t)slots - 1;
    answer->keys = copies;
    for (size_t i = 0; i < count; i++) {
        uint32_t at = (uint32_t)hash_of(&keys[i]) & answer->slots_mask;
        char *bytes = mc_arena_alloc(&answer->arena, keys[i].len);

        if (bytes == NULL) {
            return false;
        }
        memcpy(bytes, keys[i].bytes, keys[i].len);
        copies[i] = (struct mc_key){.bytes = bytes, .len = keys[i].len};
        while (answer->slots[at] != 0) {
            at = (at + 1) & answer->slots_mask;
        }
        answer->slots[at] = (uint32_t)i + 1;
    }
    return true;
}

void mc_known_keep(struct mc_known *known, const struct mc_key *keys,
                   const struct mc_exist_reply *reply, uint64_t sent_ns, struct mc_arena *arena)
{
    size_t const total_max = arena->total_max;
    struct mc_known_answer *answer;

    MC_ASSERT(reply->table.count == reply->count);
    if (arena->total > MC_KNOWN_LEN_MAX) {
        return;
    }
    answer = mc_arena_alloc(arena, sizeof(*answer));
    if (answer == NULL) {
        return;
    }
    *answer = (struct mc_known_answer){
        .refs = 1,
        .until_ns = mc_deadline_ns(sent_ns, reply->reuse_ms),
        .arena = *arena,
        .table = reply->table,
    };
    mc_arena_init(arena, total_max);
    answer->arena.total_max = 2 * MC_KNOWN_LEN_MAX;
    mc_list_init(&answer->node);
    if (!index_keys(answer, keys, reply->count)) {
        answer->refs = 0;
        free_answer(answer);
        return;
    }
    (void)pthread_mutex_lock(&known->lock);
    mc_list_add_head(&known->answers, &answer->node);
    known->count++;
    known->kept += reply->count;
    if (known->count > MC_KNOWN_MAX) {
        drop(known, MC_CONTAINER_OF(known->answers.prev, struct mc_known_answer, node));
    }
    (void)pthread_mutex_unlock(&known->lock);
}

/* ---- gets ---------------------------------------------------------------------------------- */

/* The object of this key, or NULL if it is not known where it is. */
static const struct mc_object_info *find_key(const struct mc_known_answer *answer,
                                             const struct mc_key *key, uint64_t hash)
{
    for (uint32_t at = (uint32_t)hash & answer->slots_mask; answer->slots[at] != 0;
         at = (at + 1) & answer->slots_mask) {
        const struct mc_key *other = &answer->keys[answer->slots[at] - 1];

        if (other->len == key->len && memcmp(other->bytes, key->bytes, key->len) == 0) {
            const struct mc_object_info *object = &answer->table.objects[answer->slots[at] - 1];

            return object->replicas_count > 0 ? object : NULL;
        }
    }
    return NULL;
}

static bool find_all(const struct mc_known_answer *answer, const struct mc_key *keys,
                     const uint64_t *hashes, size_t count, struct mc_object_info *objects)
{
    for (size_t i = 0; i < count; i++) {
        const struct mc_object_info *object = find_key(answer, &keys[i], hashes[i]);

        if (object == NULL) {
            return false;
        }
        objects[i] = *object;
    }
    return true;
}

/* Does this get follow an exist? Then exists had better ask. Under the lock. */
static void learn(struct mc_known *known, uint64_t first_hash, uint64_t now_ns)
{
    for (unsigned i = 0; i < MC_KNOWN_FIRSTS; i++) {
        if (known->firsts[i].hash == first_hash && known->firsts[i].until_ns > now_ns) {
            known->credit = known->credit + CREDIT_OF_GET < CREDIT_MAX
                                ? known->credit + CREDIT_OF_GET
                                : CREDIT_MAX;
            return;
        }
    }
}

/* The answer that knows all these keys, held. Under the lock. */
static struct mc_known_answer *find_answer(struct mc_known *known, const struct mc_key *keys,
                                           const uint64_t *hashes, size_t count, uint64_t now_ns,
                                           struct mc_object_info *objects)
{
    mc_list_for_each_safe (node, next, &known->answers) {
        struct mc_known_answer *answer = MC_CONTAINER_OF(node, struct mc_known_answer, node);

        if (answer->until_ns <= now_ns) {
            drop(known, answer);
        } else if (find_all(answer, keys, hashes, count, objects)) {
            answer->refs++;
            known->reused += count;
            return answer;
        }
    }
    return NULL;
}

struct mc_known_answer *mc_known_find(struct mc_known *known, const struct mc_key *keys,
                                      size_t count, uint64_t now_ns, struct mc_arena *arena,
                                      struct mc_query_reply *out_reply)
{
    struct mc_known_answer *found;
    struct mc_object_info *objects;
    mooncake_err *statuses;
    uint64_t *hashes;

    if (!known->enabled || count == 0) {
        return NULL;
    }
    objects = mc_arena_array(arena, count, sizeof(*objects));
    statuses = mc_arena_array(arena, count, sizeof(*statuses));
    hashes = mc_arena_array(arena, count, sizeof(*hashes));
    if (objects == NULL || statuses == NULL || hashes == NULL) {
        return NULL; /* asking needs less */
    }
    for (size_t i = 0; i < count; i++) {
        hashes[i] = hash_of(&keys[i]);
        statuses[i] = MOONCAKE_OK;
    }
    (void)pthread_mutex_lock(&known->lock);
    learn(known, hashes[0], now_ns);
    found = find_answer(known, keys, hashes, count, now_ns, objects);
    (void)pthread_mutex_unlock(&known->lock);
    if (found != NULL) {
        *out_reply = (struct mc_query_reply){.statuses = statuses, .table = found->table};
        out_reply->table.objects = objects;
        out_reply->table.count = count;
    }
    return found;
}

void mc_known_return(struct mc_known *known, struct mc_known_answer **answer_ptr, size_t stale)
{
    struct mc_known_answer *answer = *answer_ptr;

    (void)pthread_mutex_lock(&known->lock);
    known->stale += stale;
    if (stale > 0) {
        drop(known, answer);
    }
    MC_ASSERT(answer->refs > 0);
    if (--answer->refs == 0) {
        free_answer(answer);
    }
    (void)pthread_mutex_unlock(&known->lock);
    *answer_ptr = NULL;
}

struct mc_known_totals mc_known_totals(struct mc_known *known)
{
    struct mc_known_totals totals;

    (void)pthread_mutex_lock(&known->lock);
    totals = (struct mc_known_totals){
        .asked = known->asked, .kept = known->kept, .reused = known->reused, .stale = known->stale};
    (void)pthread_mutex_unlock(&known->lock);
    return totals;
}

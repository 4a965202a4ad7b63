/* Mount, Unmount, Ping, Report. */
#include "master/core_parts.h"

#include <string.h>

#include "base/log.h"

/* A segment of this name is mounted. Is the new mount its successor? A store that was killed and
 * started again cannot be alive twice: it has the same addresses on the same host, or the old one
 * has missed its pings. */
static bool succeeds(const struct mc_core *core, const struct mc_segment *old,
                     const struct mc_mount_request *request, const struct mc_mount_item *item)
{
    bool const same_place = item->addresses != NULL && item->addresses[0] != '\0' &&
                            strcmp(old->addresses, item->addresses) == 0 && request->host != NULL &&
                            strcmp(old->host, request->host) == 0;

    return (same_place && old->client_id != request->client_id) ||
           mc_members_silent(&core->members, old->client_id);
}

static mooncake_err check_item(const struct mc_mount_item *item)
{
    if (item->name == NULL || item->name[0] == '\0' ||
        strlen(item->name) > MC_SEGMENT_NAME_LEN_MAX) {
        return mc_err_set(MOONCAKE_EINVAL, "segment name: must have 1 to %u bytes",
                          MC_SEGMENT_NAME_LEN_MAX);
    }
    if (item->mount_id == 0) {
        return mc_err_set(MOONCAKE_EINVAL, "segment %s: mount id 0 is none", item->name);
    }
    return MOONCAKE_OK;
}

static mooncake_err mount_item(struct mc_core *core, const struct mc_mount_request *request,
                               const struct mc_mount_item *item, struct mc_member *member)
{
    struct mc_segment_spec const spec = {
        .client_id = request->client_id,
        .host = request->host,
        .item = item,
    };
    struct mc_segment *segment;
    struct mc_segment *old;

    MC_TRY(check_item(item));
    segment = mc_segments_find(&core->segments, item->mount_id);
    if (segment != NULL) {
        bool const same =
            segment->client_id == request->client_id && strcmp(segment->name, item->name) == 0 &&
            segment->secret[0] == item->secret[0] && segment->secret[1] == item->secret[1];

        return same ? MOONCAKE_OK : MOONCAKE_ESEGMENTEXISTS;
    }
    old = mc_segments_find_name(&core->segments, item->name, strlen(item->name));
    if (old != NULL && !succeeds(core, old, request, item)) {
        return mc_err_set(MOONCAKE_ESEGMENTEXISTS,
                          "segment %s is mounted by a living store at %s; choose another name",
                          item->name, old->addresses);
    }
    if (mc_htab_count(core->segments.by_mount) >= MC_SEGMENTS_MAX) {
        return mc_err_set(MOONCAKE_EUNAVAILABLE, "the pool has %u segments, which is its limit",
                          MC_SEGMENTS_MAX);
    }
    if (old != NULL) {
        MC_COUNT(&core->env, superseded_segments, 1);
        mc_members_end_segment(&core->members, old);
    }
    MC_TRY(mc_segments_add(&core->segments, &spec, &segment));
    mc_members_add_segment(&core->members, member, segment);
    return MOONCAKE_OK;
}

mooncake_err mc_core_mount(struct mc_core *core, const struct mc_mount_request *request,
                           struct mc_arena *arena, struct mc_status_reply *out_reply)
{
    mooncake_err *statuses = mc_arena_array(arena, request->count, sizeof(*statuses));
    struct mc_member_spec const spec = {
        .client_id = request->client_id,
        .host = request->host,
        .program = request->program,
    };
    struct mc_member *member;

    if (statuses == NULL) {
        return MOONCAKE_ENOMEM;
    }
    mc_core_enter(core);
    MC_TRY(mc_members_touch(&core->members, &spec, &member));
    for (size_t i = 0; i < request->count; i++) {
        statuses[i] = mount_item(core, request, &request->items[i], member);
    }
    *out_reply = (struct mc_status_reply){.statuses = statuses, .count = request->count};
    return MOONCAKE_OK;
}

mooncake_err mc_core_unmount(struct mc_core *core, const struct mc_unmount_request *request,
                             struct mc_arena *arena, struct mc_status_reply *out_reply)
{
    mooncake_err *statuses = mc_arena_array(arena, request->count, sizeof(*statuses));

    if (statuses == NULL) {
        return MOONCAKE_ENOMEM;
    }
    mc_core_enter(core);
    for (size_t i = 0; i < request->count; i++) {
        struct mc_segment *segment = mc_segments_find(&core->segments, request->mount_ids[i]);

        if (segment == NULL || segment->client_id != request->client_id) {
            statuses[i] = MOONCAKE_ENOSEGMENT;
            continue;
        }
        statuses[i] = MOONCAKE_OK;
        if (request->grace_ms == 0) {
            MC_COUNT(&core->env, unmounted, 1);
            mc_members_end_segment(&core->members, segment);
            continue;
        }
        segment->leave_ns = mc_deadline_ns(core->env.now_ns, request->grace_ms);
        mc_segments_set_state(&core->segments, segment, MC_SEGMENT_DRAINING);
    }
    *out_reply = (struct mc_status_reply){.statuses = statuses, .count = request->count};
    return MOONCAKE_OK;
}

/* A client that counts more than this between two pings counts wrong. */
#define COUNT_GROWTH_MAX (1u << 30)

static uint64_t growth(uint64_t before, uint64_t now)
{
    uint64_t const grown = now > before ? now - before : 0;

    return grown < COUNT_GROWTH_MAX ? grown : COUNT_GROWTH_MAX;
}

/* Add what has come since its last ping. The first one tells where it stands: what it counted
 * before may be in the sums already. */
static void add_counts(struct mc_core *core, struct mc_member *member,
                       const struct mc_ping_counts *now)
{
    const struct mc_ping_counts *before = &member->counts;

    if (member->counts_known) {
        MC_COUNT(&core->env, read_failover, growth(before->read_failovers, now->read_failovers));
        MC_COUNT(&core->env, rdma_fallbacks, growth(before->rdma_fallbacks, now->rdma_fallbacks));
        MC_COUNT(&core->env, shm_fallbacks, growth(before->shm_fallbacks, now->shm_fallbacks));
        MC_COUNT(&core->env, other_fallbacks,
                 growth(before->other_fallbacks, now->other_fallbacks));
    }
    member->counts = *now;
    member->counts_known = true;
}

mooncake_err mc_core_ping(struct mc_core *core, const struct mc_ping_request *request,
                          struct mc_arena *arena, struct mc_ping_reply *out_reply)
{
    struct mc_ping_reply reply = {
        .master_epoch = core->env.options.epoch,
        .client_ttl_ms = core->env.options.client_ttl_ms,
    };
    struct mc_member_spec const spec = {
        .client_id = request->client_id,
        .role = request->role,
        .host = request->host,
        .program = request->program,
    };
    struct mc_member *member;

    reply.unknown_mount_ids =
        mc_arena_array(arena, request->count, sizeof(*reply.unknown_mount_ids));
    if (reply.unknown_mount_ids == NULL) {
        return MOONCAKE_ENOMEM;
    }
    mc_core_enter(core);
    if (request->leaving) {
        member = mc_members_find(&core->members, request->client_id);
        if (member != NULL) {
            MC_COUNT(&core->env, unmounted, member->segments_count);
            mc_members_drop(&core->members, member);
        }
        *out_reply = reply;
        return MOONCAKE_OK;
    }
    MC_TRY(mc_members_touch(&core->members, &spec, &member));
    mc_members_clear_suspicion(&core->members, member);
    add_counts(core, member, &request->counts);
    for (size_t i = 0; i < request->count; i++) {
        const struct mc_segment *segment = mc_segments_find(&core->segments, request->mount_ids[i]);

        if (segment == NULL || segment->client_id != request->client_id) {
            reply.unknown_mount_ids[reply.unknown_count++] = request->mount_ids[i];
        }
    }
    *out_reply = reply;
    return MOONCAKE_OK;
}

/* ---- reports ------------------------------------------------------------------------------- */

/* A reader found the bytes of this version on this segment damaged, or another object's. */
static void drop_damaged(struct mc_core *core, const struct mc_report_item *item,
                         const struct mc_segment *segment)
{
    struct mc_object *head;
    struct mc_object *part = NULL;
    uint32_t mask = 0;

    if (!mc_core_key_ok(&item->key)) {
        return;
    }
    head = mc_objects_find_live(&core->objects, &item->key,
                                mc_htab_hash(item->key.bytes, item->key.len));
    if (head == NULL || head->life != MC_LIFE_READABLE || head->attempt != item->object_id_lo) {
        return; /* that version is gone: its reader was late, nothing is damaged */
    }
    for (unsigned i = 0; i < head->extents_count; i++) {
        if (head->extents[i].segment == segment) {
            mask |= 1u << mc_extent_replica(&head->extents[i]);
        }
    }
    if (mask != 0 && mc_object_viewed(head, core->env.now_ns)) {
        /* Others have proven these bytes and look at them. Without memory: the next report does. */
        if (mc_objects_split(&core->objects, head, mask, &part) != MOONCAKE_OK) {
            return;
        }
        mc_lifetime_park(&core->lifetime, part, part->u.put, MC_PARK_VIEWED);
    }
    for (unsigned replica = 0; replica < head->replicas; replica++) {
        if ((mask >> replica & 1u) != 0) {
            MC_COUNT(&core->env, damaged_replicas, 1);
            (void)mc_objects_drop_replica(&core->objects, head, replica);
        }
    }
    if (!mc_object_any_complete(head)) {
        MC_COUNT(&core->env, lost_keys, 1);
        mc_fates_note(&core->fates, head, MC_FATE_DAMAGED, core->env.now_ns, segment->name);
        mc_objects_drop(&core->objects, head);
        core->env.lost_ns = core->env.now_ns;
    }
}

static mooncake_err report_item(struct mc_core *core, const struct mc_report_item *item,
                                uint64_t client_id)
{
    struct mc_segment *segment = mc_segments_find(&core->segments, item->mount_id);

    MC_COUNT(&core->env, reports, 1);
    MC_COUNT(&core->env, checksum_mismatch, item->reason == MOONCAKE_ECHECKSUM ? 1 : 0);
    if (segment == NULL) {
        return MOONCAKE_ENOSEGMENT;
    }
    if (item->reason == MOONCAKE_ECHECKSUM || item->reason == MOONCAKE_ENOENT) {
        mc_log_warn("core.damaged", "segment=%s mount=%016llx err=%s", segment->name,
                    (unsigned long long)segment->mount_id, mooncake_err_name(item->reason));
        drop_damaged(core, item, segment);
    } else {
        mc_members_report(&core->members, segment, client_id);
    }
    return MOONCAKE_OK;
}

mooncake_err mc_core_report(struct mc_core *core, const struct mc_report_request *request,
                            struct mc_arena *arena, struct mc_status_reply *out_reply)
{
    mooncake_err *statuses = mc_arena_array(arena, request->count, sizeof(*statuses));

    if (statuses == NULL) {
        return MOONCAKE_ENOMEM;
    }
    mc_core_enter(core);
    for (size_t i = 0; i < request->count; i++) {
        statuses[i] = report_item(core, &request->items[i], request->client_id);
    }
    *out_reply = (struct mc_status_reply){.statuses = statuses, .count = request->count};
    return MOONCAKE_OK;
}

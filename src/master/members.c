/* Members by id and by silence; reports; what time does to both. */
#include "master/members.h"

#include <string.h>

#include "base/log.h"
#include "wire/names.h"

static bool match_id(const void *element, const void *key, size_t key_len)
{
    const struct mc_member *member = element;

    return key_len == sizeof(member->client_id) && memcmp(&member->client_id, key, key_len) == 0;
}

static uint64_t hash_id(const void *element)
{
    const struct mc_member *member = element;

    return mc_htab_hash(&member->client_id, sizeof(member->client_id));
}

mooncake_err mc_members_init(struct mc_members *members, struct mc_core_env *env,
                             struct mc_segments *segments)
{
    memset(members, 0, sizeof(*members));
    members->env = env;
    members->segments = segments;
    mc_list_init(&members->by_ping);
    return mc_htab_create(64, match_id, hash_id, &members->by_id);
}

void mc_members_fini(struct mc_members *members)
{
    mc_list_for_each_safe (node, next, &members->by_ping) {
        mc_members_drop(members, MC_CONTAINER_OF(node, struct mc_member, node));
    }
    mc_htab_destroy(&members->by_id);
    mc_roster_fini(&members->roster);
}

struct mc_member *mc_members_find(const struct mc_members *members, uint64_t client_id)
{
    return mc_htab_find(members->by_id, mc_htab_hash(&client_id, sizeof(client_id)), &client_id,
                        sizeof(client_id));
}

static void member_free(struct mc_member *member)
{
    mc_free(member->host);
    mc_free(member->program);
    mc_free(member);
}

static char *copy_text(const char *text)
{
    return text == NULL ? mc_strndup("", 0) : mc_strndup(text, strlen(text));
}

static mooncake_err member_create(struct mc_members *members, const struct mc_member_spec *spec,
                                  struct mc_member **out)
{
    struct mc_member *member;

    if (mc_htab_count(members->by_id) >= MC_MEMBERS_MAX) {
        return mc_err_set(MOONCAKE_EUNAVAILABLE,
                          "the master knows %u clients already, which is its limit; "
                          "end some, or wait until silent ones expire",
                          MC_MEMBERS_MAX);
    }
    member = mc_calloc(1, sizeof(*member));
    if (member == NULL) {
        return MOONCAKE_ENOMEM;
    }
    member->client_id = spec->client_id;
    member->role = spec->role;
    member->host = copy_text(spec->host);
    member->program = copy_text(spec->program);
    mc_list_init(&member->segments);
    if (member->host == NULL || member->program == NULL ||
        mc_htab_add(members->by_id, hash_id(member), member) != MOONCAKE_OK) {
        member_free(member);
        return MOONCAKE_ENOMEM;
    }
    if (mc_roster_add(&members->roster, member, &member->seq) != MOONCAKE_OK) {
        mc_htab_drop(members->by_id, hash_id(member), member);
        member_free(member);
        return MOONCAKE_ENOMEM;
    }
    mc_list_add_tail(&members->by_ping, &member->node);
    MC_GAUGE(members->env, members, 1);
    mc_log_info("member.joined", "client=%016llx role=%s host=%s program=%s",
                (unsigned long long)member->client_id, mc_role_name(member->role), member->host,
                member->program);
    *out = member;
    return MOONCAKE_OK;
}

mooncake_err mc_members_touch(struct mc_members *members, const struct mc_member_spec *spec,
                              struct mc_member **out)
{
    struct mc_member *member = mc_members_find(members, spec->client_id);

    if (member == NULL) {
        MC_TRY(member_create(members, spec, &member));
    }
    member->pinged_ns = members->env->now_ns;
    member->role = spec->role != 0 ? spec->role : member->role;
    mc_list_move_tail(&members->by_ping, &member->node);
    *out = member;
    return MOONCAKE_OK;
}

void mc_members_add_segment(struct mc_members *members, struct mc_member *member,
                            struct mc_segment *segment)
{
    mc_list_add_tail(&member->segments, &segment->member_node);
    member->segments_count++;
    MC_GAUGE(members->env, stores, member->segments_count == 1 ? 1 : 0);
}

void mc_members_end_segment(struct mc_members *members, struct mc_segment *segment)
{
    struct mc_member *const member = mc_members_find(members, segment->client_id);

    MC_ASSERT(member != NULL && member->segments_count > 0);
    member->segments_count--;
    MC_GAUGE(members->env, stores, member->segments_count == 0 ? -1 : 0);
    mc_segments_set_gone(members->segments, segment);
}

void mc_members_drop(struct mc_members *members, struct mc_member *member)
{
    mc_list_for_each_safe (node, next, &member->segments) {
        mc_members_end_segment(members, MC_CONTAINER_OF(node, struct mc_segment, member_node));
    }
    mc_list_drop(&member->node);
    mc_htab_drop(members->by_id, hash_id(member), member);
    mc_roster_drop(&members->roster, member->seq);
    MC_GAUGE(members->env, members, -1);
    member_free(member);
}

/* ---- reports ------------------------------------------------------------------------------- */

static uint64_t silent_after_ns(const struct mc_members *members)
{
    return members->env->options.ping_ms * (MC_NS_PER_MS * 5u / 2u);
}

bool mc_members_silent(const struct mc_members *members, uint64_t client_id)
{
    const struct mc_member *member = mc_members_find(members, client_id);

    return member == NULL || members->env->now_ns - member->pinged_ns > silent_after_ns(members);
}

/* Reports count, and a suspect stays one, for half a client TTL. */
static uint64_t report_end_ns(const struct mc_members *members, const struct mc_segment *segment)
{
    return mc_deadline_ns(segment->reported_ns, members->env->options.client_ttl_ms / 2);
}

void mc_members_report(struct mc_members *members, struct mc_segment *segment, uint64_t client_id)
{
    uint64_t const now_ns = members->env->now_ns;
    bool const counts = segment->reported_ns != 0 && now_ns < report_end_ns(members, segment);
    bool const second = counts && segment->reporter != client_id;

    if (!counts) {
        segment->reporter = client_id;
    }
    segment->reported_ns = now_ns;
    if (!mc_list_linked(&segment->report_node)) {
        mc_list_add_tail(&members->segments->reported, &segment->report_node);
    }
    if (segment->state == MC_SEGMENT_OK &&
        (second || mc_members_silent(members, segment->client_id))) {
        mc_segments_set_state(members->segments, segment, MC_SEGMENT_SUSPECT);
    }
}

void mc_members_clear_suspicion(struct mc_members *members, struct mc_member *member)
{
    mc_list_for_each (node, &member->segments) {
        struct mc_segment *const segment = MC_CONTAINER_OF(node, struct mc_segment, member_node);

        if (segment->state == MC_SEGMENT_SUSPECT &&
            members->env->now_ns >= report_end_ns(members, segment)) {
            mc_segments_set_state(members->segments, segment, MC_SEGMENT_OK);
        }
    }
}

/* ---- time ---------------------------------------------------------------------------------- */

static void judge_reports(struct mc_members *members)
{
    mc_list_for_each_safe (node, next, &members->segments->reported) {
        struct mc_segment *const segment = MC_CONTAINER_OF(node, struct mc_segment, report_node);

        if (members->env->now_ns >= report_end_ns(members, segment)) {
            mc_list_drop(&segment->report_node);
        } else if (segment->state == MC_SEGMENT_OK &&
                   mc_members_silent(members, segment->client_id)) {
            mc_segments_set_state(members->segments, segment, MC_SEGMENT_SUSPECT);
        }
    }
}

static bool end_graces(struct mc_members *members, struct mc_budget *budget)
{
    mc_list_for_each_safe (node, next, &members->segments->leaving) {
        struct mc_segment *const segment = MC_CONTAINER_OF(node, struct mc_segment, leave_node);

        if (segment->leave_ns <= members->env->now_ns) {
            if (!mc_budget_step(budget)) {
                return false;
            }
            MC_COUNT(members->env, unmounted, 1);
            mc_members_end_segment(members, segment);
        }
    }
    return true;
}

static uint64_t expiry_ns(const struct mc_members *members)
{
    if (mc_list_empty(&members->by_ping)) {
        return UINT64_MAX;
    }
    return mc_deadline_ns(mc_list_first(&members->by_ping, struct mc_member, node)->pinged_ns,
                          members->env->options.client_ttl_ms);
}

bool mc_members_step(struct mc_members *members, struct mc_budget *budget)
{
    while (expiry_ns(members) <= members->env->now_ns) {
        struct mc_member *const member = mc_list_first(&members->by_ping, struct mc_member, node);

        if (!mc_budget_step(budget)) {
            return false;
        }
        mc_log_warn("member.expired", "client=%016llx host=%s program=%s segments=%u",
                    (unsigned long long)member->client_id, member->host, member->program,
                    member->segments_count);
        MC_COUNT(members->env, expired_members, 1);
        MC_COUNT(members->env, expired_segments, member->segments_count);
        mc_members_drop(members, member);
    }
    judge_reports(members);
    return end_graces(members, budget);
}

uint64_t mc_members_next_ns(const struct mc_members *members)
{
    uint64_t next_ns = expiry_ns(members);

    mc_list_for_each (node, &members->segments->leaving) {
        uint64_t const leave_ns = MC_CONTAINER_OF(node, struct mc_segment, leave_node)->leave_ns;

        next_ns = leave_ns < next_ns ? leave_ns : next_ns;
    }
    return next_ns;
}

/*
 * Who is alive: everybody that pings, the silent ones first, and which segments each has mounted.
 * Also what clients report about stores that they cannot reach.
 */
#ifndef MC_MASTER_MEMBERS_H
#define MC_MASTER_MEMBERS_H

#include "master/segments.h"

/* Members at one time: more than connections, as some connect in turns. Bounds memory. */
#define MC_MEMBERS_MAX 65536u

struct mc_member {
    uint64_t client_id;
    uint64_t pinged_ns;
    char *host, *program; /* owned */
    uint32_t role;        /* mc_role */
    uint32_t segments_count;
    struct mc_list segments;      /* mc_segment.member_node */
    struct mc_list node;          /* in mc_members.by_ping */
    uint64_t seq;                 /* in the roster */
    bool counts_known;            /* it has told its counts before */
    struct mc_ping_counts counts; /* the last it told */
};

struct mc_members {
    struct mc_core_env *env;
    struct mc_segments *segments;
    struct mc_htab *by_id;
    struct mc_list by_ping; /* longest silent first */
    struct mc_roster roster;
};

struct mc_member_spec {
    uint64_t client_id;
    uint32_t role;
    const char *host, *program;
};

mooncake_err mc_members_init(struct mc_members *members, struct mc_core_env *env,
                             struct mc_segments *segments) MC_MUST_CHECK;
void mc_members_fini(struct mc_members *members);

struct mc_member *mc_members_find(const struct mc_members *members, uint64_t client_id);
/** A sign of life; makes the member if it is new. @retval ENOMEM, EUNAVAILABLE (too many) */
mooncake_err mc_members_touch(struct mc_members *members, const struct mc_member_spec *spec,
                              struct mc_member **out) MC_MUST_CHECK;
void mc_members_add_segment(struct mc_members *members, struct mc_member *member,
                            struct mc_segment *segment);
/** The mount ends now. */
void mc_members_end_segment(struct mc_members *members, struct mc_segment *segment);
/** Ends all mounts of the member and forgets it. */
void mc_members_drop(struct mc_members *members, struct mc_member *member);

/** Has it missed a ping? Also true of a member that is not there. */
bool mc_members_silent(const struct mc_members *members, uint64_t client_id);
/** @p client_id could not reach the segment. Two such clients, or one and a silent owner: suspect.
 */
void mc_members_report(struct mc_members *members, struct mc_segment *segment, uint64_t client_id);
/** Its owner pinged: a suspect is trusted again if the last report is old enough. */
void mc_members_clear_suspicion(struct mc_members *members, struct mc_member *member);

/** Expire the silent, end grace times, judge reports. False if the budget ended first. */
bool mc_members_step(struct mc_members *members, struct mc_budget *budget);
/** Core time at which something falls due; UINT64_MAX: never. */
uint64_t mc_members_next_ns(const struct mc_members *members);

#endif

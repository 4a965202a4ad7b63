/* The pool's space and books: how its bytes are shown, and verify. */
#include <stdio.h>
#include <string.h>

#include "ctl.h"
#include "output.h"
#include "space.h"

#define MISMATCH_CAP 512

/* X(field, name in text, what must happen first) */
#define KINDS(X)                                                                                   \
    X(free, "free", "nothing")                                                                     \
    X(evictable, "evictable", "eviction, which a put starts by itself")                            \
    X(leased, "leased", "a lease must end: somebody reads or has just asked")                      \
    X(soft_pinned, "soft-pinned", "evicted as a last resort")                                      \
    X(hard_pinned, "hard-pinned", "mooncakectl rm only")                                           \
    X(writing, "being written", "the put must end, or its release time-out pass")                  \
    X(parked, "parked", "left by a lost writer or an old version: a time must pass")               \
    X(unplaceable, "unplaceable", "free, but its store is leaving or cannot be reached")

json_t *mc_space_json(const mooncake_space_status *s)
{
    json_t *object = mc_json_object();

    mc_json_set(object, "capacity", mc_json_number(s->capacity));
#define SET(field, name, note) mc_json_set(object, #field, mc_json_number(s->field));
    KINDS(SET)
#undef SET
    mc_json_set(object, "largest_free", mc_json_number(s->largest_free));
    return object;
}

static void print_kind(const mooncake_space_status *s, const char *name, uint64_t bytes,
                       const char *note)
{
    char value[MC_NUMBER_CAP], share[MC_NUMBER_CAP];

    (void)printf("%-14s %10s %8s  %s\n", name, mc_format_size(bytes, value),
                 mc_format_share(bytes, s->capacity, share), note);
}

void mc_space_print(const mooncake_space_status *s)
{
    char value[MC_NUMBER_CAP];

    (void)printf("%-14s %10s\n", "capacity", mc_format_size(s->capacity, value));
    (void)printf("%-14s %10s           %s\n", "largest free",
                 mc_format_size(s->largest_free, value),
                 "longest single extent; a value may use up to 16");
    (void)printf("\n%-14s %10s %8s  %s\n", "BYTES", "", "SHARE",
                 "BEFORE THEY CAN BE GIVEN TO A NEW OBJECT");
#define PRINT(field, name, note) print_kind(s, name, s->field, note);
    KINDS(PRINT)
#undef PRINT
}

enum mc_exit mc_cmd_verify(struct mc_ctl *ctl)
{
    mooncake_space_status space = {.struct_size = sizeof(space)};
    char mismatch[MISMATCH_CAP] = "";
    mooncake_err err = mooncake_admin_space(ctl->client, true, ctl->timeout_ms, &space, mismatch,
                                            sizeof(mismatch));

    if (err != MOONCAKE_OK) {
        return mc_fail(ctl, err, "cannot verify the master's books");
    }
    if (ctl->json) {
        json_t *object = mc_space_json(&space);

        mc_json_set(object, "agrees", json_boolean(mismatch[0] == '\0'));
        mc_json_set(object, "mismatch", mc_json_text(mismatch));
        mc_json_print(object);
    } else if (mismatch[0] == '\0') {
        (void)printf("the master's gauges agree with a recount\n");
    } else {
        (void)fputs("the master's gauges do not agree with a recount (please report it): ", stdout);
        mc_print_text(stdout, mismatch);
        (void)fputc('\n', stdout);
    }
    return mismatch[0] == '\0' ? MC_EXIT_OK : MC_EXIT_NO;
}

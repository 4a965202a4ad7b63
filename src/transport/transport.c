/*
 * The list of kinds of transport, the instances of one loop, and the choice among them.
 */
#include "transport/transport.h"

#include <string.h>

#include "base/log.h"

/* Best reach first: this order is the order of choice. */
static const struct mc_transport_ops *const kinds[] = {
    &mc_transport_local,
    &mc_transport_shm,
    &mc_transport_rdma,
    &mc_transport_tcp,
};

_Static_assert(MC_ARRAY_LEN(kinds) <= MC_TRANSPORT_KINDS_MAX, "raise MC_TRANSPORT_KINDS_MAX");

const struct mc_transport_ops *const *mc_transport_kinds(unsigned *count)
{
    *count = (unsigned)MC_ARRAY_LEN(kinds);
    return kinds;
}

uint64_t mc_xfer_op_len(const struct mc_xfer_op *op)
{
    uint64_t len = 0;

    for (unsigned i = 0; i < op->pieces_count; i++) {
        len += op->pieces[i].iov_len;
    }
    return len;
}

/* Index of the kind whose name is the @p len bytes at @p name; -1: none. */
static int kind_index(const char *name, size_t len)
{
    for (unsigned i = 0; i < MC_ARRAY_LEN(kinds); i++) {
        if (strlen(kinds[i]->kind) == len && memcmp(kinds[i]->kind, name, len) == 0) {
            return (int)i;
        }
    }
    return -1;
}

/* The kinds named in @p allowed as a mask. */
static mooncake_err parse_allowed(const char *allowed, unsigned *out_mask)
{
    unsigned mask = 0;

    if (allowed == NULL || strcmp(allowed, "auto") == 0) {
        *out_mask = (1u << MC_ARRAY_LEN(kinds)) - 1;
        return MOONCAKE_OK;
    }
    for (const char *at = allowed; *at != '\0';) {
        size_t len = strcspn(at, ", ");
        int kind = kind_index(at, len);

        if (len > 0 && kind < 0) {
            return mc_err_set(MOONCAKE_EINVAL,
                              "transport: \"%.*s\" is not known; write \"auto\" or a list of "
                              "local, shm, rdma, tcp",
                              (int)(len > 40 ? 40 : len), at);
        }
        mask |= len > 0 ? 1u << (unsigned)kind : 0u;
        at += len;
        at += strspn(at, ", ");
    }
    if (mask == 0) {
        return mc_err_set(MOONCAKE_EINVAL, "transport: the list is empty; write \"auto\" or a "
                                           "list of local, shm, rdma, tcp");
    }
    *out_mask = mask;
    return MOONCAKE_OK;
}

bool mc_transport_allowed(const char *allowed, const char *kind)
{
    int index = kind_index(kind, strlen(kind));
    unsigned mask = 0;

    return index >= 0 && parse_allowed(allowed, &mask) == MOONCAKE_OK &&
           (mask & 1u << (unsigned)index) != 0;
}

mooncake_err mc_transport_set_open(struct mc_loop *loop, const char *allowed,
                                   const struct mc_transport_options *options,
                                   struct mc_transport_set *out)
{
    struct mc_transport_set set = {.count = (unsigned)MC_ARRAY_LEN(kinds), .peers = options->peers};
    unsigned mask = 0;
    unsigned opened = 0;

    MC_ASSERT_ON_LOOP(loop);
    MC_TRY(parse_allowed(allowed, &mask));
    for (unsigned i = 0; i < set.count; i++) {
        mooncake_err err = MOONCAKE_ENOTSUP;

        if ((mask & 1u << i) != 0) {
            err = kinds[i]->open(loop, options, &set.instances[i]);
        }
        if (err == MOONCAKE_OK) {
            opened++;
        } else if (err != MOONCAKE_ENOTSUP) {
            mc_transport_set_close(&set);
            return err;
        }
    }
    if (opened == 0 && (mask & (mask - 1)) == 0) {
        return MOONCAKE_ENOTSUP; /* the one kind has said why */
    }
    if (opened == 0) {
        return mc_err_set(MOONCAKE_ENOTSUP, "transport: this machine has none of \"%s\"",
                          allowed == NULL ? "auto" : allowed);
    }
    *out = set;
    return MOONCAKE_OK;
}

void mc_transport_set_close(struct mc_transport_set *set)
{
    for (unsigned i = 0; i < set->count; i++) {
        if (set->instances[i] != NULL) {
            set->instances[i]->ops->close(set->instances[i]);
            set->instances[i] = NULL;
        }
    }
}

int mc_transport_set_choose(struct mc_transport_set *set, const struct mc_target *target,
                            unsigned tried_mask)
{
    for (unsigned i = 0; i < set->count; i++) {
        struct mc_transport *t = set->instances[i];

        if (t != NULL && (tried_mask & 1u << i) == 0 && t->ops->reaches(t, target)) {
            return (int)i;
        }
    }
    return -1;
}

unsigned mc_transport_set_without(const struct mc_transport_set *set, unsigned caps)
{
    unsigned mask = 0;

    for (unsigned i = 0; i < set->count; i++) {
        const struct mc_transport *t = set->instances[i];

        mask |= t == NULL || (t->ops->caps & caps) == 0 ? 1u << i : 0;
    }
    return mask;
}

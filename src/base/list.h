/*
 * Intrusive doubly linked list. The node lives in the element; a list head is a node too. A node
 * that is in no list points to itself, so dropping it twice is harmless and asking is cheap.
 */
#ifndef MC_BASE_LIST_H
#define MC_BASE_LIST_H

#include <stdbool.h>

#include "base/assert.h"

struct mc_list {
    struct mc_list *prev, *next;
};

static inline void mc_list_init(struct mc_list *node)
{
    node->prev = node;
    node->next = node;
}

static inline bool mc_list_empty(const struct mc_list *head)
{
    return head->next == head;
}

/* Is this node in a list? */
static inline bool mc_list_linked(const struct mc_list *node)
{
    return node->next != node;
}

static inline void mc_list_add_between_(struct mc_list *node, struct mc_list *prev,
                                        struct mc_list *next)
{
    node->prev = prev;
    node->next = next;
    prev->next = node;
    next->prev = node;
}

static inline void mc_list_add_tail(struct mc_list *head, struct mc_list *node)
{
    mc_list_add_between_(node, head->prev, head);
}

static inline void mc_list_add_head(struct mc_list *head, struct mc_list *node)
{
    mc_list_add_between_(node, head, head->next);
}

static inline void mc_list_drop(struct mc_list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    mc_list_init(node);
}

static inline void mc_list_move_tail(struct mc_list *head, struct mc_list *node)
{
    mc_list_drop(node);
    mc_list_add_tail(head, node);
}

/* Move everything from @p from to the tail of @p to. */
static inline void mc_list_splice_tail(struct mc_list *to, struct mc_list *from)
{
    if (mc_list_empty(from)) {
        return;
    }
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    mc_list_init(from);
}

#define mc_list_first(head, type, member) MC_CONTAINER_OF((head)->next, type, member)
#define mc_list_last(head, type, member) MC_CONTAINER_OF((head)->prev, type, member)

#define mc_list_for_each(pos, head)                                                                \
    for (struct mc_list *pos = (head)->next; pos != (head); pos = pos->next)

/* As above; the body may drop @p pos. */
#define mc_list_for_each_safe(pos, tmp, head)                                                      \
    for (struct mc_list *pos = (head)->next, *tmp = pos->next; pos != (head);                      \
         pos = tmp, tmp = pos->next)

#endif

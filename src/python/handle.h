/* A BufferHandle, for its type (handle.c) and for what a fork does to it (handle_fork.c). */
#ifndef MC_PYTHON_HANDLE_H
#define MC_PYTHON_HANDLE_H

#include <sys/types.h>

#include "py_store.h"

struct handle {
    PyObject_HEAD void *data; /* owned: mooncake_free(); of a view: what it lends */
    uint64_t len;
    mooncake_view *view; /* owned; NULL: `data` is this object's own, and may be written */
    bool in_place;       /* in the pool's own memory */

    /* In place only. All of those are in one list, guarded by the interpreter lock. */
    bool looked; /* somebody may know the address, and use it in a forked child */
    pid_t pid;   /* of the process that has the memory mapped */
    size_t kept; /* bytes from kept_from on that children inherit at the moment */
    void *kept_from;
    struct handle *next, **link; /* link: what points here; NULL: not in the list */
};

static inline struct handle *py_handle_of(PyObject *self)
{
    return (struct handle *)(void *)self;
}

/** Enter and leave the list of views in place. Leaving twice is harmless. */
void py_handle_enlist(struct handle *handle);
void py_handle_delist(struct handle *handle);

#endif

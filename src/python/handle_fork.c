/*
 * What a fork does to values viewed in place. The memory of the pool is not mapped in a forked
 * child, where a memoryview, or an array made from one, would look at nothing and crash.
 *
 * So the pages of values that somebody has looked at are inherited, and the child replaces them,
 * before any of its Python code runs, by copies of its own: it sees what its parent saw, whatever
 * the pool does afterwards. The copies are true, since the parent's leases have time left at the
 * fork also if it releases the views at once. Values that nobody has looked at are not copied; a
 * child that begins to look there gets a BufferError.
 *
 * The copies stay until the child ends: two values may share a page.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "handle.h"

static struct handle *first;
static unsigned forks_under_way; /* of several threads */

void py_handle_enlist(struct handle *handle)
{
    handle->next = first;
    handle->link = &first;
    if (first != NULL) {
        first->link = &handle->next;
    }
    first = handle;
}

void py_handle_delist(struct handle *handle)
{
    if (handle->link == NULL) {
        return;
    }
    *handle->link = handle->next;
    if (handle->next != NULL) {
        handle->next->link = handle->link;
    }
    handle->link = NULL;
    handle->next = NULL;
}

/* Let children inherit the pages of a value: ordinary ones, or the huge ones of such a segment. */
static void keep_pages(struct handle *handle)
{
    const uintptr_t pages[] = {(uintptr_t)sysconf(_SC_PAGESIZE), (uintptr_t)2 << 20};
    uintptr_t begin = (uintptr_t)handle->data;
    uintptr_t end = begin + (handle->len == 0 ? 1 : handle->len);

    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
        uintptr_t from = begin & ~(pages[i] - 1);
        uintptr_t to = (end + pages[i] - 1) & ~(pages[i] - 1);

        if (madvise(py_pointer(from), to - from, MADV_DOFORK) == 0) {
            handle->kept_from = py_pointer(from);
            handle->kept = to - from;
            return;
        }
    }
}

/* A private copy in the place of the pool's pages. Without memory for it the pages stay. */
static void own_pages(struct handle *handle)
{
    size_t len = handle->kept;
    void *fresh = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (fresh == MAP_FAILED) {
        return;
    }
    memcpy(fresh, handle->kept_from, len);
    if (mprotect(fresh, len, PROT_READ) != 0 ||
        mremap(fresh, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, handle->kept_from) == MAP_FAILED) {
        (void)munmap(fresh, len);
    }
}

static PyObject *fork_before(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    forks_under_way++;
    for (struct handle *handle = first; handle != NULL; handle = handle->next) {
        if (handle->looked && handle->kept == 0) {
            keep_pages(handle);
        }
    }
    Py_RETURN_NONE;
}

static PyObject *fork_in_parent(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    forks_under_way--;
    for (struct handle *handle = first; forks_under_way == 0 && handle != NULL;
         handle = handle->next) {
        if (handle->kept > 0) {
            (void)madvise(handle->kept_from, handle->kept, MADV_DONTFORK);
            handle->kept = 0;
        }
    }
    Py_RETURN_NONE;
}

static PyObject *fork_in_child(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    forks_under_way = 0;
    while (first != NULL) {
        struct handle *handle = first;

        py_handle_delist(handle); /* it is the parent's, or a copy now */
        if (handle->kept > 0) {
            own_pages(handle);
            handle->kept = 0;
            handle->in_place = false;
        }
    }
    Py_RETURN_NONE;
}

PyMethodDef py_fork_methods[] = {
    {"_fork_before", fork_before, METH_NOARGS, "For os.register_at_fork()."},
    {"_fork_in_parent", fork_in_parent, METH_NOARGS, "For os.register_at_fork()."},
    {"_fork_in_child", fork_in_child, METH_NOARGS, "For os.register_at_fork()."},
    {NULL, NULL, 0, NULL},
};

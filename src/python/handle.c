/*
 * BufferHandle: bytes that a get returned, lent through the buffer protocol for as long as somebody
 * refers to them. Where a value lies in shared memory of this host they are the pool's own and no
 * copy, so nobody may write there.
 */
#include "handle.h"

#include <unistd.h>

PyObject *py_handle_type;

static struct handle *new_handle(void)
{
    allocfunc alloc = (allocfunc)PyType_GetSlot((PyTypeObject *)py_handle_type, Py_tp_alloc);

    return py_handle_of(alloc((PyTypeObject *)py_handle_type, 0)); /* all zero */
}

PyObject *py_handle_new(void *data, uint64_t len)
{
    struct handle *handle = new_handle();

    if (handle == NULL) {
        mooncake_free(data);
        return NULL;
    }
    handle->data = data;
    handle->len = len;
    return (PyObject *)handle;
}

PyObject *py_handle_of_view(mooncake_view *view)
{
    struct handle *handle = new_handle();

    if (handle == NULL) {
        mooncake_view_release(view);
        return NULL;
    }
    handle->data = (void *)(uintptr_t)mooncake_view_data(view); /* lent as read-only */
    handle->len = mooncake_view_size(view);
    handle->view = view;
    if (mooncake_view_in_place(view)) {
        handle->in_place = true;
        handle->pid = getpid();
        py_handle_enlist(handle);
    }
    return (PyObject *)handle;
}

/* In a fork's child: whose bytes it shows were not mapped for it. */
static bool is_lost(const struct handle *handle)
{
    return handle->in_place && handle->pid != getpid();
}

static void free_bytes(const struct handle *handle)
{
    if (handle->view == NULL) {
        mooncake_free(handle->data);
    } else {
        mooncake_view_release(handle->view);
    }
}

static void handle_dealloc(PyObject *self)
{
    struct handle *handle = py_handle_of(self);
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    py_handle_delist(handle); /* while the lock is held */
    Py_BEGIN_ALLOW_THREADS;   /* the last look at a store that has gone unmaps gigabytes */
    free_bytes(handle);
    Py_END_ALLOW_THREADS;
    release(self);
    Py_DECREF(type);
}

/* The address, for somebody who will look there. False with a BufferError. */
static bool look(struct handle *handle)
{
    if (is_lost(handle)) {
        PyErr_SetString(PyExc_BufferError, "this value lies in shared memory that a forked process "
                                           "does not inherit; read it anew here");
        return false;
    }
    handle->looked = true;
    return true;
}

static PyObject *handle_ptr(PyObject *self, PyObject *unused)
{
    struct handle *handle = py_handle_of(self);

    (void)unused;
    return look(handle) ? PyLong_FromVoidPtr(handle->data) : NULL;
}

static PyObject *handle_size(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(py_handle_of(self)->len);
}

static PyObject *handle_check(PyObject *self, PyObject *unused)
{
    struct handle *handle = py_handle_of(self);
    mooncake_err err = MOONCAKE_OK;

    (void)unused;
    if (handle->in_place) {
        err = mooncake_view_check(handle->view); /* a system call that does not wait */
    }
    return PyLong_FromLong(err);
}

static Py_ssize_t handle_length(PyObject *self)
{
    return (Py_ssize_t)py_handle_of(self)->len;
}

/* Format 'c', one dimension, as the C++ package exports it. */
static int handle_get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    static char format[] = "c";
    struct handle *handle = py_handle_of(self);

    if (!look(handle) || PyBuffer_FillInfo(view, self, handle->data, (Py_ssize_t)handle->len,
                                           handle->view != NULL, flags) != 0) {
        view->obj = NULL;
        return -1;
    }
    if ((flags & PyBUF_FORMAT) == PyBUF_FORMAT) {
        view->format = format;
    }
    return 0;
}

static PyMethodDef methods[] = {
    {"ptr", handle_ptr, METH_NOARGS, "ptr()\n--\n\nAddress of the first byte."},
    {"size", handle_size, METH_NOARGS, "size()\n--\n\nLength in bytes."},
    {"check", handle_check, METH_NOARGS,
     "check()\n--\n\n0: until now the bytes were the value's. -707: the pool could not be reached "
     "for a whole lease time, or its store has died, and they may be those of another."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)"Bytes read from the pool, lent through the buffer protocol."},
    {Py_tp_dealloc, (void *)handle_dealloc},
    {Py_tp_methods, methods},
    {Py_sq_length, (void *)handle_length},
    {Py_bf_getbuffer, (void *)handle_get_buffer},
    {0, NULL},
};

PyType_Spec py_handle_spec = {
    .name = "mooncake.store.BufferHandle",
    .basicsize = sizeof(struct handle),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

/* BufferHandle: bytes that a get returned, lent through the buffer protocol for as long as
 * somebody refers to them. */
#include "py_store.h"

struct handle {
    PyObject_HEAD void *data; /* owned: mooncake_free() */
    uint64_t len;
};

PyObject *py_handle_type;

PyObject *py_handle_new(void *data, uint64_t len)
{
    allocfunc alloc = (allocfunc)PyType_GetSlot((PyTypeObject *)py_handle_type, Py_tp_alloc);
    struct handle *handle = (struct handle *)(void *)alloc((PyTypeObject *)py_handle_type, 0);

    if (handle == NULL) {
        mooncake_free(data);
        return NULL;
    }
    handle->data = data;
    handle->len = len;
    return (PyObject *)handle;
}

static void handle_dealloc(PyObject *self)
{
    struct handle *handle = (struct handle *)(void *)self;
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    mooncake_free(handle->data);
    release(self);
    Py_DECREF(type);
}

static PyObject *handle_ptr(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromVoidPtr(((struct handle *)(void *)self)->data);
}

static PyObject *handle_size(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(((struct handle *)(void *)self)->len);
}

static Py_ssize_t handle_length(PyObject *self)
{
    return (Py_ssize_t)((struct handle *)(void *)self)->len;
}

/* Format 'c', one dimension, as the C++ package exports it. Writable: the memory is the caller's
 * own copy. */
static int handle_get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    static char format[] = "c";
    struct handle *handle = (struct handle *)(void *)self;

    if (PyBuffer_FillInfo(view, self, handle->data, (Py_ssize_t)handle->len, 0, flags) != 0) {
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

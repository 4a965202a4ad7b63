/*
 * Python objects to the arrays that the C library takes, and results back. Lists of a quarter of a
 * million addresses pass through here in one call, so each element costs one fetch and one number.
 */
#include <string.h>

#include "py_store.h"

/* A copy of this many bytes lets other threads run. */
#define COPY_UNLOCKED_MIN (256u << 10)

/* ---- keys ---------------------------------------------------------------------------------- */

const char *py_key(PyObject *object)
{
    const char *text;
    Py_ssize_t len;

    if (PyUnicode_Check(object)) {
        text = PyUnicode_AsUTF8AndSize(object, &len);
        if (text == NULL && PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
            PyErr_Clear(); /* lone surrogates: no key can look like that */
            return "";
        }
    } else if (PyBytes_Check(object)) {
        text = PyBytes_AsString(object);
        len = PyBytes_Size(object);
    } else {
        PyErr_SetString(PyExc_TypeError, "a key must be str or bytes");
        return NULL;
    }
    if (text == NULL) {
        return NULL;
    }
    return strlen(text) == (size_t)len ? text : "";
}

PyObject *py_tuple_from(PyObject *object, const char *what)
{
    PyObject *tuple;

    if (PyUnicode_Check(object) || PyBytes_Check(object)) {
        PyErr_Format(PyExc_TypeError, "%s must be a list, not a single value", what);
        return NULL;
    }
    tuple = PySequence_Tuple(object);
    if (tuple == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Format(PyExc_TypeError, "%s must be a list", what);
    }
    return tuple;
}

bool py_keys_from(PyObject *object, const char *what, struct py_keys *out)
{
    memset(out, 0, sizeof(*out));
    out->owner = py_tuple_from(object, what); /* others may change the list while we wait */
    if (out->owner == NULL) {
        return false;
    }
    out->count = (size_t)PyTuple_Size(out->owner);
    out->items = PyMem_Malloc((out->count + 1) * sizeof(*out->items));
    if (out->items == NULL) {
        PyErr_NoMemory();
        py_keys_free(out);
        return false;
    }
    for (size_t i = 0; i < out->count; i++) {
        out->items[i] = py_key(PyTuple_GetItem(out->owner, (Py_ssize_t)i));
        if (out->items[i] == NULL) {
            py_keys_free(out);
            return false;
        }
    }
    return true;
}

void py_keys_free(struct py_keys *keys)
{
    PyMem_Free((void *)keys->items);
    Py_XDECREF(keys->owner);
    memset(keys, 0, sizeof(*keys));
}

/* ---- numbers ------------------------------------------------------------------------------- */

static bool numbers_alloc(struct py_numbers *out, size_t count)
{
    out->count = count;
    out->items = PyMem_Malloc((count + 1) * sizeof(*out->items));
    if (out->items == NULL) {
        PyErr_NoMemory();
        return false;
    }
    return true;
}

/* Python's own function for 64 bits on every system is several times as slow with addresses. */
_Static_assert(sizeof(unsigned long) == sizeof(uint64_t), "an address is an unsigned long");

bool py_number(PyObject *object, const char *what, uint64_t *out)
{
    unsigned long number = PyLong_AsUnsignedLong(object);

    if (number == (unsigned long)-1 && PyErr_Occurred()) {
        PyObject *index = NULL;

        PyErr_Clear();
        Py_INCREF(object); /* its __index__ may drop it from the list we have it from */
        if (!PyLong_Check(object)) {
            index = PyNumber_Index(object); /* numpy's integers are no ints */
        }
        Py_DECREF(object);
        number = index == NULL ? 0 : PyLong_AsUnsignedLong(index);
        Py_XDECREF(index);
        if (index == NULL || PyErr_Occurred()) {
            PyErr_Format(PyExc_TypeError, "%s: integers from 0 to 2^64-1 are expected", what);
            return false;
        }
    }
    *out = number;
    return true;
}

/* Is this one 64-bit integer in native order? */
static bool is_word_format(const char *format)
{
    if (format == NULL) {
        return false;
    }
    if (format[0] == '@' || format[0] == '=' || format[0] == '<') {
        format++;
    }
    return format[0] != '\0' && strchr("lLqQnN", format[0]) != NULL && format[1] == '\0';
}

static bool numbers_from_buffer(PyObject *object, const char *what, struct py_numbers *out)
{
    Py_buffer view;
    bool done = false;

    if (PyObject_GetBuffer(object, &view, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) != 0) {
        return false;
    }
    if (view.ndim != 1 || view.itemsize != (Py_ssize_t)sizeof(uint64_t) ||
        !is_word_format(view.format)) {
        PyErr_Format(PyExc_TypeError, "%s must be one-dimensional and of 64-bit integers", what);
    } else if (numbers_alloc(out, (size_t)view.len / sizeof(uint64_t))) {
        memcpy(out->items, view.buf, (size_t)view.len);
        done = true;
    }
    PyBuffer_Release(&view);
    return done;
}

static bool numbers_from_items(PyObject *object, const char *what, struct py_numbers *out)
{
    bool is_list = PyList_Check(object);
    size_t count = (size_t)(is_list ? PyList_Size(object) : PyTuple_Size(object));

    if (!numbers_alloc(out, count)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        /* __index__ of an odd element could shrink the list: the getters check bounds. */
        PyObject *item = is_list ? PyList_GetItem(object, (Py_ssize_t)i)
                                 : PyTuple_GetItem(object, (Py_ssize_t)i);

        if (item == NULL || !py_number(item, what, &out->items[i])) {
            py_numbers_free(out);
            return false;
        }
    }
    return true;
}

bool py_numbers_from(PyObject *object, const char *what, struct py_numbers *out)
{
    PyObject *tuple;
    bool done;

    memset(out, 0, sizeof(*out));
    if (PyList_Check(object) || PyTuple_Check(object)) {
        return numbers_from_items(object, what, out);
    }
    if (!PyBytes_Check(object) && PyObject_CheckBuffer(object)) {
        return numbers_from_buffer(object, what, out);
    }
    tuple = PySequence_Tuple(object);
    if (tuple == NULL) {
        if (PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Format(PyExc_TypeError, "%s must be a list of integers", what);
        }
        return false;
    }
    done = numbers_from_items(tuple, what, out);
    Py_DECREF(tuple);
    return done;
}

void py_numbers_free(struct py_numbers *numbers)
{
    PyMem_Free(numbers->items);
    memset(numbers, 0, sizeof(*numbers));
}

/* ---- results ------------------------------------------------------------------------------- */

/* Neighbours are alike as a rule, so they share one object: a batch's results cost no allocations.
 */
struct number_list {
    PyObject *list;
    PyObject *last; /* borrowed from the list */
    long long last_value;
};

/* Element @p i, in order. False with an error, and without a list. */
static bool set_number(struct number_list *numbers, size_t i, long long value)
{
    PyObject *item = numbers->last;

    if (item != NULL && numbers->last_value == value) {
        Py_INCREF(item);
    } else {
        item = PyLong_FromLongLong(value);
        if (item == NULL) {
            Py_CLEAR(numbers->list);
            return false;
        }
        numbers->last = item;
        numbers->last_value = value;
    }
    (void)PyList_SetItem(numbers->list, (Py_ssize_t)i, item);
    return true;
}

PyObject *py_list_of_codes(const mooncake_err *codes, const uint64_t *lens, size_t count)
{
    struct number_list numbers = {.list = PyList_New((Py_ssize_t)count)};

    for (size_t i = 0; numbers.list != NULL && i < count; i++) {
        bool is_len = codes[i] == MOONCAKE_OK && lens != NULL;

        if (!set_number(&numbers, i, is_len ? (long long)lens[i] : (long long)codes[i])) {
            break;
        }
    }
    return numbers.list;
}

PyObject *py_list_of_one(long code, size_t count)
{
    struct number_list numbers = {.list = PyList_New((Py_ssize_t)count)};

    for (size_t i = 0; numbers.list != NULL && i < count; i++) {
        if (!set_number(&numbers, i, code)) {
            break;
        }
    }
    return numbers.list;
}

int py_truth(PyObject *object, int fallback)
{
    return object == NULL || object == Py_None ? fallback : PyObject_IsTrue(object);
}

PyObject *py_bytes_taking(void *data, uint64_t len)
{
    size_t size = data == NULL ? 0 : (size_t)len;
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);

    if (bytes != NULL && size < COPY_UNLOCKED_MIN) {
        memcpy(PyBytes_AsString(bytes), data == NULL ? "" : data, size);
        mooncake_free(data);
    } else if (bytes != NULL) { /* nobody else knows these bytes yet */
        char *target = PyBytes_AsString(bytes);

        PY_UNLOCKED(memcpy(target, data, size); mooncake_free(data));
    } else {
        mooncake_free(data);
    }
    return bytes;
}

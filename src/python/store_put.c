/* Puts and upserts of one key, of values in parts, and of lists of values. Codes come back, they
 * are never raised: an exception would end an engine's I/O thread for good. Wrong types raise
 * TypeError. */
#include "py_store.h"

/* What a put and its upsert differ in. */
struct put_kind {
    const struct py_params *params;
    bool upsert;
};

/* Objects that speak the buffer protocol, held while their bytes are on the way. */
struct views {
    Py_buffer *items;
    size_t count;
    uint64_t bytes;
};

static void views_free(struct views *views)
{
    for (size_t i = 0; i < views->count; i++) {
        PyBuffer_Release(&views->items[i]);
    }
    PyMem_Free(views->items);
}

static bool views_room(struct views *out, size_t count)
{
    out->count = 0;
    out->bytes = 0;
    out->items = PyMem_Calloc(count + 1, sizeof(*out->items));
    if (out->items == NULL) {
        PyErr_NoMemory();
        return false;
    }
    return true;
}

static bool views_add(struct views *views, PyObject *object)
{
    if (PyObject_GetBuffer(object, &views->items[views->count], PyBUF_SIMPLE) != 0) {
        return false;
    }
    views->bytes += (uint64_t)views->items[views->count].len;
    views->count++;
    return true;
}

/* ---- one value ------------------------------------------------------------------------------ */

/* An empty value is refused, as in the C++ package. */
static PyObject *put_view(PyObject *self, const char *key, const Py_buffer *view, PyObject *config,
                          bool upsert)
{
    struct py_session *session = py_session_enter(self);
    struct py_put_options options;
    mooncake_err err;

    if (session == NULL) {
        return PyLong_FromLong(PY_NOT_SET_UP);
    }
    if (!py_put_options_from(config, upsert, py_session_hostname(session), &options)) {
        py_session_leave(session);
        return NULL;
    }
    if (view->len == 0) {
        err = MOONCAKE_EINVAL;
    } else {
        PY_UNLOCKED(err = mooncake_put(py_session_client(session), key, view->buf,
                                       (uint64_t)view->len, &options.options, 0));
    }
    py_put_options_free(&options);
    py_session_leave(session);
    return PyLong_FromLong(py_put_code(err, upsert));
}

static PyObject *put_value(PyObject *self, const struct put_kind *kind, PyObject *const *args,
                           Py_ssize_t nargs, PyObject *kwnames)
{
    PyObject *v[PY_PARAMS_MAX];
    PyObject *result;
    Py_buffer view;
    const char *key;

    if (!py_parse_args(kind->params, args, nargs, kwnames, v)) {
        return NULL;
    }
    key = py_key(v[0]);
    if (key == NULL || PyObject_GetBuffer(v[1], &view, PyBUF_SIMPLE) != 0) {
        return NULL;
    }
    result = put_view(self, key, &view, v[2], kind->upsert);
    PyBuffer_Release(&view);
    return result;
}

static const struct py_params put_params = {
    .method = "put", .names = {"key", "value", "config"}, .required = 2};
static const struct py_params upsert_params = {
    .method = "upsert", .names = {"key", "value", "config"}, .required = 2};

static PyObject *store_put(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                           PyObject *kwnames)
{
    static const struct put_kind kind = {&put_params, false};

    return put_value(self, &kind, args, nargs, kwnames);
}

static PyObject *store_upsert(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                              PyObject *kwnames)
{
    static const struct put_kind kind = {&upsert_params, true};

    return put_value(self, &kind, args, nargs, kwnames);
}

/* ---- one range of memory -------------------------------------------------------------------- */

static PyObject *put_memory(PyObject *self, const struct put_kind *kind, PyObject *const *args,
                            Py_ssize_t nargs, PyObject *kwnames)
{
    PyObject *v[PY_PARAMS_MAX];
    struct py_put_options options;
    struct py_session *session;
    const char *key;
    uint64_t address, size;
    mooncake_err err = MOONCAKE_OK;

    if (!py_parse_args(kind->params, args, nargs, kwnames, v)) {
        return NULL;
    }
    key = py_key(v[0]);
    if (key == NULL || !py_number(v[1], "buffer_ptr", &address) ||
        !py_number(v[2], "size", &size)) {
        return NULL;
    }
    session = py_session_enter(self);
    if (session == NULL) {
        return PyLong_FromLong(PY_NOT_SET_UP);
    }
    if (!py_put_options_from(v[3], kind->upsert, py_session_hostname(session), &options)) {
        py_session_leave(session);
        return NULL;
    }
    if (size > 0) { /* nothing to store is done at once */
        PY_UNLOCKED(err = mooncake_put(py_session_client(session), key, py_pointer(address), size,
                                       &options.options, 0));
    }
    py_put_options_free(&options);
    py_session_leave(session);
    return PyLong_FromLong(py_put_code(err, kind->upsert));
}

static const struct py_params put_from_params = {
    .method = "put_from", .names = {"key", "buffer_ptr", "size", "config"}, .required = 3};
static const struct py_params upsert_from_params = {
    .method = "upsert_from", .names = {"key", "buffer_ptr", "size", "config"}, .required = 3};

static PyObject *store_put_from(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                PyObject *kwnames)
{
    static const struct put_kind kind = {&put_from_params, false};

    return put_memory(self, &kind, args, nargs, kwnames);
}

static PyObject *store_upsert_from(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                   PyObject *kwnames)
{
    static const struct put_kind kind = {&upsert_from_params, true};

    return put_memory(self, &kind, args, nargs, kwnames);
}

/* ---- one value in parts --------------------------------------------------------------------- */

/* The config among the keyword arguments, the only one there may be. False with a TypeError. */
static bool only_config(const char *method, PyObject *const *args, Py_ssize_t nargs,
                        PyObject *kwnames, PyObject **out)
{
    Py_ssize_t count = kwnames == NULL ? 0 : PyTuple_Size(kwnames);

    *out = NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *name = PyTuple_GetItem(kwnames, i);

        if (PyUnicode_CompareWithASCIIString(name, "config") != 0) {
            PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", method,
                         name);
            return false;
        }
        *out = args[nargs + i];
    }
    return true;
}

static mooncake_err put_views(struct py_session *session, const char *key,
                              const struct views *views, const struct py_put_options *options)
{
    mooncake_piece *pieces = PyMem_Calloc(views->count + 1, sizeof(*pieces));
    mooncake_err err;

    if (pieces == NULL) {
        return MOONCAKE_ENOMEM;
    }
    for (size_t i = 0; i < views->count; i++) {
        pieces[i].data = views->items[i].buf;
        pieces[i].len = (uint64_t)views->items[i].len;
    }
    PY_UNLOCKED(err = mooncake_put_pieces(py_session_client(session), key, pieces, views->count,
                                          &options->options, 0));
    PyMem_Free(pieces);
    return err;
}

static PyObject *put_parts_of(PyObject *self, const char *key, const struct views *views,
                              PyObject *config, bool upsert)
{
    struct py_session *session = py_session_enter(self);
    struct py_put_options options;
    mooncake_err err;

    if (session == NULL) {
        return PyLong_FromLong(PY_NOT_SET_UP);
    }
    if (!py_put_options_from(config, upsert, py_session_hostname(session), &options)) {
        py_session_leave(session);
        return NULL;
    }
    err = views->bytes == 0 ? MOONCAKE_EINVAL : put_views(session, key, views, &options);
    py_put_options_free(&options);
    py_session_leave(session);
    return PyLong_FromLong(py_put_code(err, upsert));
}

static PyObject *put_parts(PyObject *self, const struct put_kind *kind, PyObject *const *args,
                           Py_ssize_t nargs, PyObject *kwnames)
{
    const char *method = kind->params->method;
    struct views views;
    PyObject *config;
    PyObject *result = NULL;
    const char *key;
    bool held = true;

    if (nargs < 1) {
        PyErr_Format(PyExc_TypeError, "%s() missing required argument: 'key'", method);
        return NULL;
    }
    key = py_key(args[0]);
    if (key == NULL || !only_config(method, args, nargs, kwnames, &config) ||
        !views_room(&views, (size_t)nargs)) {
        return NULL;
    }
    for (Py_ssize_t i = 1; i < nargs && held; i++) {
        held = views_add(&views, args[i]);
    }
    if (held) {
        result = put_parts_of(self, key, &views, config, kind->upsert);
    }
    views_free(&views);
    return result;
}

static const struct py_params put_parts_params = {.method = "put_parts"};
static const struct py_params upsert_parts_params = {.method = "upsert_parts"};

static PyObject *store_put_parts(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                 PyObject *kwnames)
{
    static const struct put_kind kind = {&put_parts_params, false};

    return put_parts(self, &kind, args, nargs, kwnames);
}

static PyObject *store_upsert_parts(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                    PyObject *kwnames)
{
    static const struct put_kind kind = {&upsert_parts_params, true};

    return put_parts(self, &kind, args, nargs, kwnames);
}

/* ---- a list of values ----------------------------------------------------------------------- */

/* Put what was viewed; the first code that is no success, or 0. */
static long put_batch_views(struct py_session *session, const struct py_keys *keys,
                            const struct views *views, const struct py_put_options *options)
{
    size_t count = keys->count;
    const void **data = PyMem_Calloc(count + 1, sizeof(*data));
    uint64_t *lens = PyMem_Calloc(count + 1, sizeof(*lens));
    mooncake_err *results = PyMem_Calloc(count + 1, sizeof(*results));
    long code = MOONCAKE_ENOMEM;

    if (data != NULL && lens != NULL && results != NULL) {
        for (size_t i = 0; i < count; i++) {
            data[i] = views->items[i].buf;
            lens[i] = (uint64_t)views->items[i].len;
        }
        PY_UNLOCKED((void)mooncake_batch_put(py_session_client(session), keys->items, data, lens,
                                             count, &options->options, 0, results));
        code = 0;
        for (size_t i = 0; i < count && code == 0; i++) {
            code = py_put_code(results[i], options->options.upsert);
        }
    }
    PyMem_Free((void *)data);
    PyMem_Free(lens);
    PyMem_Free(results);
    return code;
}

static bool views_of_list(PyObject *values, struct views *out)
{
    PyObject *tuple = py_tuple_from(values, "values"); /* others may change the list meanwhile */
    Py_ssize_t count;
    bool held;

    if (tuple == NULL) {
        return false;
    }
    count = PyTuple_Size(tuple);
    held = views_room(out, (size_t)count);
    if (held) {
        for (Py_ssize_t i = 0; i < count && held; i++) {
            held = views_add(out, PyTuple_GetItem(tuple, i));
        }
        if (!held) {
            views_free(out);
        }
    }
    Py_DECREF(tuple); /* each view holds its object */
    return held;
}

static PyObject *put_batch(PyObject *self, const struct put_kind *kind, PyObject *const *args,
                           Py_ssize_t nargs, PyObject *kwnames)
{
    PyObject *v[PY_PARAMS_MAX];
    PyObject *result = NULL;
    struct py_put_options options;
    struct py_session *session;
    struct py_keys keys;
    struct views views;

    if (!py_parse_args(kind->params, args, nargs, kwnames, v) ||
        !py_keys_from(v[0], "keys", &keys)) {
        return NULL;
    }
    if (!views_of_list(v[1], &views)) {
        py_keys_free(&keys);
        return NULL;
    }
    session = py_session_enter(self);
    if (session == NULL || views.count != keys.count) {
        result = PyLong_FromLong(MOONCAKE_EINVAL);
    } else if (py_put_options_from(v[2], kind->upsert, py_session_hostname(session), &options)) {
        result = PyLong_FromLong(put_batch_views(session, &keys, &views, &options));
        py_put_options_free(&options);
    }
    py_session_leave(session);
    views_free(&views);
    py_keys_free(&keys);
    return result;
}

static const struct py_params put_batch_params = {
    .method = "put_batch", .names = {"keys", "values", "config"}, .required = 2};
static const struct py_params upsert_batch_params = {
    .method = "upsert_batch", .names = {"keys", "values", "config"}, .required = 2};

static PyObject *store_put_batch(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                 PyObject *kwnames)
{
    static const struct put_kind kind = {&put_batch_params, false};

    return put_batch(self, &kind, args, nargs, kwnames);
}

static PyObject *store_upsert_batch(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                    PyObject *kwnames)
{
    static const struct put_kind kind = {&upsert_batch_params, true};

    return put_batch(self, &kind, args, nargs, kwnames);
}

PyMethodDef py_store_put_methods[] = {
    PY_METHOD("put", store_put,
              "put($self, key, value, config=None)\n--\n\nStore one value. Returns 0 also when "
              "the key exists (the first value stays)."),
    PY_METHOD("upsert", store_upsert,
              "upsert($self, key, value, config=None)\n--\n\nAs put, but the new value replaces "
              "a stored one."),
    PY_METHOD("put_from", store_put_from,
              "put_from($self, key, buffer_ptr, size, config=None)\n--\n\nAs put, from memory."),
    PY_METHOD("upsert_from", store_upsert_from,
              "upsert_from($self, key, buffer_ptr, size, config=None)\n--\n\n"
              "As upsert, from memory."),
    PY_METHOD("put_parts", store_put_parts,
              "put_parts($self, key, *parts, config=None)\n--\n\n"
              "Store the parts laid end to end."),
    PY_METHOD("upsert_parts", store_upsert_parts,
              "upsert_parts($self, key, *parts, config=None)\n--\n\n"
              "Store or replace by the parts laid end to end."),
    PY_METHOD("put_batch", store_put_batch,
              "put_batch($self, keys, values, config=None)\n--\n\n"
              "0, or the first code that is no success."),
    PY_METHOD("upsert_batch", store_upsert_batch,
              "upsert_batch($self, keys, values, config=None)\n--\n\n"
              "As put_batch; new values replace stored ones."),
    {NULL, NULL, 0, NULL},
};

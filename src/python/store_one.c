/* Methods about one key. Codes come back, they are never raised: an exception would end an engine's
 * I/O thread for good. Wrong types raise TypeError. */
#include "py_store.h"

/* The common start of the methods that take a key only. */
static const char *only_key(const char *method, PyObject *const *args, Py_ssize_t nargs,
                            PyObject *kwnames)
{
    struct py_params params = {.method = method, .names = {"key"}, .required = 1};
    PyObject *v[PY_PARAMS_MAX];

    return py_parse_args(&params, args, nargs, kwnames, v) ? py_key(v[0]) : NULL;
}

/* ---- get ----------------------------------------------------------------------------------- */

static PyObject *store_get(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                           PyObject *kwnames)
{
    const char *key = only_key("get", args, nargs, kwnames);
    struct py_session *session;
    void *data = NULL;
    uint64_t len = 0;

    if (key == NULL) {
        return NULL;
    }
    session = py_session_enter(self);
    if (session != NULL) {
        mooncake_err err;

        PY_UNLOCKED(err = mooncake_get(py_session_client(session), key, 0, &data, &len));
        if (err != MOONCAKE_OK) {
            data = NULL;
            len = 0;
        }
        py_session_leave(session);
    }
    return py_bytes_taking(data, len);
}

static PyObject *store_get_buffer(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                  PyObject *kwnames)
{
    const char *key = only_key("get_buffer", args, nargs, kwnames);
    struct py_session *session;
    mooncake_view *view = NULL;
    mooncake_err err;

    if (key == NULL) {
        return NULL;
    }
    session = py_session_enter(self);
    if (session == NULL) {
        Py_RETURN_NONE;
    }
    PY_UNLOCKED(err = mooncake_get_view(py_session_client(session), key, NULL, 0, &view));
    py_session_leave(session);
    if (err != MOONCAKE_OK) {
        Py_RETURN_NONE;
    }
    return py_handle_of_view(view);
}

static const struct py_params get_into_params = {
    .method = "get_into", .names = {"key", "buffer_ptr", "size"}, .required = 3};

static PyObject *store_get_into(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                PyObject *kwnames)
{
    PyObject *v[PY_PARAMS_MAX];
    struct py_session *session;
    const char *key;
    uint64_t address, size;
    uint64_t len = 0;
    mooncake_err err;

    if (!py_parse_args(&get_into_params, args, nargs, kwnames, v)) {
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
    PY_UNLOCKED(err = mooncake_get_into(py_session_client(session), key, py_pointer(address), size,
                                        0, &len));
    py_session_leave(session);
    return err == MOONCAKE_OK ? PyLong_FromUnsignedLongLong(len) : PyLong_FromLong(err);
}

/* ---- questions ----------------------------------------------------------------------------- */

static PyObject *store_get_size(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                PyObject *kwnames)
{
    const char *key = only_key("get_size", args, nargs, kwnames);
    struct py_session *session;
    uint64_t len = 0;
    mooncake_err err;

    if (key == NULL) {
        return NULL;
    }
    session = py_session_enter(self);
    if (session == NULL) {
        return PyLong_FromLong(PY_NOT_SET_UP);
    }
    PY_UNLOCKED(err = mooncake_size(py_session_client(session), key, 0, &len));
    py_session_leave(session);
    return err == MOONCAKE_OK ? PyLong_FromUnsignedLongLong(len) : PyLong_FromLong(err);
}

/* LMCache reads the answer as a truth value, so trouble with the pool must read as a miss; only the
 * caller's own mistake (a bad key) is a negative code. */
static PyObject *store_is_exist(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                PyObject *kwnames)
{
    const char *key = only_key("is_exist", args, nargs, kwnames);
    struct py_session *session;
    bool exists = false;
    mooncake_err err;

    if (key == NULL) {
        return NULL;
    }
    session = py_session_enter(self);
    if (session == NULL) {
        return PyLong_FromLong(0);
    }
    PY_UNLOCKED(err = mooncake_exist(py_session_client(session), key, 0, &exists));
    py_session_report(session, "is_exist", err);
    py_session_leave(session);
    return PyLong_FromLong(err == MOONCAKE_EBADKEY ? (long)err : err == MOONCAKE_OK && exists);
}

/* Runs without the interpreter lock, and takes it. */
static void list_replicas(void *arg, const mooncake_key_status *status)
{
    PyObject **list = arg;
    PyGILState_STATE lock = PyGILState_Ensure();
    PyObject *readable = PyBool_FromLong(status->state[0] == 'r');

    for (size_t i = 0; *list != NULL && i < status->extents_count; i++) {
        const mooncake_extent_status *extent = &status->extents[i];
        PyObject *item;

        if (extent->slice > 0) {
            continue; /* told by its first extent */
        }
        item = Py_BuildValue("(OKKs)", readable, (unsigned long long)status->len,
                             (unsigned long long)extent->offset, extent->segment);
        if (item == NULL || PyList_Append(*list, item) != 0) {
            Py_CLEAR(*list);
        }
        Py_XDECREF(item);
    }
    Py_DECREF(readable);
    PyGILState_Release(lock);
}

static PyObject *store_replicas(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                PyObject *kwnames)
{
    const char *key = only_key("get_replica_desc", args, nargs, kwnames);
    struct py_session *session;
    PyObject *list;

    if (key == NULL) {
        return NULL;
    }
    list = PyList_New(0);
    session = list == NULL ? NULL : py_session_enter(self);
    if (session != NULL) { /* an error is a miss: the list stays empty */
        PY_UNLOCKED(
            (void)mooncake_admin_key(py_session_client(session), key, 0, list_replicas, &list));
        py_session_leave(session);
    }
    return list;
}

/* ---- removal ------------------------------------------------------------------------------- */

static const struct py_params remove_params = {
    .method = "remove", .names = {"key", "force"}, .required = 1};

static PyObject *store_remove(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                              PyObject *kwnames)
{
    PyObject *v[PY_PARAMS_MAX];
    struct py_session *session;
    const char *key;
    mooncake_err err;
    int force;

    if (!py_parse_args(&remove_params, args, nargs, kwnames, v)) {
        return NULL;
    }
    key = py_key(v[0]);
    force = key == NULL ? -1 : py_truth(v[1], 0);
    if (force < 0) {
        return NULL;
    }
    session = py_session_enter(self);
    if (session == NULL) {
        return PyLong_FromLong(PY_NOT_SET_UP);
    }
    PY_UNLOCKED(err = mooncake_remove(py_session_client(session), key, force != 0, 0));
    py_session_leave(session);
    return PyLong_FromLong(err);
}

static const struct py_params remove_all_params = {
    .method = "remove_all", .names = {"force"}, .required = 0};

static PyObject *store_remove_all(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                  PyObject *kwnames)
{
    PyObject *v[PY_PARAMS_MAX];
    struct py_session *session;
    uint64_t removed = 0;
    mooncake_err err;
    int force;

    if (!py_parse_args(&remove_all_params, args, nargs, kwnames, v)) {
        return NULL;
    }
    force = py_truth(v[0], 0);
    if (force < 0) {
        return NULL;
    }
    session = py_session_enter(self);
    if (session == NULL) {
        return PyLong_FromLong(PY_NOT_SET_UP);
    }
    PY_UNLOCKED(err =
                    mooncake_remove_all(py_session_client(session), force != 0, 0, &removed, NULL));
    py_session_leave(session);
    return err == MOONCAKE_OK ? PyLong_FromUnsignedLongLong(removed) : PyLong_FromLong(err);
}

static const struct py_params remove_by_regex_params = {
    .method = "remove_by_regex", .names = {"regex_pattern", "force"}, .required = 1};

static PyObject *store_remove_by_regex(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                       PyObject *kwnames)
{
    PyObject *v[PY_PARAMS_MAX];
    struct py_session *session;
    const char *pattern;
    uint64_t removed = 0;
    mooncake_err err;
    int force;

    if (!py_parse_args(&remove_by_regex_params, args, nargs, kwnames, v)) {
        return NULL;
    }
    pattern = py_key(v[0]);
    force = pattern == NULL ? -1 : py_truth(v[1], 0);
    if (force < 0) {
        return NULL;
    }
    session = py_session_enter(self);
    if (session == NULL) {
        return PyLong_FromLong(PY_NOT_SET_UP);
    }
    PY_UNLOCKED(err = mooncake_remove_matching(py_session_client(session), pattern, force != 0, 0,
                                               &removed, NULL));
    py_session_leave(session);
    return err == MOONCAKE_OK ? PyLong_FromUnsignedLongLong(removed) : PyLong_FromLong(err);
}

PyMethodDef py_store_one_methods[] = {
    PY_METHOD("get", store_get, "get($self, key)\n--\n\nThe value as bytes; b'' is a miss."),
    PY_METHOD(
        "get_buffer", store_get_buffer,
        "get_buffer($self, key)\n--\n\nThe value as a read-only BufferHandle, in place in shared "
        "memory where it can be; None is a miss."),
    PY_METHOD("get_into", store_get_into,
              "get_into($self, key, buffer_ptr, size)\n--\n\nRead into memory. Returns the "
              "value's length or a negative code."),
    PY_METHOD("get_size", store_get_size,
              "get_size($self, key)\n--\n\nThe value's length or a negative code."),
    PY_METHOD("is_exist", store_is_exist, "is_exist($self, key)\n--\n\n1 readable, 0 not."),
    PY_METHOD("_replicas", store_replicas,
              "_replicas($self, key)\n--\n\nPer copy: readable, size, offset, segment."),
    PY_METHOD("remove", store_remove,
              "remove($self, key, force=False)\n--\n\n0 or a negative code."),
    PY_METHOD("remove_all", store_remove_all,
              "remove_all($self, force=False)\n--\n\nNumber removed or a negative code."),
    PY_METHOD("remove_by_regex", store_remove_by_regex,
              "remove_by_regex($self, regex_pattern, force=False)\n--\n\n"
              "Number removed or a negative code."),
    {NULL, NULL, 0, NULL},
};

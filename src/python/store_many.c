/* Batches with one memory range a key. One code per key in input order; a call that cannot be made
 * at all gives its code in every slot. */
#include <string.h>

#include "py_store.h"

/* A batch between Python and the library. */
struct batch {
    struct py_session *session;
    struct py_keys keys;
    struct py_numbers pointers, sizes;
    mooncake_err *results; /* one a key */
    uint64_t *lens;        /* one a key, for reads */
};

static void batch_free(struct batch *batch)
{
    PyMem_Free(batch->results);
    PyMem_Free(batch->lens);
    py_numbers_free(&batch->pointers);
    py_numbers_free(&batch->sizes);
    py_keys_free(&batch->keys);
    py_session_leave(batch->session);
}

static bool batch_room(struct batch *batch)
{
    size_t count = batch->keys.count + 1;

    batch->results = PyMem_Malloc(count * sizeof(*batch->results));
    batch->lens = PyMem_Calloc(count, sizeof(*batch->lens));
    if (batch->results == NULL || batch->lens == NULL) {
        PyErr_NoMemory();
        return false;
    }
    return true;
}

/* Keys, and ranges unless @p pointers is NULL. */
static bool batch_init(struct batch *batch, PyObject *self, PyObject *keys, PyObject *pointers,
                       PyObject *sizes)
{
    memset(batch, 0, sizeof(*batch));
    if (!py_keys_from(keys, "keys", &batch->keys) ||
        (pointers != NULL && (!py_numbers_from(pointers, "buffer_ptrs", &batch->pointers) ||
                              !py_numbers_from(sizes, "sizes", &batch->sizes))) ||
        !batch_room(batch)) {
        batch_free(batch);
        return false;
    }
    batch->session = py_session_enter(self);
    return true;
}

/* Can the library be asked at all: set up, and as many ranges as keys? */
static bool batch_is_callable(const struct batch *batch)
{
    return batch->session != NULL && batch->pointers.count == batch->keys.count &&
           batch->sizes.count == batch->keys.count;
}

static void first_writer_wins(mooncake_err *results, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        results[i] = results[i] == MOONCAKE_EEXIST ? MOONCAKE_OK : results[i];
    }
}

/* ---- ranges -------------------------------------------------------------------------------- */

static const struct py_params put_from_params = {
    .method = "batch_put_from", .names = {"keys", "buffer_ptrs", "sizes", "config"}, .required = 3};

static const struct py_params upsert_from_params = {
    .method = "batch_upsert_from",
    .names = {"keys", "buffer_ptrs", "sizes", "config"},
    .required = 3};

static PyObject *put_from(PyObject *self, const struct py_params *params, PyObject *const *args,
                          Py_ssize_t nargs, PyObject *kwnames)
{
    bool upsert = params == &upsert_from_params;
    PyObject *v[PY_PARAMS_MAX];
    PyObject *list = NULL;
    struct py_put_options options;
    struct batch b;

    if (!py_parse_args(params, args, nargs, kwnames, v) ||
        !batch_init(&b, self, v[0], v[1], v[2])) {
        return NULL;
    }
    if (!batch_is_callable(&b)) {
        list = py_list_of_one(MOONCAKE_EINVAL, b.keys.count);
    } else if (py_put_options_from(v[3], upsert, py_session_hostname(b.session), &options)) {
        PY_UNLOCKED((void)mooncake_batch_put(py_session_client(b.session), b.keys.items,
                                             (const void *const *)b.pointers.items, b.sizes.items,
                                             b.keys.count, &options.options, 0, b.results));
        py_put_options_free(&options);
        if (!upsert) {
            first_writer_wins(b.results, b.keys.count);
        }
        list = py_list_of_codes(b.results, NULL, b.keys.count);
    }
    batch_free(&b);
    return list;
}

static PyObject *store_batch_put_from(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                      PyObject *kwnames)
{
    return put_from(self, &put_from_params, args, nargs, kwnames);
}

static PyObject *store_batch_upsert_from(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                         PyObject *kwnames)
{
    return put_from(self, &upsert_from_params, args, nargs, kwnames);
}

static const struct py_params get_into_params = {
    .method = "batch_get_into", .names = {"keys", "buffer_ptrs", "sizes"}, .required = 3};

static PyObject *store_batch_get_into(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                      PyObject *kwnames)
{
    PyObject *v[PY_PARAMS_MAX];
    PyObject *list;
    struct batch b;

    if (!py_parse_args(&get_into_params, args, nargs, kwnames, v) ||
        !batch_init(&b, self, v[0], v[1], v[2])) {
        return NULL;
    }
    if (!batch_is_callable(&b)) {
        list = py_list_of_one(MOONCAKE_EINVAL, b.keys.count);
    } else {
        PY_UNLOCKED((void)mooncake_batch_get_into(py_session_client(b.session), b.keys.items,
                                                  (void *const *)b.pointers.items, b.sizes.items,
                                                  b.keys.count, 0, b.results, b.lens));
        list = py_list_of_codes(b.results, b.lens, b.keys.count);
    }
    batch_free(&b);
    return list;
}

/* ---- keys only ----------------------------------------------------------------------------- */

static const struct py_params exist_params = {
    .method = "batch_is_exist", .names = {"keys"}, .required = 1};

static PyObject *store_batch_is_exist(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                      PyObject *kwnames)
{
    PyObject *v[PY_PARAMS_MAX];
    PyObject *list;
    struct batch b;
    mooncake_err err;

    if (!py_parse_args(&exist_params, args, nargs, kwnames, v) ||
        !batch_init(&b, self, v[0], NULL, NULL)) {
        return NULL;
    }
    for (size_t i = 0; i < b.keys.count; i++) {
        b.results[i] = MOONCAKE_ENOENT;
    }
    if (b.session != NULL) {
        PY_UNLOCKED(err = mooncake_batch_exist(py_session_client(b.session), b.keys.items,
                                               b.keys.count, 0, b.results));
        py_session_report(b.session, "batch_is_exist", err);
    }
    list = PyList_New((Py_ssize_t)b.keys.count);
    for (size_t i = 0; list != NULL && i < b.keys.count; i++) {
        PyObject *item = PyLong_FromLong(b.results[i] == MOONCAKE_EBADKEY ? (long)b.results[i]
                                                                          : b.results[i] == 0);

        if (item == NULL) {
            Py_CLEAR(list);
            break;
        }
        (void)PyList_SetItem(list, (Py_ssize_t)i, item);
    }
    batch_free(&b);
    return list;
}

static const struct py_params remove_params = {
    .method = "batch_remove", .names = {"keys", "force"}, .required = 1};

static PyObject *store_batch_remove(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                    PyObject *kwnames)
{
    PyObject *v[PY_PARAMS_MAX];
    PyObject *list;
    struct batch b;
    int force;

    if (!py_parse_args(&remove_params, args, nargs, kwnames, v)) {
        return NULL;
    }
    force = py_truth(v[1], 0);
    if (force < 0 || !batch_init(&b, self, v[0], NULL, NULL)) {
        return NULL;
    }
    if (b.session == NULL) {
        list = py_list_of_one(PY_NOT_SET_UP, b.keys.count);
    } else {
        PY_UNLOCKED((void)mooncake_batch_remove(py_session_client(b.session), b.keys.items,
                                                b.keys.count, force != 0, 0, b.results));
        list = py_list_of_codes(b.results, NULL, b.keys.count);
    }
    batch_free(&b);
    return list;
}

/* ---- fresh memory -------------------------------------------------------------------------- */

/* A handle whose memory may be written: for tensors, which their owners change. */
static PyObject *as_copy(void *data, uint64_t len)
{
    if (data == NULL) {
        Py_RETURN_NONE;
    }
    return py_handle_new(data, len);
}

static PyObject *get_each(struct batch *b, PyObject *(*make)(void *data, uint64_t len))
{
    void **data = PyMem_Calloc(b->keys.count + 1, sizeof(*data));
    PyObject *list;
    size_t i = 0;

    if (data == NULL) {
        return PyErr_NoMemory();
    }
    if (b->session != NULL) {
        PY_UNLOCKED((void)mooncake_batch_get(py_session_client(b->session), b->keys.items,
                                             b->keys.count, 0, b->results, data, b->lens));
    }
    list = PyList_New((Py_ssize_t)b->keys.count);
    for (; list != NULL && i < b->keys.count; i++) {
        PyObject *item = make(data[i], b->lens[i]);

        if (item == NULL) {
            Py_CLEAR(list);
        } else {
            (void)PyList_SetItem(list, (Py_ssize_t)i, item);
        }
    }
    for (; i < b->keys.count; i++) {
        mooncake_free(data[i]);
    }
    PyMem_Free(data);
    return list;
}

static const struct py_params get_batch_params = {
    .method = "get_batch", .names = {"keys"}, .required = 1};

static PyObject *store_get_batch(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                 PyObject *kwnames)
{
    PyObject *v[PY_PARAMS_MAX];
    PyObject *list;
    struct batch b;

    if (!py_parse_args(&get_batch_params, args, nargs, kwnames, v) ||
        !batch_init(&b, self, v[0], NULL, NULL)) {
        return NULL;
    }
    list = b.session == NULL ? Py_BuildValue("[y]", "") : get_each(&b, py_bytes_taking);
    batch_free(&b);
    return list;
}

/* ---- views --------------------------------------------------------------------------------- */

/* A handle a key; None where there is no view. */
static PyObject *view_each(struct batch *b)
{
    mooncake_view **views = PyMem_Calloc(b->keys.count + 1, sizeof(*views));
    PyObject *list;
    size_t i = 0;

    if (views == NULL) {
        return PyErr_NoMemory();
    }
    if (b->session != NULL) {
        PY_UNLOCKED((void)mooncake_get_views(py_session_client(b->session), b->keys.items,
                                             b->keys.count, NULL, 0, b->results, views));
    }
    list = PyList_New((Py_ssize_t)b->keys.count);
    for (; list != NULL && i < b->keys.count; i++) {
        PyObject *item = views[i] == NULL ? Py_NewRef(Py_None) : py_handle_of_view(views[i]);

        if (item == NULL) {
            Py_CLEAR(list);
        } else {
            (void)PyList_SetItem(list, (Py_ssize_t)i, item);
        }
    }
    for (; i < b->keys.count; i++) {
        mooncake_view_release(views[i]);
    }
    PyMem_Free(views);
    return list;
}

static const struct py_params get_buffer_params = {
    .method = "batch_get_buffer", .names = {"keys"}, .required = 1};

static PyObject *store_batch_get_buffer(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                        PyObject *kwnames)
{
    PyObject *v[PY_PARAMS_MAX];
    PyObject *list;
    struct batch b;

    if (!py_parse_args(&get_buffer_params, args, nargs, kwnames, v) ||
        !batch_init(&b, self, v[0], NULL, NULL)) {
        return NULL;
    }
    list = view_each(&b);
    batch_free(&b);
    return list;
}

static const struct py_params get_copies_params = {
    .method = "_batch_get_copy", .names = {"keys"}, .required = 1};

static PyObject *store_batch_get_copy(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                      PyObject *kwnames)
{
    PyObject *v[PY_PARAMS_MAX];
    PyObject *list;
    struct batch b;

    if (!py_parse_args(&get_copies_params, args, nargs, kwnames, v) ||
        !batch_init(&b, self, v[0], NULL, NULL)) {
        return NULL;
    }
    list = get_each(&b, as_copy);
    batch_free(&b);
    return list;
}

PyMethodDef py_store_many_methods[] = {
    PY_METHOD("batch_put_from", store_batch_put_from,
              "batch_put_from($self, keys, buffer_ptrs, sizes, config=None)\n--\n\n"
              "One code per key."),
    PY_METHOD("batch_upsert_from", store_batch_upsert_from,
              "batch_upsert_from($self, keys, buffer_ptrs, sizes, config=None)\n--\n\n"
              "As batch_put_from; new values replace stored ones."),
    PY_METHOD("batch_get_into", store_batch_get_into,
              "batch_get_into($self, keys, buffer_ptrs, sizes)\n--\n\n"
              "Length or negative code per key."),
    PY_METHOD("batch_is_exist", store_batch_is_exist,
              "batch_is_exist($self, keys)\n--\n\n1 readable, 0 not, per key."),
    PY_METHOD("batch_remove", store_batch_remove,
              "batch_remove($self, keys, force=False)\n--\n\nOne code per key."),
    PY_METHOD("get_batch", store_get_batch,
              "get_batch($self, keys)\n--\n\nBytes per key; b'' is a miss."),
    PY_METHOD("batch_get_buffer", store_batch_get_buffer,
              "batch_get_buffer($self, keys)\n--\n\nAs get_buffer() per key; None is a miss."),
    PY_METHOD("_batch_get_copy", store_batch_get_copy,
              "_batch_get_copy($self, keys)\n--\n\nBufferHandle per key whose memory is its own "
              "and may be written; None is a miss."),
    {NULL, NULL, 0, NULL},
};

/* Values in many ranges of memory: the multi-buffer batches of vLLM (128 pieces a key, 2,048 keys:
 * the lists are large, so all pieces of a call stand in one array). */
#include <string.h>

#include "py_store.h"

/* A piece and a space have one shape; this one serves both directions. */
struct range {
    uint64_t address, len;
};

_Static_assert(sizeof(struct range) == sizeof(mooncake_piece), "a range is a piece");
_Static_assert(sizeof(struct range) == sizeof(mooncake_space), "a range is a space");

struct multi {
    struct py_keys keys;
    struct range *ranges;        /* of all keys, end to end */
    const struct range **firsts; /* per key, into ranges */
    size_t *counts;              /* per key */
    mooncake_err *results;
    uint64_t *lens;
    size_t ranges_count, ranges_cap;
    bool ragged; /* lists of unequal length: -600 everywhere */
};

static void multi_free(struct multi *m)
{
    PyMem_Free(m->ranges);
    PyMem_Free((void *)m->firsts);
    PyMem_Free(m->counts);
    PyMem_Free(m->results);
    PyMem_Free(m->lens);
    py_keys_free(&m->keys);
}

static bool multi_grow(struct multi *m, size_t more)
{
    size_t cap = m->ranges_cap == 0 ? 1024 : m->ranges_cap;
    struct range *ranges;

    while (cap - m->ranges_count < more) {
        cap *= 2;
    }
    if (cap == m->ranges_cap) {
        return true;
    }
    ranges = PyMem_Realloc(m->ranges, cap * sizeof(*ranges));
    if (ranges == NULL) {
        PyErr_NoMemory();
        return false;
    }
    m->ranges = ranges;
    m->ranges_cap = cap;
    return true;
}

/* The ranges of key @p i from its two lists. */
static bool multi_add(struct multi *m, size_t i, PyObject *pointers, PyObject *sizes)
{
    struct py_numbers p, s;
    bool done = false;

    if (!py_numbers_from(pointers, "all_buffer_ptrs", &p)) {
        return false;
    }
    if (!py_numbers_from(sizes, "all_sizes", &s)) {
        py_numbers_free(&p);
        return false;
    }
    if (p.count != s.count) {
        m->ragged = true;
        done = true;
    } else if (multi_grow(m, p.count)) {
        for (size_t k = 0; k < p.count; k++) {
            m->ranges[m->ranges_count + k] = (struct range){p.items[k], s.items[k]};
        }
        m->counts[i] = p.count;
        m->ranges_count += p.count;
        done = true;
    }
    py_numbers_free(&p);
    py_numbers_free(&s);
    return done;
}

static bool multi_add_all(struct multi *m, PyObject *pointers, PyObject *sizes)
{
    Py_ssize_t count = (Py_ssize_t)m->keys.count;
    PyObject *p = py_tuple_from(pointers, "all_buffer_ptrs");
    PyObject *s = p == NULL ? NULL : py_tuple_from(sizes, "all_sizes");
    bool added = s != NULL;

    m->ragged = added && (PyTuple_Size(p) != count || PyTuple_Size(s) != count);
    for (Py_ssize_t i = 0; added && i < count && !m->ragged; i++) {
        added = multi_add(m, (size_t)i, PyTuple_GetItem(p, i), PyTuple_GetItem(s, i));
    }
    Py_XDECREF(p);
    Py_XDECREF(s);
    return added;
}

static bool multi_init(struct multi *m, PyObject *keys, PyObject *pointers, PyObject *sizes)
{
    size_t count;
    size_t at = 0;

    memset(m, 0, sizeof(*m));
    if (!py_keys_from(keys, "keys", &m->keys)) {
        return false;
    }
    count = m->keys.count + 1;
    m->firsts = PyMem_Calloc(count, sizeof(*m->firsts));
    m->counts = PyMem_Calloc(count, sizeof(*m->counts));
    m->results = PyMem_Calloc(count, sizeof(*m->results));
    m->lens = PyMem_Calloc(count, sizeof(*m->lens));
    if (m->firsts == NULL || m->counts == NULL || m->results == NULL || m->lens == NULL) {
        PyErr_NoMemory();
        multi_free(m);
        return false;
    }
    if (!multi_add_all(m, pointers, sizes)) {
        multi_free(m);
        return false;
    }
    for (size_t i = 0; i < m->keys.count; i++) {
        m->firsts[i] = m->ranges + at; /* only now: the array does not move any more */
        at += m->counts[i];
    }
    return true;
}

static const struct py_params multi_put_params = {
    .method = "batch_put_from_multi_buffers",
    .names = {"keys", "all_buffer_ptrs", "all_sizes", "config"},
    .required = 3};

static const struct py_params multi_upsert_params = {
    .method = "_batch_upsert_from_multi_buffers",
    .names = {"keys", "all_buffer_ptrs", "all_sizes", "config"},
    .required = 3};

static PyObject *multi_put(PyObject *self, const struct py_params *params, PyObject *const *args,
                           Py_ssize_t nargs, PyObject *kwnames)
{
    bool upsert = params == &multi_upsert_params;
    PyObject *v[PY_PARAMS_MAX];
    PyObject *list = NULL;
    struct py_put_options options;
    struct py_session *session;
    struct multi m;

    if (!py_parse_args(params, args, nargs, kwnames, v) || !multi_init(&m, v[0], v[1], v[2])) {
        return NULL;
    }
    session = py_session_enter(self);
    if (session == NULL || m.ragged) {
        list = py_list_of_one(MOONCAKE_EINVAL, m.keys.count);
    } else if (py_put_options_from(v[3], upsert, py_session_hostname(session), &options)) {
        PY_UNLOCKED((void)mooncake_batch_put_pieces(
            py_session_client(session), m.keys.items,
            (const mooncake_piece *const *)(const void *)m.firsts, m.counts, m.keys.count,
            &options.options, 0, m.results));
        py_put_options_free(&options);
        for (size_t i = 0; i < m.keys.count; i++) {
            m.results[i] = (mooncake_err)py_put_code(m.results[i], upsert);
        }
        list = py_list_of_codes(m.results, NULL, m.keys.count);
    }
    py_session_leave(session);
    multi_free(&m);
    return list;
}

static PyObject *store_multi_put(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                 PyObject *kwnames)
{
    return multi_put(self, &multi_put_params, args, nargs, kwnames);
}

static PyObject *store_multi_upsert(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                    PyObject *kwnames)
{
    return multi_put(self, &multi_upsert_params, args, nargs, kwnames);
}

static const struct py_params multi_get_params = {
    .method = "batch_get_into_multi_buffers",
    .names = {"keys", "all_buffer_ptrs", "all_sizes", "prefer_alloc_in_same_node"},
    .required = 3};

static PyObject *store_multi_get(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                 PyObject *kwnames)
{
    PyObject *v[PY_PARAMS_MAX];
    PyObject *list;
    struct py_session *session;
    struct multi m;

    if (!py_parse_args(&multi_get_params, args, nargs, kwnames, v) ||
        !multi_init(&m, v[0], v[1], v[2])) {
        return NULL;
    }
    session = py_session_enter(self);
    if (session == NULL || m.ragged) {
        list = py_list_of_one(MOONCAKE_EINVAL, m.keys.count);
    } else {
        PY_UNLOCKED((void)mooncake_batch_get_into_pieces(
            py_session_client(session), m.keys.items,
            (const mooncake_space *const *)(const void *)m.firsts, m.counts, m.keys.count, 0,
            m.results, m.lens));
        list = py_list_of_codes(m.results, m.lens, m.keys.count);
    }
    py_session_leave(session);
    multi_free(&m);
    return list;
}

PyMethodDef py_store_pieces_methods[] = {
    PY_METHOD("batch_put_from_multi_buffers", store_multi_put,
              "batch_put_from_multi_buffers($self, keys, all_buffer_ptrs, all_sizes, "
              "config=None)\n--\n\nOne code per key."),
    PY_METHOD("_batch_upsert_from_multi_buffers", store_multi_upsert,
              "_batch_upsert_from_multi_buffers($self, keys, all_buffer_ptrs, all_sizes, "
              "config=None)\n--\n\nAs batch_put_from_multi_buffers; replaces."),
    PY_METHOD("batch_get_into_multi_buffers", store_multi_get,
              "batch_get_into_multi_buffers($self, keys, all_buffer_ptrs, all_sizes, "
              "prefer_alloc_in_same_node=False)\n--\n\nLength or negative code per key."),
    {NULL, NULL, 0, NULL},
};

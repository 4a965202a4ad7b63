/*
 * What the files of the extension module share. The module stands on the public headers alone and
 * on CPython's stable ABI (3.11). Functions here are called with the interpreter lock held unless
 * they say otherwise.
 */
#ifndef MC_PYTHON_PY_STORE_H
#define MC_PYTHON_PY_STORE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

#include "mooncake/admin.h"
#include "mooncake/view.h"

/* ---- waiting (wait.c) ---------------------------------------------------------------------- */

struct py_wait {
    PyThreadState *state;
    bool interrupted;         /* SIGINT came meanwhile */
    bool closing;             /* SIGTERM is no reason to end early: it is why we close */
    const _Atomic bool *stop; /* not NULL: true is a reason */
};

/** Let go of the interpreter lock. Until py_wait_end() SIGINT ends the library's calls early. */
void py_wait_begin(struct py_wait *wait);
/** Is there a reason to end early? Between begin and end. */
bool py_wait_asked(struct py_wait *wait);
/** For a close. */
void py_wait_begin_closing(struct py_wait *wait);
/** Take the lock again, and hand SIGINT on to the interpreter. */
void py_wait_end(struct py_wait *wait);

/* Run a call that may wait, with the interpreter lock free. */
#define PY_UNLOCKED(...)                                                                           \
    do {                                                                                           \
        struct py_wait py_wait_;                                                                   \
        py_wait_begin(&py_wait_);                                                                  \
        __VA_ARGS__;                                                                               \
        py_wait_end(&py_wait_);                                                                    \
    } while (0)

extern PyMethodDef py_wait_methods[];

/* ---- arguments (args.c) -------------------------------------------------------------------- */

#define PY_PARAMS_MAX 16

/* A method's parameters: names in order, the first `required` of which must be given. */
struct py_params {
    const char *method;
    const char *names[PY_PARAMS_MAX];
    int required;
};

/** Sort a vectorcall's arguments into @p values (borrowed; NULL where not given). False with a
 * TypeError that names the keyword or what is missing. */
bool py_parse_args(const struct py_params *params, PyObject *const *args, Py_ssize_t nargs,
                   PyObject *kwnames, PyObject **values);

/* Signature of every method that takes arguments. */
typedef PyObject *(*py_fast_method)(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                    PyObject *kwnames);
#define PY_METHOD(name, function, doc)                                                             \
    {                                                                                              \
        name, (PyCFunction)(void (*)(void))(function), METH_FASTCALL | METH_KEYWORDS, doc          \
    }

/* ---- conversions (convert.c) --------------------------------------------------------------- */

/* Keys of a batch: pointers into the str or bytes objects, which `owner` keeps alive. */
struct py_keys {
    PyObject *owner; /* a tuple; owned */
    const char **items;
    size_t count;
};

/** One key: str (UTF-8) or bytes. NULL with a TypeError. A key with a NUL byte becomes "", which
 * the pool refuses as it refuses every bad key. Valid as long as @p object. */
const char *py_key(PyObject *object);
bool py_keys_from(PyObject *object, const char *what, struct py_keys *out);
void py_keys_free(struct py_keys *keys);

/** A tuple of what @p object holds. New reference; NULL with a TypeError naming @p what. */
PyObject *py_tuple_from(PyObject *object, const char *what);

/** One address or size. False with a TypeError naming @p what: no integer, negative, too large. */
bool py_number(PyObject *object, const char *what, uint64_t *out);

_Static_assert(sizeof(void *) == sizeof(uint64_t), "addresses travel as 64-bit integers");

static inline void *py_pointer(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

/* Numbers of a batch: addresses or sizes. */
struct py_numbers {
    uint64_t *items;
    size_t count;
};

/** From a list or tuple of ints, or a one-dimensional contiguous buffer of 64-bit integers (array,
 * numpy). False with a TypeError naming @p what. */
bool py_numbers_from(PyObject *object, const char *what, struct py_numbers *out);
void py_numbers_free(struct py_numbers *numbers);

/** A list of ints: codes; or, where the code is OK and @p lens given, lengths. NULL with an error.
 */
PyObject *py_list_of_codes(const mooncake_err *codes, const uint64_t *lens, size_t count);
/** A list of @p count times @p code. */
PyObject *py_list_of_one(long code, size_t count);

/** Truth of an argument; @p fallback if NULL. -1 with an error. */
int py_truth(PyObject *object, int fallback);

/** Bytes with a copy of @p data, which is freed (mooncake_free()) in every case. NULL data: b"". */
PyObject *py_bytes_taking(void *data, uint64_t len);

/* ---- options of a put (replicate.c) -------------------------------------------------------- */

struct py_put_options {
    mooncake_put_options options;
    struct py_keys preferred; /* keeps the names alive */
};

/** From a ReplicateConfig (or None, or NULL). False with an error. @p own_segment: the name to
 * prefer for prefer_alloc_in_same_node. */
bool py_put_options_from(PyObject *config, bool upsert, const char *own_segment,
                         struct py_put_options *out);
void py_put_options_free(struct py_put_options *options);

/* ---- the protocol given to setup() (protocol.c) -------------------------------------------- */

struct py_protocol {
    const char *name, *devices;
    const char *transport; /* what py_protocol_choose() makes of it, static; NULL: all there are */
    char why_not[512];     /* RDMA was asked for and cannot be used; else "" */
};

/** Choose the transport, and replace `devices` by what the client is to be told. Waits for the
 * master, without the interpreter lock. @retval ENOTSUP  no RDMA here, and fallback is forbidden */
mooncake_err py_protocol_choose(struct py_protocol *protocol, const char *master);
/** Say on stderr that RDMA is not used, once per process. */
void py_protocol_say(const struct py_protocol *protocol);

/* ---- the store object (store_type.c) ------------------------------------------------------- */

struct py_session; /* one set-up client, alive while somebody uses it */

struct py_store {
    PyObject_HEAD struct py_session *session; /* NULL: not set up, or closed */
};

/** The client, held until py_session_leave(); NULL if the store is not set up, or was set up by the
 * parent of this forked process. */
struct py_session *py_session_enter(PyObject *self);
/** NULL is ignored. */
void py_session_leave(struct py_session *session);
/** A question whose answer @p err reads as a miss: say so on stderr, once until one succeeds. */
void py_session_report(struct py_session *session, const char *method, mooncake_err err);
mooncake_client *py_session_client(const struct py_session *session);
const char *py_session_hostname(const struct py_session *session);

/** Not set up: the code that every writing method returns then. */
#define PY_NOT_SET_UP ((long)MOONCAKE_EINVAL)

/** The number that a put returns: a key that exists is a success (the first writer wins), except
 * for an upsert, which then has stored nothing. */
long py_put_code(mooncake_err err, bool upsert);

extern PyMethodDef py_store_life_methods[];
extern PyMethodDef py_store_put_methods[];
extern PyMethodDef py_store_one_methods[];
extern PyMethodDef py_store_many_methods[];
extern PyMethodDef py_store_pieces_methods[];

/* ---- memory lent by a get (handle.c) ------------------------------------------------------- */

/** A BufferHandle that owns @p data (from mooncake_get()), in every case, and may be written. NULL
 * with an error. */
PyObject *py_handle_new(void *data, uint64_t len);
/** A read-only one that owns @p view, in every case. NULL with an error. */
PyObject *py_handle_of_view(mooncake_view *view);
extern PyType_Spec py_handle_spec;
/** The store type with these methods (static). */
PyType_Spec *py_store_spec(PyMethodDef *methods);
extern PyObject *py_handle_type;
/** What os.register_at_fork() is to call (handle_fork.c). */
extern PyMethodDef py_fork_methods[];

#endif

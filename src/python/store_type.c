/*
 * The store object's life: set up, close, health, registration.
 *
 * A set-up client lives in a session. Methods enter it, let go of the interpreter lock while they
 * wait, and leave it; close takes the session away, so that new calls find none, and waits for
 * those inside. `users` is guarded by the interpreter lock.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "py_store.h"

#define HOSTNAME_LEN_MAX 255
#define PORT_MIN 12300
#define PORT_MAX 14300
#define PORT_TRIES 20

struct py_session {
    mooncake_client *client; /* owned */
    pid_t pid;               /* of the process that set it up: a fork's child must not use it */
    unsigned users;
    _Atomic bool closing;
    bool orphaned; /* closed, but not waited for: the last user frees it */
    bool reported; /* that a question got no answer */
    char hostname[HOSTNAME_LEN_MAX + 1];
};

static struct py_store *store_of(PyObject *self)
{
    return (struct py_store *)(void *)self;
}

/* Nobody is inside any more. The interpreter lock is let go of. */
static void end_session(struct py_session *session)
{
    struct py_wait wait;

    py_wait_begin_closing(&wait);
    mooncake_client_close(session->client);
    py_wait_end(&wait);
    PyMem_Free(session);
}

struct py_session *py_session_enter(PyObject *self)
{
    struct py_session *session = store_of(self)->session;

    if (session == NULL || session->pid != getpid()) {
        return NULL;
    }
    session->users++;
    return session;
}

void py_session_leave(struct py_session *session)
{
    if (session == NULL) {
        return;
    }
    session->users--;
    if (session->users == 0 && session->orphaned) {
        end_session(session);
    }
}

void py_session_report(struct py_session *session, const char *method, mooncake_err err)
{
    if (err != MOONCAKE_OK && err != MOONCAKE_EBADKEY && !session->reported) {
        PySys_FormatStderr("mooncake: %s: answers \"no\" because: %s\n", method,
                           mooncake_last_error());
    }
    session->reported = err != MOONCAKE_OK && err != MOONCAKE_EBADKEY;
}

mooncake_client *py_session_client(const struct py_session *session)
{
    return session->client;
}

const char *py_session_hostname(const struct py_session *session)
{
    return session->hostname;
}

long py_put_code(mooncake_err err, bool upsert)
{
    return err == MOONCAKE_EEXIST && !upsert ? 0 : (long)err;
}

/* ---- set up -------------------------------------------------------------------------------- */

struct setup {
    const char *local_hostname;
    const char *master;
    struct py_protocol protocol;
    uint64_t segment_size;
    const char *server; /* of a thin client; else NULL */
    uint64_t pool_size;
};

static bool has_port(const char *host)
{
    const char *colon = strrchr(host, ':');

    return colon != NULL && colon[1] != '\0' &&
           strspn(colon + 1, "0123456789") == strlen(colon + 1);
}

/* Lock not held. */
static mooncake_err open_as(const struct setup *setup, const char *name, mooncake_client **out)
{
    mooncake_client_options options;

    mooncake_client_options_init(&options);
    options.master = setup->master;
    options.local_hostname = name;
    options.segment_size = setup->segment_size;
    options.transport = setup->protocol.transport;
    options.rdma_devices = setup->protocol.devices;
    options.server = setup->server;
    options.pool_size = setup->pool_size;
    return mooncake_client_open(&options, out);
}

/* Differs between processes, between the stores of one, and between two containers' process 1. */
static unsigned port_seed(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned)getpid() * 2654435761u + (unsigned)now.tv_nsec;
}

/* Open under the given name, or, when it has no port, under the first free one of a random walk. */
static mooncake_err open_client(const struct setup *setup, struct py_session *session)
{
    mooncake_err err = MOONCAKE_EINVAL;
    unsigned seed = port_seed();

    if (setup->server != NULL) {
        err = open_as(setup, NULL, &session->client);
        (void)snprintf(session->hostname, sizeof(session->hostname), "%s",
                       mooncake_client_hostname(session->client));
        return err;
    }
    if (has_port(setup->local_hostname)) {
        (void)snprintf(session->hostname, sizeof(session->hostname), "%s", setup->local_hostname);
        return open_as(setup, session->hostname, &session->client);
    }
    for (unsigned i = 0; i < PORT_TRIES; i++) {
        unsigned port = PORT_MIN + (seed + i * 97u) % (PORT_MAX - PORT_MIN + 1u);

        (void)snprintf(session->hostname, sizeof(session->hostname), "%.240s:%u",
                       setup->local_hostname, port);
        err = open_as(setup, session->hostname, &session->client);
        if (err != MOONCAKE_ESEGMENTEXISTS) {
            return err;
        }
    }
    return err;
}

/* The session that this process may use; one inherited from a parent is left where it lies, since
 * its locks may be held by threads that are not here. */
static struct py_session *own_session(PyObject *self)
{
    struct py_session *session = store_of(self)->session;

    if (session != NULL && session->pid != getpid()) {
        store_of(self)->session = NULL;
        return NULL;
    }
    return session;
}

/* Lock not held. */
static mooncake_err choose_and_open(struct setup *setup, struct py_session *session)
{
    mooncake_err err = MOONCAKE_OK;

    if (setup->server == NULL) {
        err = py_protocol_choose(&setup->protocol, setup->master);
    }
    return err == MOONCAKE_OK ? open_client(setup, session) : err;
}

static PyObject *set_up(PyObject *self, struct setup *setup)
{
    struct py_session *session;
    mooncake_err err;

    if (own_session(self) != NULL) {
        return PyLong_FromLong(MOONCAKE_EUNAVAILABLE); /* close() first */
    }
    session = PyMem_Calloc(1, sizeof(*session));
    if (session == NULL) {
        return PyErr_NoMemory();
    }
    session->pid = getpid();
    PY_UNLOCKED(err = choose_and_open(setup, session));
    if (err == MOONCAKE_OK && store_of(self)->session == NULL) {
        store_of(self)->session = session;
        py_protocol_say(&setup->protocol);
        return PyLong_FromLong(0);
    }
    if (err == MOONCAKE_OK) { /* another thread was faster */
        PY_UNLOCKED(mooncake_client_close(session->client));
        err = MOONCAKE_EUNAVAILABLE;
    } else {
        PySys_FormatStderr("mooncake: setup failed: %s\n", mooncake_last_error());
    }
    PyMem_Free(session);
    return PyLong_FromLong(err);
}

/* A str argument, "" for None. False with a TypeError naming it. */
static bool text_from(PyObject *object, const char *what, const char **out)
{
    if (object == NULL || object == Py_None) {
        *out = "";
        return true;
    }
    if (!PyUnicode_Check(object)) {
        PyErr_Format(PyExc_TypeError, "setup(): %s must be str", what);
        return false;
    }
    *out = PyUnicode_AsUTF8AndSize(object, NULL);
    return *out != NULL;
}

static const struct py_params setup_params = {
    .method = "setup",
    .names = {"local_hostname", "metadata_server", "global_segment_size", "local_buffer_size",
              "protocol", "rdma_devices", "master_server_addr", "engine", "enable_ssd_offload",
              "ssd_offload_path", "tenant_id", "enable_client_http_server", "client_http_port"},
    .required = 7,
};

static PyObject *store_setup(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                             PyObject *kwnames)
{
    PyObject *v[PY_PARAMS_MAX];
    struct setup setup = {0};
    uint64_t local_buffer_size;
    const char *ignored;

    if (!py_parse_args(&setup_params, args, nargs, kwnames, v) ||
        !text_from(v[0], "local_hostname", &setup.local_hostname) ||
        !text_from(v[1], "metadata_server", &ignored) ||
        !text_from(v[4], "protocol", &setup.protocol.name) ||
        !text_from(v[5], "rdma_devices", &setup.protocol.devices) ||
        !text_from(v[6], "master_server_addr", &setup.master) ||
        !py_number(v[2], "global_segment_size", &setup.segment_size) ||
        !py_number(v[3], "local_buffer_size", &local_buffer_size)) {
        return NULL;
    }
    if (setup.master[0] == '\0') {
        setup.master = NULL; /* the environment's */
    }
    return set_up(self, &setup);
}

static const struct py_params dummy_params = {
    .method = "setup_dummy",
    .names = {"mem_pool_size", "local_buffer_size", "server_address"},
    .required = 3,
};

static PyObject *store_setup_dummy(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                   PyObject *kwnames)
{
    PyObject *v[PY_PARAMS_MAX];
    struct setup setup = {.local_hostname = "", .protocol.name = ""};
    uint64_t local_buffer_size;

    if (!py_parse_args(&dummy_params, args, nargs, kwnames, v) ||
        !py_number(v[0], "mem_pool_size", &setup.pool_size) ||
        !py_number(v[1], "local_buffer_size", &local_buffer_size) ||
        !text_from(v[2], "server_address", &setup.server)) {
        return NULL;
    }
    return set_up(self, &setup);
}

static const struct py_params pool_params = {
    .method = "alloc_from_mem_pool", .names = {"size"}, .required = 1};

static PyObject *store_alloc_from_mem_pool(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                           PyObject *kwnames)
{
    PyObject *v[PY_PARAMS_MAX];
    struct py_session *session;
    void *data = NULL;
    uint64_t size;

    if (!py_parse_args(&pool_params, args, nargs, kwnames, v) || !py_number(v[0], "size", &size)) {
        return NULL;
    }
    session = py_session_enter(self);
    if (session != NULL) {
        if (mooncake_pool_alloc(session->client, size, &data) != MOONCAKE_OK) {
            PySys_FormatStderr("mooncake: alloc_from_mem_pool: %s\n", mooncake_last_error());
        }
        py_session_leave(session);
    }
    return PyLong_FromUnsignedLongLong((uintptr_t)data);
}

/* ---- close --------------------------------------------------------------------------------- */

/* Waits for the calls inside. SIGINT ends the waiting: the last of them closes then. */
static void close_session(PyObject *self)
{
    struct py_session *session = own_session(self);
    struct py_wait wait = {.interrupted = false};

    store_of(self)->session = NULL;
    if (session == NULL) {
        return;
    }
    session->closing = true;
    while (session->users > 0 && !wait.interrupted) { /* each ends by its own deadline */
        py_wait_begin_closing(&wait);
        (void)usleep(1000);
        (void)py_wait_asked(&wait);
        py_wait_end(&wait);
    }
    if (session->users > 0) {
        session->orphaned = true;
    } else {
        end_session(session);
    }
}

static const struct py_params leave_params = {
    .method = "_leave", .names = {"grace_ms"}, .required = 1};

static PyObject *store_leave(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                             PyObject *kwnames)
{
    PyObject *v[PY_PARAMS_MAX];
    struct py_session *session;
    struct py_wait wait;
    uint64_t grace_ms;
    mooncake_err err;

    if (!py_parse_args(&leave_params, args, nargs, kwnames, v) ||
        !py_number(v[0], "grace_ms", &grace_ms)) {
        return NULL;
    }
    session = py_session_enter(self);
    if (session == NULL) {
        return PyLong_FromLong(PY_NOT_SET_UP);
    }
    py_wait_begin(&wait);
    wait.stop = &session->closing; /* a close ends the grace */
    err = mooncake_client_leave(session->client, grace_ms);
    py_wait_end(&wait);
    py_session_leave(session);
    return PyLong_FromLong(err);
}

static PyObject *store_close(PyObject *self, PyObject *unused)
{
    (void)unused;
    close_session(self);
    return PyLong_FromLong(0);
}

static void store_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    close_session(self);
    release(self);
    Py_DECREF(type);
}

/* ---- the rest of its life ------------------------------------------------------------------ */

static PyObject *store_health_check(PyObject *self, PyObject *unused)
{
    struct py_session *session = py_session_enter(self);
    mooncake_err err;

    (void)unused;
    if (session == NULL) {
        return PyLong_FromLong(1);
    }
    PY_UNLOCKED(err = mooncake_client_check(session->client, 0));
    py_session_leave(session);
    return PyLong_FromLong(err == MOONCAKE_OK ? 0 : 2);
}

static PyObject *store_get_hostname(PyObject *self, PyObject *unused)
{
    struct py_session *session = own_session(self);

    (void)unused;
    return PyUnicode_FromString(session == NULL ? "" : session->hostname);
}

static const struct py_params register_params = {
    .method = "register_buffer", .names = {"buffer_ptr", "size"}, .required = 2};

static PyObject *store_register_buffer(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                       PyObject *kwnames)
{
    PyObject *v[PY_PARAMS_MAX];
    struct py_session *session;
    mooncake_err err;
    uint64_t address, size;

    if (!py_parse_args(&register_params, args, nargs, kwnames, v) ||
        !py_number(v[0], "buffer_ptr", &address) || !py_number(v[1], "size", &size)) {
        return NULL;
    }
    session = py_session_enter(self);
    if (session == NULL) {
        return PyLong_FromLong(PY_NOT_SET_UP);
    }
    PY_UNLOCKED(err = mooncake_register_buffer(session->client, py_pointer(address), size));
    py_session_leave(session);
    return PyLong_FromLong(err);
}

static const struct py_params unregister_params = {
    .method = "unregister_buffer", .names = {"buffer_ptr"}, .required = 1};

static PyObject *store_unregister_buffer(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                         PyObject *kwnames)
{
    PyObject *v[PY_PARAMS_MAX];
    struct py_session *session;
    mooncake_err err;
    uint64_t address;

    if (!py_parse_args(&unregister_params, args, nargs, kwnames, v) ||
        !py_number(v[0], "buffer_ptr", &address)) {
        return NULL;
    }
    session = py_session_enter(self);
    if (session == NULL) {
        return PyLong_FromLong(PY_NOT_SET_UP);
    }
    PY_UNLOCKED(err = mooncake_unregister_buffer(session->client, py_pointer(address)));
    py_session_leave(session);
    return PyLong_FromLong(err);
}

PyMethodDef py_store_life_methods[] = {
    PY_METHOD("setup", store_setup,
              "setup($self, local_hostname, metadata_server, global_segment_size, "
              "local_buffer_size, protocol, rdma_devices, master_server_addr, engine=None, "
              "enable_ssd_offload=False, ssd_offload_path='', tenant_id='default', "
              "enable_client_http_server=False, client_http_port=9300)\n--\n\n"
              "Join a pool. Returns 0 when a put would work, else a negative code."),
    PY_METHOD("setup_dummy", store_setup_dummy,
              "setup_dummy($self, mem_pool_size, local_buffer_size, server_address)\n--\n\n"
              "Join the pool of a serving process of this host. Returns 0 or a negative code."),
    PY_METHOD("alloc_from_mem_pool", store_alloc_from_mem_pool,
              "alloc_from_mem_pool($self, size)\n--\n\n"
              "Address of memory shared with the serving process, until close(); 0: none is left."),
    PY_METHOD("_leave", store_leave,
              "_leave($self, grace_ms)\n--\n\nServe reads of the lent segment that long, then "
              "unmount it. Returns 0 then."),
    {"close", store_close, METH_NOARGS, "close($self)\n--\n\nLeave the pool. Returns 0."},
    {"health_check", store_health_check, METH_NOARGS,
     "health_check($self)\n--\n\n0 healthy, 1 not set up, 2 master unreachable."},
    {"get_hostname", store_get_hostname, METH_NOARGS,
     "get_hostname($self)\n--\n\nThe host:port this process is known by."},
    PY_METHOD("register_buffer", store_register_buffer,
              "register_buffer($self, buffer_ptr, size)\n--\n\nAnnounce memory. Returns 0."),
    PY_METHOD("unregister_buffer", store_unregister_buffer,
              "unregister_buffer($self, buffer_ptr)\n--\n\nTake that back. Returns 0."),
    {NULL, NULL, 0, NULL},
};

/* Index of Py_tp_methods in the slots below. */
#define SLOT_METHODS 2

PyType_Spec *py_store_spec(PyMethodDef *methods)
{
    static PyType_Slot slots[] = {
        {Py_tp_doc, (void *)"A client of a Mooncake pool (the part that is written in C)."},
        {Py_tp_dealloc, (void *)store_dealloc},
        {Py_tp_methods, NULL},
        {0, NULL},
    };
    static PyType_Spec spec = {
        .name = "mooncake._store.Store",
        .basicsize = sizeof(struct py_store),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
        .slots = slots,
    };

    slots[SLOT_METHODS].pfunc = methods;
    return &spec;
}

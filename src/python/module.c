/* The extension module mooncake._store: the store type, with the methods of all files, and the
 * handle type. */
#include <string.h>

#include "py_store.h"

#define METHODS_MAX 64

/* All methods in one table, as the type wants them. */
static PyMethodDef methods[METHODS_MAX];

static void gather_methods(void)
{
    PyMethodDef *const tables[] = {py_store_life_methods, py_store_put_methods,
                                   py_store_one_methods, py_store_many_methods,
                                   py_store_pieces_methods};
    size_t count = 0;

    for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++) {
        for (PyMethodDef *m = tables[t]; m->ml_name != NULL && count < METHODS_MAX - 1; m++) {
            methods[count++] = *m;
        }
    }
    memset(&methods[count], 0, sizeof(methods[count]));
}

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "mooncake._store",
    .m_doc = "The part of mooncake.store that is written in C.",
    .m_size = -1,
};

PyMODINIT_FUNC PyInit__store(void);

PyMODINIT_FUNC PyInit__store(void)
{
    PyObject *self = PyModule_Create(&module);
    PyObject *store;

    if (self == NULL) {
        return NULL;
    }
    gather_methods();
    py_handle_type = PyType_FromSpec(&py_handle_spec);
    store = PyType_FromSpec(py_store_spec(methods));
    if (py_handle_type == NULL || store == NULL ||
        PyModule_AddFunctions(self, py_fork_methods) != 0 ||
        PyModule_AddFunctions(self, py_wait_methods) != 0 ||
        PyModule_AddObjectRef(self, "BufferHandle", py_handle_type) != 0 ||
        PyModule_AddObjectRef(self, "Store", store) != 0 ||
        PyModule_AddStringConstant(self, "version", mooncake_version()) != 0) {
        Py_XDECREF(store);
        Py_DECREF(self);
        return NULL;
    }
    Py_DECREF(store);
    return self;
}

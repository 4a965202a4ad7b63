/* Keyword arguments of vectorcall methods: the stable ABI has no parser for them. */
#include "py_store.h"

static int params_count(const struct py_params *params)
{
    int count = 0;

    while (count < PY_PARAMS_MAX && params->names[count] != NULL) {
        count++;
    }
    return count;
}

static int find(const struct py_params *params, int count, PyObject *name)
{
    for (int i = 0; i < count; i++) {
        if (PyUnicode_CompareWithASCIIString(name, params->names[i]) == 0) {
            return i;
        }
    }
    return -1;
}

bool py_parse_args(const struct py_params *params, PyObject *const *args, Py_ssize_t nargs,
                   PyObject *kwnames, PyObject **values)
{
    int count = params_count(params);
    Py_ssize_t keywords = kwnames == NULL ? 0 : PyTuple_Size(kwnames);

    for (int i = 0; i < count; i++) {
        values[i] = NULL;
    }
    if (nargs > count) {
        PyErr_Format(PyExc_TypeError, "%s() takes at most %d arguments (%zd given)", params->method,
                     count, nargs);
        return false;
    }
    for (Py_ssize_t i = 0; i < nargs; i++) {
        values[i] = args[i];
    }
    for (Py_ssize_t k = 0; k < keywords; k++) {
        PyObject *name = PyTuple_GetItem(kwnames, k);
        int i = find(params, count, name);

        if (i < 0) {
            PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'",
                         params->method, name);
            return false;
        }
        if (values[i] != NULL) {
            PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%s'",
                         params->method, params->names[i]);
            return false;
        }
        values[i] = args[nargs + k];
    }
    for (int i = 0; i < params->required; i++) {
        if (values[i] == NULL) {
            PyErr_Format(PyExc_TypeError, "%s() missing required argument: '%s' (position %d)",
                         params->method, params->names[i], i + 1);
            return false;
        }
    }
    return true;
}

/* A ReplicateConfig as the C library's put options. Engines change one config between calls, so
 * every call reads it afresh. */
#include <string.h>

#include "py_store.h"

/* SoftPinAction of the Python side. */
enum { SOFT_PIN_PRESERVE = 0, SOFT_PIN_ENABLE = 1 };

/* Attribute @p name of @p config as a whole number; @p fallback where it is missing or None. */
static bool number_attr(PyObject *config, const char *name, uint64_t fallback, uint64_t *out)
{
    PyObject *value = PyObject_GetAttrString(config, name);
    PyObject *index;

    if (value == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError)) {
            return false;
        }
        PyErr_Clear();
        *out = fallback;
        return true;
    }
    if (value == Py_None) {
        Py_DECREF(value);
        *out = fallback;
        return true;
    }
    index = PyNumber_Index(value);
    Py_DECREF(value);
    if (index == NULL) {
        PyErr_Format(PyExc_TypeError, "ReplicateConfig.%s must be an integer", name);
        return false;
    }
    *out = PyLong_AsUnsignedLongLong(index);
    Py_DECREF(index);
    if (PyErr_Occurred()) {
        PyErr_Format(PyExc_TypeError, "ReplicateConfig.%s is out of range", name);
        return false;
    }
    return true;
}

/* Names of preferred segments: the list, or the single name of older callers. */
static bool preferred_from(PyObject *config, struct py_put_options *out)
{
    PyObject *list = PyObject_GetAttrString(config, "preferred_segments");
    PyObject *single;
    bool done = true;

    if (list != NULL && list != Py_None && PySequence_Size(list) > 0) {
        done = py_keys_from(list, "ReplicateConfig.preferred_segments", &out->preferred);
        Py_DECREF(list);
        return done;
    }
    Py_XDECREF(list);
    PyErr_Clear();
    single = PyObject_GetAttrString(config, "preferred_segment");
    if (single == NULL) {
        PyErr_Clear();
        return true;
    }
    if (PyUnicode_Check(single) && PyUnicode_GetLength(single) > 0) {
        PyObject *tuple = PyTuple_Pack(1, single);

        done = tuple != NULL &&
               py_keys_from(tuple, "ReplicateConfig.preferred_segment", &out->preferred);
        Py_XDECREF(tuple);
    }
    Py_DECREF(single);
    return done;
}

static bool read_config(PyObject *config, const char *own_segment, struct py_put_options *out)
{
    uint64_t replicas, soft_pin, soft_pin_ms, hard_pin, same_node;

    if (!number_attr(config, "replica_num", 1, &replicas) ||
        !number_attr(config, "soft_pin_action", SOFT_PIN_PRESERVE, &soft_pin) ||
        !number_attr(config, "soft_pin_ttl_ms", 0, &soft_pin_ms) ||
        !number_attr(config, "with_hard_pin", 0, &hard_pin) ||
        !number_attr(config, "prefer_alloc_in_same_node", 0, &same_node) ||
        !preferred_from(config, out)) {
        return false;
    }
    out->options.replicas = replicas == 0           ? 1
                            : replicas > UINT32_MAX ? UINT32_MAX
                                                    : (uint32_t)replicas;
    out->options.soft_pin = soft_pin == SOFT_PIN_ENABLE;
    out->options.soft_pin_ms = soft_pin_ms;
    out->options.hard_pin = hard_pin != 0;
    if (out->preferred.count == 0 && same_node != 0 && own_segment != NULL) {
        PyObject *tuple = Py_BuildValue("(s)", own_segment);
        bool done =
            tuple != NULL && py_keys_from(tuple, "prefer_alloc_in_same_node", &out->preferred);

        Py_XDECREF(tuple);
        if (!done) {
            return false;
        }
    }
    out->options.preferred_segments = out->preferred.items;
    out->options.preferred_segments_count = out->preferred.count;
    return true;
}

bool py_put_options_from(PyObject *config, bool upsert, const char *own_segment,
                         struct py_put_options *out)
{
    memset(out, 0, sizeof(*out));
    mooncake_put_options_init(&out->options);
    out->options.upsert = upsert;
    if (config == NULL || config == Py_None) {
        return true;
    }
    if (!PyObject_HasAttrString(config, "replica_num")) {
        PyErr_SetString(PyExc_TypeError, "config must be a ReplicateConfig");
        return false;
    }
    if (!read_config(config, own_segment, out)) {
        py_put_options_free(out);
        return false;
    }
    return true;
}

void py_put_options_free(struct py_put_options *options)
{
    py_keys_free(&options->preferred);
}

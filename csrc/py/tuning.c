#include "py/tuning.h"
#include "py/jit.h"

static Tuning table;

const Tuning *tuning_table(void) { return &table; }

/* A dict of the knobs that are set. */
static PyObject *knobs_dict(const Knobs *knobs)
{
    PyObject *d = PyDict_New();
    for (int k = 0; d && k < KNOB_COUNT; k++) {
        PyObject *v = knobs->at[k] ? PyLong_FromLong(knobs->at[k]) : NULL;
        if (knobs->at[k] && (!v || PyDict_SetItemString(d, knob_names[k], v) < 0))
            Py_CLEAR(d);
        Py_XDECREF(v);
    }
    return d;
}

static int knob_named(PyObject *name)
{
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    for (int k = 0; text && k < KNOB_COUNT; k++)
        if (!strcmp(text, knob_names[k]))
            return k;
    PyErr_Format(PyExc_ValueError, "%R is no knob of a schedule", name);
    return -1;
}

static bool read_knobs(PyObject *dict, Knobs *knobs)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(dict, &at, &name, &value)) {
        int k = knob_named(name);
        long v = k < 0 ? -1 : PyLong_AsLong(value);
        if (k < 0 || (v == -1 && PyErr_Occurred()))
            return false;
        if (v < -1 || v > 1 << 20) {
            PyErr_Format(PyExc_ValueError, "%s: a number from -1 to %d, not %ld", knob_names[k], 1 << 20, v);
            return false;
        }
        knobs->at[k] = (int32_t)v;
    }
    return true;
}

/* _tuning_set(key, knobs): an entry of the table; None: without it. */
static PyObject *set(PyObject *Py_UNUSED(module), PyObject *args)
{
    unsigned long long key;
    PyObject *dict;
    Knobs knobs = {0};
    if (!PyArg_ParseTuple(args, "KO:_tuning_set", &key, &dict))
        return NULL;
    if (dict == Py_None) {
        tuning_remove(&table, key);
        Py_RETURN_NONE;
    }
    if (!PyDict_Check(dict))
        return PyErr_Format(PyExc_TypeError, "_tuning_set: a dict or None");
    if (!read_knobs(dict, &knobs))
        return NULL;
    if (!tuning_set(&table, key, &knobs))
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

/* _tuning(): the table as a dict. */
static PyObject *get(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    PyObject *all = PyDict_New();
    for (uint32_t k = 0; all && k < table.len; k++) {
        PyObject *key = PyLong_FromUnsignedLongLong(table.at[k].key), *knobs = knobs_dict(&table.at[k].knobs);
        if (!key || !knobs || PyDict_SetItem(all, key, knobs) < 0)
            Py_CLEAR(all);
        Py_XDECREF(key);
        Py_XDECREF(knobs);
    }
    return all;
}

/* _tuning_watch(on): plans note their keys though the table is empty. */
static PyObject *watch(PyObject *Py_UNUSED(module), PyObject *on)
{
    int yes = PyObject_IsTrue(on);
    if (yes < 0)
        return NULL;
    table.watch = yes;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"_tuning", get, METH_NOARGS, NULL},
    {"_tuning_set", set, METH_VARARGS, NULL},
    {"_tuning_watch", watch, METH_O, NULL},
    {0},
};

bool tuning_module_init(PyObject *module)
{
    PyObject *docs = PyDict_New();
    for (int k = 0; docs && k < KNOB_COUNT; k++) {
        PyObject *doc = PyUnicode_FromString(knob_docs[k]);
        if (!doc || PyDict_SetItemString(docs, knob_names[k], doc) < 0)
            Py_CLEAR(docs);
        Py_XDECREF(doc);
    }
    bool ok = docs && PyModule_AddObjectRef(module, "_knobs", docs) == 0 && PyModule_AddFunctions(module, methods) == 0;
    Py_XDECREF(docs);
    return ok;
}

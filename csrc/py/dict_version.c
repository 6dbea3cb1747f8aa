/* Up to CPython 3.11 a dict has a version; later ones tell watchers of changes, and all dicts that are watched share one count. */
#include "py/dict_version.h"

#if PY_VERSION_HEX < 0x030C0000

uint64_t dict_version(PyObject *dict) { return ((PyDictObject *)dict)->ma_version_tag; }

#else

static uint64_t changes = 1;

static int count_change(PyDict_WatchEvent Py_UNUSED(event), PyObject *Py_UNUSED(dict), PyObject *Py_UNUSED(key), PyObject *Py_UNUSED(value))
{
    changes++;
    return 0;
}

uint64_t dict_version(PyObject *dict)
{
    static int watcher = -2;           /* -2: not asked for yet; -1: there is none left */
    if (watcher == -2 && (watcher = PyDict_AddWatcher(count_change)) < 0)
        PyErr_Clear();
    if (watcher >= 0 && PyDict_Watch(watcher, dict) == 0)
        return changes;
    PyErr_Clear();
    return 0;
}

#endif

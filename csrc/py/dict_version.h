/* Versions of dicts, so that what was looked up in one need not be looked up again. */
#pragma once
#include "py/np.h"

/* A number that is another one after any change of the dict; 0: this Python tells of none. */
uint64_t dict_version(PyObject *dict);

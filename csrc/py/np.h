/* NumPy's C API, one table for the whole extension: module.c fills it (PYXLA_IMPORT_ARRAY), every other file only refers to it.
 * Include this instead of NumPy's headers. */
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#define PY_ARRAY_UNIQUE_SYMBOL pyxla_array_api
#define PY_UFUNC_UNIQUE_SYMBOL pyxla_ufunc_api
#ifndef PYXLA_IMPORT_ARRAY
#define NO_IMPORT_ARRAY
#define NO_IMPORT_UFUNC
#endif
#include <numpy/arrayobject.h>
#include <numpy/ufuncobject.h>

/* pyxla.constant: arrays whose memory nobody can write to, so that what a plan computes of them alone (plan->kept) is computed once.
 *
 * The memory is an object of its own, the base of all arrays over it; NumPy makes no writable array over a read-only base. It owns the values
 * computed from it, which go with it. A value of several constants goes with the first of them that goes. */
#pragma once
#include "py/entry.h"

bool constant_module_init(void);
/* A constant copy of an ndarray, in its order of axes; a constant itself. New reference. */
PyObject *constant_new(PyArrayObject *a);
bool constant_is(PyArrayObject *a);
/* Bytes of the values computed from constants. */
size_t constant_kept_bytes(void);

/* What a bound found last time: the constants and the addresses. */
typedef struct ConstantFound ConstantFound;
void constant_found_free(ConstantFound *f);
/* Addresses of the kept values of a bound's plan for the inputs of this call, computed where they were not yet; they stay
 * while the inputs live. at->kept is filled, at->in (and bounds) read. false with an exception. */
bool constant_fetch(Bound *b, const Record *r, const Addresses *at, void **kept);

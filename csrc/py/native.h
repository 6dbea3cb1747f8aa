/* Host calls that need no Python: loops of ufuncs, called on the buffers as NumPy would call them, and functions of our own.
 *
 * A host function keeps its Python form, which is its definition; a native form may be added to it and serves the calls that it fits. */
#pragma once
#include "py/np.h"
#include "run/exec.h"

typedef enum { NATIVE_NONE, NATIVE_FREE, NATIVE_LOCKED } NativeKind;     /* how it runs: not at all; on any thread; holding the GIL, and may raise */

/* How the call can be made on these addresses (inputs, then results). */
NativeKind native_kind(const HostCall *c, void *const *address);
/* Makes the call; only where native_kind() is not NATIVE_NONE. */
void native_run(const HostCall *c, void *const *address);

/* ---- native_sort.c ---- */
/* Looks NumPy's functions up. */
void native_sort_prepare(void);
/* Whether a call of run_sort (places: run_argsort) of _np/sorting.py can be made: for its axis, kind, dtype and strides. */
bool native_sort_fits(const HostCall *c, bool places);
/* Makes it, for arrays that are not empty. */
void native_sort_run(const HostCall *c, bool places, void *const *address);

/* ---- native_order.c ---- */
/* Makes any call of run_sort, run_argsort (places), run_partition or run_argpartition (places), holding the GIL; with an exception, maybe. */
void native_order_run(const HostCall *c, bool partition, bool places, void *const *address);

/* ---- native_bits.c ---- */
/* Whether a call of run_pack or run_unpack of _np/library.py can be made, and making it. */
bool native_bits_fits(const HostCall *c);
void native_bits_run(const HostCall *c, bool pack, void *const *address);

/* ---- native_spread.c ---- */
/* A call of run_repeats of _np/sizes.py. */
void native_repeats_run(const HostCall *c, void *const *address);
/* Whether a call of run_interp of _np/library.py can be made, and making it. */
bool native_interp_fits(const HostCall *c);
void native_interp_run(const HostCall *c, void *const *address);
/* Whether a call of run_search of _np/selection.py can be made, and making it. */
bool native_search_fits(const HostCall *c);
void native_search_run(const HostCall *c, void *const *address);
/* Whether a call of a ufunc's reduceat can be made by its loop for one dtype, and making it. */
bool native_reduceat_fits(const HostCall *c, void *const *address);
void native_reduceat_run(const HostCall *c, PyUFuncGenericFunction loop, void *data, void *const *address);

bool native_module_init(PyObject *module);

#include "py/native.h"
#include "py/trace.h"
#include "opt/plan.h"
#include "run/positions.h"
#include "run/select.h"

enum { CHUNK = 64, MOST_CHUNKS = 256, MOST_OPERANDS = 8 };

typedef enum { DOES_LOOP, DOES_POSITIONS, DOES_SELECT, DOES_SORT, DOES_ARGSORT, DOES_PARTITION, DOES_ARGPARTITION, DOES_PACK, DOES_UNPACK, DOES_REPEATS, DOES_INTERP, DOES_SEARCH, DOES_REDUCEAT } NativeTask;

typedef struct {
    NativeKind kind;
    NativeTask task;
    PyUFuncGenericFunction loop;        /* of a ufunc */
    void *data;
    uint8_t dtype[MOST_OPERANDS];       /* of the loop's operands */
} Native;

/* By number of the host function. Entries are written once, before a plan can name them, and never move: runs read them without the GIL. */
static Native *native[MOST_CHUNKS];

static Native *native_at(int64_t number)
{
    return number >= 0 && number < CHUNK * MOST_CHUNKS && native[number / CHUNK] ? &native[number / CHUNK][number % CHUNK] : NULL;
}

static Native *native_new(int64_t number)
{
    if (number < 0 || number >= CHUNK * MOST_CHUNKS)
        return NULL;
    if (!native[number / CHUNK])
        native[number / CHUNK] = PyMem_RawCalloc(CHUNK, sizeof(Native));
    return native_at(number);
}

/* ---- ufuncs ---- */

/* Loops take aligned elements in the machine's byte order; a complex one is aligned as its parts are. */
static bool plain(const HostArray *a, const void *at)
{
    const DtypeInfo *type = &dtype_info[a->dtype];
    size_t unit = type->kind == DKIND_COMPLEX ? type->bytes / 2 : type->bytes, odd = (size_t)at;
    for (int k = 0; k < a->rank; k++)
        odd |= a->shape[k] > 1 ? (size_t)a->stride[k] : 0;
    return at && !a->swapped && odd % unit == 0;
}

NativeKind native_kind(const HostCall *c, void *const *address)
{
    const Native *n = native_at(c->function);
    if (!n || n->kind == NATIVE_NONE)
        return NATIVE_NONE;
    for (uint32_t k = 0; k < c->nin + c->nout; k++) {
        bool unread = n->task == DOES_LOOP && k >= c->nin && !address[k];
        if ((!unread && !plain(&c->arrays[k], address[k])) || (n->loop && c->arrays[k].dtype != n->dtype[k]))
            return NATIVE_NONE;
    }
    if ((n->task == DOES_SORT || n->task == DOES_ARGSORT) && !native_sort_fits(c, n->task == DOES_ARGSORT))
        return NATIVE_LOCKED;
    if ((n->task == DOES_PACK || n->task == DOES_UNPACK) && !native_bits_fits(c))
        return NATIVE_NONE;
    if (n->task == DOES_INTERP && !native_interp_fits(c))
        return NATIVE_NONE;
    if (n->task == DOES_SEARCH && !native_search_fits(c))
        return NATIVE_NONE;
    if (n->task == DOES_REDUCEAT && !native_reduceat_fits(c, address))
        return NATIVE_NONE;
    return n->kind;
}

/* A loop nest over the shape of the results: strides per axis and operand, 0 where an operand is broadcast. */
typedef struct {
    int rank, operands;
    npy_intp extent[MAX_RANK], stride[MAX_RANK][MOST_OPERANDS];
} Nest;

static bool one_axis(const Nest *n, int outer, const npy_intp *inner, npy_intp extent)
{
    for (int k = 0; k < n->operands; k++)
        if (n->stride[outer][k] != inner[k] * extent)
            return false;
    return true;
}

/* The axes of the first result that is read, those of long steps first. */
static void sort_axes(const HostCall *c, void *const *address, int *axis)
{
    uint32_t k = c->nin;
    while (k + 1 < c->nin + c->nout && !address[k])
        k++;
    const HostArray *a = &c->arrays[k];
    for (int d = 0; d < a->rank; d++) {
        int to = d;
        for (; to > 0 && llabs(a->stride[axis[to - 1]]) < llabs(a->stride[d]); to--)
            axis[to] = axis[to - 1];
        axis[to] = d;
    }
}

/* Axes from the outermost to the innermost, those merged that every operand steps through evenly. A result that nobody reads is one element. */
static void nest_fill(Nest *n, const HostCall *c, void *const *address)
{
    const HostArray *result = &c->arrays[c->nin];
    int axis[MAX_RANK];
    sort_axes(c, address, axis);
    n->operands = (int)(c->nin + c->nout);
    n->rank = 0;
    for (int i = 0; i < result->rank; i++) {
        npy_intp stride[MOST_OPERANDS];
        int d = axis[i];
        for (int k = 0; k < n->operands; k++) {
            const HostArray *a = &c->arrays[k];
            int own = d - (result->rank - a->rank);
            stride[k] = address[k] && own >= 0 && a->shape[own] > 1 ? a->stride[own] : 0;
        }
        if (result->shape[d] == 1)
            continue;
        bool merged = n->rank && one_axis(n, n->rank - 1, stride, result->shape[d]);
        n->extent[n->rank - merged] = merged ? n->extent[n->rank - 1] * result->shape[d] : result->shape[d];
        memcpy(n->stride[n->rank - merged], stride, sizeof stride);
        n->rank += !merged;
    }
}

static void run_nest(const Nest *n, int axis, char **at, const Native *f)
{
    npy_intp one = 1, none[MOST_OPERANDS] = {0};
    if (axis >= n->rank - 1) {
        bool some = n->rank > 0;
        char *args[MOST_OPERANDS];      /* loops may move them */
        memcpy(args, at, sizeof args);
        f->loop(args, some ? &n->extent[axis] : &one, some ? n->stride[axis] : none, f->data);
        return;
    }
    char *here[MOST_OPERANDS];
    memcpy(here, at, sizeof here);
    for (npy_intp i = 0; i < n->extent[axis]; i++) {
        run_nest(n, axis + 1, here, f);
        for (int k = 0; k < n->operands; k++)
            here[k] += n->stride[axis][k];
    }
}

static void run_loop(const Native *f, const HostCall *c, void *const *address)
{
    Nest n;
    char *at[MOST_OPERANDS] = {NULL};
    const HostArray *result = &c->arrays[c->nin];
    for (int d = 0; d < result->rank; d++)
        if (result->shape[d] == 0)
            return;
    nest_fill(&n, c, address);
    _Alignas(16) char nobody[16];
    for (int k = 0; k < n.operands; k++)
        at[k] = address[k] ? address[k] : nobody;
    run_nest(&n, 0, at, f);
}

static void select_run(const HostCall *c, void *const *address)
{
    const HostArray *x = c->arrays, *mask = x + 1, *out = x + 2;
    select_fill(address[0], dtype_info[x->dtype].bytes, x->stride[0], address[1], mask->stride[0], x->shape[0], address[2], out->shape[0]);
}

static void sort_run(const HostCall *c, bool places, void *const *address)
{
    if (native_sort_fits(c, places))
        native_sort_run(c, places, address);
    else
        native_order_run(c, false, places, address);
}

void native_run(const HostCall *c, void *const *address)
{
    const Native *f = native_at(c->function);
    switch (f->task) {
    case DOES_LOOP: run_loop(f, c, address); break;
    case DOES_POSITIONS: positions_fill(address[0], c->arrays[0].shape[0], c->arrays[0].stride[0], address[1], c->arrays[1].shape[0]); break;
    case DOES_SELECT: select_run(c, address); break;
    case DOES_SORT:
    case DOES_ARGSORT: sort_run(c, f->task == DOES_ARGSORT, address); break;
    case DOES_PARTITION:
    case DOES_ARGPARTITION: native_order_run(c, true, f->task == DOES_ARGPARTITION, address); break;
    case DOES_PACK:
    case DOES_UNPACK: native_bits_run(c, f->task == DOES_PACK, address); break;
    case DOES_REPEATS: native_repeats_run(c, address); break;
    case DOES_INTERP: native_interp_run(c, address); break;
    case DOES_SEARCH: native_search_run(c, address); break;
    case DOES_REDUCEAT: native_reduceat_run(c, f->loop, f->data, address); break;
    }
}

/* ---- registration ---- */

/* The number of a ufunc's loop for these dtypes (a tuple of descriptors); -1: none among those of the old form. */
static int find_loop(PyUFuncObject *u, PyObject *types)
{
    for (int k = 0; k < u->ntypes; k++) {
        int same = 0;
        while (same < u->nargs && PyArray_EquivTypenums(u->types[k * u->nargs + same], ((PyArray_Descr *)PyTuple_GET_ITEM(types, same))->type_num))
            same++;
        if (same == u->nargs)
            return u->functions[k] ? k : -1;
    }
    return -1;
}

static PyObject *core_host_loop(PyObject *Py_UNUSED(module), PyObject *args)
{
    long long number;
    PyObject *ufunc, *types;
    int raises;
    if (!PyArg_ParseTuple(args, "LO!O!p", &number, &PyUFunc_Type, &ufunc, &PyTuple_Type, &types, &raises))
        return NULL;
    PyUFuncObject *u = (PyUFuncObject *)ufunc;
    bool fits = PyTuple_GET_SIZE(types) == u->nargs && u->nargs <= MOST_OPERANDS;
    for (int k = 0; fits && k < u->nargs; k++)
        fits = PyArray_DescrCheck(PyTuple_GET_ITEM(types, k));
    int at = fits ? find_loop(u, types) : -1;
    Native *n = at < 0 ? NULL : native_new(number);
    host_set_loop(number);
    for (int k = 0; n && k < u->nargs; k++) {
        Dtype t = dtype_from_numpy(PyTuple_GET_ITEM(types, k), "operand of a loop");
        if (t == DT_COUNT)
            return NULL;
        n->dtype[k] = (uint8_t)t;
    }
    if (n) {
        n->loop = u->functions[at];
        n->data = u->data ? (void *)u->data[at] : NULL;
        n->kind = raises ? NATIVE_LOCKED : NATIVE_FREE;
    }
    return PyBool_FromLong(n != NULL);
}

static PyObject *core_host_selection(PyObject *Py_UNUSED(module), PyObject *args)
{
    long long positions, selected;
    if (!PyArg_ParseTuple(args, "LL", &positions, &selected))
        return NULL;
    Native *p = native_new(positions), *s = native_new(selected);
    if (!p || !s)
        return PyErr_NoMemory();
    *p = (Native){NATIVE_FREE, DOES_POSITIONS};
    *s = (Native){NATIVE_FREE, DOES_SELECT};
    host_set_selection(positions, selected);
    Py_RETURN_NONE;
}

static PyObject *core_host_sort(PyObject *Py_UNUSED(module), PyObject *args)
{
    long long number;
    int places;
    if (!PyArg_ParseTuple(args, "Lp", &number, &places))
        return NULL;
    native_sort_prepare();
    Native *n = native_new(number);
    if (n)
        *n = (Native){NATIVE_FREE, places ? DOES_ARGSORT : DOES_SORT};
    return PyBool_FromLong(n != NULL);
}

static PyObject *core_host_partition(PyObject *Py_UNUSED(module), PyObject *args)
{
    long long number;
    int places;
    if (!PyArg_ParseTuple(args, "Lp", &number, &places))
        return NULL;
    Native *n = native_new(number);
    if (n)
        *n = (Native){NATIVE_LOCKED, places ? DOES_ARGPARTITION : DOES_PARTITION};
    return PyBool_FromLong(n != NULL);
}

static PyObject *core_host_bits(PyObject *Py_UNUSED(module), PyObject *args)
{
    long long number;
    int pack;
    if (!PyArg_ParseTuple(args, "Lp", &number, &pack))
        return NULL;
    Native *n = native_new(number);
    if (n)
        *n = (Native){NATIVE_FREE, pack ? DOES_PACK : DOES_UNPACK};
    return PyBool_FromLong(n != NULL);
}

static PyObject *core_host_own(PyObject *Py_UNUSED(module), PyObject *args)
{
    long long number;
    const char *name;
    if (!PyArg_ParseTuple(args, "Ls", &number, &name))
        return NULL;
    NativeTask task = !strcmp(name, "repeats") ? DOES_REPEATS : !strcmp(name, "search") ? DOES_SEARCH : DOES_INTERP;
    Native *n = native_new(number);
    if (n)
        *n = (Native){NATIVE_FREE, task};
    return PyBool_FromLong(n != NULL);
}

static PyObject *core_host_reduceat(PyObject *Py_UNUSED(module), PyObject *args)
{
    long long number;
    PyObject *ufunc, *type;
    if (!PyArg_ParseTuple(args, "LO!O", &number, &PyUFunc_Type, &ufunc, &type))
        return NULL;
    PyUFuncObject *u = (PyUFuncObject *)ufunc;
    PyObject *types = u->nin == 2 && u->nout == 1 && PyArray_DescrCheck(type) ? PyTuple_Pack(3, type, type, type) : NULL;
    int at = types ? find_loop(u, types) : -1;
    Py_XDECREF(types);
    if (PyErr_Occurred())
        return NULL;
    Dtype t = at < 0 ? DT_COUNT : dtype_from_numpy(type, "operand of reduceat");
    Native *n = t == DT_COUNT ? NULL : native_new(number);
    if (n) {
        *n = (Native){NATIVE_FREE, DOES_REDUCEAT, u->functions[at], u->data ? (void *)u->data[at] : NULL, {0}};
        n->dtype[0] = n->dtype[2] = (uint8_t)t;
        n->dtype[1] = DT_int64;
    }
    return PyErr_Occurred() ? NULL : PyBool_FromLong(n != NULL);
}

static PyMethodDef native_methods[] = {
    {"host_bits", core_host_bits, METH_VARARGS, "host_bits(number, pack): the host function is np.packbits (np.unpackbits) with an axis and whether the lowest bit is first"},
    {"host_loop", core_host_loop, METH_VARARGS, "host_loop(number, ufunc, dtypes, raises): the host function is this loop of the ufunc, if that is found"},
    {"host_own", core_host_own, METH_VARARGS, "host_own(number, name): the host function is one of ours: 'repeats', 'interp', 'search'"},
    {"host_partition", core_host_partition, METH_VARARGS, "host_partition(number, places): the host function is np.partition (np.argpartition) with an axis and places"},
    {"host_reduceat", core_host_reduceat, METH_VARARGS, "host_reduceat(number, ufunc, dtype): the host function is reduceat by the ufunc's loop for this dtype, if that is found"},
    {"host_selection", core_host_selection, METH_VARARGS, "host_selection(positions, selected): the host functions that fill in where a mask is true, and the "
     "elements of a vector there"},
    {"host_sort", core_host_sort, METH_VARARGS, "host_sort(number, places): the host function is np.sort (np.argsort) with an axis and a kind"},
    {0},
};

bool native_module_init(PyObject *module) { return PyModule_AddFunctions(module, native_methods) == 0; }

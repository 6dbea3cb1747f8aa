#include "py/entry.h"
#include <time.h>
#include "opt/stage.h"
#include "py/error.h"
#include "py/log.h"
#include "py/state.h"

double now_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

PyObject *call_leaf_name(const Signature *s, const Binding *b, uint32_t leaf)
{
    Tree t = {0};
    ObjectList leaves = {0};
    PyObject *type, *value, *tb;
    PyErr_Fetch(&type, &value, &tb);
    PyObject *name = binding_tree(b, s, &t, &leaves) ? leaf_name(s, &t, leaf) : NULL;
    tree_free(&t);
    objects_free(&leaves);
    PyErr_Restore(type, value, tb);
    return name ? name : Py_NewRef(Py_None);
}

/* ---- tracing ---- */

/* The arguments with tracers as leaves, and the tree they came from. A tuple, or NULL with an exception. */
static PyObject *trace_arguments(Trace *t, const Record *r, const Tree *args, PyObject **tracers)
{
    if (args->leaves != r->nleaves) {
        PyErr_SetString(PyExc_RuntimeError, "an argument changed while it was read; leave arguments as they are on other threads during a call");
        return NULL;
    }
    for (uint32_t k = 0; k < r->nleaves; k++) {
        const Leaf *l = &r->leaf[k];
        tracers[k] = l->kind == LEAF_STATIC ? Py_NewRef(l->object) : trace_leaf(t, (int)k, r->value[k], l->alias);
        if (!tracers[k])
            return NULL;
    }
    return tree_unflatten(args, tracers);
}

typedef struct { const Signature *signature; const char *name; const Tree *args; PyObject *const *tracers; uint32_t node, leaf; } Containers;

/* Nodes and leaves of the subtree that starts at a node. */
static Tree subtree(const Tree *t, uint32_t node)
{
    Tree part = {t->at + node};
    for (uint32_t left = 1; left; part.len++) {
        left += part.at[part.len].n - 1;
        part.leaves += part.at[part.len].kind < TREE_NONE;
    }
    return part;
}

/* The first leaf of a container that is another object than before, its number of leaves if none is, -1 if its structure changed. */
static int64_t first_change(const Tree *before, PyObject *const *tracers, PyObject *value)
{
    Tree after = {0};
    ObjectList leaves = {0};
    int64_t k = tree_flatten(&after, value, &leaves) && tree_equal(before, &after) ? 0 : -1;
    while (k >= 0 && k < before->leaves && leaves.at[k] == tracers[k])
        k++;
    tree_free(&after);
    objects_free(&leaves);
    return k;
}

/* The function got copies of the lists, dicts and dataclasses among its arguments, so a change of one would be lost. */
static bool check_container(Containers *c, PyObject *value)
{
    Tree part = subtree(c->args, c->node);
    int64_t k = part.at[0].kind < TREE_NONE ? part.leaves : first_change(&part, c->tracers + c->leaf, value);
    bool same = k == part.leaves;
    if (!same && !PyErr_Occurred()) {
        PyObject *path = leaf_name(c->signature, c->args, c->leaf + (k < 0 ? 0 : (uint32_t)k));
        PyErr_Format(state.trace_error, "%s: the function changes a container that it was given (%s %V): a jitted function works on a "
                     "copy of it, so return the new one instead", c->name, k < 0 ? "the one that holds" : "at", path, "an argument");
        Py_XDECREF(path);
    }
    c->node += part.len;
    c->leaf += part.leaves;
    return same;
}

static bool check_containers(Containers *c, PyObject *values)
{
    const Signature *s = c->signature;
    bool ok = true;
    c->node = 1;
    for (int k = 0; ok && k < s->nparams; k++)
        ok = check_container(c, PyTuple_GET_ITEM(values, k));
    Py_ssize_t at = s->nparams, pos = 0;
    PyObject *value;
    if (ok && s->var) {
        PyObject *var = PyTuple_GET_ITEM(values, at++);
        c->node++;
        for (Py_ssize_t k = 0; ok && k < PyTuple_GET_SIZE(var); k++)
            ok = check_container(c, PyTuple_GET_ITEM(var, k));
    }
    if (ok && s->varkw) {
        c->node++;
        while (ok && PyDict_Next(PyTuple_GET_ITEM(values, at), &pos, NULL, &value))
            ok = check_container(c, value);
    }
    return ok;
}

/* The exception of the traced function, with what pyxla/_errors.py has to add: the operation, its operands, the user's line. */
static void explain_error(void)
{
    PyObject *type, *value, *where, *better;
    PyErr_Fetch(&type, &value, &where);
    PyErr_NormalizeException(&type, &value, &where);
    if (value && where)
        PyException_SetTraceback(value, where);
    if (value && state_import(&state.explain, "pyxla._errors", "explain") && (better = PyObject_CallOneArg(state.explain, value))) {
        PyErr_SetObject((PyObject *)Py_TYPE(better), better);
        Py_DECREF(better);
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(where);
        return;
    }
    error_drop();
    PyErr_Restore(type, value, where);
}

/* Calls fn with tracers for the arguments; its result, or NULL with an exception. */
static PyObject *trace_call(Trace *t, PyObject *fn, const char *name, const Signature *s, const Record *r, const Binding *b)
{
    Tree args = {0};
    ObjectList leaves = {0};
    PyObject *values = NULL, *result = NULL;
    PyObject **tracers = PyMem_Calloc(r->nleaves + 1, sizeof *tracers);
    if (!tracers)
        PyErr_NoMemory();
    else if (binding_tree(b, s, &args, &leaves) && (values = trace_arguments(t, r, &args, tracers)))
        result = call_bound(fn, s, values);
    if (values && !result && t->err.kind == ERR_MEMORY && PyErr_ExceptionMatches(PyExc_Exception)) {
        PyErr_Clear();                    /* what was found wrong after that is none of the user's */
        error_raise(&t->err, t);
    } else if (values && !result)
        explain_error();
    if (result && t->err.kind != ERR_NONE) {
        error_raise(&t->err, t);
        Py_CLEAR(result);
    }
    if (result && !check_containers(&(Containers){s, name, &args, tracers}, values))
        Py_CLEAR(result);
    Py_XDECREF(values);
    for (uint32_t k = 0; tracers && k < r->nleaves; k++)
        Py_XDECREF(tracers[k]);
    PyMem_Free(tracers);
    objects_free(&leaves);
    tree_free(&args);
    return result;
}

/* ---- making an entry of a trace ---- */

/* Whether an object is equal to nothing but itself, and can be held weakly. */
static bool equals_itself(PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);
    return type->tp_hash == PyBaseObject_Type.tp_hash && type->tp_richcompare == PyBaseObject_Type.tp_richcompare && type->tp_weaklistoffset != 0;
}

static bool fill_statics(Entry *e, const Record *r)
{
    for (; e->nstatics < r->nstatics; e->nstatics++) {
        PyObject *o = r->statics[e->nstatics];
        bool weak = equals_itself(o);
        PyObject *held = weak ? PyWeakref_NewRef(o, NULL) : Py_NewRef(o);
        if (!held && !PyErr_ExceptionMatches(PyExc_TypeError))
            return false;
        error_drop();
        e->weak[e->nstatics] = held && weak;
        e->statics[e->nstatics] = held ? held : Py_NewRef(o);
    }
    return true;
}

static Entry *entry_new(const Record *r)
{
    Entry *e = PyMem_Calloc(1, sizeof *e);
    if (e) {
        e->refs = 1;
        e->sig = PyMem_Malloc((r->nsig + 1) * sizeof *e->sig);
        e->statics = PyMem_Malloc((r->nstatics + 1) * sizeof *e->statics);
        e->weak = PyMem_Malloc((r->nstatics + 1) * sizeof *e->weak);
    }
    bool ok = e && e->sig && e->statics && e->weak;
    if (!ok)
        PyErr_NoMemory();
    if (!ok || !fill_statics(e, r)) {
        if (e)
            entry_unref(e);
        return NULL;
    }
    memcpy(e->sig, r->sig, r->nsig * sizeof *e->sig);
    e->nsig = r->nsig;
    e->nleaves = r->nleaves;
    e->hash = record_hash(r);
    return e;
}

static PyObject *weak_target(PyObject *weak)
{
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *o = NULL;
    PyWeakref_GetRef(weak, &o);
    Py_XDECREF(o);
    return o;
#else
    PyObject *o = PyWeakref_GetObject(weak);
    return o == Py_None ? NULL : o;
#endif
}

int entry_static_is(const Entry *e, uint32_t k, PyObject *o)
{
    return e->weak[k] ? weak_target(e->statics[k]) == o : static_equal(e->statics[k], o);
}

bool entry_dead(const Entry *e)
{
    for (uint32_t k = 0; k < e->nstatics; k++)
        if (e->weak[k] && !weak_target(e->statics[k]))
            return true;
    return false;
}

static bool fill_output(Output *o, const Graph *g, Id id)
{
    const Node *n = node_at(g, id);
    *o = (Output){.dtype = n->dtype, .rank = n->rank, .into = -1, .bytes = dtype_info[n->dtype].bytes};
    for (int k = 0; k < n->rank; k++) {
        o->shape[k] = node_shape(g, id)[k];
        if (o->shape[k] >= 0 && __builtin_mul_overflow(o->bytes, (size_t)o->shape[k], &o->bytes)) {
            PyErr_SetString(PyExc_MemoryError, "a result is larger than the address space");
            return false;
        }
    }
    o->descr = (PyArray_Descr *)dtype_to_numpy(n->dtype);
    return o->descr != NULL;
}

/* A result that relies on C order makes its output C-contiguous. */
static void mark_ordered(Entry *e)
{
    for (uint32_t k = 0; k < e->noutputs; k++)
        e->outputs[k].ordered = true;
    for (uint32_t k = 0; k < e->nresults; k++) {
        const TraceResult *r = &e->results[k];
        if (r->kind == RESULT_NEW || r->kind == RESULT_NEW_VIEW)
            e->outputs[r->output].ordered &= !r->contiguous;
    }
}

/* An output that is handed out as a NumPy scalar only needs no array. */
static void mark_scalars(Entry *e)
{
    for (uint32_t k = 0; k < e->nresults; k++) {
        const TraceResult *r = &e->results[k];
        if (r->kind == RESULT_NEW)
            e->outputs[r->output].scalar = true;
    }
    for (uint32_t k = 0; k < e->nresults; k++) {
        const TraceResult *r = &e->results[k];
        if (r->kind == RESULT_NEW_VIEW || r->kind == RESULT_NEW_STEPS || (r->kind == RESULT_NEW && !r->numpy_scalar))
            e->outputs[r->output].scalar = false;
    }
}

static bool fill_outputs(Entry *e)
{
    const Graph *g = e->trace->graph;
    uint32_t n = g->outputs.len;
    if (!(e->outputs = PyMem_Calloc(n + 1, sizeof *e->outputs))) {
        PyErr_NoMemory();
        return false;
    }
    for (; e->noutputs < n; e->noutputs++)
        if (!fill_output(&e->outputs[e->noutputs], g, g->outputs.at[e->noutputs]))
            return false;
    mark_scalars(e);
    mark_ordered(e);
    e->staged = stage_needed(g);
    for (uint32_t k = 0; k < g->checks.len; k++)
        e->assumes |= node_attr(g, g->checks.at[k])[0] == CHECK_ASSUMED;
    return true;
}

static bool fill_inputs(Entry *e)
{
    e->ninputs = e->trace->inputs.len;
    if (!(e->written = PyMem_Calloc(e->ninputs + 1, sizeof *e->written))) {
        PyErr_NoMemory();
        return false;
    }
    for (uint32_t k = 0; k < e->ninputs; k++) {
        const TraceInput *in = &e->trace->inputs.at[k];
        e->ncaptured += in->kind == INPUT_CAPTURED;
        if (in->writeback >= 0 || in->stored)
            e->written[e->nwritten++] = (int32_t)k;
        if (in->writeback >= 0) {
            e->outputs[in->writeback].into = (int32_t)k;
            e->outputs[in->writeback].scalar = false;
        }
    }
    return true;
}

/* Registers are computed only where an input, a result or a guard reads one. */
static void fill_scalars(Entry *e)
{
    const Trace *t = e->trace;
    e->nguards = t->guards ? (uint32_t)guards_count(t->guards) : 0;
    bool needed = e->nguards > 0;
    for (uint32_t k = 0; k < e->ninputs; k++)
        needed |= t->inputs.at[k].kind == INPUT_REGISTER;
    for (uint32_t k = 0; k < e->nresults; k++)
        needed |= e->results[k].kind == RESULT_REGISTER;
    e->nregs = needed && t->scalars ? (uint32_t)scalars_count(t->scalars) : 0;
    e->plain = e->nregs == 0 || scalars_plain(t->scalars);
}

/* Keeps the numbers of the trace, so that a broken guard can be put down to an argument. */
static bool fill_numbers(Entry *e, const Record *r)
{
    if (!e->nguards)
        return true;
    if (!(e->numbers = PyMem_Calloc(r->nleaves + 1, sizeof *e->numbers))) {
        PyErr_NoMemory();
        return false;
    }
    for (uint32_t k = 0; k < r->nleaves; k++)
        if (r->leaf[k].kind >= LEAF_BOOL && r->leaf[k].kind <= LEAF_COMPLEX)
            e->numbers[k] = Py_NewRef(r->value[k]);
    return true;
}

static bool finish_keys(Tree *t)
{
    for (uint32_t k = 0; k < t->len; k++) {
        TreeNode *n = &t->at[k];
        PyObject *keys = n->kind == TREE_DICT || n->kind == TREE_ORDERED ? trace_keys(n->aux) : NULL;
        if (keys)
            Py_SETREF(n->aux, keys);
        else if (PyErr_Occurred())
            return false;
    }
    return true;
}

static bool finish_leaves(Entry *e, Trace *t, const Record *r, const ObjectList *leaves)
{
    PyObject **statics = PyMem_Calloc(r->nleaves + 1, sizeof *statics);
    if (!statics) {
        PyErr_NoMemory();
        return false;
    }
    for (uint32_t k = 0; k < r->nleaves; k++)
        statics[k] = r->leaf[k].kind == LEAF_STATIC ? r->leaf[k].object : NULL;
    bool ok = trace_finish(t, statics, (int)r->nleaves, leaves->at, (int)leaves->len, e->results);
    PyMem_Free(statics);
    return ok;
}

/* Takes the result apart and closes the trace's graph over it. */
static bool finish(Entry *e, Trace *t, const Record *r, PyObject *result)
{
    ObjectList leaves = {0};
    bool ok = tree_flatten(&e->tree, result, &leaves) && finish_keys(&e->tree)
           && ((e->results = PyMem_Calloc(leaves.len + 1, sizeof *e->results)) || PyErr_NoMemory());
    e->nresults = ok ? leaves.len : 0;
    ok = ok && finish_leaves(e, t, r, &leaves);
    for (uint32_t k = 0; k < e->nresults; k++)
        Py_XINCREF(e->results[k].object);
    objects_free(&leaves);
    if (ok && t->err.kind != ERR_NONE) {
        error_raise(&t->err, t);
        ok = false;
    }
    return ok;
}

/* An exception of what was found before or after the function ran names the function. */
static void explain_function(PyObject *fn)
{
    PyObject *type, *value, *where;
    PyErr_Fetch(&type, &value, &where);
    PyErr_NormalizeException(&type, &value, &where);
    PyObject *f = state_import(&state.explain_function, "pyxla._errors", "of_function");
    Py_XDECREF(f && value ? PyObject_CallFunctionObjArgs(f, value, fn, NULL) : NULL);
    error_drop();
    PyErr_Restore(type, value, where);
}

/* Runs fn on tracers; the ended trace or NULL with an exception. */
static Trace *trace_function(Entry *e, PyObject *fn, const char *name, const Signature *s, const Record *r, const Binding *b, const TraceOptions *options)
{
    Trace *t = trace_begin(options);
    if (!t)
        return NULL;
    bool watched = trace_watch(t, fn, r->value, (int)r->nleaves);
    PyObject *result = watched ? trace_call(t, fn, name, s, r, b) : NULL;
    bool ok = result && finish(e, t, r, result);
    if (!watched || (result && !ok))
        explain_function(fn);
    Py_XDECREF(result);
    trace_end(t, ok);
    return ok ? t : NULL;
}

Entry *entry_make(PyObject *fn, const char *name, const Signature *s, const Record *r, const Binding *b, const TraceOptions *options, Costs *costs)
{
    double start = now_seconds();
    if (!state_import(&state.np_module, "pyxla._np", NULL))
        return NULL;
    Entry *e = entry_new(r);
    if (!e)
        return NULL;
    e->trace = trace_function(e, fn, name, s, r, b, options);
    bool ok = e->trace && fill_outputs(e) && fill_inputs(e);
    if (ok) {
        fill_scalars(e);
        ok = fill_numbers(e, r) && log_entry(e, s, r, b);
    }
    costs->trace += now_seconds() - start;
    if (ok)
        return e;
    entry_unref(e);
    return NULL;
}

/* ---- reading an entry ---- */

PyArrayObject *input_array(const Entry *e, uint32_t k, const Record *r)
{
    const TraceInput *in = &e->trace->inputs.at[k];
    if (in->kind == INPUT_CAPTURED)
        return (PyArrayObject *)in->object;
    return in->kind == INPUT_LEAF && r->leaf[in->leaf].kind == LEAF_ARRAY ? (PyArrayObject *)r->value[in->leaf] : NULL;
}

static bool captured_fits(const Graph *g, uint32_t k, const TraceInput *in)
{
    PyArrayObject *a = (PyArrayObject *)in->object;
    Id id = g->inputs.at[k];
    const Node *n = node_at(g, id);
    if (PyArray_NDIM(a) != n->rank || PyArray_ISBYTESWAPPED(a) != in->swapped)
        return false;
    Dtype d = array_dtype(a);
    if (d == DT_COUNT && (d = dtype_from_numpy((PyObject *)PyArray_DESCR(a), "a captured array")) == DT_COUNT)
        error_drop();
    return d == in->dtype && (n->rank == 0 || !memcmp(PyArray_DIMS(a), node_shape(g, id), n->rank * sizeof(int64_t)));
}

static bool same_strides(PyArrayObject *a, const int64_t *strides)
{
    for (int k = 0; k < PyArray_NDIM(a); k++)
        if (PyArray_DIM(a, k) > 1 && PyArray_STRIDE(a, k) != strides[k])
            return false;
    return true;
}

bool entry_fits(const Entry *e, const Record *r)
{
    for (uint32_t k = 0; k < e->ninputs; k++) {
        const TraceInput *in = &e->trace->inputs.at[k];
        if (in->kind == INPUT_CAPTURED && !captured_fits(e->trace->graph, k, in))
            return false;
        PyArrayObject *a = in->contiguous ? input_array(e, k, r) : NULL;
        if (a && !PyArray_IS_C_CONTIGUOUS(a))
            return false;
        if (in->strides && (a = input_array(e, k, r)) && !same_strides(a, in->strides))
            return false;
    }
    return true;
}

/* ---- ending ---- */

int entry_traverse(const Entry *e, visitproc visit, void *arg)
{
    for (uint32_t k = 0; k < e->nstatics; k++)
        Py_VISIT(e->statics[k]);
    for (uint32_t k = 0; k < e->ninputs; k++)
        Py_VISIT(e->trace->inputs.at[k].object);
    for (uint32_t k = 0; k < e->nresults; k++)
        Py_VISIT(e->results[k].object);
    Py_VISIT(e->leaf_text);
    int r = tree_traverse(&e->tree, visit, arg);
    return r || !e->trace->guards ? r : guards_traverse(e->trace->guards, visit, arg);
}

void entry_unref(Entry *e)
{
    if (--e->refs > 0)
        return;
    entry_clear_bounds(e);
    for (uint32_t k = 0; k < e->nstatics; k++)
        Py_DECREF(e->statics[k]);
    for (uint32_t k = 0; e->numbers && k < e->nleaves; k++)
        Py_XDECREF(e->numbers[k]);
    for (uint32_t k = 0; e->results && k < e->nresults; k++)
        Py_XDECREF(e->results[k].object);
    for (uint32_t k = 0; e->outputs && k < e->noutputs; k++)
        Py_XDECREF(e->outputs[k].descr);
    tree_free(&e->tree);
    Py_XDECREF(e->leaf_text);
    if (e->trace)
        trace_free(e->trace);
    PyMem_Free(e->sig);
    PyMem_Free(e->statics);
    PyMem_Free(e->weak);
    PyMem_Free(e->numbers);
    PyMem_Free(e->results);
    PyMem_Free(e->outputs);
    PyMem_Free(e->written);
    PyMem_Free(e);
}

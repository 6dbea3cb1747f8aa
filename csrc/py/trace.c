#include "py/tracer.h"
#include "py/error.h"
#include "py/tree.h"
#include "base/hash.h"

static _Thread_local Trace *current;

Trace *trace_current(void) { return current; }

Trace *trace_exchange(Trace *t)
{
    Trace *was = current;
    current = t;
    return was;
}

Trace *op_begin(void)
{
    Trace *t = current;
    if (!t) {
        PyErr_SetString(error_class(ERR_LIMIT), "a tracer is used where no function is being traced on this thread: it was leaked "
                        "from its function or given to another thread; return the value instead");
        return NULL;
    }
    t->graph->src = source_here(t);
    return t;
}

PyObject *trace_fail(Trace *t)
{
    if (!t->err.src)
        t->err.src = t->graph->src;
    error_raise(&t->err, t);
    t->err = (Err){0};
    return NULL;
}

/* ---- begin and end ---- */

static Trace *trace_alloc(void)
{
    Trace *t = PyMem_Calloc(1, sizeof *t);
    if (t && !(t->priv = PyMem_Calloc(1, sizeof *t->priv))) {
        PyMem_Free(t);
        t = NULL;
    }
    if (!t)
        PyErr_NoMemory();
    return t;
}

Trace *trace_begin(const TraceOptions *options)
{
    Trace *t = trace_alloc();
    if (!t)
        return NULL;
    t->options = *options;
    t->thread = PyThread_get_thread_ident();
    t->arena = arena_new(&t->err);
    t->graph = t->arena ? graph_new(t->arena) : NULL;
    t->scalars = scalars_new();
    t->guards = guards_new();
    t->priv->captured = PyDict_New();
    t->priv->began = Py_XNewRef((PyObject *)PyEval_GetFrame());
    if (!t->graph || !t->scalars || !t->guards || !t->priv->captured || !hooks_enter()) {
        if (!PyErr_Occurred())
            PyErr_NoMemory();
        trace_free(t);
        return NULL;
    }
    t->graph->mode = options->mode;
    if (options->op_limit > 0)
        t->graph->limit = options->op_limit < UINT32_MAX ? (uint32_t)options->op_limit : UINT32_MAX;
    t->outer = current;
    current = t;
    if (!hooks_enabled() || adopt_begin(t))
        return t;
    trace_end(t, false);
    return NULL;
}

/* Lets go of what only a running trace needs: cells, tracers of leaves, the journal. */
static void trace_close(Trace *t)
{
    struct TracePrivate *p = t->priv;
    p->ended = true;
    for (uint32_t k = 0; k < p->journal.len; k++)
        cell_unref(p->journal.at[k].cell);
    p->journal.len = 0;
    for (Cell *c = p->cells; c; c = c->next)
        c->trace = NULL;
    p->cells = NULL;
    for (uint32_t k = 0; k < p->leaves.len; k++)
        Py_XDECREF(p->leaves.at[k]);
    p->leaves.len = 0;
    if (p->scalar_cell)
        cell_unref(p->scalar_cell);
    p->scalar_cell = NULL;
    Py_CLEAR(p->captured);
    Py_CLEAR(p->declined);
    Py_CLEAR(p->effects);
    Py_CLEAR(p->began);
    for (int k = 0; k < 64; k++)
        Py_CLEAR(p->frames[k].code);
}

void trace_end(Trace *t, bool keep)
{
    ASSERT(current == t);
    current = t->outer;
    t->outer = NULL;
    adopt_end(t);
    hooks_leave();
    trace_close(t);
    if (!keep)
        trace_free(t);
}

void trace_free(Trace *t)
{
    if (!t)
        return;
    if (!t->priv->ended)
        trace_close(t);
    for (uint32_t k = 0; k < t->inputs.len; k++)
        Py_XDECREF(t->inputs.at[k].object);
    for (uint32_t k = 0; k < t->priv->sources.len; k++)
        Py_DECREF(t->priv->sources.at[k].code);
    PyMem_Free(t->priv->source_table);
    if (t->scalars)
        scalars_free(t->scalars);
    if (t->guards)
        guards_free(t->guards);
    arena_free(t->arena);
    PyMem_Free(t->priv);
    PyMem_Free(t);
}

/* ---- inputs ---- */

static int add_input(Trace *t, TraceInput input, InputFact fact, const int64_t *shape, int rank)
{
    Id id = graph_input(t->graph, input.dtype, shape, rank, input.kind == INPUT_REGISTER ? NODE_WEAK : 0);
    TraceInput *at = id ? vec_push(t->arena, &t->inputs) : NULL;
    InputFact *f = at ? vec_push(t->arena, &t->priv->facts) : NULL;
    if (!f) {
        trace_fail(t);
        return -1;
    }
    input.writeback = -1;
    *at = input;
    Py_XINCREF(at->object);
    *f = fact;
    return (int)t->inputs.len - 1;
}

static bool strides_fall(int rank, const int64_t *shape, const int64_t *stride)
{
    int64_t last = INT64_MAX;
    for (int k = 0; k < rank; k++)
        if (shape[k] == 0)
            return true;
    for (int k = 0; k < rank; k++) {
        int64_t s = stride[k] < 0 ? -stride[k] : stride[k];
        if (shape[k] > 1 && (s == 0 || s > last))
            return false;
        last = shape[k] > 1 ? s : last;
    }
    return true;
}

static int add_array(Trace *t, PyArrayObject *a, TraceInput input, InputFact fact, const char *what)
{
    int64_t shape[MAX_RANK], stride[MAX_RANK];
    int rank = PyArray_NDIM(a);
    if (rank > MAX_RANK) {
        PyErr_Format(PyExc_TypeError, "%s: an array of %d dimensions; at most %d are supported", what, rank, MAX_RANK);
        return -1;
    }
    input.swapped = PyArray_ISBYTESWAPPED(a);
    input.dtype = input.swapped ? array_dtype(a) : dtype_from_numpy((PyObject *)PyArray_DESCR(a), what);
    if (input.dtype == DT_COUNT)
        return -1;
    for (int k = 0; k < rank; k++) {
        shape[k] = PyArray_DIM(a, k);
        stride[k] = PyArray_STRIDE(a, k);
    }
    fact.strides = PyArray_IS_C_CONTIGUOUS(a) ? NULL : arena_dup(t->arena, stride, rank * sizeof *stride);
    fact.ordered = strides_fall(rank, shape, stride);
    fact.contiguous = PyArray_IS_C_CONTIGUOUS(a);
    return add_input(t, input, fact, shape, rank);
}

static PyObject *leaf_array(Trace *t, int leaf, PyArrayObject *a)
{
    int k = add_array(t, a, (TraceInput){.kind = INPUT_LEAF, .leaf = leaf}, (InputFact){.value = (PyObject *)a}, "argument");
    return k < 0 ? NULL : tracer_input(t, k, OWNER_LEAF, TRACER_ARRAY);
}

static PyObject *leaf_scalar(Trace *t, int leaf, PyObject *value)
{
    PyArray_Descr *descr = PyArray_DescrFromScalar(value);
    Dtype d = descr ? dtype_from_numpy((PyObject *)descr, "argument") : DT_COUNT;
    Py_XDECREF(descr);
    if (d == DT_COUNT)
        return NULL;
    int k = add_input(t, (TraceInput){.kind = INPUT_LEAF, .leaf = leaf, .dtype = d}, (InputFact){.contiguous = true, .ordered = true, .readonly = true, .value = value}, NULL, 0);
    return k < 0 ? NULL : tracer_input(t, k, OWNER_LEAF, TRACER_NUMPY_SCALAR);
}

static PyObject *leaf_tracer(Trace *t, int leaf, PyObject *value)
{
    if (is_number(value)) {
        int reg = scalars_add_leaf(t->scalars, leaf, value);
        return reg < 0 ? NULL : scalar_shown(t, reg);
    }
    if (PyArray_CheckExact(value))
        return leaf_array(t, leaf, (PyArrayObject *)value);
    if (PyArray_IsScalar(value, Generic))
        return leaf_scalar(t, leaf, value);
    PyErr_Format(PyExc_TypeError, "an argument of type %s cannot be traced", Py_TYPE(value)->tp_name);
    return NULL;
}

PyObject *trace_leaf(Trace *t, int leaf, PyObject *value, int alias)
{
    struct TracePrivate *p = t->priv;
    while ((int)p->leaves.len <= leaf)
        if (!vec_push(t->arena, &p->leaves))
            return trace_fail(t);
    PyObject *x = alias >= 0 && alias < leaf && p->leaves.at[alias] ? Py_NewRef(p->leaves.at[alias]) : leaf_tracer(t, leaf, value);
    p->leaves.at[leaf] = Py_XNewRef(x);
    return x;
}

uint64_t array_hash(PyArrayObject *a)
{
    if (PyArray_IS_C_CONTIGUOUS(a) || PyArray_IS_F_CONTIGUOUS(a))
        return hash_bytes(PyArray_DATA(a), PyArray_NBYTES(a), 1) | 1;
    PyArrayObject *copy = (PyArrayObject *)PyArray_NewCopy(a, NPY_CORDER);
    uint64_t h = copy ? hash_bytes(PyArray_DATA(copy), PyArray_NBYTES(copy), 1) | 1 : 0;
    Py_XDECREF(copy);
    return h;
}

int trace_capture(Trace *t, PyObject *array)
{
    struct TracePrivate *p = t->priv;
    PyObject *key = PyLong_FromVoidPtr(array), *known = key ? PyDict_GetItemWithError(p->captured, key) : NULL;
    int input = known ? (int)PyLong_AsLong(known) : -1;
    if (known || PyErr_Occurred())
        goto done;
    InputFact fact = {.hash = array_hash((PyArrayObject *)array)};
    if (fact.hash)
        input = add_array(t, (PyArrayObject *)array, (TraceInput){.kind = INPUT_CAPTURED, .object = array}, fact, "captured array");
    PyObject *number = input < 0 ? NULL : PyLong_FromLong(input);
    if (!number || PyDict_SetItem(p->captured, key, number) < 0)
        input = -1;
    Py_XDECREF(number);
done:
    Py_XDECREF(key);
    return input;
}

int trace_constant(Trace *t, PyObject *array)
{
    return add_array(t, (PyArrayObject *)array, (TraceInput){.kind = INPUT_CAPTURED, .object = array}, (InputFact){.constant = true}, "array");
}

Id trace_register(Trace *t, int reg, Dtype dtype)
{
    struct TracePrivate *p = t->priv;
    for (uint32_t k = 0; k < p->registers.len; k++)
        if (p->registers.at[k].reg == reg && p->registers.at[k].dtype == dtype)
            return p->registers.at[k].node;
    RegisterInput *r = vec_push(t->arena, &p->registers);
    if (!r)
        return 0;
    int input = add_input(t, (TraceInput){.kind = INPUT_REGISTER, .reg = reg, .dtype = dtype}, (InputFact){.contiguous = true, .ordered = true}, NULL, 0);
    if (input < 0) {
        p->registers.len--;
        return 0;
    }
    r = &p->registers.at[p->registers.len - 1];
    *r = (RegisterInput){reg, dtype, t->graph->inputs.at[input]};
    return r->node;
}

bool trace_ordered(const Trace *t)
{
    for (uint32_t k = 0; k < t->inputs.len; k++)
        if (!t->priv->facts.at[k].ordered)
            return false;
    return true;
}

void trace_rely_layout(Trace *t)
{
    for (uint32_t k = 0; k < t->inputs.len; k++) {
        const InputFact *f = &t->priv->facts.at[k];
        if (t->inputs.at[k].kind != INPUT_REGISTER && !f->constant) {
            t->inputs.at[k].contiguous |= f->contiguous;
            t->inputs.at[k].strides = f->strides;
        }
    }
}

static unsigned input_depends(const Trace *t, int input)
{
    if (t->priv->facts.at[input].constant)
        return 0;
    return t->inputs.at[input].kind == INPUT_CAPTURED ? DEPENDS_CAPTURED : DEPENDS_ARGUMENTS;
}

unsigned trace_depends(Trace *t, Id id)
{
    struct TracePrivate *p = t->priv;
    while (p->depends.len <= id) {
        Id n = p->depends.len;
        uint8_t *d = vec_push(t->arena, &p->depends);
        if (!d)
            return DEPENDS_ARGUMENTS;
        const Node *node = node_at(t->graph, n);
        for (int k = 0; n && k < node->rank; k++)
            *d |= node_shape(t->graph, n)[k] < 0 ? DEPENDS_ARGUMENTS : 0;
        if (n && node->op == OP_input)
            *d = (uint8_t)input_depends(t, (int)node_attr(t->graph, n)[0]);
        for (int k = 0; n && k < node_values(node); k++)
            *d |= p->depends.at[node_in(t->graph, n)[k]];
    }
    return p->depends.at[id];
}

/* ---- mark and rollback ---- */

TraceMark trace_mark(Trace *t)
{
    t->priv->marks++;
    return (TraceMark){graph_mark(t->graph), t->inputs.len, t->priv->facts.len, t->priv->journal.len};
}

static void journal_truncate(struct TracePrivate *p, uint32_t len)
{
    while (p->journal.len > len)
        cell_unref(p->journal.at[--p->journal.len].cell);
}

void trace_commit(Trace *t)
{
    if (--t->priv->marks == 0)
        journal_truncate(t->priv, 0);
}

void trace_rollback(Trace *t, TraceMark mark)
{
    struct TracePrivate *p = t->priv;
    for (uint32_t k = p->journal.len; k-- > mark.journal;) {
        Undo *u = &p->journal.at[k];
        u->cell->node = u->node;
    }
    for (Cell *c = p->cells; c; c = c->next)
        c->version++;             /* views derived since the mark are gone: all derive again */
    journal_truncate(p, mark.journal);
    while (p->registers.len && p->registers.at[p->registers.len - 1].node >= mark.graph.nodes)
        p->registers.len--;
    while (p->assumed.len && p->assumed.at[p->assumed.len - 1].node >= mark.graph.nodes)
        p->assumed.len--;
    while (t->inputs.len > mark.inputs)
        Py_CLEAR(t->inputs.at[--t->inputs.len].object);
    PyDict_Clear(p->captured);    /* what is left is met again as a second input */
    p->facts.len = mark.facts;
    if (p->depends.len > mark.graph.nodes)
        p->depends.len = mark.graph.nodes;
    graph_rollback(t->graph, mark.graph);
    p->marks--;
}

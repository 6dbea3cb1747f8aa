/* The end of a trace: what each result is made from, and which arguments are written back. */
#include "py/tracer.h"
#include "py/error.h"
#include "py/result.h"
#include "py/state.h"
#include "py/tree.h"
#include "opt/stage.h"

/* A captured array must not have changed while the function was traced: its elements are read when the compiled code runs. */
static bool captured_unchanged(Trace *t)
{
    for (uint32_t k = 0; k < t->inputs.len; k++) {
        uint64_t before = t->priv->facts.at[k].hash, now = before ? array_hash((PyArrayObject *)t->inputs.at[k].object) : 0;
        if (before && !now)
            return false;
        if (before != now) {
            PyErr_SetString(error_class(ERR_LIMIT), "an array that is not an argument was changed by NumPy while the function was traced; the compiled function "
                            "would not repeat that: make the array an argument, or make it from tracers (np.array, np.zeros, ...)");
            return false;
        }
    }
    PyObject *same = t->priv->effects ? PyObject_CallMethod(t->priv->effects, "check", NULL) : Py_NewRef(Py_None);
    Py_XDECREF(same);
    return same != NULL;
}

static int add_output(Trace *t, Id id)
{
    graph_output(t->graph, id);
    return (int)t->graph->outputs.len - 1;
}

static void add_writebacks(Trace *t)
{
    for (uint32_t k = 0; k < t->priv->leaves.len; k++) {
        PyObject *leaf = t->priv->leaves.at[k];         /* a tracer, or a truth value as it is */
        Cell *c = leaf && is_tracer(leaf) && ((Tracer *)leaf)->kind == TRACER_ARRAY ? ((Tracer *)leaf)->cell : NULL;
        if (c && c->stored)
            t->inputs.at[c->input].stored = true;
        if (c && c->node != t->graph->inputs.at[c->input] && t->inputs.at[c->input].writeback < 0)
            t->inputs.at[c->input].writeback = add_output(t, c->node);
    }
}

static View *new_view(Trace *t, const View *v)
{
    View *out = arena_alloc(t->arena, sizeof *out);
    if (out)
        *out = *v;
    return out;
}

/* The view of its array that a tracer shows, as strides where it is no basic view (then the layout of an input is relied on); false: it
 * cannot be said, or NumPy may have made a copy. */
static bool view_of(Trace *t, const Tracer *x, View *out)
{
    const Node *base = node_at(t->graph, x->cell->node);
    const int64_t *stride = x->cell->stride;
    int64_t offset, unit = stride ? 1 : dtype_info[base->dtype].bytes;
    bool basic = map_view(x->map, base->rank, out);
    if (!basic)
        memset(out, 0, sizeof *out);
    out->readonly = x->map->readonly;
    if (basic || x->map->within == PART_BITS)
        return basic;
    if (x->cell->owner != OWNER_LOCAL || x->map->layout != LAYOUT_C)
        trace_rely_layout(t);
    if (x->map->layout == LAYOUT_UNKNOWN || !map_strides(x->map, base->rank, node_shape(t->graph, x->cell->node), stride, out->step, &offset))
        return false;
    out->rank = x->map->rank;
    out->base_rank = 1;
    out->flat = true;
    out->start[0] = offset * unit;
    memcpy(out->shape, x->map->shape, out->rank * sizeof *out->shape);
    for (int k = 0; k < out->rank; k++) {
        out->axis[k] = out->step[k] ? 0 : -1;
        out->step[k] *= unit;
    }
    return true;
}

static bool result_value(Trace *t, Tracer *x, TraceResult *out)
{
    Id id = tracer_node(x);
    *out = (TraceResult){.kind = RESULT_NEW, .numpy_scalar = x->kind == TRACER_NUMPY_SCALAR, .contiguous = tracer_layout(x) == LAYOUT_C};
    out->output = id ? add_output(t, id) : 0;
    return id != 0;
}

/* A result on an argument or captured array: the object, a view of it, or (where NumPy's own view cannot be said) its elements. */
static bool result_input(Trace *t, Tracer *x, TraceResult *out)
{
    View v;
    out->input = x->cell->input;
    out->kind = RESULT_INPUT;
    if (!x->map)
        return true;
    if (!view_of(t, x, &v))
        return result_value(t, x, out);
    out->kind = RESULT_INPUT_VIEW;
    return (out->view = new_view(t, &v)) != NULL;
}

/* Whether x is all of a C-ordered array with its axes permuted: in NumPy it has that array's strides. */
static bool permuted(const Tracer *x)
{
    const Map *m = x->map;
    if (!m || m->parent || m->reshape || m->part || m->rank != m->base_rank || x->cell->layout != LAYOUT_C)
        return false;
    uint64_t seen = 0;
    for (int k = 0; k < m->rank; k++) {
        if (m->axis[k] < 0 || m->step[k] != 1 || m->start[m->axis[k]] || (m->offset && m->offset[m->axis[k]]))
            return false;
        seen |= 1ull << m->axis[k];
    }
    const Dim *all = node_shape(x->cell->trace->graph, x->cell->node);
    for (int k = 0; k < m->rank; k++)
        if (m->shape[k] != all[m->axis[k]])
            return false;
    return seen == (1ull << m->rank) - 1;
}

/* The view of the array above it that a map shows. */
static bool own_step(const Map *m, const Dim *shape, int rank, ViewStep *out)
{
    Map own = *m;
    own.parent = NULL;
    *out = (ViewStep){.reshape = m->reshape, .map = m};
    if (!m->reshape) {
        bool said = map_view(&own, rank, &out->view);
        out->view.readonly = m->readonly;
        return said;
    }
    out->contiguous = m->rank == rank && !memcmp(m->shape, shape, rank * sizeof *shape);
    out->view.rank = m->rank;
    memcpy(out->view.shape, m->shape, m->rank * sizeof *m->shape);
    return true;
}

void trace_unordered(Trace *t, Id node)
{
    Id *at = vec_push(t->arena, &t->unordered);
    if (at)
        *at = node;
}

/* Whether a node's array has NumPy's order of axes: nothing that it is made of is unordered, and something in it is more than a number. */
static bool ordered(const Trace *t, Id id)
{
    enum { ODD = 1, ARRAY = 2 };
    const Graph *g = t->graph;
    uint8_t *is = arena_alloc(t->arena, id + 1);
    if (!is)
        return false;
    memset(is, 0, id + 1);
    for (uint32_t i = 0; i < t->unordered.len; i++)
        if (t->unordered.at[i] <= id)
            is[t->unordered.at[i]] = ODD;
    for (Id k = 1; k <= id; k++) {                          /* (inputs come before what is made of them) */
        const Node *n = node_at(g, k);
        for (int i = n->op == OP_like; i < n->nin; i++)
            is[k] |= is[node_in(g, k)[i]];
        if (n->op == OP_like)
            is[k] |= ARRAY;
        else if (node_size(g, k) == 1)
            is[k] &= ODD;
        else if (!n->nin)
            is[k] |= ARRAY;
    }
    return is[id] == ARRAY;
}

/* A result that is a reshape, or of one, whose being a view only the run shows; false: it has none, or a part that no view says, or the
 * array may not have NumPy's strides. */
static bool result_steps(Trace *t, const Tracer *x, TraceResult *out)
{
    bool reshape = false, known = !stage_needed(t->graph) && ordered(t, x->cell->node);
    uint32_t n = 0;
    for (const Map *m = x->map; m; m = m->parent, n++)
        reshape |= m->reshape;
    *out = (TraceResult){.kind = RESULT_NEW_STEPS, .nsteps = n, .steps = reshape && known ? arena_alloc(t->arena, n * sizeof *out->steps) : NULL};
    if (!out->steps)
        return false;
    for (const Map *m = x->map; m; m = m->parent) {
        const Node *base = node_at(t->graph, x->cell->node);
        int rank = m->parent ? m->parent->rank : base->rank;
        if (!own_step(m, m->parent ? m->parent->shape : node_shape(t->graph, x->cell->node), rank, &out->steps[--n]))
            return false;
    }
    if (x->cell->output < 0)
        x->cell->output = add_output(t, x->cell->node);
    out->output = x->cell->output;
    return true;
}

/* Equal reshapes of several results get one number. */
static void number_reshapes(Trace *t, TraceResult *out, int n)
{
    for (int k = 0; k < n; k++)
        for (uint32_t i = 0; i < out[k].nsteps; i++) {
            ViewStep *step = &out[k].steps[i];
            bool known = !step->reshape;
            for (int j = 0; j < k && !known; j++)
                if (i < out[j].nsteps && out[j].steps[i].map == step->map) {
                    step->made = out[j].steps[i].made;
                    known = true;
                }
            if (!known)
                step->made = t->reshapes++;
        }
}

/* A result on an array made in the function; results on one array share one output. */
static bool result_local(Trace *t, Tracer *x, TraceResult *out)
{
    Cell *c = x->cell;
    View v;
    if (c->results < 2 && !permuted(x))
        return result_value(t, x, out);
    if (x->map && !view_of(t, x, &v))
        return result_steps(t, x, out) || (!t->err.kind && result_value(t, x, out));
    if (c->output < 0)
        c->output = add_output(t, c->node);
    *out = (TraceResult){.kind = x->map ? RESULT_NEW_VIEW : RESULT_NEW, .output = c->output};
    out->contiguous = c->layout == LAYOUT_C || (x->map && v.flat);
    out->owner = x->map && !c->owned && permuted(x);
    c->owned |= out->owner;
    return !x->map || (out->view = new_view(t, &v));
}

/* An array that NumPy made while the function was traced: a new one in every call. Numbers are a constant of the graph; no other dtype is, and no
 * subclass. */
static bool result_made(Trace *t, PyObject *leaf, TraceResult *out)
{
    PyArrayObject *a = (PyArrayObject *)leaf;
    if (!PyArray_CheckExact(leaf) || array_dtype(a) == DT_COUNT) {
        PyErr_Format(error_class(ERR_UNSUPPORTED), "a result is a %s of %S that was made in the jitted function, which gives arrays of numbers only: make it outside",
                     Py_TYPE(leaf)->tp_name, PyArray_DESCR(a));
        return false;
    }
    int input = trace_constant(t, leaf);
    Tracer *x = input < 0 ? NULL : (Tracer *)tracer_input(t, input, OWNER_LOCAL, TRACER_ARRAY);
    bool ok = x && result_value(t, x, out);
    Py_XDECREF(x);
    return ok;
}

/* What is no tracer and no array of this trace stays the object that it is. */
static bool result_object(PyObject *leaf, PyObject *const *statics, int n, TraceResult *out)
{
    for (int k = 0; k < n; k++)
        if (statics[k] == leaf) {
            *out = (TraceResult){.kind = RESULT_LEAF, .input = k};
            return true;
        }
    PyObject *check = state_import(&state.result_check, "pyxla._results", "check"), *ok = check ? PyObject_CallOneArg(check, leaf) : NULL;
    out->object = leaf;
    Py_XDECREF(ok);
    return ok != NULL;
}

PyObject *trace_keys(PyObject *keys)
{
    Py_ssize_t n = PyTuple_GET_SIZE(keys);
    PyObject *key = state_import(&state.result_key, "pyxla._results", "key"), *out = key ? PyTuple_New(n) : NULL;
    for (Py_ssize_t k = 0; out && k < n; k++) {
        PyObject *now = PyObject_CallOneArg(key, PyTuple_GET_ITEM(keys, k));
        if (!now)
            Py_CLEAR(out);
        else
            PyTuple_SET_ITEM(out, k, now);
    }
    return out;
}

/* x without what only says that it is a view if the layouts of the inputs are as now (contiguous()): there it is what it is made of. */
static Tracer settled(Trace *t, const Tracer *x)
{
    Tracer y = *x;
    for (const Map *m = y.map; m && map_same(m, x->cell) && m->layout != LAYOUT_UNKNOWN; m = y.map = m->parent)
        if (m->layout == LAYOUT_INPUTS)
            trace_rely_layout(t);
    return y;
}

static bool result(Trace *t, PyObject *leaf, TraceResult *out)
{
    *out = (TraceResult){.kind = RESULT_OBJECT};
    if (is_extent(leaf)) {
        Tracer *x = extent_tracer(leaf);
        bool ok = x && tracer_trace(x) == t && result_value(t, x, out);
        out->python_number = true;
        Py_XDECREF(x);
        return ok;
    }
    Tracer *x = (Tracer *)leaf;
    if (tracer_trace(x) != t)
        return false;
    if (x->kind == TRACER_PYTHON_SCALAR) {
        out->kind = RESULT_REGISTER;
        out->input = x->reg;
        return true;
    }
    if (x->cell->origin && x->cell->origin_as == LAYOUT_INPUTS)          /* a copy only because of the layout that the inputs have now */
        trace_rely_layout(t);
    if (x->kind == TRACER_NUMPY_SCALAR)
        return x->cell->owner == OWNER_LEAF ? result_input(t, x, out) : result_value(t, x, out);
    Tracer y = settled(t, x);
    if (y.cell->owner != OWNER_LOCAL && !t->priv->facts.at[y.cell->input].constant)
        return result_input(t, &y, out);
    return result_local(t, &y, out);
}

/* Whether two tracers are one view once they are settled. */
static bool same_view(Trace *t, PyObject *leaf, const Tracer *y)
{
    const Tracer *x = (const Tracer *)leaf;
    return is_tracer(leaf) && x->kind == TRACER_ARRAY && x->cell == y->cell && settled(t, x).map == settled(t, y).map;
}

/* An array that is a result already: one object is one result. */
static bool again(Trace *t, PyObject *const *leaves, int k, TraceResult *out)
{
    Tracer *x = is_tracer(leaves[k]) ? (Tracer *)leaves[k] : NULL;
    if (x ? x->kind != TRACER_ARRAY || x->cell->results < 2 : !PyArray_Check(leaves[k]))
        return false;
    for (int j = 0; j < k; j++)
        if (leaves[j] == leaves[k] || (x && same_view(t, leaves[j], x))) {
            out[k] = (TraceResult){.kind = RESULT_AGAIN, .input = j};
            if (x)
                x->cell->results--;
            return true;
        }
    return false;
}

/* Counts the results that show each array, after those that are one object have been marked. */
static void count_results(Trace *t, PyObject *const *leaves, int n, TraceResult *out)
{
    for (int k = 0; k < n; k++)
        if (is_tracer(leaves[k]) && ((Tracer *)leaves[k])->kind == TRACER_ARRAY)
            ((Tracer *)leaves[k])->cell->results++;
    for (int k = n; k-- > 0;)
        if (!again(t, leaves, k, out)) {
            out[k] = (TraceResult){.kind = RESULT_OBJECT};
            if (is_tracer(leaves[k]) && ((Tracer *)leaves[k])->kind == TRACER_ARRAY)
                ((Tracer *)leaves[k])->cell->owned |= !settled(t, (Tracer *)leaves[k]).map;
        }
}

/* The array that NumPy made in this trace which owns an array's memory. */
static PyArrayObject *root_of(PyArrayObject *a)
{
    while (PyArray_BASE(a) && PyArray_Check(PyArray_BASE(a)))
        a = (PyArrayObject *)PyArray_BASE(a);
    return a;
}

/* Whether an array that NumPy made in this trace shares memory with another such result. */
static bool shared(const Trace *t, PyObject *const *leaves, int n, int k)
{
    for (int j = 0; j < n; j++)
        if (leaves[j] != leaves[k] && PyArray_Check(leaves[j]) && adopt_made_here(t, (PyArrayObject *)leaves[j])
            && arrays_share((PyArrayObject *)leaves[j], (PyArrayObject *)leaves[k]))
            return true;
    return false;
}

/* The output that an earlier result made of the array `root`, or -1. */
static int output_of_root(PyObject *const *leaves, int k, const TraceResult *out, const PyArrayObject *root)
{
    for (int j = 0; j < k; j++)
        if ((out[j].kind == RESULT_NEW_VIEW || out[j].kind == RESULT_NEW) && PyArray_Check(leaves[j]) && root_of((PyArrayObject *)leaves[j]) == root)
            return out[j].output;
    return -1;
}

/* Results that share the memory of an array of numbers: views of one new array. */
static bool result_of_root(Trace *t, PyObject *const *leaves, int k, TraceResult *out)
{
    PyArrayObject *a = (PyArrayObject *)leaves[k], *root = root_of(a);
    if (PyArray_BASE(root) || !PyArray_IS_C_CONTIGUOUS(root) || PyArray_TYPE(root) != PyArray_TYPE(a) || PyArray_NDIM(a) > MAX_RANK) {
        PyErr_SetString(error_class(ERR_UNSUPPORTED), "two results share memory that NumPy made of numbers alone: return a .copy() of one of them");
        return false;
    }
    int output = output_of_root(leaves, k, out, root);
    if (output < 0 && !result_made(t, (PyObject *)root, &out[k]))
        return false;
    View v = {.rank = PyArray_NDIM(a), .base_rank = 1, .flat = true, .readonly = !PyArray_ISWRITEABLE(a), .start = {PyArray_BYTES(a) - PyArray_BYTES(root)}};
    for (int d = 0; d < v.rank; d++) {
        v.shape[d] = PyArray_DIM(a, d);
        v.step[d] = PyArray_STRIDE(a, d);
        v.axis[d] = v.step[d] ? 0 : -1;
    }
    out[k] = (TraceResult){.kind = a == root ? RESULT_NEW : RESULT_NEW_VIEW, .output = output < 0 ? out[k].output : output, .contiguous = true, .view = new_view(t, &v)};
    return out[k].view != NULL;
}

static bool any_result(Trace *t, PyObject *const *statics, int nstatics, PyObject *const *leaves, int n, int k, TraceResult *out)
{
    if (out[k].kind == RESULT_AGAIN)
        return true;
    if (is_tracer(leaves[k]) || is_extent(leaves[k]))
        return result(t, leaves[k], &out[k]);
    if (!PyArray_Check(leaves[k]) || !adopt_made_here(t, (PyArrayObject *)leaves[k]))
        return result_object(leaves[k], statics, nstatics, &out[k]);
    return shared(t, leaves, n, k) ? result_of_root(t, leaves, k, out) : result_made(t, leaves[k], &out[k]);
}

bool trace_finish(Trace *t, PyObject *const *statics, int nstatics, PyObject *const *leaves, int n, TraceResult *out)
{
    if (!captured_unchanged(t))
        return false;
    add_writebacks(t);
    count_results(t, leaves, n, out);
    for (int k = 0; k < n; k++)
        if (!any_result(t, statics, nstatics, leaves, n, k, out)) {
            if (!PyErr_Occurred())
                trace_fail(t);
            return false;
        }
    number_reshapes(t, out, n);
    if (t->err.kind) {
        trace_fail(t);
        return false;
    }
    return true;
}

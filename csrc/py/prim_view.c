/* The primitives that are views: an array seen in another shape, order or part, without its elements being touched. */
#include "py/prim.h"
#include "py/error.h"

/* What a view may be taken of: x itself, or an array with the value of a NumPy scalar. New reference. */
static Tracer *view_base(Tracer *x)
{
    if (x->kind != TRACER_NUMPY_SCALAR)
        return (Tracer *)Py_NewRef(x);
    return (Tracer *)tracer_array(x->cell->trace, tracer_node(x), LAYOUT_C);
}

static PyObject *basic_view(Tracer *x, int rank, const int8_t *axis, const int64_t *shape, const int64_t *step, const int64_t *start)
{
    static const int64_t zeros[MAX_RANK], ones[MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    Tracer *base = view_base(x);
    if (!base)
        return NULL;
    Trace *t = base->cell->trace;
    Map *m = map_basic(t, base->map, rank, tracer_rank(base), axis, shape, step ? step : ones, start ? start : zeros, NULL);
    PyObject *view = tracer_view(base, m);
    Py_DECREF(base);
    return view;
}

PyObject *tracer_transpose(Tracer *x, const int *perm)
{
    if (tracer_dynamic(x)) {
        Id node = tracer_node(x);
        return node ? tracer_derived(x, graph_transpose(x->cell->trace->graph, node, perm)) : NULL;
    }
    int8_t axis[MAX_RANK];
    int64_t shape[MAX_RANK];
    int rank = tracer_rank(x);
    for (int k = 0; k < rank; k++) {
        axis[k] = (int8_t)perm[k];
        shape[k] = tracer_shape(x)[perm[k]];
    }
    return basic_view(x, rank, axis, shape, NULL, NULL);
}

/* Axes of a reshape that only adds and removes axes of extent 1. */
static bool same_but_units(const int64_t *from, int nfrom, const int64_t *to, int nto, int8_t *axis)
{
    int at = 0;
    for (int k = 0; k < nto; k++) {
        axis[k] = -1;
        if (to[k] == 1)
            continue;
        while (at < nfrom && from[at] == 1)
            at++;
        if (at == nfrom || from[at] != to[k])
            return false;
        axis[k] = (int8_t)at++;
    }
    while (at < nfrom && from[at] == 1)
        at++;
    return at == nfrom;
}

/* Whether NumPy's reshape is a view: for sure, if the inputs have the layout they have now, or not known; *copies: a copy in that case. */
static Layout reshape_layout(const Tracer *x, const int64_t *shape, int rank, bool *copies)
{
    const Node *base = node_at(x->cell->trace->graph, x->cell->node);
    int64_t stride[MAX_RANK], out[MAX_RANK], offset;
    Layout layout = (Layout)x->cell->layout;
    *copies = x->cell->origin && x->cell->origin_as == LAYOUT_UNKNOWN;    /* a window: never contiguous but for trivial ones */
    if (*copies)
        return LAYOUT_C;
    if (x->cell->owner == OWNER_LOCAL && layout == LAYOUT_INPUTS && !trace_ordered(x->cell->trace))
        layout = LAYOUT_UNKNOWN;
    if (!map_strides(x->map, base->rank, node_shape(x->cell->trace->graph, x->cell->node), x->cell->stride, stride, &offset))
        return LAYOUT_UNKNOWN;
    if (reshape_strides(tracer_rank(x), tracer_shape(x), stride, rank, shape, out))
        return layout;
    if (x->map && x->map->layout > layout)
        layout = (Layout)x->map->layout;
    *copies = layout != LAYOUT_UNKNOWN;
    return layout;
}

/* What is a copy here and may be a view in NumPy: a snapshot like x. */
static void snapshot_again(Tracer *copy, const Tracer *x)
{
    copy->cell->readonly = copy->cell->whole = true;
    if (!copy->cell->origin)
        cell_copy_of(copy->cell, x->cell->origin, LAYOUT_UNKNOWN);
}

PyObject *tracer_reshape(Tracer *x, const int64_t *shape, int rank)
{
    Trace *t = x->cell->trace;
    int8_t axis[MAX_RANK];
    if (same_but_units(tracer_shape(x), tracer_rank(x), shape, rank, axis))
        return basic_view(x, rank, axis, shape, NULL, NULL);
    Id node = tracer_node(x);
    if (!node)
        return NULL;
    bool copies = x->kind == TRACER_NUMPY_SCALAR;
    Layout layout = LAYOUT_C;
    if (!copies && node_size(t->graph, node) > 1)
        layout = reshape_layout(x, shape, rank, &copies);
    if (copies) {
        Tracer *copy = (Tracer *)tracer_array(t, graph_reshape(t->graph, node, shape, rank), LAYOUT_C);
        if (copy && layout == LAYOUT_INPUTS)
            cell_copy_of(copy->cell, x->cell, LAYOUT_INPUTS);
        if (copy && rank > 1 && x->cell->origin && x->cell->origin_as == LAYOUT_UNKNOWN)
            cell_copy_of(copy->cell, x->cell->origin, LAYOUT_UNKNOWN);    /* an axis of a window that is split is a view in NumPy */
        if (copy && x->cell->whole)
            snapshot_again(copy, x);
        return (PyObject *)copy;
    }
    return tracer_view(x, map_reshape(t, x->map, rank, shape, layout));
}

static int64_t product(const int64_t *shape, int rank)
{
    int64_t n = 1;
    for (int k = 0; k < rank; k++)
        n *= shape[k];
    return n;
}

/* x with its axes reversed if `fortran`. New reference. */
static PyObject *turned(Tracer *x, bool fortran)
{
    int perm[MAX_RANK], rank = tracer_rank(x);
    for (int k = 0; k < rank; k++)
        perm[k] = rank - 1 - k;
    return fortran ? tracer_transpose(x, perm) : Py_NewRef(x);
}

/* make(x with its axes in C order), with the axes of x. */
static PyObject *made_turned(Tracer *x, bool fortran, PyObject *(*make)(Tracer *))
{
    PyObject *from = turned(x, fortran), *made = from ? make((Tracer *)from) : NULL, *r = made ? turned((Tracer *)made, fortran) : NULL;
    Py_XDECREF(from);
    Py_XDECREF(made);
    return r;
}

static PyObject *reshaped_to_itself(Tracer *x)
{
    return tracer_view(x, map_reshape(x->cell->trace, x->map, tracer_rank(x), tracer_shape(x), LAYOUT_UNKNOWN));
}

/* A copy in C order, which NumPy makes too if the inputs are as they are now (INPUTS). */
static PyObject *copied(Tracer *x, Layout layout)
{
    Tracer *copy = (Tracer *)tracer_copy(x);
    if (copy && layout == LAYOUT_INPUTS)
        cell_copy_of(copy->cell, x->cell, LAYOUT_INPUTS);
    if (copy && tracer_like(copy, node_in_c_order(copy->cell->trace->graph, copy->node)))
        copy->cell->layout = LAYOUT_C;
    else
        Py_CLEAR(copy);
    return (PyObject *)copy;
}

static PyObject *copied_by_inputs(Tracer *x) { return copied(x, LAYOUT_INPUTS); }
static PyObject *copied_surely(Tracer *x) { return copied(x, LAYOUT_C); }

/* The same elements in C (or Fortran) order: x as it is, or a copy where NumPy would make one. */
static PyObject *tracer_contiguous(Tracer *x, bool fortran)
{
    if (tracer_dynamic(x) || !product(tracer_shape(x), tracer_rank(x)))
        return Py_NewRef(x);
    const Trace *t = x->cell->trace;
    if (x->cell->origin && x->cell->origin_as == LAYOUT_UNKNOWN) {
        Tracer *copy = (Tracer *)tracer_copy(x);
        if (copy && x->cell->whole)
            snapshot_again(copy, x);
        return (PyObject *)copy;
    }
    int64_t stride[MAX_RANK], n = 1, offset, unit = x->cell->stride ? dtype_info[tracer_dtype(x)].bytes : 1;
    int rank = tracer_rank(x);
    const int64_t *shape = tracer_shape(x);
    Layout layout = (Layout)x->cell->layout;
    if (x->map && x->map->layout > layout)
        layout = (Layout)x->map->layout;
    if (x->cell->owner == OWNER_LOCAL && layout == LAYOUT_INPUTS && !trace_ordered(t))
        layout = LAYOUT_UNKNOWN;
    bool known = map_strides(x->map, node_at(t->graph, x->cell->node)->rank, node_shape(t->graph, x->cell->node), x->cell->stride, stride, &offset);
    bool same = true;
    for (int k = 0, at; known && k < rank; k++, n *= shape[at]) {
        at = fortran ? k : rank - 1 - k;
        same &= shape[at] <= 1 || stride[at] == n * unit;
    }
    if (!known || layout == LAYOUT_UNKNOWN)
        return made_turned(x, fortran, reshaped_to_itself);
    if (same && layout == LAYOUT_C)
        return Py_NewRef(x);
    if (same)
        return tracer_view(x, map_reshape(x->cell->trace, x->map, rank, shape, layout));
    return made_turned(x, fortran, layout == LAYOUT_INPUTS ? copied_by_inputs : copied_surely);
}

static PyObject *prim_contiguous(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    Id node;
    Tracer *x = prim_arity("contiguous", n, 1, 3) ? prim_operand(op_begin(), args[0], &node) : NULL;
    PyObject *r = x ? x->kind == TRACER_NUMPY_SCALAR ? Py_NewRef(x) : tracer_contiguous(x, n > 1 && args[1] == Py_True) : NULL;
    Tracer *made = (Tracer *)r;
    if (r && r != (PyObject *)x && n > 2 && args[2] == Py_True && (made->cell != x->cell || !made->map || made->map->layout == LAYOUT_UNKNOWN)) {
        PyErr_SetString(PyExc_ValueError, "Unable to avoid copy while creating an array as requested.");
        Py_CLEAR(r);
    }
    Py_XDECREF(x);
    return r;
}

/* Whether NumPy's array owns its memory: True, False for a view, None where only the caller of the jitted function knows. */
static PyObject *prim_owned(PyObject *m, PyObject *o)
{
    (void)m;
    Id node;
    Tracer *x = prim_operand(op_begin(), o, &node);
    if (!x)
        return NULL;
    bool known = x->map || x->cell->owner == OWNER_LOCAL, own = !x->map && !x->cell->origin;
    Py_DECREF(x);
    return Py_NewRef(!known ? Py_None : own ? Py_True : Py_False);
}

static PyObject *prim_readonly(PyObject *m, PyObject *o)
{
    (void)m;
    Id node;
    Tracer *x = prim_operand(op_begin(), o, &node);
    bool readonly = x && (x->cell->readonly || (x->map && x->map->readonly));
    Py_XDECREF(x);
    return x ? PyBool_FromLong(readonly) : NULL;
}

static PyObject *prim_diagonal(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    Id node;
    int64_t k[MAX_RANK];
    Tracer *x = prim_arity("diagonal", n, 2, 2) ? prim_operand(op_begin(), args[0], &node) : NULL;
    PyObject *r = NULL;
    if (x && tracer_dynamic(x))
        r = Py_NewRef(Py_None);
    else if (x && prim_ints(args[1], k) == 2 && tracer_rank(x) >= 2) {
        Trace *t = x->cell->trace;
        Map *map = map_diagonal(t, x->map, tracer_rank(x), tracer_shape(x), k[0] < 0 ? -k[0] : 0, k[0] < 0 ? 0 : k[0], k[1] != 0);
        r = tracer_view(x, map);
    } else if (x && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "diagonal() needs two axes");
    Py_XDECREF(x);
    return r;
}

/* Replaces -1 by the extent it stands for. */
static bool complete_shape(const Tracer *x, int64_t *shape, int rank, PyObject *given)
{
    int64_t size = product(tracer_shape(x), tracer_rank(x)), known = 1;
    int unknown = -1, n = 0;
    for (int k = 0; k < rank; k++) {
        if (shape[k] < 0) {
            unknown = k;
            n++;
        } else
            known *= shape[k];
    }
    if (n == 1 && known && size % known == 0) {
        shape[unknown] = size / known;
        return true;
    }
    if (n == 0 && known == size)
        return true;
    if (n > 1)
        PyErr_SetString(PyExc_ValueError, "can only specify one unknown dimension");
    else
        PyErr_Format(PyExc_ValueError, "cannot reshape array of size %lld into shape %R", (long long)size, given);
    return false;
}

static bool names_extent(PyObject *shape)
{
    for (Py_ssize_t k = 0; PyTuple_Check(shape) && k < PyTuple_GET_SIZE(shape); k++)
        if (is_extent(PyTuple_GET_ITEM(shape, k)))
            return true;
    return false;
}

/* A reshape or broadcast where an extent is known only in the run; takes the reference to x over. */
static PyObject *derive_shape(Tracer *x, Id node, Op op, PyObject *shape)
{
    Trace *t = x->cell->trace;
    Dim dims[MAX_RANK];
    int rank = read_dims(t, shape, dims);
    Id r = 0;
    if (rank >= 0 && op == OP_broadcast && broadcast_fits(t->graph, node, dims, rank))
        r = broadcast_into(t->graph, node, dims, rank);
    else if (rank >= 0)
        r = graph_add(t->graph, op, &node, 1, dims, rank, DT_COUNT, NULL, 0);
    PyObject *derived = rank < 0 ? NULL : tracer_derived(x, r);
    Py_DECREF(x);
    return derived;
}

static PyObject *prim_reshape(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    int64_t shape[MAX_RANK];
    Id node;
    Tracer *x = prim_arity("reshape", n, 2, 2) ? prim_operand(op_begin(), args[0], &node) : NULL;
    if (x && (tracer_dynamic(x) || names_extent(args[1])))
        return derive_shape(x, node, OP_reshape, args[1]);
    int rank = x ? prim_ints(args[1], shape) : -1;
    PyObject *r = rank >= 0 && complete_shape(x, shape, rank, args[1]) ? tracer_reshape(x, shape, rank) : NULL;
    Py_XDECREF(x);
    return r;
}

static bool permutation(const int64_t *axes, int n, int rank, int *perm)
{
    uint32_t seen = 0;
    for (int k = 0; k < n; k++) {
        perm[k] = (int)(axes[k] < 0 ? axes[k] + rank : axes[k]);
        if (perm[k] < 0 || perm[k] >= rank || seen >> perm[k] & 1)
            break;
        seen |= 1u << perm[k];
    }
    if (n == rank && seen == (1u << rank) - 1)
        return true;
    PyErr_SetString(PyExc_ValueError, "axes don't match array");
    return false;
}

static PyObject *prim_transpose(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    int64_t axes[MAX_RANK];
    int perm[MAX_RANK];
    Id node;
    Tracer *x = prim_arity("transpose", n, 2, 2) ? prim_operand(op_begin(), args[0], &node) : NULL;
    int rank = x ? prim_ints(args[1], axes) : -1;
    PyObject *r = rank >= 0 && permutation(axes, rank, tracer_rank(x), perm) ? tracer_transpose(x, perm) : NULL;
    Py_XDECREF(x);
    return r;
}

static PyObject *broadcast_view(Tracer *x, const int64_t *shape, int rank, PyObject *given)
{
    int8_t axis[MAX_RANK];
    int own = tracer_rank(x);
    bool ok = own <= rank;
    for (int k = 0; ok && k < rank; k++) {
        int b = k - (rank - own);
        int64_t have = b < 0 ? 1 : tracer_shape(x)[b];
        axis[k] = (int8_t)(b >= 0 && have == shape[k] ? b : -1);
        ok = have == shape[k] || have == 1;
    }
    Tracer *r = ok ? (Tracer *)basic_view(x, rank, axis, shape, NULL, NULL) : NULL;
    if (r)
        ((Map *)r->map)->readonly = true;
    if (ok)
        return (PyObject *)r;
    PyErr_Format(PyExc_ValueError, "operands could not be broadcast together with requested shape %R", given);
    return NULL;
}

static PyObject *prim_broadcast(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    int64_t shape[MAX_RANK];
    Id node;
    Tracer *x = prim_arity("broadcast", n, 2, 2) ? prim_operand(op_begin(), args[0], &node) : NULL;
    if (x && (tracer_dynamic(x) || names_extent(args[1])))
        return derive_shape(x, node, OP_broadcast, args[1]);
    int rank = x ? prim_ints(args[1], shape) : -1;
    PyObject *r = rank >= 0 ? broadcast_view(x, shape, rank, args[1]) : NULL;
    Py_XDECREF(x);
    return r;
}

static bool inside(const Tracer *x, const int64_t *start, const int64_t *step, const int64_t *shape, int rank)
{
    for (int k = 0; k < rank; k++) {
        int64_t last = start[k] + (shape[k] - 1) * step[k], have = tracer_shape(x)[k];
        if (shape[k] < 0 || step[k] == 0 || (shape[k] && (start[k] < 0 || start[k] >= have || last < 0 || last >= have))) {
            PyErr_SetString(PyExc_ValueError, "slice() goes out of the array");
            return false;
        }
    }
    return true;
}

static PyObject *prim_slice(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    int64_t start[MAX_RANK], step[MAX_RANK], shape[MAX_RANK];
    int8_t axis[MAX_RANK];
    Id node;
    Tracer *x = prim_arity("slice", n, 4, 4) ? prim_operand(op_begin(), args[0], &node) : NULL;
    int rank = x ? tracer_rank(x) : -1;
    bool ok = x && prim_ints(args[1], start) == rank && prim_ints(args[2], step) == rank;
    if (ok && tracer_dynamic(x)) {
        PyObject *part = read_dims(x->cell->trace, args[3], shape) == rank
                       ? tracer_derived(x, graph_slice_const(x->cell->trace->graph, node, start, step, shape)) : NULL;
        Py_DECREF(x);
        return part;
    }
    ok = ok && prim_ints(args[3], shape) == rank;
    if (x && !ok && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "slice() needs a start, a step and an extent per axis");
    for (int k = 0; k < rank; k++)
        axis[k] = (int8_t)k;
    PyObject *r = ok && inside(x, start, step, shape, rank) ? basic_view(x, rank, axis, shape, step, start) : NULL;
    Py_XDECREF(x);
    return r;
}

/* ---- windows and layouts ---- */

/* Whether `of` has a place in its order for all axes of x: those of one element have none. */
static bool orders_axes(const Tracer *of, const Tracer *x)
{
    bool all = tracer_rank(x) == tracer_rank(of);
    for (int k = 0; all && k < tracer_rank(x); k++)
        all = tracer_shape(of)[k] != 1 || tracer_shape(x)[k] == 1;
    return all;
}

/* A result of our own that NumPy gives the order of the axes of `of`, also of another shape if the third argument is true; if it is false, x's own
 * operation says what its order is, and no more is known of it than of that of `of`. A view stays as it is. */
static PyObject *prim_follow(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    Id node, like;
    Trace *t = prim_arity("follow", n, 2, 3) ? op_begin() : NULL;
    Tracer *of = prim_operand(t, args[1], &like), *x = of ? prim_operand(t, args[0], &node) : NULL;
    bool own = x && x->kind == TRACER_ARRAY && x->cell->owner == OWNER_LOCAL && !x->map && tracer_rank(x) > 1;
    if (own) {
        bool whole = shape_eq(t->graph, tracer_shape(x), tracer_rank(x), tracer_shape(of), tracer_rank(of));
        bool said = n < 3 ? whole : args[2] == Py_True && (whole || orders_axes(of, x));
        if (said && !tracer_like(x, graph_like(t->graph, node, like)))
            Py_CLEAR(x);
        else if (tracer_kept_layout(of) > x->cell->layout)
            cell_lay_out(x->cell, tracer_kept_layout(of));
    }
    Py_XDECREF(of);
    return (PyObject *)x;
}

/* What NumPy shows as a view in a form that has no map: no writes to it, none to x while it lives. */
static PyObject *prim_snapshot(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    Id node, part;
    Trace *t = prim_arity("snapshot", n, 3, 5) ? op_begin() : NULL;
    Tracer *x = prim_operand(t, args[0], &node), *of = x ? prim_operand(t, args[1], &part) : NULL;
    Tracer *r = of ? (Tracer *)tracer_array(t, node, args[2] == Py_True ? tracer_layout(of) : LAYOUT_UNKNOWN) : NULL;
    if (r) {
        r->cell->readonly = true;
        r->cell->whole = n > 3;
        r->cell->through = n > 4 ? Py_NewRef(args[4]) : NULL;
        cell_copy_of(r->cell, of->cell, LAYOUT_UNKNOWN);
    }
    Py_XDECREF(x);
    Py_XDECREF(of);
    return (PyObject *)r;
}

/* x's memory as another real dtype of the same size: a view, written through. */
static PyObject *prim_bits(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    Id node;
    Trace *t = prim_arity("bits", n, 2, 2) ? op_begin() : NULL;
    Dtype as = t ? prim_dtype(args[1]) : DT_COUNT;
    Tracer *x = as == DT_COUNT ? NULL : prim_operand(t, args[0], &node);
    Map *map = x ? map_part(t, x->map, tracer_rank(x), tracer_shape(x), PART_BITS) : NULL;
    if (map)
        map->as = (uint8_t)as;
    PyObject *r = map ? tracer_view(x, map) : NULL;
    if (x && !map)
        PyErr_NoMemory();
    Py_XDECREF(x);
    return r;
}

/* What a store into a snapshot calls, None where it is none that may be stored into. */
static PyObject *prim_through(PyObject *m, PyObject *o)
{
    (void)m;
    PyObject *through = is_tracer(o) && !((Tracer *)o)->map ? ((Tracer *)o)->cell->through : NULL;
    return Py_NewRef(through ? through : Py_None);
}

static PyObject *prim_window(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    int64_t attr[MAX_RANK];
    Id node;
    Trace *t = prim_arity("window", n, 2, 2) ? op_begin() : NULL;
    Tracer *x = prim_operand(t, args[0], &node);
    PyObject *r = NULL;
    if (x && prim_ints(args[1], attr) == 4 && tracer_rank(x) < MAX_RANK)
        r = tracer_array(t, graph_window(t->graph, node, (int)attr[0], attr[1], attr[2], attr[3]), LAYOUT_C);
    else if (x && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "window() needs axis, size, stride and step, and room for an axis more");
    Py_XDECREF(x);
    return r;
}

/* Whether x is a view of windows, which no reshape that joins axes can address. */
static PyObject *prim_windowed(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    Id node = 0;
    Trace *t = prim_arity("windowed", n, 1, 1) ? op_begin() : NULL;
    Tracer *x = prim_operand(t, args[0], &node);
    if (!x)
        return NULL;
    while (op_info[node_at(t->graph, node)->op].kind == KIND_VIEW && node_at(t->graph, node)->op != OP_window)
        node = node_in(t->graph, node)[0];
    bool found = node_at(t->graph, node)->op == OP_window;
    Py_DECREF(x);
    return PyBool_FromLong(found);
}

/* The strides of x in units of its elements (in bytes where its array has strides of its own), and its offset; false: not known, or an exception. */
static bool known_strides(Tracer *x, Trace *t, int64_t *stride, int64_t *offset)
{
    const Node *base = node_at(t->graph, x->cell->node);
    Layout layout = (Layout)x->cell->layout;
    bool local = x->cell->owner == OWNER_LOCAL && layout && (layout == LAYOUT_UNKNOWN || !trace_ordered(t));
    if (local || x->kind == TRACER_PYTHON_SCALAR || !map_strides(x->map, base->rank, node_shape(t->graph, x->cell->node), x->cell->stride, stride, offset))
        return false;
    trace_rely_layout(t);
    return true;
}

PyObject *tracer_strides(PyObject *o)
{
    Trace *t = op_begin();
    Tracer *x = t && is_tracer(o) ? tracer_trace((Tracer *)o) ? (Tracer *)o : NULL : NULL;
    if (!x)
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    int64_t stride[MAX_RANK], offset, unit = x->cell->stride ? 1 : dtype_info[node_at(t->graph, x->cell->node)->dtype].bytes;
    if (!known_strides(x, t, stride, &offset))
        Py_RETURN_NONE;
    PyObject *r = PyTuple_New(tracer_rank(x));
    for (int k = 0; r && k < tracer_rank(x); k++) {
        PyObject *s = PyLong_FromLongLong(stride[k] * unit);
        if (!s)
            Py_CLEAR(r);
        else
            PyTuple_SET_ITEM(r, k, s);
    }
    return r;
}

/* The array that x shows a part of, and where x begins in it. */
static PyObject *prim_memory(PyObject *m, PyObject *o)
{
    (void)m;
    Trace *t = op_begin();
    Tracer *x = t && is_tracer(o) ? tracer_trace((Tracer *)o) ? (Tracer *)o : NULL : NULL;
    int64_t stride[MAX_RANK], offset;
    if (!x || x->cell->stride || !known_strides(x, t, stride, &offset))
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    PyObject *whole = tracer_whole(x);
    return whole ? Py_BuildValue("NL", whole, (long long)offset) : NULL;
}

static PyObject *prim_strides(PyObject *m, PyObject *o)
{
    (void)m;
    return tracer_strides(o);
}

PyMethodDef view_methods[] = {
    FAST(reshape, "reshape(x, shape): a view, or a copy where NumPy surely copies"),
    FAST(transpose, "transpose(x, perm): a view"),
    FAST(broadcast, "broadcast(x, shape): a read-only view"),
    FAST(slice, "slice(x, start, step, shape): a view"),
    FAST(stacked, "stacked(x, arrays, core, own): x with the order of axes of stacks of arrays of so many core axes"),
    FAST(follow, "follow(x, of, any_shape=False): x, if it is no view, with the order of axes in memory that a copy of `of` has"),
    FAST(bits, "bits(x, dtype): x's memory as another real dtype of the same size, a view"),
    FAST(snapshot, "snapshot(x, of, ordered): x read-only, a part of `of`, to which nothing may be written while it lives; ordered: its axes have falling "
         "strides if those of `of` do; with a fifth argument it may be stored into, which calls that with the new value"),
    {"through", prim_through, METH_O, "through(x): the fifth argument of the snapshot x, or None"},
    {"strides", prim_strides, METH_O, "strides(x): in bytes, part of the key from now on; None: not known"},
    {"memory", prim_memory, METH_O, "memory(x): the C-contiguous array that x is a view of and the element that x begins at; None: not known"},
    FAST(windowed, "windowed(x): whether x is a view of windows"),
    FAST(window, "window(x, (axis, size, stride, step)): windows of an axis, in a last axis"),
    FAST(contiguous, "contiguous(x, fortran=False, view=False): x, or a copy where NumPy's ascontiguousarray (asfortranarray) makes one, ValueError if it must be no copy"),
    FAST(diagonal, "diagonal(x, (k, readonly)): the diagonals of the last two axes, k above the main one, a view; None: a size is data"),
    {"readonly", prim_readonly, METH_O, "readonly(x): whether x is a view that may not be written to"},
    {"owned", prim_owned, METH_O, "owned(x): whether NumPy's array owns its memory; None: not known while tracing"},
    {NULL},
};

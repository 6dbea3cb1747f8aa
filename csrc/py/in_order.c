/* In which order NumPy lays out the axes of what it makes, where the rules of order.c would say otherwise: an OP_like of an array that has that
 * order, which nothing computes. */
#include "py/tracer.h"
#include "py/prim.h"

Id node_in_c_order(Graph *g, Id node)
{
    return graph_like(g, node, node ? graph_broadcast(g, graph_const(g, DT_bool_, 0), node_shape(g, node), node_at(g, node)->rank) : 0);
}

/* The first element of x along all but its axes first ... first + n - 1, without these other axes; 0: there is none. */
static Id first_elements(Graph *g, Id x, int first, int n)
{
    Dim shape[MAX_RANK];
    int64_t start[MAX_RANK] = {0}, step[MAX_RANK];
    int rank = node_at(g, x)->rank;
    for (int d = 0; d < rank; d++) {
        shape[d] = d >= first && d < first + n ? node_shape(g, x)[d] : 1;
        step[d] = 1;
        if (node_shape(g, x)[d] <= 0)
            return 0;
    }
    return graph_reshape(g, graph_slice_const(g, x, start, step, shape), shape + first, n);
}

Id node_gathered(Graph *g, Id node, Id x, int indexed)
{
    int rest = node_at(g, x)->rank - indexed;
    if (!node || rest < 2)
        return node && rest ? node_in_c_order(g, node) : node;
    Id one = first_elements(g, x, indexed, rest);
    return one ? graph_like(g, node, graph_broadcast(g, one, node_shape(g, node), node_at(g, node)->rank)) : node;
}

Id node_stacked(Graph *g, Id node, int loops, const Id *in, const int *core, int nin)
{
    Id like[MAX_RANK];
    Dim shape[MAX_RANK];
    int n = 0;
    if (!node || loops < 2)
        return node_in_c_order(g, node);
    for (int i = 0; i < nin; i++) {
        int own = node_at(g, in[i])->rank - core[i], rank = node_at(g, node)->rank - (loops - own);
        Id one = own > 0 ? first_elements(g, in[i], 0, own) : 0;
        if (own > 0 && (!one || own > loops))
            return node;
        for (int d = 0; one && d < rank; d++)
            shape[d] = d < own ? node_shape(g, one)[d] : 1;
        if (one)
            like[n++] = graph_broadcast(g, graph_reshape(g, one, shape, rank), node_shape(g, node), node_at(g, node)->rank);
    }
    return graph_like_all(g, node, like, n);
}

/* The operands of stacked(), and the worst of their layouts. */
static bool read_stacks(Trace *t, PyObject *arrays, PyObject *numbers, Id *in, int *core, int *n, Layout *layout)
{
    int64_t number[MAX_RANK];
    *n = prim_ints(numbers, number);
    if (*n >= 0 && (!PyTuple_Check(arrays) || PyTuple_GET_SIZE(arrays) != *n))
        PyErr_SetString(PyExc_TypeError, "stacked() needs a number per array");
    for (int i = 0; i < *n && !PyErr_Occurred(); i++) {
        Tracer *a = prim_operand(t, PyTuple_GET_ITEM(arrays, i), &in[i]);
        core[i] = (int)number[i];
        if (a && tracer_rank(a) - core[i] > 1 && tracer_kept_layout(a) > *layout)
            *layout = tracer_kept_layout(a);
        Py_XDECREF(a);
    }
    return !PyErr_Occurred();
}

/* stacked(x, arrays, core, own): x, new, as a function of stacks of arrays with so many core axes each makes it; own: its core axes. */
PyObject *prim_stacked(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    Id in[MAX_RANK], node;
    int core[MAX_RANK], nin;
    Layout layout = LAYOUT_C;
    Trace *t = prim_arity("stacked", n, 4, 4) ? op_begin() : NULL;
    int own = t ? (int)PyLong_AsLong(args[3]) : 0;
    if (!t || PyErr_Occurred() || !read_stacks(t, args[1], args[2], in, core, &nin, &layout))
        return NULL;
    Tracer *x = prim_operand(t, args[0], &node);
    if (!x || x->kind != TRACER_ARRAY || tracer_dynamic(x))
        return (PyObject *)x;
    PyObject *r = tracer_array(t, node_stacked(t->graph, node, tracer_rank(x) - own, in, core, nin), layout);
    Py_DECREF(x);
    return r;
}

/* Assumptions: values of the run that decide what NumPy's result is (`np.linalg.eigvals`: whether all are real).
 *
 * The trace takes the value that today's arguments give, as it does for Python numbers, and goes on with it. But what a guard would compare is
 * known only amid the run, so it is a check: where it fails, no argument was written yet, and dispatch runs the call with an entry of another
 * assumption, or traces one. */
#include "py/assume.h"
#include "py/concrete.h"
#include "py/error.h"
#include "py/jit.h"
#include "py/state.h"

/* ---- inputs ---- */

static bool read_value(PyObject *value, Reading *r)
{
    if (PyArray_Check(value))
        reading_of((PyArrayObject *)value, r);
    else
        scalar_element(value, r->cell);
    return true;
}

/* ctx: the trace, which runs. */
static bool read_today(void *ctx, int input, Reading *r)
{
    const Trace *t = ctx;
    const TraceInput *in = &t->inputs.at[input];
    switch (in->kind) {
    case INPUT_LEAF: return read_value(t->priv->facts.at[input].value, r);
    case INPUT_CAPTURED: return read_value(in->object, r);
    case INPUT_REGISTER: return scalar_store(scalars_value(t->scalars, in->reg), in->dtype, r->cell);
    }
    return false;
}

typedef struct { const Entry *entry; const Record *record; const Registers *regs; } Made;

/* ctx: a Made call. */
static bool read_call(void *ctx, int input, Reading *r)
{
    const Made *m = ctx;
    const TraceInput *in = &m->entry->trace->inputs.at[input];
    switch (in->kind) {
    case INPUT_LEAF: return read_value(m->record->value[in->leaf], r);
    case INPUT_CAPTURED: return read_value(in->object, r);
    case INPUT_REGISTER: return scalar_store(m->regs->at[in->reg], in->dtype, r->cell);
    }
    return false;
}

/* ---- while tracing ---- */

/* Today's value of a scalar; usual: a bool is true most often. false with an exception. */
static bool today(Trace *t, Id id, bool usual, int64_t *value)
{
    bool truth = node_at(t->graph, id)->dtype == DT_bool_;
    char cell[16] = {0};
    if (t->options.abstract && !(truth && usual)) {
        error_raise_at(error_class(ERR_LIMIT), "NumPy's result depends on the values of an argument; give an array in the place of the ShapeDtype", t, t->graph->src);
        return false;
    }
    if (t->options.abstract)
        cell[0] = 1;
    else if (!node_compute(t, id, read_today, t, cell))
        return false;
    memcpy(value, cell, sizeof *value);
    if (truth)
        *value = (*value & 0xff) != 0;
    return true;
}

static bool take(Trace *t, Id id, bool usual, const char *message, int64_t *value)
{
    Graph *g = t->graph;
    struct TracePrivate *p = t->priv;
    for (uint32_t k = 0; k < p->assumed.len; k++)
        if (p->assumed.at[k].node == id) {
            *value = p->assumed.at[k].value;
            return true;
        }
    if (!today(t, id, usual, value))
        return false;
    bool truth = node_at(g, id)->dtype == DT_bool_;
    if (truth && p->assumed.len < 32)
        *value ^= t->options.flip >> p->assumed.len & 1;
    Assumed *a = vec_push(t->arena, &p->assumed);
    if (a)
        *a = (Assumed){id, *value};
    Id holds = truth ? *value ? id : graph_unary(g, OP_logical_not, id) : graph_binary(g, OP_equal, id, graph_const(g, DT_int64, *value));
    if (a && trace_check(g, holds, CHECK_ASSUMED, message))
        return true;
    trace_fail(t);
    return false;
}

PyObject *trace_assume(Tracer *x, bool usual, const char *message)
{
    Trace *t = tracer_trace(x) ? op_begin() : NULL;
    Id id = t ? tracer_node(x) : 0;
    int64_t value;
    if (!id)
        return NULL;
    if (!trace_depends(t, id)) {
        PyObject *known = tracer_value(x, "this", ""), *number = known ? PyObject_CallMethod(known, "item", NULL) : NULL;
        Py_XDECREF(known);
        return number;
    }
    const Node *n = node_at(t->graph, id);
    if (node_size(t->graph, id) != 1 || (n->dtype != DT_bool_ && n->dtype != DT_int64)) {
        PyErr_SetString(PyExc_TypeError, "only one bool or int64 can be assumed");
        return NULL;
    }
    bool truth = n->dtype == DT_bool_;
    if (n->rank && !(id = graph_reshape(t->graph, id, NULL, 0)))
        return trace_fail(t);
    return !take(t, id, usual, message, &value) ? NULL : truth ? PyBool_FromLong(value != 0) : PyLong_FromLongLong(value);
}

/* ---- after a run ---- */

/* Whether every assumption holds for a call, in the order of the trace; also where one cannot be computed. */
static bool all_hold(Made *m)
{
    const Trace *t = m->entry->trace;
    const Graph *g = t->graph;
    for (uint32_t k = 0; k < g->checks.len; k++) {
        char cell[16] = {0};
        Id check = g->checks.at[k];
        if (node_attr(g, check)[0] == CHECK_ASSUMED && node_compute(t, node_in(g, check)[0], read_call, m, cell) && !cell[0])
            return false;
        if (PyErr_Occurred())
            break;
    }
    error_drop();
    return true;
}

bool assumption_broken(const Entry *e, const Record *r, const Registers *regs, PyObject **why)
{
    if (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_MemoryError))
        return false;
    PyObject *type, *value, *where;
    bool surely = PyErr_ExceptionMatches(state.assumption_error);
    PyErr_Fetch(&type, &value, &where);
    if (!surely && all_hold(&(Made){e, r, regs})) {
        PyErr_Restore(type, value, where);
        return false;
    }
    PyErr_NormalizeException(&type, &value, &where);
    Py_XDECREF(type);
    Py_XDECREF(where);
    Py_XSETREF(*why, value);
    return true;
}

/* Cells and the tracers on them: identity, views, versions, writes. */
#include "py/tracer.h"
#include "py/error.h"

/* ---- cells ---- */

static Cell *cell_new(Trace *t, Id node, Owner owner, Layout layout)
{
    Cell *c = PyMem_Calloc(1, sizeof *c);
    if (!c) {
        PyErr_NoMemory();
        return NULL;
    }
    *c = (Cell){.trace = t, .next = t->priv->cells, .refs = 1, .node = node, .input = -1, .output = -1, .owner = owner, .layout = layout};
    if (c->next)
        c->next->prev = c;
    t->priv->cells = c;
    return c;
}

void cell_unref(Cell *c)
{
    if (--c->refs)
        return;
    if (c->trace) {
        if (c->next)
            c->next->prev = c->prev;
        *(c->prev ? &c->prev->next : &c->trace->priv->cells) = c->next;
    }
    if (c->origin) {
        c->origin->views[c->origin_as]--;
        cell_unref(c->origin);
    }
    Py_XDECREF(c->through);
    PyMem_Free(c);
}

void cell_copy_of(Cell *c, Cell *from, Layout as)
{
    c->origin = from;
    c->origin_as = (uint8_t)as;
    from->refs++;
    from->views[as]++;
}

/* The one place where an array's value changes. */
void cell_rebind(Cell *c, Id node)
{
    Trace *t = c->trace;
    if (t->priv->marks) {
        Undo *u = vec_push(t->arena, &t->priv->journal);
        if (!u)
            return;
        *u = (Undo){c, c->node, c->version};
        c->refs++;
    }
    c->node = node;
    c->version++;
}

/* ---- tracers ---- */

/* A tracer on a cell; takes the reference to the cell over. */
static PyObject *tracer_new(Cell *c, const Map *map, Id node, TracerKind kind, int reg)
{
    Tracer *x = c ? PyObject_New(Tracer, tracer_type) : NULL;
    if (!x) {
        if (c)
            cell_unref(c);
        return NULL;
    }
    x->cell = c;
    x->map = map;
    x->node = node;
    x->version = c->version;
    x->kind = kind;
    x->reg = reg;
    x->viewed = -1;
    for (const Map *m = map; m && x->viewed < 0; m = m->parent)
        if (m->reshape)
            x->viewed = (int8_t)map->layout;
    if (x->viewed >= 0)
        c->views[x->viewed]++;
    return (PyObject *)x;
}

void cell_lay_out(Cell *c, Layout layout)
{
    const Node *n = node_at(c->trace->graph, c->node);
    c->layout = n->rank < 2 ? LAYOUT_C : layout;
    if (c->layout != LAYOUT_C && (n->op == OP_broadcast || (op_info[n->op].kind == KIND_SOURCE && n->op != OP_input)))
        trace_unordered(c->trace, c->node);               /* one number, which has no order for the plan to follow */
}

PyObject *tracer_array(Trace *t, Id node, Layout layout)
{
    if (!node)
        return trace_fail(t);
    Cell *c = cell_new(t, node, OWNER_LOCAL, LAYOUT_C);
    if (c)
        cell_lay_out(c, layout);
    return tracer_new(c, NULL, node, TRACER_ARRAY, -1);
}

PyObject *tracer_result(Trace *t, Id node, Layout layout)
{
    if (!node)
        return trace_fail(t);
    if (node_at(t->graph, node)->rank)
        return tracer_array(t, node, layout);
    return tracer_new(cell_new(t, node, OWNER_LOCAL, LAYOUT_C), NULL, node, TRACER_NUMPY_SCALAR, -1);
}

PyObject *tracer_scalar(Trace *t, int reg)
{
    Cell **shared = &t->priv->scalar_cell;
    if (!*shared && !(*shared = cell_new(t, 0, OWNER_LOCAL, LAYOUT_C)))
        return NULL;
    (*shared)->refs++;
    return tracer_new(*shared, NULL, 0, TRACER_PYTHON_SCALAR, reg);
}

PyObject *tracer_input(Trace *t, int input, Owner owner, TracerKind kind)
{
    Id node = t->graph->inputs.at[input];
    Cell *c = cell_new(t, node, owner, t->priv->facts.at[input].constant ? LAYOUT_C : LAYOUT_INPUTS);
    if (c) {
        c->input = input;
        c->readonly = t->priv->facts.at[input].readonly;
        c->stride = t->priv->facts.at[input].strides;
    }
    return tracer_new(c, NULL, node, kind, -1);
}

static bool refuse(PyObject *cls, const char *message)
{
    Trace *t = trace_current();
    error_raise_at(cls, message, t, t ? t->graph->src : 0);
    return false;
}

/* The node of a view of the parent's. What a diagonal of more than two axes is made of has another order of axes than its strides say. */
static Id read_view(Cell *c, const Map *m, Id parent)
{
    Id node = map_read(c->trace->graph, m, parent);
    if (node && m->diagonal && node_at(c->trace->graph, parent)->rank > 2)
        trace_unordered(c->trace, node);
    return node;
}

static Id derive(Cell *c, const Map *m)
{
    Id parent = m ? derive(c, m->parent) : c->node;
    return m && parent ? read_view(c, m, parent) : parent;
}

static PyObject *view_of_cell(Cell *c, Map *map, Id node)
{
    if (!node)
        return PyErr_Occurred() ? NULL : trace_fail(c->trace);
    c->refs++;
    return tracer_new(c, map, node, TRACER_ARRAY, -1);
}

PyObject *tracer_view(Tracer *base, Map *map)
{
    Cell *c = base->cell;
    if (!map)
        return trace_fail(c->trace);
    Id parent = map->parent == base->map ? tracer_node(base) : derive(c, map->parent);
    return view_of_cell(c, map, parent ? read_view(c, map, parent) : 0);
}

PyObject *tracer_whole(Tracer *x) { return view_of_cell(x->cell, NULL, x->cell->node); }

Trace *tracer_trace(Tracer *x)
{
    Trace *t = x->cell->trace, *now = trace_current();
    if (t && t == now)
        return t;
    const char *why = !t ? "its function has returned (it was leaked, for example into a global or an attribute): return the value instead"
                    : t->thread != PyThread_get_thread_ident() ? "it belongs to a trace on another thread"
                    : "it belongs to an outer trace: pass it as an argument";
    char message[256];
    snprintf(message, sizeof message, "a tracer is used where it has no value: %s", why);
    if (now)
        now->graph->src = source_here(now);
    error_raise_at(error_class(ERR_LIMIT), message, now, now ? now->graph->src : 0);
    return NULL;
}

Id tracer_node(Tracer *x)
{
    Cell *c = x->cell;
    if (x->version != c->version) {
        if (c->stale) {
            refuse(error_class(ERR_UNSUPPORTED), "a part of an array that was read while the function is traced (a slice with bounds known only in the "
                   "run, a window), after another such part of it was stored into: take a .copy() before the store, or read it again");
            return 0;
        }
        Id node = derive(c, x->map);
        if (!node) {
            trace_fail(c->trace);
            return 0;
        }
        x->node = node;
        x->version = c->version;
    }
    return x->node;
}

Dtype tracer_dtype(const Tracer *x)
{
    Dtype d = (Dtype)node_at(x->cell->trace->graph, x->cell->node)->dtype;
    ElementPart within = x->map ? (ElementPart)x->map->within : PART_ALL;
    return within == PART_ALL ? d : within == PART_BITS ? (Dtype)x->map->as : d == DT_complex64 ? DT_float32 : DT_float64;
}

int tracer_rank(const Tracer *x)
{
    return x->map ? x->map->rank : node_at(x->cell->trace->graph, x->cell->node)->rank;
}

const int64_t *tracer_shape(const Tracer *x)
{
    return x->map ? x->map->shape : node_shape(x->cell->trace->graph, x->cell->node);
}

/* NumPy gives results in the order of the strides of its operands, so only views that permute axes of more than one element matter. */
Layout tracer_layout(const Tracer *x)
{
    if (tracer_rank(x) < 2)
        return LAYOUT_C;
    for (const Map *m = x->map; m; m = m->parent) {
        int last = -1;
        for (int k = 0; !m->reshape && k < m->rank; k++) {
            if (m->axis[k] < 0 || m->shape[k] == 1)
                continue;
            if (m->axis[k] < last)
                return LAYOUT_UNKNOWN;
            last = m->axis[k];
        }
    }
    Layout own = x->cell->layout, seen = x->map ? x->map->layout : LAYOUT_C;
    return own > seen ? own : seen;
}

/* Whether some axes, not all, repeat the same memory: NumPy sorts the axes of a copy by strides, 0 too. */
static bool repeats(const Tracer *x)
{
    bool some = false;
    for (const Map *m = x->map; m && !m->reshape; m = m->parent) {
        bool all = true;
        for (int k = 0; k < m->rank; k++) {
            bool again = m->axis[k] < 0 || m->step[k] == 0;
            some |= again && m->shape[k] > 1;
            all &= again || m->shape[k] <= 1;
        }
        if (all)
            return false;
    }
    return some;
}

Layout tracer_kept_layout(const Tracer *x)
{
    if (tracer_rank(x) < 2 || !repeats(x))
        return tracer_layout(x);
    trace_unordered(x->cell->trace, x->node);
    return LAYOUT_UNKNOWN;
}

/* ---- writes ---- */

/* Whether an array runs along one axis at most, before it was broadcast: it says nothing about an order of axes. */
static bool has_no_order(const Graph *g, Id id)
{
    Id in = node_at(g, id)->op == OP_broadcast ? node_in(g, id)[0] : id;
    int axes = 0;
    for (int k = 0; k < node_at(g, in)->rank; k++)
        axes += node_shape(g, in)[k] != 1;
    return axes < 2;
}

/* Whether an elementwise result lies in memory as its operand `old` for sure: the others decide nothing. */
static bool lies_as(const Graph *g, Id node, Id old)
{
    bool found = false;
    for (int k = 0; k < node_at(g, node)->nin; k++) {
        Id in = node_in(g, node)[k];
        if (in != old && !has_no_order(g, in))
            return false;
        found |= in == old;
    }
    return found && op_info[node_at(g, node)->op].kind == KIND_ELEMENTWISE;
}

/* What a store makes of an array stays where the array lies, also where nothing of its old value is left. */
static Id in_place(Graph *g, Id node, Id old)
{
    Op op = (Op)node_at(g, node)->op;
    return op == OP_update || op == OP_scatter || lies_as(g, node, old) ? node : graph_like(g, node, old);
}

/* Reshapes are views in NumPy or copies, depending on memory; with such views alive a write has to know. */
static bool views_known(Cell *c)
{
    if (c->views[LAYOUT_INPUTS] || (c->origin && c->origin_as == LAYOUT_INPUTS))
        trace_rely_layout(c->trace);
    if (c->views[LAYOUT_UNKNOWN])
        return refuse(error_class(ERR_UNSUPPORTED), "a store into an array of which a reshaped or flattened version is in use: whether "
                      "NumPy made that one a view or a copy depends on the memory layout; take a .copy() of it before the store");
    return true;
}

bool cell_of_numpy(const Cell *c)
{
    return c->owner == OWNER_CAPTURED && adopt_made_here(c->trace, (PyArrayObject *)c->trace->inputs.at[c->input].object);
}

bool tracer_writable(Tracer *x)
{
    if (x->kind != TRACER_ARRAY)
        return refuse(PyExc_TypeError, "a NumPy scalar does not support item assignment");
    if (cell_of_numpy(x->cell))
        return refuse(error_class(ERR_LIMIT), OF_NUMPY);
    if (x->cell->owner == OWNER_CAPTURED)
        return refuse(error_class(ERR_LIMIT), "a store into a captured array (a global, closure variable or attribute): pass the array as an "
                      "argument, then it is written back; or store into a copy");
    if (x->cell->frozen)
        return refuse(error_class(ERR_UNSUPPORTED), "a store into an array whose size depends on data and of which a part or another view is in use: "
                      "store into a .copy()");
    if (x->map && x->map->readonly && x->viewed == LAYOUT_UNKNOWN && !x->cell->readonly)
        return refuse(error_class(ERR_UNSUPPORTED), "a store into a reshaped or flattened version of a broadcast array: whether NumPy made it a copy depends "
                      "on the memory layout; take a .copy() of it before the store");
    if (x->cell->through)
        return views_known(x->cell);
    if (x->cell->readonly && x->cell->origin)
        return refuse(error_class(ERR_UNSUPPORTED), "a store into a view that is read while the function is traced (a window, a slice with bounds known only in "
                      "the run, elements as another dtype): write x[i:j] = x[i:j] + 1 instead of x[i:j] += 1, or store into a .copy()");
    if ((x->map && x->map->readonly) || x->cell->readonly)
        return refuse(PyExc_ValueError, "assignment destination is read-only");
    return views_known(x->cell);
}

static Id stored(Cell *c, const Map *m, Id value)
{
    if (!m || !value)
        return value;
    return stored(c, m->parent, map_write(c->trace->graph, m, derive(c, m->parent), value));
}

/* A snapshot's new value goes to where it was read. Other snapshots of the same array may not be read from then on. */
static bool store_through(Cell *c)
{
    PyObject *value = tracer_array(c->trace, c->node, LAYOUT_C);
    if (!value)
        return false;
    Cell *origin = c->origin;
    int shown = 0;
    for (Cell *k = c->trace->priv->cells; k; k = k->next)
        if (k->origin == origin && k->origin_as == LAYOUT_UNKNOWN) {
            shown++;
            k->stale |= k != c;
            k->version += k != c;
        }
    origin->views[LAYOUT_UNKNOWN] -= shown;
    PyObject *r = PyObject_CallOneArg(c->through, value);
    origin->views[LAYOUT_UNKNOWN] += shown;
    Py_DECREF(value);
    Py_XDECREF(r);
    return r != NULL;
}

bool tracer_like(Tracer *x, Id node)
{
    if (!node) {
        trace_fail(x->cell->trace);
        return false;
    }
    cell_rebind(x->cell, node);
    x->node = node;
    x->version = x->cell->version;
    return true;
}

bool tracer_store(Tracer *x, Id value)
{
    Cell *c = x->cell;
    if (!tracer_writable(x))
        return false;
    c->stored = true;
    if (value && (value == tracer_node(x) || !node_size(c->trace->graph, value)))
        return true;
    Id node = stored(c, x->map, value), placed = node ? in_place(c->trace->graph, node, c->node) : 0;
    if (!placed) {
        trace_fail(c->trace);
        return false;
    }
    cell_rebind(c, placed);
    if (placed == node) {
        x->node = value;
        x->version = c->version;
    }
    return !c->through || store_through(c);
}

/* Maps: what a view shows of its array, read and written through. */
#include "py/tracer.h"

static Map *map_alloc(Trace *t, const Map *parent, int rank, int base_rank, bool offsets)
{
    size_t words = (size_t)(2 * rank + base_rank), ids = offsets ? (size_t)base_rank : 0;
    Map *m = arena_alloc(t->arena, sizeof *m + words * sizeof(int64_t) + ids * sizeof(Id) + (size_t)rank);
    if (!m)
        return NULL;
    m->parent = parent;
    m->rank = (uint8_t)rank;
    m->base_rank = (uint8_t)base_rank;
    m->layout = parent ? parent->layout : LAYOUT_C;
    m->within = parent ? parent->within : PART_ALL;
    m->as = parent ? parent->as : 0;
    m->readonly = parent && parent->readonly;
    m->shape = (int64_t *)(m + 1);
    m->step = m->shape + rank;
    m->start = m->step + rank;
    m->offset = offsets ? (Id *)(m->start + base_rank) : NULL;
    m->axis = (int8_t *)((Id *)(m->start + base_rank) + ids);
    return m;
}

/* A static basic map of a static basic map is one map. */
static Map *map_merge(Trace *t, const Map *m)
{
    const Map *p = m->parent;
    Map *out = map_alloc(t, p->parent, m->rank, p->base_rank, false);
    if (!out)
        return NULL;
    out->readonly |= m->readonly;
    memcpy(out->start, p->start, p->base_rank * sizeof *out->start);
    for (int k = 0; k < p->rank; k++)
        if (p->axis[k] >= 0)
            out->start[p->axis[k]] += p->step[k] * m->start[k];
    for (int k = 0; k < m->rank; k++) {
        int a = m->axis[k];
        out->shape[k] = m->shape[k];
        out->axis[k] = a < 0 ? -1 : p->axis[a];
        out->step[k] = out->axis[k] < 0 ? 1 : p->step[a] * m->step[k];
    }
    return out;
}

Map *map_basic(Trace *t, const Map *parent, int rank, int base_rank, const int8_t *axis, const int64_t *shape, const int64_t *step,
               const int64_t *start, const Id *offset)
{
    bool dynamic = false;
    for (int k = 0; offset && k < base_rank; k++)
        dynamic |= offset[k] != 0;
    Map *m = map_alloc(t, parent, rank, base_rank, dynamic);
    if (!m)
        return NULL;
    for (int k = 0; k < rank; k++) {
        m->axis[k] = axis[k];
        m->shape[k] = shape[k];
        m->step[k] = axis[k] < 0 ? 1 : step[k];
        m->readonly |= axis[k] < 0 && shape[k] != 1;
    }
    memcpy(m->start, start, base_rank * sizeof *start);
    if (dynamic)
        memcpy(m->offset, offset, base_rank * sizeof *offset);
    return parent && !parent->reshape && !parent->diagonal && !parent->part && !parent->offset && !dynamic ? map_merge(t, m) : m;
}

Map *map_reshape(Trace *t, const Map *parent, int rank, const int64_t *shape, Layout layout)
{
    Map *m = map_alloc(t, parent, rank, 0, false);
    if (!m)
        return NULL;
    m->reshape = true;
    memcpy(m->shape, shape, rank * sizeof *shape);
    if (layout > m->layout)
        m->layout = layout;
    return m;
}

Map *map_diagonal(Trace *t, const Map *parent, int rank, const int64_t *shape, int64_t row, int64_t column, bool readonly)
{
    Map *m = map_alloc(t, parent, rank - 1, rank, false);
    if (!m)
        return NULL;
    int64_t rows = shape[rank - 2] - row, columns = shape[rank - 1] - column, n = rows < columns ? rows : columns;
    m->diagonal = true;
    m->readonly |= readonly;
    memset(m->start, 0, rank * sizeof *m->start);
    m->start[rank - 2] = n > 0 ? row : 0;
    m->start[rank - 1] = n > 0 ? column : 0;
    for (int k = 0; k < rank - 1; k++) {
        m->axis[k] = (int8_t)k;
        m->shape[k] = k < rank - 2 ? shape[k] : n > 0 ? n : 0;
        m->step[k] = 1;
    }
    return m;
}

bool map_same(const Map *m, const Cell *c)
{
    const Node *base = node_at(c->trace->graph, c->node);
    int rank = m->parent ? m->parent->rank : base->rank;
    return m->reshape && m->rank == rank && !memcmp(m->shape, m->parent ? m->parent->shape : node_shape(c->trace->graph, c->node), rank * sizeof *m->shape);
}

Map *map_part(Trace *t, const Map *parent, int rank, const int64_t *shape, ElementPart part)
{
    Map *m = map_alloc(t, parent, rank, rank, false);
    if (!m)
        return NULL;
    m->part = m->within = (uint8_t)part;
    for (int k = 0; k < rank; k++) {
        m->axis[k] = (int8_t)k;
        m->shape[k] = shape[k];
        m->step[k] = 1;
    }
    return m;
}

/* ---- reading and writing ---- */

/* The view's axes in the order of the base's axes: kept[j] is the view axis along the j-th kept base axis. */
static int kept_axes(const Map *m, int *kept)
{
    int n = 0;
    for (int b = 0; b < m->base_rank; b++)
        for (int k = 0; k < m->rank; k++)
            if (m->axis[k] == b)
                kept[n++] = k;
    return n;
}

/* The box of the base that the view covers: a step and an extent per base axis; 1 where the view has no axis. */
static void map_box(const Map *m, int64_t *step, int64_t *shape)
{
    for (int b = 0; b < m->base_rank; b++)
        step[b] = shape[b] = 1;
    for (int k = 0; k < m->rank; k++)
        if (m->axis[k] >= 0) {
            step[m->axis[k]] = m->step[k];
            shape[m->axis[k]] = m->shape[k];
        }
}

static bool whole(const Graph *g, const Map *m, Id base, const int64_t *step, const int64_t *shape)
{
    const Dim *have = node_shape(g, base);
    for (int b = 0; b < m->base_rank; b++)
        if (m->start[b] || step[b] != 1 || shape[b] != have[b])
            return false;
    return !m->offset;
}

static void start_nodes(Graph *g, const Map *m, Id *start)
{
    for (int b = 0; b < m->base_rank; b++)
        start[b] = m->offset && m->offset[b] ? m->offset[b] : graph_const(g, DT_int64, m->start[b]);
}

static Id reshape_to(Graph *g, Id a, const int64_t *shape, int rank)
{
    if (a && node_at(g, a)->rank == rank && !memcmp(node_shape(g, a), shape, rank * sizeof *shape))
        return a;
    return graph_reshape(g, a, shape, rank);
}

static bool identity(const int *perm, int n)
{
    for (int k = 0; k < n; k++)
        if (perm[k] != k)
            return false;
    return true;
}

/* The order of the kept axes in the view: view's j-th kept axis is kept base axis order[j]. */
static void view_order(const int *kept, int n, int *order)
{
    int at = 0;
    for (int k = 0; k < MAX_RANK; k++)
        for (int j = 0; j < n; j++)
            if (kept[j] == k)
                order[at++] = j;
}

static Id read_basic(Graph *g, const Map *m, Id base)
{
    int64_t step[MAX_RANK], shape[MAX_RANK], part[MAX_RANK];
    int kept[MAX_RANK], order[MAX_RANK], n = kept_axes(m, kept);
    Id start[MAX_RANK];
    map_box(m, step, shape);
    if (!base)
        return 0;
    if (!whole(g, m, base, step, shape)) {
        start_nodes(g, m, start);
        base = graph_slice(g, base, start, step, shape);
    }
    for (int j = 0; j < n; j++)
        part[j] = m->shape[kept[j]];
    base = reshape_to(g, base, part, n);
    view_order(kept, n, order);
    if (!identity(order, n))
        base = graph_transpose(g, base, order);
    for (int k = 0; k < m->rank; k++)
        part[k] = m->axis[k] < 0 ? 1 : m->shape[k];
    base = reshape_to(g, base, part, m->rank);
    return base && memcmp(part, m->shape, m->rank * sizeof *part) ? graph_broadcast(g, base, m->shape, m->rank) : base;
}

/* A diagonal is every (columns + 1)-th element of the rows after each other: the base so reshaped, with the slice's start and step. */
static Id flat_rows(Graph *g, const Map *m, Id base, int64_t *start, int64_t *step)
{
    int64_t flat[MAX_RANK];
    int last = m->rank - 1;
    if (!base)
        return 0;
    int64_t rows = node_shape(g, base)[last], columns = node_shape(g, base)[last + 1];
    for (int k = 0; k < last; k++) {
        flat[k] = m->shape[k];
        start[k] = 0;
        step[k] = 1;
    }
    flat[last] = rows * columns;
    start[last] = m->start[last] * columns + m->start[last + 1];
    step[last] = columns + 1;
    return reshape_to(g, base, flat, m->rank);
}

static Id read_diagonal(Graph *g, const Map *m, Id base)
{
    int64_t start[MAX_RANK], step[MAX_RANK];
    Id rows = flat_rows(g, m, base, start, step);
    return rows ? graph_slice_const(g, rows, start, step, m->shape) : 0;
}

static Id write_diagonal(Graph *g, const Map *m, Id base, Id value)
{
    int64_t start[MAX_RANK], step[MAX_RANK];
    Id rows = flat_rows(g, m, base, start, step), at[MAX_RANK];
    for (int k = 0; k < m->rank; k++)
        at[k] = graph_const(g, DT_int64, start[k]);
    Id updated = rows && value ? graph_update(g, rows, value, at, step) : 0;
    return updated ? reshape_to(g, updated, node_shape(g, base), m->base_rank) : 0;
}

Id map_read(Graph *g, const Map *m, Id base)
{
    if (m->diagonal)
        return read_diagonal(g, m, base);
    if (m->part == PART_BITS)
        return graph_add(g, OP_bitcast, &base, 1, NULL, 0, (Dtype)m->as, NULL, 0);
    if (m->part)
        return graph_unary(g, m->part == PART_REAL ? OP_real : OP_imag, base);
    return m->reshape ? reshape_to(g, base, m->shape, m->rank) : read_basic(g, m, base);
}

static Id write_basic(Graph *g, const Map *m, Id base, Id value)
{
    int64_t step[MAX_RANK], shape[MAX_RANK], part[MAX_RANK];
    int kept[MAX_RANK], order[MAX_RANK], back[MAX_RANK], n = kept_axes(m, kept), at = 0;
    Id start[MAX_RANK];
    for (int k = 0; k < m->rank; k++)
        if (m->axis[k] >= 0)
            part[at++] = m->shape[k];
    value = reshape_to(g, value, part, n);
    view_order(kept, n, order);
    for (int k = 0; k < n; k++)
        back[order[k]] = k;
    if (!identity(order, n))
        value = graph_transpose(g, value, back);
    map_box(m, step, shape);
    value = reshape_to(g, value, shape, m->base_rank);
    if (!base || !value || whole(g, m, base, step, shape))
        return base ? value : 0;
    start_nodes(g, m, start);
    return graph_update(g, base, value, start, step);
}

static Id write_part(Graph *g, const Map *m, Id base, Id value)
{
    if (m->part == PART_BITS)
        return base ? graph_add(g, OP_bitcast, &value, 1, NULL, 0, (Dtype)node_at(g, base)->dtype, NULL, 0) : 0;
    Id other = graph_unary(g, m->part == PART_REAL ? OP_imag : OP_real, base);
    return graph_binary(g, OP_complex_, m->part == PART_REAL ? value : other, m->part == PART_REAL ? other : value);
}

Id map_write(Graph *g, const Map *m, Id base, Id value)
{
    if (m->diagonal)
        return write_diagonal(g, m, base, value);
    if (m->part)
        return write_part(g, m, base, value);
    return m->reshape ? reshape_to(g, value, node_shape(g, base), base ? node_at(g, base)->rank : 0) : write_basic(g, m, base, value);
}

/* ---- memory ---- */

static void contiguous_strides(int rank, const int64_t *shape, int64_t *stride)
{
    int64_t n = 1;
    for (int k = rank; k-- > 0; n *= shape[k])
        stride[k] = n;
}

bool map_strides(const Map *m, int rank, const int64_t *shape, const int64_t *given, int64_t *stride, int64_t *offset)
{
    if (!m) {
        if (given)
            memcpy(stride, given, rank * sizeof *stride);
        else
            contiguous_strides(rank, shape, stride);
        *offset = 0;
        return true;
    }
    int64_t base[MAX_RANK];
    if (m->offset || (m->part && m->part != PART_BITS) || !map_strides(m->parent, rank, shape, given, base, offset))
        return false;
    const int64_t *base_shape = m->parent ? m->parent->shape : shape;
    if (m->reshape)
        return reshape_strides(m->parent ? m->parent->rank : rank, base_shape, base, m->rank, m->shape, stride);
    for (int b = 0; b < m->base_rank; b++)
        *offset += m->start[b] * base[b];
    for (int k = 0; k < m->rank; k++)
        stride[k] = m->axis[k] < 0 ? 0 : m->step[k] * base[m->axis[k]];
    if (m->diagonal)
        stride[m->rank - 1] += base[m->rank];
    return true;
}

bool map_view(const Map *m, int base_rank, View *out)
{
    memset(out, 0, sizeof *out);
    if (m->within == PART_BITS)
        return false;
    if (m->part && m->parent && !map_view(m->parent, base_rank, out))
        return false;
    out->part = m->part;
    if (m->part && m->parent)
        return true;
    if (m->parent && m->parent->part && !m->parent->parent)    /* a part of all: the same axes */
        out->part = m->parent->part;
    else if (m->parent)
        return false;
    if (m->reshape || m->diagonal || m->offset)
        return false;
    out->rank = m->rank;
    out->base_rank = base_rank;
    for (int k = 0; k < m->rank; k++) {
        out->axis[k] = m->axis[k];
        out->shape[k] = m->shape[k];
        out->step[k] = m->step[k];
    }
    memcpy(out->start, m->start, base_rank * sizeof *out->start);
    return true;
}

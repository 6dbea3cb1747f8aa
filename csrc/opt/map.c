#include "opt/map.h"
#include <stddef.h>
#include <string.h>
#include "base/hash.h"

void map_select(Map *m, int rank, int naxes, const int8_t *axis)
{
    memset(m, 0, sizeof *m);
    m->rank = rank;
    m->naxes = naxes;
    for (int d = 0; d < rank; d++)
        if (axis[d] >= 0) m->step[d][axis[d]] = 1;
}

bool map_is_select(const Map *m, const int8_t *axis)
{
    if (m->flat || m->nindex || m->clip) return false;
    for (int d = 0; d < m->rank; d++) {
        if (m->off[d]) return false;
        for (int k = 0; k < m->naxes; k++)
            if (m->step[d][k] != (k == axis[d])) return false;
    }
    return true;
}

uint64_t map_hash(const Map *m)
{
    uint64_t h = hash_mix((uint64_t)m->rank * 2 + m->flat, (uint64_t)m->nindex + ((uint64_t)m->margin << 24 | (uint64_t)m->clip << 8));
    for (int i = 0; i < m->nindex; i++)
        h = hash_mix(h + (uint64_t)m->index[i].factor + (m->index[i].at ? map_hash(m->index[i].at) : 0), m->index[i].node * 32ull + (uint64_t)m->index[i].row);
    h = hash_bytes(m->off, sizeof m->off[0] * (size_t)m->rank, h);
    for (int d = 0; d < m->rank; d++) h = hash_bytes(m->step[d], sizeof(int64_t) * (size_t)m->naxes, h);
    return h;
}

static bool index_equal(const Map *a, const Map *b, int i)
{
    if (a->index[i].node != b->index[i].node || a->index[i].row != b->index[i].row || a->index[i].factor != b->index[i].factor) return false;
    const Map *x = a->index[i].at, *y = b->index[i].at;
    return x == y || (x && y && map_equal(x, y));
}

bool map_equal(const Map *a, const Map *b)
{
    if (a->rank != b->rank || a->naxes != b->naxes || a->flat != b->flat || a->nindex != b->nindex || a->clip != b->clip || a->margin != b->margin) return false;
    for (int i = 0; i < a->nindex; i++)
        if (!index_equal(a, b, i)) return false;
    for (int d = 0; d < a->rank; d++)
        if (a->off[d] != b->off[d] || memcmp(a->step[d], b->step[d], sizeof(int64_t) * (size_t)a->naxes)) return false;
    return true;
}

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a < 0 ? -a : a;
}

/* The range of indices that m takes along its row d. */
static void map_range(const Map *m, const int64_t *extent, int d, int64_t *low, int64_t *high)
{
    *low = *high = m->off[d];
    for (int k = 0; k < m->naxes; k++) {
        int64_t reach = m->step[d][k] * (extent[k] - 1);
        if (reach < 0) *low += reach; else *high += reach;
    }
}

/* Whether two maps keep to different residues along row d: the even rows and the odd ones. */
static bool other_residue(const Map *a, const Map *b, int d)
{
    int64_t common = 0;
    for (int k = 0; k < a->naxes; k++) common = gcd(common, a->step[d][k]);
    for (int k = 0; k < b->naxes; k++) common = gcd(common, b->step[d][k]);
    return common > 1 && (a->off[d] - b->off[d]) % common;
}

/* Whether m takes but the ends of its range along row d: the first index and the last one. */
static bool only_ends(const Map *m, const int64_t *extent, int d)
{
    int moves = 0;
    for (int k = 0; k < m->naxes; k++)
        if (m->step[d][k] && extent[k] > 1) moves += extent[k] == 2 ? 1 : 2;
    return moves == 1;
}

bool map_apart(const Map *a, const int64_t *extent_a, const Map *b, const int64_t *extent_b)
{
    if (a->nindex || b->nindex || a->flat || b->flat) return false;
    for (int d = 0; d < a->rank; d++) {
        int64_t low_a, high_a, low_b, high_b;
        map_range(a, extent_a, d, &low_a, &high_a);
        map_range(b, extent_b, d, &low_b, &high_b);
        if (high_a < low_b || high_b < low_a || other_residue(a, b, d)) return true;
        if (low_a < low_b && high_b < high_a && only_ends(a, extent_a, d)) return true;
        if (low_b < low_a && high_a < high_b && only_ends(b, extent_b, d)) return true;
    }
    return false;
}

static size_t map_bytes(const Map *m) { return offsetof(Map, step) + sizeof m->step[0] * (size_t)m->rank; }

const Map *map_copy(Arena *arena, const Map *m) { return arena_dup(arena, m, map_bytes(m)); }

void map_unpack(Map *to, const Map *from) { memcpy(to, from, map_bytes(from)); }

void map_index(const Map *m, int i, Map *at)
{
    if (m->index[i].at) map_unpack(at, m->index[i].at);
    else map_select(at, 0, m->naxes, NULL);
}

int map_new_index(const Graph *g, Id id, const Map *before, const Map *after)
{
    int first = node_at(g, id)->op == OP_gather ? after->nindex - node_at(g, id)->nin + 1 : before->nindex;
    return first < 0 ? 0 : first;
}

static void row_copy(Map *to, int td, const Map *from, int fd)
{
    to->off[td] = from->off[fd];
    memcpy(to->step[td], from->step[fd], sizeof to->step[td]);
    for (int i = 0; i < from->nindex; i++)
        if (from->index[i].row == fd) {
            to->index[to->nindex] = from->index[i];
            to->index[to->nindex++].row = (int8_t)td;
        }
}

void map_row(const Map *m, int d, Map *row)
{
    memset(row, 0, offsetof(Map, step));
    row->rank = 1;
    row->naxes = m->naxes;
    row_copy(row, 0, m, d);
}

/* Rows that the margins take outside the array. */
static void map_margin(const Graph *g, Id id, const int64_t *extent, Map *m)
{
    Id a = node_in(g, id)[0];
    const int64_t *before = node_attr(g, id);
    m->clip = 0;
    for (int d = 0; d < m->rank; d++) {
        int64_t low, high;
        bool moved = before[d] || before[m->rank + d];
        m->off[d] -= before[d];
        map_range(m, extent, d, &low, &high);
        for (int i = 0; i < m->nindex; i++) if (m->index[i].row == d && moved) low = -1;       /* nobody knows */
        if (low < 0 || high >= node_shape(g, a)[d]) m->clip |= (uint16_t)(1u << d);
    }
    m->margin = m->clip ? id : 0;
}

static void map_broadcast(const Graph *g, Id id, Map *m)
{
    Map old = *m;
    Id a = node_in(g, id)[0];
    int rank = node_at(g, a)->rank, lead = node_at(g, id)->rank - rank;
    memset(m, 0, sizeof *m);
    m->rank = rank;
    m->naxes = old.naxes;
    for (int d = 0; d < rank; d++)
        if (node_shape(g, a)[d] != 1) row_copy(m, d, &old, d + lead);
}

static void map_transpose(const Graph *g, Id id, Map *m)
{
    Map old = *m;
    const int64_t *perm = node_attr(g, id);
    m->nindex = 0;
    for (int d = 0; d < m->rank; d++) row_copy(m, (int)perm[d], &old, d);
}

static void map_slice(const Graph *g, Id id, Map *m)
{
    const int64_t *step = node_attr(g, id);
    const Id *in = node_in(g, id);
    for (int i = 0; i < m->nindex; i++) m->index[i].factor *= step[m->index[i].row];
    for (int d = 0; d < m->rank; d++) {
        int64_t start = 0;
        for (int k = 0; k < m->naxes; k++) m->step[d][k] *= step[d];
        m->off[d] *= step[d];
        if (node_const(g, in[1 + d], &start)) {
            m->off[d] += start;
        } else if (m->nindex < KERNEL_MAX_INDEX) {
            m->index[m->nindex].node = in[1 + d];
            m->index[m->nindex].row = (int8_t)d;
            m->index[m->nindex].at = NULL;
            m->index[m->nindex++].factor = 1;
        } else {
            err_set(g->err, ERR_UNSUPPORTED, "more than %d run-time offsets in one access; copy() the array in between", KERNEL_MAX_INDEX);
        }
    }
}

/* Element j of window i is element i stride + j step. */
static void map_window(const Graph *g, Id id, Map *m)
{
    Map old = *m;
    const int64_t *attr = node_attr(g, id);
    int axis = (int)attr[0], last = m->rank - 1;
    m->rank = last;
    m->off[axis] = old.off[axis] * attr[2] + old.off[last] * attr[3];
    for (int k = 0; k < m->naxes; k++) m->step[axis][k] = old.step[axis][k] * attr[2] + old.step[last][k] * attr[3];
    m->off[last] = 0;
    memset(m->step[last], 0, sizeof m->step[last]);
    for (int i = 0; i < m->nindex; i++) {
        if (m->index[i].row == axis) m->index[i].factor *= attr[2];
        if (m->index[i].row == last) m->index[i].row = (int8_t)axis, m->index[i].factor *= attr[3];
    }
}

/* The leading rows become offsets by the elements of the index arrays, which the rows of the result that are theirs read. */
static void map_gather(const Graph *g, Id id, Map *m)
{
    Map old = *m, at;
    const Id *in = node_in(g, id);
    int n = node_at(g, id)->nin - 1, rs = node_at(g, in[1])->rank, rest = node_at(g, in[0])->rank - n;
    memset(m, 0, sizeof *m);
    m->rank = n + rest;
    m->naxes = old.naxes;
    for (int d = 0; d < rest; d++) row_copy(m, n + d, &old, rs + d);
    memset(&at, 0, sizeof at);
    at.rank = rs;
    at.naxes = old.naxes;
    for (int d = 0; d < rs; d++) row_copy(&at, d, &old, d);
    const Map *read = rs ? map_copy(g->arena, &at) : NULL;
    if (rs && !read) return;
    for (int k = 0; k < n; k++) {
        if (m->nindex == KERNEL_MAX_INDEX) {
            err_set(g->err, ERR_UNSUPPORTED, "more than %d index arrays and run-time offsets in one access; copy() the array in between", KERNEL_MAX_INDEX);
            return;
        }
        m->index[m->nindex].node = in[1 + k];
        m->index[m->nindex].row = (int8_t)k;
        m->index[m->nindex].at = read;
        m->index[m->nindex++].factor = 1;
    }
}

/* The linear index over rows [from, to) of shape, as one row. */
static void rows_merge(const Map *m, const Dim *shape, int from, int to, int64_t *off, int64_t *step)
{
    int64_t scale = 1;
    *off = 0;
    memset(step, 0, sizeof(int64_t) * MAX_DOMAIN);
    for (int d = to - 1; d >= from; d--) {
        *off += scale * m->off[d];
        for (int k = 0; k < m->naxes; k++) step[k] += scale * m->step[d][k];
        scale *= shape[d];
    }
}

/* Splits one linear row over the dims shape[from..to): every coefficient must belong to one dim and no dim may carry. */
static bool row_split(int64_t off, const int64_t *step, const int64_t *extent, const Dim *shape, int from, int to, Map *out)
{
    int64_t scale[MAX_RANK], low[MAX_RANK], high[MAX_RANK], s = 1;
    for (int d = to - 1; d >= from; d--) {
        scale[d] = s;
        s *= shape[d];
        memset(out->step[d], 0, sizeof out->step[d]);
    }
    for (int d = from; d < to; d++) {
        out->off[d] = off / scale[d];
        off -= out->off[d] * scale[d];
        low[d] = high[d] = out->off[d];
    }
    if (off) return false;
    for (int k = 0; k < out->naxes; k++) {
        if (!step[k] || extent[k] <= 1) continue;
        int d = from;
        while (d < to && step[k] % scale[d]) d++;
        /* the outermost dim whose scale divides the coefficient, unless that would leave the dim */
        while (d < to && (step[k] / scale[d] == 0 || (step[k] / scale[d]) * (extent[k] - 1) >= shape[d])) d++;
        if (d == to || step[k] % scale[d]) return false;
        out->step[d][k] = step[k] / scale[d];
        int64_t reach = out->step[d][k] * (extent[k] - 1);
        if (reach > 0) high[d] += reach; else low[d] += reach;
    }
    for (int d = from; d < to; d++)
        if (low[d] < 0 || high[d] >= shape[d]) return false;
    return true;
}

/* Run-time offsets of rows [from, to) of shape s, as offsets of the only dim of t[first..last) that is not 1; false if there are more. */
static bool offsets_merge(const Map *old, const Dim *s, int from, int to, const Dim *t, int first, int last, Map *m)
{
    int wide = first, n = 0;
    for (int d = first; d < last; d++)
        if (t[d] != 1) wide = d, n++;
    for (int x = 0; x < old->nindex; x++) {
        if (old->index[x].row < from || old->index[x].row >= to || n == 0) continue;     /* one element: the offset is 0 */
        if (n > 1) return false;
        m->index[m->nindex] = old->index[x];
        m->index[m->nindex].row = (int8_t)wide;
        for (int d = old->index[x].row + 1; d < to; d++) m->index[m->nindex].factor *= s[d];
        m->nindex++;
    }
    return true;
}

static bool map_reshape(const Graph *g, Id id, const int64_t *extent, Map *m)
{
    Id a = node_in(g, id)[0];
    const Dim *s = node_shape(g, id), *t = node_shape(g, a);
    int ns = node_at(g, id)->rank, nt = node_at(g, a)->rank, i = 0, j = 0;
    Map old = *m;
    if (!m->flat && !node_size(g, id)) {         /* nothing is read */
        memset(m, 0, sizeof *m);
        m->rank = nt;
        m->naxes = old.naxes;
        return true;
    }
    if (m->flat) return true;
    m->rank = nt;
    m->nindex = 0;
    bool ok = true;
    while (ok && (i < ns || j < nt)) {
        int i0 = i, j0 = j;
        int64_t ps = 1, pt = 1;
        if (i < ns) ps = s[i++];
        if (j < nt) pt = t[j++];
        while (ps != pt) {
            if (ps < pt && i < ns) ps *= s[i++];
            else if (j < nt) pt *= t[j++];
            else ps *= s[i++];
        }
        if (i - i0 == 1 && j - j0 == 1) {
            row_copy(m, j0, &old, i0);
            continue;
        }
        ok = ok && offsets_merge(&old, s, i0, i, t, j0, j, m);
        int64_t off, step[MAX_DOMAIN];
        rows_merge(&old, s, i0, i, &off, step);
        ok = ok && row_split(off, step, extent, t, j0, j, m);
    }
    if (ok) return true;
    memset(m, 0, sizeof *m);
    m->naxes = old.naxes;
    m->rank = 1;
    m->flat = true;
    rows_merge(&old, s, 0, ns, &m->off[0], m->step[0]);
    int64_t scale[MAX_RANK], p = 1;
    for (int d = ns - 1; d >= 0; d--) scale[d] = p, p *= s[d];
    for (int x = 0; x < old.nindex; x++) {
        m->index[x] = old.index[x];
        m->index[x].factor *= scale[old.index[x].row];
        m->index[x].row = 0;
    }
    m->nindex = old.nindex;
    return false;
}

bool map_through(const Graph *g, Id id, const int64_t *extent, Map *m)
{
    switch (node_at(g, id)->op) {
    case OP_broadcast: map_broadcast(g, id, m); return true;
    case OP_transpose: map_transpose(g, id, m); return true;
    case OP_slice: map_slice(g, id, m); return true;
    case OP_gather: map_gather(g, id, m); return true;
    case OP_window: map_window(g, id, m); return true;
    case OP_margin: map_margin(g, id, extent, m); return true;
    case OP_reshape: return map_reshape(g, id, extent, m);
    }
    ASSERT(!"not a view");
    return false;
}

const Map *map_below(Arena *arena, const Graph *g, Id id, const int64_t *extent, const Map *m, int *first)
{
    Map in;
    map_unpack(&in, m);
    map_through(g, id, extent, &in);
    *first = map_new_index(g, id, m, &in);
    return map_copy(arena, &in);
}

const Map *map_of_index(Arena *arena, const Map *m, int i)
{
    Map at;
    map_index(m, i, &at);
    return m->index[i].at ? m->index[i].at : map_copy(arena, &at);
}

/* The loops of a group: domain axes in order and merged, the one that the vectors run along, and its lanes. */
#include "opt/schedule.h"

enum {
    MANY_POINTS = 8192,          /* for longer code */
    MANY_LANES = 512,            /* along the vector loop, for many at once */
    COLUMN_STATES = 16,          /* vectors of states, by columns; twice as many of a single argmax from afar, where there are 32 registers */
    LONG_ROW = 1024, LONG_SUM = 256,    /* elements of a row that takes many registers; of float64 that is added up, the last lanes exactly then (gen/reduce.c) */
    LEAST_SUMS = 8,              /* of a row of floats side by side, as NumPy has them */
    MANY_ROWS = 4,               /* vectors of short rows */
    SCAN_ROWS = 8,               /* rows scanned side by side: more lines of memory than this evict each other where rows lie a power of two apart */
};

bool reduces_axis(const Group *gp, int k) { return gp->reduced >> k & 1; }
static bool is_inner(const Group *gp, int k) { return gp->inner >> k & 1; }

/* Bytes moved along a domain axis, all accesses together: axes with larger steps go outside. */
static int64_t axis_weight(const Lower *l, int k)
{
    int64_t w = 0;
    for (uint32_t t = 0; t < l->survey->terms.len; t++) {
        const Term *term = &l->survey->terms.at[t];
        int64_t step[MAX_DOMAIN], off;
        if (term->box || (term->carry && l->buffers->at.at[term->buffer].shares)) continue;
        lower_steps(l, term->buffer, term->map, step, &off);
        int64_t s = step[k] < 0 ? -step[k] : step[k];
        w += term->kind == TERM_STORE ? 2 * s : s;
    }
    return w;
}

Monoid monoid_of(const Lower *l, Id id) { return op_info[node_at(l->gr->g, id)->op].monoid; }
bool is_arg(const Lower *l, Id id) { return monoid_of(l, id) == MONOID_argmax || monoid_of(l, id) == MONOID_argmin; }

/* Whether the two axes are neighbours in the order in which an argmax numbers the elements. */
static bool arg_mergeable(const Lower *l, Id id, int outer, int inner)
{
    const Graph *g = l->gr->g;
    Id v = node_in(g, id)[0];
    int64_t scale = 1, of_inner = 0, of_outer = 0;
    for (int d = node_at(g, v)->rank - 1; d >= 0; d--) {
        if (!(node_attr(g, id)[0] >> d & 1)) continue;
        if (l->gr->info[id].in_axis[d] == inner) of_inner = scale;
        if (l->gr->info[id].in_axis[d] == outer) of_outer = scale;
        scale *= node_shape(g, v)[d];
    }
    return of_outer == of_inner * l->gp->extent[inner];
}

static bool mergeable(const Lower *l, int outer, int inner)
{
    const Group *gp = l->gp;
    if (reduces_axis(gp, outer) != reduces_axis(gp, inner) || is_inner(gp, outer) != is_inner(gp, inner)) return false;
    if ((l->survey->no_merge >> outer | l->survey->no_merge >> inner) & 1) return false;
    for (uint32_t i = 0; i < l->survey->reduces.len && reduces_axis(gp, outer); i++) {
        Id id = l->survey->reduces.at[i];
        if (is_arg(l, id) && !arg_mergeable(l, id, outer, inner)) return false;
    }
    for (uint32_t t = 0; t < l->survey->terms.len; t++) {
        int64_t step[MAX_DOMAIN], off;
        lower_steps(l, l->survey->terms.at[t].buffer, l->survey->terms.at[t].map, step, &off);
        if (step[outer] != step[inner] * gp->extent[inner]) return false;
    }
    return true;
}

void choose_loops(Lower *l)
{
    const Group *gp = l->gp;
    int order[MAX_DOMAIN];
    int64_t weight[MAX_DOMAIN];
    for (int k = 0; k < gp->naxes; k++) {
        int at = k;
        weight[k] = axis_weight(l, k);
        bool fixed = gp->dot || gp->scan;
        for (; at > 0 && !fixed && reduces_axis(gp, order[at - 1]) == reduces_axis(gp, k) && weight[order[at - 1]] < weight[k]; at--)
            order[at] = order[at - 1];
        order[at] = k;
    }
    bool merge = !gp->dot;
    l->nloops = 0;
    for (int i = 0; i < gp->naxes; i++) {
        Loop *last = l->nloops ? &l->loop[l->nloops - 1] : NULL;
        int k = order[i];
        if (last && merge && mergeable(l, last->domain, k)) {
            last->extent *= gp->extent[k];
            last->domain = k;
            continue;
        }
        l->loop[l->nloops++] = (Loop){ .extent = gp->extent[k], .domain = k, .reduced = reduces_axis(gp, k), .inner = is_inner(gp, k) };
    }
}

static bool all_mergeable(Lower *const *l, int n, int outer, int inner)
{
    for (int g = 0; g < n; g++) if (!mergeable(l[g], outer, inner)) return false;
    return true;
}

void choose_common_loops(Lower *const *l, int n)
{
    const Group *gp = l[0]->gp;
    int order[MAX_DOMAIN], nloops = 0;
    int64_t weight[MAX_DOMAIN] = { 0 };
    Loop loop[MAX_DOMAIN];
    for (int k = 0; k < gp->naxes; k++) {
        int at = k;
        for (int g = 0; g < n; g++) weight[k] += axis_weight(l[g], k);
        for (; at > 0 && weight[order[at - 1]] < weight[k]; at--) order[at] = order[at - 1];
        order[at] = k;
    }
    for (int i = 0; i < gp->naxes; i++) {
        bool merge = nloops && all_mergeable(l, n, loop[nloops - 1].domain, order[i]);
        int64_t outside = merge ? loop[--nloops].extent : 1;
        loop[nloops++] = (Loop){ .extent = outside * gp->extent[order[i]], .domain = order[i] };
    }
    for (int g = 0; g < n; g++) {
        l[g]->nloops = nloops;
        for (int i = 0; i < nloops; i++) {
            l[g]->loop[i] = loop[i];
            l[g]->loop[i].reduced = reduces_axis(l[g]->gp, loop[i].domain);
        }
    }
}

int64_t extents(const Lower *l, bool reduced)
{
    int64_t p = 1;
    for (int i = 0; i < l->nloops; i++) if (l->loop[i].reduced == reduced && !l->loop[i].inner) p *= l->loop[i].extent;
    return p;
}

int native_lanes(const Lower *l)
{
    int item = dtype_info[l->survey->widest].bytes, lanes = l->gr->target->vector_bytes / (item ? item : 1);
    return lanes > 64 ? 64 : lanes < 2 ? 2 : lanes;
}

/* The kept loop over rows of a few elements, one after the other, that several loops run over (a softmax of rows of three): vectors of rows, whose elements lie a row apart, are
 * whole, need nothing added up across lanes, and store no part of a vector that the next loop waits for. -1: there is none. */
static int across_short_rows(const Lower *l)
{
    int rows = -1, along = -1;
    if (l->survey->phases < 2 || l->gp->scan || l->gp->inner || l->gp->dot) return -1;
    for (int i = 0; i < l->nloops; i++) {
        if (!l->loop[i].reduced) rows = i;
        else if (along >= 0) return -1;
        else along = i;
    }
    int64_t most = native_lanes(l) / (l->survey->math ? 2 : 4);
    if (rows < 0 || along < 0 || l->loop[along].extent > most || l->loop[rows].extent < MANY_ROWS * native_lanes(l)) return -1;
    for (uint32_t t = 0; t < l->survey->terms.len; t++) {
        const Term *term = &l->survey->terms.at[t];
        int64_t step[MAX_DOMAIN], off;
        lower_steps(l, term->buffer, term->map, step, &off);
        int64_t s = step[l->loop[rows].domain];
        if (s < 0 || s > l->loop[along].extent * dtype_info[term->dtype].bytes) return -1;
    }
    return rows;
}

int choose_vector(const Lower *l)
{
    int best = -1, results = 0, across = across_short_rows(l);
    double best_score = 0;
    if (across >= 0) return across;
    for (uint32_t t = 0; t < l->survey->terms.len; t++) results += l->survey->terms.at[t].row && l->survey->terms.at[t].kind == TERM_STORE;
    if (extents(l, true) < 2 * native_lanes(l)) results = 1;     /* lanes of so short a row are better not joined, for each of several results */
    for (int i = 0; i < l->nloops; i++) {
        if ((l->gp->scan || l->gp->inner) && l->loop[i].reduced) continue;
        double score = 0.01;
        for (uint32_t t = 0; t < l->survey->terms.len; t++) {
            const Term *term = &l->survey->terms.at[t];
            int64_t step[MAX_DOMAIN], off;
            lower_steps(l, term->buffer, term->map, step, &off);
            int64_t s = step[l->loop[i].domain];
            int item = dtype_info[term->dtype].bytes;
            double weight = term->kind == TERM_LOAD ? 1 : term->row ? 2.0 / results : 2;     /* stores of rows' results count as one */
            score += weight * (s == item ? 1 : s == 0 ? 0.7 : s == -item ? 0.8 : 0.1);
        }
        int64_t native = native_lanes(l);
        double filled = l->loop[i].extent >= native ? 1 : (double)l->loop[i].extent / (double)native;
        score *= filled;
        if (score >= best_score) best = i, best_score = score;
    }
    return best;
}

/* Whether some access takes larger steps than an element along the vector loop. */
static bool is_strided(const Lower *l)
{
    for (uint32_t t = 0; t < l->survey->terms.len; t++) {
        const Term *term = &l->survey->terms.at[t];
        int64_t step[MAX_DOMAIN], off, item = dtype_info[term->dtype].bytes;
        lower_steps(l, term->buffer, term->map, step, &off);
        int64_t s = step[l->loop[l->vec].domain];
        if (s > item || s < -item) return true;
    }
    return false;
}

int32_t floor_pow2(int64_t x, int32_t most)
{
    int32_t p = 1;
    while (p * 2 <= x && p * 2 <= most) p *= 2;
    return p;
}

/* Whether what the group reads does not fit in the second cache: pieces of its rows had better be long, even if few are left for threads, which may have other rows. */
static bool comes_from_afar(const Lower *l)
{
    int64_t bytes = 0;
    for (uint32_t t = 0; t < l->survey->terms.len; t++)
        if (l->survey->terms.at[t].kind == TERM_LOAD) bytes += l->buffers->at.at[l->survey->terms.at[t].buffer].bytes;
    return bytes > (int64_t)l->gr->target->l2;
}

/* Vectors of columns that walk down the rows side by side: the longer their piece of each row, the better memory streams, as
 * long as the states stay in registers. */
static int32_t column_vectors(const Lower *l)
{
    int width = 0;
    for (uint32_t i = 0; i < l->survey->reduces.len; i++) width += monoid_info[monoid_of(l, l->survey->reduces.at[i])].width > 1 ? 2 : 1;
    bool place = l->survey->reduces.len == 1 && is_arg(l, l->survey->reduces.at[0]) && l->gr->target->vector_bytes >= 64 && comes_from_afar(l);
    int most = place ? 2 * COLUMN_STATES : COLUMN_STATES;
    return width ? floor_pow2(most / width, COLUMN_STATES) : 1;
}

/* Registers side by side. An elementary function is a chain of some 60 dependent instructions of which the machine holds two or three
 * at once: four side by side fill its ports, but take longer to compile, so only where there is much to do. Other long bodies need all registers for
 * their values. */
static int registers(const Lower *l)
{
    double points = 1;
    bool functions = l->survey->math * 3 >= l->survey->ops && l->gr->target->vector_bytes >= 64;
    for (int i = 0; i < l->nloops; i++) points *= (double)l->loop[i].extent;
    if (!functions || points < MANY_POINTS || l->loop[l->vec].extent < MANY_LANES) return l->survey->ops > 60 ? 1 : 2;
    return l->survey->ops > 80 ? 2 : 4;
}

/* Whether the group's only reduction is a sum of floats. */
static bool only_sum(const Lower *l)
{
    return l->survey->reduces.len == 1 && monoid_of(l, l->survey->reduces.at[0]) == MONOID_sum && is_wide(l, l->survey->reduces.at[0]);
}

bool adds_floats(const Lower *l)
{
    for (uint32_t i = 0; i < l->survey->reduces.len; i++) {
        Id id = l->survey->reduces.at[i];
        if (monoid_of(l, id) == MONOID_sum && is_wide(l, id)) return true;
    }
    return false;
}

int32_t sum_block(const Lower *l, int32_t most, int32_t trips)
{
    return adds_floats(l) ? floor_pow2((int64_t)l->lanes * trips, most) : most;
}

int choose_lanes(const Lower *l, bool rows)
{
    int native = native_lanes(l);
    int64_t extent = l->loop[l->vec].extent;
    if (extent <= 4) return native < 4 ? native : 4;
    if (l->gp->scan && is_strided(l)) return native < SCAN_ROWS ? native : SCAN_ROWS;
    if (extent < 4 * native) return native;
    int64_t most = comes_from_afar(l) ? extent : extent / 4;
    bool columns = l->gp->reduced && !rows && l->survey->ops <= 30 && !is_strided(l);    /* loads of single elements compile slowly, and stream no better */
    if (columns && most >= 4 * native) return floor_pow2(most < KERNEL_MAX_LANES ? most : KERNEL_MAX_LANES, native * column_vectors(l));
    int times = registers(l);
    if (l->survey->chain > 2) times = 4;                       /* a binary search: the loads wait for each other, other lanes do not */
    int64_t long_row = adds_floats(l) && l->survey->widest == DT_float64 ? LONG_SUM : LONG_ROW;
    if (rows && l->survey->ops <= 30 && extent >= long_row) times = l->survey->ops <= 8 && only_sum(l) ? 8 : 4;    /* short chains of additions round less */
    if (rows && adds_floats(l) && native * times < LEAST_SUMS) times = LEAST_SUMS / native;
    int lanes = native * times;
    return lanes > 128 ? 128 : lanes;
}

int knob_lanes(const Lower *l)
{
    int vectors = l->gr->knobs.at[KNOB_vectors];
    if (vectors <= 0 || l->gp->scan || l->gp->inner) return l->lanes;
    int lanes = native_lanes(l) * floor_pow2(vectors, 16);
    return lanes > 128 || lanes > l->loop[l->vec].extent ? l->lanes : lanes;
}

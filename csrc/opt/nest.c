/* Reductions inside reductions: the nearest centre of each point is an argmin over centres of sums over coordinates.
 *
 * A group whose reductions run over a few elements of arrays that are broadcast against each other takes in a reduction of their results:
 * `inner` are the axes that the sums run over, inside the loop over the others. So the results, more than the operands by far, are never in
 * memory, and the vectors run along the rows that both reductions keep. Members are full (all axes), points (all but the inner ones) or rows.
 * Full ones and points are known in phase 0, what follows the outer reductions in phase 1 is rows. */
#include "opt/grouping.h"

enum {
    INNER_MOST = 64,             /* elements of an inner reduction */
    ROWS_LEAST = 65,             /* rows kept, for vectors along them and for threads */
    REPEATED = 4,                /* how often each element of an operand is used, at least */
};

static uint32_t all_axes(const Group *gp) { return (1u << gp->naxes) - 1; }

static int64_t size_of(const Group *gp, uint32_t axes)
{
    int64_t n = 1;
    for (int k = 0; k < gp->naxes; k++) if (axes >> k & 1) n *= gp->extent[k];
    return n;
}

static uint32_t axes_of(const Grouping *gr, Id id)
{
    uint32_t m = 0;
    for (int d = 0; d < node_at(gr->g, id)->rank; d++) if (gr->info[id].axis[d] >= 0) m |= 1u << gr->info[id].axis[d];
    return m;
}

bool nest_is_inner(const Grouping *gr, Id id)
{
    const NodeInfo *info = &gr->info[id];
    const Group *gp = &gr->groups.at[info->group];
    return gp->inner && op_info[node_at(gr->g, id)->op].kind == KIND_REDUCE && (axes_of(gr, id) | gp->inner) == all_axes(gp);
}

/* Whether the group's operands are small beside its domain. */
static bool operands_repeat(const Grouping *gr, uint32_t n)
{
    const Group *gp = &gr->groups.at[n];
    if (gp->operands.len == MOST_OPERANDS) return false;
    for (uint32_t i = 0; i < gp->operands.len; i++) {
        Id id = gp->operands.at[i];
        if (gr->info[id].group != n && node_size(gr->g, id) * REPEATED > size_of(gp, all_axes(gp))) return false;
    }
    return true;
}

/* Whether all of the group is one loop of reductions and rows after it, among the nodes before `last`. */
static bool is_plain(const Grouping *gr, uint32_t n, Id last)
{
    const Group *gp = &gr->groups.at[n];
    for (Id id = 1; id < last; id++) {
        const NodeInfo *info = &gr->info[id];
        if (info->group == n && info->phase && (info->phase > 1 || !info->row)) return false;
    }
    for (uint32_t i = 0; i < gp->roots.len; i++) if (gp->roots.at[i].phase > 1) return false;
    return true;
}

bool nest_begin(Grouping *gr, const Scan *s, uint32_t n, uint32_t axes, uint32_t over, Id id)
{
    Group *gp = &gr->groups.at[n];
    uint32_t rows = all_axes(gp) & ~gp->reduced;
    if (!gp->reduced || gp->inner || gp->scan || gp->dot || gp->carry || gp->closed || gp->summed || scan_phase(s, n) != 1) return false;
    if (axes != rows || !over || size_of(gp, gp->reduced) > INNER_MOST || size_of(gp, rows & ~over) < ROWS_LEAST) return false;
    if (!operands_repeat(gr, n) || !is_plain(gr, n, id)) return false;
    gp->inner = gp->reduced;
    for (Id i = 1; i < id; i++) {
        NodeInfo *info = &gr->info[i];
        if (info->group != n) continue;
        info->phase = 0;
        info->row = !(axes_of(gr, i) & (gp->inner | over));
    }
    for (uint32_t i = 0; i < gp->roots.len; i++) gp->roots.at[i].phase = 0;
    return true;
}

bool nest_takes(const Scan *s, uint32_t n, uint32_t axes)
{
    const Group *gp = &s->gr->groups.at[n];
    uint32_t all = all_axes(gp);
    if (axes == (all & ~gp->reduced)) return true;
    if (scan_phase(s, n) || (axes != all && axes != (all & ~gp->inner))) return false;
    for (uint32_t i = 0; axes == all && i < s->leaves.len; i++)
        if (s->gr->info[s->leaves.at[i].id].group == n && axes_of(s->gr, s->leaves.at[i].id) != all) return false;
    return true;
}

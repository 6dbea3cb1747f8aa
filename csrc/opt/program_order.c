/* Numbers the values of a long elementwise loop as the program computes them. Lowering goes from a store to its inputs, which puts apart what a program does
 * side by side, a polynomial and its derivative say; gen/order.c chooses between the two orders. */
#include "opt/schedule.h"

enum { ORDERED_FROM = 48 };           /* operations per point: what fits the registers in any order is left alone */

/* Whether the group evaluates id itself, at the coordinates of what uses it. */
static bool is_own(const Lower *l, Id id)
{
    const NodeInfo *info = &l->gr->info[id];
    return op_info[node_at(l->gr->g, id)->op].kind == KIND_ELEMENTWISE && (!info->group || info->group == l->n) && !info->placed;
}

void lower_in_order(Lower *l, const Id *values, int n, const Map *m)
{
    const Graph *g = l->gr->g;
    if (l->survey->ops < ORDERED_FROM || l->survey->phases != 1 || l->survey->tiles.len || l->survey->reduces.len || l->gp->dot || l->gp->inner) return;
    bool *needed = arena_alloc(l->arena, g->nodes.len);
    Id last = 0;
    for (int i = 0; needed && i < n; i++) {
        needed[values[i]] = is_own(l, values[i]);
        if (values[i] > last) last = values[i];
    }
    for (Id id = last; needed && id > 0; id--)
        for (int i = 0; needed[id] && i < node_at(g, id)->nin; i++) needed[node_in(g, id)[i]] |= is_own(l, node_in(g, id)[i]);
    for (Id id = 1; needed && id <= last; id++)
        if (needed[id] && !lower_value(l, id, m)) return;
}

/* Marks the accesses that stream from memory: the generator asks for their lines ahead.
 *
 * Only in launches whose arrays exceed the second-level cache by half: of smaller ones most is still there. Of accesses that run side by side through an array, as a stencil's
 * do, the one furthest in front meets each line first; the others find it in a cache. */
#include "opt/schedule.h"

enum {
    NEAR = 256,                  /* bytes between elements of one row */
    TURNED_FROM = 32,            /* second caches: all arrays of a launch that transposes */
    FEW_OPS = 2,                 /* operations of an elementwise loop that the machine's own prefetchers keep up with, short of three second caches */
    SHORT_BODY = 8,              /* operations of a loop down columns that is worth code for a few columns more */
    SHARED = 24,                 /* ... of one that walks down columns: up to here a shared cache answers, in half of memory's time */
};

static int64_t array_bytes(const Lower *l, uint32_t array)
{
    for (uint32_t i = 0; i < l->arrays.len; i++)
        if (l->arrays.at[i].array == array) return l->buffers->at.at[l->arrays.at[i].buffer].bytes;
    return 0;
}

static bool equal_coef(Coef a, Coef b) { return a.kind == b.kind && a.lit == b.lit && a.arg == b.arg; }

static bool side_by_side(const Kernel *k, const Access *x, const Access *y)
{
    if (x->array != y->array || x->nindex != y->nindex) return false;
    for (uint32_t i = 0; i < k->axes.len; i++)
        if (!equal_coef(x->coef[i], y->coef[i]) || !equal_coef(x->outer[i], y->outer[i])) return false;
    for (int i = 0; i < x->nindex; i++) if (x->index[i].val != y->index[i].val) return false;
    return true;
}

static int64_t offset_of(const Lower *l, const Access *x) { return x->off_lit + (x->off_arg >= 0 ? l->d->words.at[x->off_arg] : 0); }

/* Whether an access `beside` bytes in front meets a line first: not if it is of another row that the same grid point makes. */
static bool is_ahead(const Lower *l, const Access *x, int64_t beside)
{
    for (int i = 0; i < l->nloops; i++) {
        const Coef *c = &x->coef[l->loop[i].axis];
        if (l->loop[i].rows > 1 && c->kind == COEF_RUN && beside > NEAR && beside + NEAR < l->d->words.at[c->arg] * l->loop[i].rows) return false;
    }
    return beside > 0;
}

static bool leads(const Lower *l, uint32_t access)
{
    const Kernel *k = l->k;
    const Access *x = &k->accesses.at[access];
    for (uint32_t i = 0; i < k->accesses.len; i++) {
        const Access *y = &k->accesses.at[i];
        if (i != access && side_by_side(k, x, y) && is_ahead(l, x, offset_of(l, y) - offset_of(l, x))) return false;
    }
    return true;
}

/* Tiles that are transposed: pieces of rows that lie a row apart, which no machine expects. Along the tiles' own rows, shorter than the usual distance, what is
 * asked for would be gone before its tile is made; up to the size of a shared cache neither gains. */
static void mark_turned(Lower *l, int64_t all)
{
    if (all <= (int64_t)l->gr->target->l2 * TURNED_FROM) return;
    for (uint32_t i = 0; i < l->k->stmts.len; i++)
        if (l->k->stmts.at[i].kind == STMT_TRANSPOSE) l->k->accesses.at[l->k->stmts.at[i].b].streams = 1;
}

/* Down columns each piece of a row begins at a line of memory, as a piece that lies across lines needs one more of each row, and a load that does needs two: rows are read at the speed
 * at which memory is read in order. */
static void mark_lines(Lower *l)
{
    Kernel *k = l->k;
    uint32_t axis = l->loop[l->vec].axis;
    if (l->survey->ops > SHORT_BODY || l->survey->tiles.len) return;
    for (uint32_t i = 0; i < k->arrays.len; i++) if (k->arrays.at[i].kind == ARRAY_SCRATCH) return;
    for (uint32_t i = 0; i < k->stmts.len; i++) {
        Stmt *s = &k->stmts.at[i];
        if (s->kind != STMT_FOR || s->axis != axis || s->part != PART_WITHIN || !s->lanes) continue;
        for (uint32_t x = 0; x < k->accesses.len && !s->a; x++)
            if (k->accesses.at[x].streams && !k->accesses.at[x].nindex && k->accesses.at[x].coef[axis].kind == COEF_UNIT) s->a = x + 1;
    }
}

void mark_streams(Lower *l)
{
    const Target *target = l->gr->target;
    int64_t all = 0;
    for (uint32_t i = 0; i < l->arrays.len; i++) all += l->buffers->at.at[l->arrays.at[i].buffer].bytes;
    int ahead = l->gr->knobs.at[KNOB_ahead];
    bool simple = !l->gp->reduced && !l->gp->scan && l->survey->ops <= FEW_OPS;
    if (ahead ? ahead == 1 : all <= (int64_t)target->l2 * (simple ? 6 : 3) / 2) return;
    if (l->turned.len) {
        mark_turned(l, all);
        return;
    }
    int64_t rows = 1;                                          /* that a grid point makes: their lines ahead are to fit the first cache together */
    for (int i = 0; i < l->nloops; i++) if (l->loop[i].rows > rows) rows = l->loop[i].rows;
    bool columns = l->gp->reduced && !l->gp->scan && l->vec >= 0 && !l->loop[l->vec].reduced, near = columns && all <= (int64_t)target->l2 * SHARED;
    for (uint32_t i = 0; i < l->k->accesses.len; i++) {
        Access *x = &l->k->accesses.at[i];
        if (columns && l->k->arrays.at[x->array].written) continue;      /* a result for many rows */
        if (!x->streams && array_bytes(l, x->array) > (int64_t)target->l1 && leads(l, i)) x->streams = (uint8_t)(rows > 1 ? 2 * rows : near ? 2 : 1);
    }
    if (columns && !l->gp->together) mark_lines(l);
}

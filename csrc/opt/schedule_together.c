/* Reductions of the same arrays over different axes, made in one pass over memory: x.sum(0) beside x.sum(1), x.max() beside x.mean((0, 2)).
 *
 * The domain that the groups share is cut into blocks that the second cache holds. A grid point is a block: the first group, which leads, runs over it, then the
 * others, which find it there. What a group has of a block goes to memory as a partial state per kept coordinate and block, unless the block holds all that its
 * results need; a small launch of each group combines these, at its own place among the groups. A full-size value that the leader computes and that only the
 * others read is kept in a tile of the block.
 *
 * A group that runs over its rows several times (a variance, a softmax) does all of that to each row of the block, if rows are short enough for a block to have all of some.
 *
 * Of arrays past the second cache, which serves a second pass as fast as a block of it would; of matrices in it where three groups or more share, or a value
 * that one group computes for another need not be stored. */
#include "opt/schedule.h"

enum {
    VECTOR_PART = 128,           /* of the second cache: a block along the vector loop, of the widest value */
    VECTOR_LEAST = 64, VECTOR_MOST = 8192,                     /* bytes */
    MOST_ROWS = 64,              /* of a block along any other loop */
    LEAST_ROWS = 8,
    LEAST_LONG = 4,              /* ... beside rows that are run over several times: partial states of columns then take a quarter of the array */
    ROW_STATES = 8,              /* states in the bytes of a row that are worth one of its own */
    LINE = 64,
    MOST_GROUPS = 32,
    NEAR_GROUPS = 3,
    NEAR_PART = 8, NEAR_KEPT = 2,    /* of the second cache, from which on these, or two groups with a computed value, are worth it */
};

/* ---- which groups ---- */

static bool is_full(const Group *gp, const Map *m)
{
    int64_t points = 1;
    for (int k = 0; k < gp->naxes; k++) {
        bool moves = gp->extent[k] == 1;
        for (int d = 0; d < m->rank; d++) moves = moves || m->step[d][k];
        if (!moves) return false;
        points *= gp->extent[k];
    }
    return points > 0;
}

static bool is_plain(const Grouping *gr, uint32_t n)
{
    const Group *gp = &gr->groups.at[n];
    const Survey *s = &gr->surveys[n];
    if (!gp->reduced || gp->scan || gp->dot || gp->inner || gp->carry || gp->host || gp->feeds || gp->then || !s->reduces.len) return false;
    for (uint32_t i = 0; i < gp->roots.len; i++) {
        const Root *r = &gp->roots.at[i];
        if (r->carry || r->scatter || r->check || (r->phase == 0 && root_is_row(gr, gp, r))) return false;
    }
    for (uint32_t i = 0; i < s->terms.len; i++) if (s->terms.at[i].box) return false;
    return true;
}

/* Whether all of a plain group is one loop of reductions, and what depends on their results alone. */
static bool is_one_loop(const Grouping *gr, uint32_t n)
{
    const Group *gp = &gr->groups.at[n];
    const Survey *s = &gr->surveys[n];
    if (s->tiles.len) return false;
    for (uint32_t i = 0; i < s->reduces.len; i++) if (gr->info[s->reduces.at[i]].phase != 1) return false;
    for (uint32_t i = 0; i < gp->roots.len; i++) if (gp->roots.at[i].phase && !root_is_row(gr, gp, &gp->roots.at[i])) return false;
    return true;
}

/* The axes that a block has all of, because group n runs over them several times. */
static uint32_t whole_axes(const Grouping *gr, uint32_t n) { return is_one_loop(gr, n) ? 0 : gr->groups.at[n].reduced; }

/* Bytes of group n's states. */
static int64_t state_bytes(const Grouping *gr, uint32_t n)
{
    int64_t bytes = 0;
    for (uint32_t i = 0; i < gr->surveys[n].reduces.len; i++) {
        Id id = gr->surveys[n].reduces.at[i];
        Dtype dt = node_at(gr->g, node_in(gr->g, id)[0])->dtype;
        Monoid m = op_info[node_at(gr->g, id)->op].monoid;
        for (int c = 0; c < monoid_info[m].width; c++) bytes += dtype_info[component_dtype(m, dt, c)].bytes;
    }
    return bytes;
}

/* Bytes that group n reads of each point of its domain, or keeps of one for its next loop. */
static int64_t full_bytes(const Grouping *gr, uint32_t n, bool kept)
{
    const Survey *s = &gr->surveys[n];
    int64_t bytes = 0;
    for (uint32_t i = 0; i < s->terms.len && !kept; i++)
        if (!s->terms.at[i].phase && is_full(&gr->groups.at[n], s->terms.at[i].map)) bytes += dtype_info[s->terms.at[i].dtype].bytes;
    for (uint32_t i = 0; i < s->tiles.len && kept; i++) bytes += dtype_info[node_at(gr->g, s->tiles.at[i])->dtype].bytes;
    return bytes;
}

/* Whether blocks that have all of axes `whole` are small enough, by what group n touches of a point: some rows of them, or a strip of columns. And so many that partial
 * states of group q, which runs over other axes, are no more than half of what is read. */
static bool fits(const Grouping *gr, uint32_t n, uint32_t q, uint32_t whole)
{
    const Group *gp = &gr->groups.at[n], *gq = &gr->groups.at[q];
    int64_t block = (int64_t)gr->target->l2 / 2, bytes = full_bytes(gr, n, false), points = 1, reach = 1;
    bool rows = whole >> (gp->naxes - 1) & 1;
    if (!whole) return true;
    for (int k = 0; k < gp->naxes && points <= block; k++) if (whole >> k & 1) points *= gp->extent[k];
    int64_t tiles = full_bytes(gr, n, true), many = rows ? (block / points - tiles) / (bytes ? bytes : 1) : block / points / (bytes + tiles ? bytes + tiles : 1);
    if (many < (rows ? LEAST_LONG : LINE / dtype_info[gr->surveys[n].widest].bytes)) return false;
    for (int k = 0; k < gp->naxes && reach <= many; k++) if ((gq->reduced & ~whole) >> k & 1) reach *= gp->extent[k];
    if (many > MOST_ROWS) many = MOST_ROWS;
    return whole_axes(gr, q) || reach <= many || 2 * state_bytes(gr, q) <= many * bytes;
}

/* Whether a plain group of several loops reads nothing by computed indices. */
static bool has_plain_terms(const Grouping *gr, uint32_t n)
{
    const Survey *s = &gr->surveys[n];
    for (uint32_t i = 0; i < s->terms.len; i++) if (s->terms.at[i].map->nindex) return false;
    return true;
}

/* The group that makes `buffer`; 0: it is an argument. */
static uint32_t made_in(const Grouping *gr, Id buffer)
{
    return buffer < gr->nnodes ? gr->info[buffer].group : gr->copy_group[buffer - gr->nnodes];
}

/* Whether group n stores exactly what the term reads, at the same point of the domain. */
static bool stores_there(const Grouping *gr, uint32_t n, const Term *t)
{
    const Survey *s = &gr->surveys[n];
    bool found = false;
    for (uint32_t i = 0; i < s->terms.len; i++) {
        const Term *q = &s->terms.at[i];
        if (q->kind != TERM_STORE || q->buffer != t->buffer) continue;
        if (found || q->phase || q->dtype != t->dtype || !map_equal(q->map, t->map)) return false;
        found = true;
    }
    return found;
}

/* Whether q can make its reductions where group n, a lower one of the same domain, makes its own; least: bytes of a shared array. *kept: of what n computes and q reads. */
static bool can_follow(const Grouping *gr, const Buffers *b, uint32_t q, uint32_t n, int64_t least, int64_t *kept)
{
    const Group *gp = &gr->groups.at[n], *gq = &gr->groups.at[q];
    const Survey *s = &gr->surveys[q];
    bool shares = false;
    if (gp->naxes != gq->naxes) return false;
    for (int k = 0; k < gp->naxes; k++) if (gp->extent[k] != gq->extent[k]) return false;
    bool one = is_one_loop(gr, q);
    for (uint32_t i = 0; i < gq->roots.len; i++) {             /* results that may be stored before groups in between have run */
        const Root *r = &gq->roots.at[i];
        if ((!r->phase || !one) && (r->box || r->buffer != r->value || b->at.at[r->buffer].shares)) return false;
    }
    for (uint32_t i = 0; i < s->terms.len; i++) {
        const Term *t = &s->terms.at[i];
        if (t->kind != TERM_LOAD || (t->phase && one)) continue;
        int64_t bytes = b->at.at[t->buffer].bytes;
        bool full = is_full(gq, t->map) && bytes > least, there = made_in(gr, t->buffer) == n && stores_there(gr, n, t);
        if (made_in(gr, t->buffer) >= n && !there) return false;
        shares = shares || (full && there);
        if (full && there && bytes > *kept) *kept = bytes;
        for (uint32_t j = 0; j < gr->surveys[n].terms.len && full; j++) {
            const Term *p = &gr->surveys[n].terms.at[j];
            shares = shares || (p->kind == TERM_LOAD && !p->phase && p->buffer == t->buffer && map_equal(p->map, t->map));
        }
    }
    return shares;
}

static bool may_share(const Grouping *gr, uint32_t n) { return is_plain(gr, n) && (is_one_loop(gr, n) || has_plain_terms(gr, n)); }

/* Whether all of group n is one loop, of states that cost little: those of variances are dearer by columns of blocks than in a pass of their own over the second cache. */
static bool is_light(const Grouping *gr, uint32_t n)
{
    const Survey *s = &gr->surveys[n];
    for (uint32_t i = 0; i < s->reduces.len; i++) if (op_info[node_at(gr->g, s->reduces.at[i])->op].monoid == MONOID_moments) return false;
    return is_one_loop(gr, n);
}

/* Marks the groups that share a pass which n leads. near: over arrays in the second cache, where that gains. */
static void mark_led(Grouping *gr, const Buffers *b, const bool *may, uint32_t n, bool near)
{
    uint32_t whole = whole_axes(gr, n), with[MOST_GROUPS], found = 0;
    int64_t kept = 0, l2 = (int64_t)gr->target->l2;
    if (!fits(gr, n, n, whole) || (near && (gr->groups.at[n].naxes != 2 || !is_light(gr, n)))) return;
    for (uint32_t q = n + 1; q < gr->groups.len && found < MOST_GROUPS - 1; q++) {
        if (!may[q] || gr->groups.at[q].together || (near && !is_light(gr, q)) || !can_follow(gr, b, q, n, l2 / (near ? NEAR_PART : 1), &kept)) continue;
        uint32_t both = whole | whole_axes(gr, q);
        if (!fits(gr, q, n, both) || !fits(gr, n, q, both)) continue;
        with[found++] = q;
        whole = both;
    }
    if (!found || (near && found + 1 < NEAR_GROUPS && kept * NEAR_KEPT < l2)) return;
    gr->groups.at[n].together = n;
    for (uint32_t i = 0; i < found; i++) gr->groups.at[with[i]].together = n;
}

void together_mark(Grouping *gr, const Buffers *b)
{
    bool *may = arena_alloc(gr->arena, gr->groups.len + 1);
    for (uint32_t n = 1; may && n < gr->groups.len; n++) may[n] = may_share(gr, n);
    for (int near = 0; may && near < 2; near++)
        for (uint32_t n = 1; n < gr->groups.len; n++)
            if (may[n] && !gr->groups.at[n].together) mark_led(gr, b, may, n, near);
}

/* ---- blocks ---- */

/* The groups of a pass in ascending order, the leader first, and how their common loops are cut. */
typedef struct {
    Lower **l;
    int n;
    int last;                        /* the group whose statements were made last: it knows all arrays of the kernel */
    int32_t block[MAX_DOMAIN + 1];   /* of each loop, 0: it is not cut */
    bool inside;                     /* a block has all of the vector loop, which is cut for sums: they are rounded once per piece of a row */
} Together;

static bool reduced_by_any(const Together *t, int i)
{
    for (int g = 0; g < t->n; g++) if (t->l[g]->loop[i].reduced) return true;
    return false;
}

static int64_t blocks_of(const Together *t, int i)
{
    int64_t extent = t->l[0]->loop[i].extent;
    return t->block[i] ? (extent + t->block[i] - 1) / t->block[i] : 1;
}

/* Whether group l runs over its rows several times. */
static bool has_loops(const Lower *l) { return !is_one_loop(l->gr, l->n); }

/* Whether some group runs over the loop several times. */
static bool is_whole_loop(const Together *t, int i)
{
    for (int g = 0; g < t->n; g++) if (t->l[g]->loop[i].reduced && has_loops(t->l[g])) return true;
    return false;
}

/* Whether a block has all of the loop, which is then no grid loop. */
static bool is_open(const Together *t, int i) { return i == t->l[0]->vec ? !t->block[i] || t->inside : !t->block[i] && is_whole_loop(t, i); }

/* The part of the loop that a block has. */
static Part part_of(const Together *t, int i) { return t->block[i] ? PART_WITHIN : PART_WHOLE; }

/* Whether a block has more than one coordinate of the loop. */
static bool runs_in_block(const Together *t, int i) { return t->block[i] || is_open(t, i); }

static int64_t within(const Together *t, int i)
{
    int64_t extent = t->l[0]->loop[i].extent;
    return is_open(t, i) ? extent : !t->block[i] ? 1 : extent < t->block[i] ? extent : t->block[i];
}

static bool any_has_loops(const Together *t)
{
    for (int g = 0; g < t->n; g++) if (has_loops(t->l[g])) return true;
    return false;
}

/* Bytes that a point of the domain brings into the caches. */
static int64_t point_bytes(const Together *t)
{
    int64_t bytes = 1;
    for (int g = 0; g < t->n; g++)
        for (uint32_t i = 0; i < t->l[g]->survey->terms.len; i++) {
            const Term *term = &t->l[g]->survey->terms.at[i];
            bool first = !term->phase && is_full(t->l[g]->gp, term->map);
            for (int f = 0; f < g && first; f++)
                for (uint32_t j = 0; j < t->l[f]->survey->terms.len && first; j++) first = t->l[f]->survey->terms.at[j].buffer != term->buffer;
            if (first) bytes += dtype_info[term->dtype].bytes;
        }
    return bytes;
}

/* Elements of a block or, `inside`, of a piece along the vector loop; 0: all. */
static int32_t vector_block(const Together *t)
{
    const Lower *l = t->l[0];
    int64_t l2 = (int64_t)l->gr->target->l2, rows = point_bytes(t);
    for (int g = 0; g < t->n; g++) rows += full_bytes(l->gr, t->l[g]->n, true);
    int32_t most = floor_pow2(l2 / VECTOR_PART > VECTOR_LEAST ? l2 / VECTOR_PART : VECTOR_LEAST, VECTOR_MOST);
    int32_t item = dtype_info[l->survey->widest].bytes, least = LINE / item;
    if (t->inside) return l->loop[l->vec].extent > most / item ? most / item : 0;
    for (int i = 0; i < l->nloops; i++) if (is_whole_loop(t, i)) rows *= l->loop[i].extent;
    bool rest = false;
    for (int i = 0; i < l->nloops; i++) rest = rest || (i != l->vec && !is_whole_loop(t, i) && reduced_by_any(t, i));
    int32_t block = any_has_loops(t) ? floor_pow2(l2 / 2 / rows / (rest ? LEAST_LONG : 1), most / item) : most / item;
    return block < least ? least : block;
}

/* Least coordinates of a block along loop i: so many that the partial states of what runs over no other one but the vector loop are a quarter of what is read. */
static int32_t least_rows(const Together *t, int i)
{
    int64_t least = any_has_loops(t) ? LEAST_LONG : LEAST_ROWS;
    for (int g = 0; g < t->n; g++) {
        const Lower *l = t->l[g];
        int others = 0;
        for (int k = 0; k < l->nloops; k++) others += l->loop[k].reduced && k != i;
        int64_t rows = 4 * state_bytes(l->gr, l->n) / (point_bytes(t) - 1 ? point_bytes(t) - 1 : 1);
        if (l->loop[i].reduced && !others && !has_loops(l) && rows > least) least = rows;
    }
    return floor_pow2(2 * least - 1, MOST_ROWS);
}

/* The vector loop is cut last: a piece of a row is read as one stream. The other loops that some group reduces share what is left of half the second cache. */
static void choose_cuts(Together *t)
{
    const Lower *l = t->l[0];
    int vec = l->vec, left = 0;
    int64_t rows = (int64_t)l->gr->target->l2 / 2;
    t->inside = is_whole_loop(t, vec);
    t->block[vec] = vector_block(t);
    rows /= within(t, vec) * point_bytes(t);
    for (int i = 0; i < l->nloops; i++) {
        if (i == vec) continue;
        if (is_whole_loop(t, i)) rows /= l->loop[i].extent;
        else left += reduced_by_any(t, i);
    }
    if (left > 1 && rows > (int64_t)MOST_ROWS * MOST_ROWS) rows = (int64_t)MOST_ROWS * MOST_ROWS;
    for (int i = l->nloops - 1; i >= 0; i--) {
        if (i == vec || is_whole_loop(t, i) || !reduced_by_any(t, i)) continue;
        int32_t most = left > 1 ? LEAST_ROWS : MOST_ROWS;
        while (left == 2 && (int64_t)most * most * 4 <= rows && most < MOST_ROWS) most *= 2;
        t->block[i] = floor_pow2(rows, most);
        if (t->block[i] < least_rows(t, i)) t->block[i] = least_rows(t, i);
        if (t->block[i] < MOST_ROWS && l->loop[i].extent > t->block[i] && l->loop[i].extent <= 2 * t->block[i]) t->block[i] *= 2;    /* no partial states */
        rows /= within(t, i);
        left--;
    }
}

/* ---- partial states ---- */

/* Whether group l, which reduces the vector loop, keeps what it has of each row of it: these are long enough, or all that it runs over. Others reduce a block at once. */
static bool keeps_rows(const Together *t, const Lower *l)
{
    bool others = false;
    for (int i = 0; i < l->nloops; i++) others = others || (l->loop[i].reduced && i != l->vec);
    return !others || ROW_STATES * state_bytes(l->gr, l->n) <= within(t, l->vec) * full_bytes(l->gr, l->n, false);
}

/* Whether all that a result of group l is made of lies in one block. Groups that reduce the vector loop keep what they have of each row of it. */
static bool is_whole(const Together *t, const Lower *l)
{
    bool leads = l == t->l[0];
    for (int i = 0; i < l->nloops; i++) {
        if (!l->loop[i].reduced) continue;
        if (blocks_of(t, i) > 1 || (l->loop[l->vec].reduced && i != l->vec && keeps_rows(t, l))) return false;
    }
    /* its results are then stored before groups in between have run */
    for (uint32_t i = 0; !leads && i < l->gp->roots.len; i++) if (l->buffers->at.at[l->gp->roots.at[i].buffer].shares) return false;
    for (uint32_t i = 0; !leads && i < l->survey->terms.len; i++) {
        const Term *term = &l->survey->terms.at[i];
        if (term->phase && term->kind == TERM_LOAD && made_in(l->gr, term->buffer) >= t->l[0]->n) return false;
    }
    return true;
}

/* Stores the states of group l's reductions: kept coordinates innermost, then those of rows that are kept apart, then blocks; how many of these there are. */
static int64_t store_partials(const Together *t, Lower *l)
{
    bool rows = l->loop[l->vec].reduced;
    int64_t step[MAX_DOMAIN + 1] = { 0 }, outer[MAX_DOMAIN + 1], kept = 1, partials = 1;
    for (int i = l->nloops - 1; i >= 0; i--) {
        outer[i] = -1;
        if (!l->loop[i].reduced) step[i] = kept, kept *= l->loop[i].extent;
    }
    for (int i = l->nloops - 1; i >= 0; i--) {
        bool apart = rows && i != l->vec && keeps_rows(t, l);
        if (!l->loop[i].reduced) continue;
        if (apart) step[i] = kept * partials, partials *= l->loop[i].extent;
        else outer[i] = kept * partials, partials *= blocks_of(t, i);
    }
    for (uint32_t r = 0; r < l->reductions.len; r++) {
        Reduction *red = &l->reductions.at[r];
        for (int c = 0; c < monoid_info[monoid_of(l, red->id)].width; c++) {
            Dtype dt = component_dtype(monoid_of(l, red->id), input_dtype(l, red->id), c);
            int64_t at[MAX_DOMAIN + 1], over[MAX_DOMAIN + 1], bytes = dtype_info[dt].bytes;
            for (int i = 0; i < l->nloops; i++) at[i] = step[i] * bytes, over[i] = outer[i] < 0 ? -1 : outer[i] * bytes;
            if (!(red->partial[c] = buffers_add(l->gr, l->buffers, dt, kept * partials * bytes))) return 0;
            uint32_t x = lower_strided(l, lower_array(l, red->partial[c], dt, true), dt, at, over, 0);
            lower_stmt(l, (Stmt){ .kind = STMT_STORE, .a = x, .b = state_val(l, red->outer - 1, dt, (uint32_t)c) });
        }
    }
    return partials;
}

/* What group l does with its states at the end of a block. */
static void finish_block(const Together *t, Lower *l)
{
    if (!is_whole(t, l)) {
        l->partials = store_partials(t, l);
        return;
    }
    finish_phase(l, false);
    for (l->phase = 1; l->phase < l->survey->phases; l->phase++) store_roots(l, true);
}

static bool by_rows(const Lower *l) { return l->loop[l->vec].reduced; }

/* Whether group l reads what the leader makes. */
static bool reads_leader(const Together *t, const Lower *l)
{
    for (uint32_t i = 0; i < l->survey->terms.len && l != t->l[0]; i++) {
        const Term *term = &l->survey->terms.at[i];
        if (!term->phase && term->kind == TERM_LOAD && made_in(l->gr, term->buffer) == t->l[0]->n) return true;
    }
    return false;
}

/* Group g, to make statements of. */
static Lower *turn_to(Together *t, int g)
{
    if (g != t->last) {
        t->l[g]->arrays = t->l[t->last]->arrays;
        t->l[g]->strides = t->l[t->last]->strides;
        t->l[g]->turned = t->l[0]->turned;
    }
    t->last = g;
    return t->l[g];
}

/* One loop nest over the current block, for the groups in the mask: any by rows that keep what they have of each, or one. */
static void run_nest(Together *t, uint64_t groups)
{
    uint32_t at[MAX_DOMAIN + 2], in[MAX_DOMAIN + 2];
    int n = 0, m = 0, first = 0;
    while (!(groups >> first & 1)) first++;
    Lower *l = turn_to(t, first);
    bool rows = by_rows(l), all = rows && !has_loops(l) && keeps_rows(t, l);
    for (int i = 0; i < l->nloops; i++)
        if (runs_in_block(t, i) && i != l->vec && (all || !l->loop[i].reduced)) at[n++] = open_loop(l, i, part_of(t, i), 0, false);
    if (has_loops(l) && rows) {
        make_tiles(l, 1);
        all_phases(l, t->block[l->vec] ? l->vec : -1);
        close_all(l, at, n);
        return;
    }
    if (t->inside && t->block[l->vec]) at[n++] = open_loop(l, l->vec, PART_BLOCKS, 0, false);
    if (!rows) at[n++] = open_loop(l, l->vec, part_of(t, l->vec), l->lanes, false);
    if (has_loops(l)) {
        make_tiles(l, within(t, l->vec));
        all_phases(l, -1);
        close_all(l, at, n);
        return;
    }
    for (int g = first; g < t->n; g++) if (groups >> g & 1) init_states(turn_to(t, g), false, false);
    for (int i = 0; i < l->nloops && !all; i++)
        if (l->loop[i].reduced && i != l->vec) in[m++] = open_loop(l, i, part_of(t, i), 0, false);
    if (rows) in[m++] = open_loop(l, l->vec, part_of(t, l->vec), l->lanes, false);
    for (int g = first; g < t->n; g++) if (groups >> g & 1) phase_body(turn_to(t, g));
    close_all(l, in, m);
    for (int g = first; g < t->n; g++) if (groups >> g & 1) finish_block(t, turn_to(t, g));
    close_all(l, at, n);
}

/* The loops of all groups over the current block: what the others read is made first; rows are best read from memory, columns from a cache. */
static void run_block(Together *t)
{
    uint64_t left = 0, readers = 0, rows = 0;
    for (int g = 0; g < t->n; g++) {
        left |= 1ull << g;
        if (by_rows(t->l[g]) && !has_loops(t->l[g]) && keeps_rows(t, t->l[g])) rows |= 1ull << g;
        if (reads_leader(t, t->l[g])) readers |= 1ull << g;
    }
    for (uint64_t next; left; left &= ~next) {
        bool lead = readers && left & 1;
        next = lead ? 1 : left & rows ? left & rows : left & -left;
        if (next & rows) next = left & rows & (lead ? ~readers : ~0ull);
        run_nest(t, next);
    }
}

/* ---- values that the leader computes and the others read ---- */

/* Whether nothing but loads of the pass's other groups touches buffer v. */
static bool is_private(const Together *t, Id v)
{
    const Grouping *gr = t->l[0]->gr;
    const Buffers *b = t->l[0]->buffers;
    if (gr->info[v].pinned || b->at.at[v].shares) return false;
    for (Id i = 0; i < b->at.len; i++) if (b->at.at[i].shares == v) return false;
    for (uint32_t i = 0; i < b->copies.len; i++) if (b->copies.at[i].from == v || b->copies.at[i].to == v) return false;
    for (uint32_t i = 0; i < gr->g->outputs.len; i++) if (b->output[i] == v) return false;
    for (uint32_t n = 1; n < gr->groups.len; n++)
        for (uint32_t i = 0; i < gr->surveys[n].terms.len; i++)
            if (gr->surveys[n].terms.at[i].buffer == v && gr->groups.at[n].together != t->l[0]->n) return false;
    return true;
}

/* A tile of the block in place of the root's buffer. */
static bool make_tile(const Together *t, const Root *r, const Map *m)
{
    Lower *l = t->l[0];
    Dtype dt = node_at(l->gr->g, r->value)->dtype;
    int64_t step[MAX_DOMAIN + 1], outer[MAX_DOMAIN + 1] = { 0 }, bytes = dtype_info[dt].bytes;
    step[l->vec] = bytes;
    if (t->inside) outer[l->vec] = -1;
    bytes *= within(t, l->vec);
    for (int i = l->nloops - 1; i >= 0; i--) {
        if (i == l->vec) continue;
        step[i] = runs_in_block(t, i) ? bytes : 0;
        bytes *= within(t, i);
    }
    uint32_t tile = lower_strided(l, lower_scratch(l, dt, bytes), dt, step, outer, 0);
    Turned *at = vec_push(l->arena, &l->turned);
    if (at) *at = (Turned){ r->buffer, m, tile };
    return at != NULL;
}

/* Finds places for the full-size values that the leader stores: tiles, or, where others read them too, their own memory, which is then gone through in order. */
static bool place_values(const Together *t)
{
    Lower *l = t->l[0];
    for (uint32_t i = 0; i < l->survey->terms.len; i++) {
        const Term *s = &l->survey->terms.at[i];
        bool read = false;
        if (s->kind != TERM_STORE || s->phase || s->root < 0) continue;
        const Root *r = &l->gp->roots.at[s->root];
        for (int g = 1; g < t->n; g++)
            for (uint32_t j = 0; j < t->l[g]->survey->terms.len; j++) {
                const Term *q = &t->l[g]->survey->terms.at[j];
                read = read || (q->kind == TERM_LOAD && !q->phase && q->buffer == s->buffer);
            }
        if (!read || skips(l, r)) continue;
        if (r->buffer == r->value && !r->box && !s->map->nindex && is_private(t, r->value)) {
            if (!make_tile(t, r, s->map)) return false;
            continue;
        }
        uint32_t x = lower_access(l, r->buffer, s->dtype, s->map, true);
        if (!l->err->kind) l->k->arrays.at[l->k->accesses.at[x].array].ordered = true;
    }
    return !l->err->kind;
}

/* ---- the launches ---- */

static Lower *follower(const Lower *l, uint32_t q)
{
    Lower *f = arena_alloc(l->arena, sizeof *f);
    if (!f) return NULL;
    *f = (Lower){ .gr = l->gr, .gp = &l->gr->groups.at[q], .n = q, .survey = &l->gr->surveys[q], .buffers = l->buffers, .arena = l->arena,
                  .err = l->err, .k = l->k, .d = l->d };
    f->tile = arena_alloc(l->arena, sizeof *f->tile * (f->survey->tiles.len + 1));
    return f->tile ? f : NULL;
}

static bool list_groups(Together *t, Lower *leader)
{
    Grouping *gr = leader->gr;
    for (uint32_t q = leader->n; q < gr->groups.len; q++) t->n += gr->groups.at[q].together == leader->n;
    t->l = arena_alloc(leader->arena, sizeof *t->l * (size_t)t->n);
    if (!t->l) return false;
    t->n = 0;
    for (uint32_t q = leader->n; q < gr->groups.len; q++) {
        if (gr->groups.at[q].together != leader->n) continue;
        Lower *l = q == leader->n ? leader : follower(leader, q);
        if (!l) return false;
        list_reductions(l);
        t->l[t->n++] = l;
    }
    return true;
}

/* Loops that all groups go by, the outermost first, and the one that vectors run along. */
static void make_loops(Together *t)
{
    choose_common_loops(t->l, t->n);
    Lower *l = t->l[0];
    int vec = any_has_loops(t) ? l->nloops - 1 : choose_vector(l);
    for (int g = 0; g < t->n; g++) {
        t->l[g]->vec = vec;
        t->l[g]->lanes = choose_lanes(t->l[g], t->l[g]->loop[vec].reduced);
    }
    choose_cuts(t);
    for (int i = 0; i < l->nloops; i++) {
        uint32_t axis = lower_axis(l, l->loop[i].extent, t->block[i]);
        for (int g = 0; g < t->n; g++) t->l[g]->loop[i].axis = axis;
    }
}

bool together_combine(Grouping *gr, uint32_t n, Buffers *buffers, Drafts *out)
{
    const Lower *blocks = gr->groups.at[n].blocks;
    Lower l;
    if (!blocks->partials) return true;
    if (!draft_begin(&l, out, gr, n, &gr->surveys[n], buffers)) return false;
    combine_partials(&l, blocks, blocks->partials);
    return draft_end(&l);
}

bool schedule_together(Lower *leader, Drafts *out)
{
    Together t = { 0 };
    uint32_t at[MAX_DOMAIN + 2];
    int n = 0;
    if (!list_groups(&t, leader)) return false;
    make_loops(&t);
    for (int i = 0; i < leader->nloops; i++)
        if (!is_open(&t, i)) at[n++] = open_loop(leader, i, t.block[i] ? PART_BLOCKS : PART_WHOLE, 0, true);
    if (!place_values(&t)) return false;
    run_block(&t);
    turn_to(&t, 0);
    close_all(leader, at, n);
    for (int g = 0; g < t.n; g++)
        if (!(leader->gr->groups.at[t.l[g]->n].blocks = arena_dup(leader->arena, t.l[g], sizeof *leader))) return false;
    leader->turned.len = 0;
    return draft_end(leader) && together_combine(leader->gr, leader->n, leader->buffers, out);
}

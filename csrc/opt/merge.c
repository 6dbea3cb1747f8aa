/* Small launches in a row become one kernel of one grid point: where all arrays fit the L1 cache, a call should cost one launch. So do
 * those that hardly do anything beside large arrays.
 *
 * Each kernel's grid FORs become ordinary ones, inside a FOR of one trip that gives it a body of its own; temporaries that only the
 * merged kernels see become scratch. A region of more values than a compile is worth is cut at the period of its kernels, or where a few
 * kernels begin to come again and again, so that unrolled steps and loops share one; of the others, what comes often is not merged. */
#include <stdlib.h>
#include <string.h>
#include "opt/group.h"

enum {
    REGION_VALS = 600,
    SMALL_NS = 5000,
    TINY_NS = 200,               /* some launches' cost, whatever the size of the arrays: copies of borders */
    REPEATS = 4,                 /* times in a row from which kernels are a loop's */
    REPEATED_VALS = 150,         /* that are spared by a loop's steps sharing a kernel, and of the steps that one kernel does */
    REPEATED_NS = 1000,          /* of the steps that one kernel does: beside it a launch is little */
};

typedef struct { uint32_t array, word; Id memory; bool written; int64_t bytes; } Merged;

typedef struct {
    Grouping *gr;
    const Buffers *b;
    const Drafts *in;
    uint32_t *first, *last;      /* per memory id: first and last draft that uses it, + 1 */
    bool *fixed;                 /* per memory id: an input's or an output's */
} Merge;

typedef struct {
    Arena *arena;
    Kernel *k;
    Draft *d;
    VEC(Merged) arrays;
    VEC(int64_t) extent;         /* per kernel axis */
    uint32_t unit;               /* the axis of one trip */
} Region;

static Id memory_of(const Merge *m, const DraftPatch *p) { return buffers_place(m->b, p->buffer); }

static bool is_small(const Merge *m, const Draft *d)
{
    int64_t bytes = 0;
    if (d->host || d->ns > SMALL_NS || d->scratch > REGION_BYTES) return false;
    for (uint32_t i = 0; i < d->patches.len; i++) bytes += m->b->at.at[memory_of(m, &d->patches.at[i])].bytes;
    for (uint32_t i = 0; i < d->kernel->stmts.len; i++) if (d->kernel->stmts.at[i].kind == STMT_DOT || d->kernel->stmts.at[i].kind == STMT_TRANSPOSE) return false;
    return bytes <= REGION_BYTES || d->ns <= TINY_NS;
}

static bool region_new(Region *r, Merge *m, Drafts *out)
{
    *r = (Region){ .arena = m->gr->arena, .k = kernel_new(m->gr->arena), .d = vec_push(m->gr->arena, out) };
    if (!r->k || !r->d) return false;
    r->unit = kernel_axis(r->arena, r->k, SIZE(1), SIZE(0));
    int64_t *e = vec_push(r->arena, &r->extent);
    if (e) *e = 1;
    return e != NULL;
}

/* Whether two axes have the same blocks for all arguments. */
static bool same_blocks(const Axis *a, const Axis *b) { return a->block.arg < 0 && b->block.arg < 0 && a->block.lit == b->block.lit; }

/* The merged kernel's axis for axis i of k, not used by an earlier axis of it; -1: there is no room. */
static int shared_axis(Region *r, const Kernel *k, const Draft *d, uint32_t i, uint32_t words, uint32_t *used)
{
    const Axis *a = &k->axes.at[i];
    int64_t extent = size_value(a->size, d->words.at);
    for (uint32_t j = 0; j < r->k->axes.len; j++)
        if (j != r->unit && !(*used >> j & 1) && r->extent.at[j] == extent && same_blocks(&r->k->axes.at[j], a)) {
            *used |= 1u << j;
            return (int)j;
        }
    if (r->k->axes.len == KERNEL_MAX_AXES) return -1;
    Size size = a->size, block = a->block;
    if (size.arg >= 0) size.arg += (int32_t)words;
    if (block.arg >= 0) block.arg += (int32_t)words;
    uint32_t j = kernel_axis(r->arena, r->k, size, block);
    int64_t *e = vec_push(r->arena, &r->extent);
    if (!e) return -1;
    *e = extent;
    *used |= 1u << j;
    return (int)j;
}

/* Whether k's axes fit beside those of the region. */
static bool axes_fit(const Region *r, const Draft *d)
{
    uint32_t more = 0, used = 1u << r->unit;
    for (uint32_t i = 0; i < d->kernel->axes.len; i++) {
        const Axis *a = &d->kernel->axes.at[i];
        int64_t extent = size_value(a->size, d->words.at);
        uint32_t j = 0;
        while (j < r->k->axes.len && (used >> j & 1 || r->extent.at[j] != extent || !same_blocks(&r->k->axes.at[j], a))) j++;
        if (j < r->k->axes.len) used |= 1u << j;
        else more++;
    }
    return r->k->axes.len + more <= KERNEL_MAX_AXES;
}

/* The merged array of operand array i of draft d. */
static uint32_t merged_array(Region *r, const Merge *m, const Draft *d, const Array *a, uint32_t words, uint32_t from, uint32_t to)
{
    const DraftPatch *p = NULL;
    for (uint32_t i = 0; i < d->patches.len; i++) if ((int32_t)d->patches.at[i].word == a->arg) p = &d->patches.at[i];
    ASSERT(p);
    Id memory = memory_of(m, p);
    for (uint32_t i = 0; i < r->arrays.len; i++) {
        Merged *known = &r->arrays.at[i];
        if (known->memory != memory) continue;
        r->k->arrays.at[known->array].written |= a->written;
        return known->array;
    }
    bool local = !m->fixed[memory] && m->b->at.at[memory].bytes <= REGION_BYTES && m->first[memory] > from && m->last[memory] <= to;
    Array array = { .kind = local ? ARRAY_SCRATCH : ARRAY_OPERAND, .dtype = a->dtype, .written = a->written, .swapped = a->swapped, .ordered = true,
                    .arg = a->arg + (int32_t)words };
    if (local) {
        r->d->words.at[array.arg] = r->d->scratch;
        r->d->scratch += (m->b->at.at[memory].bytes + 63) & ~(int64_t)63;
        array.written = true;
    }
    Merged *at = vec_push(r->arena, &r->arrays);
    if (!at) return 0;
    *at = (Merged){ .array = kernel_array(r->arena, r->k, array), .memory = memory };
    return at->array;
}

static Coef shift_coef(Coef c, uint32_t words)
{
    if (c.kind == COEF_RUN) c.arg += (int32_t)words;
    return c;
}

typedef struct { uint32_t words, vals, accesses, states; uint32_t axis[KERNEL_MAX_AXES], *array; } Shift;

static void add_access(Region *r, const Access *from, const Kernel *k, const Shift *s)
{
    Access *to = vec_push(r->arena, &r->k->accesses);
    if (!to) return;
    to->array = (uint16_t)s->array[from->array];
    to->nindex = from->nindex;
    to->streams = from->streams;
    to->apart = from->apart;
    to->off_lit = from->off_lit;
    to->off_arg = from->off_arg < 0 ? -1 : from->off_arg + (int32_t)s->words;
    for (uint32_t i = 0; i < k->axes.len; i++) {
        to->coef[s->axis[i]] = shift_coef(from->coef[i], s->words);
        to->outer[s->axis[i]] = shift_coef(from->outer[i], s->words);
    }
    for (int i = 0; i < from->nindex; i++) {
        to->index[i].val = from->index[i].val + s->vals;
        to->index[i].coef = shift_coef(from->index[i].coef, s->words);
    }
}

static void add_val(Region *r, Val v, const Shift *s)
{
    Val *to = vec_push(r->arena, &r->k->vals);
    if (!to) return;
    if (v.kind == VAL_LOAD) v.a += s->accesses, v.b += v.b ? s->vals : 0;
    if (v.kind == VAL_AXIS) v.a = s->axis[v.a];
    if (v.kind == VAL_WORD) v.a += s->words;
    if (v.kind == VAL_STATE) v.a += s->states;
    if (v.kind == VAL_OP) {
        if (v.a) v.a += s->vals;
        if (v.b) v.b += s->vals;
        if (v.c) v.c += s->vals;
    }
    *to = v;
}

static void add_stmt(Region *r, Stmt st, const Shift *s, uint32_t stmts)
{
    Stmt *to = vec_push(r->arena, &r->k->stmts);
    if (!to) return;
    st.end += stmts;
    st.grid = 0;
    switch ((StmtKind)st.kind) {
    case STMT_FOR:
        st.axis = (uint16_t)s->axis[st.axis];
        if (st.a) st.a += s->accesses;
        break;
    case STMT_INIT: st.a += s->states; break;
    case STMT_REDUCE:
        st.a += s->states;
        if (st.b) st.b += s->vals;
        if (st.c) st.c += s->vals;
        if (st.d) st.d += s->vals;
        break;
    case STMT_STORE: st.a += s->accesses; st.b += s->vals; break;
    case STMT_CHECK: st.a += s->vals; st.c += s->words; break;
    case STMT_DOT:
    case STMT_TRANSPOSE: break;
    }
    *to = st;
}

static bool add_words(Region *r, const Draft *d, uint32_t words)
{
    for (uint32_t i = 0; i < d->words.len; i++) {
        int64_t *w = vec_push(r->arena, &r->d->words);
        if (!w) return false;
        *w = d->words.at[i];
        kernel_arg(r->k);
    }
    for (uint32_t i = 0; i < d->kernel->arrays.len; i++)
        if (d->kernel->arrays.at[i].kind == ARRAY_SCRATCH) r->d->words.at[words + (uint32_t)d->kernel->arrays.at[i].arg] += r->d->scratch;
    r->d->scratch += d->scratch;
    return true;
}

/* Patches of the arrays that stayed operands, and of status words. */
static bool add_patches(Region *r, const Merge *m, const Draft *d, uint32_t words)
{
    for (uint32_t i = 0; i < d->patches.len; i++) {
        DraftPatch p = d->patches.at[i];
        for (uint32_t j = 0; p.written && p.buffer && j < r->d->patches.len; j++) {     /* by the address an earlier kernel reads it at */
            DraftPatch *known = &r->d->patches.at[j];
            known->written |= known->buffer && memory_of(m, known) == memory_of(m, &p);
        }
        p.word += words;
        bool used = !p.buffer;
        for (uint32_t j = 0; j < r->k->arrays.len; j++) {
            const Array *a = &r->k->arrays.at[j];
            used = used || (a->kind == ARRAY_OPERAND && a->arg == (int32_t)p.word);
        }
        DraftPatch *to = used ? vec_push(r->arena, &r->d->patches) : NULL;
        if (to) *to = p;
        else if (used) return false;
    }
    return true;
}

static bool region_add(Region *r, const Merge *m, uint32_t at, uint32_t from, uint32_t end)
{
    const Draft *d = &m->in->at[at];
    const Kernel *k = d->kernel;
    Shift s = { .words = r->d->words.len, .vals = r->k->vals.len - 1, .accesses = r->k->accesses.len, .states = r->k->states.len };
    uint32_t used = 1u << r->unit;
    s.array = arena_alloc(r->arena, sizeof *s.array * (k->arrays.len + 1));
    if (!s.array || !add_words(r, d, s.words)) return false;
    for (uint32_t i = 0; i < k->axes.len; i++) {
        int j = shared_axis(r, k, d, i, s.words, &used);
        if (j < 0) return false;
        s.axis[i] = (uint32_t)j;
    }
    for (uint32_t i = 0; i < k->arrays.len; i++) {
        Array a = k->arrays.at[i];
        if (a.kind == ARRAY_OPERAND) {
            s.array[i] = merged_array(r, m, d, &a, s.words, from, end);
        } else {
            a.arg += (int32_t)s.words;
            s.array[i] = kernel_array(r->arena, r->k, a);
        }
    }
    for (uint32_t i = 0; i < k->accesses.len; i++) add_access(r, &k->accesses.at[i], k, &s);
    for (uint32_t i = 1; i < k->vals.len; i++) add_val(r, k->vals.at[i], &s);
    for (uint32_t i = 0; i < k->states.len; i++) {
        State *st = vec_push(r->arena, &r->k->states);
        if (st) *st = k->states.at[i];
    }
    uint32_t body = kernel_open(r->arena, r->k, r->unit, PART_WHOLE, 0, false), stmts = r->k->stmts.len;
    for (uint32_t i = 0; i < k->stmts.len; i++) add_stmt(r, k->stmts.at[i], &s, stmts);
    kernel_close(r->k, body);
    r->d->ns += d->ns;
    return add_patches(r, m, d, s.words) && !m->gr->g->err->kind;
}

/* ---- which launches ---- */

/* The shortest period of the kernels from..to, at least twice in it; 0: none. */
static uint32_t period(const uint64_t *hash, uint32_t from, uint32_t to)
{
    for (uint32_t p = 1; p <= (to - from) / 2; p++) {
        uint32_t i = from + p;
        while (i < to && hash[i] == hash[i - p]) i++;
        if (i >= to - p && i - from >= 2 * p) return p;
    }
    return 0;
}

static bool merge_run(Merge *m, uint32_t from, uint32_t to, Drafts *out)
{
    while (from < to) {
        Region r;
        uint32_t at = from, vals = 0;
        if (to - from < 2) {
            Draft *d = vec_push(m->gr->arena, out);
            if (!d) return false;
            *d = m->in->at[from++];
            continue;
        }
        /* how far the region goes is known before its temporaries become scratch */
        Drafts scrap = { 0 };
        if (!region_new(&r, m, &scrap)) return false;
        for (; at < to && vals <= REGION_VALS && axes_fit(&r, &m->in->at[at]); at++) {
            uint32_t used = 1u << r.unit;
            vals += m->in->at[at].kernel->vals.len;
            for (uint32_t i = 0; i < m->in->at[at].kernel->axes.len; i++)
                if (shared_axis(&r, m->in->at[at].kernel, &m->in->at[at], i, 0, &used) < 0) return false;
        }
        if (!region_new(&r, m, out)) return false;
        for (uint32_t i = from; i < at; i++)
            if (!region_add(&r, m, i, from, at)) return false;
        r.k->checked = m->gr->target->checked;
        r.d->kernel = r.k;
        r.d->grid = 1;
        from = at;
    }
    return true;
}

/* A loop's step: so many kernels, which come so many times. */
typedef struct { uint32_t length, times, vals; double ns; } Repeat;

/* The shortest step that is repeated from `from` on, if that is worth a cut; else none of no length. */
static Repeat find_repeat(const Merge *m, const uint64_t *hash, uint32_t from, uint32_t to)
{
    Repeat r = { 0 };
    for (uint32_t p = 1; p <= (to - from) / REPEATS; p++) {
        const Draft *d = &m->in->at[from + p - 1];
        r.vals += d->kernel->vals.len;
        r.ns += d->ns;
        if (r.vals > REGION_VALS) break;
        uint32_t i = from + p;
        while (i < to && hash[i] == hash[i - p]) i++;
        r.times = (i - from) / p;
        r.length = p;
        if (r.times >= REPEATS && (r.times - 1) * r.vals >= REPEATED_VALS) return r;
    }
    return (Repeat){ 0 };
}

/* How many steps one kernel does. */
static uint32_t steps_at_once(Repeat r)
{
    uint32_t n = REPEATED_VALS / r.vals, most = r.ns < REPEATED_NS ? (uint32_t)(REPEATED_NS / (r.ns + 1)) : 1;
    if (n > most) n = most;
    if (n > r.times / 2) n = r.times / 2;
    return n > 1 ? n : 1;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* How often a kernel comes among n sorted hashes. */
static uint32_t times_of(const uint64_t *sorted, uint32_t n, uint64_t hash)
{
    uint32_t low = 0, high = n, k;
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        if (sorted[mid] < hash) low = mid + 1;
        else high = mid;
    }
    for (k = low; k < n && sorted[k] == hash;) k++;
    return k - low;
}

/* Merges from..to but for the kernels that come often in the run: beside others they would be compiled anew each time. */
static bool merge_others(Merge *m, const uint64_t *hash, const uint64_t *sorted, uint32_t n, uint32_t from, uint32_t to, Drafts *out)
{
    for (uint32_t i = from; i < to; i++) {
        uint32_t times = times_of(sorted, n, hash[i]);
        if (times < REPEATS || (times - 1) * m->in->at[i].kernel->vals.len < REPEATED_VALS) continue;
        if (!merge_run(m, from, i, out) || !merge_run(m, i, i + 1, out)) return false;
        from = i + 1;
    }
    return merge_run(m, from, to, out);
}

/* A run of more values than a region's, cut where loops begin and at their steps. */
static bool merge_loops(Merge *m, const uint64_t *hash, uint32_t from, uint32_t to, Drafts *out)
{
    uint32_t i = from, count = to - from;
    uint64_t *sorted = arena_alloc(m->gr->arena, sizeof *sorted * (count + 1));
    if (!sorted) return false;
    memcpy(sorted, hash + from, sizeof *sorted * count);
    qsort(sorted, count, sizeof *sorted, by_value);
    while (i < to) {
        Repeat r = find_repeat(m, hash, i, to);
        if (!r.length) {
            i++;
            continue;
        }
        if (!merge_others(m, hash, sorted, count, from, i, out)) return false;
        uint32_t end = i + r.times * r.length, n = steps_at_once(r) * r.length;
        for (; i < end; i += n) {
            if (end - i < n) n = r.length;
            if (!merge_run(m, i, i + n, out)) return false;
        }
        from = i;
    }
    return merge_others(m, hash, sorted, count, from, to, out);
}

static bool find_lives(Merge *m)
{
    const Graph *g = m->gr->g;
    Arena *a = m->gr->arena;
    m->first = arena_alloc(a, sizeof *m->first * m->b->at.len);
    m->last = arena_alloc(a, sizeof *m->last * m->b->at.len);
    m->fixed = arena_alloc(a, m->b->at.len);
    if (!m->first || !m->last || !m->fixed) return false;
    for (uint32_t i = 0; i < g->inputs.len; i++) m->fixed[g->inputs.at[i]] = true;
    for (uint32_t i = 0; i < g->outputs.len; i++) m->fixed[buffers_place(m->b, m->b->output[i])] = true;
    for (uint32_t i = 0; i < m->in->len; i++)
        for (uint32_t j = 0; j < m->in->at[i].patches.len; j++) {
            Id id = memory_of(m, &m->in->at[i].patches.at[j]);
            if (!m->first[id]) m->first[id] = i + 1;
            m->last[id] = i + 1;
        }
    return true;
}

/* A failed check ends the run before the next launch: what follows stays a launch of its own. */
static bool has_check(const Draft *d)
{
    for (uint32_t i = 0; i < d->kernel->stmts.len; i++) if (d->kernel->stmts.at[i].kind == STMT_CHECK) return true;
    return false;
}

bool merge_small(Grouping *gr, const Buffers *b, const Drafts *in, Drafts *out)
{
    Merge m = { .gr = gr, .b = b, .in = in };
    uint64_t *hash = arena_alloc(gr->arena, sizeof *hash * (in->len + 1));
    if (!hash || !find_lives(&m)) return false;
    for (uint32_t i = 0; i < in->len; i++) hash[i] = in->at[i].host ? 0 : kernel_hash(in->at[i].kernel);
    for (uint32_t i = 0; i < in->len;) {
        uint32_t end = i, vals = 0;
        while (end < in->len && is_small(&m, &in->at[end]) && !(end > i && has_check(&in->at[end - 1]))) vals += in->at[end++].kernel->vals.len;
        if (end == i) {
            Draft *d = vec_push(gr->arena, out);
            if (!d) return false;
            *d = in->at[i++];
            continue;
        }
        uint32_t p = vals > REGION_VALS ? period(hash, i, end) : 0;
        for (; p && end - i > p; i += p)
            if (!merge_run(&m, i, i + p, out)) return false;
        if (!(vals > REGION_VALS ? merge_loops(&m, hash, i, end, out) : merge_run(&m, i, end, out))) return false;
        i = end;
    }
    return true;
}

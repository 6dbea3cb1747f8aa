/* Which values share memory: an update takes over the buffer of the array it changes, a write-back the argument's own memory, wherever
 * every read of the old contents happens in an earlier launch, or in the writing one at the very element before it is written; or else that of an
 * earlier update of the same array at the same places, which has the rest of it. A donated
 * argument's memory is taken likewise, by a new output or else by a temporary of its dtype, shape and layout. */
#include <string.h>
#include "opt/group.h"

typedef struct { uint32_t group, term, next; } Reader;

/* Of a buffer in another one's memory: that one, and how many from there up to it took over each the one before. Of one in its own memory:
 * how many others lie there. Of one that another took over: the last group that reads it. */
typedef struct { Id memory; uint32_t chain, others, read; } Lie;

typedef struct {
    Grouping *gr;
    const Survey *surveys;
    const PlanOutput *out;
    Buffers *b;
    VEC(Reader) uses;            /* uses.at[0] is none */
    uint32_t *first;             /* per buffer id: head of its list of terms */
    bool *at_end;                /* per buffer id: read after the last launch */
    Id *final;                   /* per input: the buffer that lies in its memory from some launch to the end, 0: none */
    bool *fixed;                 /* per node: a new output, whose strides are decided */
    bool *given;                 /* per output: it lies in the memory of a donated input */
    uint32_t *latest;            /* per buffer id that another took over: the last group that reads it or an older version in its memory */
    Lie *lies;                   /* per buffer id, until arguments are donated to temporaries */
    VEC(Id) copied;              /* updates, in order, that could not take over the array that they change */
    uint32_t checks;             /* the last group with a check or a host call, which may raise */
} Share;

static void contiguous(const Graph *g, Id id, int64_t *stride)
{
    order_contiguous(dtype_info[node_at(g, id)->dtype].bytes, node_at(g, id)->rank, node_shape(g, id), NULL, stride);
}

static bool init_buffers(Grouping *gr, Buffers *b)
{
    const Graph *g = gr->g;
    for (Id id = 0; id < gr->nnodes; id++) {
        Buffer *at = vec_push(gr->arena, &b->at);
        if (!at) return false;
        const Node *n = node_at(g, id);
        bool input = n->op == OP_input;
        if (!id || (!input && !gr->info[id].stored)) continue;
        at->dtype = n->dtype;
        at->rank = n->rank;
        at->bytes = node_size(g, id) * dtype_info[n->dtype].bytes;
        contiguous(g, id, at->stride);
        for (int d = 0; input && d < n->rank; d++) at->stride[d] = gr->in[node_attr(g, id)[0]].stride[d];
        at->swapped = input && gr->in[node_attr(g, id)[0]].swapped;
    }
    for (uint32_t i = 0; i < g->inputs.len; i++) {               /* contiguous copies of the inputs */
        Id id = g->inputs.at[i];
        Buffer *at = vec_push(gr->arena, &b->at);
        if (!at) return false;
        at->dtype = node_at(g, id)->dtype;
        at->rank = node_at(g, id)->rank;
        at->bytes = node_size(g, id) * dtype_info[at->dtype].bytes;
        contiguous(g, id, at->stride);
    }
    return true;
}

Id buffers_add(Grouping *gr, Buffers *b, Dtype dtype, int64_t bytes)
{
    Buffer *at = vec_push(gr->arena, &b->at);
    if (!at) return 0;
    at->dtype = (uint8_t)dtype;
    at->bytes = bytes;
    return b->at.len - 1;
}

Id buffers_memory(const Buffers *b, Id id)
{
    while (b->at.at[id].shares) id = b->at.at[id].shares;
    return id;
}

static bool index_terms(Share *s)
{
    for (uint32_t n = 1; n < s->gr->groups.len; n++)
        for (uint32_t t = 0; t < s->surveys[n].terms.len; t++) {
            Reader *r = vec_push(s->gr->arena, &s->uses);
            if (!r) return false;
            Id id = s->surveys[n].terms.at[t].buffer;
            *r = (Reader){ n, t, s->first[id] };
            s->first[id] = s->uses.len - 1;
        }
    return true;
}

static const Term *term(const Share *s, uint32_t use) { return &s->surveys[s->uses.at[use].group].terms.at[s->uses.at[use].term]; }

/* The first group that writes buffer c; its carry does not count. */
static uint32_t first_writer(const Share *s, Id c)
{
    uint32_t w = UINT32_MAX;
    for (uint32_t u = s->first[c]; u; u = s->uses.at[u].next)
        if (term(s, u)->kind == TERM_STORE && !term(s, u)->carry && s->uses.at[u].group < w) w = s->uses.at[u].group;
    return w;
}

bool term_precedes(const Term *load, const Term *store)
{
    if (load->phase != store->phase || load->root == store->root) return load->phase <= store->phase;
    if (load->row != store->row) return load->row;
    return load->root < store->root;
}

/* Whether two accesses of one array (by groups n and m) touch no common element. */
static bool disjoint(const Share *s, const Term *a, uint32_t n, const Term *b, uint32_t m)
{
    return !a->box && !b->box && map_apart(a->map, s->gr->groups.at[n].extent, b->map, s->gr->groups.at[m].extent);
}

/* Whether use t of the old contents, by group n, comes before or keeps clear of the store of the new ones by group m. */
static bool use_precedes(const Share *s, const Term *t, uint32_t n, const Term *store, uint32_t m)
{
    if (n != m) return n < m || disjoint(s, t, n, store, m);
    if (s->gr->groups.at[n].scan && s->gr->groups.at[n].roots.at[0].scatter) return false;      /* an element may be written twice */
    if (disjoint(s, t, n, store, m)) return true;
    if (t->kind != TERM_LOAD || t->box || store->box) return false;
    return term_precedes(t, store) && t->dtype == store->dtype && map_equal(t->map, store->map);
}

/* Whether group n only carries an array over to its new version c. */
static bool carries_to(const Share *s, uint32_t n, Id c)
{
    return s->gr->groups.at[n].carry && s->gr->groups.at[n].roots.at[0].buffer == c;
}

/* Whether writing c over the memory that holds x, which `next` took over or is to, loses nothing that is still read. */
static bool keeps(const Share *s, Id x, Id next, Id c)
{
    if (s->at_end[x]) return false;
    for (uint32_t u = s->first[x]; u; u = s->uses.at[u].next) {
        uint32_t n = s->uses.at[u].group;
        if (carries_to(s, n, next)) continue;
        for (uint32_t v = s->first[c]; v; v = s->uses.at[v].next) {
            const Term *store = term(s, v);
            if (store->kind == TERM_STORE && !store->carry && !use_precedes(s, term(s, u), n, store, s->uses.at[v].group)) return false;
        }
    }
    return true;
}

static bool may_overwrite(const Share *s, Id x, Id c) { return keeps(s, x, c, c); }

/* Whether nothing is lost of the versions older than x in its memory: parts of them may be read later than x was written, apart from it. */
static bool keeps_older(const Share *s, Id x, Id c)
{
    const Buffer *at = s->b->at.at;
    uint32_t writer = first_writer(s, c);
    for (Id y = at[x].shares, next = x; y && s->latest[y] >= writer; next = y, y = at[y].shares)
        if ((s->lies[y].read >= writer || s->at_end[y]) && !keeps(s, y, next, c)) return false;
    return true;
}

/* Notes that c lies in the memory of x. */
static void note_version(Share *s, Id c, Id x)
{
    Id older = s->b->at.at[x].shares;
    uint32_t last = 0;
    for (uint32_t u = s->first[x]; u; u = s->uses.at[u].next)
        if (!carries_to(s, s->uses.at[u].group, c) && s->uses.at[u].group > last) last = s->uses.at[u].group;
    s->lies[x].read = last;
    s->latest[x] = older && s->latest[older] > last ? s->latest[older] : last;
    s->b->at.at[c].shares = x;
    s->lies[c].memory = older ? s->lies[x].memory : x;
    s->lies[c].chain = older ? s->lies[x].chain + 1 : 1;
    s->lies[s->lies[c].memory].others++;
}

static void forget_version(Share *s, Id c)
{
    s->b->at.at[c].shares = 0;
    s->lies[s->lies[c].memory].others--;
}

/* The array that update c carries over, or 0. */
static Id carried(const Share *s, Id c)
{
    for (uint32_t u = s->first[c]; u; u = s->uses.at[u].next) {
        const Group *gp = &s->gr->groups.at[s->uses.at[u].group];
        if (term(s, u)->kind == TERM_STORE && gp->carry && gp->roots.at[0].buffer == c) return gp->roots.at[0].value;
    }
    return 0;
}

/* A carried value through reshapes to the buffer it lies in; 0 if that is none of the same shape. */
static Id carried_buffer(const Share *s, Id c)
{
    Id x = carried(s, c);
    if (!x) return 0;
    return node_at(s->gr->g, x)->op == OP_input || s->gr->info[x].stored ? x : 0;
}

static void take_over(Share *s, Id c, Id x)
{
    note_version(s, c, x);
    memcpy(s->b->at.at[c].stride, s->b->at.at[x].stride, sizeof s->b->at.at[c].stride);
}

/* Whether group n is a ufunc's loop on the host, which reads or writes c as it is and not in another shape. */
static bool is_loop_on(const Share *s, uint32_t n, Id c)
{
    const Group *gp = &s->gr->groups.at[n];
    if (!gp->host || !host_is_loop(s->gr->g, gp->host)) return false;
    for (uint32_t i = 0; i < gp->operands.len; i++)
        if (gp->operands.at[i] == c && node_in(s->gr->g, gp->host)[i] != c) return false;
    return true;
}

/* Whether all readers of c address it by its axes, so that it may have any strides. */
static bool any_layout(const Share *s, Id c)
{
    for (uint32_t u = s->first[c]; u; u = s->uses.at[u].next)
        if ((term(s, u)->box && !is_loop_on(s, s->uses.at[u].group, c)) || term(s, u)->map->flat) return false;
    int64_t none[MAX_RANK] = { 0 }, moved[MAX_RANK];
    for (uint32_t i = 0; i < s->gr->g->outputs.len; i++) {
        Id o = s->gr->g->outputs.at[i];
        if (s->gr->out_base.at[i] == c && o != c && (s->out[i].into >= 0 || !order_moved(s->gr->g, o, none, c, moved))) return false;
    }
    return true;
}

/* Whether c may lie in the memory of x, which it then has the strides of. */
static bool may_have_layout(const Share *s, Id c, Id x)
{
    const Buffer *to = &s->b->at.at[c], *from = &s->b->at.at[x];
    int d = 0;
    while (d < to->rank && (node_shape(s->gr->g, c)[d] <= 1 || to->stride[d] == from->stride[d])) d++;
    return d == to->rank || (!s->fixed[c] && any_layout(s, c));
}

/* Temporaries and new outputs get NumPy's layout: the strides that spare transposes between what is read and what is made. */
static bool choose_layouts(Share *s, const PlanOutput *out, const int64_t *wanted)
{
    const Graph *g = s->gr->g;
    const Layouts *l = order_layouts(s->gr->arena, g, s->gr->in);
    if (!l) return false;
    for (uint32_t i = 0; i < g->outputs.len; i++) {
        Id c = s->gr->out_base.at[i];
        if (out[i].into >= 0 || s->fixed[c] || node_at(g, c)->op == OP_input || !any_layout(s, c)) continue;
        s->fixed[c] = order_moved(g, g->outputs.at[i], wanted + (size_t)i * MAX_RANK, c, s->b->at.at[c].stride);
    }
    for (Id c = 1; l->words && c < s->gr->nnodes; c++)
        if (s->gr->info[c].stored && node_at(g, c)->op != OP_input && !s->fixed[c] && !s->at_end[c] && any_layout(s, c))
            order_new(l, g, c, s->b->at.at[c].stride);
    return true;
}

/* Tries to let output buffer b lie in the memory of input k: along its chain of updates, down to the input or to a value that is stored whole. */
static bool write_through(Share *s, Id b, Id input)
{
    enum { MAX_CHAIN = 4096 };
    Id c = b, x;
    VEC(Id) chain = { 0 };
    if (s->b->at.at[b].shares || s->at_end[b] || !vec_push(s->gr->arena, &chain)) return false;
    chain.at[0] = b;
    while ((x = carried_buffer(s, c)) && x != input && may_have_layout(s, c, input) && !s->b->at.at[x].shares && chain.len < MAX_CHAIN && may_overwrite(s, x, c)) {
        Id *at = vec_push(s->gr->arena, &chain);
        if (!at) return false;
        *at = c = x;
    }
    if (x != input && (carried(s, c) || node_at(s->gr->g, c)->op == OP_input)) return false;       /* what it starts from lies elsewhere */
    if (!may_have_layout(s, c, input)) return false;
    /* every older version must be dead when a newer one is written */
    if (first_writer(s, c) <= s->checks || !may_overwrite(s, input, c)) return false;
    for (uint32_t i = chain.len; i-- > 0;) {
        Id older = i + 1 < chain.len ? chain.at[i + 1] : input;
        note_version(s, chain.at[i], older);
        if (keeps_older(s, older, chain.at[i])) continue;
        for (; i < chain.len; i++) forget_version(s, chain.at[i]);
        return false;
    }
    for (uint32_t i = 0; i < chain.len; i++) memcpy(s->b->at.at[chain.at[i]].stride, s->b->at.at[input].stride, sizeof s->b->at.at[0].stride);
    return true;
}

/* Whether x is made from y, step by step in one memory. */
static bool made_from(const Share *s, Id x, Id y)
{
    while (x != y && s->b->at.at[x].shares && s->lies[x].chain > s->lies[y].chain) x = s->b->at.at[x].shares;
    return x == y;
}

/* Whether nobody but x, older versions of it and `final` lies in the memory: else what c carries over may be gone. */
static bool has_only_versions(const Share *s, Id memory, Id x, Id final)
{
    uint32_t chain = s->b->at.at[x].shares ? s->lies[x].chain : 0;
    bool besides = final && s->b->at.at[final].shares && s->lies[final].memory == memory && !made_from(s, x, final);
    return s->lies[memory].others == chain + besides;
}

/* Whether update c may take over the memory of x: a temporary's, or that of an input whose final contents will overwrite it. */
static bool may_take_over(const Share *s, Id c, Id x)
{
    Id memory = s->b->at.at[x].shares ? s->lies[x].memory : x, final = s->final[memory];
    if (x == final || !has_only_versions(s, memory, x, final) || !may_have_layout(s, c, x)) return false;
    if (!may_overwrite(s, x, c) || !keeps_older(s, x, c)) return false;
    if (node_at(s->gr->g, memory)->op != OP_input) return true;
    return final && final != c && first_writer(s, c) > s->checks && may_overwrite(s, c, final);
}

/* Whether updates c and y change the same elements of the same array, whatever they store there. */
static bool same_places(const Grouping *gr, Id c, Id y)
{
    const Graph *g = gr->g;
    for (bool inner = true; inner; c = node_in(g, c)[0], y = node_in(g, y)[0]) {
        const Node *n = node_at(g, c), *m = node_at(g, y);
        const Id *in = node_in(g, c), *of = node_in(g, y);
        if (n->op != OP_update || m->op != OP_update || n->rank != m->rank || node_at(g, in[1])->rank != node_at(g, of[1])->rank) return false;
        if (memcmp(in + 2, of + 2, sizeof *in * n->rank) || memcmp(node_attr(g, c), node_attr(g, y), sizeof(int64_t) * n->rank)) return false;
        if (memcmp(node_shape(g, in[1]), node_shape(g, of[1]), sizeof(Dim) * node_at(g, in[1])->rank)) return false;
        inner = gr->info[in[0]].inner;
        if (inner != gr->info[of[0]].inner) return false;
    }
    return c == y;
}

static uint32_t last_use(const Share *s, Id x)
{
    uint32_t last = 0;
    for (uint32_t u = s->first[x]; u; u = s->uses.at[u].next) if (s->uses.at[u].group > last) last = s->uses.at[u].group;
    return last;
}

/* An earlier update of the same array at the same places, in whose memory c finds what it leaves as it is; 0: there is none. So two arrays in turns serve
 * all the steps of a loop, and their borders are copied once. */
static Id find_alike(const Share *s, Id c)
{
    enum { RECENT = 16, GAP = 64 };        /* updates; groups for which memory is kept that nobody needs */
    for (uint32_t i = s->copied.len, end = i > RECENT ? i - RECENT : 0; i-- > end;) {
        Id y = s->copied.at[i];
        if (same_places(s->gr, c, y) && first_writer(s, c) <= last_use(s, y) + GAP && may_take_over(s, c, y)) return y;
    }
    return 0;
}

static void share_updates(Share *s)
{
    const Graph *g = s->gr->g;
    for (Id c = 1; c < s->gr->nnodes; c++) {
        if ((node_at(g, c)->op != OP_update && node_at(g, c)->op != OP_scatter) || !s->gr->info[c].stored || s->b->at.at[c].shares) continue;
        Id x = carried_buffer(s, c), y;
        if (x && may_take_over(s, c, x)) {
            take_over(s, c, x);
        } else if (x && node_at(g, c)->op == OP_update) {
            if ((y = find_alike(s, c))) take_over(s, c, y);
            Id *at = vec_push(s->gr->arena, &s->copied);
            if (at) *at = c;
        }
    }
}

static bool add_copy(Share *s, Id shape, Id from, Id to)
{
    FinalCopy *f = vec_push(s->gr->arena, &s->b->copies);
    if (f) *f = (FinalCopy){ shape, from, to };
    return f != NULL;
}

/* A pseudo buffer for a copy of `base`, copied at the end, of these strides (NULL: C-contiguous); 0 on error. */
static Id add_copied(Share *s, Id base, const int64_t *stride)
{
    const Graph *g = s->gr->g;
    Id to = buffers_add(s->gr, s->b, node_at(g, base)->dtype, node_size(g, base) * dtype_info[node_at(g, base)->dtype].bytes);
    if (!to || !add_copy(s, base, base, to)) return 0;
    s->b->at.at[to].rank = node_at(g, base)->rank;
    if (stride) memcpy(s->b->at.at[to].stride, stride, sizeof *stride * MAX_RANK);
    else contiguous(g, base, s->b->at.at[to].stride);
    return to;
}

/* Whether a buffer has these strides: one that is read by its linear index is in C order, whatever NumPy's result would be in. */
static bool has_strides(const Share *s, Id base, const int64_t *stride)
{
    const Dim *shape = node_shape(s->gr->g, base);
    for (int d = 0; d < node_at(s->gr->g, base)->rank; d++)
        if (shape[d] > 1 && s->b->at.at[base].stride[d] != stride[d]) return false;
    return true;
}

/* Whether something is written back to an input. */
static bool is_written(const Graph *g, const PlanOutput *out, Id input)
{
    for (uint32_t i = 0; i < g->outputs.len; i++) if (out[i].into >= 0 && g->inputs.at[out[i].into] == input) return true;
    return false;
}

static bool place_outputs(Share *s, const PlanOutput *out, const int64_t *wanted)
{
    const Graph *g = s->gr->g;
    Buffers *b = s->b;
    bool *taken = arena_alloc(s->gr->arena, s->gr->nnodes);
    if (!taken) return false;
    for (uint32_t i = 0; i < g->outputs.len; i++) {
        if (out[i].into >= 0) continue;
        Id base = s->gr->out_base.at[i], memory = buffers_memory(b, base);
        int64_t stride[MAX_RANK];
        bool any = order_moved(g, g->outputs.at[i], wanted + (size_t)i * MAX_RANK, base, stride);
        bool own = node_at(g, base)->op != OP_input && (s->given[i] || node_at(g, memory)->op != OP_input) && !taken[memory];
        own = own && (s->given[i] || !any || has_strides(s, base, stride));
        b->output[i] = base;
        taken[memory] = taken[memory] || own;
        if (!own && !(b->output[i] = add_copied(s, base, any ? stride : NULL))) return false;
    }
    for (uint32_t i = 0; i < g->outputs.len; i++) {
        if (out[i].into < 0) continue;
        Id base = s->gr->out_base.at[i];
        b->output[i] = g->inputs.at[out[i].into];
        /* an input that goes into another input and may itself be written is read before any of them */
        bool apart = base == g->outputs.at[i] && !is_written(g, out, base);
        if (node_at(g, base)->op == OP_input && !apart && base != b->output[i] && !(b->output[i] = add_copied(s, base, NULL))) return false;
    }
    for (uint32_t i = 0; i < g->outputs.len; i++) {
        if (out[i].into < 0) continue;
        Id input = g->inputs.at[out[i].into], base = s->gr->out_base.at[i], from = b->output[i] == input ? base : b->output[i];
        b->output[i] = input;
        if (from != input && buffers_memory(b, from) != input && !add_copy(s, g->outputs.at[i], from, input)) return false;
    }
    return true;
}

/* Output i, the new contents of an input: lies in the input's memory if nothing else needs it at the end. */
static bool write_back(Share *s, uint32_t i, Id input)
{
    const Graph *g = s->gr->g;
    Id base = s->gr->out_base.at[i];
    if (node_at(g, base)->op == OP_input || base != g->outputs.at[i]) return false;
    for (uint32_t j = 0; j < g->outputs.len; j++)
        if (j != i && s->gr->out_base.at[j] == base) return false;
    s->at_end[base] = false;
    if (!write_through(s, base, input)) return false;
    s->final[input] = base;
    return true;
}

/* ---- donated inputs ---- */

/* Whether value c, laid out as it is, would fill the memory of input k. */
static bool fits(const Share *s, Id c, uint32_t k)
{
    const Graph *g = s->gr->g;
    Id input = g->inputs.at[k];
    const Node *a = node_at(g, c), *b = node_at(g, input);
    if (!s->gr->in[k].donated || s->gr->in[k].swapped || s->final[input] || s->at_end[input]) return false;
    if (a->op == OP_input || !s->gr->info[c].stored || a->dtype != b->dtype || a->rank != b->rank) return false;
    for (int d = 0; d < a->rank; d++) {
        if (node_shape(g, c)[d] != node_shape(g, input)[d]) return false;
        if (node_shape(g, c)[d] > 1 && s->b->at.at[c].stride[d] != s->b->at.at[input].stride[d]) return false;
    }
    return true;
}

static void donate_to_output(Share *s, uint32_t i)
{
    const Graph *g = s->gr->g;
    Id base = s->gr->out_base.at[i];
    for (uint32_t k = 0; k < g->inputs.len && !s->given[i]; k++) {
        s->given[i] = fits(s, base, k) && write_back(s, i, g->inputs.at[k]);
        s->at_end[base] = !s->given[i];
    }
}

/* Whether c and all that lies in its memory may be written over the input. */
static bool may_lie_in(const Share *s, Id c, Id input)
{
    for (Id y = 1; y < s->gr->nnodes; y++) {
        if (y != c && (!s->b->at.at[y].shares || buffers_memory(s->b, y) != c)) continue;
        if (first_writer(s, y) <= s->checks || !may_overwrite(s, input, y)) return false;
    }
    return true;
}

static void donate_to_temporary(Share *s, uint32_t k)
{
    const Graph *g = s->gr->g;
    Id input = g->inputs.at[k];
    for (Id c = 1; c < s->gr->nnodes; c++) {
        if (s->b->at.at[c].shares || s->at_end[c] || carried(s, c) || !fits(s, c, k) || !may_lie_in(s, c, input)) continue;
        take_over(s, c, input);
        for (uint32_t i = 0; i < g->outputs.len; i++)            /* a version of it */
            s->given[i] = s->given[i] || (s->out[i].into < 0 && buffers_memory(s->b, s->gr->out_base.at[i]) == input);
        return;
    }
}

/* ---- updates that could not be made in place ---- */

/* Notes what the updates in the memory of c store, value by value; its bytes. */
static int64_t note_values(Share *s, Id c)
{
    const Graph *g = s->gr->g;
    int64_t bytes = 0;
    for (Id y = 1; y < s->gr->nnodes; y++) {
        if (!s->gr->info[y].stored || buffers_memory(s->b, y) != buffers_memory(s->b, c)) continue;
        for (Id u = y; node_at(g, u)->op == OP_update && (u == y || s->gr->info[u].inner); u = node_in(g, u)[0]) {
            Id v = node_in(g, u)[1];
            Id base = v;
            while (op_info[node_at(g, base)->op].kind == KIND_VIEW) base = node_in(g, base)[0];
            bytes += node_size(g, v) * dtype_info[node_at(g, v)->dtype].bytes;
            s->b->before[v] = s->b->before[v] || (node_at(g, base)->op != OP_const && op_info[node_at(g, v)->op].kind != KIND_SOURCE && op_info[node_at(g, v)->op].kind != KIND_PLACE);
        }
    }
    return bytes;
}

/* Whether update c had to copy an array that nobody needs afterwards: an argument that is written back, or a temporary. */
static bool copies_in_vain(const Share *s, Id c)
{
    const Graph *g = s->gr->g;
    Id x = node_at(g, c)->op == OP_update && s->gr->info[c].stored && !s->b->at.at[c].shares ? carried_buffer(s, c) : 0;
    if (!x || s->at_end[x]) return false;
    if (node_at(g, x)->op != OP_input) return true;
    for (uint32_t i = 0; i < g->outputs.len; i++)
        if (s->out[i].into == (int)node_attr(g, x)[0]) return true;
    return false;
}

/* Where updates read the old contents and write small parts of it, values stored before cost less than a copy of the rest. So they do where the new
 * contents of an argument would be copied back as a whole at the end. */
static bool list_before(Share *s)
{
    int64_t copied = 0, stored = 0;
    bool any = false;
    for (Id c = 1; c < s->gr->nnodes; c++) {
        if (!copies_in_vain(s, c)) continue;
        if (!s->b->before && !(s->b->before = arena_alloc(s->gr->arena, s->gr->nnodes))) return false;
        copied += s->b->at.at[c].bytes;
        stored += note_values(s, c);
    }
    if (copied > 4 * stored) return true;
    if (copied) memset(s->b->before, 0, s->gr->nnodes);
    for (uint32_t i = 0; copied && i < s->gr->g->outputs.len; i++) {
        Id c = buffers_memory(s->b, s->gr->out_base.at[i]);
        for (; s->out[i].into >= 0 && copies_in_vain(s, c); c = buffers_memory(s->b, carried_buffer(s, c)), any = true) note_values(s, c);
    }
    if (!any) s->b->before = NULL;
    return true;
}

/* From now on each buffer names the memory that it lies in, not the version before it. */
static void shorten_chains(Buffers *b)
{
    for (Id id = 1; id < b->at.len; id++)
        if (b->at.at[id].shares) b->at.at[id].shares = buffers_memory(b, id);
}

Buffers *buffers_make(Grouping *gr, const Survey *surveys, const PlanOutput *out, const int64_t *wanted)
{
    const Graph *g = gr->g;
    Buffers *b = arena_alloc(gr->arena, sizeof *b);
    Share s = { .gr = gr, .surveys = surveys, .out = out, .b = b };
    uint32_t ids = gr->nnodes + g->inputs.len;
    s.first = arena_alloc(gr->arena, sizeof *s.first * ids);
    s.at_end = arena_alloc(gr->arena, ids);
    s.final = arena_alloc(gr->arena, sizeof *s.final * ids);
    s.latest = arena_alloc(gr->arena, sizeof *s.latest * ids);
    s.lies = arena_alloc(gr->arena, sizeof *s.lies * ids);
    s.given = arena_alloc(gr->arena, g->outputs.len + 1);
    s.fixed = arena_alloc(gr->arena, gr->nnodes);
    if (!b || !s.fixed || !s.first || !s.at_end || !s.final || !s.latest || !s.lies || !s.given || !vec_push(gr->arena, &s.uses)) return NULL;
    b->output = arena_alloc(gr->arena, sizeof(Id) * (g->outputs.len + 1));
    if (!b->output || !init_buffers(gr, b) || !index_terms(&s)) return NULL;
    for (uint32_t n = 1; n < gr->groups.len; n++) {
        if (gr->groups.at[n].host) s.checks = n;
        for (uint32_t i = 0; i < gr->groups.at[n].roots.len; i++)
            if (gr->groups.at[n].roots.at[i].check) s.checks = n;
    }
    for (uint32_t i = 0; i < g->outputs.len; i++) s.at_end[gr->out_base.at[i]] = true;
    if (!choose_layouts(&s, out, wanted)) return NULL;
    for (uint32_t i = 0; i < g->outputs.len; i++)
        if (out[i].into >= 0 && !write_back(&s, i, g->inputs.at[out[i].into])) s.at_end[gr->out_base.at[i]] = true;
    for (uint32_t i = 0; i < g->outputs.len; i++)
        if (out[i].into < 0) donate_to_output(&s, i);
    share_updates(&s);
    for (uint32_t k = 0; k < g->inputs.len; k++) donate_to_temporary(&s, k);
    shorten_chains(b);
    return place_outputs(&s, out, wanted) && list_before(&s) ? b : NULL;
}

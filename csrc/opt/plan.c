#include "opt/plan.h"
#include <string.h>
#include "opt/group.h"

typedef struct { uint32_t first, last; } Life;        /* launches of the first and the last use of a temporary */

typedef struct {
    Arena *arena, *work;                               /* the plan's own; what is dropped when it is made */
    Plan *p;
    const Grouping *gr;
    const Buffers *b;
    uint32_t *slot_of;                                 /* per buffer id: slot + 1 */
    VEC(Life) life;                                    /* per slot */
    VEC(uint64_t) hashes;                              /* of p->kernels */
} Build;

static uint32_t add_slot(Build *s, SlotKind kind, Dtype dtype, uint32_t index, int64_t bytes)
{
    Slot *slot = vec_push(s->arena, &s->p->slots);
    Life *life = vec_push(s->work, &s->life);
    if (!slot || !life) return 0;
    *slot = (Slot){ .kind = (uint8_t)kind, .dtype = (uint8_t)dtype, .index = index, .bytes = bytes };
    *life = (Life){ UINT32_MAX, 0 };
    return s->p->slots.len - 1;
}

/* The strides of output i in buffer b, if it is not C-contiguous. */
static bool set_strides(Build *s, uint32_t i, Id b)
{
    const Node *n = node_at(s->gr->g, s->gr->g->outputs.at[i]);
    const Dim *shape = node_shape(s->gr->g, s->gr->g->outputs.at[i]);
    int64_t plain[MAX_RANK], stride[MAX_RANK];
    Id seen = b < s->gr->nnodes ? b : s->gr->out_base.at[i];
    if (!order_moved(s->gr->g, seen, s->b->at.at[b].stride, s->gr->g->outputs.at[i], stride)) return true;       /* it is contiguous */
    order_contiguous(dtype_info[n->dtype].bytes, n->rank, shape, NULL, plain);
    int d = 0;
    while (d < n->rank && (shape[d] <= 1 || plain[d] == stride[d])) d++;
    if (d == n->rank || !node_size(s->gr->g, s->gr->g->outputs.at[i])) return true;
    s->p->output_stride[i] = arena_dup(s->arena, stride, sizeof *stride * n->rank);
    return s->p->output_stride[i] != NULL;
}

static bool input_and_output_slots(Build *s, const PlanOutput *out)
{
    const Graph *g = s->gr->g;
    for (uint32_t i = 0; i < g->inputs.len; i++) {
        Id id = g->inputs.at[i];
        add_slot(s, SLOT_INPUT, node_at(g, id)->dtype, i, node_size(g, id) * dtype_info[node_at(g, id)->dtype].bytes);
        s->slot_of[id] = i + 1;
    }
    for (uint32_t i = 0; i < g->outputs.len; i++) {
        if (out[i].into >= 0) {
            s->p->output_slot[i] = (uint32_t)out[i].into;
            continue;
        }
        Id b = s->b->output[i], memory = buffers_place(s->b, b);
        if (!set_strides(s, i, b)) return false;
        if (s->slot_of[memory]) {                              /* a donated input's */
            s->p->output_slot[i] = s->slot_of[memory] - 1;
            continue;
        }
        s->p->output_slot[i] = add_slot(s, SLOT_OUTPUT, s->b->at.at[b].dtype, i, s->b->at.at[b].bytes);
        s->slot_of[memory] = s->p->output_slot[i] + 1;
    }
    return !g->err->kind;
}

static uint32_t slot_for(Build *s, Id buffer)
{
    Id m = buffers_place(s->b, buffer);
    if (!s->slot_of[m])
        s->slot_of[m] = (buffer ? add_slot(s, SLOT_TEMP, s->b->at.at[m].dtype, 0, s->b->at.at[m].bytes)
                                : add_slot(s, SLOT_STATUS, DT_int64, 0, 8)) + 1;
    return s->slot_of[m] - 1;
}

static uint32_t intern_kernel(Build *s, const Kernel *k)
{
    uint64_t h = kernel_hash(k);
    size_t len, len2;
    void *bytes = NULL;
    for (uint32_t i = 0; i < s->hashes.len; i++) {
        if (s->hashes.at[i] != h) continue;
        if (!bytes) bytes = kernel_bytes(s->work, k, &len);
        void *other = kernel_bytes(s->work, s->p->kernels.at[i], &len2);
        if (bytes && other && len == len2 && !memcmp(bytes, other, len)) return i;
    }
    if (!bytes) bytes = kernel_bytes(s->work, k, &len);
    const Kernel *kept = bytes ? kernel_from_bytes(s->arena, bytes, len) : NULL;
    const Kernel **at = vec_push(s->arena, &s->p->kernels);
    uint64_t *hash = vec_push(s->work, &s->hashes);
    if (kept && at && hash) *at = kept, *hash = h;
    return s->p->kernels.len - 1;
}

static const HostCall *keep_host(Arena *a, const HostCall *h)
{
    HostCall *kept = arena_dup(a, h, sizeof *h);
    if (!kept) return NULL;
    kept->arrays = arena_dup(a, h->arrays, sizeof *h->arrays * (h->nin + h->nout));
    kept->params = arena_dup(a, h->params, sizeof *h->params * h->nparams);
    return kept->arrays && kept->params ? kept : NULL;
}

static bool add_launch(Build *s, const Draft *d)
{
    Plan *p = s->p;
    Launch *l = vec_push(s->arena, &p->launches);
    if (!l) return false;
    *l = (Launch){ .host = d->host ? keep_host(s->arena, d->host) : NULL, .kernel = d->host ? 0 : intern_kernel(s, d->kernel), .words = p->words.len, .nwords = d->words.len, .patches = p->patches.len,
                   .npatches = d->patches.len, .grid = d->grid, .scratch = d->scratch, .ns = d->ns, .once = d->once,
                   .workers = d->workers, .key = d->key, .m = d->m, .n = d->n, .k = d->k };
    if (arena_err(s->arena)->kind) return false;
    for (uint32_t i = 0; i < d->words.len; i++) {
        int64_t *w = vec_push(s->arena, &p->words);
        if (!w) return false;
        *w = d->words.at[i];
    }
    for (uint32_t i = 0; i < d->patches.len; i++) {
        uint32_t slot = slot_for(s, d->patches.at[i].buffer), at = p->launches.len - 1;
        Patch *patch = vec_push(s->arena, &p->patches);
        if (!patch || arena_err(s->arena)->kind) return false;
        *patch = (Patch){ d->patches.at[i].word, slot, 0, d->patches.at[i].written };
        Life *life = &s->life.at[slot];
        if (life->first == UINT32_MAX) life->first = at;
        life->last = at;
    }
    return true;
}

/* Whether only launches `once` use the slot. */
static bool once_only(const Build *s, uint32_t slot)
{
    const Life *l = &s->life.at[slot];
    if (!s->p->kept.len) return false;
    for (uint32_t i = l->first; i <= l->last; i++) {
        const Launch *at = &s->p->launches.at[i];
        for (uint32_t j = 0; !at->once && j < at->npatches; j++)
            if (s->p->patches.at[at->patches + j].slot == slot) return false;
    }
    return true;
}

static int64_t whole_lines(int64_t bytes) { return (bytes + 63) & ~(int64_t)63; }

/* The lowest offset at which slot i meets none of those that are alive with it; `placed` goes by offset. */
static int64_t first_fit(const Build *s, uint32_t i, const uint32_t *placed, uint32_t n)
{
    const Life *a = &s->life.at[i];
    int64_t bytes = whole_lines(s->p->slots.at[i].bytes), at = 0;
    for (uint32_t j = 0; j < n; j++) {
        const Slot *o = &s->p->slots.at[placed[j]];
        const Life *b = &s->life.at[placed[j]];
        int64_t end = o->offset + whole_lines(o->bytes);
        if (a->last < b->first || b->last < a->first || end <= at) continue;
        if (at + bytes <= o->offset) return at;
        at = end;
    }
    return at;
}

/* Offsets of the temporaries of one workspace; its bytes, -1 without memory. */
static int64_t lay_out(Build *s, bool once)
{
    Plan *p = s->p;
    VEC(uint32_t) placed = { 0 };
    int64_t workspace = 0;
    for (uint32_t i = 0; i < p->slots.len; i++) {
        Slot *slot = &p->slots.at[i];
        if (slot->kind != SLOT_TEMP || s->life.at[i].first == UINT32_MAX || once_only(s, i) != once) continue;
        slot->offset = first_fit(s, i, placed.at, placed.len);
        int64_t end = slot->offset + whole_lines(slot->bytes);
        if (end > workspace) workspace = end;
        if (!vec_push(s->work, &placed)) return -1;
        uint32_t j = placed.len - 1;
        for (; j > 0 && p->slots.at[placed.at[j - 1]].offset > slot->offset; j--) placed.at[j] = placed.at[j - 1];
        placed.at[j] = i;
    }
    return workspace;
}

static bool lay_out_all(Build *s)
{
    Plan *p = s->p;
    if (!keep_list(s->arena, s->work, p)) return false;
    p->workspace = lay_out(s, false);
    p->once_workspace = p->kept.len ? lay_out(s, true) : 0;
    for (uint32_t i = 0; i < p->slots.len; i++)
        if (p->slots.at[i].kind == SLOT_OUTPUT) p->peak += whole_lines(p->slots.at[i].bytes);
    p->peak += p->workspace;
    return p->workspace >= 0 && p->once_workspace >= 0;
}

static Plan *plan_build(Arena *a, Arena *work, Grouping *gr, const Survey *surveys, Buffers *b, const PlanOutput *out)
{
    const Graph *g = gr->g;
    Drafts each = { 0 }, drafts = { 0 };
    gr->surveys = surveys;
    if (!feed_mark(gr, b)) return NULL;
    together_mark(gr, b);
    if (!overwrite_dead(gr, b)) return NULL;
    for (uint32_t n = 1; n < gr->groups.len; n++)
        if (!gr->groups.at[n].feeds && !(gr->groups.at[n].host ? host_schedule(gr, n, b, &each) : schedule_tuned(gr, n, &surveys[n], b, &each))) return NULL;
    for (uint32_t i = 0; i < b->copies.len; i++)
        if (!schedule_copy(gr, b->copies.at[i].shape, b->copies.at[i].from, b->copies.at[i].to, b, &each)) return NULL;
    if (!merge_small(gr, b, &each, &drafts) || !keep_mark(gr, b, &drafts)) return NULL;
    Build s = { .arena = a, .work = work, .gr = gr, .b = b, .p = arena_alloc(a, sizeof(Plan)) };
    if (!s.p) return NULL;
    s.p->graph = g;
    s.p->ninputs = g->inputs.len;
    s.p->noutputs = g->outputs.len;
    s.p->output_slot = arena_alloc(a, sizeof(uint32_t) * (g->outputs.len + 1));
    s.p->output_stride = arena_alloc(a, sizeof(int64_t *) * (g->outputs.len + 1));
    s.slot_of = arena_alloc(work, sizeof(uint32_t) * b->at.len);
    if (!s.p->output_slot || !s.p->output_stride || !s.slot_of || !input_and_output_slots(&s, out)) return NULL;
    for (uint32_t i = 0; i < drafts.len; i++)
        if (!add_launch(&s, &drafts.at[i])) return NULL;
    for (uint32_t i = 0; i < g->checks.len; i++) {
        uint32_t *c = vec_push(a, &s.p->checks);
        if (!c) return NULL;
        *c = g->checks.at[i];
    }
    return lay_out_all(&s) && !g->err->kind ? s.p : NULL;
}

/* A dimension that is known only in the run has no kernels yet. */
static bool all_static(const Graph *g, Err *err)
{
    for (Id id = 1; id < g->nodes.len; id++)
        for (int d = 0; d < node_at(g, id)->rank; d++)
            if (node_shape(g, id)[d] < 0) {
                err->src = node_at(g, id)->src;
                return err_set(err, ERR_UNSUPPORTED, "%s has a shape that depends on data, which cannot be compiled yet; select elements after it, or by np.where",
                               op_info[node_at(g, id)->op].name);
            }
    return true;
}

/* The strides of each new output: in C order, or in NumPy's for the graph as it was traced. */
static int64_t *wanted_strides(Arena *a, const Graph *g, const PlanInput *in, const PlanOutput *out)
{
    Layouts none = { 0 };
    const Layouts *l = &none;
    for (uint32_t i = 0; i < g->outputs.len; i++)
        if (out[i].ordered && node_at(g, g->outputs.at[i])->rank > 1) l = order_layouts(a, g, in), i = g->outputs.len;
    int64_t *wanted = l ? arena_alloc(a, sizeof *wanted * MAX_RANK * (g->outputs.len + 1)) : NULL;
    for (uint32_t i = 0; wanted && i < g->outputs.len; i++)
        order_new(out[i].ordered ? l : &none, g, g->outputs.at[i], wanted + (size_t)i * MAX_RANK);
    return wanted;
}

/* The plan of a simplified graph. before: the values that are stored before an update; *next: those that had better be, NULL: none. */
static Plan *plan_grouped(Arena *a, Arena *work, const Graph *g, const PlanInput *in, const PlanOutput *out, const Target *target,
                          const int64_t *wanted, const bool *before, bool **next)
{
    Grouping *gr = group_make(work, g, in, target, before, out, wanted);
    Survey *surveys = gr ? survey_make(gr) : NULL;
    Buffers *b = surveys ? buffers_make(gr, surveys, out, wanted) : NULL;
    if (b) *next = b->before;
    return b ? plan_build(a, work, gr, surveys, b, out) : NULL;
}

static float total_ns(const Plan *p)
{
    float ns = 0;
    for (uint32_t i = 0; i < p->launches.len; i++) ns += p->launches.at[i].ns;
    return ns;
}

static Plan *plan_graph(Arena *a, Arena *work, const Graph *graph, const PlanInput *in, const PlanOutput *out, const Target *target)
{
    PlanInput *layout = arena_alloc(work, sizeof *in * (graph->inputs.len + 1));
    int64_t *wanted = layout && all_static(graph, arena_err(a)) ? wanted_strides(work, graph, in, out) : NULL;
    if (!wanted) return NULL;
    for (uint32_t k = 0; k < graph->inputs.len; k++) layout[k] = in[k];
    in = layout;
    const Graph *shaped = shape_written(a, graph, layout, out);
    Graph *g = shaped ? simplify(a, shaped, target, in) : NULL;
    bool *before = NULL;
    Plan *p = g ? plan_grouped(a, work, g, in, out, target, wanted, NULL, &before) : NULL;
    if (!p || !before) return p;
    Plan *other = plan_grouped(a, work, g, in, out, target, wanted, before, &before);
    return other && total_ns(other) < total_ns(p) ? other : g->err->kind ? NULL : p;
}

Plan *plan_make(Arena *a, const Graph *graph, const PlanInput *in, const PlanOutput *out, const Target *target)
{
    Arena *work = arena_new(arena_err(a));         /* groups, schedules and drafts: many times what stays */
    Plan *p = work ? plan_graph(a, work, graph, in, out, target) : NULL;
    arena_free(work);
    return p;
}

static void slot_print(Text *t, const Plan *p, uint32_t i)
{
    static const char *const kind[] = { "in", "out", "tmp", "status", "kept" };
    const Slot *s = &p->slots.at[i];
    if (s->kind == SLOT_TEMP) text_put(t, "tmp%u@%lld", i, (long long)s->offset);
    else if (s->kind == SLOT_STATUS) text_put(t, "status");
    else text_put(t, "%s%u", kind[s->kind], s->index);
}

void plan_print(Text *t, const Plan *p)
{
    text_put(t, "plan: %u launches of %u kernels, workspace %lld bytes, peak %lld bytes\n", p->launches.len, p->kernels.len,
             (long long)p->workspace, (long long)p->peak);
    for (uint32_t i = 0; i < p->kept.len; i++)
        text_put(t, "kept%u: %lld bytes, computed once from constants\n", i, (long long)p->slots.at[p->kept.at[i].slot].bytes);
    for (uint32_t i = 0; i < p->launches.len; i++) {
        const Launch *l = &p->launches.at[i];
        if (l->host) text_put(t, "launch %u: host function %lld", i, (long long)l->host->function);
        else text_put(t, "launch %u: kernel %u, grid %lld", i, l->kernel, (long long)l->grid);
        if (l->scratch) text_put(t, ", scratch %lld", (long long)l->scratch);
        text_put(t, l->once ? ", once, buffers" : ", buffers");
        for (uint32_t j = 0; j < l->npatches; j++) {
            text_put(t, " ");
            slot_print(t, p, p->patches.at[l->patches + j].slot);
        }
        text_put(t, "\n");
    }
    for (uint32_t i = 0; i < p->kernels.len; i++) {
        text_put(t, "kernel %u:\n", i);
        kernel_print(t, p->kernels.at[i]);
    }
}

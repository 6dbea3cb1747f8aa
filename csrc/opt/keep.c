/* What is computed from constant inputs alone need not be computed in every run: its launches are carried out once for given inputs, and
 * what others read of it is kept (the packed form of a weight, several weights side by side, a cast of one).
 *
 * A launch is `once` if all it reads are constants or buffers that only launches `once` write, for good before any other launch
 * reads them, and all it writes are such buffers. One that reads no constant, of whatever way, is none: its value could not be kept with any. */
#include <string.h>
#include "opt/group.h"

typedef struct {
    const Buffers *b;
    Drafts *drafts;
    bool *varies;                /* per memory id: its contents may be others in another run */
    bool *fixed;                 /* ... it is an input's or an output's: nothing may be kept there */
    bool *used;                  /* ... a launch that is not once has used it, so far */
    bool *from;                  /* ... it is a constant, or was made of one */
} Keep;

static Id memory_of(const Keep *k, const DraftPatch *p) { return buffers_place(k->b, p->buffer); }

static bool is_once(const Keep *k, const Draft *d)
{
    bool from = false;
    if (d->host) return false;
    for (uint32_t i = 0; i < d->patches.len; i++) {
        const DraftPatch *p = &d->patches.at[i];
        if (!p->buffer) return false;                             /* the status of a check */
        if (k->varies[memory_of(k, p)] || (p->written && k->fixed[memory_of(k, p)])) return false;
        from |= k->from[memory_of(k, p)];
    }
    return from;
}

static void mark(const Grouping *gr, Keep *k)
{
    memset(k->from, 0, k->b->at.len * sizeof *k->from);
    for (uint32_t i = 0; i < gr->g->inputs.len; i++) k->from[gr->g->inputs.at[i]] = gr->in[i].constant;
    for (uint32_t n = 0; n < k->drafts->len; n++) {
        Draft *d = &k->drafts->at[n];
        d->once = is_once(k, d);
        for (uint32_t i = 0; d->once && i < d->patches.len; i++)
            k->from[memory_of(k, &d->patches.at[i])] |= d->patches.at[i].written;
    }
}

/* What launches that are not once write varies, and so does what is written after such a launch has used it. */
static bool spread(Keep *k)
{
    bool changed = false;
    memset(k->used, 0, k->b->at.len);
    for (uint32_t n = 0; n < k->drafts->len; n++) {
        const Draft *d = &k->drafts->at[n];
        for (uint32_t i = 0; i < d->patches.len; i++) {
            Id m = memory_of(k, &d->patches.at[i]);
            bool varies = d->patches.at[i].written && (!d->once || k->used[m]);
            changed |= varies && !k->varies[m];
            k->varies[m] |= varies;
            k->used[m] |= !d->once;
        }
    }
    return changed;
}

static bool any_constant(const Grouping *gr)
{
    bool any = false;
    for (uint32_t i = 0; i < gr->g->inputs.len; i++) any |= gr->in[i].constant;
    return any;
}

bool keep_mark(Grouping *gr, const Buffers *b, Drafts *drafts)
{
    if (!any_constant(gr)) return true;
    Keep k = { .b = b, .drafts = drafts };
    bool *flags = arena_alloc(gr->arena, 4 * sizeof *flags * b->at.len);
    if (!flags) return false;
    k.varies = flags, k.fixed = flags + b->at.len, k.used = flags + 2 * b->at.len, k.from = flags + 3 * b->at.len;
    for (uint32_t i = 0; i < gr->g->inputs.len; i++) {
        k.varies[gr->g->inputs.at[i]] = !gr->in[i].constant;
        k.fixed[gr->g->inputs.at[i]] = true;
    }
    for (uint32_t i = 0; i < gr->g->outputs.len; i++) k.fixed[buffers_place(b, b->output[i])] = true;
    do
        mark(gr, &k);
    while (spread(&k));
    return true;
}

/* ---- recipes ---- */

typedef struct {
    Arena *arena;
    const Plan *p;
    bool *needed;                /* per slot */
    uint32_t *number;            /* per slot: in order of appearance, + 1 */
    uint32_t named;
    VEC(uint32_t) inputs;
    VEC(char) bytes;
} Recipe;

static void put(Recipe *r, const void *data, size_t n)
{
    if (!vec_reserve(r->arena, &r->bytes, n)) return;
    memcpy(r->bytes.at + r->bytes.len, data, n);
    r->bytes.len += (uint32_t)n;
}

static void put_slot(Recipe *r, uint32_t slot)
{
    bool input = r->p->slots.at[slot].kind == SLOT_INPUT;
    if (!r->number[slot]) {
        r->number[slot] = ++r->named;
        uint32_t *in = input ? vec_push(r->arena, &r->inputs) : NULL;
        if (in) *in = slot;
    }
    uint32_t word[2] = { input, r->number[slot] };
    put(r, word, sizeof word);
}

/* Marks what the value of a kept slot is computed from. */
static void find_needed(Recipe *r, uint32_t slot)
{
    memset(r->needed, 0, r->p->slots.len * sizeof *r->needed);
    r->needed[slot] = true;
    for (uint32_t n = r->p->launches.len; n-- > 0;) {
        const Launch *l = &r->p->launches.at[n];
        const Patch *at = r->p->patches.at + l->patches;
        bool part = false;
        for (uint32_t i = 0; l->once && i < l->npatches; i++) part |= at[i].written && r->needed[at[i].slot];
        for (uint32_t i = 0; part && i < l->npatches; i++) r->needed[at[i].slot] = true;
    }
}

static bool put_launch(Recipe *r, const Launch *l)
{
    size_t len;
    const void *kernel = kernel_bytes(r->arena, r->p->kernels.at[l->kernel], &len);
    if (!kernel) return false;
    put(r, &len, sizeof len);
    put(r, kernel, len);
    put(r, r->p->words.at + l->words, l->nwords * sizeof(int64_t));
    for (uint32_t i = 0; i < l->npatches; i++) {
        put(r, &r->p->patches.at[l->patches + i].word, sizeof(uint32_t));
        put_slot(r, r->p->patches.at[l->patches + i].slot);
    }
    return true;
}

static bool make_recipe(Arena *a, Recipe *r, Kept *k)
{
    find_needed(r, k->slot);
    memset(r->number, 0, r->p->slots.len * sizeof *r->number);
    r->named = 0;
    memset(&r->inputs, 0, sizeof r->inputs);
    memset(&r->bytes, 0, sizeof r->bytes);
    for (uint32_t n = 0; n < r->p->launches.len; n++) {
        const Launch *l = &r->p->launches.at[n];
        bool part = false;
        for (uint32_t i = 0; l->once && i < l->npatches; i++) {
            const Patch *at = &r->p->patches.at[l->patches + i];
            part |= at->written && r->needed[at->slot];
        }
        if (part && !put_launch(r, l)) return false;
    }
    put_slot(r, k->slot);
    if (arena_err(r->arena)->kind) return false;
    *k = (Kept){ .slot = k->slot, .ninputs = r->inputs.len, .inputs = arena_dup(a, r->inputs.at, r->inputs.len * sizeof *r->inputs.at),
                 .recipe = arena_dup(a, r->bytes.at, r->bytes.len), .recipe_bytes = r->bytes.len };
    return k->inputs && k->recipe;
}

/* A slot becomes kept where a launch `once` writes it and another one reads it. */
static bool keep_slot(Arena *a, Plan *p, uint32_t slot)
{
    bool kept = false, read = false;
    for (uint32_t n = 0; n < p->launches.len; n++)
        for (uint32_t i = 0; i < p->launches.at[n].npatches; i++) {
            const Patch *at = &p->patches.at[p->launches.at[n].patches + i];
            kept |= at->slot == slot && at->written && p->launches.at[n].once;
            read |= at->slot == slot && !p->launches.at[n].once;
        }
    if (!kept || !read) return true;
    Kept *k = vec_push(a, &p->kept);
    if (!k) return false;
    *k = (Kept){ .slot = slot };
    p->slots.at[slot].kind = SLOT_KEPT;
    p->slots.at[slot].index = p->kept.len - 1;
    return true;
}

bool keep_list(Arena *a, Arena *work, Plan *p)
{
    bool any = false;
    for (uint32_t n = 0; n < p->launches.len; n++) any |= p->launches.at[n].once;
    if (!any) return true;
    for (uint32_t s = 0; s < p->slots.len; s++)
        if (p->slots.at[s].kind == SLOT_TEMP && !keep_slot(a, p, s)) return false;
    Recipe r = { .arena = work, .p = p, .needed = arena_alloc(work, p->slots.len * sizeof(bool)), .number = arena_alloc(work, p->slots.len * sizeof(uint32_t)) };
    if (!r.needed || !r.number) return false;
    for (uint32_t i = 0; i < p->kept.len; i++)
        if (!make_recipe(a, &r, &p->kept.at[i])) return false;
    return true;
}

/* The order in which a long elementwise body makes its values. A store asks for its value, and that for its inputs, one after the other: what several stores
 * have in common then waits for the second of them, in memory where the registers do not hold it. The other order at hand is that of the kernel, which is
 * the program's: a programmer uses what he has just computed. The one that keeps fewer values waiting is taken. */
#include "gen/val.h"

enum { ORDERED_FROM = 48, SPARE = 4 };             /* operations that fit the registers in any order; registers for constants and the like */

typedef struct {
    Gen *g;
    uint32_t *at, n;                                /* the body's values in the order looked at */
    uint32_t *last;                                 /* per value: the step that uses it last */
    bool *seen;
} Order;

static bool in_body(Gen *g, uint32_t val)
{
    Level l = val_level(g, val);
    ValKind kind = (ValKind)g->k->vals.at[val].kind;
    return (kind == VAL_OP || kind == VAL_LOAD) && l.vector && l.need == g->depth;
}

static int inputs(const Val *v, uint32_t *in)
{
    in[0] = v->a, in[1] = v->b, in[2] = v->c;
    if (v->kind == VAL_LOAD) in[0] = v->b;
    return v->kind == VAL_OP ? op_info[v->op].nin : v->kind == VAL_LOAD && v->b;
}

static void visit(Order *o, uint32_t val)
{
    uint32_t in[3];
    if (o->seen[val] || !in_body(o->g, val)) return;
    o->seen[val] = true;
    int n = inputs(&o->g->k->vals.at[val], in);
    for (int i = 0; i < n; i++) visit(o, in[i]);
    o->at[o->n++] = val;
}

/* How many values wait beyond what the registers hold, added up over all steps. */
static int64_t waiting(Order *o, int room)
{
    uint32_t in[3], *ends = arena_alloc(o->g->arena, (o->n + 1) * sizeof *ends);
    int64_t live = 0, sum = 0;
    if (!ends) return 0;
    for (uint32_t t = 0; t < o->n; t++) {
        int n = inputs(&o->g->k->vals.at[o->at[t]], in);
        o->last[o->at[t]] = o->n;                   /* a store's own value */
        for (int i = 0; i < n; i++) o->last[in[i]] = t;
    }
    for (uint32_t t = 0; t < o->n; t++) ends[o->last[o->at[t]]]++;
    for (uint32_t t = 0; t < o->n; t++) {
        live += 1 - (int64_t)ends[t];
        if (live > room) sum += live - room;
    }
    return sum;
}

/* Whether the FOR does nothing but store, and never to an array that it reads. */
static bool only_stores(const Gen *g, const Stmt *loop)
{
    const Kernel *k = g->k;
    for (const Stmt *s = loop + 1; s < k->stmts.at + loop->end; s++) {
        if (s->kind != STMT_STORE) return false;
        for (uint32_t i = 1; i < k->vals.len; i++)
            if (k->vals.at[i].kind == VAL_LOAD && k->accesses.at[k->vals.at[i].a].array == k->accesses.at[s->a].array) return false;
    }
    return true;
}

void body_values(Gen *g, const Stmt *loop)
{
    const Kernel *k = g->k;
    if (k->vals.len < ORDERED_FROM || !only_stores(g, loop)) return;
    Order o = {.g = g, .at = arena_alloc(g->arena, k->vals.len * sizeof *o.at), .last = arena_alloc(g->arena, k->vals.len * sizeof *o.last),
               .seen = arena_alloc(g->arena, k->vals.len)};
    if (!o.at || !o.last || !o.seen) return;
    int registers = g->e.level == CPU_AVX512 ? 32 : 16, widest = 1;
    for (const Stmt *s = loop + 1; s < k->stmts.at + loop->end; s++) visit(&o, s->b);
    if (o.n < ORDERED_FROM) return;
    for (uint32_t t = 0; t < o.n; t++)
        if (dtype_info[k->vals.at[o.at[t]].dtype].bytes > widest) widest = dtype_info[k->vals.at[o.at[t]].dtype].bytes;
    int each = (int)g->lanes * widest / cpu_level_vector_bytes(g->e.level), room = (registers - SPARE) / (each > 1 ? each : 1);
    int64_t asked = waiting(&o, room);
    o.n = 0;
    for (uint32_t i = 1; i < k->vals.len; i++)
        if (o.seen[i]) o.at[o.n++] = i;
    if (waiting(&o, room) >= asked) return;
    for (uint32_t t = 0; t < o.n; t++) val_get(g, o.at[t]);
}

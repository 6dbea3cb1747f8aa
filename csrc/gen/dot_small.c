/* A product of a few rows and columns whose numbers the kernel knows: B lies whole in registers, and each row of C is made from its row of A alone, an
 * element spread over the lanes at a time. Several rows go side by side, so that their chains of additions overlap. The order along k is that of
 * the tiles in dot.c. */
#include "gen/dot.h"
#include "gen/target.h"

enum {
    MOST = 16,                   /* rows, columns and terms */
    UNROLLED = 128,              /* additions of vectors that are written out; more go in a loop over rows */
    SIDE_BY_SIDE = 8,            /* rows at once */
    DEEP = 8,                    /* ... half of them where the chains are longer */
    VECTORS = 8,                 /* 16 columns of two lanes */
    TERMS = 24,                  /* registers for B, of 32 */
    FEW_TERMS = 10,              /* ... of 16 */
    LINE = 64,
    AHEAD = 4096,
};

typedef struct {
    Dot *d;
    int m, n, k, nvec, rows;
    struct { int at; unsigned lanes; LLVMValueRef mask, active; } vec[VECTORS];
    LLVMValueRef b[MOST][VECTORS];
} Small;

static bool known(LLVMValueRef v, int *out)
{
    int64_t n = LLVMIsConstant(v) ? LLVMConstIntGetSExtValue(v) : 0;
    *out = (int)n;
    return n > 0 && n <= MOST;
}

/* The columns as vectors: full ones, then one under a mask, or halves of halves; whether there is room for all. */
static bool choose_vectors(Small *s)
{
    int at = 0;
    Gen *g = s->d->g;
    bool masks = target_mask(g->e.level, dtype_info[s->d->dt].bytes);
    for (; at < s->n && s->nvec < VECTORS; s->nvec++) {
        unsigned lanes = s->d->lanes, left = (unsigned)(s->n - at);
        while (lanes > left && (!masks || lanes / 2 >= left)) lanes /= 2;
        s->vec[s->nvec].at = at;
        s->vec[s->nvec].lanes = lanes;
        if (lanes > left) s->vec[s->nvec].active = int64_const(g, left);
        at += (int)(lanes < left ? lanes : left);
    }
    return at == s->n;
}

static void make_masks(Small *s)
{
    Gen *g = s->d->g;
    for (int v = 0; v < s->nvec; v++) {
        g->e.lanes = s->vec[v].lanes;
        if (s->vec[v].active) s->vec[v].mask = lane_mask(g, s->vec[v].active);
    }
}

static void use_vector(const Small *s, int v)
{
    Gen *g = s->d->g;
    g->e.lanes = v < 0 ? 0 : s->vec[v].lanes == 1 ? 0 : s->vec[v].lanes;
    g->mask = v < 0 ? NULL : s->vec[v].mask;
    g->active = v < 0 ? NULL : s->vec[v].active;
}

/* The address of an element `steps` further along. */
static LLVMValueRef further(const Small *s, LLVMValueRef ptr, int steps, Stride by)
{
    Gen *g = s->d->g;
    if (!steps) return ptr;
    return byte_offset(g, ptr, by.literal ? int64_const(g, steps * by.bytes) : LLVMBuildMul(g->e.b, by.v, int64_const(g, steps), ""));
}

/* Asks for the lines of a matrix `AHEAD` bytes further on: of the ones after it, of many. */
static void ask_ahead(Small *s, int which, int rows, int columns, Stride by_row, Stride by_column)
{
    Dot *d = s->d;
    if (!d->x[which]->streams || !by_row.literal || !by_column.literal) return;
    int64_t bytes = (rows - 1) * by_row.bytes + (columns - 1) * by_column.bytes + dtype_info[d->dt].bytes;
    for (int64_t at = 0; at < bytes && at < AHEAD; at += LINE)
        memory_prefetch(d->g, byte_offset(d->g, d->ptr[which], int64_const(d->g, AHEAD + at)), which == DOT_C);
}

static void load_columns(Small *s)
{
    Dot *d = s->d;
    for (int k = 0; k < s->k; k++) {
        LLVMValueRef row = further(s, d->ptr[DOT_B], k, d->by_k[DOT_B]);
        for (int v = 0; v < s->nvec; v++) {
            use_vector(s, v);
            s->b[k][v] = lanes_load(d->g, d->x[DOT_B], further(s, row, s->vec[v].at, d->by_n[DOT_B]), d->by_n[DOT_B]);
        }
    }
    use_vector(s, -1);
}

/* `count` rows from the ones at these addresses on. */
static void some_rows(Small *s, LLVMValueRef a, LLVMValueRef c, int count)
{
    Dot *d = s->d;
    LLVMValueRef acc[SIDE_BY_SIDE][VECTORS], at[SIDE_BY_SIDE], out[SIDE_BY_SIDE][VECTORS];
    for (int r = 0; r < count; r++) {
        at[r] = further(s, a, r, d->by_m[DOT_A]);
        for (int v = 0; v < s->nvec; v++) {
            use_vector(s, v);
            out[r][v] = further(s, further(s, c, r, d->by_m[DOT_C]), s->vec[v].at, d->by_n[DOT_C]);
            acc[r][v] = dot_start(d, out[r][v], d->by_n[DOT_C]);
        }
    }
    for (int k = 0; k < s->k; k++)
        for (int r = 0; r < count; r++) {
            use_vector(s, -1);
            LLVMValueRef x = lanes_load(d->g, d->x[DOT_A], further(s, at[r], k, d->by_k[DOT_A]), (Stride){int64_const(d->g, 0), 0, true});
            for (int v = 0; v < s->nvec; v++) {
                use_vector(s, v);
                acc[r][v] = dot_multiply_add(d, v_splat(&d->g->e, x), s->b[k][v], acc[r][v]);
            }
        }
    for (int r = 0; r < count; r++)
        for (int v = 0; v < s->nvec; v++) {
            use_vector(s, v);
            lanes_store(d->g, d->x[DOT_C], out[r][v], d->by_n[DOT_C], acc[r][v]);
        }
    use_vector(s, -1);
}

static void all_rows(Small *s)
{
    Dot *d = s->d;
    Gen *g = d->g;
    int most = s->k > DEEP ? SIDE_BY_SIDE / 2 : SIDE_BY_SIDE, left = s->m % most, whole = s->m - left;
    if (s->m * s->k * s->nvec <= UNROLLED || whole <= most) {
        for (int r = 0; r < s->m; r += most)
            some_rows(s, further(s, d->ptr[DOT_A], r, d->by_m[DOT_A]), further(s, d->ptr[DOT_C], r, d->by_m[DOT_C]), s->m - r < most ? s->m - r : most);
        return;
    }
    Loop l = {0};
    loop_open(g, &l, int64_const(g, 0), NULL);
    LLVMValueRef a = byte_offset(g, d->ptr[DOT_A], LLVMBuildMul(g->e.b, l.i, d->by_m[DOT_A].v, ""));
    LLVMValueRef c = byte_offset(g, d->ptr[DOT_C], LLVMBuildMul(g->e.b, l.i, d->by_m[DOT_C].v, ""));
    some_rows(s, a, c, most);
    loop_close(g, &l, LLVMBuildAdd(g->e.b, l.i, int64_const(g, most), ""), int64_const(g, whole));
    if (left) some_rows(s, further(s, d->ptr[DOT_A], whole, d->by_m[DOT_A]), further(s, d->ptr[DOT_C], whole, d->by_m[DOT_C]), left);
}

bool dot_small(Dot *d)
{
    Small s = {.d = d};
    int registers = d->g->e.level == CPU_AVX512 || d->g->e.level == CPU_NEON ? TERMS : FEW_TERMS;
    Stride by = d->by_n[DOT_B], to = d->by_n[DOT_C];
    int64_t bytes = dtype_info[d->dt].bytes;
    if (d->nsums || d->bits & DOT_BYTES || !known(d->m, &s.m) || !known(d->n, &s.n) || !known(d->k, &s.k)) return false;
    if (s.n == 1 || !by.literal || by.bytes != bytes || !to.literal || to.bytes != bytes) return false;
    if (!choose_vectors(&s) || s.k * s.nvec > registers) return false;
    scope_continue(d->g);
    if (!scope_open(d->g, NULL, NULL)) return true;
    make_masks(&s);
    ask_ahead(&s, DOT_A, s.m, s.k, d->by_m[DOT_A], d->by_k[DOT_A]);
    ask_ahead(&s, DOT_B, s.k, s.n, d->by_k[DOT_B], d->by_n[DOT_B]);
    ask_ahead(&s, DOT_C, s.m, s.n, d->by_m[DOT_C], d->by_n[DOT_C]);
    load_columns(&s);
    all_rows(&s);
    scope_close(d->g);
    return true;
}

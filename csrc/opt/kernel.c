/* Building kernels, and their identity as bytes. The text form is in kernel_text.c, the definition of a legal one in kernel_verify.c. */
#include <string.h>
#include "base/hash.h"
#include "opt/kernel.h"

Kernel *kernel_new(Arena *a)
{
    Kernel *k = arena_alloc(a, sizeof *k);
    if (!k || !vec_push(a, &k->vals))
        return NULL;
    return k;
}

uint32_t kernel_arg(Kernel *k)
{
    return k ? k->nargs++ : 0;
}

/* One form for one meaning: the literal of a size that is an argument is 0. */
static Size plain(Size s) { return s.arg >= 0 ? (Size){ 0, s.arg } : SIZE(s.lit); }

uint32_t kernel_axis(Arena *a, Kernel *k, Size size, Size block)
{
    if (!k)
        return 0;
    if (k->axes.len == KERNEL_MAX_AXES) {
        err_set(arena_err(a), ERR_LIMIT, "a kernel has at most %d axes", KERNEL_MAX_AXES);
        return 0;
    }
    Axis *axis = vec_push(a, &k->axes);
    if (!axis)
        return 0;
    *axis = (Axis){ .size = plain(size), .block = plain(block) };
    return k->axes.len - 1;
}

uint32_t kernel_array(Arena *a, Kernel *k, Array array)
{
    Array *at = k ? vec_push(a, &k->arrays) : NULL;
    if (!at)
        return 0;
    *at = array;
    return k->arrays.len - 1;
}

uint32_t kernel_state(Arena *a, Kernel *k, Monoid monoid, Dtype dtype)
{
    State *at = k ? vec_push(a, &k->states) : NULL;
    if (!at)
        return 0;
    *at = (State){ (uint8_t)monoid, (uint8_t)dtype };
    return k->states.len - 1;
}

/* ---- interning: equal values and accesses are one; the comparison and the hash read the normal form below ---- */

static Coef coef_normal(Coef c)
{
    return (Coef){ c.kind, c.kind == COEF_LITERAL ? c.lit : 0, c.kind == COEF_RUN ? c.arg : 0 };
}

/* Fields that mean nothing are zero; padding too, since the result is made in zeroed memory. */
static void access_normal(Access *out, const Access *in)
{
    memset(out, 0, sizeof *out);
    out->array = in->array;
    out->nindex = in->nindex;
    out->streams = in->streams;
    out->apart = in->apart;
    out->off_arg = in->off_arg < 0 ? -1 : in->off_arg;
    out->off_lit = in->off_lit;
    for (int i = 0; i < KERNEL_MAX_AXES; i++) {
        out->coef[i] = coef_normal(in->coef[i]);
        out->outer[i] = coef_normal(in->outer[i]);
    }
    for (int i = 0; i < in->nindex; i++) {
        out->index[i].val = in->index[i].val;
        out->index[i].coef = coef_normal(in->index[i].coef);
    }
}

static bool coef_equal(Coef x, Coef y)
{
    return x.kind == y.kind && x.lit == y.lit && x.arg == y.arg;
}

static bool access_equal(const Access *x, const Access *y)
{
    if (x->array != y->array || x->nindex != y->nindex || x->streams != y->streams || x->apart != y->apart || x->off_arg != y->off_arg || x->off_lit != y->off_lit)
        return false;
    for (int i = 0; i < KERNEL_MAX_AXES; i++)
        if (!coef_equal(x->coef[i], y->coef[i]) || !coef_equal(x->outer[i], y->outer[i]))
            return false;
    for (int i = 0; i < x->nindex; i++)
        if (x->index[i].val != y->index[i].val || !coef_equal(x->index[i].coef, y->index[i].coef))
            return false;
    return true;
}

static uint64_t coef_hash(uint64_t h, Coef c)
{
    return hash_mix(h, (uint64_t)c.kind << 32 ^ (uint32_t)c.lit ^ (uint64_t)(uint32_t)c.arg << 8);
}

static uint64_t access_hash(const Access *x)
{
    uint64_t h = hash_mix((uint64_t)x->array << 8 | x->nindex, hash_mix((uint32_t)x->off_arg, (uint64_t)x->off_lit));
    for (int i = 0; i < KERNEL_MAX_AXES; i++)
        if (x->coef[i].kind != COEF_ZERO || x->outer[i].kind != COEF_ZERO)
            h = coef_hash(coef_hash(h + (uint64_t)i, x->coef[i]), x->outer[i]);
    for (int i = 0; i < x->nindex; i++)
        h = coef_hash(hash_mix(h, x->index[i].val), x->index[i].coef);
    return h;
}

static Val val_normal(Val v)
{
    Val out = { .kind = v.kind, .dtype = v.dtype, .a = v.a };
    if (v.kind == VAL_CONST || v.kind == VAL_STATE || v.kind == VAL_LOAD)
        out.b = v.b;
    if (v.kind == VAL_OP) {
        int nin = v.op < OP_COUNT ? op_info[v.op].nin : 3;
        out.op = v.op;
        out.mode = v.mode;
        out.b = nin > 1 ? v.b : 0;
        out.c = nin > 2 ? v.c : 0;
    }
    return out;
}

static bool val_equal(const Val *x, const Val *y)
{
    return x->kind == y->kind && x->dtype == y->dtype && x->mode == y->mode && x->op == y->op && x->a == y->a && x->b == y->b
           && x->c == y->c;
}

static uint64_t val_hash(const Val *v)
{
    uint64_t head = (uint64_t)v->kind << 32 | (uint64_t)v->dtype << 24 | (uint64_t)v->mode << 16 | v->op;
    return hash_mix(hash_mix(head, (uint64_t)v->a << 32 | v->b), v->c);
}

static void table_put(KernelTable *t, uint64_t hash, uint32_t id)
{
    uint32_t i = (uint32_t)hash & (t->cap - 1);
    while (t->slot[i])
        i = (i + 1) & (t->cap - 1);
    t->slot[i] = id + 1;
    t->len++;
}

/* Makes the table hold exactly the first `len` items, with room for one more. It may lag behind: kernels are also read from bytes. */
static bool table_ready(Arena *a, KernelTable *t, uint32_t len, const void *items, uint64_t (*hash)(const void *items, uint32_t id))
{
    if (t->slot && t->len == len && (len + 1) * 2 <= t->cap)
        return true;
    uint32_t cap = 64;
    while (cap < (len + 1) * 4)
        cap *= 2;
    t->slot = arena_alloc(a, cap * sizeof *t->slot);
    if (!t->slot)
        return false;
    t->cap = cap;
    t->len = 0;
    for (uint32_t i = 0; i < len; i++)
        table_put(t, hash(items, i), i);
    return true;
}

static uint64_t hash_val_at(const void *items, uint32_t id)
{
    return val_hash((const Val *)items + id);
}

static uint64_t hash_access_at(const void *items, uint32_t id)
{
    return access_hash((const Access *)items + id);
}

uint32_t kernel_val(Arena *a, Kernel *k, Val val)
{
    if (!k)
        return 0;
    if (val.kind == VAL_OP && (val.op >= OP_COUNT || op_info[val.op].kind != KIND_ELEMENTWISE)) {
        err_set(arena_err(a), ERR_INTERNAL, "%s is no operation of kernels", val.op < OP_COUNT ? op_info[val.op].name : "an unknown number");
        return 0;
    }
    Val v = val_normal(val);
    KernelTable *t = &k->val_table;
    if (!table_ready(a, t, k->vals.len, k->vals.at, hash_val_at))
        return 0;
    uint64_t hash = val_hash(&v);
    for (uint32_t i = (uint32_t)hash & (t->cap - 1); t->slot[i]; i = (i + 1) & (t->cap - 1))
        if (val_equal(&k->vals.at[t->slot[i] - 1], &v))
            return t->slot[i] - 1;
    Val *at = vec_push(a, &k->vals);
    if (!at)
        return 0;
    *at = v;
    table_put(t, hash, k->vals.len - 1);
    return k->vals.len - 1;
}

uint32_t kernel_access(Arena *a, Kernel *k, const Access *access)
{
    if (!k)
        return 0;
    Access x;
    access_normal(&x, access);
    KernelTable *t = &k->access_table;
    if (!table_ready(a, t, k->accesses.len, k->accesses.at, hash_access_at))
        return 0;
    uint64_t hash = access_hash(&x);
    for (uint32_t i = (uint32_t)hash & (t->cap - 1); t->slot[i]; i = (i + 1) & (t->cap - 1))
        if (access_equal(&k->accesses.at[t->slot[i] - 1], &x))
            return t->slot[i] - 1;
    Access *at = vec_push(a, &k->accesses);
    if (!at)
        return 0;
    *at = x;
    table_put(t, hash, k->accesses.len - 1);
    return k->accesses.len - 1;
}

/* The bits of one element, extended to 64 (signed integers by their sign), so that equal constants are one value. */
static int64_t bits_normal(Dtype dtype, int64_t bits)
{
    int shift = 64 - 8 * dtype_info[dtype].bytes;
    if (shift <= 0)
        return bits;
    if (dtype_info[dtype].kind == DKIND_INT)
        return (int64_t)((uint64_t)bits << shift) >> shift;
    return (int64_t)((uint64_t)bits << shift >> shift);
}

uint32_t kernel_const(Arena *a, Kernel *k, Dtype dtype, int64_t bits)
{
    uint64_t u = (uint64_t)bits_normal(dtype, bits);
    return kernel_val(a, k, (Val){ .kind = VAL_CONST, .dtype = (uint8_t)dtype, .a = (uint32_t)u, .b = (uint32_t)(u >> 32) });
}

Stmt *kernel_stmt(Arena *a, Kernel *k, Stmt stmt)
{
    Stmt *at = k ? vec_push(a, &k->stmts) : NULL;
    if (!at)
        return NULL;
    *at = stmt;
    at->end = k->stmts.len;
    return at;
}

uint32_t kernel_open(Arena *a, Kernel *k, uint32_t axis, Part part, int lanes, bool grid)
{
    Stmt s = { .kind = STMT_FOR, .part = (uint8_t)part, .grid = grid, .axis = (uint16_t)axis, .lanes = (uint16_t)lanes };
    if (!kernel_stmt(a, k, s))
        return 0;
    k->ngrid += grid;
    return k->stmts.len - 1;
}

void kernel_close(Kernel *k, uint32_t stmt)
{
    if (k && stmt < k->stmts.len)
        k->stmts.at[stmt].end = k->stmts.len;
}

int64_t kernel_grid(const Kernel *k, const int64_t *args)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < k->ngrid; i++)
        n *= kernel_trips(k, &k->stmts.at[i], args);
    return n;
}

int64_t kernel_trips(const Kernel *k, const Stmt *stmt, const int64_t *args)
{
    const Axis *x = &k->axes.at[stmt->axis];
    int64_t size = size_value(x->size, args), block = size_value(x->block, args);
    return stmt->part == PART_WHOLE ? size : stmt->part == PART_BLOCKS ? (size + block - 1) / block : block;
}

/* ---- bytes: every field as 32-bit words in order, so there is no padding; one function both writes and reads ---- */

#define KERNEL_MAGIC 0x316b7870u                            /* "pxk1" */

typedef struct {
    Arena *arena;                                           /* reading: where the kernel is made; else NULL */
    const uint32_t *in;
    uint32_t *out;                                          /* writing: NULL to count and hash only */
    size_t len, pos;
    uint64_t hash;
    bool bad;
} Io;

static uint32_t io_get(Io *io)
{
    if (io->pos >= io->len) {
        io->bad = true;
        return 0;
    }
    return io->in[io->pos++];
}

static void io_put(Io *io, uint32_t word)
{
    if (io->out)
        io->out[io->pos] = word;
    io->hash = hash_mix(io->hash, word);
    io->pos++;
}

/* Writes never store into the kernel: several threads hash one. A word that its field cannot hold is bad: bytes are canonical. */
#define WORD(io, x)                                  \
    do {                                             \
        if ((io)->arena) {                           \
            uint32_t word_ = io_get(io);             \
            (x) = (__typeof__(x))word_;              \
            (io)->bad |= (uint32_t)(x) != word_;     \
        } else {                                     \
            io_put(io, (uint32_t)(x));               \
        }                                            \
    } while (0)

static void io_long(Io *io, int64_t *x)
{
    uint32_t lo = io->arena ? 0 : (uint32_t)*x, hi = io->arena ? 0 : (uint32_t)((uint64_t)*x >> 32);
    WORD(io, lo);
    WORD(io, hi);
    if (io->arena)
        *x = (int64_t)((uint64_t)hi << 32 | lo);
}

/* The length of an array, and its memory when reading. A length that the words left cannot fill is refused before it is allocated. */
static uint32_t io_length(Io *io, void **at, uint32_t *len, uint32_t *cap, size_t item)
{
    if (!io->arena) {
        io_put(io, *len);
        return *len;
    }
    uint32_t n = io_get(io);
    if (io->bad || n > io->len - io->pos)
        io->bad = true;
    else if (n > *cap) {
        *at = arena_alloc(io->arena, n * item);
        *cap = *at ? n : 0;
        io->bad = !*at;
    }
    *len = io->bad ? 0 : n;
    return *len;
}
#define LENGTH(io, v) io_length(io, (void **)&(v)->at, &(v)->len, &(v)->cap, sizeof *(v)->at)

static void io_coef(Io *io, Coef *c)
{
    WORD(io, c->kind);
    if (c->kind == COEF_LITERAL)
        WORD(io, c->lit);
    if (c->kind == COEF_RUN)
        WORD(io, c->arg);
}

static void io_access(Io *io, Access *x, uint32_t naxes)
{
    WORD(io, x->array);
    WORD(io, x->streams);
    WORD(io, x->apart);
    WORD(io, x->off_arg);
    io_long(io, &x->off_lit);
    for (uint32_t i = 0; i < naxes && i < KERNEL_MAX_AXES; i++) {
        io_coef(io, &x->coef[i]);
        io_coef(io, &x->outer[i]);
    }
    WORD(io, x->nindex);
    if (x->nindex > KERNEL_MAX_INDEX) {
        io->bad = true;
        return;
    }
    for (int i = 0; i < x->nindex; i++) {
        WORD(io, x->index[i].val);
        io_coef(io, &x->index[i].coef);
    }
}

static void io_val(Io *io, Val *v)
{
    uint32_t head = io->arena ? 0 : (uint32_t)v->kind | (uint32_t)v->dtype << 4 | (uint32_t)v->mode << 12 | (uint32_t)v->op << 16;
    WORD(io, head);
    if (io->arena) {
        v->kind = head & 15;
        v->dtype = head >> 4 & 255;
        v->mode = head >> 12 & 15;
        v->op = (uint16_t)(head >> 16);
    }
    WORD(io, v->a);
    WORD(io, v->b);
    WORD(io, v->c);
}

static void io_stmt(Io *io, Stmt *s)
{
    WORD(io, s->kind);
    WORD(io, s->part);
    WORD(io, s->grid);
    WORD(io, s->add);
    WORD(io, s->axis);
    WORD(io, s->lanes);
    WORD(io, s->axis_n);
    WORD(io, s->axis_k);
    WORD(io, s->sums);
    WORD(io, s->a);
    WORD(io, s->b);
    WORD(io, s->c);
    WORD(io, s->d);
    WORD(io, s->end);
}

static void io_size(Io *io, Size *s)
{
    io_long(io, &s->lit);
    WORD(io, s->arg);
}

static void io_kernel(Io *io, Kernel *k)
{
    uint32_t magic = KERNEL_MAGIC;
    WORD(io, magic);
    if (magic != KERNEL_MAGIC)
        io->bad = true;
    WORD(io, k->nargs);
    WORD(io, k->ngrid);
    WORD(io, k->checked);
    uint32_t naxes = LENGTH(io, &k->axes);
    for (uint32_t i = 0; i < naxes; i++) {
        io_size(io, &k->axes.at[i].size);
        io_size(io, &k->axes.at[i].block);
        WORD(io, k->axes.at[i].follow);
        WORD(io, k->axes.at[i].leader);
        WORD(io, k->axes.at[i].lead);
    }
    for (uint32_t i = 0, n = LENGTH(io, &k->arrays); i < n; i++) {
        Array *x = &k->arrays.at[i];
        WORD(io, x->kind);
        WORD(io, x->dtype);
        WORD(io, x->written);
        WORD(io, x->swapped);
        WORD(io, x->ordered);
        WORD(io, x->arg);
    }
    for (uint32_t i = 0, n = LENGTH(io, &k->accesses); i < n; i++)
        io_access(io, &k->accesses.at[i], naxes);
    for (uint32_t i = 0, n = LENGTH(io, &k->vals); i < n; i++)
        io_val(io, &k->vals.at[i]);
    for (uint32_t i = 0, n = LENGTH(io, &k->states); i < n; i++) {
        WORD(io, k->states.at[i].monoid);
        WORD(io, k->states.at[i].dtype);
    }
    for (uint32_t i = 0, n = LENGTH(io, &k->stmts); i < n; i++)
        io_stmt(io, &k->stmts.at[i]);
}

void *kernel_bytes(Arena *a, const Kernel *k, size_t *len)
{
    Io count = { 0 };
    io_kernel(&count, (Kernel *)k);
    *len = count.pos * sizeof(uint32_t);
    Io io = { .out = arena_alloc(a, *len) };
    if (!io.out) {
        *len = 0;
        return NULL;
    }
    io_kernel(&io, (Kernel *)k);
    return io.out;
}

uint64_t kernel_hash(const Kernel *k)
{
    Io io = { 0 };
    io_kernel(&io, (Kernel *)k);
    return io.hash;
}

Kernel *kernel_from_bytes(Arena *a, const void *bytes, size_t len)
{
    Kernel *k = arena_alloc(a, sizeof *k);
    const uint32_t *words = arena_dup(a, bytes, len);       /* the caller's bytes need not be aligned */
    if (!k || !words)
        return NULL;
    Io io = { .arena = a, .in = words, .len = len / sizeof *words };
    io_kernel(&io, k);
    if (io.bad || io.pos * sizeof *words != len) {
        err_set(arena_err(a), ERR_INTERNAL, "not the bytes of a kernel");
        return NULL;
    }
    return k;
}

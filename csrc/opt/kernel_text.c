/* The text form of kernels: every table in order, then the body as a tree. What is printed is parsed back to equal bytes.
 *
 *     kernel args=6 grid=1
 *     axis a0 size=arg3 block=4096
 *     array A0 operand f32 arg0
 *     array A1 operand f32 arg1 written
 *     access x0 = A0[a0:unit/same] +arg5
 *     access x1 = A1[a0:unit/same]
 *     state s0 sum f32
 *     %1 = load f32 x0
 *     %2 = const f32 0.5
 *     %3 = multiply f32 %1 %2
 *     for a0 blocks grid {
 *       for a0 within lanes=16 {
 *         store x1 %3
 *       }
 *     }
 *
 * Within an access: `axis:coef`, for a blocked axis `axis:coef/outer`, and `%value:coef` for an index; then the offsets. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "opt/kernel.h"

static const char *const part_name[] = { "whole", "blocks", "within", "full", "rest" };
static const char *const coef_name[] = { "zero", "unit", NULL, NULL, "same" };
static const char *const array_name[] = { "operand", "scratch" };

/* ---- printing ---- */

static void print_coef(Text *t, Coef c)
{
    if (c.kind == COEF_LITERAL)
        text_put(t, "%d", c.lit);
    else if (c.kind == COEF_RUN)
        text_put(t, "arg%d", c.arg);
    else
        text_put(t, "%s", coef_name[c.kind]);
}

static void print_access(Text *t, const Kernel *k, const Access *x)
{
    const char *gap = "";
    text_put(t, "A%u[", x->array);
    for (uint32_t i = 0; i < k->axes.len; i++) {
        if (x->coef[i].kind == COEF_ZERO && x->outer[i].kind == COEF_ZERO)
            continue;
        text_put(t, "%sa%u:", gap, i);
        print_coef(t, x->coef[i]);
        if (x->outer[i].kind != COEF_ZERO) {
            text_put(t, "/");
            print_coef(t, x->outer[i]);
        }
        gap = " ";
    }
    for (int i = 0; i < x->nindex; i++) {
        text_put(t, "%s%%%u:", gap, x->index[i].val);
        print_coef(t, x->index[i].coef);
        gap = " ";
    }
    text_put(t, "]");
    if (x->off_arg >= 0)
        text_put(t, " +arg%d", x->off_arg);
    if (x->off_lit)
        text_put(t, " %+" PRId64, x->off_lit);
    if (x->streams)
        text_put(t, " streams");
    if (x->streams > 1)
        text_put(t, "/%d", x->streams);
    if (x->apart)
        text_put(t, " apart");
}

/* Decimal where that says it all, else the bits. */
static void print_const(Text *t, Dtype dtype, int64_t bits)
{
    double x = NAN;
    if (dtype == DT_float64) {
        memcpy(&x, &bits, sizeof x);
    } else if (dtype == DT_float32) {
        float f;
        memcpy(&f, &bits, sizeof f);
        x = f;
    } else if (dtype_info[dtype].kind == DKIND_INT) {
        text_put(t, "%" PRId64, bits);
        return;
    } else if (dtype_info[dtype].kind != DKIND_FLOAT && dtype_info[dtype].kind != DKIND_COMPLEX) {
        text_put(t, "%" PRIu64, (uint64_t)bits);
        return;
    }
    if (isnan(x))
        text_put(t, "0x%" PRIx64, (uint64_t)bits);
    else
        text_put(t, dtype == DT_float32 ? "%.9g" : "%.17g", x);
}

static void print_val(Text *t, const Kernel *k, uint32_t id)
{
    const Val *v = &k->vals.at[id];
    const char *code = dtype_info[v->dtype].code;
    text_put(t, "%%%u = ", id);
    switch ((ValKind)v->kind) {
    case VAL_NONE: text_put(t, "none"); break;
    case VAL_CONST:
        text_put(t, "const %s ", code);
        print_const(t, v->dtype, (int64_t)((uint64_t)v->b << 32 | v->a));
        break;
    case VAL_LOAD:
        text_put(t, "load %s x%u", code, v->a);
        if (v->b) text_put(t, " if %%%u", v->b);
        break;
    case VAL_AXIS: text_put(t, "axis %s a%u", code, v->a); break;
    case VAL_WORD: text_put(t, "word %s arg%u", code, v->a); break;
    case VAL_STATE: text_put(t, "state %s s%u.%u", code, v->a, v->b); break;
    case VAL_OP: {
        const uint32_t in[] = { v->a, v->b, v->c };
        text_put(t, "%s%s%s %s", op_info[v->op].name, v->mode & MODE_FMA ? "+fma" : "", v->mode & MODE_FAST ? "+fast" : "", code);
        for (int i = 0; i < op_info[v->op].nin; i++)
            text_put(t, " %%%u", in[i]);
        break;
    }
    }
    text_put(t, "\n");
}

static void print_stmt(Text *t, const Stmt *s)
{
    switch ((StmtKind)s->kind) {
    case STMT_FOR:
        text_put(t, "for a%u %s", s->axis, part_name[s->part]);
        if (s->lanes)
            text_put(t, " lanes=%u", s->lanes);
        if (s->a)
            text_put(t, " lines=x%u", s->a - 1);
        text_put(t, "%s {\n", s->grid ? " grid" : "");
        break;
    case STMT_INIT: text_put(t, "init s%u\n", s->a); break;
    case STMT_REDUCE:
        text_put(t, "reduce s%u %%%u", s->a, s->b);
        if (s->c)
            text_put(t, " %%%u", s->c);
        if (s->d)
            text_put(t, " %%%u", s->d);
        text_put(t, "\n");
        break;
    case STMT_STORE: text_put(t, "store x%u %%%u\n", s->a, s->b); break;
    case STMT_DOT:
        text_put(t, "dot x%u %s x%u x%u over a%u a%u a%u%s%s", s->a, s->add ? "+=" : "=", s->b, s->c, s->axis, s->axis_n, s->axis_k,
                 s->d & DOT_ROWS_FIRST ? " by rows" : "", s->d & DOT_UNSIGNED_SIGNED ? " unsigned signed" : s->d & DOT_SIGNED_UNSIGNED ? " signed unsigned" : "");
        text_put(t, "%s%s", s->d & DOT_FAR ? " far" : "", s->d & DOT_THIN ? " thin" : "");
        if (s->part)
            text_put(t, " tile %u", s->part);
        if (dot_vectors(s->d))
            text_put(t, " panels %d %d", dot_vectors(s->d), dot_last(s->d));
        for (int i = 0; i < KERNEL_MAX_AXES; i++)
            if (s->sums >> i & 1)
                text_put(t, " sum a%d", i);
        text_put(t, "\n");
        break;
    case STMT_TRANSPOSE: text_put(t, "transpose x%u = x%u over a%u a%u lanes=%u\n", s->a, s->b, s->axis, s->axis_n, s->lanes); break;
    case STMT_CHECK: text_put(t, "check %%%u else %u at arg%u\n", s->a, s->b, s->c); break;
    }
}

static void print_body(Text *t, const Kernel *k)
{
    uint32_t depth = 0, close[64];
    for (uint32_t i = 0; i <= k->stmts.len; i++) {
        for (; depth && close[depth - 1] <= i; depth--)
            text_put(t, "%*s}\n", 2 * (int)(depth - 1), "");
        if (i == k->stmts.len)
            break;
        const Stmt *s = &k->stmts.at[i];
        text_put(t, "%*s", 2 * (int)depth, "");
        print_stmt(t, s);
        if (s->kind == STMT_FOR && depth < 64)
            close[depth++] = s->end;
    }
}

static void print_size(Text *t, Size s)
{
    if (s.arg >= 0)
        text_put(t, "arg%d", s.arg);
    else
        text_put(t, "%" PRId64, s.lit);
}

void kernel_print(Text *t, const Kernel *k)
{
    text_put(t, "kernel args=%u grid=%u%s\n", k->nargs, k->ngrid, k->checked ? " checked" : "");
    for (uint32_t i = 0; i < k->axes.len; i++) {
        const Axis *x = &k->axes.at[i];
        text_put(t, "axis a%u size=", i);
        print_size(t, x->size);
        if (axis_blocked(x)) {
            text_put(t, " block=");
            print_size(t, x->block);
        }
        if (x->follow)
            text_put(t, " %s a%d+%d", x->follow == FOLLOW_TO ? "to" : "rest", x->leader, x->lead);
        text_put(t, "\n");
    }
    for (uint32_t i = 0; i < k->arrays.len; i++) {
        const Array *x = &k->arrays.at[i];
        text_put(t, "array A%u %s %s arg%d%s%s%s\n", i, array_name[x->kind], dtype_info[x->dtype].code, x->arg, x->written ? " written" : "",
                 x->swapped ? " swapped" : "", x->ordered ? " ordered" : "");
    }
    for (uint32_t i = 0; i < k->accesses.len; i++) {
        text_put(t, "access x%u = ", i);
        print_access(t, k, &k->accesses.at[i]);
        text_put(t, "\n");
    }
    for (uint32_t i = 0; i < k->states.len; i++)
        text_put(t, "state s%u %s %s\n", i, monoid_info[k->states.at[i].monoid].name, dtype_info[k->states.at[i].dtype].code);
    for (uint32_t i = 1; i < k->vals.len; i++)
        print_val(t, k, i);
    print_body(t, k);
}

/* ---- parsing: one word ahead, the first error sticks ---- */

typedef struct {
    Arena *arena;
    Kernel *k;
    const char *at;
    int line;
    VEC(uint32_t) open;                                     /* FORs not closed yet */
} Parser;

static bool fail(Parser *p, const char *what)
{
    return err_set(arena_err(p->arena), ERR_VALUE, "kernel text, line %d: expected %s at '%.20s'", p->line, what, p->at);
}

static bool ok(const Parser *p)
{
    return arena_err(p->arena)->kind == ERR_NONE;
}

static void spaces(Parser *p)
{
    for (; isspace((unsigned char)*p->at); p->at++)
        p->line += *p->at == '\n';
}

/* Takes the word if it stands here; a name is not taken out of a longer one. */
static bool accept(Parser *p, const char *word)
{
    spaces(p);
    size_t n = strlen(word);
    if (strncmp(p->at, word, n) != 0)
        return false;
    if (isalpha((unsigned char)word[n - 1]) && (isalnum((unsigned char)p->at[n]) || p->at[n] == '_'))
        return false;
    p->at += n;
    return true;
}

static bool expect(Parser *p, const char *word)
{
    return accept(p, word) || fail(p, word);
}

static int64_t number(Parser *p)
{
    spaces(p);
    char *end;
    int64_t x = *p->at == '-' ? strtoll(p->at, &end, 0) : (int64_t)strtoull(p->at, &end, 0);
    if (end == p->at)
        fail(p, "a number");
    p->at = end;
    return x;
}

/* A number after a prefix such as `a`, `x` or `%`. */
static uint32_t numbered(Parser *p, const char *prefix)
{
    spaces(p);
    size_t n = strlen(prefix);
    if (strncmp(p->at, prefix, n) != 0 || !isdigit((unsigned char)p->at[n])) {
        fail(p, prefix);
        return 0;
    }
    p->at += n;
    return (uint32_t)number(p);
}

static bool at_numbered(Parser *p, const char *prefix)
{
    spaces(p);
    size_t n = strlen(prefix);
    return strncmp(p->at, prefix, n) == 0 && isdigit((unsigned char)p->at[n]);
}

/* A name of letters, digits and _; what it does not fit into is cut, and then matches nothing. */
static void name(Parser *p, char *out, size_t size)
{
    spaces(p);
    size_t n = 0;
    for (; isalnum((unsigned char)*p->at) || *p->at == '_'; p->at++)
        if (n + 1 < size)
            out[n++] = *p->at;
    out[n] = 0;
}

static Dtype dtype(Parser *p)
{
    char word[16];
    name(p, word, sizeof word);
    Dtype t = dtype_parse(word);
    if (t == DT_COUNT)
        fail(p, "a dtype");
    return t == DT_COUNT ? DT_bool_ : t;
}

static Coef coef(Parser *p)
{
    if (accept(p, "zero"))
        return (Coef){ .kind = COEF_ZERO };
    if (accept(p, "unit"))
        return (Coef){ .kind = COEF_UNIT };
    if (accept(p, "same"))
        return (Coef){ .kind = COEF_SAME };
    if (at_numbered(p, "arg"))
        return (Coef){ .kind = COEF_RUN, .arg = (int32_t)numbered(p, "arg") };
    return (Coef){ .kind = COEF_LITERAL, .lit = (int32_t)number(p) };
}

/* What was just made must have the number that the text gives it. */
static void check_id(Parser *p, uint32_t got, uint32_t want)
{
    if (ok(p) && got != want)
        fail(p, "items to be distinct and numbered in order before this");
}

static Size parse_size(Parser *p)
{
    if (at_numbered(p, "arg"))
        return (Size){ 0, (int32_t)numbered(p, "arg") };
    return SIZE(number(p));
}

static void parse_axis(Parser *p)
{
    uint32_t id = numbered(p, "a");
    expect(p, "size=");
    Size size = parse_size(p), block = accept(p, "block=") ? parse_size(p) : SIZE(0);
    int follow = accept(p, "to") ? FOLLOW_TO : accept(p, "rest") ? FOLLOW_REST : FOLLOW_NONE;
    uint32_t leader = follow ? numbered(p, "a") : 0;
    if (follow)
        expect(p, "+");
    int32_t lead = follow ? (int32_t)number(p) : 0;
    check_id(p, kernel_axis(p->arena, p->k, size, block), id);
    if (!ok(p))
        return;
    Axis *x = &p->k->axes.at[p->k->axes.len - 1];
    x->follow = (uint8_t)follow, x->leader = (uint8_t)leader, x->lead = lead;
}

static void parse_array(Parser *p)
{
    Array x = { 0 };
    uint32_t id = numbered(p, "A");
    if (accept(p, "scratch"))
        x.kind = ARRAY_SCRATCH;
    else
        expect(p, "operand");
    x.dtype = (uint8_t)dtype(p);
    x.arg = (int32_t)numbered(p, "arg");
    x.written = accept(p, "written");
    x.swapped = accept(p, "swapped");
    x.ordered = accept(p, "ordered");
    check_id(p, kernel_array(p->arena, p->k, x), id);
}

static void parse_access_term(Parser *p, Access *x)
{
    if (at_numbered(p, "%")) {
        uint32_t v = numbered(p, "%");
        expect(p, ":");
        Coef c = coef(p);
        if (x->nindex < KERNEL_MAX_INDEX) {
            x->index[x->nindex].val = v;
            x->index[x->nindex++].coef = c;
        } else {
            fail(p, "fewer index values");
        }
        return;
    }
    uint32_t i = numbered(p, "a");
    expect(p, ":");
    Coef c = coef(p), outer = { 0 };
    if (accept(p, "/"))
        outer = coef(p);
    if (i < KERNEL_MAX_AXES) {
        x->coef[i] = c;
        x->outer[i] = outer;
    } else {
        fail(p, "an axis");
    }
}

static void parse_access(Parser *p)
{
    Access x = { .off_arg = -1 };
    uint32_t id = numbered(p, "x");
    expect(p, "=");
    x.array = (uint16_t)numbered(p, "A");
    expect(p, "[");
    while (ok(p) && !accept(p, "]"))
        parse_access_term(p, &x);
    if (at_numbered(p, "+arg"))
        x.off_arg = (int32_t)numbered(p, "+arg");
    spaces(p);
    if (*p->at == '+' || *p->at == '-') {
        p->at += *p->at == '+';
        x.off_lit = number(p);
    }
    x.streams = accept(p, "streams");
    if (x.streams && accept(p, "/"))
        x.streams = (uint8_t)number(p);
    x.apart = accept(p, "apart");
    check_id(p, kernel_access(p->arena, p->k, &x), id);
}

static void parse_state(Parser *p)
{
    char word[16];
    uint32_t id = numbered(p, "s");
    name(p, word, sizeof word);
    for (int m = 0; m < MONOID_COUNT; m++)
        if (strcmp(monoid_info[m].name, word) == 0) {
            check_id(p, kernel_state(p->arena, p->k, (Monoid)m, dtype(p)), id);
            return;
        }
    fail(p, "a monoid");
}

static int64_t parse_const(Parser *p, Dtype t)
{
    spaces(p);
    if (dtype_info[t].kind != DKIND_FLOAT || strncmp(p->at, "0x", 2) == 0)
        return number(p);
    char *end;
    double x = strtod(p->at, &end);
    if (end == p->at)
        fail(p, "a number");
    p->at = end;
    float f = (float)x;
    int64_t bits = 0;
    if (t == DT_float64)
        memcpy(&bits, &x, sizeof x);
    else
        memcpy(&bits, &f, sizeof f);
    return bits;
}

static Val parse_op(Parser *p, const char *word)
{
    Val v = { .kind = VAL_OP };
    Op op = op_parse(word);
    if (op == OP_none || op_info[op].kind != KIND_ELEMENTWISE) {
        fail(p, "an elementwise op before this");
        return v;
    }
    v.op = (uint16_t)op;
    if (accept(p, "+fma"))
        v.mode |= MODE_FMA;
    if (accept(p, "+fast"))
        v.mode |= MODE_FAST;
    v.dtype = (uint8_t)dtype(p);
    uint32_t *in[] = { &v.a, &v.b, &v.c };
    for (int i = 0; i < op_info[op].nin; i++)
        *in[i] = numbered(p, "%");
    return v;
}

static void parse_val(Parser *p)
{
    char word[32];
    uint32_t id = numbered(p, "%");
    Val v = { 0 };
    expect(p, "=");
    name(p, word, sizeof word);
    if (strcmp(word, "const") == 0) {
        v = (Val){ .kind = VAL_CONST, .dtype = (uint8_t)dtype(p) };
        uint64_t bits = (uint64_t)parse_const(p, v.dtype);
        v.a = (uint32_t)bits;
        v.b = (uint32_t)(bits >> 32);
    } else if (strcmp(word, "load") == 0) {
        v = (Val){ .kind = VAL_LOAD, .dtype = (uint8_t)dtype(p) };
        v.a = numbered(p, "x");
        if (accept(p, "if")) v.b = numbered(p, "%");
    } else if (strcmp(word, "word") == 0) {
        v = (Val){ .kind = VAL_WORD, .dtype = (uint8_t)dtype(p) };
        v.a = numbered(p, "arg");
    } else if (strcmp(word, "axis") == 0) {
        v = (Val){ .kind = VAL_AXIS, .dtype = (uint8_t)dtype(p) };
        v.a = numbered(p, "a");
    } else if (strcmp(word, "state") == 0) {
        v = (Val){ .kind = VAL_STATE, .dtype = (uint8_t)dtype(p) };
        v.a = numbered(p, "s");
        v.b = numbered(p, ".");
    } else {
        v = parse_op(p, word);
    }
    if (ok(p))
        check_id(p, kernel_val(p->arena, p->k, v), id);
}

static void parse_for(Parser *p)
{
    Stmt s = { .kind = STMT_FOR, .axis = (uint16_t)numbered(p, "a") };
    if (accept(p, "blocks"))
        s.part = PART_BLOCKS;
    else if (accept(p, "within"))
        s.part = PART_WITHIN;
    else if (accept(p, "full"))
        s.part = PART_FULL;
    else if (accept(p, "rest"))
        s.part = PART_REST;
    else
        expect(p, "whole");
    if (accept(p, "lanes="))
        s.lanes = (uint16_t)number(p);
    if (accept(p, "lines="))
        s.a = numbered(p, "x") + 1;
    s.grid = accept(p, "grid");
    expect(p, "{");
    uint32_t *open = vec_push(p->arena, &p->open);
    if (open)
        *open = p->k->stmts.len;
    kernel_stmt(p->arena, p->k, s);
}

static void parse_close(Parser *p)
{
    if (p->open.len == 0)
        fail(p, "a for to close");
    else
        kernel_close(p->k, p->open.at[--p->open.len]);
}

static bool parse_simple(Parser *p)
{
    Stmt s = { 0 };
    if (accept(p, "init")) {
        s = (Stmt){ .kind = STMT_INIT, .a = numbered(p, "s") };
    } else if (accept(p, "reduce")) {
        s = (Stmt){ .kind = STMT_REDUCE, .a = numbered(p, "s") };
        s.b = numbered(p, "%");
        s.c = at_numbered(p, "%") ? numbered(p, "%") : 0;
        s.d = at_numbered(p, "%") ? numbered(p, "%") : 0;
    } else if (accept(p, "store")) {
        s = (Stmt){ .kind = STMT_STORE, .a = numbered(p, "x") };
        s.b = numbered(p, "%");
    } else if (accept(p, "dot")) {
        s = (Stmt){ .kind = STMT_DOT, .a = numbered(p, "x") };
        s.add = accept(p, "+=") || (expect(p, "="), false);
        s.b = numbered(p, "x");
        s.c = numbered(p, "x");
        expect(p, "over");
        s.axis = (uint16_t)numbered(p, "a");
        s.axis_n = (uint16_t)numbered(p, "a");
        s.axis_k = (uint16_t)numbered(p, "a");
        if (accept(p, "by"))
            s.d = (expect(p, "rows"), DOT_ROWS_FIRST);
        if (accept(p, "unsigned"))
            s.d |= (expect(p, "signed"), DOT_UNSIGNED_SIGNED);
        else if (accept(p, "signed"))
            s.d |= (expect(p, "unsigned"), DOT_SIGNED_UNSIGNED);
        if (accept(p, "far"))
            s.d |= DOT_FAR;
        if (accept(p, "thin"))
            s.d |= DOT_THIN;
        if (accept(p, "tile"))
            s.part = (uint8_t)number(p);
        if (accept(p, "panels")) {
            int vectors = (int)number(p) & 15;
            s.d |= dot_panels(vectors, (int)number(p) & 15);
        }
        while (accept(p, "sum"))
            s.sums |= (uint16_t)(1u << (numbered(p, "a") & 15));
    } else if (accept(p, "transpose")) {
        s = (Stmt){ .kind = STMT_TRANSPOSE, .a = numbered(p, "x") };
        expect(p, "=");
        s.b = numbered(p, "x");
        expect(p, "over");
        s.axis = (uint16_t)numbered(p, "a");
        s.axis_n = (uint16_t)numbered(p, "a");
        expect(p, "lanes=");
        s.lanes = (uint16_t)number(p);
    } else if (accept(p, "check")) {
        s = (Stmt){ .kind = STMT_CHECK, .a = numbered(p, "%") };
        expect(p, "else");
        s.b = (uint32_t)number(p);
        expect(p, "at");
        s.c = numbered(p, "arg");
    } else {
        return fail(p, "a statement");
    }
    return kernel_stmt(p->arena, p->k, s) != NULL;
}

static void parse_line(Parser *p)
{
    if (accept(p, "axis"))
        parse_axis(p);
    else if (accept(p, "array"))
        parse_array(p);
    else if (accept(p, "access"))
        parse_access(p);
    else if (accept(p, "state"))
        parse_state(p);
    else if (*p->at == '%')
        parse_val(p);
    else if (accept(p, "for"))
        parse_for(p);
    else if (accept(p, "}"))
        parse_close(p);
    else
        parse_simple(p);
}

Kernel *kernel_parse(Arena *arena, const char *text)
{
    Parser p = { .arena = arena, .k = kernel_new(arena), .at = text, .line = 1 };
    if (!p.k)
        return NULL;
    expect(&p, "kernel");
    expect(&p, "args=");
    p.k->nargs = (uint32_t)number(&p);
    expect(&p, "grid=");
    p.k->ngrid = (uint16_t)number(&p);
    p.k->checked = accept(&p, "checked");
    for (spaces(&p); ok(&p) && *p.at; spaces(&p))
        parse_line(&p);
    if (ok(&p) && p.open.len)
        fail(&p, "}");
    return ok(&p) ? p.k : NULL;
}

/* Reads the text form that print.c writes. Nodes are made by graph_add(), so text may also name COMPOSITE ops and nodes that fold:
 * the ids of a text are its own names. Text that was printed gives the same graph, ids included. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ir/ir.h"

enum { MAX_NAME = 1 << 24, MAX_DEPTH = 16 };

typedef struct {
    Graph *g;
    const char *p;
    int line, depth;
    VEC(Id) names;                         /* id in the text -> id in the graph */
} Parse;

typedef struct {
    Op op;
    VEC(Id) in;
    VEC(int64_t) attr;
    const char *value;                     /* of a const: its text */
    Type type;
    int flags, mode;
    bool bounded;
    Dim lo, hi;
} Line;

/* ---- tokens ---- */

static bool wrong(Parse *s, const char *what)
{
    return err_set(s->g->err, ERR_VALUE, "line %d of a graph's text: %s at `%.20s`", s->line, what, s->p);
}

static void blank(Parse *s)
{
    while (*s->p == ' ' || *s->p == '\t')
        s->p++;
}

static void blank_lines(Parse *s)
{
    for (; isspace((unsigned char)*s->p); s->p++)
        s->line += *s->p == '\n';
}

static bool at_char(Parse *s, char c)
{
    blank(s);
    if (*s->p != c)
        return false;
    s->p++;
    return true;
}

static bool expect(Parse *s, const char *token)
{
    blank(s);
    size_t n = strlen(token);
    if (strncmp(s->p, token, n))
        return wrong(s, token);
    s->p += n;
    return true;
}

static bool at_word(Parse *s, const char *word)
{
    blank(s);
    size_t n = strlen(word);
    if (strncmp(s->p, word, n) || isalnum((unsigned char)s->p[n]) || s->p[n] == '_')
        return false;
    s->p += n;
    return true;
}

static bool word(Parse *s, char *out, size_t room)
{
    size_t n = 0;
    blank(s);
    for (; (isalnum((unsigned char)*s->p) || *s->p == '_') && n + 1 < room; s->p++)
        out[n++] = *s->p;
    out[n] = 0;
    return n || wrong(s, "a word is missing");
}

static bool integer(Parse *s, int64_t *out)
{
    char *end;
    errno = 0;
    blank(s);
    *out = strtoll(s->p, &end, 10);
    if (end == s->p || errno)
        return wrong(s, "a number is missing");
    s->p = end;
    return true;
}

/* %name; its id in the graph */
static bool reference(Parse *s, Id *id)
{
    int64_t name;
    if (!expect(s, "%") || !integer(s, &name))
        return false;
    if (name < 1 || name >= s->names.len || !s->names.at[name])
        return wrong(s, "a value that is not there yet");
    *id = s->names.at[name];
    return true;
}

/* ---- extents and types ---- */

/* A term of an extent: 7, -7, %3, 2*%3. */
static bool term(Parse *s, Dim *sum)
{
    int64_t n = 1;
    Id id;
    Graph *g = s->g;
    bool minus = !at_char(s, '+') && at_char(s, '-'), number = *s->p != '%';
    if (number && !integer(s, &n))
        return false;
    n = minus ? -n : n;
    if (!number || at_char(s, '*')) {
        if (!reference(s, &id))
            return false;
        *sum = dim_add(g, *sum, dim_affine(g, 0, &id, &n, 1));
    } else {
        *sum = n < 0 ? dim_sub(g, *sum, -n) : dim_add(g, *sum, n);
    }
    return g->err->kind == ERR_NONE;
}

static bool extent(Parse *s, Dim *out)
{
    *out = 0;
    do
        if (!term(s, out))
            return false;
    while (*s->p == '+' || *s->p == '-');
    return true;
}

static bool type(Parse *s, Type *t)
{
    char name[16];
    if (!expect(s, ":") || !word(s, name, sizeof name))
        return false;
    t->dtype = dtype_parse(name);
    if (t->dtype == DT_COUNT)
        return wrong(s, "no such dtype");
    t->rank = 0;
    if (!expect(s, "["))
        return false;
    while (!at_char(s, ']')) {
        if (t->rank == MAX_RANK)
            return wrong(s, "too many axes");
        if ((t->rank && !expect(s, ",")) || !extent(s, &t->shape[t->rank++]))
            return false;
    }
    return true;
}

/* ---- attributes ---- */

static bool attr(Parse *s, Line *l, int64_t v)
{
    int64_t *at = vec_push(s->g->arena, &l->attr);
    if (at)
        *at = v;
    return at;
}

static bool list(Parse *s, Line *l)
{
    int64_t v;
    if (!at_char(s, '{'))
        return true;
    while (!at_char(s, '}'))
        if ((l->attr.len && !expect(s, ",")) || !integer(s, &v) || !attr(s, l, v))
            return false;
    return true;
}

static bool reduce_attrs(Parse *s, Line *l)
{
    int64_t mask = 0, bits;
    if (!list(s, l))
        return false;
    for (uint32_t i = 0; i < l->attr.len; i++) {
        if (l->attr.at[i] < 0 || l->attr.at[i] >= MAX_RANK)
            return wrong(s, "no such axis");
        mask |= (int64_t)1 << l->attr.at[i];
    }
    l->attr.len = 0;
    if (!attr(s, l, mask))
        return false;
    if (l->op != OP_reduce_var)
        return true;
    if (!expect(s, "ddof"))
        return false;
    char *end;
    blank(s);
    double ddof = text_double(s->p, &end);
    s->p = end;
    memcpy(&bits, &ddof, sizeof bits);
    return attr(s, l, bits);
}

static bool attributes(Parse *s, Line *l)
{
    int64_t k;
    if (l->op == OP_input)
        return integer(s, &k) && attr(s, l, k);
    if (op_info[l->op].kind == KIND_REDUCE)
        return reduce_attrs(s, l);
    if (l->op != OP_const)
        return list(s, l);
    l->value = s->p;
    s->p += strcspn(s->p, ":\n");
    return true;
}

/* The value of a const, once its dtype is known. 0x...: its bits. */
static bool const_value(Parse *s, Line *l)
{
    Dtype d = l->type.dtype;
    const char *p = l->value + strspn(l->value, " ");
    char *end = (char *)p;
    int64_t bits = 0;
    if (!strncmp(p, "0x", 2)) {
        int words = 1 + (d == DT_complex128);
        for (int i = 0; i < words; i++) {
            if (!attr(s, l, (int64_t)strtoull(p, &end, 16)))
                return false;
            p = end;
        }
        return true;
    }
    if (d == DT_bool_) {
        bits = !strncmp(p, "true", 4);
        end += bits ? 4 : strncmp(p, "false", 5) ? 0 : 5;
    } else if (dtype_info[d].kind == DKIND_FLOAT && dtype_info[d].bytes >= 4) {
        double x = text_double(p, &end);
        float narrow = (float)x;
        memcpy(&bits, d == DT_float32 ? (void *)&narrow : (void *)&x, dtype_info[d].bytes);
    } else if (dtype_info[d].kind == DKIND_INT) {
        bits = strtoll(p, &end, 10);
    } else if (dtype_info[d].kind == DKIND_UINT) {
        bits = (int64_t)strtoull(p, &end, 10);
    }
    return end == p ? wrong(s, "a const without a value") : attr(s, l, bits);
}

/* broadcast, reshape and slice have the shape among their attributes. */
static bool shape_attrs(Parse *s, Line *l)
{
    if (l->op != OP_broadcast && l->op != OP_reshape && l->op != OP_slice)
        return true;
    for (int i = 0; i < l->type.rank; i++)
        if (!attr(s, l, l->type.shape[i]))
            return false;
    return true;
}

/* ---- lines ---- */

static bool suffixes(Parse *s, Line *l)
{
    for (;;) {
        if (at_word(s, "weak"))
            l->flags |= NODE_WEAK;
        else if (at_word(s, "fma"))
            l->mode |= MODE_FMA;
        else if (at_word(s, "fast"))
            l->mode |= MODE_FAST;
        else if (at_word(s, "in"))
            return (l->bounded = extent(s, &l->lo) && expect(s, "..") && extent(s, &l->hi));
        else
            return true;
    }
}

static Id make(Parse *s, const Line *l)
{
    Graph *g = s->g;
    const Type *t = &l->type;
    if (l->op == OP_input && l->attr.at[0] == g->inputs.len)
        return graph_input(g, t->dtype, t->shape, t->rank, l->flags);
    g->mode = (uint8_t)l->mode;
    Id id = graph_add(g, l->op, l->in.at, (int)l->in.len, l->attr.at, (int)l->attr.len, t->dtype, t->shape, t->rank);
    g->mode = 0;
    return id;
}

static bool name_is(Parse *s, int64_t name, Id id)
{
    if (name < 1 || name > MAX_NAME)
        return wrong(s, "a name out of range");
    while (s->names.len <= name)
        if (!vec_push(s->g->arena, &s->names))
            return false;
    s->names.at[name] = id;
    return true;
}

static bool operands(Parse *s, Line *l)
{
    Id id;
    for (blank(s); *s->p == '%'; blank(s)) {
        Id *at = reference(s, &id) ? vec_push(s->g->arena, &l->in) : NULL;
        if (!at)
            return false;
        *at = id;
    }
    return true;
}

/* %name = op operands attributes : type suffixes */
static bool node_line(Parse *s)
{
    char name[32];
    int64_t as;
    Line l = { 0 };
    if (!expect(s, "%") || !integer(s, &as) || !expect(s, "=") || !word(s, name, sizeof name))
        return false;
    if (!(l.op = op_parse(name)))
        return wrong(s, "no such op");
    if (!operands(s, &l) || !attributes(s, &l) || !type(s, &l.type) || !suffixes(s, &l))
        return false;
    if ((l.value && !const_value(s, &l)) || !shape_attrs(s, &l))
        return false;
    Id id = make(s, &l);
    if (!id)
        return false;
    const Node *n = node_at(s->g, id);
    if (n->dtype != l.type.dtype || !shape_eq(s->g, node_shape(s->g, id), n->rank, l.type.shape, l.type.rank))
        return wrong(s, "the node has another type than the text says");
    if (l.bounded)
        dim_bound(s->g, id, l.lo, l.hi);
    return name_is(s, as, id);
}

static bool return_line(Parse *s)
{
    Id id;
    for (blank(s); *s->p == '%';) {
        if (!reference(s, &id))
            return false;
        graph_output(s->g, id);
        if (!at_char(s, ','))
            break;
        blank(s);
    }
    return s->g->err->kind == ERR_NONE;
}

static bool graph_text(Parse *s);

/* graph k { ... } */
static bool child(Parse *s)
{
    int64_t k;
    if (!integer(s, &k) || !expect(s, "{"))
        return false;
    if (k != s->g->children.len || s->depth == MAX_DEPTH)
        return wrong(s, "child graphs are not numbered in order, or nested too deep");
    Parse inner = { .p = s->p, .line = s->line, .depth = s->depth + 1, .g = graph_new(s->g->arena) };
    if (!inner.g || !graph_text(&inner))
        return false;
    s->p = inner.p;
    s->line = inner.line;
    blank_lines(s);
    return expect(s, "}") && graph_child(s->g, inner.g) == k;
}

static bool graph_text(Parse *s)
{
    for (;;) {
        blank_lines(s);
        if (at_word(s, "return"))
            return return_line(s);
        if (at_word(s, "graph") ? !child(s) : !node_line(s))
            return s->g->err->kind == ERR_NONE ? wrong(s, "broken text") : false;
        blank(s);
        if (*s->p && *s->p != '\n' && *s->p != '}')
            return wrong(s, "a line does not end here");
    }
}

Graph *graph_parse(Arena *arena, const char *text)
{
    Parse s = { .g = graph_new(arena), .p = text, .line = 1 };
    if (!s.g || !graph_text(&s))
        return NULL;
    blank_lines(&s);
    if (*s.p) {
        wrong(&s, "text after the return");
        return NULL;
    }
    return s.g;
}

/* Kernels: building, identity, text, the verifier, and the interpreter against plain loops. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "opt/kernel.h"

static int failures;

#define CHECK(cond)                                                                  \
    do {                                                                             \
        if (!(cond)) {                                                               \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);               \
            failures++;                                                              \
        }                                                                            \
    } while (0)

#define WORD(p) ((int64_t)(intptr_t)(p))

static Kernel *parsed(Arena *a, const char *text)
{
    Kernel *k = kernel_parse(a, text);
    if (!k) {
        fprintf(stderr, "%s\n%s\n", arena_err(a)->msg, text);
        exit(1);
    }
    return k;
}

static Kernel *legal(Arena *a, const char *text)
{
    Kernel *k = parsed(a, text);
    if (!kernel_verify(k, arena_err(a))) {
        fprintf(stderr, "%s\n%s\n", arena_err(a)->msg, text);
        exit(1);
    }
    return k;
}

/* ---- building and identity ---- */

/* out[i] = n times (x + 0.5) - x ..., a chain of `n` values */
static Kernel *chain(Arena *a, int n)
{
    Kernel *k = kernel_new(a);
    Size size = { 0, (int32_t)kernel_arg(k) };
    uint32_t axis = kernel_axis(a, k, size, SIZE(0));
    uint32_t in = kernel_array(a, k, (Array){ ARRAY_OPERAND, DT_float32, 0, (int32_t)kernel_arg(k) });
    uint32_t out = kernel_array(a, k, (Array){ ARRAY_OPERAND, DT_float32, 1, (int32_t)kernel_arg(k) });
    Access x = { .array = (uint16_t)in, .off_arg = -1 };
    x.coef[axis].kind = COEF_UNIT;
    uint32_t v = kernel_val(a, k, (Val){ .kind = VAL_LOAD, .dtype = DT_float32, .a = kernel_access(a, k, &x) });
    for (int i = 0; i < n; i++) {
        float f = (float)i;
        int64_t bits = 0;
        memcpy(&bits, &f, sizeof f);
        v = kernel_val(a, k, (Val){ .kind = VAL_OP, .dtype = DT_float32, .op = OP_add, .a = v, .b = kernel_const(a, k, DT_float32, bits) });
    }
    x.array = (uint16_t)out;
    uint32_t loop = kernel_open(a, k, axis, PART_WHOLE, 16, false);
    kernel_stmt(a, k, (Stmt){ .kind = STMT_STORE, .a = kernel_access(a, k, &x), .b = v });
    kernel_close(k, loop);
    return k;
}

static void test_interning(Arena *a)
{
    Kernel *k = chain(a, 3000);
    CHECK(k->vals.len == 1 + 1 + 2 * 3000 && k->accesses.len == 2);
    for (uint32_t i = 1; i < k->vals.len; i++)
        CHECK(kernel_val(a, k, k->vals.at[i]) == i);
    Access x = k->accesses.at[1];
    x.coef[3] = (Coef){ COEF_ZERO, 77, 78 };                /* fields that mean nothing */
    x.index[2].val = 5;
    CHECK(kernel_access(a, k, &x) == 1);
    x.off_lit = 4;
    CHECK(kernel_access(a, k, &x) == 2);
    CHECK(kernel_const(a, k, DT_int8, 0xff) == kernel_const(a, k, DT_int8, -1));
    CHECK(kernel_const(a, k, DT_uint8, 0xff) != kernel_const(a, k, DT_int8, -1));
    CHECK(kernel_verify(k, arena_err(a)));
}

/* Of all rows of the op table, values are made of the elementwise ones alone: what the generator has code for. */
static void test_ops_of_kernels(void)
{
    for (int op = 0; op <= OP_COUNT; op++) {
        Err err = { 0 };
        Arena *a = arena_new(&err);
        Kernel *k = kernel_new(a);
        uint32_t x = kernel_const(a, k, DT_float32, 0), made = kernel_val(a, k, (Val){ .kind = VAL_OP, .dtype = DT_float32, .op = (uint16_t)op, .a = x, .b = x, .c = x });
        bool elementwise = op < OP_COUNT && op_info[op].kind == KIND_ELEMENTWISE && op != OP_none;
        CHECK((made != 0) == elementwise && (err.kind == ERR_NONE) == elementwise);
        arena_free(a);
    }
}

static void check_same(Arena *a, const Kernel *k, const Kernel *other)
{
    size_t n, m;
    void *p = kernel_bytes(a, k, &n), *q = kernel_bytes(a, other, &m);
    CHECK(n == m && memcmp(p, q, n) == 0 && kernel_hash(k) == kernel_hash(other));
}

static void test_identity(Arena *a)
{
    Kernel *k = chain(a, 5), *same = chain(a, 5), *longer = chain(a, 6);
    size_t n;
    void *p = kernel_bytes(a, k, &n);
    check_same(a, k, same);
    CHECK(kernel_hash(k) != kernel_hash(longer));
    char *moved = malloc(n + 1);                            /* not aligned */
    memcpy(moved + 1, p, n);
    Kernel *read = kernel_from_bytes(a, moved + 1, n);
    check_same(a, k, read);
    CHECK(kernel_val(a, read, k->vals.at[3]) == 3 && kernel_access(a, read, &k->accesses.at[1]) == 1);
    for (size_t cut = 0; cut < n; cut++) {
        Err err = { 0 };
        Arena *b = arena_new(&err);
        CHECK(!kernel_from_bytes(b, p, cut) && err.kind == ERR_INTERNAL);
        arena_free(b);
    }
    for (size_t i = 0; i < n; i++) {                        /* broken bytes are refused or make another kernel, never a crash */
        Err err = { 0 };
        Arena *b = arena_new(&err);
        memcpy(moved, p, n);
        moved[i] ^= 0x55;
        Kernel *bad = kernel_from_bytes(b, moved, n);
        CHECK(!bad || kernel_hash(bad) != kernel_hash(k));
        if (bad)
            kernel_verify(bad, &err);
        arena_free(b);
    }
    free(moved);
}

/* ---- text ---- */

static const char everything[] =
    "kernel args=12 grid=1 checked\n"
    "axis a0 size=arg3 block=4096\n"
    "axis a1 size=64\n"
    "axis a2 size=32\n"
    "axis a3 size=16\n"
    "array A0 operand f32 arg0\n"
    "array A1 operand f32 arg4 written\n"
    "array A2 scratch f32 arg7\n"
    "array A3 operand i64 arg8\n"
    "access x0 = A0[a0:unit/same] +arg11 -8\n"
    "access x1 = A1[a0:4/arg10]\n"
    "access x2 = A2[a1:unit]\n"
    "access x3 = A0[%4:unit] +12\n"
    "access x4 = A2[a1:unit a2:256]\n"
    "access x5 = A0[a1:unit a3:arg11]\n"
    "access x6 = A0[a3:unit a2:zero]\n"
    "access x7 = A3[]\n"
    "state s0 sum f32\n"
    "state s1 argmax f32\n"
    "%1 = load f32 x0\n"
    "%2 = const f32 0.5\n"
    "%3 = multiply+fma+fast f32 %1 %2\n"
    "%4 = load i64 x7\n"
    "%5 = load f32 x3\n"
    "%6 = const f32 0x7fc00000\n"
    "%7 = const f64 0.10000000000000001\n"
    "%8 = const i8 -3\n"
    "%9 = const u64 18446744073709551615\n"
    "%10 = const b1 1\n"
    "%11 = const f32 -inf\n"
    "%12 = axis i64 a0\n"
    "%13 = state f32 s0.0\n"
    "%14 = where f32 %10 %13 %5\n"
    "%15 = add f32 %14 %3\n"
    "for a0 blocks grid {\n"
    "  init s0\n"
    "  init s1\n"
    "  for a0 within lanes=16 {\n"
    "    reduce s0 %3\n"
    "    reduce s1 %3 %12\n"
    "  }\n"
    "  dot x4 += x5 x6 over a1 a2 a3\n"
    "  check %10 else 3 at arg11\n"
    "  for a0 within {\n"
    "    store x1 %15\n"
    "  }\n"
    "}\n";

static void test_text(Arena *a)
{
    char text[sizeof everything];
    strcpy(text, everything);
    memcpy(strstr(text, "a3:unit a2:zero"), "a3:unit        ", 15);   /* zero terms are not printed */
    Kernel *k = legal(a, text);
    Text t = { 0 };
    kernel_print(&t, k);
    char *gap = strstr(text, "a3:unit        ]");
    memmove(gap + 7, gap + 15, strlen(gap + 15) + 1);
    CHECK(t.at && strcmp(t.at, text) == 0);
    if (t.at && strcmp(t.at, text) != 0)
        fprintf(stderr, "%s\n", t.at);
    check_same(a, k, parsed(a, t.at));
    size_t n;
    void *p = kernel_bytes(a, k, &n);
    check_same(a, k, kernel_from_bytes(a, p, n));
    text_free(&t);
}

/* Every prefix and every broken byte of a text is parsed or refused, and what is parsed is verified or refused. */
static void test_broken_text(void)
{
    char text[sizeof everything];
    for (size_t i = 0; i + 1 < sizeof everything; i++)
        for (int how = 0; how < 2; how++) {
            Err err = { 0 };
            Arena *a = arena_new(&err);
            strcpy(text, everything);
            text[i] = how ? 0 : (char)(text[i] == '9' ? '1' : '9');
            Kernel *k = kernel_parse(a, text);
            CHECK(!k == (err.kind != ERR_NONE));
            if (k)
                CHECK(kernel_verify(k, &err) == (err.kind == ERR_NONE));
            arena_free(a);
        }
}

/* ---- the verifier: one broken rule each ---- */

#define HEAD                                                     \
    "kernel args=5 grid=0\n"                                     \
    "axis a0 size=arg2 block=8\naxis a1 size=arg2\n"             \
    "array A0 operand f32 arg0\narray A1 operand f32 arg1 written\narray A2 scratch f32 arg3\n" \
    "access x0 = A0[a1:unit]\naccess x1 = A1[a1:unit]\naccess x2 = A2[a1:unit]\naccess x3 = A1[a1:8]\naccess x4 = A1[]\n" \
    "state s0 sum f32\n"                                         \
    "%1 = load f32 x0\n%2 = state f32 s0.0\n%3 = load f32 x1\n%4 = load f32 x2\n%5 = const f64 1\n%6 = const b1 1\n%7 = add f32 %1 %2\n"

static const struct { const char *text, *why; } illegal[] = {
    { HEAD "for a0 whole {\n}\n", "a0 is blocked" },
    { HEAD "for a1 blocks {\n}\n", "a1 is not blocked" },
    { HEAD "for a0 within {\n}\n", "outside its blocks" },
    { HEAD "for a0 rest {\n}\n", "outside its blocks" },
    { HEAD "for a0 blocks {\nfor a0 within {\nfor a0 full {\n}\n}\n}\n", "or in itself" },
    { HEAD "for a0 blocks {\nfor a0 full lanes=4 {\n}\n}\n", "runs once" },
    { HEAD "for a1 whole {\nfor a1 whole {\n}\n}\n", "runs already" },
    { HEAD "for a1 whole lanes=3 {\n}\n", "3 lanes" },
    { HEAD "for a1 whole lanes=4 {\nfor a0 blocks lanes=4 {\n}\n}\n", "vector FOR in a vector FOR" },
    { HEAD "for a1 whole grid {\n}\n", "grid FORs" },
    { "kernel args=1 grid=1\naxis a0 size=3\nfor a0 whole grid {\n}\nfor a0 whole {\n}\n", "does not span" },
    { HEAD "store x1 %1\n", "does not run here" },
    { HEAD "for a1 whole {\nstore x1 %5\n}\n", "not float32" },
    { HEAD "for a1 whole {\nstore x0 %1\n}\n", "not marked as written" },
    { HEAD "for a1 whole {\nstore x3 %3\n}\n", "not through x1" },
    { HEAD "for a1 whole {\nstore x1 %1\nstore x1 %3\n}\n", "after it was stored" },
    { HEAD "for a1 whole {\nstore x1 %3\nstore x1 %4\n}\n", "before it is written" },
    { HEAD "for a1 whole {\nstore x1 %3\nstore x2 %3\nstore x1 %4\n}\n", "in the body that writes it" },
    { HEAD "for a1 whole {\nstore x1 %2\nstore x1 %3\n}\n", "no INIT in scope" },
    { HEAD "for a1 whole {\ninit s0\n}\nfor a1 whole {\nstore x1 %2\nstore x1 %3\n}\n", "no INIT in scope" },
    { HEAD "for a1 whole {\nreduce s0 %1\nstore x1 %3\n}\n", "without an INIT" },
    { HEAD "init s0\nfor a1 whole lanes=4 {\nstore x1 %2\nreduce s0 %1\n}\nfor a1 whole {\nstore x1 %3\n}\n", "inside the vector FOR" },
    { HEAD "init s0\nstore x4 %2\nfor a1 whole {\nreduce s0 %1\n}\nstore x4 %2\nfor a1 whole {\nstore x1 %3\n}\n", "before s0 changed" },
    { HEAD "init s0\nfor a1 whole {\nstore x1 %7\nreduce s0 %1\nreduce s0 %7\n}\n", "before s0 changed" },
    { HEAD "init s0\nfor a1 whole {\nreduce s0 %1 %1\nstore x1 %3\n}\n", "2 values" },
    { HEAD "for a1 whole {\ncheck %1 else 1 at arg4\nstore x1 %3\n}\n", "not bool" },
    { HEAD "for a1 whole {\ncheck %6 else 0 at arg4\nstore x1 %3\n}\n", "without a code" },
    { HEAD "%8 = add f32 %1 %5\nfor a1 whole {\nstore x1 %3\n}\n", "add of" },
    { HEAD "%8 = add f64 %1 %1\nfor a1 whole {\nstore x1 %3\n}\n", "gives float64" },
    { HEAD "%8 = bitwise_and f32 %1 %1\nfor a1 whole {\nstore x1 %3\n}\n", "bitwise_and of" },
    { HEAD "%8 = load f32 x9\nfor a1 whole {\nstore x1 %3\n}\n", "no access" },
    { HEAD "%8 = add f32 %9 %1\nfor a1 whole {\nstore x1 %3\n}\n", "not before it" },
    { "kernel args=1 grid=0\narray A0 operand f32 arg1\n", "past args" },
    { "kernel args=2 grid=0 checked\narray A0 operand f32 arg0\n", "past args" },
};

static void test_verify(void)
{
    for (size_t i = 0; i < sizeof illegal / sizeof *illegal; i++) {
        Err err = { 0 };
        Arena *a = arena_new(&err);
        Kernel *k = parsed(a, illegal[i].text);
        CHECK(!kernel_verify(k, &err) && err.kind == ERR_INTERNAL);
        if (!strstr(err.msg, illegal[i].why)) {
            fprintf(stderr, "wanted '%s', got '%s' for\n%s\n", illegal[i].why, err.msg, illegal[i].text);
            failures++;
        }
        arena_free(a);
    }
}

/* ---- the interpreter ---- */

static void test_elementwise(Arena *a)
{
    Kernel *k = legal(a, "kernel args=5 grid=2\n"
        "axis a0 size=arg2\naxis a1 size=arg3 block=8\n"
        "array A0 operand f32 arg0\narray A1 operand f32 arg1 written\n"
        "access x0 = A0[a0:arg4 a1:unit/same]\naccess x1 = A1[a0:unit a1:12/same]\n"      /* the transpose, 3 rows */
        "%1 = load f32 x0\n%2 = const f32 2\n%3 = multiply f32 %1 %2\n"
        "for a0 whole grid {\n for a1 blocks grid {\n  for a1 within lanes=4 {\n   store x1 %3\n  }\n }\n}\n");
    float in[3][21], out[21][3] = { { 0 } };
    for (int i = 0; i < 63; i++)
        in[i / 21][i % 21] = (float)i;
    int64_t args[] = { WORD(in), WORD(out), 3, 21, sizeof in[0] };
    CHECK(kernel_grid(k, args) == 9);
    for (int64_t p = 0; p < 9; p += 2)
        CHECK(interp_kernel(k, args, p, p + 2 < 9 ? p + 2 : 9, NULL));
    for (int i = 0; i < 63; i++)
        CHECK(out[i % 21][i / 21] == 2.0f * (float)i);
    args[2] = 0;
    CHECK(kernel_grid(k, args) == 0 && interp_kernel(k, args, 0, 1, NULL));
}

/* softmax of rows: three loops over a tile, states per row */
static void test_softmax(Arena *a)
{
    Kernel *k = legal(a, "kernel args=5 grid=1\n"
        "axis a0 size=arg2\naxis a1 size=arg3\n"
        "array A0 operand f64 arg0\narray A1 operand f64 arg1 written\narray A2 scratch f64 arg4\n"
        "access x0 = A0[a0:160 a1:unit]\naccess x1 = A1[a0:160 a1:unit]\naccess x2 = A2[a1:unit]\n"
        "state s0 max f64\nstate s1 sum f64\n"
        "%1 = load f64 x0\n%2 = state f64 s0.0\n%3 = subtract f64 %1 %2\n%4 = exp f64 %3\n"
        "%5 = load f64 x2\n%6 = state f64 s1.0\n%7 = divide f64 %5 %6\n"
        "for a0 whole grid {\n"
        " init s0\n for a1 whole lanes=8 {\n  reduce s0 %1\n }\n"
        " init s1\n for a1 whole lanes=8 {\n  store x2 %4\n  reduce s1 %4\n }\n"
        " for a1 whole lanes=8 {\n  store x1 %7\n }\n"
        "}\n");
    double in[2][20], out[2][20], scratch[32];
    for (int i = 0; i < 40; i++)
        in[i / 20][i % 20] = sin(i) * 3;
    int64_t args[] = { WORD(in), WORD(out), 2, 20, 16 };
    CHECK(interp_kernel(k, args, 0, 2, (char *)scratch));
    for (int r = 0; r < 2; r++) {
        double sum = 0;
        for (int i = 0; i < 20; i++)
            sum += exp(in[r][i]);
        for (int i = 0; i < 20; i++)
            CHECK(fabs(out[r][i] - exp(in[r][i]) / sum) < 1e-15);
    }
}

/* One state of every monoid over one array; the components are written out one after the other. */
static void reduce_all(Arena *a, const char *monoid, const char *dtype, int components, const char *lanes, const void *in, int n, void *out)
{
    char text[2048];
    int bytes = dtype_info[dtype_parse(dtype)].bytes;
    bool arg = strncmp(monoid, "arg", 3) == 0;
    int len = snprintf(text, sizeof text,
        "kernel args=3 grid=0\naxis a0 size=arg2\n"
        "array A0 operand %s arg0\narray A1 operand %s arg1 written\narray A2 operand i64 arg1 written\n"
        "access x0 = A0[a0:unit]\naccess x1 = A1[]\naccess x2 = A1[] +%d\naccess x3 = A1[] +%d\naccess x4 = A2[] +8\n"
        "state s0 %s %s\n%%1 = load %s x0\n%%2 = axis i64 a0\n%%3 = state %s s0.0\n", dtype, dtype, bytes, 2 * bytes, monoid, dtype, dtype, dtype);
    for (int c = 1; c < components; c++)
        len += snprintf(text + len, sizeof text - (size_t)len, "%%%d = state %s s0.%d\n", 3 + c, arg ? "i64" : dtype, c);
    len += snprintf(text + len, sizeof text - (size_t)len, "init s0\nfor a0 whole %s {\n reduce s0 %%1 %s\n}\nstore x1 %%3\n", lanes, arg ? "%2" : "");
    for (int c = 1; c < components; c++)
        len += snprintf(text + len, sizeof text - (size_t)len, "store x%d %%%d\n", arg ? 4 : 1 + c, 3 + c);
    int64_t args[] = { WORD(in), WORD(out), n };
    CHECK(interp_kernel(legal(a, text), args, 0, 1, NULL));
}

static const char *const lane_forms[] = { "", "lanes=1", "lanes=4", "lanes=64" };

static void test_monoids(Arena *a)
{
    int32_t ints[37];
    double reals[37];
    uint8_t bools[37] = { 0 };
    for (int i = 0; i < 37; i++) {
        ints[i] = (i * 7919) % 101 - 50;
        reals[i] = ints[i] + 1e8;
    }
    for (size_t l = 0; l < 4; l++) {
        const char *lanes = lane_forms[l];
        int32_t out[4], sum = 0, prod = 1, max = INT32_MIN, min = INT32_MAX;
        for (int i = 0; i < 37; i++) {
            sum += ints[i];
            prod = (int32_t)((uint32_t)prod * (uint32_t)(2 * ints[i] + 1));
            max = ints[i] > max ? ints[i] : max;
            min = ints[i] < min ? ints[i] : min;
        }
        reduce_all(a, "sum", "i32", 1, lanes, ints, 37, out);
        CHECK(out[0] == sum);
        reduce_all(a, "max", "i32", 1, lanes, ints, 37, out);
        CHECK(out[0] == max);
        reduce_all(a, "min", "i32", 1, lanes, ints, 37, out);
        CHECK(out[0] == min);
        int32_t odd[37];
        for (int i = 0; i < 37; i++)
            odd[i] = 2 * ints[i] + 1;
        reduce_all(a, "prod", "i32", 1, lanes, odd, 37, out);
        CHECK(out[0] == prod);
        bools[30] = 0;
        uint8_t yes[2];
        reduce_all(a, "any", "b1", 1, lanes, bools, 37, yes);
        CHECK(yes[0] == 0);
        bools[30] = 1;
        reduce_all(a, "any", "b1", 1, lanes, bools, 37, yes);
        CHECK(yes[0] == 1);
        reduce_all(a, "all", "b1", 1, lanes, bools, 37, yes);
        CHECK(yes[0] == 0);
        reduce_all(a, "all", "b1", 1, lanes, bools + 30, 1, yes);
        CHECK(yes[0] == 1);

        double m[3], mean = 0, dev = 0;
        for (int i = 0; i < 37; i++)
            mean += ints[i] / 37.0;
        for (int i = 0; i < 37; i++)
            dev += (ints[i] - mean) * (ints[i] - mean);
        reduce_all(a, "moments", "f64", 3, lanes, reals, 37, m);
        CHECK(m[0] == 37 && fabs(m[1] - 1e8 - mean) < 1e-7 && fabs(m[2] - dev) < 1e-6 * dev);
        reduce_all(a, "max", "f64", 1, lanes, reals, 0, m);
        CHECK(m[0] == -INFINITY);
        reduce_all(a, "max", "i32", 1, lanes, ints, 0, out);
        CHECK(out[0] == INT32_MIN);
    }
}

static void test_arg(Arena *a)
{
    for (size_t l = 0; l < 4; l++) {
        struct { double value; int64_t index; } out;
        double x[20] = { 1, 5, 3, 5, -2, -2 };
        reduce_all(a, "argmax", "f64", 2, lane_forms[l], x, 20, &out);
        CHECK(out.index == 1 && out.value == 5);
        reduce_all(a, "argmin", "f64", 2, lane_forms[l], x, 20, &out);
        CHECK(out.index == 4 && out.value == -2);
        x[7] = x[6] = NAN;
        reduce_all(a, "argmax", "f64", 2, lane_forms[l], x, 20, &out);
        CHECK(out.index == 6);
        reduce_all(a, "argmin", "f64", 2, lane_forms[l], x, 20, &out);
        CHECK(out.index == 6);
        for (int i = 0; i < 20; i++)
            x[i] = -INFINITY;
        reduce_all(a, "argmax", "f64", 2, lane_forms[l], x, 20, &out);
        CHECK(out.index == 0);
        struct { int64_t value, index; } whole;
        int64_t least[3] = { INT64_MIN, INT64_MIN, INT64_MIN };
        reduce_all(a, "argmax", "i64", 2, lane_forms[l], least, 3, &whole);
        CHECK(whole.index == 0 && whole.value == INT64_MIN);
    }
}

static void test_sum2(Arena *a)
{
    for (size_t l = 0; l < 4; l++) {
        double x[64], out[3];
        for (int i = 0; i < 64; i++)
            x[i] = i % 2 ? 1 : i < 32 ? 1e17 : -1e17;
        reduce_all(a, "sum2", "f64", 2, lane_forms[l], x, 64, out);
        CHECK(out[0] + out[1] == 32);
        x[3] = INFINITY;
        reduce_all(a, "sum2", "f64", 2, lane_forms[l], x, 64, out);
        CHECK(out[0] + out[1] == INFINITY);
        for (int i = 0; i < 64; i++)
            x[i] = 1e308;
        reduce_all(a, "sum2", "f64", 2, lane_forms[l], x, 64, out);
        CHECK(out[0] + out[1] == INFINITY);
    }
}

/* A float sum is as accurate as that of any good order: its rounding errors are kept, so it is rounded once. */
static void test_accurate_sums(Arena *a)
{
    float x[37], out;
    double sum = 0;
    for (int i = 0; i < 37; i++)
        sum += x[i] = (float)(1 / (1.0 + i * i * 0.7));
    for (size_t l = 0; l < 4; l++) {
        reduce_all(a, "sum", "f32", 1, lane_forms[l], x, 37, &out);
        CHECK(out == (float)sum);
    }
}

/* A state per lane: column sums, the vector FOR outside. */
static void test_columns(Arena *a)
{
    Kernel *k = legal(a, "kernel args=4 grid=0\n"
        "axis a0 size=arg2\naxis a1 size=arg3\n"
        "array A0 operand i64 arg0\narray A1 operand i64 arg1 written\n"
        "access x0 = A0[a0:40 a1:unit]\naccess x1 = A1[a1:unit]\n"
        "state s0 sum i64\n%1 = load i64 x0\n%2 = state i64 s0.0\n"
        "for a1 whole lanes=4 {\n init s0\n for a0 whole {\n  reduce s0 %1\n }\n store x1 %2\n}\n");
    int64_t in[3][5], out[5];
    for (int i = 0; i < 15; i++)
        in[i / 5][i % 5] = i * i;
    int64_t args[] = { WORD(in), WORD(out), 3, 5 };
    CHECK(interp_kernel(k, args, 0, 1, NULL));
    for (int j = 0; j < 5; j++)
        CHECK(out[j] == in[0][j] + in[1][j] + in[2][j]);
}

/* cumsum reads its state after the REDUCE, the exclusive form before it. */
static void test_scan(Arena *a)
{
    static const char *const body[] = { " reduce s0 %1\n store x1 %2\n", " store x1 %2\n reduce s0 %1\n" };
    float x[50], out[50], sum = 0;
    for (int i = 0; i < 50; i++)
        x[i] = (float)sqrt(i);
    for (int exclusive = 0; exclusive < 2; exclusive++) {
        char text[1024];
        snprintf(text, sizeof text, "kernel args=3 grid=0\naxis a0 size=arg2\n"
            "array A0 operand f32 arg0\narray A1 operand f32 arg1 written\naccess x0 = A0[a0:unit]\naccess x1 = A1[a0:unit]\n"
            "state s0 sum f32\n%%1 = load f32 x0\n%%2 = state f32 s0.0\ninit s0\nfor a0 whole {\n%s}\n", body[exclusive]);
        int64_t args[] = { WORD(x), WORD(out), 50 };
        CHECK(interp_kernel(legal(a, text), args, 0, 1, NULL));
        sum = 0;
        for (int i = 0; i < 50; i++) {
            CHECK(exclusive ? out[i] == sum : out[i] == (sum + x[i]));
            sum += x[i];
        }
    }
}

/* In place: the old value is read once and serves every statement of the body. */
static void test_in_place(Arena *a)
{
    Kernel *k = legal(a, "kernel args=3 grid=0\naxis a0 size=arg2\n"
        "array A0 operand i32 arg0 written\narray A1 operand i32 arg1 written\naccess x0 = A0[a0:unit]\naccess x1 = A1[a0:unit]\n"
        "%1 = load i32 x0\n%2 = add i32 %1 %1\n"
        "for a0 whole lanes=8 {\n store x0 %2\n store x1 %1\n}\n");
    int32_t x[20], old[20];
    for (int i = 0; i < 20; i++)
        x[i] = i;
    int64_t args[] = { WORD(x), WORD(old), 20 };
    CHECK(interp_kernel(k, args, 0, 1, NULL));
    for (int i = 0; i < 20; i++)
        CHECK(x[i] == 2 * i && old[i] == i);
}

static void test_dot(Arena *a)
{
    /* C[m, n] += A[m, k] B[k, n] over blocks of k, one dot per block, C first set by the blocks' first */
    Kernel *k = legal(a, "kernel args=6 grid=1\n"
        "axis a0 size=arg3 block=4\naxis a1 size=arg4\naxis a2 size=arg5 block=3\n"
        "array A0 operand f32 arg0\narray A1 operand f32 arg1\narray A2 operand f32 arg2 written\n"
        "access x0 = A0[a0:28/same a2:unit/same]\naccess x1 = A1[a2:20/same a1:unit]\naccess x2 = A2[a0:20/same a1:unit]\n"
        "%1 = const f32 0\n"
        "for a0 blocks grid {\n"
        " for a0 within {\n  for a1 whole lanes=4 {\n   store x2 %1\n  }\n }\n"
        " for a2 blocks {\n  dot x2 += x0 x1 over a0 a1 a2\n }\n"
        "}\n");
    /* and the same with k whole */
    Kernel *whole = legal(a, "kernel args=6 grid=0\n"
        "axis a0 size=arg3\naxis a1 size=arg4\naxis a2 size=arg5 block=3\n"
        "array A0 operand f32 arg0\narray A1 operand f32 arg1\narray A2 operand f32 arg2 written\n"
        "access x0 = A0[a0:28 a2:unit/same]\naccess x1 = A1[a2:20/same a1:unit]\naccess x2 = A2[a0:20 a1:unit]\n"
        "dot x2 = x0 x1 over a0 a1 a2\n");
    float x[9][7], y[7][5], z[9][5];
    for (int i = 0; i < 63; i++)
        x[i / 7][i % 7] = (float)(i % 11);
    for (int i = 0; i < 35; i++)
        y[i / 5][i % 5] = (float)(i % 13) - 6;
    int64_t args[] = { WORD(x), WORD(y), WORD(z), 9, 5, 7 };
    for (int form = 0; form < 2; form++) {
        memset(z, 0x7f, sizeof z);
        if (form)
            CHECK(interp_kernel(whole, args, 0, 1, NULL));
        else
            CHECK(interp_kernel(k, args, 0, 2, NULL) && interp_kernel(k, args, 2, 3, NULL));
        for (int m = 0; m < 9; m++)
            for (int n = 0; n < 5; n++) {
                float sum = 0;
                for (int i = 0; i < 7; i++)
                    sum += x[m][i] * y[i][n];
                CHECK(z[m][n] == sum);
            }
    }
}

static void test_gather_and_check(Arena *a)
{
    Kernel *k = legal(a, "kernel args=9 grid=0 checked\naxis a0 size=arg3\n"
        "array A0 operand f64 arg0\narray A1 operand i64 arg4\narray A2 operand f64 arg0 written\n"
        "access x0 = A1[a0:unit]\naccess x1 = A0[%1:unit]\naccess x2 = A2[] +arg7\n"
        "%1 = load i64 x0\n%2 = load f64 x1\n%3 = const i64 0\n%4 = less_equal b1 %3 %1\n"
        "state s0 sum f64\n%5 = state f64 s0.0\n"
        "init s0\nfor a0 whole {\n check %4 else 7 at arg8\n reduce s0 %2\n}\nstore x2 %5\n");
    double x[6] = { 1, 2, 4, 8, 16, 0 };
    int64_t index[4] = { 3, 0, 4, 3 }, status = 0;
    int64_t args[] = { WORD(x), WORD(x), WORD(x + 6), 4, WORD(index), WORD(index), WORD(index + 4), 40, WORD(&status) };
    interp_violations = 0;
    CHECK(interp_kernel(k, args, 0, 1, NULL));
    CHECK(x[5] == 33 && status == 0 && interp_violations == 0);
    index[1] = -1;
    index[2] = 6;
    CHECK(interp_kernel(k, args, 0, 1, NULL));
    CHECK(x[5] == 16 && status == 7 && interp_violations == 2);
    status = 3;                                             /* the first failure stays */
    args[7] = 48;
    CHECK(interp_kernel(k, args, 0, 1, NULL));
    CHECK(x[5] == 16 && status == 3 && interp_violations == 5);
    interp_violations = 0;
}

/* Every allocation that can fail, fails once: no crash, no kernel, and nothing is run. */
static void test_no_memory(void)
{
    Err none = { 0 };
    Arena *keep = arena_new(&none);
    Kernel *k = chain(keep, 20);
    size_t n;
    void *bytes = kernel_bytes(keep, k, &n);
    float x[3] = { 1, 2, 3 }, y[3] = { 0 };
    int64_t args[] = { 3, WORD(x), WORD(y) };
    bool whole = false;
    for (long fail = 1; fail < 10000 && !whole; fail++) {
        Err err = { 0 };
        arena_fail_at(fail);
        Arena *a = arena_new(&err);
        Kernel *built = a ? chain(a, 20) : NULL, *read = a ? kernel_from_bytes(a, bytes, n) : NULL;
        Kernel *text = a ? kernel_parse(a, everything) : NULL;
        bool verified = read && kernel_verify(read, &err), ran = interp_kernel(k, args, 0, 1, NULL);
        arena_fail_at(0);
        whole = err.kind == ERR_NONE && built && text && verified && ran;
        CHECK(whole || err.kind == ERR_MEMORY || !a || !ran);
        CHECK(ran == (y[2] != 0));
        y[2] = 0;
        arena_free(a);
    }
    CHECK(whole);
    arena_free(keep);
}

int main(void)
{
    Err err = { 0 };
    Arena *a = arena_new(&err);
    test_interning(a);
    test_identity(a);
    test_ops_of_kernels();
    test_text(a);
    test_broken_text();
    test_verify();
    test_elementwise(a);
    test_softmax(a);
    test_monoids(a);
    test_arg(a);
    test_sum2(a);
    test_accurate_sums(a);
    test_columns(a);
    test_scan(a);
    test_in_place(a);
    test_dot(a);
    test_gather_and_check(a);
    test_no_memory();
    CHECK(err.kind == ERR_NONE);
    arena_free(a);
    if (failures)
        fprintf(stderr, "%d failures\n", failures);
    return failures != 0;
}

/* Planning when allocations fail: whatever fails, there is an error and no plan, and nothing crashes. */
#include <stdio.h>
#include <string.h>
#include "opt/plan.h"

static int failures;

#define CHECK(cond)                                                    \
    do {                                                               \
        if (!(cond)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
            failures++;                                                \
        }                                                              \
    } while (0)

#define SHAPE(...) (Dim[]){ __VA_ARGS__ }, (int)(sizeof(Dim[]){ __VA_ARGS__ } / sizeof(Dim))

/* ---- graphs ---- */

static Id input(Graph *g, Dim m, Dim n) { return graph_input(g, DT_float32, (Dim[]){ m, n }, 2, 0); }

static Id broadcast_rows(Graph *g, Id row, Dim m, Dim n)
{
    return graph_broadcast(g, graph_reshape(g, row, SHAPE(m, 1)), SHAPE(m, n));
}

static void softmax(Graph *g)
{
    Id x = input(g, 64, 300);
    Id e = graph_unary(g, OP_exp, graph_binary(g, OP_subtract, x, broadcast_rows(g, graph_reduce(g, OP_reduce_max, x, 2, 0), 64, 300)));
    graph_output(g, graph_binary(g, OP_divide, e, broadcast_rows(g, graph_reduce(g, OP_reduce_sum, e, 2, 0), 64, 300)));
}

static void dot_relu(Graph *g)
{
    Id x = input(g, 70, 50), w = input(g, 50, 90), b = graph_input(g, DT_float32, SHAPE(90), 0);
    Id y = graph_binary(g, OP_add, graph_dot(g, x, w), graph_broadcast(g, b, SHAPE(70, 90)));
    y = graph_binary(g, OP_maximum, y, graph_broadcast(g, graph_number(g, DT_float32, 0), SHAPE(70, 90)));
    graph_output(g, graph_reduce(g, OP_reduce_sum, y, 2, 0));
    graph_output(g, graph_dot(g, graph_transpose(g, y, (int[]){ 1, 0 }), y));
}

/* a[i:i+1] += a[i+2:i+3], at fixed offsets and at one that is data; the last version goes back into the input. */
static void updates(Graph *g)
{
    Id a = input(g, 40, 30), at = graph_input(g, DT_int64, NULL, 0, 0), zero = graph_const(g, DT_int64, 0);
    for (int64_t i = 0; i < 12; i++) {
        int64_t step[] = { 1, 1 };
        Id from = graph_slice_const(g, a, (int64_t[]){ i + 2, 0 }, step, (Dim[]){ 1, 30 });
        Id to = graph_slice_const(g, a, (int64_t[]){ i, 0 }, step, (Dim[]){ 1, 30 });
        a = graph_update_const(g, a, graph_binary(g, OP_add, from, to), (int64_t[]){ i, 0 }, step);
    }
    Id row = graph_slice(g, a, (Id[]){ at, zero }, (int64_t[]){ 1, 1 }, (Dim[]){ 1, 30 });
    graph_output(g, graph_update(g, a, graph_unary(g, OP_tanh, row), (Id[]){ at, zero }, (int64_t[]){ 1, 1 }));
    graph_output(g, graph_reshape(g, graph_transpose(g, a, (int[]){ 1, 0 }), SHAPE(1200)));
}

static void split_reductions(Graph *g)
{
    Id x = graph_input(g, DT_float32, SHAPE(300000), 0), y = input(g, 4096, 32);
    graph_output(g, graph_unary(g, OP_sqrt, graph_reduce(g, OP_reduce_sum, graph_binary(g, OP_multiply, x, x), 1, 0)));
    graph_output(g, graph_reduce(g, OP_reduce_argmax, x, 1, 0));
    graph_output(g, graph_reduce(g, OP_reduce_var, y, 1, 1));
    graph_output(g, graph_reduce(g, OP_reduce_var, y, 3, 0));
    graph_check(g, graph_reduce(g, OP_reduce_all, graph_unary(g, OP_isfinite, y), 3, 0), CHECK_INDEX);
}

static void places(Graph *g)
{
    Id x = input(g, 20, 30), y = graph_unary(g, OP_exp, x);
    Id all[] = { x, y, graph_concatenate(g, (Id[]){ y, x }, 2, 0), graph_broadcast(g, graph_iota(g, 30), SHAPE(5, 30)) };
    all[3] = graph_cast(g, all[3], DT_float32);
    Id joined = graph_concatenate(g, all, 4, 0);
    graph_output(g, graph_pad(g, joined, graph_number(g, DT_float32, 7), (int64_t[]){ 1, 2 }, (int64_t[]){ 3, 4 }));
    graph_output(g, graph_scan(g, OP_cumsum, joined, 1));
    graph_output(g, x);
}

static Id rows(Graph *g, Id x, int64_t from, int64_t n) { return graph_slice_const(g, x, (int64_t[]){ from, 0 }, (int64_t[]){ 1, 1 }, (Dim[]){ n, node_shape(g, x)[1] }); }

/* Steps that take a row off and put one on, and steps that put one more on. */
static void chains_of(Graph *g, int64_t steps)
{
    Id x = input(g, steps + 1, 3), u = x, all = rows(g, x, 0, 1);
    for (int64_t i = 0; i < steps; i++) {
        Id first = rows(g, u, 0, 1), next = graph_unary(g, OP_exp, rows(g, x, i, 1));
        u = graph_concatenate(g, (Id[]){ rows(g, u, 1, steps), graph_binary(g, OP_add, first, first) }, 2, 0);
        all = graph_concatenate(g, (Id[]){ all, next }, 2, 0);
    }
    graph_output(g, u);
    graph_output(g, all);
}

static void chains(Graph *g) { chains_of(g, 6); }

/* ---- with and without memory ---- */

enum { INTO_FIRST = 1, CHECKED = 2 };      /* output 0 goes into input 0; the kernels check bounds */
typedef struct { const char *name; void (*build)(Graph *g); int how; } Case;
static const Case cases[] = {
    { "softmax", softmax, 0 }, { "dot_relu", dot_relu, 0 }, { "updates", updates, INTO_FIRST }, { "updates checked", updates, CHECKED },
    { "split_reductions", split_reductions, 0 }, { "places", places, 0 }, { "chains", chains, 0 },
};

/* Inputs are Fortran-ordered every second time, so that copies and transposes are planned too. */
static Plan *plan(Arena *a, const Graph *g, int how, bool fortran)
{
    PlanInput in[4] = { 0 };
    PlanOutput out[4] = { { how & INTO_FIRST ? 0 : -1 }, { -1 }, { -1 }, { -1 } };
    Target target = { .level = CPU_AVX2, .vector_bytes = 32, .l1 = 32768, .l2 = 1 << 20, .checked = how & CHECKED };
    for (uint32_t i = 0; i < g->inputs.len; i++) {
        const Node *n = node_at(g, g->inputs.at[i]);
        const Dim *shape = node_shape(g, g->inputs.at[i]);
        int64_t stride = dtype_info[n->dtype].bytes;
        in[i].writable = true;
        for (int k = 0; k < n->rank; k++) {
            int d = fortran ? k : n->rank - 1 - k;
            in[i].stride[d] = stride;
            stride *= shape[d];
        }
    }
    return plan_make(a, g, in, out, &target);
}

/* Plans with the n-th allocation failing (n < 0: all from the -n-th on); whether it was not reached. */
static bool survives(const Graph *g, const Case *c, bool fortran, long n)
{
    Err err = { 0 };
    Text t = { 0 };
    arena_fail_at(n);
    Arena *a = arena_new(&err);
    Plan *p = a ? plan(a, g, c->how, fortran) : NULL;
    bool ok = err.kind == ERR_NONE;
    if (p) plan_print(&t, p);
    arena_fail_at(0);
    CHECK((p != NULL) == ok && (ok || err.kind == ERR_MEMORY));
    for (uint32_t i = 0; p && i < p->kernels.len; i++)
        CHECK(kernel_verify(p->kernels.at[i], &err) || !fprintf(stderr, "%s, kernel %u: %s\n", c->name, i, err.msg));
    ok = ok && !t.failed;
    text_free(&t);
    arena_free(a);
    return ok;
}

static void test_case(const Case *c, bool fortran)
{
    Err err = { 0 };
    Arena *a = arena_new(&err);
    Graph *g = graph_new(a);
    c->build(g);
    CHECK(err.kind == ERR_NONE || !fprintf(stderr, "%s: %s\n", c->name, err.msg));
    size_t before = arena_used(a);
    long n = 1, all = 1;
    while (!survives(g, c, fortran, n) && n < 100000) n++;
    while (!survives(g, c, fortran, -all) && all < 100000) all++;
    CHECK(n > 20 && n == all);
    CHECK(err.kind == ERR_NONE && arena_used(a) == before);      /* the graph and its arena are as they were */
    arena_free(a);
}

/* Nodes, and bytes of the plan, of chains of so many steps: what there is to do. */
static size_t chain_work(int64_t steps, uint32_t *nodes, uint32_t *simplified)
{
    Err err = { 0 };
    Arena *a = arena_new(&err);
    Graph *g = graph_new(a);
    chains_of(g, steps);
    *nodes = g->nodes.len;
    size_t before = arena_used(a);
    Plan *p = plan(a, g, 0, false);
    CHECK(p && err.kind == ERR_NONE && p->workspace == 0 && p->kernels.len <= 12 && p->launches.len <= (uint64_t)steps / 20 + 12);
    *simplified = p ? p->graph->nodes.len : 0;
    size_t bytes = arena_used(a) - before;
    arena_free(a);
    return bytes;
}

/* Twice the steps are twice the work, and no step is in memory. */
static void test_chains_are_linear(void)
{
    uint32_t nodes, simplified, more, more_simplified;
    size_t bytes = chain_work(1000, &nodes, &simplified), more_bytes = chain_work(2000, &more, &more_simplified);
    CHECK(nodes < 16 * 1000 && more < 2.1 * nodes);
    CHECK(simplified < 16 * 1000 && more_simplified < 2.1 * simplified);
    CHECK(more_bytes < 2.3 * (double)bytes);
}

int main(void)
{
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int fortran = 0; fortran < 2; fortran++) test_case(&cases[k], fortran);
    test_chains_are_linear();
    printf(failures ? "%d failures\n" : "ok\n", failures);
    return failures != 0;
}

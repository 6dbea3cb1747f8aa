/* For tests/graphs.py: plans a graph for the given layouts and runs it on the interpreter. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "opt/plan.h"
#include "run/exec.h"

Arena *driver_arena(Err *err) { return arena_new(err); }
size_t driver_err_size(void) { return sizeof(Err); }
Graph *driver_graph(Arena *a) { return graph_new(a); }
Err *driver_err(Graph *g) { return g->err; }
const char *driver_message(const Err *e) { return e->kind ? e->msg : NULL; }

typedef struct { Plan *plan; char *text; } Driven;

enum { LAYOUT = MAX_RANK + 3 };

size_t driver_l2 = 1 << 20;                    /* of the machine planned for */

/* strides: LAYOUT words per input: MAX_RANK strides, then whether its bytes are swapped, it is donated, it is constant; into: per output, -1: a new array, -2: one in NumPy's order of axes. NULL with the graph's error. */
Plan *driver_plan(Graph *g, const int64_t *strides, const int32_t *into, int vector_bytes)
{
    PlanInput *in = calloc(g->inputs.len + 1, sizeof *in);
    PlanOutput *out = calloc(g->outputs.len + 1, sizeof *out);
    for (uint32_t i = 0; i < g->inputs.len; i++) {
        memcpy(in[i].stride, strides + i * LAYOUT, sizeof in[i].stride);
        in[i].swapped = strides[i * LAYOUT + MAX_RANK];
        in[i].donated = strides[i * LAYOUT + MAX_RANK + 1];
        in[i].constant = strides[i * LAYOUT + MAX_RANK + 2];
        in[i].writable = true;
    }
    for (uint32_t i = 0; i < g->outputs.len; i++) out[i] = (PlanOutput){ .into = into[i] < 0 ? -1 : into[i], .ordered = into[i] == -2 };
    Target target = { .level = cpu_host()->level, .vector_bytes = vector_bytes, .l1 = 32768, .l2 = driver_l2 };
    Plan *p = plan_make(g->arena, g, in, out, &target);
    free(in);
    free(out);
    if (!p) return NULL;
    Err err = { 0 };
    for (uint32_t i = 0; i < p->kernels.len; i++)
        if (!kernel_verify(p->kernels.at[i], &err)) {
            if (getenv("SHOW")) { Text t = {0}; plan_print(&t, p); fprintf(stderr, "%s", t.at); }
            *g->err = err;
            return NULL;
        }
    return p;
}

char *driver_text(const Plan *p)
{
    Text t = { 0 };
    plan_print(&t, p);
    return t.at;
}

uint32_t driver_launches(const Plan *p) { return p->launches.len; }

int64_t driver_peak(const Plan *p) { return p->peak; }

/* Whether new output i is not C-contiguous; its strides. */
bool driver_strides(const Plan *p, uint32_t i, int rank, int64_t *stride)
{
    if (p->output_stride[i]) memcpy(stride, p->output_stride[i], sizeof *stride * (size_t)rank);
    return p->output_stride[i] != NULL;
}

/* The input whose memory output i took over, or -1. */
int32_t driver_took(const Plan *p, uint32_t i) { return p->output_slot[i] < p->ninputs ? (int32_t)p->output_slot[i] : -1; }

uint32_t driver_kept(const Plan *p) { return p->kept.len; }

/* The launches once, then the others. */
int64_t driver_run(const Plan *p, void *const *in, void *const *out)
{
    int64_t *words = malloc(sizeof *words * (p->words.len + 1));
    void **kept = malloc(sizeof *kept * (p->kept.len + 1));
    memcpy(words, p->words.at, sizeof *words * p->words.len);
    for (uint32_t i = 0; i < p->kept.len; i++) kept[i] = malloc((size_t)p->slots.at[p->kept.at[i].slot].bytes + 64);
    Exec e = { .plan = p, .threads = 1 };
    HostFailure failure = { 0 };
    Addresses at = { .in = in, .out = out, .kept = kept };
    int64_t r = exec_once(&e, words, &at);
    if (!r) r = exec_run(&e, words, &at, NULL, &failure);
    for (uint32_t i = 0; i < p->kept.len; i++) free(kept[i]);
    free(kept);
    free(words);
    return r;
}

void driver_free(void *p) { free(p); }

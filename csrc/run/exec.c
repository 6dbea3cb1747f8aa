#include "run/exec.h"
#include "run/memory.h"
#include "run/pool.h"

#define PARALLEL_NS 20e3f              /* launches estimated shorter run in the calling thread */
#define WORKER_NS 10e3f                /* least work of one worker: what waking it costs, and more */
#define SHARE_NS 5e3f                  /* least work that a worker takes over from another */
#define PIECE_NS 10e6f                 /* how often `stop` is looked at */
#define INTERP_FACTOR 50.0f            /* the interpreter's time by the estimate for compiled code */

typedef struct {
    const Exec *exec;
    int64_t *words;
    const Addresses *at;
    const atomic_int *stop;
    HostFailure *failure;
    bool once;                         /* these launches, and no others */
    char *workspace, *scratch;
    int64_t status;                    /* the cell that checks write to */
    int threads;                       /* asked for once, at the first launch large enough; 0: there is none */
} Run;

typedef struct {
    Run *run;
    const Launch *launch;
    KernelFn fn;                       /* NULL: interpret */
    const int64_t *args;
    int64_t piece;                     /* grid points between looks at `stop` */
    atomic_bool failed;
} Job;

static HostFn host_fn;

void exec_set_host(HostFn fn) { host_fn = fn; }

/* ---- arguments ---- */

static char *slot_address(Run *r, const Slot *s)
{
    switch ((SlotKind)s->kind) {
    case SLOT_INPUT: return r->at->in[s->index];
    case SLOT_OUTPUT: return r->at->out[s->index];
    case SLOT_KEPT: return r->at->kept[s->index];
    case SLOT_TEMP: return r->workspace + s->offset;
    case SLOT_STATUS: return (char *)&r->status;
    }
    return NULL;
}

/* The two words after an operand's address in a checked kernel: the bounds of its memory. */
static void patch_bounds(const Run *r, const Slot *s, const char *at, int64_t *bounds)
{
    bool given = s->kind == SLOT_INPUT && r->at->lo && r->at->hi;
    bounds[0] = (int64_t)(given ? r->at->lo[s->index] : at);
    bounds[1] = (int64_t)(given ? r->at->hi[s->index] : at + s->bytes);
}

static void patch(Run *r, const Launch *l, int64_t *args)
{
    const Plan *plan = r->exec->plan;
    bool checked = !l->host && plan->kernels.at[l->kernel]->checked;
    const Patch *p = plan->patches.at + l->patches;
    for (uint32_t i = 0; i < l->npatches; i++, p++) {
        const Slot *s = &plan->slots.at[p->slot];
        char *at = slot_address(r, s);
        args[p->word] = (int64_t)(at + p->offset);
        if (__builtin_expect(checked, 0) && s->kind != SLOT_STATUS) patch_bounds(r, s, at, &args[p->word + 1]);
    }
}

/* ---- one launch ---- */

static KernelFn launch_fn(const Exec *e, const Launch *l)
{
    const Code *code = e->code ? e->code[l->kernel] : NULL;
    return code ? code_entry(code) : NULL;
}

static float launch_ns(const Exec *e, const Launch *l) { return launch_fn(e, l) ? l->ns : l->ns * INTERP_FACTOR; }

static int launch_workers(Run *r, const Launch *l)
{
    float ns = l->host ? 0 : launch_ns(r->exec, l);
    if (ns < PARALLEL_NS || l->grid < 2) return 1;
    if (!r->threads) r->threads = pool_workers(r->exec->threads);
    int most = r->threads;
    if (ns < WORKER_NS * (float)most) most = (int)(ns / WORKER_NS);
    if (l->workers && l->workers < most) most = l->workers;
    return l->grid < most ? (int)l->grid : most;
}

static int64_t scratch_stride(const Launch *l) { return (l->scratch + 63) & ~(int64_t)63; }

static void run_points(Job *j, int64_t begin, int64_t end, char *scratch)
{
    if (j->fn) j->fn(j->args, begin, end, scratch);
    else if (!interp_kernel(j->run->exec->plan->kernels.at[j->launch->kernel], j->args, begin, end, scratch))
        atomic_store(&j->failed, true);
}

static bool stopped(const Run *r) { return r->stop && atomic_load_explicit(r->stop, memory_order_relaxed); }

/* A worker's part of the launch, in pieces (PoolFn). */
static void run_part(void *ctx, int worker, int64_t begin, int64_t end)
{
    Job *j = ctx;
    char *scratch = j->run->scratch + worker * scratch_stride(j->launch);
    while (begin < end && !stopped(j->run)) {
        int64_t n = end - begin < j->piece ? end - begin : j->piece;
        run_points(j, begin, begin + n, scratch);
        begin += n;
    }
}

static int64_t piece_points(const Run *r, const Launch *l)
{
    float ns = launch_ns(r->exec, l);
    if (!r->stop || ns < 2 * PIECE_NS) return l->grid;
    float n = (float)l->grid * (PIECE_NS / ns);
    return n < 1 ? 1 : (int64_t)n;
}

/* false: the interpreter had no memory. */
static bool run_launch(Run *r, const Launch *l)
{
    int64_t *args = r->words + l->words;
    patch(r, l, args);
    Job j = {r, l, launch_fn(r->exec, l), args, piece_points(r, l), false};
    int workers = r->threads ? launch_workers(r, l) : 1;
    if (workers > 1) pool_run(run_part, &j, l->grid, workers, (int64_t)(launch_ns(r->exec, l) / SHARE_NS));
    else if (j.piece == l->grid) run_points(&j, 0, l->grid, r->scratch);
    else run_part(&j, 0, 0, l->grid);
    return !atomic_load_explicit(&j.failed, memory_order_relaxed);
}

/* Words and addresses have one size; a word that no patch names is a result that nobody reads. */
static bool run_host(Run *r, const Launch *l)
{
    int64_t *args = r->words + l->words;
    patch(r, l, args);
    if (!host_fn || !r->failure) return false;
    r->failure->call = l->host;
    return host_fn(l->host, (void *const *)args, &r->failure->error);
}

/* ---- the run ---- */

/* Bytes of scratch that the largest launch needs, for all its workers. */
static int64_t scratch_bytes(Run *r)
{
    const Plan *plan = r->exec->plan;
    int64_t most = 0;
    for (uint32_t i = 0; i < plan->launches.len; i++) {
        const Launch *l = &plan->launches.at[i];
        int64_t bytes = l->once == r->once ? scratch_stride(l) * launch_workers(r, l) : 0;
        if (bytes > most) most = bytes;
    }
    return most;
}

static int64_t run_launches(Run *r)
{
    const Plan *plan = r->exec->plan;
    for (uint32_t i = 0; i < plan->launches.len; i++) {
        if (stopped(r)) return -2;
        const Launch *l = &plan->launches.at[i];
        if (l->once != r->once) continue;
        if (l->host && !run_host(r, l)) return -4;
        if (!l->host && !run_launch(r, l)) return -1;
        if (r->status) return r->status;
    }
    return stopped(r) ? -2 : 0;
}

static int64_t run_all(Run *r, int64_t workspace)
{
    workspace = (workspace + 63) & ~(int64_t)63;
    int64_t bytes = workspace + scratch_bytes(r);
    if (bytes) {
        r->workspace = mem_alloc((size_t)bytes);
        if (!r->workspace) return -1;
        r->scratch = r->workspace + workspace;
    }
    int64_t result = run_launches(r);
    if (bytes) mem_free(r->workspace);
    return result;
}

int64_t exec_run(const Exec *e, int64_t *words, const Addresses *at, const atomic_int *stop, HostFailure *failure)
{
    Run r = {.exec = e, .words = words, .at = at, .stop = stop, .failure = failure};
    return run_all(&r, e->plan->workspace);
}

int64_t exec_once(const Exec *e, int64_t *words, const Addresses *at)
{
    Run r = {.exec = e, .words = words, .at = at, .once = true};
    return run_all(&r, e->plan->once_workspace);
}

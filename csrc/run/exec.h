/* Runs a Plan: a loop over launches. No Python, no malloc but the workspace. */
#pragma once
#include <stdatomic.h>
#include "opt/plan.h"
#include "run/code.h"

typedef struct {
    const Plan *plan;
    Code *const *code;        /* per plan->kernels; NULL, or a NULL entry: the interpreter runs it */
    int threads;              /* 0: the pool's */
} Exec;

/* A host function that raised: py/'s own record of it. */
typedef struct { const HostCall *call; void *error; } HostFailure;
/* Carries out a host call on these addresses (inputs, then results), on the thread that called exec_run(); false: it raised (*error is set). */
typedef bool (*HostFn)(const HostCall *call, void *const *address, void **error);
void exec_set_host(HostFn fn);                 /* before the first run; called by py/ */

/* Where a run finds things: addresses of inputs in[plan->ninputs], of new outputs out[plan->noutputs] (unused entries NULL), of kept values
 * kept[plan->kept.len]; in `checked` plans the bounds of each input's memory (lo, hi; else they may be NULL). */
typedef struct { void *const *in, *const *out, *const *kept; const char *const *lo, *const *hi; } Addresses;

/* Runs all launches but those `once`, on words, a private copy of plan->words (words.len entries) that is patched.
 * `stop` (may be NULL) is read between launches and between pieces of long ones; nonzero ends the run. Returns 0, the status of the
 * first failed check (> 0), -1 out of memory, -2 stopped,
 * -4 a host function raised (*failure, which may be NULL where the plan has no host calls). */
int64_t exec_run(const Exec *e, int64_t *words, const Addresses *at, const atomic_int *stop, HostFailure *failure);
/* Runs the launches `once`, which write the kept values; `out` is not read. Returns as exec_run(). */
int64_t exec_once(const Exec *e, int64_t *words, const Addresses *at);

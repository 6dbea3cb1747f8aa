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

/* Runs with input addresses in[plan->ninputs] and addresses of new outputs out[plan->noutputs] (unused entries NULL), on words, a private
 * copy of plan->words (words.len entries) that is patched. Only in `checked` plans are in_lo/in_hi read (bounds of each input's memory), else NULL.
 * `stop` (may be NULL) is read between launches and between pieces of long ones; nonzero ends the run. Returns 0, the status of the
 * first failed check (> 0), -1 out of memory, -2 stopped, -3 interpreted and the interpreter could not (interp_kernel),
 * -4 a host function raised (*failure, which may be NULL where the plan has no host calls). */
int64_t exec_run(const Exec *e, int64_t *words, void *const *in, void *const *out, const char *const *in_lo, const char *const *in_hi,
                 const atomic_int *stop, HostFailure *failure);

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

/* Runs with input addresses in[plan->ninputs] and addresses of new outputs out[plan->noutputs] (unused entries NULL), on words, a private
 * copy of plan->words (words.len entries) that is patched. Only in `checked` plans are in_lo/in_hi read (bounds of each input's memory), else NULL.
 * `stop` (may be NULL) is read between launches and between pieces of long ones; nonzero ends the run. Returns 0, the status of the
 * first failed check (> 0), -1 out of memory, -2 stopped, -3 interpreted and the interpreter could not (interp_kernel). */
int64_t exec_run(const Exec *e, int64_t *words, void *const *in, void *const *out, const char *const *in_lo, const char *const *in_hi,
                 const atomic_int *stop);

/* The thread pool: none at import, made on first need, recreated after fork.
 *
 * A job is a range of grid points cut into pieces, of which each worker has a contiguous chunk; the caller works too, and who is done helps the others. Workers copy the
 * caller's floating-point mode. Several callers at once, and calls from inside a job, are safe (a nested or contended call runs in its own thread). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

typedef void (*PoolFn)(void *ctx, int worker, int64_t begin, int64_t end);

int pool_default_threads(void);           /* affinity, cgroup limit, PYXLA_NUM_THREADS */
int pool_threads(void);
void pool_set_threads(int n);             /* at least 1; 0: default again */
/* Runs fn over 0..n, in about `pieces` calls (one per worker at least), on at most `threads` workers (0: pool_threads()); returns when all is done. worker <
 * pool_workers(threads). */
void pool_run(PoolFn fn, void *ctx, int64_t n, int threads, int64_t pieces);
int pool_workers(int threads);            /* most workers of such a run: `threads`, no more than were set, or pool_threads() for 0; at least 1 */
void pool_shutdown(void);                 /* joins the threads, at interpreter exit; the next run makes new ones */

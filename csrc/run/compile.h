/* Kernels to code: a process-wide table of kernels by their bytes, and the compiler threads, the only threads that run LLVM.
 *
 * A kernel that is in the table (or being compiled by somebody else), or that the package was built with (run/shipped.h), is not compiled again. Threads are made on need, have
 * 16 MB of stack and their own LLVM context; a fatal error of LLVM becomes an error of the waiter and parks its thread. The table
 * keeps a reference to its code and drops the least recently used past its limit. Usable again in a child after fork. A failed
 * compile leaves no trace in the table: the next call tries again. */
#pragma once
#include "base/cpu.h"
#include "opt/kernel.h"
#include "run/code.h"

typedef struct { uint32_t compiled, reused; double seconds; } CompileStats;   /* added to; reused: also of those shipped; seconds waited */

/* Code for n kernels, compiled in parallel, one reference each in out. Called without the GIL. `interrupted` is called now and then
 * while waiting (NULL: never) and ends the wait when it returns true (ERR_NONE, false). */
bool compile_kernels(const Kernel *const *k, int n, CpuLevel level, Code **out, CompileStats *stats,
                     bool (*interrupted)(void *), void *ctx, Err *err);
/* Has a compiler thread open the generator for this level now, while the caller goes on to what it needs it for: that takes tens of ms in
 * a new process. Does nothing where there are compiler threads, or may be none. */
void compile_prepare(CpuLevel level);
/* IR and assembly text of one kernel, malloc'ed into the Texts; compiled anew. */
bool compile_text(const Kernel *k, CpuLevel level, Text *ir, Text *assembly, Err *err);
void compile_clear(void);                 /* empties the table */
void compile_limits(size_t max_kernels);
uint32_t compile_count(void);             /* kernels in the table */
const char *compile_llvm_version(Err *err);
void compile_set_generator(const char *path);   /* the shared object; set by py/ before the first compile */
void compile_shutdown(void);              /* before exit(), for good: ends the compiler threads, waiting for what they compile */

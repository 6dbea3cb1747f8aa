/* The code generator: Kernel -> object code. The only folder that includes llvm-c, and a shared object of its own, opened at
 * the first compile; it exports one symbol, pyxla_gen().
 *
 * compile() may be called from one compiler thread of run/compile.c only per GenThread; LLVM's fatal errors call `fatal` (set once), which must
 * not return. Objects are ELF relocatable files that define the function `kernel` and refer to nothing outside themselves. */
#pragma once
#include "base/cpu.h"
#include "opt/kernel.h"

typedef struct { CpuLevel level; bool verify, want_ir, want_asm; } GenOptions;
typedef struct { char *object; size_t object_len; char *ir, *assembly; } GenResult;     /* malloc'ed; NULL where not asked for */

typedef struct GenThread GenThread;      /* context and TargetMachine of one compiler thread */

typedef struct {
    int abi;                             /* GEN_ABI, compared by the opener */
    const char *llvm_version;
    void (*set_fatal)(void (*fatal)(const char *message));
    GenThread *(*thread_new)(CpuLevel level, Err *err);
    void (*thread_free)(GenThread *t);
    bool (*compile)(GenThread *t, const Kernel *k, const GenOptions *o, GenResult *out, Err *err);
    void (*result_free)(GenResult *r);
} GenApi;
#define GEN_ABI 1

const GenApi *pyxla_gen(void);

/* What the code generator knows about each CPU level: features, register width, which operations have an instruction. */
#pragma once
#include <llvm-c/TargetMachine.h>
#include "gen/emit.h"

/* A TargetMachine for the host's kind of machine at a level; NULL with ERR_COMPILE. */
LLVMTargetMachineRef target_machine(CpuLevel level, LLVMCodeGenOptLevel effort, Err *err);
/* Gives a function of e->mod the level's features and the rules of the house (vector width, no library calls made of loops). */
void target_attributes(Emit *e, LLVMValueRef fn);
/* Adds to a function the instructions that multiply bytes (level avx512) and that copy long runs (both only where the host has them). */
void target_more(Emit *e, LLVMValueRef fn, bool vnni, bool rep_movs);
/* Whether the level has a fused multiply-add and a rounding instruction. */
bool target_fma(CpuLevel level);
bool target_round(CpuLevel level);
/* Whether a vector of elements of so many bytes is loaded and stored under a mask by an instruction. */
bool target_mask(CpuLevel level, int bytes);

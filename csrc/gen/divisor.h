/* Division by one number of the run (divisor.c). */
#pragma once
#include "gen/emit.h"

/* Scalars: factor, shift, first and whole of 64 bits, minus (-1: d is negative) and some (0: d is 0, else -1) of the dtype. */
typedef struct { LLVMValueRef factor, shift, first, whole, minus, some; } Divisor;

/* What division by the integer d takes; e->lanes is 0. Works for every d. */
Divisor divisor_find(Emit *e, Dtype dt, LLVMValueRef d);
/* a // d and a % d, NumPy's, of vectors a by the number d that was found. */
LLVMValueRef divisor_floor(Emit *e, Dtype dt, const Divisor *by, LLVMValueRef a);
LLVMValueRef divisor_remainder(Emit *e, Dtype dt, const Divisor *by, LLVMValueRef a, LLVMValueRef d);

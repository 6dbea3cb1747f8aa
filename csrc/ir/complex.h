/* Complex ops as ops on components. A complex value is a node only where it lies in memory, is moved, or is put together
 * (OP_complex_) and taken apart (OP_real, OP_imag); graph_add() replaces everything that computes by its formula on components, so
 * that no pass, schedule or emitter knows of complex arithmetic.
 *
 * A rule (complex.c: arithmetic, comparisons, reductions; complex_math.c: functions) is given the components of its operands, in
 * one dtype and one shape. */
#pragma once
#include "ir/ir.h"

typedef struct { Id re, im; } Z;
typedef struct { Graph *g; Dtype dtype; Id like; } Cx;          /* dtype of the components; numbers get the shape of `like` */

static inline Id cx1(const Cx *c, Op op, Id a) { return graph_unary(c->g, op, a); }
static inline Id cx2(const Cx *c, Op op, Id a, Id b) { return graph_binary(c->g, op, a, b); }
static inline Id cx_add(const Cx *c, Id a, Id b) { return cx2(c, OP_add, a, b); }
static inline Id cx_sub(const Cx *c, Id a, Id b) { return cx2(c, OP_subtract, a, b); }
static inline Id cx_mul(const Cx *c, Id a, Id b) { return cx2(c, OP_multiply, a, b); }
static inline Id cx_div(const Cx *c, Id a, Id b) { return cx2(c, OP_divide, a, b); }
static inline Id cx_neg(const Cx *c, Id a) { return cx1(c, OP_negative, a); }
static inline Id cx_abs(const Cx *c, Id a) { return cx1(c, OP_absolute, a); }
static inline Id cx_and(const Cx *c, Id a, Id b) { return cx2(c, OP_logical_and, a, b); }
static inline Id cx_or(const Cx *c, Id a, Id b) { return cx2(c, OP_logical_or, a, b); }
static inline Id cx_where(const Cx *c, Id p, Id a, Id b) { return graph_where(c->g, p, a, b); }
static inline Z cx_choose(const Cx *c, Id p, Z a, Z b) { return (Z){ cx_where(c, p, a.re, b.re), cx_where(c, p, a.im, b.im) }; }
Id cx_number(const Cx *c, double x);
Z cx_product(const Cx *c, Z x, Z y);
Z cx_quotient(const Cx *c, Z x, Z y);
Z cx_reciprocal(const Cx *c, Z x);

/* The function `op` of NumPy: false if it is none of complex_math.c. */
bool complex_function(const Cx *c, Op op, Z x, Z y, Z *out);

/* Values of nodes computed amid a trace, or after a run (concrete.c). */
#pragma once
#include "py/tracer.h"
#include "run/exec.h"

/* A graph input: where its elements are; data NULL: in the cell. */
typedef struct { PlanInput layout; void *data; char cell[16]; } Reading;
void reading_of(PyArrayObject *a, Reading *r);
/* Fills r (zeros before) for input number `input` of the trace; false with an exception. */
typedef bool (*InputReader)(void *ctx, int input, Reading *r);
/* The value of a node of the trace (ended or not), computed from the inputs that it needs into *result. false with an exception. */
bool node_compute(const Trace *t, Id id, InputReader read, void *ctx, void *result);

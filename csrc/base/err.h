/* The one error of a trace or a compile.
 *
 * The first error sticks: later calls of err_set() change nothing, functions return 0/NULL/false, and the
 * caller looks once at the end. Nothing below py/ prints, exits or unwinds; py/error.c makes the exception.
 * The caller owns the Err (usually on its stack); it owns no memory. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

typedef enum {
    ERR_NONE,
    ERR_TYPE,          /* TypeError */
    ERR_VALUE,         /* ValueError */
    ERR_INDEX,         /* IndexError */
    ERR_OVERFLOW,      /* OverflowError */
    ERR_ZERO_DIVISION, /* ZeroDivisionError */
    ERR_FLOATING_POINT, /* FloatingPointError: check_nan=True */
    ERR_MEMORY,        /* MemoryError */
    ERR_UNSUPPORTED,   /* pyxla.UnsupportedError: NumPy can, pyxla cannot (yet) */
    ERR_LIMIT,         /* pyxla.TraceError: a limit of ours */
    ERR_COMPILE,       /* pyxla.CompileError: LLVM's fatal errors */
    ERR_INTERNAL,      /* pyxla.InternalError: a broken invariant that was caught */
} ErrKind;

typedef struct {
    ErrKind kind;
    uint32_t src;      /* the node's source id of the failing op, 0: none */
    char msg[1024];
} Err;

/* Records an error unless one is there; printf format. Always returns false. */
bool err_set(Err *err, ErrKind kind, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* A broken invariant: prints the place and aborts in debug builds (PYXLA_DEBUG), is nothing otherwise. */
#ifdef PYXLA_DEBUG
_Noreturn void assert_failed(const char *expr, const char *file, int line);
#define ASSERT(e) ((e) ? (void)0 : assert_failed(#e, __FILE__, __LINE__))
#else
#define ASSERT(e) ((void)sizeof(!(e)))
#endif

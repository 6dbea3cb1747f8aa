/* PYXLA_LOG: what was traced again and why, graphs, plans, LLVM IR and assembly, on stderr. */
#pragma once
#include "py/entry.h"

/* Reads PYXLA_LOG ("recompiles,passes,plan,llvm,asm"); unknown words are an ImportError. */
bool log_init(void);
/* Keeps what a recompile line needs to know of a new entry. false with an exception. */
bool log_entry(Entry *e, const Signature *s, const Record *r, const Binding *b);
/* The recompile line: e is new, `old` the entry that was used last (NULL: none), `guard` the guard that failed (NULL: none). */
void log_recompile(const char *name, const Entry *e, const Entry *old, PyObject *guard);
/* Graph, plan and code of a new bound, as far as they are asked for. */
void log_bound(const char *name, const Bound *b);
/* Writes to stderr, whole or not at all. */
void log_text(const char *title, const Text *t);

/* Kernels that were compiled when the package was built: a file per level, _kernels_LEVEL.bin beside the code generator, found by the
 * kernels' bytes. A file that does not belong to this build is not used, nor is any with PYXLA_SHIPPED=0. */
#pragma once
#include "base/cpu.h"
#include "base/err.h"

void shipped_folder(const char *path);            /* where the files are, with the last slash; set by py/ before the first compile */
/* The object of a kernel, in memory that stays; NULL where it is not shipped. */
const void *shipped_find(const void *bytes, size_t len, uint64_t hash, CpuLevel level, size_t *object_len);

/* Making such a file: from record on, every object that is compiled is kept, and no file is looked at. */
void shipped_record(void);
bool shipped_recording(void);
void shipped_keep(const void *bytes, size_t len, uint64_t hash, const void *object, size_t object_len);   /* on any thread */
bool shipped_write(const char *path, Err *err);   /* all that was kept; false with an error, also where something was not kept */

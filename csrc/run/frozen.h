/* Memory that is written once and then read only, by the hardware: pages of its own, so that a write is a fault and never goes unseen. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

void *frozen_alloc(size_t bytes);             /* writable until sealed, zeroed, aligned to a page; NULL if there is none */
bool frozen_seal(void *p, size_t bytes);      /* false: the system refused, and the memory is as it was */
void frozen_free(void *p, size_t bytes);      /* NULL is fine */

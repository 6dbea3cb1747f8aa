/* What this process may use of the machine: cores and memory, by affinity, cgroup (version 1 and 2) and hardware. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

int limits_cores(void);        /* at least 1; a fractional quota is rounded up */
size_t limits_memory(void);    /* bytes */

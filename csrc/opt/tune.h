/* Tuning: a table from what a group computes (the hash of the kernels and words of its default schedule) to knobs of its schedule.
 *
 * The key knows extents, strides and the target, and neither buffers nor the rest of the graph, so equal layers and later runs of the process find
 * the same choice. A wrong entry, of another version say, costs time and nothing else. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

typedef enum {
#define X(name, doc) KNOB_##name,
#include "opt/knobs.def"
#undef X
    KNOB_COUNT
} Knob;

typedef struct { int32_t at[KNOB_COUNT]; } Knobs;

extern const char *const knob_names[KNOB_COUNT], *const knob_docs[KNOB_COUNT];

typedef struct { uint64_t key; Knobs knobs; } Tuned;
typedef struct { Tuned *at; uint32_t len, cap; bool watch; } Tuning;      /* in order of keys; watch: plans note keys though it is empty */

/* The knobs for a key; NULL: none are known. They hold until the table changes. */
const Knobs *tuning_find(const Tuning *t, uint64_t key);
/* Adds or replaces an entry; false without memory. */
bool tuning_set(Tuning *t, uint64_t key, const Knobs *knobs);
void tuning_remove(Tuning *t, uint64_t key);

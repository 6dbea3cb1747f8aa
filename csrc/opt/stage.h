/* Stages: a graph whose shapes depend on data is run as a row of graphs whose shapes are numbers.
 *
 * The first graph computes the scalars that extents are made of, as far as they are known without run-time extents, and values that the rest
 * needs as well (`carried`). The caller runs it, reads the scalars, and asks for the rest: the same computation with numbers for
 * these extents and the carried values as further inputs. The rest may have run-time extents again. */
#pragma once
#include "ir/ir.h"

typedef struct {
    const Graph *whole;
    Graph *first;                /* inputs as in whole; outputs: the extents, then the carried values; whole's checks of values known here */
    uint32_t nextents, ncarried;
    const Id *extents, *carried; /* nodes of whole */
    const uint8_t *where;        /* per node of whole: see stage.c */
} Stage;

/* Whether a shape in the graph depends on data. */
bool stage_needed(const Graph *g);
/* Cuts a graph that needs it; NULL with an error in the arena's Err. */
Stage *stage_split(Arena *a, const Graph *g);
/* The rest for these values of the extents; inputs: whole's, then the carried values. NULL with an error in a's Err. */
Graph *stage_rest(Arena *a, const Stage *s, const int64_t *values);
/* The part of g below root as a graph of its own with root as its output, *inputs: g's number of each of its inputs. NULL with an error in a's Err. */
Graph *graph_below(Arena *a, const Graph *g, Id root, int **inputs);

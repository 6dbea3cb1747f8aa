#include "opt/tune.h"
#include <stdlib.h>
#include <string.h>

const char *const knob_names[KNOB_COUNT] = {
#define X(name, doc) #name,
#include "opt/knobs.def"
#undef X
};

const char *const knob_docs[KNOB_COUNT] = {
#define X(name, doc) doc,
#include "opt/knobs.def"
#undef X
};

/* Index of the first entry whose key is not less. */
static uint32_t place(const Tuning *t, uint64_t key)
{
    uint32_t low = 0, high = t->len;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (t->at[mid].key < key) low = mid + 1;
        else high = mid;
    }
    return low;
}

const Knobs *tuning_find(const Tuning *t, uint64_t key)
{
    uint32_t at = place(t, key);
    return at < t->len && t->at[at].key == key ? &t->at[at].knobs : NULL;
}

bool tuning_set(Tuning *t, uint64_t key, const Knobs *knobs)
{
    uint32_t at = place(t, key);
    if (at == t->len || t->at[at].key != key) {
        if (t->len == t->cap) {
            uint32_t cap = t->cap ? 2 * t->cap : 64;
            Tuned *more = realloc(t->at, cap * sizeof *more);
            if (!more) return false;
            t->at = more;
            t->cap = cap;
        }
        memmove(t->at + at + 1, t->at + at, (t->len++ - at) * sizeof *t->at);
    }
    t->at[at] = (Tuned){ key, *knobs };
    return true;
}

void tuning_remove(Tuning *t, uint64_t key)
{
    uint32_t at = place(t, key);
    if (at < t->len && t->at[at].key == key) memmove(t->at + at, t->at + at + 1, (--t->len - at) * sizeof *t->at);
}

#include "base/hash.h"

#include <string.h>

/* Reads little-endian words; every target of ours is little-endian. */
uint64_t hash_bytes(const void *p, size_t n, uint64_t seed)
{
    const char *at = p;
    uint64_t h = hash_mix(seed, n), word;
    for (; n >= sizeof word; at += sizeof word, n -= sizeof word) {
        memcpy(&word, at, sizeof word);
        h = hash_mix(h, word);
    }
    word = 0;
    if (n)
        memcpy(&word, at, n);
    return hash_mix(h, word);
}

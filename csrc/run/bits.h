/* Bits of bytes: np.packbits and np.unpackbits of one row. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* n bytes as the bits of (n + 7) / 8, set where a byte is not 0; little: the first is the lowest bit, else the highest. */
void bits_pack(const uint8_t *from, int64_t n, bool little, uint8_t *to);
/* The first n bits of m bytes as bytes, 0 from 8 m on. */
void bits_unpack(const uint8_t *from, int64_t m, bool little, uint8_t *to, int64_t n);

/* 64-bit hashing of bytes; the same value in every process (keys of the disk cache). */
#pragma once
#include <stddef.h>
#include <stdint.h>

uint64_t hash_bytes(const void *p, size_t n, uint64_t seed);
static inline uint64_t hash_mix(uint64_t h, uint64_t v)
{
    __uint128_t m = (__uint128_t)(h ^ 0x9E3779B97F4A7C15u) * (v ^ 0xD6E8FEB86659FD93u);
    return (uint64_t)m ^ (uint64_t)(m >> 64);
}

/* Draws of dropout from counters; see counter.py. */
#pragma once

#include "numbers.h"

static inline uint64_t mixed(uint64_t value) { /* SplitMix64, as in counter.py */
    value += 0x9E3779B97F4A7C15ULL;
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
    return value ^ (value >> 31);
}

/* What the draws of an item differ by from those of others. */
static inline uint64_t key_of_item(uint64_t stream, int64_t step, int64_t seed, int64_t item) {
    const uint64_t draws = mixed(mixed(stream) ^ (uint64_t)step);
    return mixed(mixed(draws ^ (uint64_t)seed) ^ (uint64_t)item);
}

static inline number drop(number value, uint64_t counters, int64_t below, float share) {
    number kept;
    store(&kept, load(&value) / share);
    return (int64_t)(mixed(counters) >> 1) < below ? 0 : kept;
}

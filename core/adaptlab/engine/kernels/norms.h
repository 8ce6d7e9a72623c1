/* Layer norm of a row, and its gradient. */
#pragma once

#include "numbers.h"

static inline float mean_of(const number *x, int64_t width) {
    return sum_of_row(x, 0, width) / width;
}

/* 1/deviation. */
static inline float inverse_of(const number *x, float mean, int64_t width, float epsilon) {
    lanes sums = {0};
    float rest = 0;
    int64_t i = 0;
    for (; i + TOGETHER <= width; i += TOGETHER) {
        const lanes off = load_lanes(x + i) - mean;
        sums += off * off;
    }
    for (; i < width; i++) rest += (load(x + i) - mean) * (load(x + i) - mean);
    return 1.0f / __builtin_sqrtf((sum_of(sums) + rest) / width + epsilon);
}

/* dx from the gradient dy of what is normal and scaled. */
static inline void norm_row_back(const number *x, const number *scale, const number *dy, float mean,
                                 float inverse, number *dx, int64_t width) {
    lanes firsts = {0}, seconds = {0};
    float first = 0, second = 0;
    int64_t at = 0;
    for (; at + TOGETHER <= width; at += TOGETHER) {
        const lanes scaled = load_lanes(dy + at) * load_lanes(scale + at);
        firsts += scaled;
        seconds += scaled * ((load_lanes(x + at) - mean) * inverse);
    }
    for (; at < width; at++) {
        const float scaled = load(dy + at) * load(scale + at);
        first += scaled;
        second += scaled * ((load(x + at) - mean) * inverse);
    }
    first = (sum_of(firsts) + first) / width;
    second = (sum_of(seconds) + second) / width;
#pragma omp simd
    for (int64_t i = 0; i < width; i++) {
        const float normal = (load(x + i) - mean) * inverse;
        const float scaled = load(dy + i) * load(scale + i);
        store(dx + i, inverse * (scaled - first - normal * second));
    }
}

/* Adds a row's part to the gradients of scales and shifts. */
static inline void norm_sums(const number *x, const number *dy, float mean, float inverse,
                             float *scales, float *shifts, int64_t width) {
#pragma omp simd
    for (int64_t i = 0; i < width; i++) {
        scales[i] += load(dy + i) * ((load(x + i) - mean) * inverse);
        shifts[i] += load(dy + i);
    }
}

/* Layer norm of a row, and its gradient. */
#pragma once

#include "numbers.h"

static inline float mean_of(const number *x, int64_t width) {
    float sum = 0;
#pragma omp simd reduction(+:sum)
    for (int64_t i = 0; i < width; i++) sum += load(x + i);
    return sum / width;
}

/* 1/deviation. */
static inline float inverse_of(const number *x, float mean, int64_t width, float epsilon) {
    float squares = 0;
#pragma omp simd reduction(+:squares)
    for (int64_t i = 0; i < width; i++) {
        const float off = load(x + i) - mean;
        squares += off * off;
    }
    return 1.0f / __builtin_sqrtf(squares / width + epsilon);
}

/* dx from the gradient dy of what is normal and scaled. */
static inline void norm_row_back(const number *x, const number *scale, const number *dy, float mean,
                                 float inverse, number *dx, int64_t width) {
    float first = 0, second = 0;
#pragma omp simd reduction(+:first,second)
    for (int64_t i = 0; i < width; i++) {
        const float normal = (load(x + i) - mean) * inverse;
        const float scaled = load(dy + i) * load(scale + i);
        first += scaled;
        second += scaled * normal;
    }
    first /= width;
    second /= width;
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

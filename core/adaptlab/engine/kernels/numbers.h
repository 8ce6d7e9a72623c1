/* Numbers of one dtype, and GELU; what is computed is float32. Numbers of bfloat16 are the upper
 * halves of float32.
 */
#pragma once

#include <stdint.h>
#include <string.h>

#ifdef BFLOAT16
typedef uint16_t number;

static inline float load(const number *from) {
    uint32_t bits = (uint32_t)*from << 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static inline void store(number *to, float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16; /* to nearest, ties to even */
    *to = value == value ? (uint16_t)rounded : 0x7fc0;
}
#else
typedef float number;

static inline float load(const number *from) { return *from; }
static inline void store(number *to, float value) { *to = value; }
#endif

/* A row is summed in this many lanes, which are added in pairs at the end. Compilers add them one
 * by one, which takes longer than the rest of the sum for rows of a hundred numbers. */
#define TOGETHER 16
typedef float lanes __attribute__((vector_size(4 * TOGETHER), aligned(4)));
typedef float four_lanes __attribute__((vector_size(16)));

static inline float sum_of(lanes values) {
    four_lanes parts[TOGETHER / 4];
    memcpy(parts, &values, sizeof parts);
    const four_lanes sum = (parts[0] + parts[1]) + (parts[2] + parts[3]);
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

static inline lanes load_lanes(const number *from) {
    lanes values;
#ifdef BFLOAT16
    for (int i = 0; i < TOGETHER; i++) values[i] = load(from + i);
#else
    memcpy(&values, from, sizeof values);
#endif
    return values;
}

/* The sum of a[i] b[i], or of a[i] if b is none. */
static inline float sum_of_row(const number *a, const number *b, int64_t count) {
    lanes sums = {0};
    float rest = 0;
    int64_t i = 0;
    for (; i + TOGETHER <= count; i += TOGETHER)
        sums += b ? load_lanes(a + i) * load_lanes(b + i) : load_lanes(a + i);
    for (; i < count; i++) rest += b ? load(a + i) * load(b + i) : load(a + i);
    return sum_of(sums) + rest;
}

/* e^x for |x| <= 87, to about one unit in the last place: 2^n 2^f with |f| <= 1/2, the latter by
 * Taylor. */
static inline float exponential(float x) {
    float n = (x * 1.44269504f + 12582912.0f) - 12582912.0f; /* 3 * 2^22 leaves no fraction */
    float f = (x - n * 0.693359375f) + n * 2.12194440e-4f;   /* log 2 in two parts */
    float sum = 1.0f / 5040;
    sum = sum * f + 1.0f / 720;
    sum = sum * f + 1.0f / 120;
    sum = sum * f + 1.0f / 24;
    sum = sum * f + 1.0f / 6;
    sum = sum * f + 0.5f;
    sum = sum * f + 1.0f;
    sum = sum * f + 1.0f;
    uint32_t bits = (uint32_t)((int32_t)n + 127) << 23;
    float power;
    memcpy(&power, &bits, 4);
    return sum * power;
}

/* e^x for x <= 0, and 0 where that is nearly denormal; NaN stays NaN. */
static inline float exponential_or_0(float x) {
    return x < -87.0f ? 0.0f : exponential(x < -87.0f ? -87.0f : x);
}

#define TWICE_INNER 1.59576912f /* 2 sqrt(2/pi) */
#define CUBIC 0.044715f
/* Beyond this GELU is 0 or x to more digits than float32 has. It must be exactly 0: a gradient
 * times 10^-33 is denormal, which takes processors a hundred times as long, and compilers compute
 * it for every number and discard it afterwards. */
#define FAR 9.5f

static inline float bounded(float x) {
    x = x > FAR ? FAR : x; /* NaN stays NaN */
    return x < -FAR ? -FAR : x;
}

/* x / (1 + e^-z) with z = 2 sqrt(2/pi) (x + 0.044715 x^3) is GELU in its tanh form. */
static inline float gelu_and_slope(float x, float *slope) {
    float near = bounded(x), cube = near * near * near;
    float e = exponential(-TWICE_INNER * (near + CUBIC * cube));
    float share = 1.0f / (1.0f + e);
    float steep = share * (1.0f + TWICE_INNER * (near + 3 * CUBIC * cube) * e * share);
    *slope = near <= -FAR ? 0.0f : steep;
    return x > -FAR ? x * share : 0.0f * x;
}

static inline float gelu(float x) {
    float slope;
    return gelu_and_slope(x, &slope);
}

static inline float gelu_slope(float x) {
    float slope;
    gelu_and_slope(x, &slope);
    return slope;
}

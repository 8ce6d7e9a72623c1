/* Matrix products in float32.
 *
 * They are made of tiles of at most TALL rows and WIDE columns that are summed in registers, with
 * one matrix packed in panels of WIDE columns, as in BLIS (Van Zee, van de Geijn 2015). Every sum is
 * taken in the order of what is summed over.
 */
#pragma once

#include "numbers.h"

#include <omp.h>

#if defined(__AVX512F__)
#define LANES 16
#define TALL 8
#elif defined(__AVX2__) && defined(__FMA__)
#define LANES 8
#define TALL 6
#else
#define LANES 4
#define TALL 6
#endif
#define WIDE (2 * LANES)
#define APART 16 /* numbers between rows: if these are 4 KiB apart, they share few sets of a cache */

typedef float vector __attribute__((vector_size(4 * LANES), aligned(4)));

static int64_t whole(int64_t count) { return (count + WIDE - 1) / WIDE * WIDE; }
static int64_t less(int64_t one, int64_t other) { return one < other ? one : other; }

/* panels [columns/WIDE, depth, WIDE] from w [columns, depth] if `by_column`, or from its transpose.
 * They are padded with 0, because denormal numbers that happen to be there would be slow. */
static void pack(const float *w, int64_t w_row, float *panels, int64_t columns, int64_t depth,
                 int by_column) {
    for (int64_t first = 0; first < columns; first += WIDE, panels += depth * WIDE) {
        const int64_t count = less(WIDE, columns - first);
        if (count < WIDE) memset(panels, 0, depth * WIDE * sizeof(float));
        if (by_column)
            for (int64_t j = 0; j < count; j++)
                for (int64_t k = 0; k < depth; k++)
                    panels[k * WIDE + j] = w[(first + j) * w_row + k];
        else
            for (int64_t k = 0; k < depth; k++)
                for (int64_t j = 0; j < count; j++)
                    panels[k * WIDE + j] = w[k * w_row + first + j];
    }
}

/* Rows of numbers: row i and column k are at i * row + k * deeper. */
struct Rows {
    const float *at;
    int64_t row, deeper;
};

/* c [tall, WIDE] = start + the sum over k of a[i, k] b[k]; start is 0 if it is none. */
static inline __attribute__((always_inline)) void tile(const int tall, struct Rows a,
                                                       struct Rows b, struct Rows start, float *c,
                                                       int64_t c_row, int64_t depth) {
    vector sum[TALL][2] = {{{0}}};
    if (start.at)
        for (int i = 0; i < tall; i++)
            for (int j = 0; j < 2; j++)
                sum[i][j] = *(const vector *)(start.at + i * start.row + j * LANES);
    for (int64_t k = 0; k < depth; k++, a.at += a.deeper, b.at += b.row) {
        const vector left = *(const vector *)b.at, right = *(const vector *)(b.at + LANES);
#pragma GCC unroll 8
        for (int i = 0; i < tall; i++) {
            sum[i][0] += a.at[i * a.row] * left;
            sum[i][1] += a.at[i * a.row] * right;
        }
    }
    for (int i = 0; i < tall; i++)
        for (int j = 0; j < 2; j++) *(vector *)(c + i * c_row + j * LANES) = sum[i][j];
}

static inline __attribute__((always_inline)) void tile_of(int64_t tall, struct Rows a,
                                                          struct Rows b, struct Rows start,
                                                          float *c, int64_t c_row, int64_t depth) {
    if (tall == TALL) tile(TALL, a, b, start, c, c_row, depth);
    else if (tall == 4) tile(4, a, b, start, c, c_row, depth);
    else if (tall == 2) tile(2, a, b, start, c, c_row, depth);
    else tile(1, a, b, start, c, c_row, depth);
}

/* c [rows, columns] for at most WIDE columns. */
static inline __attribute__((always_inline)) void strip(struct Rows a, struct Rows b,
                                                        struct Rows start, float *c, int64_t c_row,
                                                        int64_t rows, int64_t columns,
                                                        int64_t depth) {
    float padded[TALL * WIDE];
    const int64_t size = columns * sizeof(float);
    if (columns < WIDE) memset(padded, 0, sizeof padded);
    for (int64_t top = 0, tall; top < rows; top += tall, a.at += tall * a.row, c += tall * c_row) {
        const int64_t left = rows - top;
        tall = left >= TALL ? TALL : left >= 4 ? 4 : left >= 2 ? 2 : 1;
        struct Rows from = start;
        if (start.at) from.at += top * start.row;
        if (columns == WIDE) {
            tile_of(tall, a, b, from, c, c_row, depth);
            continue;
        }
        for (int64_t i = 0; from.at && i < tall; i++)
            memcpy(padded + i * WIDE, from.at + i * from.row, size);
        if (from.at) from = (struct Rows){padded, WIDE, 1};
        tile_of(tall, a, b, from, padded, WIDE, depth);
        for (int64_t i = 0; i < tall; i++) memcpy(c + i * c_row, padded + i * WIDE, size);
    }
}

/* c [rows, columns] = start + a [rows, depth] times a packed matrix. The rows of start are
 * `start_row` apart, so that they may be a bias or c itself; it is 0 if it is none. */
static void product(const float *a, int64_t a_row, const float *panels, const float *start,
                    int64_t start_row, float *c, int64_t c_row, int64_t rows, int64_t columns,
                    int64_t depth) {
    for (int64_t j = 0; j < columns; j += WIDE, panels += depth * WIDE)
        strip((struct Rows){a, a_row, 1}, (struct Rows){panels, WIDE, 1},
              (struct Rows){start ? start + j : 0, start_row, 1}, c + j, c_row, rows,
              less(WIDE, columns - j), depth);
}

/* c [rows, columns] = a [rows, depth] times b [depth, columns], whose rows are in whole panels. */
static void product_of_rows(const float *a, int64_t a_row, const float *b, int64_t b_row, float *c,
                            int64_t c_row, int64_t rows, int64_t columns, int64_t depth) {
    for (int64_t j = 0; j < columns; j += WIDE)
        strip((struct Rows){a, a_row, 1}, (struct Rows){b + j, b_row, 1}, (struct Rows){0, 0, 1},
              c + j, c_row, rows, less(WIDE, columns - j), depth);
}

/* c [left, right] = the sum over rows of a[row, left] b[row, right], and what is there if `adds`;
 * rows of b in whole panels. */
static void sum_products(const float *a, int64_t a_row, const float *b, int64_t b_row, int adds,
                         float *c, int64_t left, int64_t right, int64_t rows) {
    for (int64_t j = 0; j < right; j += WIDE)
        strip((struct Rows){a, 1, a_row}, (struct Rows){b + j, b_row, 1},
              (struct Rows){adds ? c + j : 0, right, 1}, c + j, right, left,
              less(WIDE, right - j), rows);
}

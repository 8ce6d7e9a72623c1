/* Matrix products of layers, and MLPs whose hidden features stay in a core's second-level cache;
 * see fused_products.py.
 *
 * Products are made of tiles of at most TALL rows and WIDE columns that are summed in registers,
 * with one matrix packed in panels of WIDE columns, as in BLIS (Van Zee, van de Geijn 2015). Every
 * sum is taken in the order of what is summed over, and those over rows in parts that depend on the
 * number of rows alone, so that nothing depends on the number of threads.
 */
#include "numbers.h"

#include <omp.h>

#if defined(__AVX512F__)
#define LANES 16
#define TALL 8
#elif defined(__AVX2__)
#define LANES 8
#define TALL 6
#else
#define LANES 4
#define TALL 6
#endif
#define WIDE (2 * LANES)
#define BLOCK 96 /* rows */
#define APART 16 /* numbers between rows: if these are 4 KiB apart, they share few sets of a cache */

typedef float vector __attribute__((vector_size(4 * LANES), aligned(4)));

static int64_t whole(int64_t count) { return (count + WIDE - 1) / WIDE * WIDE; }
static int64_t less(int64_t one, int64_t other) { return one < other ? one : other; }

/* panels [columns/WIDE, depth, WIDE] from w [columns, depth] if `by_column`, or its transpose. */
static void pack(const float *w, float *panels, int64_t columns, int64_t depth, int by_column) {
    for (int64_t first = 0; first < columns; first += WIDE, panels += depth * WIDE) {
        const int64_t count = less(WIDE, columns - first);
        if (count < WIDE) memset(panels, 0, depth * WIDE * sizeof(float));
        if (by_column)
            for (int64_t j = 0; j < count; j++)
                for (int64_t k = 0; k < depth; k++)
                    panels[k * WIDE + j] = w[(first + j) * depth + k];
        else
            for (int64_t k = 0; k < depth; k++)
                for (int64_t j = 0; j < count; j++)
                    panels[k * WIDE + j] = w[k * columns + first + j];
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

/* c [rows, columns] = a [rows, depth] times a packed matrix, plus a bias [columns] or none. */
static void product(const float *a, int64_t a_row, const float *panels, const float *bias, float *c,
                    int64_t c_row, int64_t rows, int64_t columns, int64_t depth) {
    for (int64_t j = 0; j < columns; j += WIDE, panels += depth * WIDE)
        strip((struct Rows){a, a_row, 1}, (struct Rows){panels, WIDE, 1},
              (struct Rows){bias ? bias + j : 0, 0, 1}, c + j, c_row, rows, less(WIDE, columns - j),
              depth);
}

/* c [left, right] += the sum over rows of a[row, left] b[row, right]; rows of b in whole panels. */
static void add_products(const float *a, int64_t a_row, const float *b, int64_t b_row, float *c,
                         int64_t left, int64_t right, int64_t rows) {
    for (int64_t j = 0; j < right; j += WIDE)
        strip((struct Rows){a, 1, a_row}, (struct Rows){b + j, b_row, 1},
              (struct Rows){c + j, right, 1}, c + j, right, left, less(WIDE, right - j), rows);
}

static void add_rows(const float *rows, int64_t count, int64_t width, float *sum) {
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < width; j++) sum[j] += rows[i * width + j];
}

static void copy_apart(const float *from, float *to, int64_t rows, int64_t width) {
    for (int64_t i = 0; i < rows; i++)
        memcpy(to + i * (whole(width) + APART), from + i * width, width * sizeof(float));
}

/* The following arrays are none where what they hold is not needed. Gradients of weights are
 * [G, P, …]: by part of the rows. */
struct Linear {
    const float *x, *weight, *bias; /* [G, N, I], [G, O, I], [G, O] */
    float *y;                       /* [G, N, O] */
    const float *dy;
    float *dx, *dweight, *dbias;
    int64_t groups, rows, inputs, outputs, parts;
};

struct Mlp {
    const float *x, *up, *up_bias, *down, *down_bias; /* [G, N, C], [G, H, C], [G, H], … */
    float *before, *y;                                /* W_up x + b_up [G, N, H], and y [G, N, C] */
    const float *dy;
    float *dx, *dup, *dup_bias, *ddown, *ddown_bias;
    int64_t groups, rows, width, hidden, parts;
};

/* Numbers of scratch memory per thread. */
int64_t linear_scratch(const struct Linear *m) {
    return whole(m->inputs) * whole(m->outputs) + BLOCK * (whole(m->inputs) + APART);
}

int64_t mlp_scratch(const struct Mlp *m) {
    const int64_t width = whole(m->width), hidden = whole(m->hidden);
    return 2 * width * hidden + BLOCK * (width + APART) + 2 * BLOCK * (hidden + APART);
}

static float *zeroed(float *sums, int64_t part, int64_t size) {
    return sums ? memset(sums + part * size, 0, size * sizeof(float)) : 0;
}

/* What a loop over blocks of rows needs: the first row of a part and the one behind it. */
static int64_t bound(int64_t rows, int64_t part, int64_t parts) { return rows * part / parts; }

void linear(const struct Linear *m, float *scratch, int back, int threads) {
    const int64_t inputs = m->inputs, outputs = m->outputs, size = inputs * outputs;
#pragma omp parallel num_threads(threads) if (m->groups * m->parts > 1)
    {
        float *panels = scratch + omp_get_thread_num() * linear_scratch(m);
        float *x = panels + whole(inputs) * whole(outputs);
        int64_t packed = -1;
#pragma omp for schedule(static)
        for (int64_t unit = 0; unit < m->groups * m->parts; unit++) {
            const int64_t group = unit / m->parts, part = unit % m->parts;
            const int64_t stop = bound(m->rows, part + 1, m->parts);
            if (group != packed && (!back || m->dx))
                pack(m->weight + group * size, panels, back ? inputs : outputs,
                     back ? outputs : inputs, !back);
            packed = group;
            float *dweight = zeroed(m->dweight, unit, size);
            float *dbias = zeroed(m->dbias, unit, outputs);
            for (int64_t first = bound(m->rows, part, m->parts); first < stop; first += BLOCK) {
                const int64_t at = group * m->rows + first, rows = less(BLOCK, stop - first);
                if (!back) {
                    product(m->x + at * inputs, inputs, panels,
                            m->bias ? m->bias + group * outputs : 0, m->y + at * outputs, outputs,
                            rows, outputs, inputs);
                    continue;
                }
                const float *dy = m->dy + at * outputs;
                if (m->dx)
                    product(dy, outputs, panels, 0, m->dx + at * inputs, inputs, rows, inputs,
                            outputs);
                if (dbias) add_rows(dy, rows, outputs, dbias);
                if (!dweight) continue;
                copy_apart(m->x + at * inputs, x, rows, inputs);
                add_products(dy, outputs, x, whole(inputs) + APART, dweight, outputs, inputs, rows);
            }
        }
    }
}

static void mlp_block(const struct Mlp *m, const float *up, const float *down, float *middle,
                      int64_t group, int64_t at, int64_t rows) {
    const int64_t width = m->width, hidden = m->hidden, apart = whole(hidden) + APART;
    product(m->x + at * width, width, up, m->up_bias + group * hidden, middle, apart, rows, hidden,
            width);
    for (int64_t i = 0; i < rows; i++) {
        float *row = middle + i * apart;
        if (m->before) memcpy(m->before + (at + i) * hidden, row, hidden * sizeof(float));
#pragma omp simd
        for (int64_t j = 0; j < hidden; j++) row[j] = gelu(row[j]);
    }
    product(middle, apart, down, m->down_bias + group * width, m->y + at * width, width, rows,
            width, hidden);
}

static void mlp_block_back(const struct Mlp *m, const float *up, const float *down, float *x,
                           float *middle, float *activated, int64_t unit, int64_t at,
                           int64_t rows) {
    const int64_t width = m->width, hidden = m->hidden, apart = whole(hidden) + APART;
    const float *dy = m->dy + at * width;
    product(dy, width, down, 0, middle, apart, rows, hidden, width);
    for (int64_t i = 0; i < rows; i++) {
        const float *before = m->before + (at + i) * hidden;
        float *row = middle + i * apart, *value = activated + i * apart;
        if (m->ddown) {
#pragma omp simd
            for (int64_t j = 0; j < hidden; j++) {
                float slope;
                value[j] = gelu_and_slope(before[j], &slope);
                row[j] *= slope;
            }
        } else {
#pragma omp simd
            for (int64_t j = 0; j < hidden; j++) row[j] *= gelu_slope(before[j]);
        }
        if (m->dup_bias) add_rows(row, 1, hidden, m->dup_bias + unit * hidden);
    }
    if (m->ddown_bias) add_rows(dy, rows, width, m->ddown_bias + unit * width);
    if (m->dx)
        product(middle, apart, up, 0, m->dx + at * width, width, rows, width, hidden);
    if (m->dup) {
        copy_apart(m->x + at * width, x, rows, width);
        add_products(middle, apart, x, whole(width) + APART, m->dup + unit * hidden * width, hidden,
                     width, rows);
    }
    if (m->ddown)
        add_products(dy, width, activated, apart, m->ddown + unit * hidden * width, width, hidden,
                     rows);
}

void mlp(const struct Mlp *m, float *scratch, int back, int threads) {
    const int64_t width = m->width, hidden = m->hidden, size = width * hidden;
#pragma omp parallel num_threads(threads) if (m->groups * m->parts > 1)
    {
        float *up = scratch + omp_get_thread_num() * mlp_scratch(m);
        float *down = up + whole(width) * whole(hidden), *x = down + whole(width) * whole(hidden);
        float *middle = x + BLOCK * (whole(width) + APART);
        float *activated = middle + BLOCK * (whole(hidden) + APART);
        int64_t packed = -1;
#pragma omp for schedule(static)
        for (int64_t unit = 0; unit < m->groups * m->parts; unit++) {
            const int64_t group = unit / m->parts, part = unit % m->parts;
            const int64_t stop = bound(m->rows, part + 1, m->parts);
            if (group != packed) {
                pack(m->up + group * size, up, back ? width : hidden, back ? hidden : width, !back);
                pack(m->down + group * size, down, back ? hidden : width, back ? width : hidden,
                     !back);
            }
            packed = group;
            zeroed(m->dup, unit, size);
            zeroed(m->ddown, unit, size);
            zeroed(m->dup_bias, unit, hidden);
            zeroed(m->ddown_bias, unit, width);
            for (int64_t first = bound(m->rows, part, m->parts); first < stop; first += BLOCK) {
                const int64_t at = group * m->rows + first, rows = less(BLOCK, stop - first);
                if (back) mlp_block_back(m, up, down, x, middle, activated, unit, at, rows);
                else mlp_block(m, up, down, middle, group, at, rows);
            }
        }
    }
}

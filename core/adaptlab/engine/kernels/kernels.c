/* Operations in one pass over memory, for which torch makes several on a CPU; see compiled.py.
 *
 * Everything is computed in float32. Sums are taken in an order that does not depend on the number
 * of threads.
 */
#include "draws.h"
#include "norms.h"

#define AT_LEAST 16384 /* numbers from which several threads are used */

void gelu_forward(const number *x, number *y, int64_t n, int threads) {
#pragma omp parallel for simd num_threads(threads) schedule(static) if (n > AT_LEAST)
    for (int64_t i = 0; i < n; i++) store(y + i, gelu(load(x + i)));
}

void gelu_backward(const number *x, const number *dy, number *dx, int64_t n, int threads) {
#pragma omp parallel for simd num_threads(threads) schedule(static) if (n > AT_LEAST)
    for (int64_t i = 0; i < n; i++)
        store(dx + i, load(dy + i) * gelu_slope(load(x + i)));
}

/* y [G, N, C] from x, scale w [G, C] and shift b [G, C] or none; leaves mean and 1/deviation. */
void norm_forward(const number *x, const number *w, const number *b, number *y, float *mean,
                  float *inverse, int64_t groups, int64_t rows, int64_t width, float epsilon,
                  int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (groups * rows * width > AT_LEAST)
    for (int64_t row = 0; row < groups * rows; row++) {
        const number *in = x + row * width, *scale = w + row / rows * width;
        const number *shift = b ? b + row / rows * width : 0;
        number *out = y + row * width;
        const float middle = mean[row] = mean_of(in, width);
        const float steep = inverse[row] = inverse_of(in, middle, width, epsilon);
        if (shift) {
#pragma omp simd
            for (int64_t i = 0; i < width; i++)
                store(out + i, (load(in + i) - middle) * steep * load(scale + i) + load(shift + i));
        } else {
#pragma omp simd
            for (int64_t i = 0; i < width; i++)
                store(out + i, (load(in + i) - middle) * steep * load(scale + i));
        }
    }
}

/* dx and, if sums [G, K, 2, C] is given, the sums of dy x' and dy over each of K blocks. */
void norm_backward(const number *x, const number *w, const number *dy, const float *mean,
                   const float *inverse, number *dx, float *sums, int64_t groups, int64_t rows,
                   int64_t width, int64_t blocks, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (groups * rows * width > AT_LEAST)
    for (int64_t block = 0; block < groups * blocks; block++) {
        int64_t group = block / blocks, part = block % blocks;
        const number *scale = w + group * width;
        float *scales = sums ? sums + block * 2 * width : 0, *shifts = scales + width;
        if (sums) memset(scales, 0, 2 * width * sizeof(float));
        for (int64_t at = rows * part / blocks; at < rows * (part + 1) / blocks; at++) {
            int64_t row = group * rows + at;
            const number *in = x + row * width, *given = dy + row * width;
            number *out = dx + row * width;
            norm_row_back(in, scale, given, mean[row], inverse[row], out, width);
            if (sums) norm_sums(in, given, mean[row], inverse[row], scales, shifts, width);
        }
    }
}

#define MOST_CLASSES 512

/* Copies a row in whole vectors, and returns the logarithm of the sum of its exponentials. */
static float log_sum(const number *logits, float *row, int64_t classes, int64_t all) {
    float most = -__builtin_inff(), sum = 0;
    for (int64_t j = 0; j < classes; j++) row[j] = load(logits + j);
    for (int64_t j = classes; j < all; j++) row[j] = most;
#pragma omp simd reduction(max:most)
    for (int64_t j = 0; j < all; j++) most = row[j] > most ? row[j] : most;
#pragma omp simd reduction(+:sum)
    for (int64_t j = 0; j < all; j++) sum += exponential_or_0(row[j] - most);
    return most + __builtin_logf(sum);
}

static int64_t in_whole(int64_t classes) {
    return (classes + TOGETHER - 1) / TOGETHER * TOGETHER;
}

/* The cross-entropy of targets [N] under logits [N, V], with the logarithms of their sums. */
void losses_forward(const number *logits, const int64_t *targets, number *losses, float *sums,
                    int64_t rows, int64_t classes, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (rows * classes > AT_LEAST)
    for (int64_t i = 0; i < rows; i++) {
        float row[MOST_CLASSES];
        sums[i] = log_sum(logits + i * classes, row, classes, in_whole(classes));
        store(losses + i, sums[i] - row[targets[i]]);
    }
}

void losses_backward(const number *logits, const int64_t *targets, const float *sums,
                     const number *given, number *gradient, int64_t rows, int64_t classes,
                     int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (rows * classes > AT_LEAST)
    for (int64_t i = 0; i < rows; i++) {
        const int64_t all = in_whole(classes);
        float row[MOST_CLASSES];
        for (int64_t j = 0; j < classes; j++) row[j] = load(logits + i * classes + j) - sums[i];
        for (int64_t j = classes; j < all; j++) row[j] = 0;
#pragma omp simd
        for (int64_t j = 0; j < all; j++) row[j] = exponential_or_0(row[j]);
        row[targets[i]] -= 1.0f;
        for (int64_t j = 0; j < classes; j++)
            store(gradient + i * classes + j, row[j] * load(given + i));
    }
}

/* Row v of sums [V, C] is the sum of the rows of dy [N, C] that were taken from it. */
void rows_backward(const number *dy, const int64_t *taken, float *sums, int64_t count,
                   int64_t vocabulary, int64_t width, int threads) {
    int64_t parts = count * width > AT_LEAST ? threads : 1;
#pragma omp parallel for num_threads(threads) schedule(static) if (parts > 1)
    for (int64_t part = 0; part < parts; part++) {
        int64_t from = vocabulary * part / parts, stop = vocabulary * (part + 1) / parts;
        memset(sums + from * width, 0, (stop - from) * width * sizeof(float));
        for (int64_t at = 0; at < count; at++) {
            if (taken[at] < from || taken[at] >= stop) continue;
            float *sum = sums + taken[at] * width;
            const number *given = dy + at * width;
#pragma omp simd
            for (int64_t i = 0; i < width; i++) sum[i] += load(given + i);
        }
    }
}

struct Dropout { /* as in fused_dropout.py */
    const number *x;
    number *y;
    const int64_t *step, *seeds;
    uint64_t stream;
    int64_t below; /* a value is zeroed if its draw is less */
    double share;  /* of the values that are not zeroed */
    int64_t first_item;
    int64_t first_row, row_step, length; /* which rows of `length` positions x holds */
    int64_t from[5], to[5];              /* strides of x and y: replicate, item, head, row, column */
    uint32_t items, heads, rows, columns;
};

/* y from x: values are zeroed where their draws are below a limit, and the others scaled up. The
 * gradient is the same function of the gradient. */
void dropout(const struct Dropout *d, int64_t replicates, int threads) {
    const int64_t both = replicates * d->items, rows = d->rows, columns = d->columns;
    const int64_t all = both * d->heads * rows * columns, below = d->below;
    const int64_t *from = d->from, *to = d->to;
    const float share = (float)d->share;
    const int in_line = from[4] == 1 && to[4] == 1; /* for which compilers make the faster loop */
#pragma omp parallel for num_threads(threads) schedule(static) if (all > AT_LEAST)
    for (int64_t i = 0; i < both; i++) {
        const int64_t replicate = i / d->items, item = i % d->items;
        const uint64_t key =
            key_of_item(d->stream, *d->step, d->seeds[replicate], d->first_item + item);
        for (int64_t j = 0; j < d->heads * rows; j++) {
            const int64_t head = j / rows, row = j % rows;
            const int64_t position = head * d->length + d->first_row + row * d->row_step;
            const uint64_t first = (uint64_t)(position * columns);
            const number *x = d->x + replicate * from[0] + item * from[1] + head * from[2];
            number *y = d->y + replicate * to[0] + item * to[1] + head * to[2];
            x += row * from[3];
            y += row * to[3];
            if (in_line) {
#pragma omp simd
                for (int64_t k = 0; k < columns; k++)
                    y[k] = drop(x[k], key ^ (first + (uint64_t)k), below, share);
            } else {
                for (int64_t k = 0; k < columns; k++)
                    y[k * to[4]] = drop(x[k * from[4]], key ^ (first + (uint64_t)k), below, share);
            }
        }
    }
}

/* AdamW (Loshchilov, Hutter 2019) on gradients that are clipped by their norms, in two passes over
 * memory; see fused_adamw.py.
 *
 * Squares are summed by block of scalars, so that nothing depends on the number of threads.
 */
#include <omp.h>

#include "numbers.h"

/* Some of the N scalars of each replicate. */
struct Part {
    const float *gradient; /* [R, count] */
    int64_t first, count;
};

struct AdamW {
    float *weights, *mean, *square;     /* [R, N] */
    const struct Part *parts;           /* of the gradient, in order */
    const float *decays;                /* [N], 1 where weight decay applies */
    const float *rates, *weight_decays; /* [R] */
    float *sums;                        /* of squares, [R, blocks] */
    double clip, beta_mean, beta_square, mean_correction, root_correction, epsilon;
    int64_t replicates, scalars, blocks;
};

/* The scalars of a part from `first`, whose gradient is multiplied by `share`. */
static void move(const struct AdamW *m, const float *gradient, int64_t replicate, int64_t first,
                 int64_t count, float share) {
    const int64_t at = replicate * m->scalars + first;
    float *weights = m->weights + at, *mean = m->mean + at, *square = m->square + at;
    const float *decays = m->decays + first;
    const float rate = m->rates[replicate], decay = rate * m->weight_decays[replicate];
    const float pace = (float)(rate / m->mean_correction), root = (float)m->root_correction;
    const float of_slope = (float)(1 - m->beta_mean), epsilon = (float)m->epsilon;
    const float kept = (float)m->beta_square, of_square = (float)(1 - m->beta_square);
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        const float slope = gradient[i] * share;
        mean[i] += of_slope * (slope - mean[i]);
        square[i] = kept * square[i] + of_square * slope * slope;
        const float deviation = __builtin_sqrtf(square[i]) / root + epsilon;
        weights[i] = weights[i] * (1.0f - decay * decays[i]) - pace * mean[i] / deviation;
    }
}

static float clip_share(const struct AdamW *m, const float *sums) {
    double sum = 0;
    for (int64_t i = 0; i < m->blocks; i++) sum += sums[i];
    const float share = (float)(m->clip / (__builtin_sqrt(sum) + 1e-6));
    return share > 1.0f ? 1.0f : share; /* NaN stays NaN */
}

/* Sums the squares of a block of a replicate's gradient or, if `moves`, moves the weights. */
static void block(const struct AdamW *m, int64_t unit, int moves) {
    const int64_t replicate = unit / m->blocks, own = unit % m->blocks;
    const int64_t from = m->scalars * own / m->blocks;
    const int64_t stop = m->scalars * (own + 1) / m->blocks;
    const float share = moves ? clip_share(m, m->sums + replicate * m->blocks) : 1.0f;
    float sum = 0;
    for (const struct Part *part = m->parts; part->first < stop; part++) {
        const int64_t end = part->first + part->count;
        const int64_t first = part->first > from ? part->first : from;
        const int64_t count = (end < stop ? end : stop) - first;
        const float *gradient = part->gradient + replicate * part->count + first - part->first;
        if (count > 0 && moves) move(m, gradient, replicate, first, count, share);
        else if (count > 0) sum += sum_of_row(gradient, gradient, count);
        if (end == m->scalars) break;
    }
    if (!moves) m->sums[unit] = sum;
}

void adamw(const struct AdamW *m, int threads) {
    const int64_t units = m->replicates * m->blocks;
#pragma omp parallel num_threads(threads) if (units > 1)
    for (int moves = 0; moves < 2; moves++) {
#pragma omp for schedule(static)
        for (int64_t unit = 0; unit < units; unit++) block(m, unit, moves);
    }
}

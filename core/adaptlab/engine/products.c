/* Linear layers, and MLPs whose hidden features stay in a core's second-level cache, with the norm
 * before them and the residual sum behind them; see fused_products.py.
 *
 * Sums over rows are taken in parts that depend on the number of rows alone, so that nothing depends
 * on the number of threads.
 */
#include "norms.h"
#include "tiles.h"

#define BLOCK 96 /* rows */

/* True where products by vectors of this width were measured to be faster than torch's. */
int products_are_fast(void) { return LANES > 4; }

static void add_rows(const float *rows, int64_t count, int64_t width, float *sum) {
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < width; j++) sum[j] += rows[i * width + j];
}

/* The following arrays are none where what they hold is not needed. Gradients of weights are
 * [G, P, …]: by part of the rows. */

/* What a layer reads: x [G, N, C], or its layer norm if there are scales [G, C]. */
struct Input {
    const float *x, *scale, *shift;
    float *mean, *inverse; /* the norm's, [G, N] */
    float *dx, *dscale, *dshift;
    int64_t width;
    double epsilon;
};

struct Linear {
    struct Input input;
    const float *weight, *bias; /* [G, O, C], [G, O] */
    float *y;                   /* [G, N, O] */
    const float *dy;
    float *dweight, *dbias;
    int64_t groups, rows, outputs, parts;
};

struct Mlp {
    struct Input input;
    const float *up, *up_bias, *down, *down_bias; /* [G, H, C], [G, H], … */
    float *before, *y;                            /* [G, N, H], before the activation; [G, N, C] */
    const float *dy;
    float *dup, *dup_bias, *ddown, *ddown_bias;
    int64_t adds; /* x is added to what the MLP gives */
    int64_t groups, rows, hidden, parts;
};

/* Numbers of scratch memory per thread. */
int64_t linear_scratch(const struct Linear *m) {
    const int64_t width = whole(m->input.width);
    return width * whole(m->outputs) + BLOCK * (width + APART);
}

int64_t mlp_scratch(const struct Mlp *m) {
    const int64_t width = whole(m->input.width), hidden = whole(m->hidden);
    return 2 * width * hidden + BLOCK * (width + APART) + 2 * BLOCK * (hidden + APART);
}

/* What a layer reads, in rows that are apart; mean and 1/deviation are known already if `back`. */
static void read_input(const struct Input *m, float *to, int64_t group, int64_t at, int64_t rows,
                       int back) {
    const int64_t width = m->width;
    for (int64_t i = 0; i < rows; i++) {
        const float *x = m->x + (at + i) * width;
        float *row = to + i * (whole(width) + APART);
        if (!m->scale) {
            memcpy(row, x, width * sizeof(float));
            continue;
        }
        const float *scale = m->scale + group * width, *shift = m->shift + group * width;
        const float mean = back ? m->mean[at + i] : mean_of(x, width);
        const float inverse = back ? m->inverse[at + i] : inverse_of(x, mean, width, m->epsilon);
        if (!back) m->mean[at + i] = mean, m->inverse[at + i] = inverse;
#pragma omp simd
        for (int64_t j = 0; j < width; j++) row[j] = (x[j] - mean) * inverse * scale[j] + shift[j];
    }
}

/* dx, and the gradients of a norm, from the gradient `dy` of what is read; `more` is added. */
static void read_input_back(const struct Input *m, float *dy, const float *more, int64_t group,
                            int64_t unit, int64_t at, int64_t rows) {
    const int64_t width = m->width;
    for (int64_t i = 0; i < rows; i++, dy += whole(width) + APART) {
        const float *x = m->x + (at + i) * width;
        float *dx = m->dx ? m->dx + (at + i) * width : dy;
        if (m->dscale)
            norm_sums(x, dy, m->mean[at + i], m->inverse[at + i], m->dscale + unit * width,
                      m->dshift + unit * width, width);
        if (m->scale)
            norm_row_back(x, m->scale + group * width, dy, m->mean[at + i], m->inverse[at + i], dx,
                          width);
        else if (m->dx) memcpy(dx, dy, width * sizeof(float));
        for (int64_t j = 0; more && j < width; j++) dx[j] += more[(at + i) * width + j];
    }
}

static void clear(float *sums, int64_t part, int64_t size) {
    if (sums) memset(sums + part * size, 0, size * sizeof(float));
}

/* The first row of a part, which is the one behind the part before it. */
static int64_t bound(int64_t rows, int64_t part, int64_t parts) { return rows * part / parts; }

static void linear_block(const struct Linear *m, const float *panels, float *x, int64_t group,
                         int64_t at, int64_t rows) {
    const int64_t width = m->input.width, outputs = m->outputs;
    const float *from = m->input.x + at * width;
    if (m->input.scale) read_input(&m->input, x, group, at, rows, 0);
    product(m->input.scale ? x : from, m->input.scale ? whole(width) + APART : width, panels,
            m->bias ? m->bias + group * outputs : 0, m->y + at * outputs, outputs, rows, outputs,
            width);
}

static void linear_block_back(const struct Linear *m, const float *panels, float *x, int64_t group,
                              int64_t unit, int64_t at, int64_t rows) {
    const int64_t width = m->input.width, outputs = m->outputs;
    const float *dy = m->dy + at * outputs;
    if (m->dbias) add_rows(dy, rows, outputs, m->dbias + unit * outputs);
    if (m->dweight) {
        read_input(&m->input, x, group, at, rows, 1);
        add_products(dy, outputs, x, whole(width) + APART, m->dweight + unit * outputs * width,
                     outputs, width, rows);
    }
    if (!m->input.scale && m->input.dx)
        product(dy, outputs, panels, 0, m->input.dx + at * width, width, rows, width, outputs);
    if (!m->input.scale || (!m->input.dx && !m->input.dscale)) return;
    product(dy, outputs, panels, 0, x, whole(width) + APART, rows, width, outputs);
    read_input_back(&m->input, x, 0, group, unit, at, rows);
}

void linear(const struct Linear *m, float *scratch, int back, int threads) {
    const int64_t width = m->input.width, outputs = m->outputs, size = width * outputs;
    const int packs = !back || m->input.dx || m->input.dscale;
#pragma omp parallel num_threads(threads) if (m->groups * m->parts > 1)
    {
        float *panels = scratch + omp_get_thread_num() * linear_scratch(m);
        float *x = panels + whole(width) * whole(outputs);
        int64_t packed = -1;
#pragma omp for schedule(static)
        for (int64_t unit = 0; unit < m->groups * m->parts; unit++) {
            const int64_t group = unit / m->parts, part = unit % m->parts;
            const int64_t stop = bound(m->rows, part + 1, m->parts);
            if (group != packed && packs)
                pack(m->weight + group * size, width, panels, back ? width : outputs,
                     back ? outputs : width, !back);
            packed = group;
            clear(m->dweight, unit, size);
            clear(m->dbias, unit, outputs);
            clear(m->input.dscale, unit, width);
            clear(m->input.dshift, unit, width);
            for (int64_t first = bound(m->rows, part, m->parts); first < stop; first += BLOCK) {
                const int64_t at = group * m->rows + first, rows = less(BLOCK, stop - first);
                if (back) linear_block_back(m, panels, x, group, unit, at, rows);
                else linear_block(m, panels, x, group, at, rows);
            }
        }
    }
}

static void mlp_block(const struct Mlp *m, const float *up, const float *down, float *x,
                      float *middle, int64_t group, int64_t at, int64_t rows) {
    const int64_t width = m->input.width, hidden = m->hidden, apart = whole(hidden) + APART;
    read_input(&m->input, x, group, at, rows, 0);
    product(x, whole(width) + APART, up, m->up_bias + group * hidden, middle, apart, rows, hidden,
            width);
    for (int64_t i = 0; i < rows; i++) {
        float *row = middle + i * apart;
        if (m->before) memcpy(m->before + (at + i) * hidden, row, hidden * sizeof(float));
#pragma omp simd
        for (int64_t j = 0; j < hidden; j++) row[j] = gelu(row[j]);
    }
    product(middle, apart, down, m->down_bias + group * width, m->y + at * width, width, rows,
            width, hidden);
    if (m->adds)
        for (int64_t i = at * width; i < (at + rows) * width; i++) m->y[i] += m->input.x[i];
}

static void mlp_block_back(const struct Mlp *m, const float *up, const float *down, float *x,
                           float *middle, float *activated, int64_t group, int64_t unit, int64_t at,
                           int64_t rows) {
    const int64_t width = m->input.width, hidden = m->hidden, apart = whole(hidden) + APART;
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
    if (m->ddown)
        add_products(dy, width, activated, apart, m->ddown + unit * hidden * width, width, hidden,
                     rows);
    if (m->dup) {
        read_input(&m->input, x, group, at, rows, 1);
        add_products(middle, apart, x, whole(width) + APART, m->dup + unit * hidden * width, hidden,
                     width, rows);
    }
    if (!m->input.dx && !m->input.dscale) return;
    product(middle, apart, up, 0, x, whole(width) + APART, rows, width, hidden);
    read_input_back(&m->input, x, m->adds ? m->dy : 0, group, unit, at, rows);
}

void mlp(const struct Mlp *m, float *scratch, int back, int threads) {
    const int64_t width = m->input.width, hidden = m->hidden, size = width * hidden;
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
                pack(m->up + group * size, width, up, back ? width : hidden, back ? hidden : width,
                     !back);
                pack(m->down + group * size, hidden, down, back ? hidden : width,
                     back ? width : hidden, !back);
            }
            packed = group;
            clear(m->dup, unit, size);
            clear(m->ddown, unit, size);
            clear(m->dup_bias, unit, hidden);
            clear(m->ddown_bias, unit, width);
            clear(m->input.dscale, unit, width);
            clear(m->input.dshift, unit, width);
            for (int64_t first = bound(m->rows, part, m->parts); first < stop; first += BLOCK) {
                const int64_t at = group * m->rows + first, rows = less(BLOCK, stop - first);
                if (back) mlp_block_back(m, up, down, x, middle, activated, group, unit, at, rows);
                else mlp_block(m, up, down, x, middle, group, at, rows);
            }
        }
    }
}

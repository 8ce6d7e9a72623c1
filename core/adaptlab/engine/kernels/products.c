/* Linear layers that read the same input, and MLPs whose hidden features stay in a core's
 * second-level cache, with the norm before them and the residual sum behind MLPs; see
 * fused_products.py.
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

/* Weights of every group, [G, …], those of a group in one place. */
struct Weights {
    const float *at;
    int64_t group;
};

static const float *of_group(struct Weights weights, int64_t group) {
    return weights.at ? weights.at + group * weights.group : 0;
}

/* What a layer reads: x [G, N, C], or its layer norm if there are scales [G, C]. */
struct Input {
    const float *x;
    struct Weights scale, shift;
    float *mean, *inverse; /* the norm's, [G, N] */
    float *dx, *dscale, *dshift;
    int64_t width;
    double epsilon;
};

/* A linear layer, whose output is multiplied by a factor. */
struct Layer {
    struct Weights weight, bias; /* [G, O, C], [G, O] */
    float *y;                    /* [G, N, O], or [G, N', O] if it reads some rows */
    const float *dy;
    float *dweight, *dbias;
    int64_t outputs, reads_some;
    double factor;
};

#define MOST_LAYERS 3

/* Layers of one input, the first of which reads all of its rows. N is a number of items of `length`
 * rows, of which some layers read those from `first` to before `stop`, together N'. */
struct Linear {
    struct Input input;
    struct Layer layers[MOST_LAYERS];
    float *passed; /* those rows of x, [G, N', C] */
    const float *dpassed;
    int64_t count, groups, rows, parts;
    int64_t first, stop, length;
};

struct Mlp {
    struct Input input;
    struct Weights up, up_bias, down, down_bias; /* [G, H, C], [G, H], … */
    float *before, *y;                           /* [G, N, H], before the activation; [G, N, C] */
    const float *dy;
    float *dup, *dup_bias, *ddown, *ddown_bias;
    int64_t adds; /* x is added to what the MLP gives */
    int64_t groups, rows, hidden, parts;
};

/* Numbers of scratch memory per thread. */
int64_t linear_scratch(const struct Linear *m) {
    const int64_t width = whole(m->input.width);
    int64_t size = 2 * BLOCK * (width + APART);
    for (int64_t k = 0; k < m->count; k++) size += (width + 1) * whole(m->layers[k].outputs);
    return size;
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
        if (!m->scale.at) {
            memcpy(row, x, width * sizeof(float));
            continue;
        }
        const float *scale = of_group(m->scale, group), *shift = of_group(m->shift, group);
        const float mean = back ? m->mean[at + i] : mean_of(x, width);
        const float inverse = back ? m->inverse[at + i] : inverse_of(x, mean, width, m->epsilon);
        if (!back) m->mean[at + i] = mean, m->inverse[at + i] = inverse;
#pragma omp simd
        for (int64_t j = 0; j < width; j++) row[j] = (x[j] - mean) * inverse * scale[j] + shift[j];
    }
}

/* dx, and the gradients of a norm, from the gradient `dy` of what is read. */
static void read_input_back(const struct Input *m, float *dy, int64_t group, int64_t unit,
                            int64_t at, int64_t rows) {
    const int64_t width = m->width;
    for (int64_t i = 0; i < rows; i++, dy += whole(width) + APART) {
        const float *x = m->x + (at + i) * width;
        float *dx = m->dx ? m->dx + (at + i) * width : dy;
        if (m->dscale)
            norm_sums(x, dy, m->mean[at + i], m->inverse[at + i], m->dscale + unit * width,
                      m->dshift + unit * width, width);
        if (m->scale.at)
            norm_row_back(x, of_group(m->scale, group), dy, m->mean[at + i], m->inverse[at + i],
                          dx, width);
        else if (m->dx) memcpy(dx, dy, width * sizeof(float));
    }
}

static void clear(float *sums, int64_t part, int64_t size) {
    if (sums) memset(sums + part * size, 0, size * sizeof(float));
}

static void scale(float *sums, int64_t part, int64_t size, double factor) {
    if (sums && factor != 1)
        for (int64_t i = part * size; i < (part + 1) * size; i++) sums[i] *= (float)factor;
}

/* The first row of a part, which is the one behind the part before it. */
static int64_t bound(int64_t rows, int64_t part, int64_t parts) { return rows * part / parts; }

/* How many of the rows before this one are read by layers that read some. */
static int64_t some_before(const struct Linear *m, int64_t row) {
    const int64_t each = m->stop - m->first, within = row % m->length - m->first;
    return row / m->length * each + (within < 0 ? 0 : less(within, each));
}

static int is_some(const struct Linear *m, int64_t row) {
    return row % m->length >= m->first && row % m->length < m->stop;
}

/* The scratch memory of a thread: packed weights, biases, and a block's rows, of which some come
 * again by themselves. */
struct LinearScratch {
    float *panels[MOST_LAYERS], *biases[MOST_LAYERS], *x, *some;
};

static void pack_layer(const struct Linear *m, int64_t k, const struct LinearScratch *s,
                       int64_t group, int back) {
    const struct Layer *layer = m->layers + k;
    const int64_t width = m->input.width, outputs = layer->outputs;
    const float *bias = of_group(layer->bias, group), factor = (float)layer->factor;
    pack(of_group(layer->weight, group), width, s->panels[k], back ? width : outputs,
         back ? outputs : width, !back);
    const int64_t size = back ? whole(width) * outputs : whole(outputs) * width;
    for (int64_t i = 0; factor != 1.0f && i < size; i++) s->panels[k][i] *= factor;
    for (int64_t i = 0; !back && i < outputs; i++) s->biases[k][i] = bias ? factor * bias[i] : 0;
}

/* Copies those rows of a block that some layers read. */
static void take_some(const struct Linear *m, const float *rows, int64_t apart, float *to,
                      int64_t to_row, int64_t at, int64_t count) {
    for (int64_t i = 0, taken = 0; i < count; i++)
        if (is_some(m, at + i))
            memcpy(to + taken++ * to_row, rows + i * apart, m->input.width * sizeof(float));
}

static void add_some(const struct Linear *m, const float *some, int64_t some_row, float *to,
                     int64_t to_row, int64_t at, int64_t count) {
    for (int64_t i = 0, taken = 0; i < count; i++)
        if (is_some(m, at + i))
            add_rows(some + taken++ * some_row, 1, m->input.width, to + i * to_row);
}

static void linear_block(const struct Linear *m, const struct LinearScratch *s, int64_t group,
                         int64_t at, int64_t rows) {
    const int64_t width = m->input.width, apart = whole(width) + APART;
    const int64_t some_at = some_before(m, at), some = some_before(m, at + rows) - some_at;
    const float *read = m->input.x + at * width;
    int64_t row = width;
    if (m->passed) take_some(m, read, width, m->passed + some_at * width, width, at, rows);
    if (m->input.scale.at) {
        read_input(&m->input, s->x, group, at, rows, 0);
        read = s->x, row = apart;
    }
    for (int64_t k = 0, are_taken = 0; k < m->count; k++) {
        const struct Layer *layer = m->layers + k;
        const int64_t outputs = layer->outputs;
        if (layer->reads_some && !are_taken++) take_some(m, read, row, s->some, apart, at, rows);
        if (layer->reads_some)
            product(s->some, apart, s->panels[k], s->biases[k], 0, layer->y + some_at * outputs,
                    outputs, some, outputs, width);
        else
            product(read, row, s->panels[k], s->biases[k], 0, layer->y + at * outputs, outputs,
                    rows, outputs, width);
    }
}

/* The gradients of weights, of what is read in a block. */
static void weights_back(const struct Linear *m, const struct LinearScratch *s, int64_t group,
                         int64_t unit, int64_t at, int64_t rows) {
    const int64_t width = m->input.width, apart = whole(width) + APART;
    const int64_t some_at = some_before(m, at), some = some_before(m, at + rows) - some_at;
    int are_read = 0, are_taken = 0;
    for (int64_t k = 0; k < m->count; k++) {
        const struct Layer *layer = m->layers + k;
        const int64_t outputs = layer->outputs, count = layer->reads_some ? some : rows;
        const float *dy = layer->dy + (layer->reads_some ? some_at : at) * outputs;
        if (layer->dbias) add_rows(dy, count, outputs, layer->dbias + unit * outputs);
        if (!layer->dweight) continue;
        if (!are_read++) read_input(&m->input, s->x, group, at, rows, 1);
        if (layer->reads_some && !are_taken++) take_some(m, s->x, apart, s->some, apart, at, rows);
        sum_products(dy, outputs, layer->reads_some ? s->some : s->x, apart, 1,
                     layer->dweight + unit * outputs * width, outputs, width, count);
    }
}

static void linear_block_back(const struct Linear *m, const struct LinearScratch *s, int64_t group,
                              int64_t unit, int64_t at, int64_t rows) {
    const int64_t width = m->input.width, apart = whole(width) + APART;
    const int64_t some_at = some_before(m, at), some = some_before(m, at + rows) - some_at;
    weights_back(m, s, group, unit, at, rows);
    if (!m->input.dx && !m->input.dscale) return;
    float *to = m->input.scale.at ? s->x : m->input.dx + at * width;
    const int64_t row = m->input.scale.at ? apart : width;
    for (int64_t k = 0; k < m->count; k++) {
        const struct Layer *layer = m->layers + k;
        const float *dy = layer->dy + (layer->reads_some ? some_at : at) * layer->outputs;
        if (layer->reads_some) {
            product(dy, layer->outputs, s->panels[k], 0, 0, s->some, apart, some, width,
                    layer->outputs);
            add_some(m, s->some, apart, to, row, at, rows);
        } else {
            product(dy, layer->outputs, s->panels[k], k ? to : 0, row, to, row, rows, width,
                    layer->outputs);
        }
    }
    if (m->input.scale.at) read_input_back(&m->input, s->x, group, unit, at, rows);
    if (m->dpassed && m->input.dx)
        add_some(m, m->dpassed + some_at * width, width, m->input.dx + at * width, width, at, rows);
}

static void place_linear(const struct Linear *m, struct LinearScratch *s, float *at) {
    const int64_t width = whole(m->input.width);
    for (int64_t k = 0; k < m->count; k++) {
        s->panels[k] = at, at += width * whole(m->layers[k].outputs);
        s->biases[k] = at, at += whole(m->layers[k].outputs);
    }
    s->x = at, at += BLOCK * (width + APART);
    s->some = at;
}

void linear(const struct Linear *m, float *scratch, int back, int threads) {
    const int64_t width = m->input.width;
    const int packs = !back || m->input.dx || m->input.dscale;
#pragma omp parallel num_threads(threads) if (m->groups * m->parts > 1)
    {
        struct LinearScratch s;
        place_linear(m, &s, scratch + omp_get_thread_num() * linear_scratch(m));
        int64_t packed = -1;
#pragma omp for schedule(static)
        for (int64_t unit = 0; unit < m->groups * m->parts; unit++) {
            const int64_t group = unit / m->parts, part = unit % m->parts;
            const int64_t stop = bound(m->rows, part + 1, m->parts);
            for (int64_t k = 0; k < m->count; k++) {
                const struct Layer *layer = m->layers + k;
                if (group != packed && packs) pack_layer(m, k, &s, group, back);
                clear(layer->dweight, unit, layer->outputs * width);
                clear(layer->dbias, unit, layer->outputs);
            }
            packed = group;
            clear(m->input.dscale, unit, width);
            clear(m->input.dshift, unit, width);
            for (int64_t first = bound(m->rows, part, m->parts); first < stop; first += BLOCK) {
                const int64_t at = group * m->rows + first, rows = less(BLOCK, stop - first);
                if (back) linear_block_back(m, &s, group, unit, at, rows);
                else linear_block(m, &s, group, at, rows);
            }
            for (int64_t k = 0; k < m->count; k++) {
                const struct Layer *layer = m->layers + k;
                scale(layer->dweight, unit, layer->outputs * width, layer->factor);
                scale(layer->dbias, unit, layer->outputs, layer->factor);
            }
        }
    }
}

static void mlp_block(const struct Mlp *m, const float *up, const float *down, float *x,
                      float *middle, int64_t group, int64_t at, int64_t rows) {
    const int64_t width = m->input.width, hidden = m->hidden, apart = whole(hidden) + APART;
    read_input(&m->input, x, group, at, rows, 0);
    product(x, whole(width) + APART, up, of_group(m->up_bias, group), 0, middle, apart, rows,
            hidden, width);
    for (int64_t i = 0; i < rows; i++) {
        float *row = middle + i * apart;
        if (m->before) memcpy(m->before + (at + i) * hidden, row, hidden * sizeof(float));
#pragma omp simd
        for (int64_t j = 0; j < hidden; j++) row[j] = gelu(row[j]);
    }
    product(middle, apart, down, of_group(m->down_bias, group), 0, m->y + at * width, width, rows,
            width, hidden);
    if (m->adds)
        for (int64_t i = at * width; i < (at + rows) * width; i++) m->y[i] += m->input.x[i];
}

static void mlp_block_back(const struct Mlp *m, const float *up, const float *down, float *x,
                           float *middle, float *activated, int64_t group, int64_t unit, int64_t at,
                           int64_t rows) {
    const int64_t width = m->input.width, hidden = m->hidden, apart = whole(hidden) + APART;
    const float *dy = m->dy + at * width;
    product(dy, width, down, 0, 0, middle, apart, rows, hidden, width);
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
        sum_products(dy, width, activated, apart, 1, m->ddown + unit * hidden * width, width,
                     hidden, rows);
    if (m->dup) {
        read_input(&m->input, x, group, at, rows, 1);
        sum_products(middle, apart, x, whole(width) + APART, 1, m->dup + unit * hidden * width,
                     hidden, width, rows);
    }
    if (!m->input.dx && !m->input.dscale) return;
    product(middle, apart, up, 0, 0, x, whole(width) + APART, rows, width, hidden);
    read_input_back(&m->input, x, group, unit, at, rows);
    if (m->adds && m->input.dx)
        for (int64_t i = at * width; i < (at + rows) * width; i++) m->input.dx[i] += m->dy[i];
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
                pack(of_group(m->up, group), width, up, back ? width : hidden,
                     back ? hidden : width, !back);
                pack(of_group(m->down, group), hidden, down, back ? hidden : width,
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

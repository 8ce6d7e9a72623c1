/* Causal attention to learned positions and content, an item and a head at a time; see
 * fused_attention.py.
 *
 * Sums over items are taken in parts that depend on the number of items alone, so that nothing
 * depends on the number of threads.
 */
#include <omp.h>

#include "draws.h"
#include "tiles.h"

/* [A, B, H, n, D] with distances between its parts. One of A serves `share` replicates. With tokens
 * [A2, B, n], B is the vocabulary, and a row of an item is that of its token there. */
struct View {
    float *at;
    int64_t share, replicate, item, head, row;
    const int64_t *tokens;
    int64_t tokens_share, tokens_replicate, tokens_item;
};

/* Q rows attend to L learned positions and to N of content, of T together. Arrays are none where
 * what they hold is not needed. */
struct Attention {
    struct View queries, keys, values, learned_keys, learned_values, mixed;
    float *pattern; /* before dropout, [R, B, H, Q, T] */
    struct View incoming;
    struct View of_queries, of_keys, of_values;   /* sums of parts [R·P, …] where there are tokens */
    float *of_learned_keys, *of_learned_values;   /* by part of the items: [R, P, H, L, D] */
    const int64_t *step, *seeds;                  /* of dropout, as in fused_dropout.py */
    uint64_t stream;
    int64_t below, first_item;
    double share;
    int64_t replicates, together; /* those of which one after the other share keys and values */
    int64_t items, heads, rows, positions, learned, width, first_row, parts;
};

/* The scratch memory of a thread; rows are in whole panels. */
struct Scratch {
    float *keys, *values, *queries, *incoming; /* [T or Q, D] */
    float *panels, *learned;                   /* keys or values of content, and learned ones */
    float *scores;                             /* [Q, N] */
    float *pattern, *kept, *slope;             /* [Q, T] */
    float *sum;                                /* [T, D] */
    int64_t width, all, positions, learned_row;
};

/* Where a computation is: the replicate, the part of the items, the item and the head. */
struct Place {
    int64_t replicate, part, item, head;
};

static float *place(const struct Attention *m, struct Scratch *s, float *at) {
    const int64_t all = m->learned + m->positions;
    s->width = whole(m->width), s->all = whole(all);
    s->positions = whole(m->positions), s->learned_row = whole(m->learned);
    s->keys = at, at += all * s->width;
    s->values = at, at += all * s->width;
    s->queries = at, at += m->rows * s->width;
    s->incoming = at, at += m->rows * s->width;
    s->panels = at, at += s->positions * m->width;
    s->learned = at, at += s->learned_row * m->width;
    s->scores = at, at += m->rows * s->positions;
    s->pattern = at, at += m->rows * s->all;
    s->kept = at, at += m->rows * s->all;
    s->slope = at, at += m->rows * s->all;
    s->sum = at, at += all * s->width;
    return at;
}

/* Numbers of scratch memory per thread. */
int64_t attention_scratch(const struct Attention *m) {
    struct Scratch s;
    return whole(place(m, &s, 0) - (float *)0);
}

static float *row_of(const struct View *v, struct Place p, int64_t i) {
    float *own = v->at + p.replicate / v->share * v->replicate + p.head * v->head + i * v->row;
    if (!v->tokens) return own + p.item * v->item;
    const int64_t *tokens = v->tokens + p.replicate / v->tokens_share * v->tokens_replicate;
    return own + tokens[p.item * v->tokens_item + i] * v->item;
}

static void gather(const struct View *v, struct Place p, float *to, int64_t to_row, int64_t count,
                   int64_t width) {
    for (int64_t i = 0; i < count; i++, to += to_row) {
        memcpy(to, row_of(v, p, i), width * sizeof(float));
        if (to_row > width) memset(to + width, 0, (to_row - width) * sizeof(float));
    }
}

/* Gives rows to a view, or adds them to those of their tokens. */
static void give(const struct View *v, struct Place p, const float *from, int64_t from_row,
                 int64_t count, int64_t width, int64_t parts) {
    const int64_t sums = p.replicate * parts + p.part;
    for (int64_t i = 0; i < count; i++, from += from_row) {
        float *to = row_of(v, p, i) + (v->tokens ? (sums - p.replicate) * v->replicate : 0);
        if (!v->tokens) memcpy(to, from, width * sizeof(float));
        else
            for (int64_t j = 0; j < width; j++) to[j] += from[j];
    }
}

/* Replaces scores by their softmax over the first `count`. */
static void softmax(float *row, int64_t count, int64_t all) {
    for (int64_t j = count; j < all; j++) row[j] = -__builtin_inff();
    float most = row[0], sum = 0;
#pragma omp simd reduction(max:most)
    for (int64_t j = 0; j < all; j++) most = row[j] > most ? row[j] : most;
#pragma omp simd reduction(+:sum)
    for (int64_t j = 0; j < all; j++) {
        row[j] = exponential_or_0(row[j] - most);
        sum += row[j];
    }
    const float share = 1.0f / sum;
#pragma omp simd
    for (int64_t j = 0; j < all; j++) row[j] *= share;
}

static uint64_t key_of(const struct Attention *m, struct Place p) {
    return key_of_item(m->stream, *m->step, m->seeds[p.replicate], m->first_item + p.item);
}

static void drop_row(const struct Attention *m, uint64_t key, int64_t head, int64_t i, float *row) {
    const int64_t all = m->learned + m->positions;
    const uint64_t first = (uint64_t)((head * m->positions + m->first_row + i) * all);
    const float share = (float)m->share;
#pragma omp simd
    for (int64_t j = 0; j < all; j++)
        row[j] = drop(row[j], key ^ (first + (uint64_t)j), m->below, share);
}

/* Factors [Q, L + N] of queries and keys, or of gradients and values: `panels` and `learned` are
 * packed already. The part of content is in `content`, of which whole panels are computed. */
static void factors(const struct Attention *m, const struct Scratch *s, const float *rows,
                    const float *content, float *to) {
    if (m->learned)
        product(rows, s->width, s->learned, 0, to, s->all, m->rows, m->learned, m->width);
    for (int64_t i = 0; i < m->rows; i++)
        memcpy(to + i * s->all + m->learned, content + i * s->positions,
               m->positions * sizeof(float));
}

static int64_t pattern_at(const struct Attention *m, struct Place p) {
    const int64_t head = (p.replicate * m->items + p.item) * m->heads + p.head;
    return head * m->rows * (m->learned + m->positions);
}

static void attend(const struct Attention *m, const struct Scratch *s, struct Place p, int first) {
    const int64_t all = m->learned + m->positions, width = m->width;
    const uint64_t key = m->seeds ? key_of(m, p) : 0;
    float *own_keys = s->keys + m->learned * s->width;
    if (first) {
        gather(&m->keys, p, own_keys, s->width, m->positions, width);
        gather(&m->values, p, s->values + m->learned * s->width, s->width, m->positions, width);
        pack(own_keys, s->width, s->panels, m->positions, width, 1);
    }
    if (m->learned) {
        gather(&m->learned_keys, p, s->keys, s->width, m->learned, width);
        gather(&m->learned_values, p, s->values, s->width, m->learned, width);
        pack(s->keys, s->width, s->learned, m->learned, width, 1);
    }
    if (first || m->queries.share % m->together) {
        gather(&m->queries, p, s->queries, s->width, m->rows, width);
        product(s->queries, s->width, s->panels, 0, s->scores, s->positions, m->rows, s->positions,
                width);
    }
    factors(m, s, s->queries, s->scores, s->pattern);
    float *pattern = m->pattern ? m->pattern + pattern_at(m, p) : 0;
    for (int64_t i = 0; i < m->rows; i++) {
        float *row = s->pattern + i * s->all;
        softmax(row, m->learned + m->first_row + i + 1, s->all);
        if (pattern) memcpy(pattern + i * all, row, all * sizeof(float));
        if (m->seeds) drop_row(m, key, p.head, i, row);
    }
    product_of_rows(s->pattern, s->all, s->values, s->width, row_of(&m->mixed, p, 0), m->mixed.row,
                    m->rows, width, all);
}

/* The gradients of keys or values: sums over rows of [Q, T] times [Q, D]. */
static void give_sums(const struct Attention *m, const struct Scratch *s, const float *left,
                      const float *right, const struct View *own, float *learned, struct Place p) {
    const int64_t count = own->at ? m->learned + m->positions : m->learned, width = m->width;
    if (!own->at && !learned) return;
    memset(s->sum, 0, count * s->width * sizeof(float));
    add_products(left, s->all, right, s->width, s->sum, count, s->width, m->rows);
    if (learned) learned += (p.replicate * m->parts + p.part) * m->heads * m->learned * width;
    for (int64_t i = 0; learned && i < m->learned; i++)
        for (int64_t j = 0; j < width; j++)
            learned[(p.head * m->learned + i) * width + j] += s->sum[i * s->width + j];
    if (own->at)
        give(own, p, s->sum + m->learned * s->width, s->width, m->positions, width, m->parts);
}

static void attend_back(const struct Attention *m, const struct Scratch *s, struct Place p,
                        int first) {
    const int64_t all = m->learned + m->positions, width = m->width;
    const uint64_t key = m->seeds ? key_of(m, p) : 0;
    float *own_values = s->values + m->learned * s->width;
    if (first) {
        gather(&m->values, p, own_values, s->width, m->positions, width);
        pack(own_values, s->width, s->panels, m->positions, width, 1);
    }
    if (m->learned) {
        gather(&m->learned_values, p, s->values, s->width, m->learned, width);
        pack(s->values, s->width, s->learned, m->learned, width, 1);
    }
    gather(&m->incoming, p, s->incoming, s->width, m->rows, width);
    product(s->incoming, s->width, s->panels, 0, s->scores, s->positions, m->rows, s->positions,
            width);
    factors(m, s, s->incoming, s->scores, s->slope);
    const float *pattern = m->pattern + pattern_at(m, p);
    for (int64_t i = 0; i < m->rows; i++) {
        float *before = s->pattern + i * s->all, *kept = s->kept + i * s->all;
        float *slope = s->slope + i * s->all, sum = 0;
        memcpy(before, pattern + i * all, all * sizeof(float));
        for (int64_t j = all; j < s->all; j++) before[j] = slope[j] = 0;
        memcpy(kept, before, s->all * sizeof(float));
        if (m->seeds) drop_row(m, key, p.head, i, kept), drop_row(m, key, p.head, i, slope);
#pragma omp simd reduction(+:sum)
        for (int64_t j = 0; j < s->all; j++) sum += slope[j] * before[j];
#pragma omp simd
        for (int64_t j = 0; j < s->all; j++) slope[j] = before[j] * (slope[j] - sum);
    }
    give_sums(m, s, s->kept, s->incoming, &m->of_values, m->of_learned_values, p);
    if (m->of_queries.at) {
        gather(&m->learned_keys, p, s->keys, s->width, m->learned, width);
        gather(&m->keys, p, s->keys + m->learned * s->width, s->width, m->positions, width);
        product_of_rows(s->slope, s->all, s->keys, s->width, s->queries, s->width, m->rows,
                        s->width, all);
        give(&m->of_queries, p, s->queries, s->width, m->rows, width, m->parts);
    }
    if (m->of_keys.at || m->of_learned_keys) {
        gather(&m->queries, p, s->queries, s->width, m->rows, width);
        give_sums(m, s, s->slope, s->queries, &m->of_keys, m->of_learned_keys, p);
    }
}

/* Sets to 0 what a part of a replicate's items adds to. */
static void clear(const struct Attention *m, int64_t unit) {
    const int64_t learned = m->heads * m->learned * m->width;
    float *of_learned[] = {m->of_learned_keys, m->of_learned_values};
    const struct View *views[] = {&m->of_queries, &m->of_keys, &m->of_values};
    for (int i = 0; i < 2; i++)
        if (of_learned[i]) memset(of_learned[i] + unit * learned, 0, learned * sizeof(float));
    for (int i = 0; i < 3; i++)
        if (views[i]->at && views[i]->tokens)
            memset(views[i]->at + unit * views[i]->replicate, 0,
                   views[i]->replicate * sizeof(float));
}

void attention(const struct Attention *m, float *scratch, int back, int threads) {
    const int64_t units = m->replicates / m->together * m->parts;
#pragma omp parallel num_threads(threads) if (units > 1)
    {
        struct Scratch s;
        place(m, &s, scratch + omp_get_thread_num() * attention_scratch(m));
#pragma omp for schedule(static)
        for (int64_t unit = 0; unit < units; unit++) {
            const int64_t group = unit / m->parts * m->together, part = unit % m->parts;
            const int64_t stop = m->items * (part + 1) / m->parts;
            for (int64_t own = 0; back && own < m->together; own++)
                clear(m, (group + own) * m->parts + part);
            for (int64_t item = m->items * part / m->parts; item < stop; item++)
                for (int64_t head = 0; head < m->heads; head++)
                    for (int64_t own = 0; own < m->together; own++) {
                        const struct Place p = {group + own, part, item, head};
                        if (back) attend_back(m, &s, p, own == 0);
                        else attend(m, &s, p, own == 0);
                    }
        }
    }
}

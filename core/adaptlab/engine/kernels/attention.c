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

/* The scratch memory of a thread; rows are in whole panels. Keys and values have rows of all heads,
 * or if these are not side by side, of one. */
struct Scratch {
    float *keys, *values;          /* [T, H·D or D] */
    float *queries, *incoming;     /* [Q, D] */
    float *panels, *learned;       /* keys or values of content, and learned ones */
    float *scores;                 /* [Q, N] */
    float *pattern, *kept, *slope; /* [Q, T] */
    float *sum;                    /* [T, D] */
    int64_t width, all, positions, learned_row;
    int64_t row, next; /* numbers between rows, and between heads, of keys and values */
};

/* Where a computation is: the replicate, the part of the items, the item and the head. */
struct Place {
    int64_t replicate, part, item, head;
};

static float *place(const struct Attention *m, struct Scratch *s, float *at) {
    const int64_t all = m->learned + m->positions;
    const int together = m->keys.head == m->width && m->values.head == m->width;
    s->width = whole(m->width), s->all = whole(all);
    s->positions = whole(m->positions), s->learned_row = whole(m->learned);
    s->next = together ? m->width : 0;
    s->row = together ? whole(m->heads * m->width) + WIDE : s->width;
    s->keys = at, at += all * s->row;
    s->values = at, at += all * s->row;
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

/* The rows of a head: of an item, or with tokens those of every token. */
struct Head {
    float *at;
    int64_t row, item;
    const int64_t *tokens;
};

static struct Head head_of(const struct View *v, struct Place p) {
    float *own = v->at + p.replicate / v->share * v->replicate + p.head * v->head;
    if (!v->tokens) return (struct Head){own + p.item * v->item, v->row, 0, 0};
    const int64_t *tokens = v->tokens + p.replicate / v->tokens_share * v->tokens_replicate;
    return (struct Head){own, v->row, v->item, tokens + p.item * v->tokens_item};
}

static inline float *row_of(const struct Head *head, int64_t i) {
    return head->at + i * head->row + (head->tokens ? head->tokens[i] * head->item : 0);
}

static inline void copy(const float *from, float *to, int64_t count) {
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) memcpy(to + i, from + i, LANES * sizeof(float));
    for (; i + 4 <= count; i += 4) memcpy(to + i, from + i, 4 * sizeof(float));
    for (; i < count; i++) to[i] = from[i];
}

static void gather(const struct View *v, struct Place p, float *to, int64_t to_row, int64_t count,
                   int64_t width) {
    if (!count) return;
    const struct Head head = head_of(v, p);
    for (int64_t i = 0; i < count; i++) copy(row_of(&head, i), to + i * to_row, width);
}

/* Gathers keys or values of content, behind those of learned positions, unless they are there. */
static void gather_content(const struct Attention *m, const struct Scratch *s, const struct View *v,
                           struct Place p, float *to) {
    if (p.head == 0 || !s->next)
        gather(v, p, to + m->learned * s->row, s->row, m->positions,
               s->next ? m->heads * m->width : m->width);
}

/* Gives rows to a view, or adds them to those of their tokens. */
static void give(const struct View *v, struct Place p, const float *from, int64_t from_row,
                 int64_t count, int64_t width, int64_t parts) {
    struct Head head = head_of(v, p);
    if (head.tokens) head.at += (p.replicate * (parts - 1) + p.part) * v->replicate;
    for (int64_t i = 0; i < count; i++, from += from_row) {
        float *to = row_of(&head, i);
        if (!head.tokens) copy(from, to, width);
        else
            for (int64_t j = 0; j < width; j++) to[j] += from[j];
    }
}

/* Replaces scores by their softmax over the first `count`. */
static void softmax(float *row, int64_t count, int64_t all) {
    for (int64_t j = count; j < all; j++) row[j] = -__builtin_inff();
    float most = row[0];
#pragma omp simd reduction(max:most)
    for (int64_t j = 0; j < all; j++) most = row[j] > most ? row[j] : most;
#pragma omp simd
    for (int64_t j = 0; j < all; j++) row[j] = exponential_or_0(row[j] - most);
    const float share = 1.0f / sum_of_row(row, 0, all);
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
    if (!m->learned) { /* rows are as long */
        copy(content, to, m->rows * s->all);
        return;
    }
    product(rows, s->width, s->learned, 0, 0, to, s->all, m->rows, m->learned, m->width);
    for (int64_t i = 0; i < m->rows; i++)
        copy(content + i * s->positions, to + i * s->all + m->learned, m->positions);
}

static int64_t pattern_at(const struct Attention *m, struct Place p) {
    const int64_t head = (p.replicate * m->items + p.item) * m->heads + p.head;
    return head * m->rows * (m->learned + m->positions);
}

static void attend(const struct Attention *m, const struct Scratch *s, struct Place p, int first) {
    const int64_t all = m->learned + m->positions, width = m->width;
    const uint64_t key = m->seeds ? key_of(m, p) : 0;
    float *keys = s->keys + p.head * s->next, *values = s->values + p.head * s->next;
    if (first) {
        gather_content(m, s, &m->keys, p, s->keys);
        gather_content(m, s, &m->values, p, s->values);
        pack(keys + m->learned * s->row, s->row, s->panels, m->positions, width, 1);
    }
    if (m->learned) {
        gather(&m->learned_keys, p, keys, s->row, m->learned, width);
        gather(&m->learned_values, p, values, s->row, m->learned, width);
        pack(keys, s->row, s->learned, m->learned, width, 1);
    }
    if (first || m->queries.share % m->together) {
        gather(&m->queries, p, s->queries, s->width, m->rows, width);
        product(s->queries, s->width, s->panels, 0, 0, s->scores, s->positions, m->rows,
                s->positions, width);
    }
    factors(m, s, s->queries, s->scores, s->pattern);
    float *pattern = m->pattern ? m->pattern + pattern_at(m, p) : 0;
    for (int64_t i = 0; i < m->rows; i++) {
        float *row = s->pattern + i * s->all;
        softmax(row, m->learned + m->first_row + i + 1, s->all);
        if (pattern) copy(row, pattern + i * all, all);
        if (m->seeds) drop_row(m, key, p.head, i, row);
    }
    product_of_rows(s->pattern, s->all, values, s->row, head_of(&m->mixed, p).at, m->mixed.row,
                    m->rows, width, all);
}

/* The gradients of keys or values: sums over rows of [Q, T] times [Q, D]. */
static void give_sums(const struct Attention *m, const struct Scratch *s, const float *left,
                      const float *right, const struct View *own, float *learned, struct Place p) {
    const int64_t count = own->at ? m->learned + m->positions : m->learned, width = m->width;
    if (!own->at && !learned) return;
    sum_products(left, s->all, right, s->width, 0, s->sum, count, s->width, m->rows);
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
    float *keys = s->keys + p.head * s->next, *values = s->values + p.head * s->next;
    if (first) {
        gather_content(m, s, &m->values, p, s->values);
        if (m->of_queries.at) gather_content(m, s, &m->keys, p, s->keys);
        pack(values + m->learned * s->row, s->row, s->panels, m->positions, width, 1);
    }
    if (m->learned) {
        gather(&m->learned_values, p, values, s->row, m->learned, width);
        pack(values, s->row, s->learned, m->learned, width, 1);
    }
    gather(&m->incoming, p, s->incoming, s->width, m->rows, width);
    product(s->incoming, s->width, s->panels, 0, 0, s->scores, s->positions, m->rows, s->positions,
            width);
    factors(m, s, s->incoming, s->scores, s->slope);
    const float *pattern = m->pattern + pattern_at(m, p);
    for (int64_t i = 0; i < m->rows; i++) {
        float *before = s->pattern + i * s->all, *kept = s->kept + i * s->all;
        float *slope = s->slope + i * s->all;
        copy(pattern + i * all, before, all);
        for (int64_t j = all; j < s->all; j++) before[j] = slope[j] = 0;
        if (m->seeds) {
            copy(before, kept, s->all);
            drop_row(m, key, p.head, i, kept);
            drop_row(m, key, p.head, i, slope);
        }
        const float sum = sum_of_row(slope, before, s->all);
#pragma omp simd
        for (int64_t j = 0; j < s->all; j++) slope[j] = before[j] * (slope[j] - sum);
    }
    give_sums(m, s, m->seeds ? s->kept : s->pattern, s->incoming, &m->of_values,
              m->of_learned_values, p);
    if (m->of_queries.at) {
        gather(&m->learned_keys, p, keys, s->row, m->learned, width);
        product_of_rows(s->slope, s->all, keys, s->row, s->queries, s->width, m->rows, s->width,
                        all);
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
        memset(s.keys, 0, (s.panels - s.keys) * sizeof(float)); /* behind rows nothing is written */
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

/* Block-sparse softmax: each block of queries attends to a few blocks of keys (a table), and within
 * them to what window, causal mask, padding and documents allow. Forward and backward, one query block at a
 * time, so that its scores (L x W L) stay in the second-level cache.
 *
 * Letters: L tokens of a block, LP the same padded, S tokens, D head size (sizes->C), M value size. */

typedef struct {
    int64_t S, D, M, L, LP, DP, MP, W, blocks, pitch;
    REAL *k_turned, *v_turned; /* [block][tile][D or M][WIDE], keys along the tiles */
    REAL *k, *v;               /* [block][LP][DP or MP] */
    REAL *q, *out, *grad;      /* L x DP, MP, MP of the query block */
    REAL *p, *dp;              /* L x pitch: weights, and their gradient */
    REAL *dq, *dk, *dv;        /* L x DP; as k and v */
    REAL *hidden;              /* [block][LP]: NOTHING where a key is padding, else 0 */
    const int64_t *bounds;     /* [S][2]: keys of each query's document; NULL if a row is one */
} F(sparse);

static int64_t F(blocks_layout)(F(sparse) *r, const Sizes *n, REAL *free, int backward) {
    const int64_t L = n->block, LP = F(padded)(L), DP = F(padded)(n->C), MP = F(padded)(n->M);
    const int64_t blocks = (n->T + L - 1) / L, all = blocks * LP, pitch = n->columns * LP;
    const F(sparse) sizes = {.S = n->T, .D = n->C, .M = n->M, .L = L, .LP = LP, .DP = DP,
                             .MP = MP, .W = n->columns, .blocks = blocks, .pitch = pitch};
    *r = sizes;
    int64_t used = 0;
#define TAKE(name, numbers) r->name = free + used, used += (numbers)
    TAKE(k_turned, all * n->C);
    TAKE(v, all * MP);
    TAKE(q, L * DP);
    TAKE(out, L * MP);
    TAKE(p, L * pitch);
    TAKE(hidden, all);
    if (backward) {
        TAKE(v_turned, all * n->M);
        TAKE(k, all * DP);
        TAKE(grad, L * MP);
        TAKE(dp, L * pitch);
        TAKE(dq, L * DP);
        TAKE(dk, all * DP);
        TAKE(dv, all * MP);
    }
#undef TAKE
    return used;
}

/* Rows of one head as [block][LP][padded width], zeros in between. */
static void F(lay_blocks)(const F(sparse) *r, REAL *to, const REAL *from, int64_t step,
                          int64_t width, int64_t padded) {
    for (int64_t b = 0; b < r->blocks; b++)
        for (int64_t i = 0; i < r->LP; i++) {
            const int64_t t = b * r->L + i;
            REAL *row = to + (b * r->LP + i) * padded;
            F(lay)(row, from + t * step, i < r->L && t < r->S ? width : 0, padded, 0);
        }
}

static void F(turn_blocks)(const F(sparse) *r, REAL *to, const REAL *from, int64_t step,
                           int64_t width) {
    memset(to, 0, (size_t)(r->blocks * r->LP * width) * sizeof(REAL));
    for (int64_t t = 0; t < r->S; t++) {
        const int64_t slot = t / r->L * r->LP + t % r->L;
        REAL *tile = to + slot / WIDE * WIDE * width + slot % WIDE;
        for (int64_t d = 0; d < width; d++) tile[d * WIDE] = from[t * step + d];
    }
}

static void F(hide_keys)(F(sparse) *r, const Array *x, int64_t b) {
    const Array *keys = &x[S_REAL], *bounds = &x[S_BOUNDS];
    r->bounds = bounds->data ? (const int64_t *)bounds->data + b * bounds->batch : NULL;
    const uint8_t *real = keys->data ? (const uint8_t *)keys->data + b * keys->batch : NULL;
    for (int64_t slot = 0; slot < r->blocks * r->LP; slot++) {
        const int64_t i = slot % r->LP, t = slot / r->LP * r->L + i;
        const int seen = i < r->L && t < r->S && (!real || real[t]);
        r->hidden[slot] = seen ? 0 : (REAL)NOTHING;
    }
}

/* Sets NOTHING for keys first..last, counted within the block of `width` columns. */
static hot void F(hide_range)(REAL *row, int64_t width, int64_t first, int64_t last) {
    if (last > width) last = width;
    for (int64_t j = first < 0 ? 0 : first; j < last; j++) row[j] = NOTHING;
}

/* Columns of key block b that query block a may see: only the sinks where b is beyond the window. */
static int64_t F(seen)(const F(sparse) *r, const Sizes *n, int64_t a, int64_t b) {
    const int64_t behind = (a - b - 1) * r->L + 1, ahead = (b - a - 1) * r->L + 1; /* distances */
    if (!n->window || (behind < n->window && (n->causal || ahead < n->window))) return r->LP;
    const int64_t sinks = n->sinks - b * r->L;
    return sinks >= r->L ? r->LP : sinks > 0 ? F(padded)(sinks) : 0;
}

/* Scores of query block a against key block b, to column `to` of the scores. */
static void F(score_block)(const F(sparse) *r, const Sizes *n, int64_t a, int64_t b, int64_t rows,
                           int64_t width, REAL *to) {
    for (int64_t i = 0; i < rows; i++)
        memcpy(to + i * r->pitch, r->hidden + b * r->LP, (size_t)width * sizeof(REAL));
    for (int64_t j = 0; j < width; j += WIDE)
        F(product)(to + j, r->pitch, r->q, r->DP, 1, r->k_turned + (b * r->LP + j) * r->D, WIDE,
                   rows, r->D);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t at = a * r->L + i - b * r->L; /* the query, counted from the key block */
        const int64_t sinks = n->sinks - b * r->L; /* where they end, as counted by `at` */
        int64_t last = n->causal ? at + 1 : n->window ? at + n->window : width;
        if (!n->causal && last < sinks) last = sinks;
        if (n->window) F(hide_range)(to + i * r->pitch, width, sinks, at - n->window + 1);
        F(hide_range)(to + i * r->pitch, width, last, width);
        if (!r->bounds) continue;
        const int64_t *document = r->bounds + 2 * (a * r->L + i);
        F(hide_range)(to + i * r->pitch, width, 0, document[0] - b * r->L);
        F(hide_range)(to + i * r->pitch, width, document[1] - b * r->L, width);
    }
}

/* All scores of query block a. Returns the number of columns. */
static int64_t F(score)(const F(sparse) *r, const Sizes *n, const int64_t *table, int64_t a,
                        int64_t rows) {
    int64_t columns = 0;
    for (int64_t w = 0; w < r->W; w++) {
        const int64_t b = table[a * r->W + w];
        if (b < 0) continue;
        const int64_t width = F(seen)(r, n, a, b);
        F(score_block)(r, n, a, b, rows, width, r->p + columns);
        columns += width;
    }
    return columns;
}

static void F(lay_query)(const F(sparse) *r, const REAL *from, int64_t step, int64_t rows,
                         REAL scale) {
    for (int64_t i = 0; i < rows; i++) {
        F(lay)(r->q + i * r->DP, from + i * step, r->D, r->DP, 0);
        for (int64_t d = 0; d < r->D; d++) r->q[i * r->DP + d] *= scale;
    }
}

/* exp(score - most) in place. */
static hot void F(exponentials)(REAL *row, int64_t columns, REAL most) {
    for (int64_t j = 0; j < columns; j += LANES)
        F(store)(row + j, F(exp)(F(load)(row + j) - most));
}

/* Softmax of one row without the division: its largest score and 1 / sum, 0 without visible keys. */
static void F(soften)(REAL *row, int64_t columns, REAL *most, REAL *inverse) {
    F(vec) best = F(all)(NOTHING), total = {0};
    for (int64_t j = 0; j < columns; j += LANES) best = F(max)(best, F(load)(row + j));
    *most = F(largest)(best)[0];
    if (*most <= (REAL)EMPTY) {
        memset(row, 0, (size_t)columns * sizeof(REAL));
        *inverse = 0;
        return;
    }
    F(exponentials)(row, columns, *most);
    for (int64_t j = 0; j < columns; j += LANES) total += F(load)(row + j);
    *inverse = 1 / F(sum)(total);
}

static void F(blocks_forward)(const Sizes *n, const Array *x, int64_t b, int64_t h,
                              void *scratch) {
    F(sparse) r;
    F(blocks_layout)(&r, n, scratch, 0);
    F(turn_blocks)(&r, r.k_turned, F(at)(&x[S_KEY], b, h), x[S_KEY].token, r.D);
    F(lay_blocks)(&r, r.v, F(at)(&x[S_VALUE], b, h), x[S_VALUE].token, r.M, r.MP);
    F(hide_keys)(&r, x, b);
    const int64_t *table = (const int64_t *)x[S_TABLE].data;
    REAL *fit = F(at)(&x[S_FIT], b, h);
    for (int64_t a = 0; a < r.blocks; a++) {
        const int64_t first = a * r.L, rows = r.S - first < r.L ? r.S - first : r.L;
        F(lay_query)(&r, F(at)(&x[S_QUERY], b, h) + first * x[S_QUERY].token, x[S_QUERY].token,
                     rows, (REAL)n->scale);
        const int64_t columns = F(score)(&r, n, table, a, rows);
        for (int64_t i = 0; i < rows; i++)
            F(soften)(r.p + i * r.pitch, columns, fit + 2 * (first + i), fit + 2 * (first + i) + 1);
        memset(r.out, 0, (size_t)(rows * r.MP) * sizeof(REAL));
        for (int64_t w = 0, at = 0; w < r.W; w++) {
            const int64_t key = table[a * r.W + w];
            if (key < 0) continue;
            const int64_t width = F(seen)(&r, n, a, key);
            for (int64_t m = 0; m < r.MP; m += WIDE)
                F(product)(r.out + m, r.MP, r.p + at, r.pitch, 1, r.v + key * r.LP * r.MP + m,
                           r.MP, rows, width);
            at += width;
        }
        for (int64_t i = 0; i < rows; i++) {
            REAL *to = F(at)(&x[S_OUT], b, h) + (first + i) * x[S_OUT].token;
            const REAL inverse = fit[2 * (first + i) + 1];
            for (int64_t m = 0; m < r.M; m++) to[m] = r.out[i * r.MP + m] * inverse;
        }
    }
}

/* p becomes the weights, dp the gradient of the scores. */
static void F(score_gradients)(const F(sparse) *r, const REAL *fit, const REAL *out, int64_t step,
                               int64_t rows, int64_t columns) {
    for (int64_t i = 0; i < rows; i++) {
        REAL *p = r->p + i * r->pitch, *dp = r->dp + i * r->pitch;
        const REAL along = F(dot)(r->grad + i * r->MP, out + i * step, r->M);
        const REAL inverse = fit[2 * i + 1];
        if (inverse == 0) memset(p, 0, (size_t)columns * sizeof(REAL));
        else F(exponentials)(p, columns, fit[2 * i]);
        for (int64_t j = 0; j < columns; j++) {
            p[j] *= inverse;
            dp[j] = p[j] * (dp[j] - along);
        }
    }
}

/* Gradients of a query block and key block b, whose `width` columns begin at `at`. */
static void F(send_back)(const F(sparse) *r, int64_t b, int64_t rows, int64_t width, int64_t at) {
    const int64_t first = b * r->LP;
    for (int64_t d = 0; d < r->DP; d += WIDE) {
        F(product)(r->dq + d, r->DP, r->dp + at, r->pitch, 1, r->k + first * r->DP + d, r->DP,
                   rows, width);
        F(product)(r->dk + first * r->DP + d, r->DP, r->dp + at, 1, r->pitch, r->q + d, r->DP,
                   width, rows);
    }
    for (int64_t m = 0; m < r->MP; m += WIDE)
        F(product)(r->dv + first * r->MP + m, r->MP, r->p + at, 1, r->pitch, r->grad + m, r->MP,
                   width, rows);
}

static void F(query_block_back)(const F(sparse) *r, const Sizes *n, const Array *x, int64_t b,
                                int64_t h, int64_t a) {
    const int64_t *table = (const int64_t *)x[S_TABLE].data;
    const int64_t first = a * r->L, rows = r->S - first < r->L ? r->S - first : r->L;
    F(lay_query)(r, F(at)(&x[S_QUERY], b, h) + first * x[S_QUERY].token, x[S_QUERY].token, rows,
                 (REAL)n->scale);
    for (int64_t i = 0; i < rows; i++)
        F(lay)(r->grad + i * r->MP, F(at)(&x[S_GRAD], b, h) + (first + i) * x[S_GRAD].token, r->M,
               r->MP, 0);
    const int64_t columns = F(score)(r, n, table, a, rows);
    memset(r->dp, 0, (size_t)(rows * r->pitch) * sizeof(REAL));
    for (int64_t w = 0, at = 0; w < r->W; w++) {
        const int64_t key = table[a * r->W + w];
        if (key < 0) continue;
        const int64_t width = F(seen)(r, n, a, key);
        for (int64_t j = 0; j < width; j += WIDE, at += WIDE)
            F(product)(r->dp + at, r->pitch, r->grad, r->MP, 1,
                       r->v_turned + (key * r->LP + j) * r->M, WIDE, rows, r->M);
    }
    F(score_gradients)(r, F(at)(&x[S_FIT], b, h) + 2 * first,
                       F(at)(&x[S_OUT], b, h) + first * x[S_OUT].token, x[S_OUT].token, rows,
                       columns);
    memset(r->dq, 0, (size_t)(rows * r->DP) * sizeof(REAL));
    for (int64_t w = 0, at = 0; w < r->W; w++) {
        const int64_t key = table[a * r->W + w];
        if (key < 0) continue;
        const int64_t width = F(seen)(r, n, a, key);
        F(send_back)(r, key, rows, width, at);
        at += width;
    }
    for (int64_t i = 0; i < rows; i++) {
        REAL *to = F(at)(&x[S_QUERY_GRAD], b, h) + (first + i) * x[S_QUERY_GRAD].token;
        for (int64_t d = 0; d < r->D; d++) to[d] = r->dq[i * r->DP + d] * (REAL)n->scale;
    }
}

static void F(blocks_backward)(const Sizes *n, const Array *x, int64_t b, int64_t h,
                               void *scratch) {
    F(sparse) r;
    F(blocks_layout)(&r, n, scratch, 1);
    F(turn_blocks)(&r, r.k_turned, F(at)(&x[S_KEY], b, h), x[S_KEY].token, r.D);
    F(turn_blocks)(&r, r.v_turned, F(at)(&x[S_VALUE], b, h), x[S_VALUE].token, r.M);
    F(lay_blocks)(&r, r.k, F(at)(&x[S_KEY], b, h), x[S_KEY].token, r.D, r.DP);
    F(hide_keys)(&r, x, b);
    memset(r.dk, 0, (size_t)(r.blocks * r.LP * r.DP) * sizeof(REAL));
    memset(r.dv, 0, (size_t)(r.blocks * r.LP * r.MP) * sizeof(REAL));
    for (int64_t a = 0; a < r.blocks; a++) F(query_block_back)(&r, n, x, b, h, a);
    for (int64_t t = 0; t < r.S; t++) {
        const int64_t slot = t / r.L * r.LP + t % r.L;
        memcpy(F(at)(&x[S_KEY_GRAD], b, h) + t * x[S_KEY_GRAD].token, r.dk + slot * r.DP,
               (size_t)r.D * sizeof(REAL));
        memcpy(F(at)(&x[S_VALUE_GRAD], b, h) + t * x[S_VALUE_GRAD].token, r.dv + slot * r.MP,
               (size_t)r.M * sizeof(REAL));
    }
}

int F(attnlab_blocks)(const Sizes *sizes, const Array *arrays) {
    F(sparse) r;
    return run(sizes, arrays, F(blocks_forward), F(blocks_layout)(&r, sizes, NULL, 0),
               sizeof(REAL));
}

int F(attnlab_blocks_backward)(const Sizes *sizes, const Array *arrays) {
    F(sparse) r;
    return run(sizes, arrays, F(blocks_backward), F(blocks_layout)(&r, sizes, NULL, 1),
               sizeof(REAL));
}

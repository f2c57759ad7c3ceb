/* The backward pass of a chunk of tokens. With the delta rule and at most one decay per token, as
 * products of matrices, whose sums stay in registers: token by token, each step would load and store
 * 64 x 64 numbers in both layouts. With S the state before the chunk, R the gradient of the state
 * after it, and f(t, s) the product of the decays of the tokens s + 1 to t:
 *     dq[t] = f(t, start) S g[t] + sum over s <= t of f(t, s) (g[t] . u[s]) k[s]
 *     du[t] = f(end, t) R^T k[t] + sum over s >= t of f(s, t) (q[s] . k[t]) g[s]
 *                                - sum over s > t of f(s, t) w[s] (k[s] . k[t]) du[s]
 * and so on for R u, of which the gradient of k consists, and for P du. */
typedef struct {
    int64_t n; /* tokens */
    REAL *keys, *writes, *d_writes, *taken; /* taken: -w k */
    REAL *queries, *grads;                  /* of each of the G queries */
    REAL *keys_tall, *writes_tall;          /* a token in each column */
    REAL *fades;                            /* f(t, s), 0 for s > t */
    REAL *from_start, *scores, *d_query, *d_key, *read;
    REAL *agreements; /* q . dq of each token */
} F(chunk);

static int64_t F(chunk_numbers)(const Sizes *n) {
    const int64_t CP = F(padded)(n->C), MP = F(padded)(n->M), T = REMEMBERED;
    if (!n->causal) return 0;
    return T * ((5 + n->columns) * CP + (2 + n->columns) * MP + n->C + n->M + 2 * T + 2);
}

static F(chunk) F(open_chunk)(const F(recurrent) *r, REAL *free) {
    const int64_t T = REMEMBERED;
    F(chunk) c = {0};
    REAL **of_keys[] = {&c.keys, &c.taken, &c.d_query, &c.d_key, &c.read};
    REAL **of_values[] = {&c.writes, &c.d_writes};
    REAL **of_tokens[] = {&c.fades, &c.scores};
    for (int i = 0; i < 5; i++) *of_keys[i] = F(claim)(&free, T * r->CP);
    for (int i = 0; i < 2; i++) *of_values[i] = F(claim)(&free, T * r->MP);
    for (int i = 0; i < 2; i++) *of_tokens[i] = F(claim)(&free, T * T);
    c.queries = F(claim)(&free, r->G * T * r->CP), c.grads = F(claim)(&free, r->G * T * r->MP);
    c.keys_tall = F(claim)(&free, r->C * T), c.writes_tall = F(claim)(&free, r->M * T);
    c.from_start = F(claim)(&free, T), c.agreements = F(claim)(&free, T);
    return c;
}

/* Where column q of P x Q numbers starts, and how far apart its rows are. */
static hot REAL *F(column)(REAL *numbers, int64_t P, int64_t Q, int64_t q, int64_t *apart) {
    const int64_t tile = q / (2 * WIDE) * 2 * WIDE;
    *apart = Q - tile < 2 * WIDE ? WIDE : 2 * WIDE;
    return numbers + tile * P + (q - tile);
}

/* to (Q x P, both in tiles) = the transpose of from (P x Q); columns that are padding stay. */
static void F(transpose_state)(REAL *to, REAL *from, int64_t P, int64_t Q) {
    const int64_t PP = F(padded)(P), QP = F(padded)(Q);
    int64_t apart, rows;
    for (int64_t q = 0; q < Q; q += WIDE)
        for (int64_t p = 0; p < P; p += WIDE) {
            const REAL *x = F(column)(from, P, QP, q, &rows) + p * rows;
            REAL *y = F(column)(to, Q, PP, p, &apart) + q * apart;
            F(transpose)(y, apart, x, rows, P - p < WIDE ? P - p : WIDE, Q - q < WIDE ? Q - q : WIDE);
        }
}

/* y[t] = sum over p of a[t][p] state[p] */
static void F(read_all)(REAL *y, const REAL *a, int64_t lda, REAL *state, int64_t P, int64_t Q,
                        int64_t tokens) {
    memset(y, 0, (size_t)(tokens * Q) * sizeof(REAL));
    for (int64_t q = 0, apart; q < Q; q += WIDE) {
        const REAL *x = F(column)(state, P, Q, q, &apart);
        F(product)(y + q, Q, a, lda, 1, x, apart, tokens, P);
    }
}

/* state[p] += sum over t of a[t][p] x[t] */
static void F(write_all)(REAL *state, int64_t P, int64_t Q, const REAL *a, int64_t lda,
                         const REAL *x, int64_t tokens) {
    for (int64_t q = 0, apart; q < Q; q += WIDE) {
        REAL *y = F(column)(state, P, Q, q, &apart);
        F(product)(y, apart, a, 1, lda, x + q, Q, P, tokens);
    }
}

/* scores[t][s] = f(t, s) a[t] . b[s] for s <= t; `tall` is b with a token in each column. */
static void F(score_chunk)(F(chunk) *c, const REAL *a, int64_t lda, const REAL *tall, int64_t P,
                     const int own) {
    const int64_t T = REMEMBERED;
    memset(c->scores, 0, (size_t)(T * T) * sizeof(REAL));
    for (int64_t s = 0; s < T; s += WIDE)
        F(product)(c->scores + s, T, a, lda, 1, tall + s, T, c->n, P);
    for (int64_t i = 0; i < c->n * T; i++) c->scores[i] *= c->fades[i];
    for (int64_t t = 0; !own && t < c->n; t++) c->scores[t * T + t] = 0;
}

#define ROWS 4 /* tokens at once where each has other partners */

/* y[t] += sum over s <= t of scores[t][s] x[s] */
static void F(gather_earlier)(const F(chunk) *c, REAL *y, const REAL *x, int64_t Q) {
    for (int64_t t = 0; t < c->n; t += ROWS) {
        const int64_t rows = c->n - t < ROWS ? c->n - t : ROWS;
        for (int64_t q = 0; q < Q; q += WIDE)
            F(product)(y + t * Q + q, Q, c->scores + t * REMEMBERED, REMEMBERED, 1, x + q, Q, rows,
                       t + rows);
    }
}

/* y[t] += sum over s >= t of scores[s][t] x[s], for tokens t..t+rows */
static hot void F(gather_later)(const F(chunk) *c, REAL *y, const REAL *x, int64_t Q, int64_t t,
                                int64_t rows, int64_t s) {
    for (int64_t q = 0; q < Q; q += WIDE)
        F(product)(y + t * Q + q, Q, c->scores + s * REMEMBERED + t, 1, REMEMBERED, x + s * Q + q, Q,
                   rows, c->n - s);
}

static void F(gather_all_later)(const F(chunk) *c, REAL *y, const REAL *x, int64_t Q) {
    for (int64_t t = 0; t < c->n; t += ROWS)
        F(gather_later)(c, y, x, Q, t, c->n - t < ROWS ? c->n - t : ROWS, t);
}

/* The same, where x is y: each token needs those after it. */
static void F(solve_later)(const F(chunk) *c, REAL *y, int64_t Q) {
    for (int64_t t = (c->n - 1) / ROWS * ROWS; t >= 0; t -= ROWS) {
        const int64_t end = c->n - t < ROWS ? c->n : t + ROWS;
        if (end < c->n) F(gather_later)(c, y, y, Q, t, end - t, end);
        for (int64_t s = end - 1; s > t; s--)
            for (int64_t i = t; i < s; i++) {
                const REAL score = c->scores[s * REMEMBERED + i];
                for (int64_t q = 0; q < Q; q += LANES)
                    F(store)(y + i * Q + q, F(load)(y + i * Q + q) + score * F(load)(y + s * Q + q));
            }
    }
}

static hot void F(scale_rows)(REAL *y, int64_t Q, const REAL *by, int64_t n) {
    for (int64_t t = 0; t < n; t++)
        for (int64_t q = 0; q < Q; q += LANES) F(store)(y + t * Q + q, by[t] * F(load)(y + t * Q + q));
}

/* Copies the tokens; returns whether all numbers are finite, because sums include products with 0. */
static int F(fill_chunk)(F(reverse) *z, F(chunk) *c, const Array *x, int64_t b, int64_t h,
                         int64_t first) {
    F(recurrent) *r = &z->r;
    const int64_t T = REMEMBERED, CP = r->CP, MP = r->MP;
    F(vec) zeros = {0};
    for (int64_t t = 0; t < c->n; t++) {
        const F(token) *token = F(open_back)(z, x, b, h, first + t, 0, 1);
        memcpy(c->keys + t * CP, token->key, (size_t)CP * sizeof(REAL));
        memcpy(c->writes + t * MP, token->write, (size_t)MP * sizeof(REAL));
        for (int64_t g = 0; g < r->G; g++) {
            F(lay)(c->queries + (g * T + t) * CP, token->query + g * r->q_head, r->C, CP, 0);
            memcpy(c->grads + (g * T + t) * MP, z->grads + g * MP, (size_t)MP * sizeof(REAL));
            for (int64_t i = 0; i < CP; i += LANES)
                zeros += 0 * F(load)(c->queries + (g * T + t) * CP + i);
            for (int64_t i = 0; i < MP; i += LANES) zeros += 0 * F(load)(z->grads + g * MP + i);
        }
        for (int64_t i = 0; i < MP; i += LANES) zeros += 0 * F(load)(token->write + i);
        for (int64_t i = 0; i < CP; i += LANES) {
            zeros += 0 * F(load)(token->key + i);
            F(store)(c->taken + t * CP + i, -token->w * F(load)(token->key + i));
        }
        const REAL fade = token->fade[0];
        for (int64_t s = 0; s < T; s++)
            c->fades[t * T + s] = s < t ? fade * c->fades[(t - 1) * T + s] : s == t;
        c->from_start[t] = fade * (t ? c->from_start[t - 1] : 1);
    }
    F(transpose)(c->keys_tall, T, c->keys, CP, c->n, r->C);
    F(transpose)(c->writes_tall, T, c->writes, MP, c->n, r->M);
    return F(sum)(zeros) == 0;
}

/* Sets d_query of all queries, d_key (R u) and read (P du) of a chunk, and du. */
static void F(back_products)(F(reverse) *z, F(chunk) *c, const Array *x, int64_t b, int64_t h,
                             int64_t first) {
    F(recurrent) *r = &z->r;
    const int64_t T = REMEMBERED, C = r->C, M = r->M, CP = r->CP, MP = r->MP;
    const REAL *to_end = c->fades + (c->n - 1) * T;
    F(read_all)(c->d_writes, c->keys, CP, z->wide_grad, C, MP, c->n);
    F(scale_rows)(c->d_writes, MP, to_end, c->n);
    F(read_all)(c->d_key, c->writes, MP, z->tall_grad, M, CP, c->n);
    F(scale_rows)(c->d_key, CP, to_end, c->n);
    for (int64_t g = 0; g < r->G; g++) {
        const REAL *queries = c->queries + g * T * CP, *grads = c->grads + g * T * MP;
        F(read_all)(c->d_query, grads, MP, z->tall, M, CP, c->n);
        F(scale_rows)(c->d_query, CP, c->from_start, c->n);
        F(score_chunk)(c, grads, MP, c->writes_tall, M, 1);
        F(gather_earlier)(c, c->d_query, c->keys, CP);
        F(gather_all_later)(c, c->d_key, queries, CP);
        for (int64_t t = 0; t < c->n; t++) {
            const REAL *d_query = c->d_query + t * CP;
            F(put_query_grad)(z, x, b, h, first + t, g, d_query);
            c->agreements[t] = F(dot)(queries + t * CP, d_query, CP) + (g ? c->agreements[t] : 0);
        }
        F(score_chunk)(c, queries, CP, c->keys_tall, C, 1);
        F(gather_all_later)(c, c->d_writes, grads, MP);
    }
    F(score_chunk)(c, c->taken, CP, c->keys_tall, C, 0);
    F(solve_later)(c, c->d_writes, MP);
    F(read_all)(c->read, c->d_writes, MP, z->tall, M, CP, c->n);
    F(scale_rows)(c->read, CP, c->from_start, c->n);
    F(score_chunk)(c, c->d_writes, MP, c->writes_tall, M, 0);
    F(gather_earlier)(c, c->read, c->keys, CP);
    F(gather_all_later)(c, c->d_key, c->taken, CP);
}

/* R before the chunk, in the wide layout. */
static void F(move_grad)(F(reverse) *z, F(chunk) *c) {
    F(recurrent) *r = &z->r;
    const int64_t T = REMEMBERED, C = r->C, CP = r->CP, MP = r->MP;
    const REAL all = c->from_start[c->n - 1];
    for (int64_t i = 0; i < C * MP; i += LANES)
        F(store)(z->wide_grad + i, all * F(load)(z->wide_grad + i));
    for (int64_t g = 0; g < r->G; g++) {
        F(scale_rows)(c->queries + g * T * CP, CP, c->from_start, c->n);
        F(write_all)(z->wide_grad, C, MP, c->queries + g * T * CP, CP, c->grads + g * T * MP, c->n);
    }
    F(scale_rows)(c->taken, CP, c->from_start, c->n);
    F(write_all)(z->wide_grad, C, MP, c->taken, CP, c->d_writes, c->n);
}

/* The gradients of all tokens from du, R u and P du; see add_decay_grad for that of log_decay. */
static void F(close_chunk)(F(reverse) *z, const F(chunk) *c, const Array *x, int64_t b, int64_t h,
                           int64_t first) {
    F(recurrent) *r = &z->r;
    REAL decay_grad = 0;
    for (int64_t i = 0; i < r->C; i++) decay_grad += z->decay_grad[i];
    for (int64_t t = c->n - 1; t >= 0; t--) {
        const int64_t at = first + t;
        const REAL w = r->strength ? r->strength[at * r->strength_step] : (REAL)1;
        const REAL *d_write = c->d_writes + t * r->MP, *key = c->keys + t * r->CP;
        const REAL *d_key = c->d_key + t * r->CP, *read = c->read + t * r->CP;
        REAL *to_value = F(at)(&x[R_VALUE_GRAD], b, h) + at * x[R_VALUE_GRAD].token;
        for (int64_t m = 0; m < r->M; m++) to_value[m] = w * d_write[m];
        if (x[R_STRENGTH_GRAD].data)
            F(at)(&x[R_STRENGTH_GRAD], b, h)[at * x[R_STRENGTH_GRAD].token] =
                F(dot)(d_write, F(at)(&x[R_ERRORS], b, h) + at * x[R_ERRORS].token, r->M);
        REAL *to_key = F(at)(&x[R_KEY_GRAD], b, h) + at * x[R_KEY_GRAD].token;
        for (int64_t i = 0; i < r->C; i++) to_key[i] = d_key[i] - w * read[i];
        if (!x[R_DECAY_GRAD].data) continue;
        if (t) decay_grad += c->agreements[t] - F(dot)(key, d_key, r->CP) - w * F(dot)(key, read, r->CP);
        else decay_grad = F(dot)(z->wide_grad, r->wide, r->C * r->MP);
        F(at)(&x[R_DECAY_GRAD], b, h)[at * x[R_DECAY_GRAD].token] = decay_grad;
    }
    memset(z->decay_grad, 0, (size_t)r->C * sizeof(REAL));
    z->decay_grad[0] = decay_grad;
}

/* Returns whether it could. Afterwards R is right in the wide layout only. */
static int F(back_at_once)(F(reverse) *z, const Array *x, int64_t b, int64_t h, int64_t first,
                           int64_t last) {
    F(recurrent) *r = &z->r;
    F(chunk) c = F(open_chunk)(r, z->history);
    c.n = last - first;
    if (!F(fill_chunk)(z, &c, x, b, h, first)) return 0;
    if (!z->settled) {
        const F(step) rest = {.fade = z->next_fade, .a = z->next_key, .x = z->d_write};
        F(sweep)(z->wide_grad, r->C, r->MP, ROW_FADE | ADD, rest, 0, F(nothing));
    }
    F(load_state)(r, F(at)(&x[R_STARTS], b, h) + first / REMEMBERED * x[R_STARTS].token);
    F(transpose_state)(z->tall, r->wide, r->C, r->M);
    F(transpose_state)(z->tall_grad, z->wide_grad, r->C, r->M);
    F(back_products)(z, &c, x, b, h, first);
    F(move_grad)(z, &c);
    F(close_chunk)(z, &c, x, b, h, first);
    z->settled = 1;
    return 1;
}

/* After back_at_once, before a token: R in both layouts, with nothing left to apply. */
static void F(unsettle)(F(reverse) *z) {
    if (!z->settled) return;
    F(transpose_state)(z->tall_grad, z->wide_grad, z->r.C, z->r.M);
    for (int64_t c = 0; c < z->r.CP; c++) z->next_fade[c] = 1, z->next_key[c] = 0;
    memset(z->d_write, 0, (size_t)z->r.MP * sizeof(REAL));
    z->settled = 0;
}

/* Whether a decay is strong in tokens first..last; without the delta rule, a token that forgets
 * everything does not count. */
static int F(has_strong)(const F(recurrent) *r, int64_t first, int64_t last, const int delta) {
    int strong = 0;
    for (int64_t t = first; r->decay && t < last; t++) {
        const REAL *decay = r->decay + t * r->decay_step;
        strong |= F(is_strong)(decay, r->n->logs) && (delta || !F(forgets)(decay, r->n->logs));
    }
    return strong;
}

/* The tokens of a chunk backward. Without the delta rule, P is needed only where a decay is strong;
 * else two tokens at once if each has one query. */
static hot void F(back_chunk)(F(reverse) *z, const Array *x, int64_t b, int64_t h, int64_t first,
                              int64_t last, const int delta) {
    const int strong = F(has_strong)(&z->r, first, last, delta), remember = delta || strong;
    if (delta && !strong && z->r.n->logs == 1 && F(back_at_once)(z, x, b, h, first, last)) return;
    F(unsettle)(z);
    const int64_t tall = z->r.M * z->r.CP;
    if (remember) F(forth_chunk)(z, x, b, h, first, last, delta);
    for (int64_t t = last - 1; t >= first; t--) {
        const REAL *decay = z->r.decay ? z->r.decay + t * z->r.decay_step : NULL;
        if (remember || z->r.G > 1 || t == first || (decay && F(forgets)(decay, z->r.n->logs)))
            F(back_token)(z, x, b, h, t, remember ? z->history + (t - first) * tall : NULL, delta);
        else F(back_pair)(z, x, b, h, t--);
    }
}

/* Numbers of history, which a chunk at once uses too, and of starts; they need not be zero. */
static int64_t F(remembered_numbers)(const Sizes *n) {
    const int64_t state = n->M * F(padded)(n->C), history = REMEMBERED * state;
    const int64_t chunks = (n->T + REMEMBERED - 1) / REMEMBERED;
    if (!n->causal) return history + chunks * state;
    return history > F(chunk_numbers)(n) ? history : F(chunk_numbers)(n);
}

static void F(recurrent_back_row)(const Sizes *n, const Array *x, int64_t b, int64_t h,
                                  void *scratch) {
    REAL *free = scratch;
    memset(scratch, 0, (size_t)F(reverse_numbers)(n) * sizeof(REAL));
    F(reverse) z = {.r = F(open_recurrent)(n, x, b, h, &free)};
    const int64_t C = z.r.C, M = z.r.M, CP = z.r.CP, MP = z.r.MP;
    z.tall = F(claim)(&free, M * CP), z.tall_grad = F(claim)(&free, M * CP);
    z.wide_grad = F(claim)(&free, C * MP);
    z.grads = F(claim)(&free, 2 * n->columns * MP), z.d_write = F(claim)(&free, MP);
    z.queries = F(claim)(&free, 2 * CP);
    REAL **vectors[] = {&z.read, &z.decay_grad, &z.next_fade, &z.next_key};
    for (int i = 0; i < 4; i++) *vectors[i] = F(claim)(&free, CP);
    z.history = (REAL *)scratch + F(reverse_numbers)(n);
    z.starts = z.history + REMEMBERED * M * CP;
    if (!n->causal) F(forth)(&z, x, b, h);
    for (int64_t last = n->T; last > 0;) {
        const int64_t first = (last - 1) / REMEMBERED * REMEMBERED;
        if (n->causal) F(back_chunk)(&z, x, b, h, first, last, 1);
        else F(back_chunk)(&z, x, b, h, first, last, 0);
        last = first;
    }
}

int F(attnlab_recurrent_backward)(const Sizes *sizes, const Array *arrays) {
    return run(sizes, arrays, F(recurrent_back_row),
               F(reverse_numbers)(sizes) + F(remembered_numbers)(sizes), sizeof(REAL));
}

/* Linear attention with decay and the delta rule, token by token. The state S (C x M) stays in the
 * first-level cache:
 *     P = diag(decay) S,   e = v - P^T k (with the delta rule) or v,   u = w e,
 *     S = P + k u^T,       out = scale S^T q.
 * The backward pass needs sums over the columns and over the rows of S and of its gradient R. Sums
 * within a register are slow, so it keeps both in two layouts: lanes along M ("wide") and lanes
 * along C ("tall"). For the delta rule the forward pass keeps e, and S at the start of each chunk.
 *
 * One sweep over S applies the steps of one or two tokens, because loading and storing S costs as
 * much as the arithmetic. Layout of P x Q numbers: tiles of 4 registers of columns (the last may
 * have 2), [tile][row]. */

/* A token's step for row p:
 *     s = fade s;  copy[p] = s;  s += a[p] x + b[p] y;  sums += c[p] s;  more += d[p] s
 * `what` says which parts there are (job.h). It is a constant in every call, which is inlined. */
typedef struct {
    const REAL *fade; /* fade[p], or a vector of lanes */
    REAL *copy;
    const REAL *a, *x, *b, *y, *c, *d;
    REAL *sums, *more;
} F(step);

typedef struct {
    F(vec) fade[4], x[4], y[4], sums[4], more[4];
} F(lanes);

static hot void F(open_lanes)(F(lanes) *r, const int W, const int what, const F(step) *k) {
#pragma GCC unroll 4
    for (int w = 0; w < W; w++) {
        if (what & LANE_FADE) r->fade[w] = F(load)(k->fade + w * LANES);
        if (what & ADD) r->x[w] = F(load)(k->x + w * LANES);
        if (what & ADD_MORE) r->y[w] = F(load)(k->y + w * LANES);
        r->sums[w] = r->more[w] = (F(vec)){0};
    }
}

static hot F(vec) F(take_step)(F(vec) s, F(lanes) *r, const int w, const int W, int64_t p,
                               const int what, const F(step) *k) {
    if (what & ROW_FADE) s *= k->fade[p];
    if (what & LANE_FADE) s *= r->fade[w];
    if (what & COPY) F(store)(k->copy + (p * W + w) * LANES, s);
    if (what & ADD) s += k->a[p] * r->x[w];
    if (what & ADD_MORE) s += k->b[p] * r->y[w];
    if (what & SUM) r->sums[w] += k->c[p] * s;
    if (what & SUM_MORE) r->more[w] += k->d[p] * s;
    return s;
}

static hot void F(close_lanes)(const F(lanes) *r, const int W, const int what, const F(step) *k) {
#pragma GCC unroll 4
    for (int w = 0; w < W; w++) {
        if (what & SUM) F(store)(k->sums + w * LANES, r->sums[w]);
        if (what & SUM_MORE) F(store)(k->more + w * LANES, r->more[w]);
    }
}

static hot void F(sweep_tile)(REAL *restrict state, int64_t P, const int W, const int what,
                              const F(step) *one, const int then, const F(step) *two) {
    F(lanes) r1, r2;
    F(open_lanes)(&r1, W, what, one);
    if (then) F(open_lanes)(&r2, W, then, two);
    for (int64_t p = 0; p < P; p++) {
        REAL *row = state + p * W * LANES;
#pragma GCC unroll 4
        for (int w = 0; w < W; w++) {
            F(vec) s = F(take_step)(F(load)(row + w * LANES), &r1, w, W, p, what, one);
            if (then) s = F(take_step)(s, &r2, w, W, p, then, two);
            if (what & (ROW_FADE | LANE_FADE | ADD | ADD_MORE)) F(store)(row + w * LANES, s);
        }
    }
    F(close_lanes)(&r1, W, what, one);
    if (then) F(close_lanes)(&r2, W, then, two);
}

/* The step for the columns from q on. */
static hot F(step) F(shifted)(const F(step) *k, const int what, int64_t q, int64_t P) {
    F(step) s = *k;
    if (what & LANE_FADE) s.fade += q;
    if (what & COPY) s.copy += q * P;
    if (what & ADD) s.x += q;
    if (what & ADD_MORE) s.y += q;
    if (what & SUM) s.sums += q;
    if (what & SUM_MORE) s.more += q;
    return s;
}

/* Apply the step `one` of a token to all P x Q numbers, and `two` of the next if `then` is not 0. */
static hot void F(sweep)(REAL *state, int64_t P, int64_t Q, const int what, F(step) one,
                         const int then, F(step) two) {
    int64_t q = 0;
    for (; q + 2 * WIDE <= Q; q += 2 * WIDE) {
        const F(step) a = F(shifted)(&one, what, q, P), b = F(shifted)(&two, then, q, P);
        F(sweep_tile)(state + q * P, P, 4, what, &a, then, &b);
    }
    if (q < Q) {
        const F(step) a = F(shifted)(&one, what, q, P), b = F(shifted)(&two, then, q, P);
        F(sweep_tile)(state + q * P, P, 2, what, &a, then, &b);
    }
}

static const F(step) F(nothing);

/* A token's vectors. */
typedef struct {
    REAL w; /* write strength */
    int forgets; /* everything before */
    const REAL *query;
    REAL *fade, *key, *faded_key, *error, *write, *sums, *read;
} F(token);

/* One head, and scratch memory. */
typedef struct {
    const Sizes *n;
    int64_t C, M, CP, MP, G; /* G queries share a key head */
    const REAL *q, *k, *v, *decay, *strength;
    int64_t q_head, q_step, k_step, v_step, decay_step, strength_step;
    F(token) tokens[2];
    REAL *wide; /* the state, C x MP */
} F(recurrent);

static REAL *F(claim)(REAL **free, int64_t numbers) {
    REAL *start = *free;
    *free += numbers;
    return start;
}

static F(recurrent) F(open_recurrent)(const Sizes *n, const Array *x, int64_t b, int64_t h,
                                      REAL **free) {
    F(recurrent) r = {.n = n, .C = n->C, .M = n->M, .CP = F(padded)(n->C),
                      .MP = F(padded)(n->M), .G = n->columns};
    r.q = F(at)(&x[R_QUERY], b, h * r.G), r.q_head = x[R_QUERY].head, r.q_step = x[R_QUERY].token;
    r.k = F(at)(&x[R_KEY], b, h), r.k_step = x[R_KEY].token;
    r.v = F(at)(&x[R_VALUE], b, h), r.v_step = x[R_VALUE].token;
    r.decay = F(at)(&x[R_DECAY], b, h), r.decay_step = x[R_DECAY].token;
    r.strength = F(at)(&x[R_STRENGTH], b, h), r.strength_step = x[R_STRENGTH].token;
    for (int i = 0; i < 2; i++) {
        F(token) *t = &r.tokens[i];
        REAL **vectors[] = {&t->fade, &t->key, &t->faded_key, &t->error, &t->write, &t->sums, &t->read};
        for (int j = 0; j < 7; j++) *vectors[j] = F(claim)(free, r.CP > r.MP ? r.CP : r.MP);
    }
    r.wide = F(claim)(free, r.C * r.MP);
    return r;
}

static int64_t F(recurrent_numbers)(const Sizes *n) {
    const int64_t CP = F(padded)(n->C), MP = F(padded)(n->M);
    return 14 * (CP > MP ? CP : MP) + n->C * MP;
}

/* A state in memory (C x M) from and to the wide layout. */
static void F(load_state)(F(recurrent) *r, const REAL *from) {
    memset(r->wide, 0, (size_t)(r->C * r->MP) * sizeof(REAL));
    if (!from) return;
    for (int64_t tile = 0; tile < r->M; tile += 2 * WIDE) {
        const int64_t width = r->MP - tile < 2 * WIDE ? WIDE : 2 * WIDE;
        const int64_t used = r->M - tile < width ? r->M - tile : width;
        for (int64_t c = 0; c < r->C; c++)
            memcpy(r->wide + tile * r->C + c * width, from + c * r->M + tile,
                   (size_t)used * sizeof(REAL));
    }
}

static void F(save_state)(const F(recurrent) *r, REAL *to) {
    for (int64_t tile = 0; tile < r->M; tile += 2 * WIDE) {
        const int64_t width = r->MP - tile < 2 * WIDE ? WIDE : 2 * WIDE;
        const int64_t used = r->M - tile < width ? r->M - tile : width;
        for (int64_t c = 0; c < r->C; c++)
            memcpy(to + c * r->M + tile, r->wide + tile * r->C + c * width,
                   (size_t)used * sizeof(REAL));
    }
}

/* The decay, key, strength and first query of token t. */
static hot F(token) *F(open_token)(F(recurrent) *r, int64_t t, const int slot) {
    F(token) *z = &r->tokens[slot];
    const REAL *decay = r->decay ? r->decay + t * r->decay_step : NULL;
    if (!decay)
        for (int64_t c = 0; c < r->CP; c++) z->fade[c] = 1;
    else if (r->n->logs == 1) {
        const F(vec) fade = F(exp)(F(all)(decay[0]));
        for (int64_t c = 0; c < r->CP; c += LANES) F(store)(z->fade + c, fade);
    } else {
        F(lay)(z->fade, decay, r->C, r->CP, 0);
        for (int64_t c = 0; c < r->CP; c += LANES)
            F(store)(z->fade + c, F(exp)(F(load)(z->fade + c)));
    }
    z->forgets = decay != NULL;
    for (int64_t c = 0; z->forgets && c < r->C; c++) z->forgets = z->fade[c] == 0;
    F(lay)(z->key, r->k + t * r->k_step, r->C, r->CP, 0);
    z->w = r->strength ? r->strength[t * r->strength_step] : (REAL)1;
    z->query = r->q ? r->q + t * r->q_step : NULL;
    return z;
}

/* A token that forgets everything finds zeros: 0 times infinity or NaN would not be 0. */
static hot void F(forget)(const F(token) *z, REAL *numbers, int64_t n) {
    if (z->forgets) memset(numbers, 0, (size_t)n * sizeof(REAL));
}

/* e and u of a token; with the delta rule `read` is P^T k. */
static hot void F(open_write)(F(recurrent) *r, F(token) *z, int64_t t, const int delta) {
    F(lay)(z->error, r->v + t * r->v_step, r->M, r->MP, 0);
    for (int64_t m = 0; m < r->MP; m += LANES) {
        F(vec) e = F(load)(z->error + m);
        if (delta) e -= F(load)(z->read + m);
        F(store)(z->error + m, e);
        F(store)(z->write + m, z->w * e);
    }
}

static hot void F(fade_key)(const F(recurrent) *r, F(token) *z) {
    for (int64_t c = 0; c < r->CP; c += LANES)
        F(store)(z->faded_key + c, F(load)(z->fade + c) * F(load)(z->key + c));
}

static hot void F(put_out)(const F(recurrent) *r, const Array *x, int64_t b, int64_t h, int64_t t,
                           int64_t g, const REAL *sums) {
    REAL *out = F(at)(&x[R_OUT], b, h * r->G + g) + t * x[R_OUT].token;
    for (int64_t m = 0; m < r->M; m++) out[m] = (REAL)r->n->scale * sums[m];
}

/* The outputs of the other queries of a token, which share its state. */
static hot void F(read_others)(F(recurrent) *r, const Array *x, int64_t b, int64_t h, int64_t t) {
    F(token) *z = &r->tokens[0];
    for (int64_t g = 1; g < r->G; g++) {
        const F(step) other = {.c = z->query + g * r->q_head, .sums = z->sums};
        F(sweep)(r->wide, r->C, r->MP, SUM, other, 0, F(nothing));
        F(put_out)(r, x, b, h, t, g, z->sums);
    }
}

/* Without the delta rule, two tokens at once if each has one query. */
static hot void F(recur)(F(recurrent) *r, const Array *x, int64_t b, int64_t h) {
    const int64_t T = r->n->T, C = r->C, MP = r->MP;
    for (int64_t t = 0; t < T;) {
        F(token) *one = F(open_token)(r, t, 0), *two = &r->tokens[1];
        F(open_write)(r, one, t, 0);
        F(forget)(one, r->wide, C * MP);
        const F(step) first = {.fade = one->fade, .a = one->key, .x = one->write, .c = one->query,
                               .sums = one->sums};
        const int pair = t + 1 < T && r->G == 1 && !F(open_token)(r, t + 1, 1)->forgets;
        F(step) next = {0};
        if (pair) {
            F(open_write)(r, two, t + 1, 0);
            next = (F(step)){.fade = two->fade, .a = two->key, .x = two->write, .c = two->query,
                             .sums = two->sums};
        }
        if (r->q && pair)
            F(sweep)(r->wide, C, MP, ROW_FADE | ADD | SUM, first, ROW_FADE | ADD | SUM, next);
        else if (r->q)
            F(sweep)(r->wide, C, MP, ROW_FADE | ADD | SUM, first, 0, F(nothing));
        else if (pair)
            F(sweep)(r->wide, C, MP, ROW_FADE | ADD, first, ROW_FADE | ADD, next);
        else
            F(sweep)(r->wide, C, MP, ROW_FADE | ADD, first, 0, F(nothing));
        if (r->q) {
            F(put_out)(r, x, b, h, t, 0, one->sums);
            if (pair) F(put_out)(r, x, b, h, t + 1, 0, two->sums);
            F(read_others)(r, x, b, h, t);
        }
        t += 1 + pair;
    }
}

/* With the delta rule: a sweep also reads what the next token replaces. */
static hot void F(recur_delta)(F(recurrent) *r, const Array *x, int64_t b, int64_t h) {
    const int64_t T = r->n->T, C = r->C, MP = r->MP;
    REAL *errors = F(at)(&x[R_ERRORS], b, h), *starts = F(at)(&x[R_STARTS], b, h);
    F(token) *z = F(open_token)(r, 0, 0), *next = &r->tokens[1];
    F(fade_key)(r, z);
    F(sweep)(r->wide, C, MP, SUM, (F(step)){.c = z->faded_key, .sums = z->read}, 0, F(nothing));
    for (int64_t t = 0; t < T; t++) {
        F(forget)(z, r->wide, C * MP);
        F(forget)(z, z->read, MP);
        if (starts && t % REMEMBERED == 0)
            F(save_state)(r, starts + t / REMEMBERED * x[R_STARTS].token);
        F(open_write)(r, z, t, 1);
        if (errors)
            memcpy(errors + t * x[R_ERRORS].token, z->error, (size_t)r->M * sizeof(REAL));
        if (t + 1 < T) {
            F(open_token)(r, t + 1, 1);
            F(fade_key)(r, next);
        }
        /* the last token computes a sum that is not used */
        const F(step) step = {.fade = z->fade, .a = z->key, .x = z->write, .c = z->query,
                              .sums = z->sums, .d = next->faded_key, .more = next->read};
        if (r->q) {
            F(sweep)(r->wide, C, MP, ROW_FADE | ADD | SUM | SUM_MORE, step, 0, F(nothing));
            F(put_out)(r, x, b, h, t, 0, z->sums);
            F(read_others)(r, x, b, h, t);
        } else {
            F(sweep)(r->wide, C, MP, ROW_FADE | ADD | SUM_MORE, step, 0, F(nothing));
        }
        const F(token) swap = r->tokens[0];
        r->tokens[0] = r->tokens[1], r->tokens[1] = swap;
    }
}

static void F(recurrent_row)(const Sizes *n, const Array *x, int64_t b, int64_t h, void *scratch) {
    REAL *free = scratch;
    memset(scratch, 0, (size_t)F(recurrent_numbers)(n) * sizeof(REAL));
    F(recurrent) r = F(open_recurrent)(n, x, b, h, &free);
    F(load_state)(&r, F(at)(&x[R_FIRST], b, h));
    if (n->causal && n->T) F(recur_delta)(&r, x, b, h);
    else F(recur)(&r, x, b, h);
    if (x[R_LAST].data) F(save_state)(&r, F(at)(&x[R_LAST], b, h));
}

int F(attnlab_recurrent)(const Sizes *sizes, const Array *arrays) {
    return run(sizes, arrays, F(recurrent_row), F(recurrent_numbers)(sizes), sizeof(REAL));
}

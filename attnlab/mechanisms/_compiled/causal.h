/* Causal attention: y_i = sum over j <= i of phi(q_i).phi(k_j) [v_j, 1], forward and backward.
 *
 * Tokens are processed in chunks. In most chunks no key exceeds the peak by much, and the peak stays;
 * in others, as in the first, it moves token by token. `peaks` keeps the peak at the beginning of
 * each chunk, from which backward recomputes the others. */

/* One row of the batch: where its numbers are, and scratch memory for one chunk. */
typedef struct {
    F(side) query, key;
    const REAL *value, *out, *bottom, *peaks, *grad;
    int64_t value_step, out_step, grad_step;
    int64_t T, C, M, CP, MP, VP; /* padded: features, values, values followed by a one */
    REAL *peak, *decay, *total, *path; /* path: the peak at each token of a chunk */
    REAL *q, *k, *q_size, *k_size;     /* chunk x CP: phi, and its size */
    REAL *v, *g, *to_value, *to_key;   /* chunk x VP, VP, VP, CP */
    REAL *state, *turned;              /* C x MP and (M + 1) x CP, in tiles */
    REAL *wide;                        /* chunk x the input's size, padded, in project.h */
} F(causal);

static int64_t F(causal_numbers)(const Sizes *n) {
    const int64_t CP = F(padded)(n->C), MP = F(padded)(n->M), VP = F(padded)(n->M + 1);
    return 5 * CP + CHUNK * (6 * CP + 3 * VP) + n->C * MP + (n->M + 1) * CP +
           F(project_numbers)(n);
}

static F(causal) F(open_causal)(const Sizes *n, const Array *x, int64_t b, int64_t h, REAL *free) {
    const int64_t CP = F(padded)(n->C), MP = F(padded)(n->M), VP = F(padded)(n->M + 1);
    F(causal) r = {.T = n->T, .C = n->C, .M = n->M, .CP = CP, .MP = MP, .VP = VP};
    r.peak = free, r.decay = r.peak + CP, r.total = r.decay + CP;
    r.query = F(one_side)(n, &x[QUERY_SIGN], &x[QUERY_LOG], b, h, r.total + CP);
    r.key = F(one_side)(n, &x[KEY_SIGN], &x[KEY_LOG], b, h, r.total + 2 * CP);
    r.path = r.total + 3 * CP;
    r.q = r.path + CHUNK * CP, r.k = r.q + CHUNK * CP;
    r.q_size = r.k + CHUNK * CP, r.k_size = r.q_size + CHUNK * CP;
    r.to_key = r.k_size + CHUNK * CP;
    r.v = r.to_key + CHUNK * CP, r.g = r.v + CHUNK * VP, r.to_value = r.g + CHUNK * VP;
    r.state = r.to_value + CHUNK * VP, r.turned = r.state + n->C * MP;
    r.value = F(at)(&x[VALUE], b, h), r.value_step = x[VALUE].token;
    r.out = F(at)(&x[OUT], b, h), r.out_step = x[OUT].token;
    r.grad = F(at)(&x[GRAD], b, h), r.grad_step = x[GRAD].token;
    r.bottom = F(at)(&x[BOTTOM], b, h), r.peaks = F(at)(&x[PEAKS], b, h);
    if (x[DIRECTIONS].data)
        r.wide = F(open_projection)(&r.query, &r.key, n, x, b, r.turned + (n->M + 1) * CP);
    /* without signs a feature equals its size, so they share memory */
    if (!r.query.sign) r.q_size = r.q;
    if (!r.key.sign) r.k_size = r.k;
    for (int64_t c = 0; c < CP; c++) r.peak[c] = EMPTY, r.total[c] = 0;
    memset(r.state, 0, (size_t)(n->C * MP) * sizeof(REAL));
    memset(r.turned, 0, (size_t)((n->M + 1) * CP) * sizeof(REAL));
    return r;
}

static void F(project_both)(F(causal) *r, int64_t first, int64_t n) {
    F(project)(&r->key, first, n);
    F(project)(&r->query, first, n);
}

/* state[c] *= decay[c] */
static void F(fade)(REAL *restrict state, const REAL *restrict decay, int64_t C, int64_t MP) {
    for (int64_t m = 0; m < MP; m += WIDE)
        for (int64_t c = 0; c < C; c++)
            for (int64_t i = 0; i < WIDE; i++) state[m * C + c * WIDE + i] *= decay[c];
}

static void F(fade_turned)(REAL *restrict state, const REAL *restrict decay, int64_t P,
                           int64_t CP) {
    for (int64_t c = 0; c < CP; c += WIDE)
        for (int64_t p = 0; p < P; p++)
            for (int64_t i = 0; i < WIDE; i++) state[c * P + p * WIDE + i] *= decay[c + i];
}

static hot void F(place_value)(const F(causal) *r, int64_t t, int64_t slot) {
    REAL *v = r->v + slot * r->VP;
    F(lay)(v, r->value + t * r->value_step, r->M, r->VP, 0);
    v[r->M] = 1;
}

static hot void F(place_gradient)(const F(causal) *r, int64_t t, int64_t slot) {
    F(ratio_gradient)(r->g + slot * r->VP, r->grad + t * r->grad_step, r->out + t * r->out_step,
                      r->M, r->VP, r->bottom[t]);
}

/* Prefetch token t of the next chunk, with its key and with its query: a few cache lines at a time,
 * because the processor stalls when too many are requested. */
static hot void F(fetch_key)(const F(causal) *r, int64_t t) {
    if (t < 0 || t >= r->T) return;
    F(fetch_side)(&r->key, t);
    F(fetch)(r->value + t * r->value_step, r->M);
}

static hot void F(fetch_query)(const F(causal) *r, int64_t t) {
    if (t < 0 || t >= r->T) return;
    F(fetch_side)(&r->query, t);
    F(fetch)(r->out + t * r->out_step, r->M);
    if (r->grad) F(fetch)(r->grad + t * r->grad_step, r->M);
}

/* n keys from token `first` on, or backwards if step is -1, relative to the current peak. Returns 0
 * if a key exceeds the peak so far that the peak must move. */
static int F(place_keys)(const F(causal) *r, int64_t first, int64_t step, int64_t n) {
    const F(side) key = r->key; /* a copy, which no store can change */
    REAL *const sizes = r->k_size, *const k = r->k, *const peak = r->peak;
    F(bits) above = {0};
    for (int64_t i = 0; i < n; i++) {
        F(fetch_key)(r, first + (i + CHUNK) * step);
        above |= F(key_size)(&key, first + i * step, peak, sizes + i * key.padded);
    }
    if (key.sign)
        for (int64_t i = 0; i < n; i++)
            F(signed_value)(&key, first + i * step, sizes + i * key.padded, k + i * key.padded);
    BITS any = 0;
    for (int64_t i = 0; i < LANES; i++) any |= above[i];
    return !any;
}

/* The same for queries. */
static void F(place_queries)(const F(causal) *r, int64_t first, int64_t step, int64_t n) {
    const F(side) query = r->query;
    REAL *const sizes = r->q_size, *const q = r->q, *const peak = r->peak;
    for (int64_t i = 0; i < n; i++) {
        F(fetch_query)(r, first + (i + CHUNK) * step);
        F(query_size)(&query, first + i * step, peak, sizes + i * query.padded);
    }
    if (query.sign)
        for (int64_t i = 0; i < n; i++)
            F(signed_value)(&query, first + i * step, sizes + i * query.padded,
                            q + i * query.padded);
}

/* bottom[i] = q_i . total, which holds all keys up to i */
static void F(denominators)(REAL *restrict total, const REAL *restrict k, const REAL *restrict q,
                            int64_t CP, int64_t n, REAL *restrict bottom) {
    for (int64_t i = 0; i < n; i++, k += CP, q += CP) {
        F(vec) along = {0};
        for (int64_t c = 0; c < CP; c += LANES) {
            const F(vec) now = F(load)(total + c) + F(load)(k + c);
            F(store)(total + c, now);
            along += now * F(load)(q + c);
        }
        bottom[i] = F(sum)(along);
    }
}

/* Tokens first to first + n, whose keys are in place. */
static void F(forward_tokens)(F(causal) *r, int64_t first, int64_t n) {
    REAL *bottom = (REAL *)r->bottom + first, *out = (REAL *)r->out + first * r->out_step;
    const int whole = r->M == r->MP; /* then values need no padding and are read in place */
    F(place_queries)(r, first, 1, n);
    if (!whole)
        for (int64_t i = 0; i < n; i++) F(place_value)(r, first + i, i);
    F(denominators)(r->total, r->k, r->q, r->CP, n, bottom);
    F(scan)(r->state, r->C, r->MP, r->k, r->CP, r->q, r->CP,
            whole ? r->value + first * r->value_step : r->v, whole ? r->value_step : r->VP,
            r->to_value, r->VP, n);
    for (int64_t i = 0; i < n; i++)
        F(divide)(out + i * r->out_step, r->to_value + i * r->VP, r->M, bottom[i]);
}

static void F(causal_forward)(const Sizes *sizes, const Array *x, int64_t b, int64_t h,
                              void *scratch) {
    F(causal) r = F(open_causal)(sizes, x, b, h, scratch);
    REAL *peaks = (REAL *)r.peaks;
    for (int64_t first = 0; first < r.T; first += CHUNK) {
        const int64_t n = r.T - first < CHUNK ? r.T - first : CHUNK;
        memcpy(peaks + first / CHUNK * x[PEAKS].token, r.peak,
               (size_t)r.key.logs * sizeof(REAL));
        F(project_both)(&r, first, n);
        if (F(place_keys)(&r, first, 1, n)) {
            F(forward_tokens)(&r, first, n);
            continue;
        }
        for (int64_t t = first; t < first + n; t++) {
            if (F(raise)(&r.key, t, r.peak, r.decay)) {
                F(fade)(r.state, r.decay, r.C, r.MP);
                for (int64_t c = 0; c < r.CP; c++) r.total[c] *= r.decay[c];
            }
            F(place_keys)(&r, t, 1, 1);
            F(forward_tokens)(&r, t, 1);
        }
    }
}

/* d log_q, keys in place: the sums again, now multiplied with the gradient of each output. */
static void F(query_tokens)(F(causal) *r, const Array *x, int64_t b, int64_t h, int64_t first,
                            int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        F(fetch_query)(r, first + i + CHUNK);
        F(place_value)(r, first + i, i);
        F(place_gradient)(r, first + i, i);
    }
    F(scan)(r->turned, r->M + 1, r->CP, r->v, r->VP, r->g, r->VP, r->k, r->CP, r->to_key, r->CP,
            n);
    for (int64_t i = 0; i < n; i++) {
        const int64_t t = first + i;
        F(query_size)(&r->query, t, r->peak, r->q_size);
        F(feature_gradients)(&r->query, t, r->to_key + i * r->CP, r->q_size,
                             F(at)(&x[QUERY_SIGN_GRAD], b, h) + t * x[QUERY_SIGN_GRAD].token,
                             F(at)(&x[QUERY_LOG_GRAD], b, h) + t * x[QUERY_LOG_GRAD].token);
    }
    if (r->query.x)
        F(project_back)(&r->query, r->to_key, r->wide, first, 1, n,
                        F(at)(&x[QUERY_LOG_GRAD], b, h), x[QUERY_LOG_GRAD].token);
}

static void F(causal_query_gradient)(const Sizes *sizes, const Array *x, int64_t b, int64_t h,
                                     void *scratch) {
    F(causal) r = F(open_causal)(sizes, x, b, h, scratch);
    for (int64_t first = 0; first < r.T; first += CHUNK) {
        const int64_t n = r.T - first < CHUNK ? r.T - first : CHUNK;
        F(project_both)(&r, first, n);
        if (F(place_keys)(&r, first, 1, n)) {
            F(query_tokens)(&r, x, b, h, first, n);
            continue;
        }
        for (int64_t t = first; t < first + n; t++) {
            if (F(raise)(&r.key, t, r.peak, r.decay))
                F(fade_turned)(r.turned, r.decay, r.M + 1, r.CP);
            F(place_keys)(&r, t, 1, 1);
            F(query_tokens)(&r, x, b, h, t, 1);
        }
    }
}

/* d log_k and d v of n tokens from `last` backwards, slot 0 first, keys in place: the
 * gradients from later queries. */
static void F(key_tokens)(F(causal) *r, const Array *x, int64_t b, int64_t h, int64_t last,
                          int64_t n) {
    F(place_queries)(r, last, -1, n);
    for (int64_t i = 0; i < n; i++) {
        F(place_value)(r, last - i, i);
        F(place_gradient)(r, last - i, i);
    }
    F(scan)(r->state, r->C, r->MP, r->q, r->CP, r->k, r->CP, r->g, r->VP, r->to_value, r->VP, n);
    F(scan)(r->turned, r->M + 1, r->CP, r->g, r->VP, r->v, r->VP, r->q, r->CP, r->to_key, r->CP,
            n);
    for (int64_t i = 0; i < n; i++) {
        const int64_t t = last - i;
        memcpy(F(at)(&x[VALUE_GRAD], b, h) + t * x[VALUE_GRAD].token, r->to_value + i * r->VP,
               (size_t)r->M * sizeof(REAL));
        F(feature_gradients)(&r->key, t, r->to_key + i * r->CP, r->k_size + i * r->CP,
                             F(at)(&x[KEY_SIGN_GRAD], b, h) + t * x[KEY_SIGN_GRAD].token,
                             F(at)(&x[KEY_LOG_GRAD], b, h) + t * x[KEY_LOG_GRAD].token);
    }
    if (r->key.x)
        F(project_back)(&r->key, r->to_key, r->wide, last, -1, n, F(at)(&x[KEY_LOG_GRAD], b, h),
                        x[KEY_LOG_GRAD].token);
}

static void F(causal_key_gradient)(const Sizes *sizes, const Array *x, int64_t b, int64_t h,
                                   void *scratch) {
    F(causal) r = F(open_causal)(sizes, x, b, h, scratch);
    for (int64_t chunk = (r.T - 1) / CHUNK; chunk >= 0 && r.T; chunk--) {
        const int64_t first = chunk * CHUNK, n = r.T - first < CHUNK ? r.T - first : CHUNK;
        const REAL *before = F(row)(r.peaks + chunk * x[PEAKS].token, &r.key, EMPTY);
        memcpy(r.peak, before, (size_t)r.CP * sizeof(REAL));
        F(project_both)(&r, first, n);
        if (F(place_keys)(&r, first + n - 1, -1, n)) {
            F(key_tokens)(&r, x, b, h, first + n - 1, n);
            continue;
        }
        REAL *start = r.total; /* the sums' row is free here */
        memcpy(start, r.peak, (size_t)r.CP * sizeof(REAL));
        for (int64_t i = 0; i < n; i++) {
            F(raise)(&r.key, first + i, r.peak, r.decay);
            memcpy(r.path + i * r.CP, r.peak, (size_t)r.CP * sizeof(REAL));
        }
        for (int64_t i = n - 1; i >= 0; i--) {
            const REAL *earlier = i ? r.path + (i - 1) * r.CP : start;
            memcpy(r.peak, r.path + i * r.CP, (size_t)r.CP * sizeof(REAL));
            F(place_keys)(&r, first + i, -1, 1);
            F(key_tokens)(&r, x, b, h, first + i, 1);
            for (int64_t c = 0; c < r.CP; c += LANES)
                F(store)(r.decay + c, F(exp)(F(load)(earlier + c) - F(load)(r.peak + c)));
            F(fade)(r.state, r.decay, r.C, r.MP);
            F(fade_turned)(r.turned, r.decay, r.M + 1, r.CP);
        }
    }
}

int F(attnlab_causal)(const Sizes *sizes, const Array *arrays) {
    return run(sizes, arrays, F(causal_forward), F(causal_numbers)(sizes), sizeof(REAL));
}

int F(attnlab_causal_backward)(const Sizes *sizes, const Array *arrays) {
    const int64_t numbers = F(causal_numbers)(sizes);
    return run(sizes, arrays, F(causal_query_gradient), numbers, sizeof(REAL)) ||
           run(sizes, arrays, F(causal_key_gradient), numbers, sizeof(REAL));
}

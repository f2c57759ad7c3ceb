/* Attention without a causal mask, in two steps: the sums over all keys, and queries that read them.
 * In memory, sums are C x (M + 1) with the denominator last. Here the denominator is a separate row,
 * `total`, and the rest is in tiles, so that no register is spent on a single column. */

typedef struct {
    F(side) side; /* keys, or queries */
    int64_t T, C, M, CP, MP, VP;
    REAL *peak, *decay, *total;
    REAL *x, *size, *to_x; /* chunk x CP: phi, its size, its gradient */
    REAL *v, *to_v;        /* chunk x VP: values, or gradients of numerators and denominator */
    REAL *state, *turned;  /* C x MP and (M + 1) x CP, in tiles */
} F(whole);

static int64_t F(whole_numbers)(const Sizes *n) {
    const int64_t CP = F(padded)(n->C), MP = F(padded)(n->M), VP = F(padded)(n->M + 1);
    return 4 * CP + BLOCK * (3 * CP + 2 * VP) + n->C * MP + (n->M + 1) * CP;
}

static F(whole) F(open_whole)(const Sizes *n, const Array *x, int sign, int log, int64_t b,
                              int64_t h, REAL *free) {
    const int64_t CP = F(padded)(n->C), MP = F(padded)(n->M), VP = F(padded)(n->M + 1);
    F(whole) r = {.T = n->T, .C = n->C, .M = n->M, .CP = CP, .MP = MP, .VP = VP};
    r.peak = free, r.decay = r.peak + CP, r.total = r.decay + CP;
    r.side = F(one_side)(n, &x[sign], &x[log], b, h, r.total + CP);
    r.x = r.total + 2 * CP, r.size = r.x + BLOCK * CP, r.to_x = r.size + BLOCK * CP;
    r.v = r.to_x + BLOCK * CP, r.to_v = r.v + BLOCK * VP;
    r.state = r.to_v + BLOCK * VP, r.turned = r.state + n->C * MP;
    if (!r.side.sign) r.size = r.x;
    for (int64_t c = 0; c < CP; c++) r.peak[c] = EMPTY, r.total[c] = 0;
    return r;
}

/* The sums in tiles from the sums in memory, and turned: (M + 1) x CP. */
static void F(lay_sums)(F(whole) *r, const REAL *sums, int turned) {
    const int64_t C = r->C, M = r->M;
    for (int64_t c = 0; c < C; c++) {
        const REAL *row = sums + c * (M + 1);
        for (int64_t m = 0; m < M; m += WIDE)
            F(lay)(r->state + m * C + c * WIDE, row + m, M - m < WIDE ? M - m : WIDE, WIDE, 0);
        r->total[c] = row[M];
    }
    if (!turned) return;
    memset(r->turned, 0, (size_t)((M + 1) * r->CP) * sizeof(REAL));
    for (int64_t c = 0; c < C; c++)
        for (int64_t m = 0; m <= M; m++)
            r->turned[c / WIDE * WIDE * (M + 1) + m * WIDE + c % WIDE] = sums[c * (M + 1) + m];
}

static void F(keep_sums)(const F(whole) *r, REAL *sums) {
    for (int64_t c = 0; c < r->C; c++) {
        REAL *row = sums + c * (r->M + 1);
        for (int64_t m = 0; m < r->M; m += WIDE)
            memcpy(row + m, r->state + m * r->C + c * WIDE,
                   (size_t)(r->M - m < WIDE ? r->M - m : WIDE) * sizeof(REAL));
        row[r->M] = r->total[c];
    }
}

/* state += x^T v over n tokens */
static void F(gather)(F(whole) *r, int64_t n) {
    for (int64_t m = 0; m < r->MP; m += WIDE)
        F(product)(r->state + m * r->C, WIDE, r->x, 1, r->CP, r->v + m, r->VP, r->C, n);
}

static hot void F(place_whole)(F(whole) *r, int64_t t, int64_t i, int query) {
    REAL *size = r->size + i * r->CP;
    if (query) F(query_size)(&r->side, t, r->peak, size);
    else F(key_size)(&r->side, t, r->peak, size);
    if (r->side.sign) F(signed_value)(&r->side, t, size, r->x + i * r->CP);
}

/* Moves the peak up to the largest of n keys, and rescales the sums so far. */
static void F(raise_whole)(F(whole) *r, int64_t first, int64_t n) {
    REAL *old = r->decay;
    memcpy(old, r->peak, (size_t)r->CP * sizeof(REAL));
    F(bits) moved = {0};
    for (int64_t t = first; t < first + n; t++) {
        const REAL *log = F(logs)(&r->side, t);
        for (int64_t c = 0; c < r->CP; c += LANES)
            F(store)(r->peak + c, F(max)(F(load)(r->peak + c), F(load)(log + c)));
    }
    for (int64_t c = 0; c < r->CP; c += LANES) {
        const F(vec) shift = F(load)(old + c) - F(load)(r->peak + c);
        moved |= (F(bits))(shift != F(all)(0));
        F(store)(r->decay + c, F(exp)(shift));
        F(store)(r->total + c, F(load)(r->total + c) * F(load)(r->decay + c));
    }
    BITS any = 0;
    for (int64_t i = 0; i < LANES; i++) any |= moved[i];
    if (any && first) F(fade)(r->state, r->decay, r->C, r->MP);
}

static void F(sums_forward)(const Sizes *sizes, const Array *x, int64_t b, int64_t h,
                            void *scratch) {
    F(whole) r = F(open_whole)(sizes, x, KEY_SIGN, KEY_LOG, b, h, scratch);
    const REAL *value = F(at)(&x[VALUE], b, h);
    memset(r.state, 0, (size_t)(r.C * r.MP) * sizeof(REAL));
    for (int64_t first = 0; first < r.T; first += BLOCK) {
        const int64_t n = r.T - first < BLOCK ? r.T - first : BLOCK;
        F(raise_whole)(&r, first, n);
        for (int64_t i = 0; i < n; i++) {
            const int64_t t = first + i, later = t + BLOCK < r.T ? t + BLOCK : r.T - 1;
            F(fetch_side)(&r.side, later);
            F(fetch)(value + later * x[VALUE].token, r.M);
            F(place_whole)(&r, t, i, 0);
            F(lay)(r.v + i * r.VP, value + t * x[VALUE].token, r.M, r.VP, 0);
            for (int64_t c = 0; c < r.CP; c += LANES)
                F(store)(r.total + c, F(load)(r.total + c) + F(load)(r.x + i * r.CP + c));
        }
        F(gather)(&r, n);
    }
    F(keep_sums)(&r, F(at)(&x[SUMS], b, h));
    memcpy(F(at)(&x[PEAKS], b, h), r.peak, (size_t)r.side.logs * sizeof(REAL));
}

static void F(sums_backward)(const Sizes *sizes, const Array *x, int64_t b, int64_t h,
                             void *scratch) {
    F(whole) r = F(open_whole)(sizes, x, KEY_SIGN, KEY_LOG, b, h, scratch);
    const REAL *value = F(at)(&x[VALUE], b, h);
    memcpy(r.peak, F(row)(F(at)(&x[PEAKS], b, h), &r.side, EMPTY), (size_t)r.CP * sizeof(REAL));
    F(lay_sums)(&r, F(at)(&x[SUMS_GRAD], b, h), 1);
    for (int64_t first = 0; first < r.T; first += BLOCK) {
        const int64_t n = r.T - first < BLOCK ? r.T - first : BLOCK;
        for (int64_t i = 0; i < n; i++) {
            F(place_whole)(&r, first + i, i, 0);
            F(lay)(r.v + i * r.VP, value + (first + i) * x[VALUE].token, r.M, r.VP, 0);
            r.v[i * r.VP + r.M] = 1;
        }
        F(through)(r.to_v, r.VP, r.x, r.CP, r.state, r.C, r.MP, n);
        F(through)(r.to_x, r.CP, r.v, r.VP, r.turned, r.M + 1, r.CP, n);
        for (int64_t i = 0; i < n; i++) {
            const int64_t t = first + i;
            memcpy(F(at)(&x[VALUE_GRAD], b, h) + t * x[VALUE_GRAD].token, r.to_v + i * r.VP,
                   (size_t)r.M * sizeof(REAL));
            F(feature_gradients)(&r.side, t, r.to_x + i * r.CP, r.size + i * r.CP,
                                 F(at)(&x[KEY_SIGN_GRAD], b, h) + t * x[KEY_SIGN_GRAD].token,
                                 F(at)(&x[KEY_LOG_GRAD], b, h) + t * x[KEY_LOG_GRAD].token);
        }
    }
}

/* to = sum over c of x[c] * sums[c], n registers of columns. */
static hot void F(read_columns)(REAL *restrict to, const REAL *restrict x, int64_t C,
                                const REAL *restrict sums, int64_t step, const int n) {
    F(vec) total[ABREAST] = {{0}};
    for (int64_t c = 0; c < C; c++, sums += step) {
        const F(vec) each = F(all)(x[c]);
#pragma GCC unroll 4
        for (int i = 0; i < n; i++) total[i] += each * F(load)(sums + i * LANES);
    }
#pragma GCC unroll 4
    for (int i = 0; i < n; i++) F(store)(to + i * LANES, total[i]);
}

/* One query directly from memory: arranging the sums in tiles would cost more than it saves. */
static REAL F(read_one)(F(whole) *r, int64_t t, const REAL *restrict sums, REAL *restrict out) {
    const int64_t M = r->M, step = M + 1;
    REAL *restrict total = r->to_v;
    int64_t m = 0;
    F(place_whole)(r, t, 0, 1);
    for (; m + ABREAST * LANES <= M; m += ABREAST * LANES)
        F(read_columns)(total + m, r->x, r->C, sums + m, step, ABREAST);
    for (; m + LANES <= M; m += LANES)
        F(read_columns)(total + m, r->x, r->C, sums + m, step, 1);
    for (; m <= M; m++) {
        total[m] = 0;
        for (int64_t c = 0; c < r->C; c++) total[m] += r->x[c] * sums[c * step + m];
    }
    F(divide)(out, total, M, total[M]);
    return total[M];
}

static void F(read_forward)(const Sizes *sizes, const Array *x, int64_t b, int64_t h,
                            void *scratch) {
    F(whole) r = F(open_whole)(sizes, x, QUERY_SIGN, QUERY_LOG, b, h, scratch);
    REAL *bottom = F(at)(&x[BOTTOM], b, h), *out = F(at)(&x[OUT], b, h); /* bottom may be NULL */
    REAL bottoms[BLOCK];
    memcpy(r.peak, F(row)(F(at)(&x[PEAKS], b, h), &r.side, EMPTY), (size_t)r.CP * sizeof(REAL));
    if (r.T < FEW) {
        for (int64_t t = 0; t < r.T; t++) {
            const REAL found = F(read_one)(&r, t, F(at)(&x[SUMS], b, h), out + t * x[OUT].token);
            if (bottom) bottom[t] = found;
        }
        return;
    }
    F(lay_sums)(&r, F(at)(&x[SUMS], b, h), 0);
    for (int64_t first = 0; first < r.T; first += BLOCK) {
        const int64_t n = r.T - first < BLOCK ? r.T - first : BLOCK;
        for (int64_t i = 0; i < n; i++) {
            const int64_t t = first + i, later = t + BLOCK < r.T ? t + BLOCK : r.T - 1;
            F(fetch_side)(&r.side, later);
            F(fetch)(out + later * x[OUT].token, r.M);
            F(place_whole)(&r, t, i, 1);
            bottoms[i] = F(dot)(r.x + i * r.CP, r.total, r.CP);
            if (bottom) bottom[t] = bottoms[i];
        }
        F(through)(r.to_v, r.VP, r.x, r.CP, r.state, r.C, r.MP, n);
        for (int64_t i = 0; i < n; i++)
            F(divide)(out + (first + i) * x[OUT].token, r.to_v + i * r.VP, r.M, bottoms[i]);
    }
}

static void F(read_backward)(const Sizes *sizes, const Array *x, int64_t b, int64_t h,
                             void *scratch) {
    F(whole) r = F(open_whole)(sizes, x, QUERY_SIGN, QUERY_LOG, b, h, scratch);
    const REAL *bottom = F(at)(&x[BOTTOM], b, h), *out = F(at)(&x[OUT], b, h);
    const REAL *grad = F(at)(&x[GRAD], b, h);
    memcpy(r.peak, F(row)(F(at)(&x[PEAKS], b, h), &r.side, EMPTY), (size_t)r.CP * sizeof(REAL));
    F(lay_sums)(&r, F(at)(&x[SUMS], b, h), 1);
    memset(r.state, 0, (size_t)(r.C * r.MP) * sizeof(REAL)); /* from here the sums' gradient */
    memset(r.total, 0, (size_t)r.CP * sizeof(REAL));
    for (int64_t first = 0; first < r.T; first += BLOCK) {
        const int64_t n = r.T - first < BLOCK ? r.T - first : BLOCK;
        for (int64_t i = 0; i < n; i++) {
            const int64_t t = first + i;
            F(place_whole)(&r, t, i, 1);
            F(ratio_gradient)(r.v + i * r.VP, grad + t * x[GRAD].token, out + t * x[OUT].token,
                              r.M, r.VP, bottom[t]);
            const REAL last = r.v[i * r.VP + r.M];
            for (int64_t c = 0; c < r.CP; c++) r.total[c] += last * r.x[i * r.CP + c];
        }
        F(gather)(&r, n);
        F(through)(r.to_x, r.CP, r.v, r.VP, r.turned, r.M + 1, r.CP, n);
        for (int64_t i = 0; i < n; i++) {
            const int64_t t = first + i;
            F(feature_gradients)(&r.side, t, r.to_x + i * r.CP, r.size + i * r.CP,
                                 F(at)(&x[QUERY_SIGN_GRAD], b, h) + t * x[QUERY_SIGN_GRAD].token,
                                 F(at)(&x[QUERY_LOG_GRAD], b, h) + t * x[QUERY_LOG_GRAD].token);
        }
    }
    F(keep_sums)(&r, F(at)(&x[SUMS_GRAD], b, h));
}

int F(attnlab_sums)(const Sizes *sizes, const Array *arrays) {
    return run(sizes, arrays, F(sums_forward), F(whole_numbers)(sizes), sizeof(REAL));
}

int F(attnlab_sums_backward)(const Sizes *sizes, const Array *arrays) {
    return run(sizes, arrays, F(sums_backward), F(whole_numbers)(sizes), sizeof(REAL));
}

int F(attnlab_read)(const Sizes *sizes, const Array *arrays) {
    return run(sizes, arrays, F(read_forward), F(whole_numbers)(sizes), sizeof(REAL));
}

int F(attnlab_read_backward)(const Sizes *sizes, const Array *arrays) {
    return run(sizes, arrays, F(read_backward), F(whole_numbers)(sizes), sizeof(REAL));
}

/* phi(x) = sign * exp(log) of queries and keys, relative to references that keep it in range.
 *
 * `peak` holds, per feature, the log of some earlier key, which no key so far exceeds by more than
 * MARGIN. A key is exp(log_k - peak), a query exp(log_q + peak - r) with r the largest log_q + peak:
 * at most 1, and 1 somewhere. So a positive denominator is at least 1, no relevant term
 * underflows, and only rounding depends on later keys. */

/* Queries or keys of one row of the batch. */
typedef struct {
    const REAL *sign, *log;
    int64_t sign_step, log_step; /* from token to token */
    int64_t logs, C, padded;
    REAL *spare; /* a padded row */
    /* where logs are computed from inputs x, as in project.h: then they begin with token `first` */
    const REAL *x, *forth, *back;
    int64_t x_step, D, first;
    const uint8_t *shown;
    REAL half;
} F(side);

static hot REAL *F(at)(const Array *array, int64_t b, int64_t h) {
    if (!array->data) return NULL;
    return (REAL *)array->data + b * array->batch + h * array->head;
}

static F(side) F(one_side)(const Sizes *sizes, const Array *sign, const Array *log, int64_t b,
                           int64_t h, REAL *spare) {
    const F(side) side = {F(at)(sign, b, h), F(at)(log, b, h), sign->token, log->token,
                          sizes->logs, sizes->C, F(padded)(sizes->C), spare, .x = NULL};
    return side;
}

static hot void F(fetch_side)(const F(side) *side, int64_t t) {
    if (side->x) F(fetch)(side->x + t * side->x_step, side->D);
    else F(fetch)(side->log + t * side->log_step, side->logs);
    if (side->sign) F(fetch)(side->sign + t * side->sign_step, side->C);
}

/* Copies n numbers to a padded row. */
static hot void F(lay)(REAL *restrict row, const REAL *restrict from, int64_t n, int64_t padded,
                          REAL rest) {
    memcpy(row, from, (size_t)n * sizeof(REAL));
    for (int64_t i = n; i < padded; i++) row[i] = rest;
}

/* C numbers, all different or one repeated, as a padded row; without a copy where possible. */
static hot const REAL *F(row)(const REAL *from, const F(side) *side, REAL rest) {
    if (side->logs == side->padded) return from;
    if (side->logs == side->C) {
        F(lay)(side->spare, from, side->C, side->padded, rest);
    } else {
        for (int64_t c = 0; c < side->C; c++) side->spare[c] = *from;
        for (int64_t c = side->C; c < side->padded; c++) side->spare[c] = rest;
    }
    return side->spare;
}

static hot const REAL *F(logs)(const F(side) *side, int64_t t) {
    return F(row)(side->log + (t - side->first) * side->log_step, side, NOTHING);
}

/* Moves the peak up to key t and sets decay to exp(old - new). Returns whether it moved. */
static int F(raise)(const F(side) *key, int64_t t, REAL *restrict peak, REAL *restrict decay) {
    const REAL *log = F(logs)(key, t);
    F(bits) moved = {0};
    for (int64_t c = 0; c < key->padded; c += LANES) {
        const F(vec) old = F(load)(peak + c), new = F(max)(old, F(load)(log + c));
        F(store)(decay + c, F(exp)(old - new));
        F(store)(peak + c, new);
        moved |= (F(bits))(new != old);
    }
    BITS any = 0;
    for (int64_t i = 0; i < LANES; i++) any |= moved[i];
    return any != 0;
}

/* |phi(k)| of token t without sign. Returns where it exceeds the peak by more than MARGIN. */
static hot F(bits) F(key_size)(const F(side) *key, int64_t t, const REAL *restrict peak,
                               REAL *restrict size) {
    const REAL *log = F(logs)(key, t);
    F(bits) above = {0};
    for (int64_t c = 0; c < key->padded; c += LANES) {
        const F(vec) over = F(load)(log + c) - F(load)(peak + c);
        above |= (F(bits))(over > F(all)(MARGIN));
        F(store)(size + c, F(exp)(over));
    }
    return above;
}

static hot void F(query_size)(const F(side) *query, int64_t t, const REAL *restrict peak,
                              REAL *restrict size) {
    const REAL *log = F(logs)(query, t);
    F(vec) best = F(all)(EMPTY);
    for (int64_t c = 0; c < query->padded; c += LANES) {
        const F(vec) sight = F(load)(log + c) + F(load)(peak + c);
        F(store)(size + c, sight);
        best = F(max)(best, sight);
    }
    const F(vec) reference = F(largest)(best);
    for (int64_t c = 0; c < query->padded; c += LANES)
        F(store)(size + c, F(exp)(F(load)(size + c) - reference));
}

/* phi from its size, which is the same without signs. Padding is 0 in both cases. */
static hot void F(signed_value)(const F(side) *side, int64_t t, const REAL *size, REAL *value) {
    if (!side->sign) {
        if (value != size) memcpy(value, size, (size_t)side->padded * sizeof(REAL));
        return;
    }
    const REAL *sign = side->sign + t * side->sign_step;
    for (int64_t c = 0; c < side->C; c++) value[c] = sign[c] * size[c];
    for (int64_t c = side->C; c < side->padded; c++) value[c] = 0;
}

/* d log and d sign of token t from d phi and |phi|; d log also takes the place of d phi. */
static hot void F(feature_gradients)(const F(side) *side, int64_t t, REAL *restrict grad,
                                        const REAL *restrict size, REAL *restrict d_sign,
                                        REAL *restrict d_log) {
    const int64_t C = side->C;
    for (int64_t c = 0; c < side->padded; c += LANES)
        F(store)(grad + c, F(load)(grad + c) * F(load)(size + c));
    if (side->sign) {
        const REAL *sign = side->sign + t * side->sign_step;
        memcpy(d_sign, grad, (size_t)C * sizeof(REAL));
        for (int64_t c = 0; c < C; c++) grad[c] *= sign[c];
    }
    if (side->x) return; /* F(project_back) follows */
    if (side->logs == C) {
        memcpy(d_log, grad, (size_t)C * sizeof(REAL));
    } else {
        F(vec) total = {0};
        for (int64_t c = 0; c < side->padded; c += LANES) total += F(load)(grad + c);
        *d_log = F(sum)(total);
    }
}

/* row / bottom, and 0 where bottom is 0. The reciprocal of a tiny number would overflow. */
static hot void F(divide)(REAL *to, const REAL *row, int64_t n, REAL bottom) {
    if (bottom > (REAL)1e-30 || bottom < (REAL)-1e-30 || bottom != bottom) {
        const REAL inverse = 1 / bottom;
        for (int64_t m = 0; m < n; m++) to[m] = row[m] * inverse;
    } else if (bottom == 0) {
        for (int64_t m = 0; m < n; m++) to[m] = 0;
    } else {
        for (int64_t m = 0; m < n; m++) to[m] = row[m] / bottom;
    }
}

/* d (numerators, denominator) of token t, a padded row: grad / bottom and -(grad . out) / bottom. */
static hot void F(ratio_gradient)(REAL *restrict to, const REAL *restrict grad,
                                     const REAL *restrict out, int64_t M, int64_t padded,
                                     REAL bottom) {
    F(lay)(to, grad, M, padded, 0);
    to[M] = -F(dot)(grad, out, M);
    F(divide)(to, to, M + 1, bottom);
}

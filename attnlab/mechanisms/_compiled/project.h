/* Logs that are computed from inputs x: log_c = w_c . x - half |x|^2 with C directions w, a chunk at
 * a time, so that they stay in the first-level cache. All passes compute them in the same way,
 * because a peak must not move in one pass and stay in another. */

static int64_t F(project_numbers)(const Sizes *n) {
    const int64_t CP = F(padded)(n->C), D = n->columns, DP = F(padded)(D);
    return D ? CHUNK * (2 * CP + DP) + D * CP + n->C * DP : 0;
}

/* Lets queries and keys compute their logs. Returns where memory for a chunk of inputs is. */
static REAL *F(open_projection)(F(side) *query, F(side) *key, const Sizes *n, const Array *x,
                                int64_t b, REAL *free) {
    const int64_t C = n->C, CP = F(padded)(C), D = n->columns, DP = F(padded)(D);
    REAL *forth = free + CHUNK * 2 * CP, *back = forth + D * CP; /* D x CP and C x DP, in tiles */
    memset(forth, 0, (size_t)(D * CP + C * DP) * sizeof(REAL));
    for (int64_t c = 0; c < C; c++) {
        const REAL *w = (REAL *)x[DIRECTIONS].data + c * x[DIRECTIONS].batch;
        for (int64_t d = 0; d < D; d++) {
            forth[c / WIDE * WIDE * D + d * WIDE + c % WIDE] = w[d];
            back[d / WIDE * WIDE * C + c * WIDE + d % WIDE] = w[d];
        }
    }
    F(side) *sides[] = {query, key};
    for (int i = 0; i < 2; i++) {
        F(side) *side = sides[i];
        side->x = side->log, side->x_step = side->log_step, side->D = D;
        side->log = free + i * CHUNK * CP, side->log_step = CP;
        side->forth = forth, side->back = back;
    }
    key->half = (REAL)n->scale; /* of a query it cancels */
    if (x[SHOWN].data) key->shown = (const uint8_t *)x[SHOWN].data + b * x[SHOWN].batch;
    return back + C * DP;
}

/* The logs of n tokens from `first` on. */
static void F(project)(F(side) *side, int64_t first, int64_t n) {
    if (!side->x) return;
    const REAL *x = side->x + first * side->x_step;
    REAL *log = (REAL *)side->log;
    side->first = first;
    F(through)(log, side->padded, x, side->x_step, side->forth, side->D, side->padded, n);
    if (!side->half && !side->shown) return;
    for (int64_t i = 0; i < n; i++, x += side->x_step, log += side->padded) {
        const int hidden = side->shown && !side->shown[first + i];
        const REAL less = hidden ? -(REAL)NOTHING : side->half * F(dot)(x, x, side->D);
        for (int64_t c = 0; c < side->padded; c += LANES)
            F(store)(log + c, F(load)(log + c) - F(all)(less));
    }
}

/* d x of n tokens from `first` on, or backwards if step is -1, from their d log. */
static void F(project_back)(const F(side) *side, const REAL *d_log, REAL *wide, int64_t first,
                            int64_t step, int64_t n, REAL *d_x, int64_t d_step) {
    const int64_t DP = F(padded)(side->D);
    F(through)(wide, DP, d_log, side->padded, side->back, side->C, DP, n);
    for (int64_t i = 0; i < n; i++, wide += DP, d_log += side->padded) {
        const int64_t t = first + i * step;
        const REAL *restrict x = side->x + t * side->x_step;
        REAL *restrict to = d_x + t * d_step;
        F(vec) total = {0};
        for (int64_t c = 0; c < side->padded; c += LANES) total += F(load)(d_log + c);
        const REAL less = 2 * side->half * F(sum)(total);
        for (int64_t d = 0; d < side->D; d++) to[d] = wide[d] - less * x[d];
    }
}

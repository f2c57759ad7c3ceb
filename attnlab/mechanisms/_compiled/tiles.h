/* The two loops that take nearly all of the time. Both keep their accumulators in registers.
 *
 * Matrices with columns in tiles: [tile][row][WIDE], so that a tile is contiguous. */

static int64_t F(padded)(int64_t n) { return (n + WIDE - 1) / WIDE * WIDE; }

/* Prefetches this token's numbers: the processor cannot predict where the next chunk of each array
 * is. */
static hot void F(fetch)(const REAL *token, int64_t numbers) {
    for (int64_t i = 0; i < numbers; i += LINE) __builtin_prefetch(token + i, 0, 2);
}

/* n tokens through one tile of the state (P x WIDE), in order:
 *     state[p] += a[t][p] * x[t];  y[t] = sum over p of b[t][p] * state[p]
 * Rows of a and b are lda and ldb apart, rows of x and y ldx and ldy. */
static hot void F(scan_tile)(REAL *restrict state, int64_t P, const REAL *restrict a,
                             int64_t lda, const REAL *restrict b, int64_t ldb,
                             const REAL *restrict x, int64_t ldx, REAL *restrict y, int64_t ldy,
                             const int n) {
    F(vec) xs[GROUP][2], ys[GROUP][2];
#pragma GCC unroll 8
    for (int t = 0; t < n; t++) {
        xs[t][0] = F(load)(x + t * ldx);
        xs[t][1] = F(load)(x + t * ldx + LANES);
        ys[t][0] = ys[t][1] = (F(vec)){0};
    }
    for (int64_t p = 0; p < P; p++) {
        F(vec) s0 = F(load)(state + p * WIDE), s1 = F(load)(state + p * WIDE + LANES);
#pragma GCC unroll 8
        for (int t = 0; t < n; t++) {
            const F(vec) at = F(all)(a[t * lda + p]);
            s0 += at * xs[t][0];
            s1 += at * xs[t][1];
            const F(vec) bt = F(all)(b[t * ldb + p]);
            ys[t][0] += bt * s0;
            ys[t][1] += bt * s1;
        }
        F(store)(state + p * WIDE, s0);
        F(store)(state + p * WIDE + LANES, s1);
    }
#pragma GCC unroll 8
    for (int t = 0; t < n; t++) {
        F(store)(y + t * ldy, ys[t][0]);
        F(store)(y + t * ldy + LANES, ys[t][1]);
    }
}

/* `tokens` tokens through the whole state (P x Q, Q padded). */
static void F(scan)(REAL *restrict state, int64_t P, int64_t Q, const REAL *restrict a,
                    int64_t lda, const REAL *restrict b, int64_t ldb, const REAL *restrict x,
                    int64_t ldx, REAL *restrict y, int64_t ldy, int64_t tokens) {
    for (int64_t q = 0; q < Q; q += WIDE) {
        REAL *tile = state + q * P;
        int64_t t = 0;
        for (; t + GROUP <= tokens; t += GROUP)
            F(scan_tile)(tile, P, a + t * lda, lda, b + t * ldb, ldb, x + t * ldx + q, ldx,
                         y + t * ldy + q, ldy, GROUP);
        for (; t < tokens; t++)
            F(scan_tile)(tile, P, a + t * lda, lda, b + t * ldb, ldb, x + t * ldx + q, ldx,
                         y + t * ldy + q, ldy, 1);
    }
}

/* y[i] += sum over j of a[i * by_row + j * by_column] * x[j], or = if add is 0, for `rows` rows of
 * one tile's width; rows of x and y are ldx and ldy apart. */
static hot void F(product_tile)(REAL *restrict y, int64_t ldy, const REAL *restrict a,
                                   int64_t by_row, int64_t by_column, const REAL *restrict x,
                                   int64_t ldx, int64_t columns, const int add, const int rows) {
    F(vec) ys[2 * GROUP][2] = {{{0}}};
#pragma GCC unroll 16
    for (int i = 0; i < rows && add; i++) {
        ys[i][0] = F(load)(y + i * ldy);
        ys[i][1] = F(load)(y + i * ldy + LANES);
    }
    for (int64_t j = 0; j < columns; j++) {
        const F(vec) x0 = F(load)(x + j * ldx), x1 = F(load)(x + j * ldx + LANES);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            const F(vec) each = F(all)(a[i * by_row + j * by_column]);
            ys[i][0] += each * x0;
            ys[i][1] += each * x1;
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
        F(store)(y + i * ldy, ys[i][0]);
        F(store)(y + i * ldy + LANES, ys[i][1]);
    }
}

static hot void F(multiply)(REAL *restrict y, int64_t ldy, const REAL *restrict a, int64_t by_row,
                            int64_t by_column, const REAL *restrict x, int64_t ldx, int64_t rows,
                            int64_t columns, const int add) {
    int64_t i = 0;
    for (; i + 2 * GROUP <= rows; i += 2 * GROUP)
        F(product_tile)(y + i * ldy, ldy, a + i * by_row, by_row, by_column, x, ldx, columns, add,
                        2 * GROUP);
    for (; i + 4 <= rows; i += 4)
        F(product_tile)(y + i * ldy, ldy, a + i * by_row, by_row, by_column, x, ldx, columns, add,
                        4);
    for (; i + 2 <= rows; i += 2)
        F(product_tile)(y + i * ldy, ldy, a + i * by_row, by_row, by_column, x, ldx, columns, add,
                        2);
    for (; i < rows; i++)
        F(product_tile)(y + i * ldy, ldy, a + i * by_row, by_row, by_column, x, ldx, columns, add,
                        1);
}

static void F(product)(REAL *restrict y, int64_t ldy, const REAL *restrict a, int64_t by_row,
                       int64_t by_column, const REAL *restrict x, int64_t ldx, int64_t rows,
                       int64_t columns) {
    F(multiply)(y, ldy, a, by_row, by_column, x, ldx, rows, columns, 1);
}

/* to (n x Q) = from (n x P) @ tiles (P x Q) */
static void F(through)(REAL *to, int64_t ld_to, const REAL *from, int64_t ld_from,
                       const REAL *tiles, int64_t P, int64_t Q, int64_t n) {
    for (int64_t q = 0; q < Q; q += WIDE)
        F(multiply)(to + q, ld_to, from, ld_from, 1, tiles + q * P, WIDE, n, P, 0);
}

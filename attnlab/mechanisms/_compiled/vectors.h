/* Vectors of REAL in the widest registers that the compiler may use, and their exponential.
 * Included once for float and once for double; REAL, BITS and F(name) are set by kernels.c. */

#define LANES ((int64_t)(VECTOR_BYTES / sizeof(REAL)))
#define WIDE (2 * LANES) /* columns of a tile: two registers */
#define LINE ((int64_t)(64 / sizeof(REAL))) /* of the cache */

typedef REAL F(vec) __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(REAL)), may_alias));
typedef BITS F(bits) __attribute__((vector_size(VECTOR_BYTES)));

static hot F(vec) F(load)(const REAL *p) { return *(const F(vec) *)p; }
static hot void F(store)(REAL *p, F(vec) x) { *(F(vec) *)p = x; }
static hot F(vec) F(all)(REAL x) { return x - (F(vec)){0}; }

/* The larger of both; NaN where x is NaN. */
static hot F(vec) F(max)(F(vec) least, F(vec) x) {
#if defined(MAX_float)
    return EXPAND(MAX, SUFFIX)(least, x); /* one instruction, which compilers miss */
#else
    const F(bits) above = (F(bits))(least > x);
    return (F(vec))((above & (F(bits))least) | (~above & (F(bits))x));
#endif
}

/* Lane i of it is lane i ^ by of x. */
static hot F(vec) F(swap)(F(vec) x, const BITS by) {
#if defined(__clang__)
    F(vec) y = x;
#pragma GCC unroll 16
    for (int64_t i = 0; i < LANES; i++) y[i] = x[i ^ by];
    return y;
#else
    return __builtin_shuffle(x, (F(bits)){EXPAND(COUNT, SUFFIX)} ^ by);
#endif
}

/* The sum of all lanes, in every lane. */
static hot F(vec) F(sums_of)(F(vec) x) {
#pragma GCC unroll 4
    for (BITS by = LANES / 2; by; by /= 2) x += F(swap)(x, by);
    return x;
}

static hot F(vec) F(largest)(F(vec) x) {
#pragma GCC unroll 4
    for (BITS by = LANES / 2; by; by /= 2) x = F(max)(x, F(swap)(x, by));
    return x;
}

/* Lane i of it is lane i ^ flip of x or, where i has the bit `by`, lane i ^ by ^ flip of y. */
static hot F(vec) F(mix)(F(vec) x, F(vec) y, const BITS by, const BITS flip) {
#if defined(__clang__)
    F(vec) z = x;
#pragma GCC unroll 16
    for (int64_t i = 0; i < LANES; i++) z[i] = i & by ? y[i ^ by ^ flip] : x[i ^ flip];
    return z;
#else
    const F(bits) lane = (F(bits)){EXPAND(COUNT, SUFFIX)}, odd = (lane & by) != 0;
    return __builtin_shuffle(x, y, (lane ^ flip ^ (odd & by)) + (odd & (BITS)LANES));
#endif
}

/* Transposes LANES x LANES numbers, whose rows are ldx and ldy apart. */
static hot void F(transpose_block)(REAL *y, int64_t ldy, const REAL *x, int64_t ldx) {
    F(vec) rows[VECTOR_BYTES / sizeof(REAL)];
#pragma GCC unroll 16
    for (int64_t i = 0; i < LANES; i++) rows[i] = F(load)(x + i * ldx);
#pragma GCC unroll 4
    for (BITS by = 1; by < LANES; by *= 2)
#pragma GCC unroll 16
        for (int64_t i = 0; i < LANES; i++)
            if (!(i & by)) {
                const F(vec) one = rows[i], two = rows[i ^ by];
                rows[i] = F(mix)(one, two, by, 0);
                rows[i ^ by] = F(mix)(one, two, by, by);
            }
#pragma GCC unroll 16
    for (int64_t i = 0; i < LANES; i++) F(store)(y + i * ldy, rows[i]);
}

/* y (columns x rows) = the transpose of x (rows x columns). */
static void F(transpose)(REAL *y, int64_t ldy, const REAL *x, int64_t ldx, int64_t rows,
                         int64_t columns) {
    for (int64_t i = 0; i < rows; i += LANES)
        for (int64_t j = 0; j < columns; j += LANES) {
            const REAL *from = x + i * ldx + j;
            REAL *to = y + j * ldy + i;
            if (i + LANES <= rows && j + LANES <= columns) {
                F(transpose_block)(to, ldy, from, ldx);
                continue;
            }
            for (int64_t p = 0; p < LANES && i + p < rows; p++)
                for (int64_t q = 0; q < LANES && j + q < columns; q++)
                    to[q * ldy + p] = from[p * ldx + q];
        }
}

static hot REAL F(sum)(F(vec) x) { return F(sums_of)(x)[0]; }

static hot REAL F(dot)(const REAL *a, const REAL *b, int64_t n) {
    F(vec) total = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) total += F(load)(a + i) * F(load)(b + i);
    REAL rest = 0;
    for (; i < n; i++) rest += a[i] * b[i];
    return F(sum)(total) + rest;
}

/* exp(x), exactly 0 below EXP_LEAST. Its error is about one unit in the last place, less than that
 * of rounding x. x = n ln 2 + r with |r| <= ln(2) / 2: adding MAGIC leaves n, plus the
 * exponent's bias, in the low bits of the sum, from where a shift makes 2^n of it (0 for the least
 * n). Terms are added in pairs, because in sequence each would wait for the one before. */
static hot F(vec) F(exp)(F(vec) x) {
    x = F(max)(F(all)(EXP_LEAST), x);
    F(vec) shifted = x * (REAL)1.44269504088896340736 + MAGIC;
    const F(vec) r = x - (shifted - MAGIC) * (REAL)0.69314718055994530942, square = r * r;
    F(vec) p = r * EXP_TERMS[EXP_COUNT - 1] + EXP_TERMS[EXP_COUNT - 2];
#pragma GCC unroll 16
    for (int i = EXP_COUNT - 4; i >= 0; i -= 2)
        p = p * square + (r * EXP_TERMS[i + 1] + EXP_TERMS[i]);
    return p * (F(vec))((F(bits))shifted << MANTISSA);
}

/* For tests. */
void F(attnlab_exp)(const REAL *x, REAL *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = F(exp)(F(all)(x[i]))[0];
}

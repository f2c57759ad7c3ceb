/* Adds one token to sums in place, without a copy. */

static void F(absorb_token)(const Sizes *n, const Array *x, int64_t b, int64_t h, void *scratch) {
    const int64_t C = n->C, M = n->M, CP = F(padded)(C);
    REAL *size = scratch, *decay = size + CP, *peak = decay + CP;
    const F(side) key = F(one_side)(n, &x[KEY_SIGN], &x[KEY_LOG], b, h, peak + CP);
    REAL *kept = F(at)(&x[PEAKS], b, h);
    memcpy(peak, F(row)(kept, &key, EMPTY), (size_t)CP * sizeof(REAL));
    F(raise)(&key, 0, peak, decay);
    F(key_size)(&key, 0, peak, size);
    F(signed_value)(&key, 0, size, size);
    memcpy(kept, peak, (size_t)key.logs * sizeof(REAL));
    const REAL *restrict value = F(at)(&x[VALUE], b, h);
    REAL *restrict row = F(at)(&x[SUMS], b, h);
    for (int64_t c = 0; c < C; c++, row += M + 1) {
        const REAL fade = decay[c], each = size[c];
        int64_t m = 0;
        for (; m + LANES <= M; m += LANES)
            F(store)(row + m, F(load)(row + m) * fade + each * F(load)(value + m));
        for (; m < M; m++) row[m] = row[m] * fade + each * value[m];
        row[M] = row[M] * fade + each;
    }
}

int F(attnlab_absorb)(const Sizes *sizes, const Array *arrays) {
    return run(sizes, arrays, F(absorb_token), 4 * F(padded)(sizes->C), sizeof(REAL));
}

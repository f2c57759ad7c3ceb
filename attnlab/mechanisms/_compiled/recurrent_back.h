/* The backward pass. R is the gradient of the state; from later tokens a token receives
 * diag(decay) (R - w k du^T) of the next one, the second term only with the delta rule. */
typedef struct {
    F(recurrent) r;
    REAL *tall, *wide_grad, *tall_grad; /* the state M x CP; R as C x MP and as M x CP */
    REAL *history;  /* REMEMBERED x M x CP: P of the tokens of a chunk */
    REAL *starts;   /* M x CP for each chunk: the state before it, without the delta rule */
    REAL *grads;    /* 2 x G x MP: scaled gradients of the outputs */
    REAL *queries;  /* 2 x CP */
    REAL *d_write, *read, *decay_grad;
    REAL *next_fade, *next_key; /* of the token after: its decay, and -w decay k */
    int settled; /* both are applied to wide_grad, which alone holds R */
} F(reverse);

static int64_t F(reverse_numbers)(const Sizes *n) {
    const int64_t CP = F(padded)(n->C), MP = F(padded)(n->M);
    return F(recurrent_numbers)(n) + 2 * n->M * CP + n->C * MP + (2 * n->columns + 2) * MP + 8 * CP;
}

/* A token of the backward pass: e, u, its queries and the scaled gradients of its outputs. */
static hot F(token) *F(open_back)(F(reverse) *z, const Array *x, int64_t b, int64_t h, int64_t t,
                                  const int slot, const int delta) {
    F(recurrent) *r = &z->r;
    F(token) *token = F(open_token)(r, t, slot);
    if (delta)
        F(lay)(token->error, F(at)(&x[R_ERRORS], b, h) + t * x[R_ERRORS].token, r->M, r->MP, 0);
    else F(lay)(token->error, r->v + t * r->v_step, r->M, r->MP, 0);
    for (int64_t m = 0; m < r->MP; m += LANES)
        F(store)(token->write + m, token->w * F(load)(token->error + m));
    for (int64_t g = 0; g < r->G; g++) {
        const REAL *grad = F(at)(&x[R_GRAD], b, h * r->G + g) + t * x[R_GRAD].token;
        REAL *to = z->grads + (slot * r->G + g) * r->MP;
        for (int64_t m = 0; m < r->M; m++) to[m] = (REAL)r->n->scale * grad[m];
    }
    F(lay)(z->queries + slot * r->CP, token->query, r->C, r->CP, 0);
    return token;
}

static hot void F(put_query_grad)(F(reverse) *z, const Array *x, int64_t b, int64_t h, int64_t t,
                                  int64_t g, const REAL *sums) {
    memcpy(F(at)(&x[R_QUERY_GRAD], b, h * z->r.G + g) + t * x[R_QUERY_GRAD].token, sums,
           (size_t)z->r.C * sizeof(REAL));
}

/* The gradients of the other queries of a token, from the tall state after it. */
static hot void F(other_query_grads)(F(reverse) *z, const Array *x, int64_t b, int64_t h,
                                     int64_t t) {
    F(token) *token = &z->r.tokens[0];
    for (int64_t g = 1; g < z->r.G; g++) {
        const F(step) other = {.c = z->grads + g * z->r.MP, .sums = token->sums};
        F(sweep)(z->tall, z->r.M, z->r.CP, SUM, other, 0, F(nothing));
        F(put_query_grad)(z, x, b, h, t, g, token->sums);
    }
}

/* The state after token `slot` in the tall layout, and the gradient of its first query. */
static hot F(step) F(tall_step)(F(reverse) *z, const int slot) {
    F(token) *token = &z->r.tokens[slot];
    return (F(step)){.fade = token->fade, .a = token->write, .x = token->key,
                     .c = z->grads + slot * z->r.G * z->r.MP, .sums = token->sums};
}

/* Without the delta rule: all tokens forward, for the gradients of the queries. */
static hot void F(forth)(F(reverse) *z, const Array *x, int64_t b, int64_t h) {
    F(recurrent) *r = &z->r;
    const int64_t tall = r->M * r->CP;
    for (int64_t t = 0; t < r->n->T;) {
        if (r->decay && t % REMEMBERED == 0)
            memcpy(z->starts + t / REMEMBERED * tall, z->tall, (size_t)tall * sizeof(REAL));
        const int more = t + 1 < r->n->T && (t + 1) % REMEMBERED; /* in this chunk */
        const int pair = more && r->G == 1 && !F(open_back)(z, x, b, h, t + 1, 1, 0)->forgets;
        F(forget)(F(open_back)(z, x, b, h, t, 0, 0), z->tall, tall);
        if (pair) {
            F(sweep)(z->tall, r->M, r->CP, LANE_FADE | ADD | SUM, F(tall_step)(z, 0),
                     LANE_FADE | ADD | SUM, F(tall_step)(z, 1));
            F(put_query_grad)(z, x, b, h, t + 1, 0, r->tokens[1].sums);
        } else {
            F(sweep)(z->tall, r->M, r->CP, LANE_FADE | ADD | SUM, F(tall_step)(z, 0), 0,
                     F(nothing));
        }
        F(put_query_grad)(z, x, b, h, t, 0, r->tokens[0].sums);
        F(other_query_grads)(z, x, b, h, t);
        t += 1 + pair;
    }
}

/* The tokens of a chunk forward from its start, and P of each. */
static hot void F(forth_chunk)(F(reverse) *z, const Array *x, int64_t b, int64_t h, int64_t first,
                               int64_t last, const int delta) {
    F(recurrent) *r = &z->r;
    const int64_t tall = r->M * r->CP;
    const int64_t chunk = first / REMEMBERED;
    if (!delta) memcpy(z->tall, z->starts + chunk * tall, (size_t)tall * sizeof(REAL));
    for (int64_t c = 0; delta && c < r->C; c++) {
        const REAL *from = F(at)(&x[R_STARTS], b, h) + chunk * x[R_STARTS].token;
        const int64_t tile = c / (2 * WIDE) * 2 * WIDE;
        const int64_t width = r->CP - tile < 2 * WIDE ? WIDE : 2 * WIDE;
        REAL *to = z->tall + tile * r->M + (c - tile);
        for (int64_t m = 0; m < r->M; m++) to[m * width] = from[c * r->M + m];
    }
    for (int64_t t = first; t < last; t++) {
        F(forget)(F(open_back)(z, x, b, h, t, 0, delta), z->tall, tall);
        F(step) step = F(tall_step)(z, 0);
        step.copy = z->history + (t - first) * tall;
        F(sweep)(z->tall, r->M, r->CP, LANE_FADE | COPY | ADD | SUM, step, 0, F(nothing));
        F(put_query_grad)(z, x, b, h, t, 0, r->tokens[0].sums);
        F(other_query_grads)(z, x, b, h, t);
    }
}

static hot int F(is_strong)(const REAL *decay, int64_t n) {
    int strong = 0;
    for (int64_t i = 0; i < n; i++) strong |= decay[i] < (REAL)STRONG;
    return strong;
}

/* Whether a token forgets everything before it. The gradient of its decay is 0. */
static hot int F(forgets)(const REAL *decay, int64_t n) {
    int all = 1;
    for (int64_t i = 0; i < n; i++) all &= decay[i] < (REAL)EXP_LEAST;
    return all;
}

/* The sums over M of R times a state, for each channel. */
static void F(sum_products)(const F(reverse) *z, const REAL *state, REAL *sums) {
    const int64_t M = z->r.M, CP = z->r.CP;
    for (int64_t c = 0; c < CP; c += LANES) {
        const int64_t tile = c / (2 * WIDE) * 2 * WIDE;
        const int64_t width = CP - tile < 2 * WIDE ? WIDE : 2 * WIDE, at = tile * M + c - tile;
        F(vec) even = {0}, odd = {0};
        int64_t m = 0;
        for (; m + 1 < M; m += 2) {
            const int64_t i = at + m * width, j = i + width;
            even += F(load)(z->tall_grad + i) * F(load)(state + i);
            odd += F(load)(z->tall_grad + j) * F(load)(state + j);
        }
        if (m < M) even += F(load)(z->tall_grad + at + m * width) * F(load)(state + at + m * width);
        F(store)(sums + c, even + odd);
    }
}

/* The gradient of log_decay in each channel: dP . P, where dP = R - w k du^T (the second term only
 * with the delta rule). It equals that of the next token, plus q . dq, minus k . dk, which costs
 * little, but cancels where the decay is strong, and errors add up. So it is computed directly
 * for the first token of each chunk and where a decay is strong. */
static hot void F(add_decay_grad)(F(reverse) *z, const Array *x, int64_t b, int64_t h, int64_t t,
                                  const int slot, const REAL *d_key, const REAL *history,
                                  const int delta) {
    F(recurrent) *r = &z->r;
    const F(token) *token = &r->tokens[slot];
    const int first = t % REMEMBERED == 0;
    if (token->forgets) {
        memset(z->decay_grad, 0, (size_t)r->C * sizeof(REAL));
        return;
    }
    if (first || (history && F(is_strong)(r->decay + t * r->decay_step, r->n->logs))) {
        const REAL *start = z->starts + t / REMEMBERED * r->M * r->CP;
        F(sum_products)(z, history ? history : start, z->decay_grad);
        for (int64_t c = 0; c < r->C; c++) {
            if (!history) z->decay_grad[c] *= token->fade[c];
            if (delta) z->decay_grad[c] -= token->w * token->key[c] * z->read[c];
        }
    } else {
        for (int64_t g = 0; g < r->G; g++) {
            const REAL *query = token->query + g * r->q_head;
            const REAL *grad = F(at)(&x[R_QUERY_GRAD], b, h * r->G + g) + t * x[R_QUERY_GRAD].token;
            for (int64_t c = 0; c < r->C; c++) z->decay_grad[c] += query[c] * grad[c];
        }
        for (int64_t c = 0; c < r->C; c++)
            z->decay_grad[c] -= token->key[c] * (d_key[c] + (delta ? token->w * z->read[c] : 0));
        return; /* without a strong decay, no channel is forgotten */
    }
    for (int64_t c = 0; c < r->C; c++)
        z->decay_grad[c] = token->fade[c] == 0 ? 0 : z->decay_grad[c];
}

/* The gradients of a token from those of u and of k (without the delta rule's part). */
static hot void F(close_back)(F(reverse) *z, const Array *x, int64_t b, int64_t h, int64_t t,
                              const int slot, const REAL *d_write, const REAL *d_key,
                              REAL *history, const int delta) {
    F(recurrent) *r = &z->r;
    const F(token) *token = &r->tokens[slot];
    const REAL w = token->w;
    REAL *d_value = F(at)(&x[R_VALUE_GRAD], b, h) + t * x[R_VALUE_GRAD].token;
    for (int64_t m = 0; m < r->M; m++) d_value[m] = w * d_write[m];
    if (x[R_STRENGTH_GRAD].data)
        F(at)(&x[R_STRENGTH_GRAD], b, h)[t * x[R_STRENGTH_GRAD].token] =
            F(dot)(d_write, token->error, r->MP);
    if (delta) {
        const F(step) read = {.c = d_write, .sums = z->read};
        F(sweep)(history, r->M, r->CP, SUM, read, 0, F(nothing));
    }
    REAL *to_key = F(at)(&x[R_KEY_GRAD], b, h) + t * x[R_KEY_GRAD].token;
    for (int64_t c = 0; c < r->C; c++) to_key[c] = d_key[c] - (delta ? w * z->read[c] : 0);
    if (!x[R_DECAY_GRAD].data) return;
    F(add_decay_grad)(z, x, b, h, t, slot, d_key, history, delta);
    REAL *to = F(at)(&x[R_DECAY_GRAD], b, h) + t * x[R_DECAY_GRAD].token;
    if (r->n->logs > 1) memcpy(to, z->decay_grad, (size_t)r->C * sizeof(REAL));
    else
        for (int64_t c = to[0] = 0; c < r->C; c++) to[0] += z->decay_grad[c];
}

/* R of a token in both layouts, with the sums that give the gradients of u and of k. */
static hot F(step) F(wide_back_step)(F(reverse) *z, const int slot, const REAL *fade) {
    const F(token) *token = &z->r.tokens[slot];
    return (F(step)){.fade = fade, .a = z->next_key, .x = z->d_write,
                     .b = z->queries + slot * z->r.CP, .y = z->grads + slot * z->r.G * z->r.MP,
                     .c = token->key, .sums = token->read};
}

static hot F(step) F(tall_back_step)(F(reverse) *z, const int slot, const REAL *fade) {
    const F(token) *token = &z->r.tokens[slot];
    return (F(step)){.fade = fade, .a = z->d_write, .x = z->next_key,
                     .b = z->grads + slot * z->r.G * z->r.MP, .y = z->queries + slot * z->r.CP,
                     .c = token->write, .sums = token->sums};
}

/* Remember token `slot` for the one before it. */
static hot void F(keep_next)(F(reverse) *z, const int slot) {
    const F(token) *token = &z->r.tokens[slot];
    memcpy(z->d_write, token->read, (size_t)z->r.MP * sizeof(REAL));
    for (int64_t c = 0; c < z->r.CP; c += LANES) {
        const F(vec) fade = F(load)(token->fade + c);
        F(store)(z->next_fade + c, fade);
        F(store)(z->next_key + c, -token->w * fade * F(load)(token->key + c));
    }
    F(forget)(token, z->d_write, z->r.MP);
    F(forget)(token, z->next_key, z->r.CP);
    F(forget)(token, z->wide_grad, z->r.C * z->r.MP);
    F(forget)(token, z->tall_grad, z->r.M * z->r.CP);
}

/* One token backward. Its queries are added one after the other; the last sums count. */
static hot void F(back_token)(F(reverse) *z, const Array *x, int64_t b, int64_t h, int64_t t,
                              REAL *history, const int delta) {
    F(recurrent) *r = &z->r;
    F(token) *token = F(open_back)(z, x, b, h, t, 0, delta);
    const int more = delta ? ADD : 0;
    F(sweep)(z->wide_grad, r->C, r->MP, ROW_FADE | more | ADD_MORE | SUM,
             F(wide_back_step)(z, 0, z->next_fade), 0, F(nothing));
    F(sweep)(z->tall_grad, r->M, r->CP, LANE_FADE | more | ADD_MORE | SUM,
             F(tall_back_step)(z, 0, z->next_fade), 0, F(nothing));
    for (int64_t g = 1; g < r->G; g++) {
        REAL *grad = z->grads + g * r->MP;
        F(lay)(z->queries, token->query + g * r->q_head, r->C, r->CP, 0);
        const F(step) wide = {.b = z->queries, .y = grad, .c = token->key, .sums = token->read};
        const F(step) tall = {.b = grad, .y = z->queries, .c = token->write, .sums = token->sums};
        F(sweep)(z->wide_grad, r->C, r->MP, ADD_MORE | SUM, wide, 0, F(nothing));
        F(sweep)(z->tall_grad, r->M, r->CP, ADD_MORE | SUM, tall, 0, F(nothing));
    }
    F(close_back)(z, x, b, h, t, 0, token->read, token->sums, history, delta);
    F(keep_next)(z, 0);
}

/* Tokens t and t - 1 backward, without the delta rule and with one query each. */
static hot void F(back_pair)(F(reverse) *z, const Array *x, int64_t b, int64_t h, int64_t t) {
    F(recurrent) *r = &z->r;
    F(token) *late = F(open_back)(z, x, b, h, t, 0, 0), *early = F(open_back)(z, x, b, h, t - 1, 1, 0);
    F(sweep)(z->wide_grad, r->C, r->MP, ROW_FADE | ADD_MORE | SUM,
             F(wide_back_step)(z, 0, z->next_fade), ROW_FADE | ADD_MORE | SUM,
             F(wide_back_step)(z, 1, late->fade));
    F(sweep)(z->tall_grad, r->M, r->CP, LANE_FADE | ADD_MORE | SUM,
             F(tall_back_step)(z, 0, z->next_fade), LANE_FADE | ADD_MORE | SUM,
             F(tall_back_step)(z, 1, late->fade));
    F(close_back)(z, x, b, h, t, 0, late->read, late->sums, NULL, 0);
    F(close_back)(z, x, b, h, t - 1, 1, early->read, early->sums, NULL, 0);
    F(keep_next)(z, 1);
}

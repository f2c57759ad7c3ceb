/* Causal linear attention token by token, as fast-transformers' C++ does it on a CPU: features and
 * values as plain numbers, the normalizer apart, no stabilizer, one row of the batch per thread.
 * Written for comparison from the published algorithm (Katharopoulos et al. 2020, section 3.3). */

#include <stdlib.h>
#include <string.h>

/* out_t = q_t S_t with S_t = S_(t-1) + k_t v_t^T; R rows, T tokens, C features, M values */
void forward(const float *q, const float *k, const float *v, float *out, long R, long T, long C,
             long M) {
#pragma omp parallel for
    for (long r = 0; r < R; r++) {
        float *state = calloc((size_t)(C * M), sizeof(float));
        for (long t = 0; t < T; t++) {
            const float *qt = q + (r * T + t) * C, *kt = k + (r * T + t) * C;
            const float *vt = v + (r * T + t) * M;
            float *ot = out + (r * T + t) * M;
            memset(ot, 0, (size_t)M * sizeof(float));
            for (long c = 0; c < C; c++)
                for (long m = 0; m < M; m++) {
                    state[c * M + m] += kt[c] * vt[m];
                    ot[m] += qt[c] * state[c * M + m];
                }
        }
        free(state);
    }
}

static float dot(const float *a, const float *b, long n) {
    float total = 0;
    for (long i = 0; i < n; i++) total += a[i] * b[i];
    return total;
}

void backward(const float *q, const float *k, const float *v, const float *grad, float *dq,
              float *dk, float *dv, long R, long T, long C, long M) {
#pragma omp parallel for
    for (long r = 0; r < R; r++) {
        float *state = calloc((size_t)(C * M), sizeof(float));
        for (long t = 0; t < T; t++) {
            const float *kt = k + (r * T + t) * C, *vt = v + (r * T + t) * M;
            const float *gt = grad + (r * T + t) * M;
            float *to = dq + (r * T + t) * C;
            for (long c = 0; c < C; c++) {
                for (long m = 0; m < M; m++) state[c * M + m] += kt[c] * vt[m];
                to[c] = dot(state + c * M, gt, M);
            }
        }
        memset(state, 0, (size_t)(C * M) * sizeof(float));
        for (long t = T - 1; t >= 0; t--) {
            const float *qt = q + (r * T + t) * C, *kt = k + (r * T + t) * C;
            const float *vt = v + (r * T + t) * M, *gt = grad + (r * T + t) * M;
            float *to_k = dk + (r * T + t) * C, *to_v = dv + (r * T + t) * M;
            memset(to_v, 0, (size_t)M * sizeof(float));
            for (long c = 0; c < C; c++) {
                for (long m = 0; m < M; m++) {
                    state[c * M + m] += qt[c] * gt[m];
                    to_v[m] += kt[c] * state[c * M + m];
                }
                to_k[c] = dot(state + c * M, vt, M);
            }
        }
        free(state);
    }
}

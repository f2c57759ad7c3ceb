/* Kernel and block-sparse attention in C. attnlab/mechanisms/_compiled/build.py compiles this file,
 * calls.py calls it, and attnlab/mechanisms/_scan.py is the same in PyTorch.
 *
 * phi(x) = sign * exp(log). All sums over keys are kept relative to `peak`, per feature about the
 * largest log_k so far, and every query relative to the largest log_q + peak: see features.h.
 *
 * Everything uses two small loops (tiles.h): `scan`, causal, and `product`, not causal. Both read
 * vectors from scratch memory, where rows are padded with zeros to whole registers, so that no size
 * needs special code. Rows (batch times heads) are split over threads.
 *
 * Letters: B batch, H heads, T tokens, C features, M value size. */

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__AVX512F__)
#include <immintrin.h>
#define VECTOR_BYTES 64
#define COUNT_float 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
#define COUNT_double 0, 1, 2, 3, 4, 5, 6, 7
#define MAX_float(a, b) (vec_float)_mm512_max_ps((__m512)(a), (__m512)(b))
#define MAX_double(a, b) (vec_double)_mm512_max_pd((__m512d)(a), (__m512d)(b))
#elif defined(__AVX__)
#include <immintrin.h>
#define VECTOR_BYTES 32
#define COUNT_float 0, 1, 2, 3, 4, 5, 6, 7
#define COUNT_double 0, 1, 2, 3
#define MAX_float(a, b) (vec_float)_mm256_max_ps((__m256)(a), (__m256)(b))
#define MAX_double(a, b) (vec_double)_mm256_max_pd((__m256d)(a), (__m256d)(b))
#else
#define VECTOR_BYTES 16
#define COUNT_float 0, 1, 2, 3
#define COUNT_double 0, 1
#endif

/* Tokens whose vectors are in registers together: 32 registers hold six, 16 hold three. */
#if defined(__AVX512F__) || defined(__aarch64__)
#define GROUP 6
#else
#define GROUP 3
#endif

#define CHUNK 24 /* tokens at once: they and a tile of the sums fit into the first-level cache */
#define BLOCK 48 /* the same without a causal mask */
#define FEW 4 /* up to this many queries, the sums are not rearranged */
#define ABREAST 4 /* registers of columns that such a query reads at once */
#define NOTHING (-1e30) /* the log of a feature that is zero */
#define EMPTY (-0.5e30) /* the lowest reference: exp(NOTHING - EMPTY) is 0, exp(0) is 1 */
/* A key may exceed the peak by this much before the peak moves: a factor of e^10, which costs no
 * precision and avoids nearly all moves. */
#define MARGIN 10

#define REMEMBERED 32 /* tokens of a chunk in the backward pass of recurrent.h, as in recurrent.py */
#define STRONG (-1.4) /* a log_decay: from here on its gradient is computed directly */

#define hot inline __attribute__((always_inline))

#include "job.h"
#include "pages.h"

#define JOIN(a, b) a##_##b
#define EXPAND(a, b) JOIN(a, b)
#define F(name) EXPAND(name, SUFFIX)

#define REAL float
#define BITS int32_t
#define SUFFIX float
#define MANTISSA 23
#define MAGIC 12583039.0f /* 1.5 * 2^23 + 127 */
#define EXP_LEAST (-88.1f)
#define EXP_COUNT 6
#define EXP_TERMS TERMS_FLOAT
/* minimax on |r| <= ln(2) / 2, relative error 9.2e-8 */
static const float TERMS_FLOAT[] = {1.0f, 0.999999707014f, 0.49999149193f,
                                    0.166676365817f, 0.0418979753531f, 0.00829030615992f};
#include "template.h"

#undef REAL
#undef BITS
#undef SUFFIX
#undef MANTISSA
#undef MAGIC
#undef EXP_LEAST
#undef EXP_COUNT
#undef EXP_TERMS
#undef LANES
#undef WIDE

#define REAL double
#define BITS int64_t
#define SUFFIX double
#define MANTISSA 52
#define MAGIC 6755399441056767.0 /* 1.5 * 2^52 + 1023 */
#define EXP_LEAST (-709.2)
#define EXP_COUNT 14
#define EXP_TERMS TERMS_DOUBLE
/* Taylor: the first term left out is below 5e-18 */
static const double TERMS_DOUBLE[] = {
    1.0,       1.0,        1.0 / 2,     1.0 / 6,       1.0 / 24,      1.0 / 120,      1.0 / 720,
    1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600,
    1.0 / 6227020800.0};
#include "template.h"

/* Splits the rows of a job over threads, and describes the arrays that it reads and writes. */

typedef struct {
    char *data; /* NULL if absent */
    int64_t batch, head, token; /* strides in numbers; within a token numbers are contiguous */
} Array;

/* The order of the arrays in causal and non-causal attention. */
enum {
    QUERY_SIGN, QUERY_LOG, KEY_SIGN, KEY_LOG, VALUE, OUT, BOTTOM, PEAKS, SUMS,
    GRAD, QUERY_SIGN_GRAD, QUERY_LOG_GRAD, KEY_SIGN_GRAD, KEY_LOG_GRAD, VALUE_GRAD, SUMS_GRAD
};

/* Causal attention has no sums. With directions (C x D), q and k (and their gradients) take the
 * place of the logs, see project.h; SHOWN has a byte for each key, 0 for padding. */
enum { DIRECTIONS = SUMS, SHOWN = SUMS_GRAD };

/* The order in block-sparse softmax. FIT: the largest score and 1 / sum of each query. BOUNDS: the
 * first key of its document and the first after it. */
enum {
    S_QUERY, S_KEY, S_VALUE, S_OUT, S_FIT, S_REAL, S_TABLE, S_BOUNDS,
    S_GRAD, S_QUERY_GRAD, S_KEY_GRAD, S_VALUE_GRAD
};

/* The order in recurrent.h. */
enum {
    R_QUERY, R_KEY, R_VALUE, R_DECAY, R_STRENGTH, R_FIRST, R_OUT, R_LAST, R_ERRORS, R_STARTS,
    R_GRAD, R_QUERY_GRAD, R_KEY_GRAD, R_VALUE_GRAD, R_DECAY_GRAD, R_STRENGTH_GRAD
};

/* The parts of a step there. */
enum { ROW_FADE = 1, LANE_FADE = 2, COPY = 4, ADD = 8, ADD_MORE = 16, SUM = 32, SUM_MORE = 64 };

typedef struct {
    int64_t B, H, T, C, M; /* C features, M value size */
    int64_t logs;          /* C, or 1 where all features of a token share one log */
    int64_t threads;
    /* of block-sparse softmax. window 0: any distance; sinks: keys visible from anywhere */
    int64_t block, columns, causal, window, sinks;
    /* in recurrent.h, columns: queries per key head, causal: 1 with the delta rule; in project.h,
     * columns: D, scale: beta / 2 */
    double scale;
} Sizes;

typedef void (*Row)(const Sizes *sizes, const Array *arrays, int64_t b, int64_t h, void *scratch);

typedef struct {
    const Sizes *sizes;
    const Array *arrays;
    Row row;
    int64_t bytes, next, failed;
} Job;

/* Bytes of scratch memory of all threads, and their peak since the last query. PyTorch does not
 * count them. */
static int64_t held = 0, most = 0;
static void hold(int64_t bytes) {
    const int64_t now = __atomic_add_fetch(&held, bytes, __ATOMIC_RELAXED);
    int64_t before = __atomic_load_n(&most, __ATOMIC_RELAXED);
    while (now > before && !__atomic_compare_exchange_n(&most, &before, now, 1, __ATOMIC_RELAXED,
                                                        __ATOMIC_RELAXED)) {
    }
}
int64_t attnlab_most_scratch(void) {
    return __atomic_exchange_n(&most, __atomic_load_n(&held, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

static void *work(void *given) {
    Job *job = given;
    const int64_t H = job->sizes->H, rows = job->sizes->B * H;
    const int64_t bytes = (job->bytes + 63) / 64 * 64;
    void *scratch = aligned_alloc(64, (size_t)bytes);
    if (!scratch) {
        __atomic_store_n(&job->failed, 1, __ATOMIC_RELAXED);
        return NULL;
    }
    hold(bytes);
    for (;;) {
        const int64_t row = __atomic_fetch_add(&job->next, 1, __ATOMIC_RELAXED);
        if (row >= rows) break;
        job->row(job->sizes, job->arrays, row / H, row % H, scratch);
    }
    free(scratch);
    hold(-bytes);
    return NULL;
}

/* PyTorch's OpenMP threads, if Python found them. Other threads would compete for the cores with
 * these, which spin for a while when idle. */
typedef void (*Team)(void (*)(void *), void *, unsigned, unsigned);
static Team team = NULL;
void attnlab_use_team(void *found) { team = (Team)found; }
static void work_in_team(void *job) { work(job); }

/* Below this many products, waking other threads takes longer than the work. Use all threads or
 * none, because OpenMP restarts its threads when their number changes. */
#define WORTH_THREADS 2000000

static int64_t products(const Sizes *n) {
    const int64_t keys = n->block ? n->block * n->columns : n->M + 1;
    return n->B * n->H * n->T * n->C * keys;
}

/* Returns 0, or 1 if there is not enough memory. */
static int run(const Sizes *sizes, const Array *arrays, Row row, int64_t numbers, size_t each) {
    Job job = {sizes, arrays, row, numbers * (int64_t)each, 0, 0};
    const int64_t rows = sizes->B * sizes->H;
    const int64_t threads = sizes->threads < rows ? sizes->threads : rows;
    if (threads <= 1 || products(sizes) < WORTH_THREADS) {
        work(&job);
    } else if (team) {
        team(work_in_team, &job, (unsigned)sizes->threads, 0);
    } else {
        pthread_t others[64];
        int64_t started = 0;
        while (started < threads - 1 && started < 64 &&
               !pthread_create(&others[started], NULL, work, &job))
            started++;
        work(&job);
        for (int64_t i = 0; i < started; i++) pthread_join(others[i], NULL);
    }
    return job.failed != 0;
}

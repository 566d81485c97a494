/* What is called from outside: chooses the level, divides the work among threads, adds up sums.
 *
 * Plain C symbols with plain arguments, so that one build serves any Python and any torch. Arguments
 * are checked by the caller. Functions return 0, or −1 if there is no memory.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>

#include "kernels.h"

enum { PLAIN = 0, AVX2 = 1, AVX512 = 2, MOST_THREADS = 64 };
enum { WORTH = 64, PRODUCTS = 1 << 22 }; /* runs and multiplications that are worth a thread */
enum { GROUPS = 4, CACHED = 1 << 18 };   /* groups that all panels are laid out for, if so few numbers */

#define API __attribute__((visibility("default")))

#ifdef HAVE_X86
static const kernels *const tables[] = {&kernels_plain, &kernels_avx2, &kernels_avx512};
#else
static const kernels *const tables[] = {&kernels_plain};
#endif
static const kernels *table = &kernels_plain;
static int level_in_use = PLAIN;

/* The highest level that this processor has. */
API int dubio_best_level(void) {
#ifdef HAVE_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")
        && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
        && __builtin_cpu_supports("bmi2")) return AVX2;
#endif
    return PLAIN;
}

/* Use a level; one that the processor has not becomes the best that it has. Returns it. */
API int dubio_use_level(int level) {
    const int best = dubio_best_level();
    level_in_use = level < PLAIN ? PLAIN : level > best ? best : level;
    table = tables[level_in_use];
    return level_in_use;
}

API int dubio_level(void) { return level_in_use; }

typedef struct {
    void (*work)(const void *job, int64_t first, int64_t last);
    const void *job;
    int64_t first, last;
} share;

static void *run_share(void *given) {
    const share *own = given;
    own->work(own->job, own->first, own->last);
    return 0;
}

/* The OpenMP that torch computes with, if the caller has found it. Its threads exist, and wait for work
 * without sleep for a while, in the way of any others. */
static struct {
    void (*parallel)(void (*work)(void *), void *data, unsigned threads, unsigned flags);
    int (*thread)(void), (*threads)(void); /* this one's number, and how many there are */
} openmp;

static void forget_openmp(void) { openmp.parallel = 0; }

/* Use it, or none if there is NULL. A forked process has none of its threads, and does without. */
API int dubio_use_openmp(void *parallel, void *thread, void *threads) {
    static int watched;
    if (parallel && !watched) watched = pthread_atfork(0, 0, forget_openmp) == 0;
    memcpy(&openmp.parallel, &parallel, sizeof parallel);
    memcpy(&openmp.thread, &thread, sizeof thread);
    memcpy(&openmp.threads, &threads, sizeof threads);
    return 0;
}

API int dubio_has_openmp(void) { return openmp.parallel != 0; }

typedef struct {
    share *all;
    int64_t count;
} shares_of;

static void run_shares(void *given) { /* there may be fewer threads than shares */
    const shares_of *of = given;
    for (int64_t i = openmp.thread(); i < of->count; i += openmp.threads()) run_share(&of->all[i]);
}

/* Work on ranges [0, total) in so many threads, this one among them. */
static void divide(void (*work)(const void *, int64_t, int64_t), const void *job, int64_t total,
                   int64_t worth, int threads) {
    int64_t parts = total / worth;
    if (parts > threads) parts = threads;
    if (parts > MOST_THREADS) parts = MOST_THREADS;
    if (parts <= 1) {
        work(job, 0, total);
        return;
    }
    pthread_t ids[MOST_THREADS];
    share shares[MOST_THREADS];
    int started[MOST_THREADS];
    for (int64_t i = 0; i < parts; i++)
        shares[i] = (share){work, job, total * i / parts, total * (i + 1) / parts};
    if (openmp.parallel) {
        openmp.parallel(run_shares, &(shares_of){shares, parts}, (unsigned)parts, 0);
        return;
    }
    for (int64_t i = 1; i < parts; i++)
        started[i] = pthread_create(&ids[i], 0, run_share, &shares[i]) == 0;
    run_share(&shares[0]);
    for (int64_t i = 1; i < parts; i++) {
        if (started[i]) pthread_join(ids[i], 0);
        else run_share(&shares[i]);
    }
}

static int64_t runs_of(int64_t count) { return (count + RUN - 1) / RUN; }

/* Memory for what a mask needs by unit; NULL if there is none. To be freed. */
static void *table_for(const mask *of, by_unit *to) {
    const size_t entries = (size_t)entries_of(of);
    float *memory = calloc(entries, 3 * sizeof(float) + 2 * sizeof(int32_t));
    if (!memory) return 0;
    *to = (by_unit){memory, memory + entries, memory + 2 * entries, 0, 0};
    to->high = (int32_t *)(void *)(memory + 3 * entries);
    to->low = to->high + entries;
    table->prepare(of, *to);
    return memory;
}

API void dubio_philox(const uint32_t counter[4], uint64_t key, uint32_t out[4]) {
    table->philox(counter, key, out);
}

/* Uniform (kind 0) or normal (kind 1) numbers of some draws: out (draws, count). */
API int dubio_fill(int32_t kind, uint64_t key, int64_t draw, int64_t draws, int64_t count,
                   float *out, int threads) {
    const fill_job job = {{key, draw, draws, count}, kind, out};
    divide(table->fill, &job, draws * runs_of(count), WORTH, threads);
    return 0;
}

/* out (draws, count) = x·m. */
API int dubio_masked(const mask *of, uint64_t key, int64_t draw, int64_t draws, int64_t count,
                     const float *x, int64_t stride, float *out, int threads) {
    forward_job job = {{key, draw, draws, count}, of, {0}, x, stride, out};
    void *memory = table_for(of, &job.table);
    if (!memory) return -1;
    divide(table->forward, &job, draws * runs_of(count), WORTH, threads);
    free(memory);
    return 0;
}

/* of_x (count) = g·m and of_rates (units), the sums over rows of g·x·dm/dφ; each may be NULL. */
API int dubio_masked_backward(const mask *of, uint64_t key, int64_t draw, int64_t count,
                              const float *x, const float *g, float *of_x, float *of_rates,
                              int threads) {
    backward_job job = {{key, draw, 1, count}, of, {0}, x, g, of_x, 0, 0};
    const int64_t runs = runs_of(count);
    job.runs_of_group = runs / 32 > 16 ? runs / 32 : 16; /* whatever the number of threads */
    const int64_t groups = (runs + job.runs_of_group - 1) / job.runs_of_group;
    void *memory = table_for(of, &job.table);
    if (!memory) return -1;
    if (of_rates && !(job.sums = malloc((size_t)(groups * of->units + 1) * sizeof(float)))) {
        free(memory);
        return -1;
    }
    divide(table->backward, &job, groups, 4, threads);
    if (of_rates) {
        memset(of_rates, 0, (size_t)of->units * sizeof(float));
        for (int64_t group = 0; group < groups; group++)
            for (int64_t i = 0; i < of->units; i++) of_rates[i] += job.sums[group * of->units + i];
    }
    free(job.sums);
    free(memory);
    return 0;
}

/* Weights of a draw, entries `start` and on of the noise, and their divergence from the prior.
 *
 * `out` may be NULL for the divergence alone, and `prior` 0 for none. */
API int dubio_sample(int32_t kind, uint64_t key, int64_t draw, int64_t start, int64_t count,
                     const float *mean, const float *rho, const float *centers,
                     float center, float prior, float *out, double *divergence, int threads) {
    weights_job job = {.from = {key, draw, 1, count}, .start = start, .kind = kind,
                       .mean = mean, .rho = rho, .centers = centers, .center = center,
                       .prior = prior, .out = out};
    const int64_t first = start / RUN, runs = runs_of(start + count) - first;
    if (prior > 0.0f && !(job.parts = calloc((size_t)runs + 1, sizeof(double)))) return -1;
    divide(table->sample, &job, runs, WORTH / 2, threads);
    if (prior > 0.0f) {
        double total = 0.0;
        for (int64_t run = 0; run < runs; run++) total += job.parts[run];
        *divergence = total;
    }
    free(job.parts);
    return 0;
}

/* out (draws, count) = μ + σε, entries `start` and on of the noise. */
API int dubio_spread(uint64_t key, int64_t draw, int64_t draws, int64_t start, int64_t count,
                     const float *mean, const float *sigma, float *out, int threads) {
    const weights_job job = {.from = {key, draw, draws, count}, .start = start, .mean = mean,
                             .rho = sigma, .out = out};
    divide(table->spread, &job, draws * (runs_of(start + count) - start / RUN), WORTH, threads);
    return 0;
}

/* Gradients of μ and ρ, from those of what was made of them (or NULL), of μ itself (or NULL) and,
 * `factor`, of the divergence. `of_mean` may be NULL. */
API int dubio_sample_backward(int32_t kind, uint64_t key, int64_t draw, int64_t start, int64_t count,
                              const float *mean, const float *rho, const float *centers,
                              float center, float prior, float factor, const float *g,
                              const float *through, float *of_mean, float *of_rho, int threads) {
    const weights_job job = {.from = {key, draw, 1, count}, .start = start, .kind = kind,
                             .mean = mean, .rho = rho, .centers = centers, .center = center,
                             .prior = prior, .factor = factor, .g = g, .through = through,
                             .of_mean = of_mean, .of_rho = of_rho};
    divide(table->sample_backward, &job, runs_of(start + count) - start / RUN, WORTH / 2, threads);
    return 0;
}

/* out = mean + √variance·ε, and its derivative by the variance; each may be NULL. */
API int dubio_local(uint64_t key, int64_t draw, int64_t count, const float *mean,
                    const float *variance, float *out, float *slope, int threads) {
    const local_job job = {{key, draw, 1, count}, mean, variance, out, slope};
    divide(table->local, &job, runs_of(count), WORTH, threads);
    return 0;
}

/* x (draws, count), rows of so many units, becomes max(x + bias, 0)·m: without a bias, a ReLU or a mask
 * if they are NULL or 0. */
API int dubio_activate(const mask *of, uint64_t key, int64_t draw, int64_t draws, int64_t count,
                       const float *bias, int64_t units, int32_t relu, float *x, int threads) {
    activate_job job = {{key, draw, draws, count}, of, {0}, 0, units, relu, x};
    float *repeated = calloc((size_t)(units + RUN), sizeof(float));
    void *memory = of && repeated ? table_for(of, &job.table) : 0;
    if (!repeated || (of && !memory)) {
        free(repeated);
        return -1;
    }
    if (bias) memcpy(repeated, bias, (size_t)units * sizeof(float));
    for (int64_t i = units; i < units + RUN; i++) repeated[i] = repeated[i - units];
    job.bias = repeated;
    divide(table->activate, &job, draws * runs_of(count), WORTH, threads);
    free(memory);
    free(repeated);
    return 0;
}

/* Columns of a panel at the level in use; 0 where products are better left to others. */
API int dubio_width(void) { return level_in_use == PLAIN ? 0 : (int)table->width; }

/* Whether our products of two matrices are faster than those of torch: not on processors of Intel, for
 * which its library was written. */
API int dubio_beats_torch(void) {
#ifdef HAVE_X86
    return level_in_use != PLAIN && !__builtin_cpu_is("intel");
#else
    return 0;
#endif
}

/* The numbers of what each draw keeps: `numbers` (draws, size), `counts` (draws). */
static void list_kept(int64_t draws, int64_t size, const float *kept, int32_t *numbers,
                      int64_t *counts) {
    for (int64_t draw = 0; draw < draws; draw++) {
        int32_t *to = numbers + draw * size;
        int64_t count = 0;
        for (int64_t i = 0; i < size; i++) {
            to[count] = (int32_t)i;
            count += !kept || kept[draw * size + i] != 0.0f;
        }
        counts[draw] = count;
    }
}

/* So many groups of rows are worth a thread. */
static int64_t worth_of(int64_t group, int64_t inner, int64_t columns) {
    return PRODUCTS / (group * (inner + 1) * (columns + 1)) + 1;
}

/* A linear layer, of which each draw leaves some inputs and outputs out. */
API int dubio_unit_layer(const unit_layer_of *of, int threads) {
    const int64_t draws = of->draws, panels = (of->rows + table->width - 1) / table->width;
    int64_t *counts = malloc((size_t)draws * (2 * sizeof(int64_t)
                             + (size_t)(of->inputs + of->outputs) * sizeof(int32_t)) + 1);
    if (!counts) return -1;
    int32_t *numbers = (int32_t *)(void *)(counts + 2 * draws);
    int failed = 0;
    const unit_layer_job job = {of, (of->outputs + GROUP - 1) / GROUP,
                                panels * of->outputs * table->width, numbers,
                                numbers + draws * of->inputs, counts, counts + draws, &failed};
    list_kept(draws, of->inputs, of->kept_inputs, job.inputs, job.input_counts);
    list_kept(draws, of->outputs, of->kept_outputs, job.outputs, job.output_counts);
    divide(table->unit_layer, &job, draws * job.groups, worth_of(GROUP, of->inputs, of->rows),
           threads);
    free(counts);
    return failed ? -1 : 0;
}

/* A linear layer with dropout before and after it, a mask for each row. */
API int dubio_row_layer(const row_layer_of *of, int threads) {
    const size_t inputs = (size_t)of->inputs, outputs = (size_t)of->outputs;
    int failed = 0;
    row_layer_job job = {.of = of, .groups = (of->rows + GROUP - 1) / GROUP, .failed = &failed};
    int32_t *units = malloc(inputs * sizeof(int32_t) + 1);
    float *bias = calloc(outputs + 1, sizeof(float));
    void *before = of->before ? table_for(&of->before->mask, &job.before) : 0;
    void *after = of->after ? table_for(&of->after->mask, &job.after) : 0;
    failed = !units || !bias || (of->before && !before) || (of->after && !after);
    if (!failed) {
        for (size_t i = 0; i < inputs; i++) units[i] = (int32_t)i;
        if (of->bias) memcpy(bias, of->bias, outputs * sizeof(float));
        job.units = units, job.bias = bias;
        divide(table->row_layer, &job, of->draws * job.groups,
               worth_of(GROUP, of->inputs, of->outputs), threads);
    }
    free(units), free(bias), free(before), free(after);
    return failed ? -1 : 0;
}

/* Matrices (draws, rows, columns) in panels of their rows: out (draws, panels, columns, width). */
API int dubio_panels(int64_t draws, int64_t rows, int64_t columns, const float *from, int64_t stride,
                     int64_t apart, float *out, int threads) {
    const int64_t panels = (rows + table->width - 1) / table->width;
    const panels_job job = {rows, columns, panels, from, stride, apart, out};
    divide(table->to_panels, &job, draws * panels, WORTH * RUN / (table->width * columns + 1) + 1,
           threads);
    return 0;
}

/* out = left·right, of matrices with any strides. */
API int dubio_matmul(const matmul_of *of, int threads) {
    const int64_t width = table->width, inner = of->inner, columns = of->columns;
    const int64_t panels = (columns + width - 1) / width, groups = (of->rows + GROUP - 1) / GROUP;
    const int together = groups >= GROUPS && panels * width * inner <= CACHED;
    const int64_t for_panels = together ? panels * width * inner : 0;
    int failed = 0;
    float *memory = malloc((size_t)(for_panels + (of->with_sums ? groups * columns : 0) + 1)
                           * sizeof(float));
    if (!memory) return -1;
    const matmul_job job = {of, together ? memory : 0, of->with_sums ? memory + for_panels : 0, &failed};
    if (together) {
        divide(table->lay_panels, &job, panels, WORTH * RUN / (width * inner + 1) + 1, threads);
        divide(table->matmul, &job, groups, worth_of(GROUP, inner, columns), threads);
    } else {
        divide(table->matmul, &job, panels, worth_of(width, inner, of->rows), threads);
    }
    for (int64_t j = 0; of->with_sums && j < columns; j++) {
        double sum = 0.0;
        for (int64_t group = 0; group < groups; group++)
            sum += (double)job.parts[group * columns + j];
        of->with_sums[j] = (float)sum;
    }
    free(memory);
    return failed ? -1 : 0;
}

/* out (columns) = Σ over rows of a·(b − c), entry by entry, and then to += times·factor·a with a factor
 * for each column, or one for all. Without c it is Σ a·b; out, and to with its factor, may be NULL. */
API int dubio_columns(int64_t rows, int64_t columns, const float *a, const float *b, const float *c,
                      const float *factor, int64_t factors, float times, float *to, float *out,
                      int threads) {
    const columns_job job = {rows, columns, a, b, c, factor, factors, times, to, out};
    const int64_t blocks = (columns + COLUMNS - 1) / COLUMNS;
    const int64_t worth = rows > 0 ? (WORTH * RUN / COLUMNS + rows - 1) / rows : 1;
    divide(table->columns, &job, blocks, worth, threads);
    return 0;
}

/* The divergence of weights (rows, columns) behind a mask with logits by column, or one for all, from a
 * prior of a precision; its slopes by logit, and those by weight over the weights, by logit, too. */
API int dubio_divergence(int64_t rows, int64_t columns, int64_t units, const float *weights,
                         const float *logit, float precision, double *value, float *scale,
                         float *by_logit, int threads) {
    float *norms = malloc(((size_t)columns + 1) * sizeof(float));
    if (!norms) return -1;
    dubio_columns(rows, columns, weights, weights, 0, 0, 0, 0.0f, 0, norms, threads);
    if (units < columns) {
        double total = 0.0;
        for (int64_t k = 0; k < columns; k++) total += (double)norms[k];
        norms[0] = (float)total;
    }
    const divergence_job job = {.units = units, .norms = norms, .logit = logit,
                                .precision = precision, .times = (float)(columns / units),
                                .scale = scale, .by_logit = by_logit};
    *value = table->divergence(&job);
    free(norms);
    return 0;
}

/* The kernels, as tables of functions: one table for each level of instructions.
 *
 * Every kernel computes a range of runs, from `first` up to and without `last`, so that threads can
 * share the work. No result depends on how runs are divided: sums go by run or by group of rows, and
 * are added up in order afterwards.
 */
#pragma once

#include "vectors.h"

enum { RUN = 1024 }; /* entries that are computed at a time */

enum { BERNOULLI = 0, CONCRETE = 1, GAUSSIAN = 2 };

/* A mask as the caller describes it.
 *
 * An entry belongs to a unit, its place in a row of so many units; each unit has a rate. One rate
 * for all entries is a row of one unit.
 *
 * rates: by unit, probabilities of keeping for BERNOULLI, else logits φ of keeping; NULL for `keep`.
 * keep, scale: without rates, the probability of keeping and the factor of what is kept.
 * units: in a row.
 * temperature: of CONCRETE.
 * reflected: whether the noise is 1 − u in place of u, or −ε in place of ε.
 * trapezoid: whether the slope of a BERNOULLI mask is that of the trapezoid rule, (1 − m)/2; else it
 *     is that of its scale 1/keep alone, −drop·m.
 */
typedef struct {
    const float *rates;
    double keep, scale;
    int64_t units;
    float temperature;
    int32_t kind, reflected, trapezoid;
} mask;

/* What a mask needs by unit, repeated so that a whole run can be read from any unit on. */
typedef struct {
    float *scale, *rate, *drop;
    int32_t *high, *low; /* an entry with 32 random bits u is kept if u ≤ high·2¹⁶ + low */
} by_unit;

INLINE int64_t entries_of(const mask *of) { return of->units + RUN; }

/* Noise of some draws by itself, or laid over a tensor. */
typedef struct {
    uint64_t key;
    int64_t draw, draws; /* the first draw, and how many */
    int64_t count;       /* entries of a draw */
} noise;

/* out[s, e] = x[s, e]·m[s, e]; a stride of 0 has one x for all draws, no x stands for ones. */
typedef struct {
    noise from;
    const mask *of;
    by_unit table;
    const float *x;
    int64_t stride;
    float *out;
} forward_job;

/* Of one draw: of_x = g·m, and sums over rows of g·x·dm/dφ, by group of rows and unit. */
typedef struct {
    noise from;
    const mask *of;
    by_unit table;
    const float *x, *g;
    float *of_x, *sums;
    int64_t runs_of_group;
} backward_job;

enum { UNIFORM = 0, NORMAL = 1 };

typedef struct {
    noise from;
    int32_t kind;
    float *out;
} fill_job;

/* Weights with mean μ and deviation σ = softplus(ρ), entries `start` and on of a noise.
 *
 * kind: what is made of them: w = μ + σε, the deviations' part σε alone, or σ².
 * center, prior: means, or one for all if NULL, and the deviation of the Gaussian prior; 0 for none.
 * parts: the divergence, by run.
 * factor: of the divergence in the gradients.
 * through: a gradient of μ that came another way, to be added.
 */
enum { SAMPLE = 0, CHANGE = 1, SQUARE = 2 };

typedef struct {
    noise from;
    int64_t start;
    int32_t kind;
    const float *mean, *rho, *centers;
    float center, prior, factor;
    float *out;                         /* forward */
    double *parts;                      /* forward */
    const float *g, *through;           /* backward: gradient of out */
    float *of_mean, *of_rho;            /* backward */
} weights_job;

/* out = mean + √variance·ε, and its derivative by the variance; each may be NULL. */
typedef struct {
    noise from;
    const float *mean, *variance;
    float *out, *slope;
} local_job;

/* Results of a product, (draws, rows, units) in one row, that get a bias by unit, repeated so that a
 * run can be read from any unit on, a ReLU, and dropout if there is a mask. */
typedef struct {
    noise from;
    const mask *of;
    by_unit table;
    const float *bias;
    int64_t units;
    int32_t relu;
    float *x;
} activate_job;

/* A linear layer for some draws, as the caller describes it: out[s] = scale·W[s]·x[s] + bias[s] and
 * perhaps a ReLU of it. `x` and `out` have rows of the batch as columns, in panels: see products.h.
 *
 * stride: from a row of the weights to the next.
 * …_apart: from a draw to the next; 0 if all draws have the same.
 * kept_inputs, kept_outputs: zeros for what each draw leaves out, or NULL.
 * sigma: if there is one, weights are means μ in one row, and those of a draw μ + σε. Then all outputs
 *     are kept, and a group of them begins with a run of the noise, whose entry `start` is the first.
 */
typedef struct {
    int64_t draws, rows, inputs, outputs;
    const float *x, *weights, *bias;
    int64_t x_apart, stride, weights_apart, bias_apart;
    const float *kept_inputs, *kept_outputs;
    float *out;
    float scale;
    int32_t relu;
    const float *sigma;
    uint64_t key;
    int64_t draw, start;
} unit_layer_of;

enum { GROUP = 64 }; /* rows of a left matrix that meet a panel while it is in the cache */

/* What each draw keeps: numbers, and how many. */
typedef struct {
    const unit_layer_of *of;
    int64_t groups, out_apart;
    int32_t *inputs, *outputs;
    int64_t *input_counts, *output_counts;
    int *failed; /* set if there is no memory */
} unit_layer_job;

/* Dropout with an entry of the mask for every entry of a draw. */
typedef struct {
    mask mask;
    uint64_t key;
} dropout_of;

/* A linear layer with dropout before and after it, for some draws: out[s] = f(x[s]·m·Wᵀ + bias)·m, where
 * f may be a ReLU. `x` and `out` have the rows of the batch as rows.
 *
 * panels: the weights, in panels of outputs.
 * before, after: dropout, or NULL. A group of rows must then begin with a run of its noise.
 */
typedef struct {
    int64_t draw, draws, rows, inputs, outputs;
    const float *x, *panels, *bias;
    int64_t x_apart;
    const dropout_of *before, *after;
    float *out;
    int32_t relu;
} row_layer_of;

typedef struct {
    const row_layer_of *of;
    int64_t groups;
    by_unit before, after;
    const float *bias;
    const int32_t *units; /* all inputs */
    int *failed;          /* set if there is no memory */
} row_layer_job;

/* `panels` of rows of one matrix or several. */
typedef struct {
    int64_t rows, columns, panels;
    const float *from;
    int64_t stride, apart;
    float *out;
} panels_job;

/* A product as the caller describes it: out[i, j] = Σ_k left[i, k]·right[k, j] + bias[i].
 *
 * Each matrix has a stride for each of its axes, one of which is 1. What is NULL is left out.
 *
 * squared: whether the entries of the right matrix are squared first.
 * bias: by row, if out_row is 1.
 * left_sums: what becomes Σ_k left[i, k], by row, if left_row is 1.
 * with: a matrix that lies as `out` does, if out_column is 1.
 * with_sums: what becomes Σ_i with[i, j]·out[i, j], by column.
 * factor, times: what is added to `out` then, times·factor[j]·with[i, j]; one factor by column, or one
 *     for all.
 */
typedef struct {
    int64_t rows, columns, inner;
    const float *left;
    int64_t left_row, left_inner;
    const float *right;
    int64_t right_inner, right_column;
    const float *bias;
    float *out;
    int64_t out_row, out_column;
    float *left_sums;
    const float *with;
    float *with_sums;
    const float *factor;
    int64_t factors;
    float times;
    int32_t squared;
} matmul_of;

/* panels: the right matrix in panels, or NULL if each is laid out when its turn comes.
 * parts: the sums by column, for each group of rows. */
typedef struct {
    const matmul_of *of;
    float *panels, *parts;
    int *failed; /* set if there is no memory */
} matmul_job;

/* out[k] = Σ_r a[r, k]·(b[r, k] − c[r, k]) and to[r, k] += times·factor[k]·a[r, k], by blocks of
 * columns. There is a factor for each column, or one for all. */
enum { COLUMNS = 256 };

typedef struct {
    int64_t rows, columns;
    const float *a, *b, *c, *factor;
    int64_t factors;
    float times;
    float *to, *out;
} columns_job;

/* The divergence of weights whose columns have squared norms, by unit, from a prior of a precision;
 * each unit stands for so many columns. */
typedef struct {
    int64_t units;
    const float *norms, *logit;
    float precision, times;
    float *scale, *by_logit;
} divergence_job;

typedef struct {
    void (*philox)(const uint32_t counter[4], uint64_t key, uint32_t out[4]);
    void (*prepare)(const mask *of, by_unit to);
    void (*forward)(const void *job, int64_t first, int64_t last);
    void (*backward)(const void *job, int64_t first, int64_t last);
    void (*fill)(const void *job, int64_t first, int64_t last);
    void (*sample)(const void *job, int64_t first, int64_t last);
    void (*spread)(const void *job, int64_t first, int64_t last);
    void (*sample_backward)(const void *job, int64_t first, int64_t last);
    void (*local)(const void *job, int64_t first, int64_t last);
    void (*activate)(const void *job, int64_t first, int64_t last);
    void (*unit_layer)(const void *job, int64_t first, int64_t last);
    void (*row_layer)(const void *job, int64_t first, int64_t last);
    void (*to_panels)(const void *job, int64_t first, int64_t last);
    void (*lay_panels)(const void *job, int64_t first, int64_t last);
    void (*matmul)(const void *job, int64_t first, int64_t last);
    void (*columns)(const void *job, int64_t first, int64_t last);
    double (*divergence)(const divergence_job *job);
    int64_t width; /* of panels */
} kernels;

extern const kernels kernels_plain, kernels_avx2, kernels_avx512;

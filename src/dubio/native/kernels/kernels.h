/* The kernels, as tables of functions: one table for each level of instructions.
 *
 * Every kernel computes a range of runs, from `first` up to and without `last`, so that threads can
 * share the work. No result depends on how runs are divided: sums go by run or by group of rows, and
 * are added up in order afterwards.
 */
#pragma once

#include "masks.h"

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
    const float *g;                     /* backward: gradient of out */
    float *of_mean, *of_rho;            /* backward */
} weights_job;

/* y = mean + √variance·ε, and its gradients. */
typedef struct {
    noise from;
    const float *mean, *variance, *g;
    float *out;
} local_job;

/* out[k] = Σ_r a[r, k]·b[r, k], by blocks of columns. */
enum { COLUMNS = 256 };

typedef struct {
    int64_t rows, columns;
    const float *a, *b;
    float *out;
} columns_job;

typedef struct {
    void (*philox)(const uint32_t counter[4], uint64_t key, uint32_t out[4]);
    void (*prepare)(const mask *of, by_unit to);
    void (*forward)(const void *job, int64_t first, int64_t last);
    void (*backward)(const void *job, int64_t first, int64_t last);
    void (*fill)(const void *job, int64_t first, int64_t last);
    void (*sample)(const void *job, int64_t first, int64_t last);
    void (*sample_backward)(const void *job, int64_t first, int64_t last);
    void (*local)(const void *job, int64_t first, int64_t last);
    void (*local_backward)(const void *job, int64_t first, int64_t last);
    void (*column_products)(const void *job, int64_t first, int64_t last);
} kernels;

extern const kernels kernels_plain, kernels_avx2, kernels_avx512;

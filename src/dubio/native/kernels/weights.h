/* Gaussian weights: their sample, its divergence from a Gaussian prior, and the gradients of both.
 *
 * w = μ + σε, σ = softplus(ρ) (Clark et al. 2022, eq. 8). The divergence of a weight from N(c, s²) is
 * log(s/σ) + (σ² + (μ − c)²)/(2s²) − ½. With the gradient g of w and γ of the divergence,
 * ∂/∂μ = g + γ(μ − c)/s² and ∂/∂ρ = (gε + γ(σ/s² − 1/σ))·sigmoid(ρ) (eqs. 10–11).
 */
#pragma once

#include "masks.h"

/* log(1 + e)/e for e in [0, 1], to 5·10⁻⁹: a minimax polynomial, in pairs so that terms need not wait
 * for each other. */
INLINE f32v log_ratio(f32v e) {
    const f32v e2 = e * e, e4 = e2 * e2;
    const f32v a = e * -0x1.ffffbep-2f + 1.0f, b = e * -0x1.ff0f88p-3f + 0x1.554c80p-2f;
    const f32v c = e * -0x1.397562p-3f + 0x1.92f696p-3f, d = e * -0x1.d29cc4p-5f + 0x1.b2535ep-4f;
    const f32v f = e * -0x1.a9335cp-9f + 0x1.453f08p-6f;
    return (f * e4 + (d * e2 + c)) * e4 + (b * e2 + a);
}

/* σ = log(1 + e^ρ) = max(ρ, 0) + log(1 + e) with e = e^−|ρ|. Its slope is top/(1 + e). */
INLINE f32v softplus(f32v rho, f32v *e, f32v *top) {
    *e = exp_below(as_float(as_int(rho) | all_int(INT32_MIN)));
    *top = either(rho > all(0.0f), all(1.0f), *e);
    return at_least(rho, 0.0f) + *e * log_ratio(*e);
}

/* Σ log σ by lane: the sum of the exponents, and a product of so many numbers in [1, 2). */
enum { FACTORS = 64 };
typedef struct {
    i32v exponents;
    f32v product;
} logs;

INLINE void add_log(logs *sum, f32v x) {
    const i32v bits = as_int(x);
    sum->exponents += (bits >> 23) - 127;
    sum->product *= as_float((bits & 0x007FFFFF) | 0x3F800000);
}

INLINE double total(f32v x) {
    double sum = 0.0;
    for (int k = 0; k < LANES; k++) sum += (double)x[k];
    return sum;
}

INLINE f32v load_some(const float *from, int64_t count) {
    if (count >= LANES) return load(from);
    f32v x = {0};
    memcpy(&x, from, (size_t)count * sizeof(float));
    return x;
}

INLINE void store_some(float *to, f32v x, int64_t count) {
    memcpy(to, &x, count >= LANES ? BYTES : (size_t)count * sizeof(float));
}

/* μ − c of some weights. */
INLINE f32v offset_of(const weights_job *job, int64_t at, int64_t count) {
    const f32v mean = load_some(job->mean + at, count);
    return mean - (job->centers ? load_some(job->centers + at, count) : all(job->center));
}

/* The entries of a run that belong to the weights. */
#define EACH_RUN(job, run)                                                                        \
    const int64_t begin = run * RUN > job->start ? run * RUN : job->start;                        \
    const int64_t whole = (run + 1) * RUN, stop = job->start + job->from.count;                   \
    const int64_t end = whole < stop ? whole : stop;                                              \
    const int64_t place = begin - job->start, count = end - begin;

/* σ of some weights, the first `count` lanes; and σ² + (μ − c)² and log σ if there is a prior. */
INLINE void spread_of(const weights_job *job, int64_t at, int64_t count, float *sigma, f32v *squares,
                      logs *sum) {
    const f32v rho = load_some(job->rho + at, count);
    f32v e, top, deviation = softplus(rho, &e, &top);
    store(sigma, deviation);
    if (!(job->prior > 0.0f)) return;
    f32v offset = offset_of(job, at, count);
    if (count < LANES)
        for (int64_t k = count; k < LANES; k++) offset[k] = 0.0f, deviation[k] = 0.0f;
    *squares += deviation * deviation + offset * offset;
    if (count < LANES)
        for (int64_t k = count; k < LANES; k++) deviation[k] = 1.0f;
    add_log(sum, deviation);
}

/* σ of a run, and the divergence of its weights from the prior. */
INLINE double spread_of_run(const weights_job *job, int64_t place, int64_t count, float *sigma) {
    double squares = 0.0, log_sigma = 0.0;
    for (int64_t done = 0; done < count; done += FACTORS * LANES) {
        const int64_t rest = count - done, block = rest < FACTORS * LANES ? rest : FACTORS * LANES;
        f32v sum = {0};
        logs factors = {{0}, all(1.0f)};
        int64_t i = 0;
        for (; i + LANES <= block; i += LANES)
            spread_of(job, place + done + i, LANES, sigma + done + i, &sum, &factors);
        if (i < block) spread_of(job, place + done + i, block - i, sigma + done + i, &sum, &factors);
        squares += total(sum);
        log_sigma += total(log_of(factors.product))
                     + 0.693147180559945309 * total(to_float(factors.exponents));
    }
    const double prior = (double)job->prior;
    return (double)count * (log(prior) - 0.5) - log_sigma + squares / (2.0 * prior * prior);
}

static void sample(const void *given, int64_t first, int64_t last) {
    const weights_job own_job = *(const weights_job *)given, *job = &own_job; /* nothing writes over it */
    float eps[RUN] ALIGNED, sigma[RUN + LANES] ALIGNED;
    const int64_t before = job->start / RUN;
    for (int64_t run = before + first; run < before + last; run++) {
        EACH_RUN(job, run)
        const double divergence = spread_of_run(job, place, count, sigma);
        if (job->prior > 0.0f) job->parts[run - before] = divergence;
        if (!job->out) continue;
        float *restrict out = job->out + place;
        if (job->kind == SQUARE) {
            for (int64_t i = 0; i < count; i++) out[i] = sigma[i] * sigma[i];
            continue;
        }
        fill_normal((stream){job->from.key, (uint64_t)job->from.draw}, run, end - run * RUN, eps);
        const float *restrict own = eps + (begin - run * RUN);
        if (job->kind == CHANGE) {
            for (int64_t i = 0; i < count; i++) out[i] = sigma[i] * own[i];
            continue;
        }
        const float *restrict mean = job->mean + place;
        for (int64_t i = 0; i < count; i++) out[i] = mean[i] + sigma[i] * own[i];
    }
}

/* μ + σε of some entries of a run, from entry `begin` of the noise on. */
INLINE void spread_run(stream from, int64_t begin, int64_t count, const float *restrict mean,
                       const float *restrict sigma, float *restrict out) {
    float eps[RUN] ALIGNED;
    const int64_t run = begin / RUN, before = begin % RUN;
    fill_normal(from, run, before + count, eps);
    for (int64_t i = 0; i < count; i++) out[i] = mean[i] + sigma[i] * eps[before + i];
}

/* w = μ + σε of several draws, with σ in the place of ρ. */
static void spread(const void *given, int64_t first, int64_t last) {
    const weights_job *job = given;
    const int64_t before = job->start / RUN;
    const int64_t runs = (job->start + job->from.count + RUN - 1) / RUN - before;
    for (int64_t index = first; index < last; index++) {
        const int64_t s = index / runs, run = before + index % runs;
        EACH_RUN(job, run)
        spread_run((stream){job->from.key, (uint64_t)(job->from.draw + s)}, begin, count,
                   job->mean + place, job->rho + place, job->out + s * job->from.count + place);
    }
}

/* Gradients of some weights, the first `count` lanes. */
INLINE void slopes_of(const weights_job *job, int64_t at, int64_t count, const float *own) {
    f32v e, top, of_mean = {0}, of_sigma = {0};
    const f32v sigma = softplus(load_some(job->rho + at, count), &e, &top);
    if (job->g) {
        const f32v g = load_some(job->g + at, count);
        of_sigma = g * (job->kind == SQUARE ? 2.0f * sigma : load_some(own, count));
        if (job->kind == SAMPLE) of_mean = g;
    }
    if (job->through) of_mean += load_some(job->through + at, count);
    f32v below = 1.0f + e;
    if (job->prior > 0.0f) {
        const float precision = 1.0f / (job->prior * job->prior);
        of_mean += job->factor * precision * offset_of(job, at, count);
        of_sigma = of_sigma * sigma + job->factor * (precision * sigma * sigma - 1.0f);
        below *= sigma;
    }
    if (job->of_mean) store_some(job->of_mean + at, of_mean, count);
    store_some(job->of_rho + at, of_sigma * top / below, count);
}

static void sample_backward(const void *given, int64_t first, int64_t last) {
    const weights_job own_job = *(const weights_job *)given, *job = &own_job; /* nothing writes over it */
    float eps[RUN + LANES] ALIGNED;
    const int64_t before = job->start / RUN;
    for (int64_t run = before + first; run < before + last; run++) {
        EACH_RUN(job, run)
        if (job->g && job->kind != SQUARE)
            fill_normal((stream){job->from.key, (uint64_t)job->from.draw}, run, end - run * RUN, eps);
        const float *own = eps + (begin - run * RUN);
        int64_t i = 0;
        for (; i + LANES <= count; i += LANES) slopes_of(job, place + i, LANES, own + i);
        if (i < count) slopes_of(job, place + i, count - i, own + i);
    }
}

/* Where a variance is zero the root has no slope: it is taken for the smallest number. One that is not a
 * number stays none. */
INLINE float root_of(float variance) { return __builtin_sqrtf(variance <= 0x1p-126f ? 0x1p-126f : variance); }

/* ∂(√v·ε)/∂v = ε/(2√v); zero where v is. */
INLINE float slope_of(float variance, float eps) {
    return variance > 0x1p-126f ? 0.5f * eps / root_of(variance) : variance * 0.0f;
}

static void local(const void *given, int64_t first, int64_t last) {
    const local_job *job = given;
    float eps[RUN] ALIGNED;
    for (int64_t run = first; run < last; run++) {
        const part own = part_of(job->from, run);
        fill_normal(own.from, run, own.count, eps);
        const float *restrict variance = job->variance + own.place;
        if (job->out) {
            const float *restrict mean = job->mean + own.place;
            float *restrict out = job->out + own.place;
            for (int64_t i = 0; i < own.count; i++) out[i] = mean[i] + root_of(variance[i]) * eps[i];
        }
        if (job->slope) {
            float *restrict slope = job->slope + own.place;
            for (int64_t i = 0; i < own.count; i++) slope[i] = slope_of(variance[i], eps[i]);
        }
    }
}

/* Gaussian weights: their sample, its divergence from a Gaussian prior, and the gradients of both.
 *
 * w = μ + σε, σ = softplus(ρ) (Clark et al. 2022, eq. 8). The divergence of a weight from N(c, s²) is
 * log(s/σ) + (σ² + (μ − c)²)/(2s²) − ½. With the gradient g of w and γ of the divergence,
 * ∂/∂μ = g + γ(μ − c)/s² and ∂/∂ρ = (gε + γ(σ/s² − 1/σ))·sigmoid(ρ) (eqs. 10–11).
 */
#pragma once

#include "masks.h"

/* σ = log(1 + e^ρ) and its slope e^ρ/(1 + e^ρ); for ρ > 20, as torch does, ρ and 1. */
INLINE f32v softplus(f32v rho, f32v *slope) {
    const i32v large = rho > all(20.0f);
    const f32v e = exp_of(either(large, all(20.0f), rho));
    const f32v sum = 1.0f + e;
    const f32v inverse = 1.0f / sum;
    *slope = either(large, all(1.0f), e * inverse);
    const f32v lost = e - (sum - 1.0f); /* what the sum has rounded off */
    return either(large, rho, log_of(sum) + lost * inverse);
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

/* The entries of a run that belong to the weights. */
#define EACH_RUN(job, run)                                                                        \
    const int64_t begin = run * RUN > job->start ? run * RUN : job->start;                        \
    const int64_t whole = (run + 1) * RUN, stop = job->start + job->from.count;                   \
    const int64_t end = whole < stop ? whole : stop;                                              \
    const int64_t place = begin - job->start, count = end - begin;

static void sample(const void *given, int64_t first, int64_t last) {
    const weights_job *job = given;
    float eps[RUN] ALIGNED, sigma[RUN] ALIGNED;
    const int64_t before = job->start / RUN;
    for (int64_t run = before + first; run < before + last; run++) {
        EACH_RUN(job, run)
        f32v sum = {0};
        const float prior = job->prior, precision = prior > 0.0f ? 1.0f / (prior * prior) : 0.0f;
        const float log_prior = prior > 0.0f ? logf(prior) : 0.0f;
        for (int64_t i = 0; i < count; i += LANES) {
            const int64_t left = count - i;
            f32v slope;
            const f32v deviation = softplus(load_some(job->rho + place + i, left), &slope);
            store(sigma + i, deviation);
            if (!(prior > 0.0f)) continue;
            f32v offset = load_some(job->mean + place + i, left);
            offset -= job->centers ? load_some(job->centers + place + i, left) : all(job->center);
            f32v term = (deviation * deviation + offset * offset) * (0.5f * precision)
                        + (log_prior - 0.5f) - log_of(deviation);
            if (left < LANES)
                for (int64_t k = left; k < LANES; k++) term[k] = 0.0f;
            sum += term;
        }
        if (prior > 0.0f) {
            double total = 0.0;
            for (int k = 0; k < LANES; k++) total += (double)sum[k];
            job->parts[run - before] = total;
        }
        if (!job->out) continue;
        for (int64_t s = 0; s < job->from.draws; s++) {
            float *restrict out = job->out + s * job->from.count + place;
            if (job->kind == SQUARE) {
                for (int64_t i = 0; i < count; i++) out[i] = sigma[i] * sigma[i];
                continue;
            }
            const stream from = {job->from.key, (uint64_t)(job->from.draw + s)};
            fill_normal(from, run, end - run * RUN, eps);
            const float *restrict own = eps + (begin - run * RUN);
            if (job->kind == CHANGE) {
                for (int64_t i = 0; i < count; i++) out[i] = sigma[i] * own[i];
                continue;
            }
            const float *restrict mean = job->mean + place;
            for (int64_t i = 0; i < count; i++) out[i] = mean[i] + sigma[i] * own[i];
        }
    }
}

static void sample_backward(const void *given, int64_t first, int64_t last) {
    const weights_job *job = given;
    float eps[RUN + 64] ALIGNED;
    const float prior = job->prior, precision = prior > 0.0f ? 1.0f / (prior * prior) : 0.0f;
    const float factor = job->factor;
    const int64_t before = job->start / RUN;
    for (int64_t run = before + first; run < before + last; run++) {
        EACH_RUN(job, run)
        if (job->g && job->kind != SQUARE)
            fill_normal((stream){job->from.key, (uint64_t)job->from.draw}, run, end - run * RUN, eps);
        const float *own = eps + (begin - run * RUN);
        for (int64_t i = 0; i < count; i += LANES) {
            const int64_t left = count - i;
            f32v slope, of_mean = {0}, of_sigma = {0};
            const f32v sigma = softplus(load_some(job->rho + place + i, left), &slope);
            if (job->g) {
                const f32v g = load_some(job->g + place + i, left);
                if (job->kind == SQUARE) {
                    of_sigma = 2.0f * g * sigma;
                } else {
                    of_sigma = g * load_some(own + i, left);
                    if (job->kind == SAMPLE) of_mean = g;
                }
            }
            if (prior > 0.0f) {
                f32v offset = load_some(job->mean + place + i, left);
                offset -= job->centers ? load_some(job->centers + place + i, left) : all(job->center);
                of_mean += factor * precision * offset;
                of_sigma += factor * (precision * sigma - 1.0f / sigma);
            }
            store_some(job->of_mean + place + i, of_mean, left);
            store_some(job->of_rho + place + i, of_sigma * slope, left);
        }
    }
}

/* Where a variance is zero the root has no slope: it is taken for the smallest number. */
INLINE float root_of(float variance) { return __builtin_sqrtf(variance > 0x1p-126f ? variance : 0x1p-126f); }

static void local(const void *given, int64_t first, int64_t last) {
    const local_job *job = given;
    float eps[RUN] ALIGNED;
    for (int64_t run = first; run < last; run++) {
        const int64_t place = run * RUN, left = job->from.count - place;
        const int64_t count = left < RUN ? left : RUN;
        fill_normal((stream){job->from.key, (uint64_t)job->from.draw}, run, count, eps);
        const float *restrict mean = job->mean + place, *restrict variance = job->variance + place;
        float *restrict out = job->out + place;
        for (int64_t i = 0; i < count; i++) out[i] = mean[i] + root_of(variance[i]) * eps[i];
    }
}

static void local_backward(const void *given, int64_t first, int64_t last) {
    const local_job *job = given;
    float eps[RUN] ALIGNED;
    for (int64_t run = first; run < last; run++) {
        const int64_t place = run * RUN, left = job->from.count - place;
        const int64_t count = left < RUN ? left : RUN;
        fill_normal((stream){job->from.key, (uint64_t)job->from.draw}, run, count, eps);
        const float *restrict g = job->g + place, *restrict variance = job->variance + place;
        float *restrict out = job->out + place;
        for (int64_t i = 0; i < count; i++)
            out[i] = variance[i] > 0x1p-126f ? 0.5f * g[i] * eps[i] / root_of(variance[i]) : 0.0f;
    }
}

/* The divergence of weights behind a binary mask with learned rates, and its slopes.
 *
 * Σ_k ℓ²‖W_k‖²/(2·keep_k) − H(keep_k) with keep = σ(φ) (Gal et al. 2017, eqs. 3–4). The entropy is
 * H = log(1 + e^φ) − φ·keep, its slope −φ·keep·drop, and that of 1/keep −drop/keep. By the weights of
 * column k the slope is W·ℓ²/keep_k.
 */
#pragma once

#include "weights.h"

static double divergence(const divergence_job *job) {
    double value = 0.0;
    const float precision = job->precision, times = job->times;
    for (int64_t i = 0; i < job->units; i += LANES) {
        const int64_t count = job->units - i;
        const f32v logit = load_some(job->logit + i, count), norm = load_some(job->norms + i, count);
        f32v e, top;
        const f32v soft = softplus(logit, &e, &top);
        const f32v bottom = 1.0f + e, keep = top / bottom;
        const f32v scale = precision * bottom / top, of_norm = 0.5f * norm * scale;
        const f32v kept = times * logit * keep, own = of_norm - (times * soft - kept);
        const f32v drop = either(logit > all(0.0f), e, all(1.0f)) / bottom;
        store_some(job->scale + i, scale, count);
        store_some(job->by_logit + i, (kept - of_norm) * drop, count);
        for (int64_t k = 0; k < (count < LANES ? count : LANES); k++) value += (double)own[k];
    }
    return value;
}

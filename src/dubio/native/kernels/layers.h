/* What stands between the matrix products of a network, in one pass over their results. */
#pragma once

#include "masks.h"

/* x ← max(x + bias, 0)·m in place; what is not a number stays none. */
static void activate(const void *given, int64_t first, int64_t last) {
    const activate_job *job = given;
    float y[RUN] ALIGNED = {0}, m[RUN] ALIGNED;
    for (int64_t index = first; index < last; index++) {
        const part own = part_of(job->from, index);
        const int64_t count = own.count;
        float *x = job->x + own.of_all;
        const float *bias = job->bias + (int64_t)((uint64_t)own.place % (uint64_t)job->units);
        for (int64_t i = 0; i < count; i++) y[i] = x[i] + bias[i];
        if (job->relu)
            for (int64_t i = 0; i < RUN; i++) y[i] = y[i] < 0.0f ? 0.0f : y[i];
        if (!job->of) {
            memcpy(x, y, (size_t)count * sizeof(float));
            continue;
        }
        float *to = count < RUN ? m : x;
        const by_unit unit = from_run(job->table, job->of, own.run);
        bernoulli_run(job->of, unit, own.from, own.run, count, y, to);
        if (to == m) memcpy(x, m, (size_t)count * sizeof(float));
    }
}

/* Entries of x whose bits are set, side by side; a whole vector is written. */
INLINE void store_kept(float *to, f32v x, uint32_t bits) {
#if defined(__AVX512F__)
    store(to, (f32v)_mm512_maskz_compress_ps((__mmask16)bits, (__m512)x));
#elif defined(__AVX2__)
    const uint64_t spread = _pdep_u64(bits, 0x0101010101010101u) * 0xFF; /* a byte for each bit */
    const uint64_t places = _pext_u64(0x0706050403020100u, spread);
    const __m256i index = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)places));
    store(to, (f32v)_mm256_permutevar8x32_ps((__m256)x, index));
#else
    for (int k = 0, j = 0; k < LANES; k++) {
        to[j] = x[k];
        j += (int)(bits >> k & 1);
    }
#endif
}

/* Kept columns of kept rows. Behind the entries of a row there is room for a vector. */
static void cut(const void *given, int64_t first, int64_t last) {
    const cut_job *job = given;
    const f32v scale = all(job->scale);
    for (int64_t i = first; i < last; i++) {
        const float *from = job->from + job->rows[i] * job->stride;
        float *to = job->out + i * job->out_stride;
        const int64_t whole = job->columns / LANES * LANES;
        for (int64_t j = 0; j < whole; j += LANES) {
            const uint32_t bits = job->kept[j / 32] >> (j % 32) & ((1u << LANES) - 1);
            store_kept(to, load(from + j) * scale, bits);
            to += __builtin_popcount(bits);
        }
        for (int64_t j = whole; j < job->columns; j++)
            if (job->kept[j / 32] >> (j % 32) & 1) *to++ = from[j] * job->scale;
    }
}

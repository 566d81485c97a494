/* Masks: factors m of the entries of a tensor, and their slopes dm/dφ, for a run of entries. */
#pragma once

#include <math.h>

#include "runs.h"

INLINE uint32_t threshold(double keep) {
    if (keep >= 1.0) return 0xFFFFFFFF;
    const int64_t kept = llrint(keep * 4294967296.0);
    return kept > 0 ? (uint32_t)(kept - 1) : 0; /* of a rate of zero the scale is zero */
}

/* The same for a rate of a unit: 1[u < keep] for the 24 bits of a uniform number in float32, so that
 * those who compare numbers get the same zeros and ones. If it is not a number all are kept, and none
 * of them is one: such is the scale. */
INLINE uint32_t threshold_of_unit(float keep) {
    if (!(keep < 1.0f)) return 0xFFFFFFFF;
    const uint32_t kept = (uint32_t)ceil((double)keep * 16777216.0);
    return kept > 0 ? (kept << 8) - 1 : 0;
}

static void prepare(const mask *of, by_unit to) {
    const int64_t entries = entries_of(of);
    for (int64_t i = 0; i < of->units; i++) {
        if (of->kind == BERNOULLI) {
            const double keep = of->rates ? (double)of->rates[i] : of->keep;
            const uint32_t limit = of->rates ? threshold_of_unit(of->rates[i]) : threshold(keep);
            to.high[i] = (int32_t)(limit >> 16), to.low[i] = (int32_t)(limit & 0xFFFF);
            to.scale[i] = of->rates ? (keep == 0.0 ? 0.0f : 1.0f / of->rates[i]) : (float)of->scale;
            to.drop[i] = (float)(1.0 - keep);
        } else if (of->kind == CONCRETE) {
            const double odds = exp(-(double)of->rates[i]); /* drop/keep */
            to.rate[i] = of->rates[i];
            to.scale[i] = (float)(1.0 + odds);
            to.drop[i] = (float)(odds / (1.0 + odds));
        } else {
            to.scale[i] = (float)exp(-0.5 * (double)of->rates[i]); /* √α */
        }
    }
    for (int64_t i = of->units; i < entries; i++) {
        to.scale[i] = to.scale[i - of->units];
        to.rate[i] = to.rate[i - of->units], to.drop[i] = to.drop[i - of->units];
        to.high[i] = to.high[i - of->units], to.low[i] = to.low[i - of->units];
    }
}

/* The part of the table from the unit on that a run begins with. */
INLINE by_unit from_run(by_unit table, const mask *of, int64_t run) {
    const int64_t unit = (int64_t)((uint64_t)run * RUN % (uint64_t)of->units);
    return (by_unit){table.scale + unit, table.rate + unit, table.drop + unit, table.high + unit,
                     table.low + unit};
}

/* x·m for zeros and scales m, or m itself if x is NULL. Entries whose high halves equal the limit's
 * are decided by their low halves. Vectors are read and written as a whole. */
static void bernoulli_run(const mask *of, by_unit unit, stream from, int64_t run, int64_t count,
                          const float *x, float *restrict out) {
    uint16_t high[RUN] ALIGNED, low[RUN] ALIGNED;
    fill_halves(from, HIGH_HALVES, run, count, high);
    const int32_t flip = of->reflected ? 0xFFFF : 0;
    i32v ties = {0};
    for (int64_t i = 0; i < count; i += LANES) {
        const i32v word = load_halves(high + i) ^ flip, limit = load_int(unit.high + i);
        const f32v m = (f32v)(~(word > limit) & (i32v)load(unit.scale + i));
        ties |= word == limit;
        store(out + i, x ? load(x + i) * m : m);
    }
    int32_t tie = 0;
    for (int k = 0; k < LANES; k++) tie |= ties[k];
    if (!tie) return;
    fill_halves(from, LOW_HALVES, run, count, low);
    for (int64_t i = 0; i < count; i++)
        if ((high[i] ^ flip) == unit.high[i] && (low[i] ^ flip) > unit.low[i])
            out[i] = x ? x[i] * 0.0f : 0.0f;
}

/* σ((φ + logit u)/t)/keep and its slope in φ (Gal et al. 2017, eq. 5). */
static void concrete_run(const mask *of, by_unit unit, stream from, int64_t run, int64_t count,
                         float *m, float *slope) {
    const float rate = 1.0f / of->temperature;
    const f32v least = all(0x1p-23f), most = all(1.0f - 0x1p-23f);
    float u[RUN] ALIGNED;
    fill_uniform(from, run, count, u);
    for (int64_t i = 0; i < count; i += LANES) {
        f32v x = load(u + i);
        x = either(x < least, least, either(x > most, most, x));
        if (of->reflected) x = 1.0f - x;
        const f32v logit = load(unit.rate + i) + log_of(x / (1.0f - x));
        const f32v soft = 1.0f / (1.0f + exp_of(-logit * rate));
        const f32v factor = soft * load(unit.scale + i);
        store(m + i, factor);
        if (slope) store(slope + i, factor * ((1.0f - soft) * rate - load(unit.drop + i)));
    }
}

/* 1 + √α·ε with log α = −φ, and its slope −½√α·ε. */
static void gaussian_run(const mask *of, by_unit unit, stream from, int64_t run, int64_t count,
                         float *restrict m, float *restrict slope) {
    float noise[RUN] ALIGNED;
    fill_normal(from, run, count, noise);
    const float sign = of->reflected ? -1.0f : 1.0f;
    for (int64_t i = 0; i < count; i++) {
        const float change = sign * unit.scale[i] * noise[i];
        m[i] = 1.0f + change;
        if (slope) slope[i] = -0.5f * change;
    }
}

/* Factors of the first `count` entries of a run, and their slopes if they are wanted. Both buffers
 * have room for RUN entries, and entries behind `count` may be written. */
static void mask_run(const mask *of, by_unit table, stream from, int64_t run, int64_t count,
                     float *restrict m, float *restrict slope) {
    const by_unit unit = from_run(table, of, run);
    if (of->kind == CONCRETE) {
        concrete_run(of, unit, from, run, count, m, slope);
    } else if (of->kind == GAUSSIAN) {
        gaussian_run(of, unit, from, run, count, m, slope);
    } else {
        bernoulli_run(of, unit, from, run, count, 0, m);
        if (slope && of->trapezoid)
            for (int64_t i = 0; i < count; i++) slope[i] = 0.5f - 0.5f * m[i];
        else if (slope)
            for (int64_t i = 0; i < count; i++) slope[i] = -unit.drop[i] * m[i];
    }
}

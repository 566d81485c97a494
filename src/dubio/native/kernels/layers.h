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

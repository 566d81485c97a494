/* Sums over the rows of products of matrices, entry by entry, and multiples of columns.
 *
 * out[k] = Σ_r a[r, k]·(b[r, k] − c[r, k]), and then to[r, k] += times·factor[k]·a[r, k]. Squared norms of
 * columns, gradients of what scales columns, and those of the norms. A block of columns is done by
 * itself, in float for some rows at a time and in double over these.
 */
#pragma once

#include "kernels.h"

enum { TOGETHER = 16 };

static void columns(const void *given, int64_t first, int64_t last) {
    const columns_job *job = given;
    for (int64_t block = first; block < last; block++) {
        const int64_t start = block * COLUMNS, left = job->columns - start;
        const int64_t count = left < COLUMNS ? left : COLUMNS;
        double total[COLUMNS] ALIGNED = {0};
        float factor[COLUMNS] ALIGNED;
        if (job->to)
            for (int64_t i = 0; i < count; i++)
                factor[i] = job->times * job->factor[job->factors > 1 ? start + i : 0];
        for (int64_t row = 0; row < job->rows; row += TOGETHER) {
            const int64_t stop = row + TOGETHER < job->rows ? row + TOGETHER : job->rows;
            float part[COLUMNS] ALIGNED = {0};
            for (int64_t r = row; r < stop; r++) {
                const int64_t at = r * job->columns + start;
                const float *a = job->a + at;
                if (job->c) {
                    const float *b = job->b + at, *c = job->c + at;
                    for (int64_t i = 0; i < count; i++) part[i] += a[i] * (b[i] - c[i]);
                } else if (job->b) {
                    const float *b = job->b + at;
                    for (int64_t i = 0; i < count; i++) part[i] += a[i] * b[i];
                }
                if (job->to) {
                    float *restrict to = job->to + at;
                    for (int64_t i = 0; i < count; i++) to[i] += factor[i] * a[i];
                }
            }
            for (int64_t i = 0; i < count; i++) total[i] += (double)part[i];
        }
        if (job->out)
            for (int64_t i = 0; i < count; i++) job->out[start + i] = (float)total[i];
    }
}

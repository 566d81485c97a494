/* Sums over the rows of a product of two matrices, entry by entry: out[k] = Σ_r a[r, k]·b[r, k].
 *
 * Squared norms of columns, and gradients of what scales columns. A block of columns is summed by
 * itself, in float for some rows at a time and in double over these.
 */
#pragma once

#include "kernels.h"

enum { TOGETHER = 16 };

static void column_products(const void *given, int64_t first, int64_t last) {
    const columns_job *job = given;
    for (int64_t block = first; block < last; block++) {
        const int64_t start = block * COLUMNS, left = job->columns - start;
        const int64_t count = left < COLUMNS ? left : COLUMNS;
        double total[COLUMNS] ALIGNED = {0};
        for (int64_t row = 0; row < job->rows; row += TOGETHER) {
            const int64_t stop = row + TOGETHER < job->rows ? row + TOGETHER : job->rows;
            float part[COLUMNS] ALIGNED = {0};
            for (int64_t r = row; r < stop; r++) {
                const float *a = job->a + r * job->columns + start;
                const float *b = job->b + r * job->columns + start;
                for (int64_t i = 0; i < count; i++) part[i] += a[i] * b[i];
            }
            for (int64_t i = 0; i < count; i++) total[i] += (double)part[i];
        }
        for (int64_t i = 0; i < count; i++) job->out[start + i] = (float)total[i];
    }
}

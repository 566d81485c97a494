/* Linear layers: products of matrices in which rows and inner units can be left out.
 *
 * Left·right, a row of the left matrix after the other as it lies in memory. The right matrix lies in
 * panels: WIDTH of its columns side by side for every inner unit, zeros behind the last. So the inner
 * loop reads a number from each of some left rows and a few vectors from a panel, and what is left out
 * is passed over: nothing is copied or packed before. Sums go by inner unit in order, so that a row of
 * the result does not depend on the others.
 */
#pragma once

#include <stdlib.h>

#include "transpose.h"
#include "weights.h"

enum { VECTORS = 3, WIDTH = VECTORS * LANES };
enum { ROWS = LANES == 16 ? 8 : 4 }; /* ROWS·VECTORS sums and some more fill the registers */

/* ROWS × WIDTH numbers of the result, the first so many vectors of each row; over all inner units if
 * there is no list of them. Rows of the result are `stride` apart. */
INLINE void tile(const int vectors, const float *const left[ROWS], const int32_t *units,
                 int64_t count, const float *right, float *to, int64_t stride) {
    f32v sums[ROWS][VECTORS];
#pragma GCC unroll 8
    for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 3
        for (int v = 0; v < vectors; v++) sums[i][v] = all(0.0f);
    for (int64_t k = 0; k < count; k++) {
        const int64_t unit = units ? units[k] : k;
        f32v columns[VECTORS];
#pragma GCC unroll 3
        for (int v = 0; v < vectors; v++) columns[v] = load(right + unit * WIDTH + v * LANES);
#pragma GCC unroll 8
        for (int i = 0; i < ROWS; i++) {
            const f32v factor = all(left[i][unit]);
#pragma GCC unroll 3
            for (int v = 0; v < vectors; v++) sums[i][v] += factor * columns[v];
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 3
        for (int v = 0; v < vectors; v++) store(to + i * stride + v * LANES, sums[i][v]);
}

INLINE void tile_of(int64_t columns, const float *const left[ROWS], const int32_t *units,
                    int64_t count, const float *right, float *to) {
    if (columns > 2 * LANES) tile(3, left, units, count, right, to, WIDTH);
    else if (columns > LANES) tile(2, left, units, count, right, to, WIDTH);
    else tile(1, left, units, count, right, to, WIDTH);
}

INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Units of a layer are left rows, rows of a batch right columns. Ranges are groups of GROUP units that
 * a draw keeps, the groups of a draw one after the other. */
static void unit_layer(const void *given, int64_t first, int64_t last) {
    const unit_layer_job *job = given;
    const unit_layer_of *of = job->of;
    float sums[ROWS * WIDTH] ALIGNED = {0}; /* behind the last row of the batch zeros stay */
    float *sampled = malloc((size_t)(of->sigma ? GROUP * of->inputs : 0) * sizeof(float) + 1);
    if (!sampled) {
        *job->failed = 1;
        return;
    }
    for (int64_t index = first; index < last; index++) {
        const int64_t draw = index / job->groups, start = index % job->groups * GROUP;
        const int64_t stop = least(start + GROUP, job->output_counts[draw]);
        const int32_t *outputs = job->outputs + draw * of->outputs;
        const int32_t *inputs = job->inputs + draw * of->inputs;
        const float *weights = of->weights + draw * of->weights_apart;
        if (of->sigma) {
            const stream from = {of->key, (uint64_t)(of->draw + draw)};
            const int64_t place = start * of->inputs, count = (stop - start) * of->inputs;
            for (int64_t done = 0; done < count; done += RUN)
                spread_run(from, of->start + place + done, least(RUN, count - done),
                           of->weights + place + done, of->sigma + place + done, sampled + done);
            weights = sampled;
        }
        const int64_t origin = of->sigma ? start : 0;
        for (int64_t row = 0; row < of->rows; row += WIDTH) {
            const float *x = of->x + draw * of->x_apart + row * of->inputs;
            float *out = of->out + draw * job->out_apart + row * of->outputs;
            for (int64_t at = start; at < stop; at += ROWS) {
                const float *left[ROWS];
                for (int64_t i = 0; i < ROWS; i++) /* beyond the last the last again */
                    left[i] = weights + (outputs[least(at + i, stop - 1)] - origin) * of->stride;
                tile_of(of->rows - row, left, inputs, job->input_counts[draw], x, sums);
                for (int64_t i = 0; i < least(ROWS, stop - at); i++) {
                    const int64_t unit = outputs[at + i];
                    const float bias = of->bias ? of->bias[draw * of->bias_apart + unit] : 0.0f;
                    for (int64_t j = 0; j < WIDTH; j++) {
                        const float y = sums[i * WIDTH + j] * of->scale + bias;
                        out[unit * WIDTH + j] = of->relu && y < 0.0f ? 0.0f : y;
                    }
                }
            }
        }
    }
    free(sampled);
}

/* x·m for the entries of some rows, the first of which begins with a run; `out` may be `x`. */
static void drop_rows(const dropout_of *of, by_unit table, int64_t draw, int64_t start, int64_t count,
                      const float *x, float *out) {
    const stream from = {of->key, (uint64_t)draw};
    float copy[RUN] ALIGNED = {0}, dropped[RUN] ALIGNED;
    for (int64_t done = 0; done < count; done += RUN) {
        const int64_t run = (start + done) / RUN, part = least(RUN, count - done);
        const by_unit unit = from_run(table, &of->mask, run);
        const int apart = part == RUN && x != out;
        if (!apart) memcpy(copy, x + done, (size_t)part * sizeof(float));
        bernoulli_run(&of->mask, unit, from, run, part, apart ? x + done : copy,
                      part < RUN ? dropped : out + done);
        if (part < RUN) memcpy(out + done, dropped, (size_t)part * sizeof(float));
    }
}

/* Rows of a batch are left rows, units of a layer right columns. Ranges are groups of GROUP rows, the
 * groups of a draw one after the other. */
static void row_layer(const void *given, int64_t first, int64_t last) {
    const row_layer_job *job = given;
    const row_layer_of *of = job->of;
    float sums[ROWS * WIDTH] ALIGNED;
    float *dropped = malloc((size_t)(of->before ? GROUP * of->inputs : 0) * sizeof(float) + 1);
    if (!dropped) {
        *job->failed = 1;
        return;
    }
    for (int64_t index = first; index < last; index++) {
        const int64_t draw = index / job->groups, start = index % job->groups * GROUP;
        const int64_t rows = least(GROUP, of->rows - start);
        const float *x = of->x + draw * of->x_apart + start * of->inputs;
        float *out = of->out + (draw * of->rows + start) * of->outputs;
        if (of->before) {
            drop_rows(of->before, job->before, of->draw + draw, start * of->inputs,
                      rows * of->inputs, x, dropped);
            x = dropped;
        }
        for (int64_t column = 0; column < of->outputs; column += WIDTH) {
            const int64_t width = least(WIDTH, of->outputs - column);
            for (int64_t at = 0; at < rows; at += ROWS) {
                const float *left[ROWS];
                for (int64_t i = 0; i < ROWS; i++) left[i] = x + least(at + i, rows - 1) * of->inputs;
                tile_of(width, left, job->units, of->inputs, of->panels + column * of->inputs, sums);
                for (int64_t i = 0; i < least(ROWS, rows - at); i++) {
                    float *to = out + (at + i) * of->outputs + column;
                    for (int64_t j = 0; j < width; j++) {
                        const float y = sums[i * WIDTH + j] + job->bias[column + j];
                        to[j] = of->relu && y < 0.0f ? 0.0f : y;
                    }
                }
            }
        }
        if (of->after)
            drop_rows(of->after, job->after, of->draw + draw, start * of->outputs,
                      rows * of->outputs, out, out);
    }
    free(dropped);
}

/* A matrix (rows, columns), or several, in panels of WIDTH of its rows: (panels, columns, WIDTH). */
static void to_panels(const void *given, int64_t first, int64_t last) {
    const panels_job *job = given;
    for (int64_t index = first; index < last; index++) {
        const int64_t draw = index / job->panels, row = index % job->panels * WIDTH;
        const int64_t height = least(WIDTH, job->rows - row);
        float *to = job->out + index * job->columns * WIDTH;
        if (height < WIDTH) memset(to, 0, (size_t)(job->columns * WIDTH) * sizeof(float));
        transpose(job->from + draw * job->apart + row * job->stride, job->stride, height,
                  job->columns, to, WIDTH);
    }
}

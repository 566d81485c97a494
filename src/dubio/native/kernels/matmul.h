/* Products of two matrices, as a training step needs them: out = left·right, with any strides.
 *
 * The tiles are those of products.h. A small right matrix is laid out in panels once, and a group of left
 * rows meets one panel after the other; threads share the groups. A panel of a large one is laid out
 * when its turn comes, and meets all left rows; threads share the panels. Left rows whose entries lie
 * apart are gathered first. What is done to a result is done while its tile is in the cache.
 */
#pragma once

#include "products.h"

enum { LINE = 16 }; /* numbers in a line of the cache */

static void lay_panel(const matmul_of *of, int64_t column, float *to) {
    const int64_t width = least(WIDTH, of->columns - column);
    const float *from = of->right + column * of->right_column;
    if (width < WIDTH) memset(to, 0, (size_t)(of->inner * WIDTH) * sizeof(float));
    if (of->right_column == 1)
        for (int64_t k = 0; k < of->inner; k++) {
            const float *row = from + k * of->right_inner;
            for (int64_t j = 0; j < width; j += LINE)
                __builtin_prefetch(row + LINE * of->right_inner + j);
            memcpy(to + k * WIDTH, row, (size_t)width * sizeof(float));
        }
    else transpose(from, of->right_column, width, of->inner, to, WIDTH);
    if (of->squared)
        for (int64_t i = 0; i < of->inner * WIDTH; i++) to[i] *= to[i];
}

static void lay_panels(const void *given, int64_t first, int64_t last) {
    const matmul_job *job = given;
    for (int64_t panel = first; panel < last; panel++)
        lay_panel(job->of, panel * WIDTH, job->panels + panel * WIDTH * job->of->inner);
}

/* Left rows, with the entries of a row side by side: as they lie, or gathered. */
typedef struct {
    const float *from;
    int64_t apart;
} left_rows;

static left_rows rows_of(const matmul_of *of, int64_t first, int64_t count, float *to) {
    const float *from = of->left + first * of->left_row;
    if (of->left_inner == 1) return (left_rows){from, of->left_row};
    transpose(from, of->left_inner, of->inner, count, to, of->inner);
    return (left_rows){to, of->inner};
}

static void sum_rows(const matmul_of *of, int64_t first, int64_t count, left_rows rows) {
    for (int64_t i = 0; i < count; i++) {
        float sum = 0.0f;
        for (int64_t k = 0; k < of->inner; k++) sum += rows.from[i * rows.apart + k];
        of->left_sums[first + i] = sum;
    }
}

/* Some numbers of a row of the result, and those of `with` at their places. */
INLINE void join(const float *with, const float *factor, int64_t count, float *out, float *sums) {
    for (int64_t j = 0; j < count; j++) {
        sums[j] += with[j] * out[j];
        out[j] += factor[j] * with[j];
    }
}

/* So many rows of the result from the first on, GROUP at the most, and the columns of a panel. */
static void multiply_panel(const matmul_job *job, int64_t first, int64_t count, left_rows rows,
                           int64_t column, const float *panel) {
    const matmul_of *of = job->of;
    const int64_t width = least(WIDTH, of->columns - column);
    const int lies = of->out && of->out_row != 1; /* else columns do */
    float block[GROUP * WIDTH] ALIGNED, parts[WIDTH] ALIGNED = {0}, factor[WIDTH] ALIGNED = {0};
    for (int64_t j = 0; of->factor && j < width; j++)
        factor[j] = of->times * of->factor[of->factors > 1 ? column + j : 0];
    for (int64_t at = 0; at < count; at += ROWS) {
        const int64_t height = least(ROWS, count - at), row = first + at;
        const float *left[ROWS];
        for (int64_t i = 0; i < ROWS; i++) /* beyond the last the last again */
            left[i] = rows.from + least(at + i, count - 1) * rows.apart;
        float *out = lies ? of->out + row * of->out_row + column : block + at * WIDTH;
        const int64_t stride = lies ? of->out_row : WIDTH;
        if (lies && width == WIDTH && height == ROWS) {
            for (int64_t i = 0; i < ROWS; i++)
                for (int64_t j = 0; j < WIDTH; j += LINE) __builtin_prefetch(out + i * stride + j, 1);
            tile(VECTORS, left, 0, of->inner, panel, out, stride);
        } else {
            tile_of(width, left, 0, of->inner, panel, block + at * WIDTH);
            for (int64_t i = 0; lies && i < height; i++)
                memcpy(out + i * stride, block + (at + i) * WIDTH, (size_t)width * sizeof(float));
        }
        for (int64_t i = 0; of->with && i < height; i++) {
            const float *with = of->with + (row + i) * of->out_row + column;
            if (width == WIDTH) join(with, factor, WIDTH, out + i * stride, parts);
            else join(with, factor, width, out + i * stride, parts);
        }
    }
    if (job->parts)
        memcpy(job->parts + first / GROUP * of->columns + column, parts, (size_t)width * sizeof(float));
    if (!of->out || lies) return;
    float *out = of->out + first + column * of->out_column;
    transpose(block, WIDTH, count, width, out, of->out_column);
    for (int64_t j = 0; of->bias && j < width; j++)
        for (int64_t i = 0; i < count; i++) out[j * of->out_column + i] += of->bias[first + i];
}

/* Ranges are groups of left rows if all panels are there, else panels. */
static void matmul(const void *given, int64_t first, int64_t last) {
    const matmul_job *job = given;
    const matmul_of *of = job->of;
    const int64_t height = job->panels ? GROUP : of->rows;
    float *memory = malloc((size_t)((height + WIDTH) * of->inner + 1) * sizeof(float));
    if (!memory) {
        *job->failed = 1;
        return;
    }
    if (job->panels) {
        for (int64_t row = first * GROUP; row < least(last * GROUP, of->rows); row += GROUP) {
            const int64_t count = least(GROUP, of->rows - row);
            const left_rows rows = rows_of(of, row, count, memory);
            if (of->left_sums) sum_rows(of, row, count, rows);
            for (int64_t column = 0; column < of->columns; column += WIDTH)
                multiply_panel(job, row, count, rows, column, job->panels + column * of->inner);
        }
    } else {
        float *panel = memory + height * of->inner;
        const left_rows rows = rows_of(of, 0, of->rows, memory);
        if (of->left_sums && first == 0) sum_rows(of, 0, of->rows, rows);
        for (int64_t column = first * WIDTH; column < least(last * WIDTH, of->columns); column += WIDTH) {
            lay_panel(of, column, panel);
            for (int64_t row = 0; row < of->rows; row += GROUP)
                multiply_panel(job, row, least(GROUP, of->rows - row),
                               (left_rows){rows.from + row * rows.apart, rows.apart}, column, panel);
        }
    }
    free(memory);
}

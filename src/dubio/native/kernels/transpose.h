/* Transposed matrices: LANES × LANES numbers at a time in registers, what is left over one by one.
 *
 * Rows i and i + LANES/2 are interleaved, for all i; after log₂ LANES rounds rows are columns.
 */
#pragma once

#include "vectors.h"

#if defined(__clang__)
#define PICK(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PICK(a, b, ...) __builtin_shuffle(a, b, (i32v){__VA_ARGS__})
#endif

/* The first halves of two vectors, their numbers by turns; and the last halves. */
#if BYTES == 64
#define FIRST(a, b) PICK(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define LAST(a, b) PICK(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif BYTES == 32
#define FIRST(a, b) PICK(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define LAST(a, b) PICK(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define FIRST(a, b) PICK(a, b, 0, 4, 1, 5)
#define LAST(a, b) PICK(a, b, 2, 6, 3, 7)
#endif

INLINE void transpose_square(const float *from, int64_t stride, float *to, int64_t to_stride) {
    f32v x[LANES], y[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) x[i] = load(from + i * stride);
#pragma GCC unroll 4
    for (int round = 1; round < LANES; round *= 2) {
#pragma GCC unroll 8
        for (int i = 0; i < LANES / 2; i++) {
            y[2 * i] = FIRST(x[i], x[i + LANES / 2]);
            y[2 * i + 1] = LAST(x[i], x[i + LANES / 2]);
        }
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) x[i] = y[i];
    }
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) store(to + i * to_stride, x[i]);
}

/* to[j, i] = from[i, j] for so many rows i and columns j, which lie side by side in each. */
static void transpose(const float *from, int64_t stride, int64_t rows, int64_t columns, float *to,
                      int64_t to_stride) {
    const int64_t whole_rows = rows / LANES * LANES, whole = columns / LANES * LANES;
    for (int64_t i = 0; i < whole_rows; i += LANES)
        for (int64_t j = 0; j < whole; j += LANES)
            transpose_square(from + i * stride + j, stride, to + j * to_stride + i, to_stride);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = i < whole_rows ? whole : 0; j < columns; j++)
            to[j * to_stride + i] = from[i * stride + j];
}

/* Random numbers of a run: up to RUN consecutive entries of a noise, in a buffer that stays in cache.
 *
 * Entry e of a draw has its high 16 bits in the tile e / 128 of the words for high halves, and its
 * low 16 bits at the same place of those for low halves: u = (high·2¹⁶ + low)·2⁻³². Normal numbers
 * come 64 to a tile: the cosine parts first, then the sine parts.
 */
#pragma once

#include "functions.h"
#include "kernels.h"
#include "philox.h"

typedef struct {
    uint64_t key, draw;
} stream;

/* One run of a noise: its number, the entries that it has, its draw, and where it begins among the
 * entries of that draw and of all. */
typedef struct {
    stream from;
    int64_t run, count, draw, place, of_all;
} part;

/* The index-th run, the runs of a draw one after the other. */
INLINE part part_of(noise from, int64_t index) {
    const int64_t runs = (from.count + RUN - 1) / RUN, draw = index / runs, run = index % runs;
    const int64_t place = run * RUN, left = from.count - place;
    return (part){.from = {from.key, (uint64_t)(from.draw + draw)}, .run = run,
                  .count = left < RUN ? left : RUN, .draw = draw, .place = place,
                  .of_all = draw * from.count + place};
}

/* 16-bit halves of the entries of run number `run`, the first `count` of them at least. */
INLINE void fill_halves(stream from, uint32_t purpose, int64_t run, int64_t count, uint16_t *to) {
    const uint64_t first = (uint64_t)run * (RUN / HALVES);
    for (int64_t done = 0; done < count; done += HALVES)
        fill_tile(from.key, from.draw, purpose, first + (uint64_t)(done / HALVES),
                  (uint64_t *)(void *)(to + done));
}

/* Uniform numbers in [0, 1) with 24 bits; the buffer has room for RUN. */
INLINE void fill_uniform(stream from, int64_t run, int64_t count, float *to) {
    uint16_t high[RUN] ALIGNED, low[RUN] ALIGNED;
    fill_halves(from, HIGH_HALVES, run, count, high);
    fill_halves(from, LOW_HALVES, run, count, low);
    const int64_t whole = (count + LANES - 1) / LANES * LANES; /* vectors are read from here */
    for (int64_t i = 0; i < whole; i++)
        to[i] = (float)(int32_t)(((uint32_t)high[i] << 8) | (low[i] >> 8)) * 0x1p-24f;
}

/* Standard normal numbers; the buffer has room for RUN. */
INLINE void fill_normal(stream from, int64_t run, int64_t count, float *to) {
    const uint64_t first = (uint64_t)run * (RUN / WORDS);
    for (int64_t done = 0; done < count; done += WORDS) {
        uint64_t words[2 * BLOCKS] ALIGNED;
        fill_tile(from.key, from.draw, FOR_NORMALS, first + (uint64_t)(done / WORDS), words);
#pragma GCC unroll 8
        for (int i = 0; i < WORDS / 2; i += LANES) {
            u32v a, b;
            memcpy(&a, (uint32_t *)(void *)words + i, BYTES);
            memcpy(&b, (uint32_t *)(void *)words + WORDS / 2 + i, BYTES);
            f32v one, other;
            box_muller(a, b, &one, &other);
            store(to + done + i, one);
            store(to + done + WORDS / 2 + i, other);
        }
    }
}

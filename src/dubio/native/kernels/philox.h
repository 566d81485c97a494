/* Random words that are a function of a key and a counter.
 *
 * Philox4x32 with 7 rounds (Salmon, Moraes, Dror and Shaw 2011). The key is 64 bits. The counter has
 * four words: the number of the block (64 bits), the draw, and what the words are for. Bits of the
 * draw beyond 32 go into the last word, above what the words are for.
 *
 * Sixteen blocks make a tile. Its 64 words lie as the registers hold them: words 0 and 1 of all
 * blocks first, then words 2 and 3. So no level has to move words among lanes.
 */
#pragma once

#include "vectors.h"

enum { BLOCKS = 16, WORDS = 4 * BLOCKS, HALVES = 2 * WORDS };

/* What words are for: the last word of the counter. */
enum { HIGH_HALVES = 0, LOW_HALVES = 1, FOR_NORMALS = 2 };

INLINE void philox(u64v x[4], uint64_t key) {
    const u64v first = all64(0xD2511F53), second = all64(0xCD9E8D57);
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
#pragma GCC unroll 7
    for (int round = 0; round < 7; round++) {
        const u64v p = multiply(x[0], first), q = multiply(x[2], second);
        const u64v kept = x[1], other = x[3];
        x[0] = (q >> 32) ^ (kept ^ all64(k0));
        x[1] = q;
        x[2] = (p >> 32) ^ (other ^ all64(k1));
        x[3] = p;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/* The 64 words of a tile. */
INLINE void fill_tile(uint64_t key, uint64_t draw, uint32_t purpose, uint64_t tile, uint64_t *to) {
    const uint64_t last = purpose + (draw >> 32 << 2);
    u64v steps;
    for (int i = 0; i < LANES64; i++) steps[i] = (uint64_t)i;
#pragma GCC unroll 8
    for (int block = 0; block < BLOCKS; block += LANES64) {
        const uint64_t number = tile * BLOCKS + (uint64_t)block; /* its high word is that of all */
        u64v x[4] = {all64(number) + steps, all64(number >> 32), all64(draw), all64(last)};
        philox(x, key);
        const u64v low = (x[0] & all64(0xFFFFFFFF)) | (x[1] << 32);
        const u64v high = (x[2] & all64(0xFFFFFFFF)) | (x[3] << 32);
        memcpy(to + block, &low, BYTES);
        memcpy(to + BLOCKS + block, &high, BYTES);
    }
}

/* Vectors as wide as the registers of a level, by the extensions of GCC and Clang.
 *
 * The same code is compiled once for each level: 64 bytes with AVX-512, 32 with AVX2, else 16.
 */
#pragma once

#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#include <immintrin.h>
#define BYTES 64
#elif defined(__AVX2__)
#include <immintrin.h>
#define BYTES 32
#elif defined(__SSE2__)
#include <emmintrin.h>
#define BYTES 16
#else
#if defined(__ARM_NEON)
#include <arm_neon.h>
#endif
#define BYTES 16
#endif

#define WIDE __attribute__((vector_size(BYTES)))
typedef uint64_t u64v WIDE;
typedef uint32_t u32v WIDE;
typedef int32_t i32v WIDE;
typedef float f32v WIDE;
typedef uint16_t u16half __attribute__((vector_size(BYTES / 2)));

enum { LANES64 = BYTES / 8, LANES = BYTES / 4 };

#define ALIGNED __attribute__((aligned(64)))
#define INLINE static inline __attribute__((always_inline))

INLINE u64v all64(uint64_t x) { return x - (u64v){0}; }
INLINE f32v all(float x) { return x - (f32v){0}; }
INLINE i32v all_int(int32_t x) { return x - (i32v){0}; }

INLINE f32v load(const float *from) {
    f32v x;
    memcpy(&x, from, BYTES);
    return x;
}
INLINE i32v load_int(const int32_t *from) {
    i32v x;
    memcpy(&x, from, BYTES);
    return x;
}
INLINE i32v load_halves(const uint16_t *from) {
    u16half x;
    memcpy(&x, from, BYTES / 2);
    return __builtin_convertvector(x, i32v);
}
INLINE void store(float *to, f32v x) { memcpy(to, &x, BYTES); }

INLINE f32v to_float(i32v x) { return __builtin_convertvector(x, f32v); }
INLINE i32v to_int(f32v x) { return __builtin_convertvector(x, i32v); } /* towards zero */
INLINE f32v as_float(i32v x) { return (f32v)x; }
INLINE i32v as_int(f32v x) { return (i32v)x; }

/* Where the condition holds (all bits set) one, else the other. */
INLINE f32v either(i32v condition, f32v one, f32v other) {
    return (f32v)((condition & (i32v)one) | (~condition & (i32v)other));
}

/* The larger and the smaller of x and a bound; what is not a number stays none. */
INLINE f32v at_least(f32v x, float bound) {
#if defined(__AVX512F__)
    return (f32v)_mm512_max_ps((__m512)all(bound), (__m512)x);
#elif defined(__AVX2__)
    return (f32v)_mm256_max_ps((__m256)all(bound), (__m256)x);
#elif defined(__SSE2__)
    return (f32v)_mm_max_ps((__m128)all(bound), (__m128)x);
#else
    return either(x < all(bound), all(bound), x);
#endif
}
INLINE f32v at_most(f32v x, float bound) { return -at_least(-x, -bound); }

INLINE f32v square_root(f32v x) {
#if defined(__AVX512F__)
    return (f32v)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX2__)
    return (f32v)_mm256_sqrt_ps((__m256)x);
#elif defined(__SSE2__)
    return (f32v)_mm_sqrt_ps((__m128)x);
#else
    f32v y;
    for (int i = 0; i < LANES; i++) y[i] = __builtin_sqrtf(x[i]);
    return y;
#endif
}

/* Products of the low halves of 64-bit lanes; the high halves may hold anything. */
INLINE u64v multiply(u64v a, u64v b) {
#if defined(__AVX512F__)
    return (u64v)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
    return (u64v)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
    return (u64v)_mm_mul_epu32((__m128i)a, (__m128i)b);
#elif defined(__ARM_NEON)
    return (u64v)vmull_u32(vmovn_u64((uint64x2_t)a), vmovn_u64((uint64x2_t)b));
#else
    return (a & 0xFFFFFFFF) * (b & 0xFFFFFFFF);
#endif
}

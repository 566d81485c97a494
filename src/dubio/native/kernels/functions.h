/* Elementary functions of vectors, to a few units in the last place of a float. */
#pragma once

#include "vectors.h"

/* log x for positive normal x: x = m·2ᵉ with m in [√½, √2), and f = m − 1.
 *
 * log(1 + f) = f + f²·p(f), for the polynomial p with the least relative error, 3.5e-8.
 */
INLINE f32v log_of(f32v x) {
    const i32v bits = as_int(x) - 0x3F3504F3;
    const f32v e = to_float(bits >> 23);
    const f32v f = as_float((bits & 0x007FFFFF) + 0x3F3504F3) - 1.0f;
    f32v p = all(8.7348411047e-2f);
    p = p * f - 1.4307520965e-1f;
    p = p * f + 1.4917973940e-1f;
    p = p * f - 1.6570508285e-1f;
    p = p * f + 1.9962072114e-1f;
    p = p * f - 2.5001755250e-1f;
    p = p * f + 3.3333950222e-1f;
    p = p * f - 4.9999991606e-1f;
    return e * 0.693147180559945f + (f * f * p + f);
}

/* eˣ for x in [−87, 88]; below, the value at the end. */
INLINE f32v exp_below(f32v x) {
    x = at_least(x, -87.0f);
    const f32v shifted = x * 1.44269504088896341f + 12582912.0f; /* rounds to a whole number */
    const f32v n = shifted - 12582912.0f;
    f32v r = x - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    const f32v r2 = r * r; /* in pairs, so that terms need not wait for each other */
    const f32v high = 1.9875691500e-4f * r + 1.3981999507e-3f;
    const f32v middle = 8.3334519073e-3f * r + 4.1665795894e-2f;
    const f32v low = 1.6666665459e-1f * r + 5.0000001201e-1f;
    const f32v p = ((high * r2 + middle) * r2 + low) * r2 + r + 1.0f;
    return p * as_float((to_int(n) + 127) << 23);
}

/* eˣ for x in [−87, 88]; beyond, the value at the end. */
INLINE f32v exp_of(f32v x) { return exp_below(at_most(x, 88.0f)); }

/* Sine and cosine for x in [−π/4, π/4] (Cephes). */
INLINE void sine_and_cosine(f32v x, f32v *sine, f32v *cosine) {
    const f32v z = x * x;
    *sine = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * x + x;
    *cosine = (((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z
               - 0.5f) * z + 1.0f;
}

/* Two normal numbers from two random words (Box and Muller 1958).
 *
 * The radius is √(−2 log u) with u = (w + ½)·2⁻³¹ for the first 31 bits w of one word. The angle is
 * that of a quarter, by the first two bits of the other, and a place in it, by the rest.
 */
INLINE void box_muller(u32v first, u32v second, f32v *one, f32v *other) {
    const f32v u = to_float((i32v)(first >> 1)) * 0x1p-31f + 0x1p-32f;
    const f32v radius = square_root(-2.0f * log_of(u));
    f32v sine, cosine;
    sine_and_cosine(to_float((i32v)(second << 2)) * (1.57079632679489662f * 0x1p-32f), &sine, &cosine);
    /* quarters 0 to 3: (c, s), (−s, c), (−c, −s), (s, −c) */
    const u32v twice = second << 1, odd = (u32v)((i32v)twice >> 31);
    const u32v change = ((u32v)sine ^ (u32v)cosine) & odd; /* turns one into the other */
    *one = radius * (f32v)((u32v)cosine ^ change ^ ((second ^ twice) & 0x80000000u));
    *other = radius * (f32v)((u32v)sine ^ change ^ (second & 0x80000000u));
}

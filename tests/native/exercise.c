/* Calls every function of the library at every level, with odd sizes and pointers that lie askew.
 *
 * It is compiled with the kernels and with sanitizers, and run. Each array is a block of its own, so
 * that an entry too far is seen. Checks that are made here: a result does not depend on the number of
 * threads, nor on where arrays lie. Says how many calls it has made.
 */
#include <stdio.h>
#include <stdlib.h>

#include "kernels.h"

int dubio_best_level(void);
int dubio_level(void);
int dubio_use_level(int level);
void dubio_philox(const uint32_t counter[4], uint64_t key, uint32_t out[4]);
int dubio_fill(int32_t kind, uint64_t key, int64_t draw, int64_t draws, int64_t count, float *out,
               int threads);
int dubio_masked(const mask *of, uint64_t key, int64_t draw, int64_t draws, int64_t count,
                 const float *x, int64_t stride, float *out, int threads);
int dubio_masked_backward(const mask *of, uint64_t key, int64_t draw, int64_t count, const float *x,
                          const float *g, float *of_x, float *of_rates, int threads);
int dubio_sample(int32_t kind, uint64_t key, int64_t draw, int64_t start, int64_t count,
                 const float *mean, const float *rho, const float *centers, float center,
                 float prior, float *out, double *divergence, int threads);
int dubio_spread(uint64_t key, int64_t draw, int64_t draws, int64_t start, int64_t count,
                 const float *mean, const float *sigma, float *out, int threads);
int dubio_sample_backward(int32_t kind, uint64_t key, int64_t draw, int64_t start, int64_t count,
                          const float *mean, const float *rho, const float *centers, float center,
                          float prior, float factor, const float *g, const float *through,
                          float *of_mean, float *of_rho, int threads);
int dubio_local(uint64_t key, int64_t draw, int64_t count, const float *mean, const float *variance,
                float *out, float *slope, int threads);

int dubio_activate(const mask *of, uint64_t key, int64_t draw, int64_t draws, int64_t count,
                   const float *bias, int64_t units, int32_t relu, float *x, int threads);
int dubio_width(void);
int dubio_unit_layer(const unit_layer_of *of, int threads);
int dubio_row_layer(const row_layer_of *of, int threads);
int dubio_panels(int64_t draws, int64_t rows, int64_t columns, const float *from, int64_t stride,
                 int64_t apart, float *out, int threads);
int dubio_beats_torch(void);
int dubio_matmul(const matmul_of *of, int threads);
int dubio_columns(int64_t rows, int64_t columns, const float *a, const float *b, const float *c,
                  const float *factor, int64_t factors, float times, float *to, float *out, int threads);
int dubio_divergence(int64_t rows, int64_t columns, int64_t units, const float *weights,
                     const float *logit, float precision, double *value, float *scale,
                     float *by_logit, int threads);

static const uint64_t KEY = 0xFEDCBA9876543210;
static const int64_t FAR[] = {0, 0x7FFFFFFF, 0xFFFFFFFF, (int64_t)1 << 40};
static int askew; /* how many floats an array begins behind an aligned place */
static long calls;

/* An array that ends where its block ends; its values are those of a small sequence. */
static float *array(int64_t count) {
    float *block = malloc((size_t)(count + askew) * sizeof(float) + (count + askew == 0));
    for (int64_t i = 0; i < count; i++) block[askew + i] = (float)((i * 37 + 11) % 64) / 64.0f - 0.4f;
    return block + askew;
}
static void done(float *given) { free(given - askew); }

static void check(int status) {
    calls++;
    if (status) fprintf(stderr, "status %d\n", status), exit(2);
}
static double sum_of(const float *x, int64_t count) {
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++) sum += (double)x[i] * (double)(1 + i % 7);
    return sum;
}

/* All functions for some entries; the sum of all that they wrote. */
static double exercise(int64_t count, int64_t units, int64_t draw, int threads) {
    const int64_t draws = 2;
    float *x = array(draws * count), *out = array(draws * count), *g = array(count);
    float *other = array(count), *positive = array(count), *rates = array(units);
    float *of_rates = array(units), *scales = array(units);
    double total = 0.0, divergence = 0.0;
    for (int64_t i = 0; i < count; i++) positive[i] += 0.4f; /* zeros among them */
    for (int kind = UNIFORM; kind <= NORMAL; kind++) {
        check(dubio_fill(kind, KEY, draw, draws, count, out, threads));
        total += sum_of(out, draws * count);
    }
    for (int form = 0; form < 16; form++) {
        const int kind = form % 4 < 3 ? form % 4 : BERNOULLI, alike = form % 4 == 3;
        for (int64_t i = 0; i < units; i++) /* rates of 0 and 1 are among them */
            rates[i] = kind == BERNOULLI ? (float)(i % 5) / 4.0f : (float)(i % 41 - 20);
        const mask of = {.rates = alike ? 0 : rates, .keep = 0.3, .scale = 1.0 / 0.3,
                         .units = alike ? 1 : units, .temperature = 0.1f, .kind = kind,
                         .reflected = form / 4 % 2, .trapezoid = form / 8 % 2};
        check(dubio_masked(&of, KEY, draw, draws, count, form % 2 ? x : 0, count, out, threads));
        total += sum_of(out, draws * count);
        check(dubio_masked(&of, KEY, draw, draws, count, x, 0, out, threads));
        total += sum_of(out, draws * count);
        check(dubio_masked_backward(&of, KEY, draw, count, form % 2 ? x : 0, g,
                                    form % 3 ? other : 0, form % 5 ? of_rates : 0, threads));
        total += sum_of(other, count) + (form % 5 ? sum_of(of_rates, of.units) : 0.0);
    }
    const int64_t starts[] = {0, 1, 1023, ((int64_t)1 << 33) + 5};
    for (int form = 0; form < 24; form++) {
        const int64_t start = starts[form % 4];
        const int kind = form % 3;
        const float *centers = form % 2 ? g : 0, *mean = kind == SAMPLE || form < 16 ? x : 0;
        const float prior = mean ? (float)(form / 8) : 0.0f;
        check(dubio_sample(kind, KEY, draw, start, count, mean, g, centers, 0.1f, prior,
                           form % 5 ? out : 0, &divergence, threads));
        check(dubio_sample_backward(kind, KEY, draw, start, count, mean, g, centers, 0.1f, prior,
                                    0.5f, form % 7 ? x + count : 0, form % 4 ? x : 0,
                                    form % 6 ? other : 0, positive, threads));
        check(dubio_spread(KEY, draw, draws, start, count, x, g, out, threads));
        total += sum_of(out, draws * count) + sum_of(other, count) + sum_of(positive, count);
        total += divergence;
    }
    for (int64_t i = 0; i < count; i++) positive[i] = (float)(i % 9);
    check(dubio_local(KEY, draw, count, x, positive, out, other, threads));
    check(dubio_local(KEY, draw, count, 0, positive, 0, other, threads));
    total += sum_of(out, count) + sum_of(other, count);
    const mask dropout = {.keep = 0.3, .scale = 1.0 / 0.3, .units = 1};
    for (int form = 0; form < 4; form++) {
        check(dubio_activate(form % 2 ? &dropout : 0, KEY, draw, draws, count, form / 2 ? rates : 0,
                             units, form % 3, x, threads));
        total += sum_of(x, draws * count);
    }
    const int64_t rows = count / units;
    for (int form = 0; form < 8; form++) {
        check(dubio_columns(rows, units, x, form % 4 ? g : 0, form % 4 > 1 ? other : 0, rates,
                            form % 3 ? units : 1, 0.5f, form % 2 ? other : 0,
                            form % 4 ? of_rates : 0, threads));
        total += sum_of(other, rows * units) + (form % 4 ? sum_of(of_rates, units) : 0.0);
    }
    for (int64_t own = 1; own <= units; own += units > 1 ? units - 1 : 1) {
        check(dubio_divergence(rows, units, own, g, rates, 0.5f, &divergence, scales, of_rates,
                               threads));
        total += sum_of(scales, own) + sum_of(of_rates, own) + divergence;
    }
    done(x), done(out), done(g), done(other), done(positive), done(rates), done(of_rates);
    done(scales);
    return total;
}

/* Linear layers with some inputs, outputs and masks left out. */
static double exercise_layers(int64_t rows, int64_t inputs, int64_t outputs, int threads) {
    const int64_t draws = 2, width = dubio_width() ? dubio_width() : 12;
    const int64_t panels = (rows + width - 1) / width, own = (outputs + width - 1) / width;
    const int64_t in = panels * width * inputs, room = panels * width * outputs;
    float *x = array(draws * rows * inputs), *laid = array(draws * in), *out = array(draws * room);
    float *weights = array(draws * outputs * inputs), *of_weights = array(own * width * inputs);
    float *bias = array(draws * outputs), *made = array(draws * rows * outputs);
    float *kept = array(draws * inputs), *kept_outputs = array(draws * outputs);
    double total = 0.0;
    for (int64_t i = 0; i < draws * inputs; i++) kept[i] = (float)(i % 3 > 0);
    for (int64_t i = 0; i < draws * outputs; i++) kept_outputs[i] = (float)(i % 4 > 0);
    check(dubio_panels(draws, rows, inputs, x, inputs, rows * inputs, laid, threads));
    check(dubio_panels(1, outputs, inputs, weights, inputs, 0, of_weights, threads));
    total += sum_of(laid, draws * in) + sum_of(of_weights, own * width * inputs);
    for (int form = 0; form < 8; form++) {
        const int sampled = form / 4 && inputs % 16 == 0;
        const unit_layer_of layer = {
            draws, rows, inputs, outputs, laid, weights, form % 2 ? bias : 0,
            form % 4 ? in : 0, inputs, form % 3 && !sampled ? outputs * inputs : 0,
            form % 5 ? outputs : 0, form / 2 % 2 ? kept : 0, form / 4 && !sampled ? kept_outputs : 0,
            out, 1.25f, form % 2, sampled ? weights + outputs * inputs : 0, KEY, 5, RUN * form};
        for (int64_t i = 0; i < draws * room; i++) out[i] = 0.0f;
        check(dubio_unit_layer(&layer, threads));
        total += sum_of(out, draws * room);
        const dropout_of dropout = {{.keep = 0.3, .scale = 1.0 / 0.3, .units = 1}, KEY};
        const row_layer_of with_rows = {
            5, draws, rows, inputs, outputs, x, of_weights, form % 3 ? bias : 0,
            form % 4 ? rows * inputs : 0, form % 2 && inputs % 16 == 0 ? &dropout : 0,
            form / 4 && outputs % 16 == 0 ? &dropout : 0, made, form % 2};
        check(dubio_row_layer(&with_rows, threads));
        total += sum_of(made, draws * rows * outputs);
    }
    done(x), done(laid), done(out), done(weights), done(of_weights), done(bias), done(made);
    done(kept), done(kept_outputs);
    return total;
}

/* Products of matrices that lie in every way, with all that can be done beside. */
static double exercise_matmul(int64_t rows, int64_t inner, int64_t columns, int threads) {
    float *left = array(rows * inner), *right = array(inner * columns), *bias = array(rows);
    float *out = array(rows * columns), *sums = array(rows), *with = array(rows * columns);
    float *with_sums = array(columns), *factor = array(columns);
    double total = 0.0;
    for (int form = 0; form < 16; form++) {
        const int left_lies = form % 2, right_lies = form / 2 % 2, beside = form / 4 % 2, whole = form / 8;
        const matmul_of of = {
            .rows = rows, .columns = columns, .inner = inner,
            .left = left, .left_row = left_lies ? inner : 1, .left_inner = left_lies ? 1 : rows,
            .right = right, .right_inner = right_lies ? columns : 1, .right_column = right_lies ? 1 : inner,
            .bias = beside || whole ? 0 : bias, .out = beside && whole ? 0 : out,
            .out_row = beside || whole ? columns : 1, .out_column = beside || whole ? 1 : rows,
            .left_sums = left_lies ? 0 : sums, .with = beside ? with : 0,
            .with_sums = beside ? with_sums : 0, .factor = beside && !whole ? factor : 0,
            .factors = right_lies ? columns : 1, .times = 0.5f, .squared = right_lies};
        check(dubio_matmul(&of, threads));
        total += sum_of(out, rows * columns) + sum_of(sums, rows) + sum_of(with_sums, columns);
    }
    done(left), done(right), done(bias), done(out), done(sums), done(with), done(with_sums), done(factor);
    return total;
}

int main(void) {
    const int64_t counts[] = {0, 1, 3, 15, 17, 127, 129, 1023, 1024, 1025, 2 * 1024 + 77};
    const int64_t units[] = {1, 2, 7, 1023, 1024, 1500};
    const uint32_t counter[4] = {0};
    uint32_t words[4];
    if (dubio_use_level(-1) != 0 || dubio_use_level(9) != dubio_best_level()) return 3;
    for (int level = 0; level <= dubio_best_level(); level++) {
        if (dubio_use_level(level) != level || dubio_level() != level) return 3;
        dubio_philox(counter, 0, words), calls++;
        if (words[0] != 0x5f6fb709 || words[3] != 0x4f730a48) return 4;
        for (int c = 0; c < (int)(sizeof counts / sizeof *counts); c++)
            for (int u = c % 2; u < (int)(sizeof units / sizeof *units); u += 2) {
                double sums[4];
                for (askew = 0; askew < 4; askew++)
                    sums[askew] = exercise(counts[c], units[u], FAR[(c + u) % 4], 1 + askew);
                if (memcmp(sums, sums + 1, 3 * sizeof(double))) return 5;
            }
        const int64_t sizes[][3] = {{1, 1, 1}, {9, 16, 5}, {50, 7, 32}, {70, 48, 16}, {130, 33, 67}};
        for (int c = 0; c < 5; c++) {
            double sums[3];
            for (askew = 0; askew < 3; askew++)
                sums[askew] = exercise_layers(sizes[c][0], sizes[c][1], sizes[c][2], 1 + askew)
                              + exercise_matmul(sizes[c][0], sizes[c][1], sizes[c][2], 1 + askew)
                              + exercise_matmul(sizes[c][2] + 300, sizes[c][1], sizes[c][0], 1 + askew);
            if (memcmp(sums, sums + 1, 2 * sizeof(double))) return 7;
        }
        askew = 1; /* enough for several threads */
        const double apart = exercise_layers(200, 160, 208, 3), alone = exercise_layers(200, 160, 208, 1);
        if (memcmp(&apart, &alone, sizeof apart)) return 8;
        const double one = exercise(140000, 300, 1, 1), three = exercise(140000, 300, 1, 3);
        if (memcmp(&one, &three, sizeof one)) return 6;
    }
    printf("%ld calls\n", calls);
    return 0;
}

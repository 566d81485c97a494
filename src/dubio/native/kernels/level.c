/* All kernels at one level of instructions: compiled once for each, with LEVEL as its name. */
#include "columns.h"
#include "divergence.h"
#include "layers.h"
#include "matmul.h"

static void philox_block(const uint32_t counter[4], uint64_t key, uint32_t out[4]) {
    u64v x[4];
    for (int i = 0; i < 4; i++) x[i] = all64(counter[i]);
    philox(x, key);
    for (int i = 0; i < 4; i++) out[i] = (uint32_t)x[i][0];
}

static void fill(const void *given, int64_t first, int64_t last) {
    const fill_job *job = given;
    float buffer[RUN] ALIGNED;
    for (int64_t index = first; index < last; index++) {
        const part own = part_of(job->from, index);
        float *out = job->out + own.of_all, *to = own.count < RUN ? buffer : out;
        if (job->kind == UNIFORM) fill_uniform(own.from, own.run, own.count, to);
        else fill_normal(own.from, own.run, own.count, to);
        if (to == buffer) memcpy(out, buffer, (size_t)own.count * sizeof(float));
    }
}

static void forward(const void *given, int64_t first, int64_t last) {
    const forward_job *job = given;
    float m[RUN] ALIGNED;
    for (int64_t index = first; index < last; index++) {
        const part own = part_of(job->from, index);
        float *restrict out = job->out + own.of_all;
        const float *restrict x = job->x ? job->x + own.draw * job->stride + own.place : 0;
        if (job->of->kind == BERNOULLI && own.count == RUN) {
            const by_unit unit = from_run(job->table, job->of, own.run);
            bernoulli_run(job->of, unit, own.from, own.run, RUN, x, out);
            continue;
        }
        mask_run(job->of, job->table, own.from, own.run, own.count, m, 0);
        if (!x) {
            memcpy(out, m, (size_t)own.count * sizeof(float));
            continue;
        }
        for (int64_t i = 0; i < own.count; i++) out[i] = x[i] * m[i];
    }
}

/* Ranges are groups of runs here, so that each group has sums of its own. */
static void backward(const void *given, int64_t first, int64_t last) {
    const backward_job *job = given;
    float m[RUN] ALIGNED, slope[RUN] ALIGNED;
    const int64_t runs = (job->from.count + RUN - 1) / RUN, units = job->of->units;
    const stream from = {job->from.key, (uint64_t)job->from.draw};
    for (int64_t group = first; group < last; group++) {
        float *sums = job->sums ? job->sums + group * units : 0;
        if (sums) memset(sums, 0, (size_t)units * sizeof(float));
        int64_t stop = (group + 1) * job->runs_of_group;
        if (stop > runs) stop = runs;
        for (int64_t run = group * job->runs_of_group; run < stop; run++) {
            const int64_t place = run * RUN, left = job->from.count - place;
            const int64_t count = left < RUN ? left : RUN;
            mask_run(job->of, job->table, from, run, count, m, sums ? slope : 0);
            const float *restrict g = job->g + place;
            if (job->of_x) {
                float *restrict of_x = job->of_x + place;
                for (int64_t i = 0; i < count; i++) of_x[i] = g[i] * m[i];
            }
            if (!sums) continue;
            if (job->x) {
                const float *restrict x = job->x + place;
                for (int64_t i = 0; i < count; i++) slope[i] *= g[i] * x[i];
            } else {
                for (int64_t i = 0; i < count; i++) slope[i] *= g[i];
            }
            if (units == 1) {
                double total = 0.0;
                for (int64_t i = 0; i < count; i++) total += (double)slope[i];
                sums[0] += (float)total;
                continue;
            }
            int64_t unit = (int64_t)((uint64_t)place % (uint64_t)units);
            for (int64_t done = 0; done < count; unit = 0) {
                const int64_t rest = count - done, part = units - unit < rest ? units - unit : rest;
                for (int64_t i = 0; i < part; i++) sums[unit + i] += slope[done + i];
                done += part;
            }
        }
    }
}

#define NAME_OF(level) kernels_##level
#define TABLE(level) NAME_OF(level)
const kernels TABLE(LEVEL) = {
    philox_block, prepare, forward, backward, fill, sample, spread, sample_backward, local,
    activate, unit_layer, row_layer, to_panels, lay_panels, matmul,
    columns, divergence, WIDTH,
};

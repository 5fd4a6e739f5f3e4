/* SPDX-License-Identifier: Apache-2.0 */
/* dense.c - the arithmetic of a layer, in loops that the compiler vectorises. */
#include "dense.h"

#include <string.h>

/* Columns that are worked on at a time: a tile of each row stays in the first-level cache while inputs or rows go by. */
enum {
    TILE = 256
};

static inline size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* y += a[0] rows[0] + a[1] rows[stride] + … four at a time: y is loaded and stored once for four of them. */
static inline void add_four(float *restrict y, const float *restrict rows, size_t stride,
                            const float a[4], size_t n)
{
    const float *restrict r0 = rows, *restrict r1 = rows + stride, *restrict r2 = r1 + stride,
                          *restrict r3 = r2 + stride;
    const float a0 = a[0], a1 = a[1], a2 = a[2], a3 = a[3];

    for (size_t j = 0; j < n; j++)
        y[j] += (a0 * r0[j] + a1 * r1[j]) + (a2 * r2[j] + a3 * r3[j]);
}

static inline void add_one(float *restrict y, const float *restrict row, float a, size_t n)
{
    for (size_t j = 0; j < n; j++)
        y[j] += a * row[j];
}

/* `count` factors, `step` apart. */
struct factors {
    const float *at;
    size_t step, count;
};

/* y += the sum of rows, `stride` apart, times their factors. Images and what ReLU lets through are half zeros: those are skipped. */
static inline void add_rows(float *restrict y, const float *restrict rows, size_t stride,
                            struct factors factors, size_t n)
{
    const float *a = factors.at;
    const size_t step = factors.step;
    size_t i = 0;

    for (; i + 4 <= factors.count; i += 4) {
        const float four[4] = {a[i * step], a[(i + 1) * step], a[(i + 2) * step],
                               a[(i + 3) * step]};

        if (four[0] != 0 || four[1] != 0 || four[2] != 0 || four[3] != 0)
            add_four(y, rows + i * stride, stride, four, n);
    }
    for (; i < factors.count; i++)
        add_one(y, rows + i * stride, a[i * step], n);
}

void dense_forward(struct dense layer, const float *parameters, const float *x, size_t rows,
                   float *y)
{
    const size_t in = layer.inputs, out = layer.outputs;
    const float *bias = parameters + in * out;

    for (size_t from = 0; from < out; from += TILE) {
        size_t n = least(TILE, out - from);

        for (size_t r = 0; r < rows; r++) {
            float *line = y + r * out + from;

            memcpy(line, bias + from, n * sizeof(float));
            add_rows(line, parameters + from, out, (struct factors){x + r * in, 1, in}, n);
        }
    }
}

void dense_gradient(struct dense layer, const float *x, const float *dy, size_t rows,
                    float *gradient)
{
    const size_t in = layer.inputs, out = layer.outputs;
    float *bias = gradient + in * out;

    memset(gradient, 0, dense_parameters(layer) * sizeof(float));
    for (size_t from = 0; from < out; from += TILE) {
        size_t n = least(TILE, out - from);

        for (size_t k = 0; k < in; k++)
            add_rows(gradient + k * out + from, dy + from, out, (struct factors){x + k, in, rows},
                     n);
        for (size_t r = 0; r < rows; r++)
            add_one(bias + from, dy + r * out + from, 1, n);
    }
}

void dense_backward(struct dense layer, const float *parameters, const float *dy, size_t rows,
                    float *dx)
{
    const size_t in = layer.inputs, out = layer.outputs;

    for (size_t r = 0; r < rows; r++) {
        for (size_t k = 0; k < in; k++) {
            float sum = 0;

            for (size_t j = 0; j < out; j++)
                sum += parameters[k * out + j] * dy[r * out + j];
            dx[r * in + k] = sum;
        }
    }
}

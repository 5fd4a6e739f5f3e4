/* SPDX-License-Identifier: Apache-2.0 */
/* dense.h - one fully connected layer: y = x W + b, and its derivatives.
 *
 * Parameters of a layer lie as W[inputs][outputs], then b[outputs]: rows of W are contiguous, so the inner loops run along them
 * without a reduction and the compiler turns them into vector instructions. The order of every sum is fixed: the same input
 * gives the same bits on the same kind of CPU.
 */
#ifndef PARAMETER_SERVER_DENSE_H
#define PARAMETER_SERVER_DENSE_H

#include <stddef.h>

struct dense {
    size_t inputs, outputs;
};

static inline size_t dense_parameters(struct dense layer)
{
    return (layer.inputs + 1) * layer.outputs;
}

/* y[rows][outputs] = x[rows][inputs] W + b */
void dense_forward(struct dense layer, const float *parameters, const float *x, size_t rows,
                   float *y);

/* gradient = the sum over rows of d(loss)/d(parameters), given dy = d(loss)/dy */
void dense_gradient(struct dense layer, const float *x, const float *dy, size_t rows,
                    float *gradient);

/* dx[rows][inputs] = dy W^T */
void dense_backward(struct dense layer, const float *parameters, const float *dy, size_t rows,
                    float *dx);

#endif

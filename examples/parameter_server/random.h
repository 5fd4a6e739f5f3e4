/* SPDX-License-Identifier: Apache-2.0 */
/* random.h - numbers that follow from a seed and a position alone.
 *
 * Every process can make the part that it needs (a shard its weights, a worker its epoch's order) and all agree, whatever
 * they made before. SplitMix64 (Steele, Lea, Flood 2014). Not for secrets.
 */
#ifndef PARAMETER_SERVER_RANDOM_H
#define PARAMETER_SERVER_RANDOM_H

#include <stdint.h>

static inline uint64_t random_at(uint64_t seed, uint64_t position)
{
    uint64_t z = seed * 0xd1342543de82ef95u + (position + 1) * 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Uniform in [-1, 1). */
static inline float random_sign(uint64_t seed, uint64_t position)
{
    return (float)(random_at(seed, position) >> 40) / 8388608.0f - 1.0f;
}

#endif

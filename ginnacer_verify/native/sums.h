/* Loops over plain arrays that every compiler turns into vector instructions. Sums are taken in LANES parts: the order
   is fixed, and needs no licence to reorder, which would also be one to break what must not be reordered. */

#ifndef GINNACER_SUMS_H
#define GINNACER_SUMS_H

#include <math.h>
#include "records.h"

#define LANES 16

static inline double dot(const double *RESTRICT a, const double *RESTRICT b, int64_t count) {
    double lane[LANES] = {0.0}, sum = 0.0;
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int l = 0; l < LANES; l++) lane[l] += a[i + l] * b[i + l];
    for (; i < count; i++) sum += a[i] * b[i];
    for (int l = 0; l < LANES; l++) sum += lane[l];
    return sum;
}

static inline float total(const float *values, int64_t count) {
    float lane[LANES] = {0.0f}, sum = 0.0f;
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int l = 0; l < LANES; l++) lane[l] += values[i + l];
    for (; i < count; i++) sum += values[i];
    for (int l = 0; l < LANES; l++) sum += lane[l];
    return sum;
}

/* to += a * row, and the same for four rows at once. */
static inline void add_row(double *RESTRICT to, double a, const double *RESTRICT row, int64_t count) {
    for (int64_t i = 0; i < count; i++) to[i] += a * row[i];
}

static inline void add_rows(double *RESTRICT to, const double *f, const double *RESTRICT p, const double *RESTRICT q,
                            const double *RESTRICT r, const double *RESTRICT s, int64_t count) {
    const double a = f[0], b = f[1], c = f[2], d = f[3];
    for (int64_t i = 0; i < count; i++) to[i] += (a * p[i] + b * q[i]) + (c * r[i] + d * s[i]);
}

static inline void copy(const double *RESTRICT from, double *RESTRICT to, int64_t count) {
    for (int64_t i = 0; i < count; i++) to[i] = from[i];
}

#endif

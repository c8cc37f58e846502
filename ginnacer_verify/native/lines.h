/* Lines below and above functions on an interval, for the tape: each sound in floating point whatever its slope is.

   A line is `slope[0] * y[0] + slope[1] * y[1] + shift`. Slopes are guesses; a shift is a bound of the gap between the
   function and them, moved outwards by more than what was rounded on the way. */

#include <math.h>
#include "records.h"

#define UNIT 1.1102230246251565e-16
#define TINY 1e-290
/* More than computed values of a logistic function and of its gap to a line, both between -1 and 1, can be off. */
#define LOGISTIC 4e-14

typedef struct {
    double below[2], low, above[2], high;
} Lines;

static inline double least_of(double a, double b) { return a < b ? a : b; }
static inline double most_of(double a, double b) { return a > b ? a : b; }

/* `f - slope * y` where f and the product are of the given values: from below (sign -1) or from above (1). */
static inline double gap_to(double f, double product, int sign) {
    return f - product + sign * (8 * UNIT * (fabs(f) + fabs(product)) + TINY);
}

/* `max(alpha * y, y)`, alpha at most 1: any line through 0 with a slope in between is below it. */
static inline Lines bent_lines(double l, double u, double alpha) {
    Lines f = {{0.0, 0.0}, 0.0, {0.0, 0.0}, 0.0};
    if (l >= 0.0 || u <= 0.0) {
        f.below[0] = f.above[0] = l >= 0.0 ? 1.0 : alpha;
        return f;
    }
    const double chord = (u - alpha * l) / (u - l);
    f.above[0] = chord < alpha ? alpha : chord > 1.0 ? 1.0 : chord;
    f.high = most_of(gap_to(alpha * l, f.above[0] * l, 1), gap_to(u, f.above[0] * u, 1));
    f.below[0] = u > -l ? 1.0 : alpha;
    return f;
}

static inline double logistic(double y) {
    const double e = exp(-fabs(y));
    return (y >= 0.0 ? 1.0 : e) / (1.0 + e);
}

static inline double logistic_slope(double y) {
    const double e = exp(-fabs(y));
    return e / ((1.0 + e) * (1.0 + e));
}

/* About the slope of the convex envelope of the logistic function in the middle of an interval. */
static inline double envelope_slope(double l, double u) {
    const double half = l + (u - l) / 2, chord = (logistic(u) - logistic(l)) / (u - l);
    if (u <= 0.0) return logistic_slope(half);
    if (l >= 0.0 || logistic_slope(l) >= chord) return chord;
    double left = l, right = 0.0; /* the point whose tangent meets the upper end */
    const double top = logistic(u);
    for (int n = 0; n < 12; n++) {
        const double p = left + (right - left) / 2;
        if (logistic_slope(p) * (u - p) < top - logistic(p))
            left = p;
        else
            right = p;
    }
    return logistic_slope(half < right ? half : right);
}

/* A line below the logistic function. `g = f - slope * y` is least at an end or where f' is the slope and f convex: at
   `-log((1 + w)^2 / (4 slope))`, w^2 = 1 - 4 slope; being off there costs the square of it only. */
static inline void logistic_below(double l, double u, double *slope, double *shift) {
    double s = u - l > 1e-9 ? envelope_slope(l, u) : 0.0;
    if (!(s > 1e-12)) {
        *slope = 0.0;
        *shift = logistic(l) - LOGISTIC;
        return;
    }
    const double w = s < 0.25 ? sqrt(1.0 - 4.0 * s) : 0.0, p = -log((1.0 + w) * (1.0 + w) / (4.0 * s));
    double g = least_of(logistic(l) - s * l, logistic(u) - s * u);
    if (p > l && p < u) g = least_of(g, logistic(p) - s * p);
    *slope = s;
    *shift = g - LOGISTIC - 8 * UNIT * s * most_of(fabs(l), fabs(u));
}

/* Upper lines by `f(y) = 1 - f(-y)`. */
static inline Lines logistic_lines(double l, double u) {
    Lines f = {{0.0, 0.0}, 0.0, {0.0, 0.0}, 0.0};
    logistic_below(l, u, &f.below[0], &f.low);
    logistic_below(-u, -l, &f.above[0], &f.high);
    f.high = 1.0 - f.high + LOGISTIC;
    return f;
}

/* `tanh(y) = 2 logistic(2 y) - 1`. */
static inline Lines tanh_lines(double l, double u) {
    Lines f = logistic_lines(2.0 * l, 2.0 * u);
    f.below[0] *= 4.0;
    f.above[0] *= 4.0;
    f.low = 2.0 * f.low - 1.0 - LOGISTIC;
    f.high = 2.0 * f.high - 1.0 + LOGISTIC;
    return f;
}

/* The chord of a convex function, raised to cover both ends. */
static inline void chord_above(double l, double u, double f_l, double f_u, double slope, Lines *f) {
    f->above[0] = slope;
    f->high = most_of(gap_to(f_l, slope * l, 1), gap_to(f_u, slope * u, 1));
}

/* `y^2 >= 2 p y - p^2` for any p. */
static inline Lines square_lines(double l, double u) {
    Lines f = {{0.0, 0.0}, 0.0, {0.0, 0.0}, 0.0};
    const double p = l + (u - l) / 2;
    f.below[0] = 2.0 * p;
    f.low = -p * p * (1 + 4 * UNIT) - TINY;
    chord_above(l, u, l * l, u * u, l + u, &f);
    return f;
}

/* `1 / y + s y >= 2 sqrt(s)` for y and s above 0. */
static inline Lines reciprocal_lines(double l, double u) {
    Lines f = {{0.0, 0.0}, -INFINITY, {0.0, 0.0}, INFINITY};
    if (l > 0.0) {
        const double p = sqrt(l) * sqrt(u);
        f.below[0] = -1.0 / p / p;
        f.low = 2.0 * sqrt(-f.below[0]) * (1 - 8 * UNIT) - TINY;
        chord_above(l, u, 1.0 / l, 1.0 / u, -1.0 / l / u, &f);
    } else if (u < 0.0) {
        const Lines other = reciprocal_lines(-u, -l);
        f.below[0] = other.above[0];
        f.low = -other.high;
        f.above[0] = other.below[0];
        f.high = -other.low;
    }
    return f;
}

/* `exp(y) - s y >= s (1 - log(s))` for s above 0. */
static inline Lines exponential_lines(double l, double u) {
    Lines f = {{0.0, 0.0}, 0.0, {0.0, 0.0}, INFINITY};
    const double s = exp(l + (u - l) / 2), f_l = exp(l), f_u = exp(u);
    if (s > 1e-290 && s < 1e290) {
        f.below[0] = s;
        f.low = s - s * log(s) - 16 * UNIT * s * (1.0 + fabs(log(s))) - TINY;
    }
    chord_above(l, u, f_l * (1 + 4 * UNIT), f_u * (1 + 4 * UNIT), u > l ? (f_u - f_l) / (u - l) : 0.0, &f);
    return f;
}

/* McCormick's planes (Mathematical Programming 10, 1976), mixed: `low` moves from the plane through the corner of lower
   ends to the one through that of upper ends, `high` from (lower, upper) to (upper, lower). The gap of planes with any
   slopes is least and largest at corners. */
static inline Lines product_lines(double l, double u, double p, double q, double low, double high) {
    const double x[4] = {l, l, u, u}, y[4] = {p, q, p, q};
    Lines f = {{(1 - low) * p + low * q, (1 - low) * l + low * u},
               INFINITY,
               {(1 - high) * q + high * p, (1 - high) * l + high * u},
               -INFINITY};
    for (int i = 0; i < 4; i++) {
        const double z = x[i] * y[i], a = f.below[0] * x[i], b = f.below[1] * y[i];
        const double c = f.above[0] * x[i], d = f.above[1] * y[i];
        const double least = z - a - b - (8 * UNIT * (fabs(z) + fabs(a) + fabs(b)) + TINY);
        const double most = z - c - d + (8 * UNIT * (fabs(z) + fabs(c) + fabs(d)) + TINY);
        f.low = least < f.low ? least : f.low;
        f.high = most > f.high ? most : f.high;
        if (isnan(least) || isnan(most)) f.low = f.high = NAN;
        if (isnan(f.low)) break;
    }
    return f;
}

/* Bounds of eight boxes at once on any graph over few varying inputs, value by value.

   Front to back each value gets an affine function of the inputs and a radius around it, and intervals; what enters a
   function that is loose there is tightened by a back-substitution of its own, which touches only what it depends on.
   Then the rows of the property are carried back; for disjuncts that stay open lines and a mixture of rows are improved
   in a few steps. Eight boxes lie side by side in every number, so a weight is read once for all of them.

   What is computed is off by at most `gamma` times the sum of the absolute values of all terms, which is collected as
   `mass` (Higham, Accuracy and Stability of Numerical Algorithms, 3.1): coefficients times the largest value that each
   can meet. Comparisons are written so that a NaN proves nothing and changes no bound. */

#include "lines.h"

#define ABREAST 8

#if defined(__GNUC__)

#define EACH(l) for (int l = 0; l < ABREAST; l++)
#define INLINE static inline __attribute__((always_inline))
typedef double Eight __attribute__((vector_size(64), aligned(8), may_alias));

enum { ENTERING, SUM, BENT, PRODUCT, LOGISTIC_OF, TANH_OF, SQUARE_OF, RECIPROCAL_OF, EXPONENTIAL_OF };
enum { STEPS_ROW = 2, STEPS_ROWS = 8, MOST_DISJUNCTS = 62 };
#define LARGEST 1e300
#define UNDERFLOW_OF 1e-322
#define LOSS 10.0

typedef struct {
    Eight below[2], low, above[2], high;
} EightLines;

/* Working memory of one thread, for eight boxes. */
typedef struct {
    int64_t width;         /* of an affine function: its constant and its slopes */
    Eight *form;           /* per value: an affine function of the inputs, each in units of its radius, */
    Eight *radius;         /* how far the value is from it at most, */
    Eight *size;           /* at least the sum of the absolute values of all that makes it up, */
    Eight *low, *high;     /* and its interval */
    EightLines *lines;     /* of functions */
    Eight *choice;         /* two per value: which lines are chosen, between 0 and 1 */
    Eight *coefficient[2]; /* rows on their way back; 0 wherever nothing is under way */
    Eight *met;            /* the coefficient with which each function was met */
    Eight *value;          /* where a bound is attained */
    Eight *planes;         /* per row, for the mixture and its best: slopes, in units of reaches; constant, mass */
    Eight *square[2];      /* of each row that is carried back: the products of inputs, a symmetric matrix */
    int bowed[2];          /* whether there are any */
    Eight *bowl, *factor;  /* the same made convex, and its factors */
    Eight *bottom;         /* where a bound is attained, in units of reaches */
    Eight *bound;          /* per row */
    Eight *share;          /* per row: its weight in the mixture */
    Eight *centre, *reach; /* of the boxes */
    Eight *corner, *loss, *best_loss;
    int64_t *from, *to;    /* per block: what was touched of it */
    double error;          /* gamma, */
    Eight total;           /* and the sum of all sizes: what underflow may take is a share of it */
    const double *constants[ABREAST], *slacks[ABREAST], *rows[ABREAST], *offsets[ABREAST];
    int alike;             /* whether all boxes have the same constants */
} Space;

INLINE Eight *eights(double **space, int64_t count) {
    Eight *found = (Eight *)*space;
    *space += ABREAST * count;
    return found;
}

static Space space_in(const Tape *t, double *memory) {
    Space s;
    const int64_t values = t->length, inputs = t->inputs;
    s.width = 1 + inputs;
    s.form = eights(&memory, values * s.width);
    s.radius = eights(&memory, values);
    s.size = eights(&memory, values);
    s.low = eights(&memory, values);
    s.high = eights(&memory, values);
    s.lines = (EightLines *)eights(&memory, 6 * values);
    s.choice = eights(&memory, 2 * values);
    s.coefficient[0] = eights(&memory, values);
    s.coefficient[1] = eights(&memory, values);
    s.met = eights(&memory, values);
    s.value = eights(&memory, values);
    s.planes = eights(&memory, (t->rows + 2) * (inputs + 2));
    s.square[0] = eights(&memory, inputs * inputs);
    s.square[1] = eights(&memory, inputs * inputs);
    s.bowl = eights(&memory, inputs * inputs);
    s.factor = eights(&memory, inputs * (inputs + 1));
    s.bottom = eights(&memory, inputs);
    s.bound = eights(&memory, 2 * t->rows + 2);
    s.share = eights(&memory, t->rows + 1);
    s.centre = eights(&memory, inputs);
    s.reach = eights(&memory, inputs);
    s.corner = eights(&memory, inputs);
    s.loss = eights(&memory, inputs);
    s.best_loss = eights(&memory, inputs);
    s.from = (int64_t *)memory;
    s.to = s.from + t->blocks;
    /* No coefficient is the sum of more than `spread` terms, no constant of more than there are values. */
    const int64_t most = t->length + t->spread + t->roundings + t->rows + 64;
    s.error = most * UNIT / (1 - most * UNIT) * (1 + 1e-9);
    for (int64_t v = 0; v < values; v++) s.coefficient[0][v] = s.coefficient[1][v] = (Eight){0};
    for (int64_t i = 0; i < inputs * inputs; i++) s.square[0][i] = s.square[1][i] = (Eight){0};
    s.bowed[0] = s.bowed[1] = 0;
    for (int64_t b = 0; b < t->blocks; b++) {
        s.from[b] = t->length;
        s.to[b] = -1;
    }
    return s;
}

INLINE Eight lesser(Eight a, Eight b) { /* b if a is not a number */
    Eight r;
    EACH(l) r[l] = a[l] < b[l] ? a[l] : b[l];
    return r;
}

INLINE Eight greater(Eight a, Eight b) {
    Eight r;
    EACH(l) r[l] = a[l] > b[l] ? a[l] : b[l];
    return r;
}

INLINE Eight absolute_of(Eight a) {
    Eight r;
    EACH(l) r[l] = fabs(a[l]);
    return r;
}

INLINE Eight positive(Eight a) { return greater(a, (Eight){0}); } /* 0 for a NaN: what is met so is charged by mass */
INLINE Eight negative(Eight a) { return lesser(a, (Eight){0}); }

INLINE int any(Eight a) { /* whether one of them is not 0 */
    int found = 0;
    EACH(l) found |= !(a[l] == 0.0);
    return found;
}

INLINE Eight of_each(const Space *s, const double *const *arrays, int64_t at) {
    Eight r;
    if (s->alike) return (Eight){0} + arrays[0][at];
    EACH(l) r[l] = arrays[l][at];
    return r;
}

INLINE Eight of_rows(const double *const *arrays, int64_t at) {
    Eight r;
    EACH(l) r[l] = arrays[l][at];
    return r;
}

/* The tighter of two intervals; what is not a number changes nothing. */
INLINE void tighten_to(Space *s, int64_t v, Eight low, Eight high) {
    s->low[v] = greater(low, s->low[v]);
    s->high[v] = lesser(high, s->high[v]);
}

/* The interval of an affine function and its radius. */
INLINE void by_form(Space *s, int64_t v) {
    const Eight *form = s->form + v * s->width;
    Eight reach = s->radius[v];
    for (int64_t j = 1; j < s->width; j++) reach += absolute_of(form[j]);
    const Eight error = s->size[v] * ((double)(8 + s->width) * 2 * UNIT) + TINY;
    tighten_to(s, v, form[0] - reach - error, form[0] + reach + error);
}

/* At least the absolute value, whatever it was computed from. */
INLINE void grow(Space *s, int64_t v) {
    const Eight *form = s->form + v * s->width;
    Eight sum = s->radius[v];
    for (int64_t j = 0; j < s->width; j++) sum += absolute_of(form[j]);
    sum = sum * (1 + (double)(4 + s->width) * 2 * UNIT);
    sum = greater(sum, greater(absolute_of(s->low[v]), absolute_of(s->high[v])));
    s->size[v] = greater(s->size[v], sum);
}

static void entering(const Tape *t, Space *s) {
    for (int64_t v = 0; v < t->inputs; v++) {
        Eight *form = s->form + v * s->width;
        for (int64_t j = 0; j < s->width; j++) form[j] = (Eight){0};
        form[0] = s->centre[v];
        form[1 + v] = s->reach[v];
        s->radius[v] = (Eight){0};
        s->size[v] = absolute_of(s->centre[v]) + s->reach[v];
    }
}

/* A sum of values, times weights, and a constant: by affine functions, and by intervals. */
static void sum_of(const Tape *t, Space *s, int64_t v) {
    const int64_t first = t->entries[v], last = t->entries[v + 1], width = s->width;
    const Eight constant = of_each(s, s->constants, v), slack = of_each(s, s->slacks, v);
    Eight *form = s->form + v * width;
    int64_t j = 0;
    for (; j + 4 <= width; j += 4) {
        Eight a = {0}, b = {0}, c = {0}, d = {0};
        for (int64_t k = first; k < last; k++) {
            const Eight *from = s->form + t->columns[k] * width + j;
            const double w = t->weights[k];
            a += w * from[0];
            b += w * from[1];
            c += w * from[2];
            d += w * from[3];
        }
        form[j] = a;
        form[j + 1] = b;
        form[j + 2] = c;
        form[j + 3] = d;
    }
    for (; j < width; j++) {
        Eight a = {0};
        for (int64_t k = first; k < last; k++) a += t->weights[k] * s->form[t->columns[k] * width + j];
        form[j] = a;
    }
    Eight radius = slack, size = absolute_of(constant) + slack, low = constant - slack, high = constant + slack;
    for (int64_t k = first; k < last; k++) {
        const double w = t->weights[k], up = w > 0 ? w : 0.0, down = w < 0 ? w : 0.0, steep = fabs(w);
        const int64_t c = t->columns[k];
        radius += steep * s->radius[c];
        size += steep * s->size[c];
        if (w > 0) {
            low += up * s->low[c];
            high += up * s->high[c];
        } else {
            low += down * s->high[c];
            high += down * s->low[c];
        }
    }
    const Eight error = size * ((double)(last - first + t->roundings + 12) * 2 * UNIT) + TINY;
    form[0] += constant;
    s->radius[v] = radius + error;
    s->size[v] = size * (1 + (double)(last - first + t->roundings + 12) * 2 * UNIT);
    const Eight none = (Eight){0} + INFINITY;
    s->low[v] = greater(low - error, -none);
    s->high[v] = lesser(high + error, none);
    by_form(s, v);
}

static Lines lines_on(int64_t kind, double bend, double l, double u, double p, double q, double low, double high) {
    switch (kind) {
        case BENT: return bent_lines(l, u, bend);
        case PRODUCT: return product_lines(l, u, p, q, low, high);
        case LOGISTIC_OF: return logistic_lines(l, u);
        case TANH_OF: return tanh_lines(l, u);
        case SQUARE_OF: return square_lines(l, u);
        case RECIPROCAL_OF: return reciprocal_lines(l, u);
        default: return exponential_lines(l, u);
    }
}

/* Between which values a function lies. */
static void range_of(int64_t kind, double bend, double l, double u, double p, double q, double *low, double *high) {
    double a = -INFINITY, b = INFINITY;
    switch (kind) {
        case BENT: {
            const double f = l < 0 ? bend * l : l, g = u < 0 ? bend * u : u;
            b = f > g ? f : g;
            a = l < 0 && u > 0 && bend < 0 ? 0.0 : f < g ? f : g;
            break;
        }
        case PRODUCT: {
            const double z[4] = {l * p, l * q, u * p, u * q};
            a = b = z[0];
            for (int i = 1; i < 4; i++) {
                if (isnan(z[i])) a = NAN;
                a = z[i] < a ? z[i] : a;
                b = z[i] > b ? z[i] : b;
            }
            if (isnan(a) || !(fabs(a) < LARGEST && fabs(b) < LARGEST)) {
                a = -INFINITY;
                b = INFINITY;
            }
            break;
        }
        case LOGISTIC_OF:
            a = logistic(l) - 1e-15;
            b = logistic(u) + 1e-15;
            a = a > 0 ? a : 0.0;
            b = b < 1 ? b : 1.0;
            break;
        case TANH_OF:
            a = tanh(l) - 1e-15;
            b = tanh(u) + 1e-15;
            break;
        case SQUARE_OF: {
            const double f = l * l, g = u * u;
            b = f > g ? f : g;
            a = l <= 0 && u >= 0 ? 0.0 : f < g ? f : g;
            break;
        }
        case RECIPROCAL_OF:
            if (l > 0 || u < 0) {
                a = 1.0 / u;
                b = 1.0 / l;
            }
            break;
        default:
            a = exp(l);
            b = exp(u);
            a = a < LARGEST ? a : LARGEST;
            break;
    }
    *low = a - (fabs(a) * 8 * UNIT + TINY);
    *high = b + (fabs(b) * 8 * UNIT + TINY);
}

/* The lines of a function on the intervals of its arguments, with the choice that was made. */
static void choose_lines(const Tape *t, Space *s, int64_t v, int64_t kind) {
    const int64_t first = t->entries[v], x = t->columns[first], y = t->columns[t->entries[v + 1] - 1];
    EightLines *f = s->lines + v;
    EACH(l) {
        const Lines one = lines_on(kind, t->bends[v], s->low[x][l], most_of(s->low[x][l], s->high[x][l]), s->low[y][l],
                                   most_of(s->low[y][l], s->high[y][l]), s->choice[2 * v][l], s->choice[2 * v + 1][l]);
        f->below[0][l] = one.below[0];
        f->below[1][l] = one.below[1];
        f->low[l] = one.low;
        f->above[0][l] = one.above[0];
        f->above[1][l] = one.above[1];
        f->high[l] = one.high;
    }
}

/* A function of one or two values: its lines, its interval, and the affine function of its lower line's slopes. */
static void function_of(const Tape *t, Space *s, int64_t v, int64_t kind) {
    const int64_t first = t->entries[v], last = t->entries[v + 1], width = s->width;
    s->choice[2 * v] = s->choice[2 * v + 1] = (Eight){0} + 0.5;
    choose_lines(t, s, v, kind);
    const EightLines *f = s->lines + v;
    Eight *form = s->form + v * width;
    Eight low = f->low, high = f->high, terms = absolute_of(low) + absolute_of(high), radius = {0}, size = terms;
    const Eight *slope = kind == BENT ? f->above : f->below; /* the chord keeps both lines of a ReLU closest */
    for (int64_t j = 0; j < width; j++) form[j] = (Eight){0};
    for (int64_t k = first; k < last; k++) {
        const int64_t c = t->columns[k];
        const Eight steep = slope[k - first], under = f->below[k - first] - steep, over = f->above[k - first] - steep;
        const Eight largest = greater(absolute_of(s->low[c]), absolute_of(s->high[c]));
        const Eight steepest = absolute_of(f->below[k - first]) + absolute_of(f->above[k - first]);
        low += lesser(under * s->low[c], under * s->high[c]);
        high += greater(over * s->low[c], over * s->high[c]);
        terms += 2.0 * steepest * largest;
        radius += absolute_of(steep) * s->radius[c];
        size += steepest * greater(s->size[c], largest);
        for (int64_t j = 0; j < width; j++) form[j] += steep * s->form[c * width + j];
    }
    if (kind == BENT) low = (Eight){0}; /* a line through 0 is below */
    const Eight error = terms * (16 * UNIT) + size * (32 * UNIT) + TINY;
    form[0] += 0.5 * low + 0.5 * high;
    s->radius[v] = radius + (0.5 * high - 0.5 * low) + error;
    s->size[v] = size * (1 + 64 * UNIT) + s->radius[v];
    EACH(l) {
        const int64_t x = t->columns[first], y = t->columns[last - 1];
        double a, b;
        range_of(kind, t->bends[v], s->low[x][l], s->high[x][l], s->low[y][l], s->high[y][l], &a, &b);
        s->low[v][l] = a == a ? a : -INFINITY;
        s->high[v][l] = b == b ? b : INFINITY;
    }
    for (int64_t j = 0; j < width; j++)
        EACH(l) {
            if (fabs(s->radius[v][l]) < LARGEST && fabs(form[j][l]) < LARGEST) continue;
            /* where lines tell nothing the interval may: a form without slopes */
            const double a = s->low[v][l], b = s->high[v][l], middle = a + (b / 2 - a / 2);
            for (int64_t i = 0; i < width; i++) form[i][l] = 0.0;
            form[0][l] = fabs(middle) < LARGEST ? middle : 0.0;
            s->radius[v][l] = fabs(middle) < LARGEST ? most_of(b - middle, middle - a) * (1 + 8 * UNIT) : INFINITY;
        }
    by_form(s, v);
    grow(s, v);
}

INLINE void touch(const Tape *t, Space *s, int64_t v) {
    for (int64_t k = t->touches[v]; k < t->touches[v + 1]; k++) {
        const int64_t b = t->touched_block[k];
        if (t->touched_from[k] < s->from[b]) s->from[b] = t->touched_from[k];
        if (t->touched_to[k] > s->to[b]) s->to[b] = t->touched_to[k];
    }
}

/* How a function's loss, its coefficient times the gap of its lines, is due to inputs. */
INLINE void blame(const Tape *t, Space *s, int64_t v, Eight a) {
    const int64_t width = s->width;
    const EightLines *f = s->lines + v;
    Eight gap = f->high - f->low, whole = {0};
    for (int64_t k = t->entries[v]; k < t->entries[v + 1]; k++) {
        const int64_t c = t->columns[k], n = k - t->entries[v];
        gap += (f->above[n] - f->below[n]) * (0.5 * s->low[c] + 0.5 * s->high[c]);
        for (int64_t j = 1; j < width; j++) whole += absolute_of(s->form[c * width + j]);
    }
    Eight share = absolute_of(a) * positive(gap);
    EACH(l) share[l] = whole[l] > 0 && share[l] < LARGEST ? share[l] / whole[l] : 0.0;
    for (int64_t k = t->entries[v]; k < t->entries[v + 1]; k++)
        for (int64_t j = 1; j < width; j++)
            s->loss[j - 1] += share * absolute_of(s->form[t->columns[k] * width + j]);
}

/* A product of two values with affine functions f, g around c, d and radii p, q:

       x y = (f - c) (g - d) + d x + c y - c d, give or take |g - d| p + |f - c| q + p q.

   The first term is a product of inputs, kept as it is; x and y are carried back with d and c. Boxes on which planes may
   be better keep their coefficients in `a`; returns whether there are none. */
INLINE int multiply_out(const Tape *t, Space *s, int64_t v, int rows, Eight *a, Eight *constant, Eight *mass) {
    const int64_t x = t->columns[t->entries[v]], y = t->columns[t->entries[v + 1] - 1], d = t->inputs, width = s->width;
    const Eight *f = s->form + x * width, *g = s->form + y * width;
    Eight f_moves = {0}, g_moves = {0}, chosen = {0};
    for (int64_t j = 1; j < width; j++) {
        f_moves += absolute_of(f[j]);
        g_moves += absolute_of(g[j]);
    }
    Eight lost = g_moves * s->radius[x] + f_moves * s->radius[y] + s->radius[x] * s->radius[y];
    lost = lost * (1 + (double)(2 * width + 8) * UNIT);
    int some = 0, left = 0;
    EACH(l) {
        chosen[l] = 64.0 * lost[l] < (s->high[x][l] - s->low[x][l]) * (s->high[y][l] - s->low[y][l]) ? 1.0 : 0.0;
        some |= chosen[l] > 0;
    }
    if (!some) return 0;
    for (int r = 0; r < rows; r++) {
        Eight b = a[r] * chosen;
        EACH(l) if (chosen[l] == 0.0) b[l] = 0.0;
        a[r] = a[r] - b;
        left |= any(a[r]);
        if (!any(b)) continue;
        s->bowed[r] = 1;
        mass[r] += 4.0 * absolute_of(b) * s->size[x] * s->size[y];
        constant[r] -= b * f[0] * g[0] + absolute_of(b) * lost;
        s->coefficient[r][x] += b * g[0];
        s->coefficient[r][y] += b * f[0];
        for (int64_t i = 0; i < d; i++) {
            const Eight p = 0.5 * b * f[1 + i], q = 0.5 * b * g[1 + i];
            for (int64_t j = 0; j <= i; j++) s->square[r][i * d + j] += p * g[1 + j] + q * f[1 + j];
        }
    }
    return !left;
}

/* Carry one or two rows back to the inputs, from the block at hand: what lies in `coefficient`, plus `constant`. With
   `keep` the coefficients that functions are met with are kept, and what they lose is added up. */
INLINE void carry_back(const Tape *t, Space *s, int64_t block, int rows, Eight *constant, Eight *mass, int keep,
                       Eight *slopes) {
    for (int64_t b = block; b >= 0; b--) {
        const int64_t from = s->from[b], to = s->to[b], kind = t->kinds[b];
        s->from[b] = t->length;
        s->to[b] = -1;
        for (int64_t v = to; v >= from; v--) {
            Eight a[2];
            int met = 0;
            for (int r = 0; r < rows; r++) {
                a[r] = s->coefficient[r][v];
                met |= any(a[r]);
            }
            if (keep && kind > SUM) s->met[v] = a[0];
            if (!met) continue;
            for (int r = 0; r < rows; r++) {
                s->coefficient[r][v] = (Eight){0};
                mass[r] += absolute_of(a[r]) * s->size[v];
            }
            if (kind == ENTERING) {
                for (int r = 0; r < rows; r++) {
                    slopes[r * t->inputs + v] += a[r] * s->reach[v];
                    constant[r] += a[r] * s->centre[v];
                }
                continue;
            }
            touch(t, s, v);
            if ((kind == PRODUCT || kind == SQUARE_OF) && multiply_out(t, s, v, rows, a, constant, mass)) continue;
            const int64_t first = t->entries[v], last = t->entries[v + 1];
            if (kind == SUM) {
                const Eight shift = of_each(s, s->constants, v), slack = of_each(s, s->slacks, v);
                for (int r = 0; r < rows; r++) constant[r] += a[r] * shift - absolute_of(a[r]) * slack;
                for (int64_t k = first; k < last; k++)
                    for (int r = 0; r < rows; r++) s->coefficient[r][t->columns[k]] += t->weights[k] * a[r];
                continue;
            }
            const EightLines *f = s->lines + v;
            if (keep) blame(t, s, v, a[0]);
            for (int r = 0; r < rows; r++) {
                const Eight over = positive(a[r]), under = negative(a[r]);
                EACH(l) { /* what is infinite counts only where it is met */
                    if (a[r][l] > 0) constant[r][l] += a[r][l] * f->low[l];
                    if (!(a[r][l] >= 0)) constant[r][l] += a[r][l] * f->high[l];
                }
                for (int64_t k = first; k < last; k++)
                    s->coefficient[r][t->columns[k]] += over * f->below[k - first] + under * f->above[k - first];
            }
        }
    }
}

/* LDL^T of the bowl; returns for which boxes it has no negative pivot, as 1. */
static Eight factorised(Space *s, int64_t d) {
    Eight fine = (Eight){0} + 1.0, *pivot = s->factor + d * d;
    for (int64_t i = 0; i < d; i++) {
        for (int64_t j = 0; j <= i; j++) {
            Eight sum = s->bowl[i * d + j];
            for (int64_t k = 0; k < j; k++) sum -= s->factor[i * d + k] * s->factor[j * d + k] * pivot[k];
            if (j < i)
                s->factor[i * d + j] = sum / pivot[j];
            else
                pivot[i] = sum;
        }
        EACH(l) if (!(pivot[i][l] > 0)) {
            fine[l] = 0.0;
            pivot[i][l] = 1.0;
        }
    }
    return fine;
}

/* A plane below `slopes @ e + e' Q e` on -1 <= e <= 1, instead of it. With a diagonal D that makes Q + D convex,
   `e' Q e >= e' (Q + D) e - sum(D)`, and a convex function is above its tangents: that at its least value is taken.
   D is a share of what Gershgorin's circles need, the least of a few that does; it is convex if its factors have no
   negative pivot, but for what they were rounded by (Higham, Theorem 10.3). */
static void linearise(Space *s, int64_t d, int r, Eight *constant, Eight *mass, Eight *slopes) {
    Eight *q = s->square[r], *a = s->bowl, *e = s->bottom, trace = {0}, share = (Eight){0} + 1.0, low = {0};
    s->bowed[r] = 0;
    for (int64_t i = 0; i < d; i++) {
        trace += absolute_of(q[i * d + i]);
        for (int64_t j = 0; j < i; j++) trace += 2.0 * absolute_of(q[i * d + j]);
    }
    const Eight least = trace * 1e-10 + 1e-280;
    for (int step = 0; step < 6; step++) { /* all of the circles, none, then halving */
        Eight tried = 0.5 * (low + share);
        if (step < 2) tried = (Eight){0} + 0.125 * step;
        for (int64_t i = 0; i < d; i++) {
            Eight circle = {0};
            for (int64_t j = 0; j < d; j++)
                if (j != i) circle += absolute_of(i > j ? q[i * d + j] : q[j * d + i]);
            for (int64_t j = 0; j < i; j++) a[i * d + j] = q[i * d + j];
            a[i * d + i] = q[i * d + i] + positive(circle - q[i * d + i]) * tried + least;
        }
        const Eight fine = factorised(s, d);
        int done = 1;
        EACH(l) {
            if (fine[l] > 0 && tried[l] < share[l]) share[l] = tried[l];
            if (!(fine[l] > 0) && tried[l] > low[l]) low[l] = tried[l];
            done &= share[l] - low[l] < 0.05;
        }
        if (done) break;
    }
    Eight added = {0}, diagonal = {0};
    for (int64_t i = 0; i < d; i++) {
        Eight circle = {0};
        for (int64_t j = 0; j < d; j++)
            if (j != i) circle += absolute_of(i > j ? q[i * d + j] : q[j * d + i]);
        const Eight more = positive(circle - q[i * d + i]) * share + least;
        a[i * d + i] = q[i * d + i] + more;
        added += more;
        s->loss[i] += more;
        diagonal += a[i * d + i];
        for (int64_t j = 0; j < i; j++) a[j * d + i] = a[i * d + j] = q[i * d + j];
        e[i] = (Eight){0};
    }
    for (int sweep = 0; sweep < 12; sweep++) /* coordinate by coordinate to the least value */
        for (int64_t i = 0; i < d; i++) {
            Eight slope = slopes[i];
            for (int64_t j = 0; j < d; j++)
                if (j != i) slope += 2.0 * a[i * d + j] * e[j];
            const Eight to = -slope / (2.0 * a[i * d + i]);
            EACH(l) e[i][l] = to[l] > 1 ? 1.0 : to[l] < -1 ? -1.0 : to[l] == to[l] ? to[l] : 0.0;
        }
    Eight at = {0};
    for (int64_t i = 0; i < d; i++) {
        Eight tilt = {0};
        for (int64_t j = 0; j < d; j++) tilt += a[i * d + j] * e[j];
        slopes[i] += 2.0 * tilt;
        at += tilt * e[i];
    }
    *constant -= at + added + (diagonal + trace) * ((double)(16 * d * (d + 8)) * UNIT);
    *mass += 4.0 * (trace + added);
    for (int64_t i = 0; i < d * d; i++) q[i] = (Eight){0};
}

/* The least value of rows that were carried back, on the boxes; minus infinity where it is not to be trusted. */
INLINE Eight least_on(const Tape *t, const Space *s, Eight constant, Eight mass, const Eight *slopes) {
    const double products = (double)(t->entries[t->length] + t->length);
    Eight bound = constant;
    for (int64_t j = 0; j < t->inputs; j++) bound -= absolute_of(slopes[j]);
    bound -= s->error * mass + TINY + UNDERFLOW_OF * products * (1.0 + s->total);
    EACH(l) if (!(mass[l] < LARGEST && fabs(bound[l]) < LARGEST)) bound[l] = -INFINITY;
    return bound;
}

/* Tighten the interval of a sum by carrying it and its negative back. */
static void tighten_by_rows(const Tape *t, Space *s, int64_t v, int64_t block) {
    Eight constant[2], mass[2], *slopes = s->planes; /* these are not in use yet */
    const Eight shift = of_each(s, s->constants, v), slack = of_each(s, s->slacks, v);
    for (int r = 0; r < 2; r++) {
        constant[r] = (r ? -shift : shift) - slack;
        mass[r] = s->size[v];
        for (int64_t j = 0; j < t->inputs; j++) slopes[r * t->inputs + j] = (Eight){0};
    }
    for (int64_t k = t->entries[v]; k < t->entries[v + 1]; k++) {
        s->coefficient[0][t->columns[k]] += t->weights[k];
        s->coefficient[1][t->columns[k]] -= t->weights[k];
    }
    touch(t, s, v);
    carry_back(t, s, block - 1, 2, constant, mass, 0, slopes);
    for (int r = 0; r < 2; r++)
        if (s->bowed[r]) linearise(s, t->inputs, r, constant + r, mass + r, slopes + r * t->inputs);
    const Eight low = least_on(t, s, constant[0], mass[0], slopes);
    const Eight high = -least_on(t, s, constant[1], mass[1], slopes + t->inputs);
    tighten_to(s, v, low, high);
}

/* Whether a sum is worth tightening: a bent function of it is loose, or another function could be closer. */
INLINE int is_loose(const Tape *t, const Space *s, int64_t v) {
    int loose = 0;
    if (t->wanted[v] == 1) {
        EACH(l) loose |= s->low[v][l] < 0 && s->high[v][l] > 0;
    } else if (t->wanted[v] == 2) {
        EACH(l) loose |= s->high[v][l] - s->low[v][l] > 1e-9 * (fabs(s->low[v][l]) + fabs(s->high[v][l]));
    }
    return loose;
}

/* Intervals and lines of all values. */
static void forwards(const Tape *t, Space *s) {
    entering(t, s);
    for (int64_t v = 0; v < t->inputs; v++) s->total += s->size[v];
    for (int64_t b = 1; b < t->blocks; b++)
        for (int64_t v = t->starts[b]; v < t->starts[b + 1]; v++) {
            if (t->kinds[b] == SUM) {
                sum_of(t, s, v);
                if (is_loose(t, s, v)) tighten_by_rows(t, s, v, b);
                grow(s, v);
            } else {
                function_of(t, s, v, t->kinds[b]);
            }
            s->total += s->size[v];
        }
}

/* A row of the property, or with `of` a mixture of a disjunct's, made ready to be carried back. */
INLINE void start_rows(const Tape *t, Space *s, const int64_t *rows, int64_t count, const Eight *of, Eight *constant,
                       Eight *mass) {
    *constant = *mass = (Eight){0};
    for (int64_t i = 0; i < count; i++) {
        const int64_t k = rows[i];
        Eight share = (Eight){0} + 1.0;
        if (of) share = of[i];
        const Eight offset = share * of_rows(s->offsets, k);
        *constant -= offset;
        *mass += absolute_of(offset);
        for (int64_t o = 0; o < t->outputs; o++) {
            const Eight weight = share * of_rows(s->rows, k * t->outputs + o);
            if (!any(weight)) continue;
            const int64_t v = t->output[o], b = t->output_block[o];
            s->coefficient[0][v] += weight;
            *mass += absolute_of(weight) * s->size[v];
            if (v < s->from[b]) s->from[b] = v;
            if (v > s->to[b]) s->to[b] = v;
        }
    }
}

/* Bounds of rows and of their mixture, less their offsets; the plane that each comes from is kept as number `at`. */
static Eight bound_rows_of(const Tape *t, Space *s, const int64_t *rows, int64_t count, const Eight *of, int64_t at,
                           int keep) {
    Eight constant, mass, *plane = s->planes + at * (t->inputs + 2);
    for (int64_t j = 0; j < t->inputs; j++) plane[j] = (Eight){0};
    if (keep)
        for (int64_t j = 0; j < t->inputs; j++) s->loss[j] = (Eight){0};
    start_rows(t, s, rows, count, of, &constant, &mass);
    if (keep)
        carry_back(t, s, t->blocks - 1, 1, &constant, &mass, 1, plane);
    else
        carry_back(t, s, t->blocks - 1, 1, &constant, &mass, 0, plane);
    if (s->bowed[0]) {
        linearise(s, t->inputs, 0, &constant, &mass, plane);
    } else {
        for (int64_t j = 0; j < t->inputs; j++) EACH(l) s->bottom[j][l] = plane[j][l] > 0 ? -1.0 : 1.0;
    }
    plane[t->inputs] = constant;
    plane[t->inputs + 1] = mass;
    return least_on(t, s, constant, mass, plane);
}

/* The values of functions' lines and of sums where the latest bound is attained. */
static void attain(const Tape *t, Space *s) {
    for (int64_t j = 0; j < t->inputs; j++) s->value[j] = s->centre[j] + s->bottom[j] * s->reach[j];
    for (int64_t b = 1; b < t->blocks; b++)
        for (int64_t v = t->starts[b]; v < t->starts[b + 1]; v++) {
            const int64_t first = t->entries[v], last = t->entries[v + 1];
            Eight y = {0};
            if (t->kinds[b] == SUM) {
                y = of_each(s, s->constants, v);
                for (int64_t k = first; k < last; k++) y += t->weights[k] * s->value[t->columns[k]];
            } else {
                const EightLines *f = s->lines + v;
                Eight low = f->low, high = f->high;
                for (int64_t k = first; k < last; k++) {
                    low += f->below[k - first] * s->value[t->columns[k]];
                    high += f->above[k - first] * s->value[t->columns[k]];
                }
                EACH(l) y[l] = s->met[v][l] < 0 ? high[l] : low[l];
            }
            s->value[v] = y;
        }
}

/* One step of every choice towards a better bound: its derivative is the coefficient times what another line gives
   more where the bound is attained. */
static void choose_anew(const Tape *t, Space *s, double step) {
    for (int64_t b = 1; b < t->blocks; b++) {
        const int64_t kind = t->kinds[b];
        if (kind != BENT && kind != PRODUCT) continue;
        for (int64_t v = t->starts[b]; v < t->starts[b + 1]; v++) {
            const int64_t first = t->entries[v], x = t->columns[first], y = t->columns[t->entries[v + 1] - 1];
            EightLines *f = s->lines + v;
            if (kind == BENT) {
                const double bend = t->bends[v], move = step * (1 - bend);
                EACH(l) {
                    if (!(s->met[v][l] > 0 && s->low[x][l] < 0 && s->high[x][l] > 0)) continue;
                    const double to = f->below[0][l] + (s->value[x][l] > 0 ? move : -move);
                    f->below[0][l] = to < bend ? bend : to > 1 ? 1.0 : to;
                }
                continue;
            }
            Eight *low = s->choice + 2 * v, *high = low + 1;
            EACH(l) {
                const double a = s->low[x][l], c = s->high[x][l], d = s->low[y][l], e = s->high[y][l];
                const double p = s->value[x][l], q = s->value[y][l];
                if (s->met[v][l] > 0) {
                    const double more = (e * p + c * q - c * e) - (d * p + a * q - a * d);
                    const double to = (*low)[l] + (more > 0 ? step : -step);
                    (*low)[l] = to < 0 ? 0.0 : to > 1 ? 1.0 : to;
                } else {
                    const double more = (d * p + c * q - c * d) - (e * p + a * q - a * e);
                    const double to = (*high)[l] + (more < 0 ? step : -step);
                    (*high)[l] = to < 0 ? 0.0 : to > 1 ? 1.0 : to;
                }
            }
            choose_lines(t, s, v, kind);
        }
    }
}

/* The choices from which each disjunct starts. */
static void forget_choices(const Tape *t, Space *s) {
    for (int64_t b = 1; b < t->blocks; b++) {
        const int64_t kind = t->kinds[b];
        if (kind != BENT && kind != PRODUCT) continue;
        for (int64_t v = t->starts[b]; v < t->starts[b + 1]; v++) {
            s->choice[2 * v] = s->choice[2 * v + 1] = (Eight){0} + 0.5;
            choose_lines(t, s, v, kind);
        }
    }
}

/* More weight for rows with larger values where the bound is attained. */
static void shift_shares(const Tape *t, Space *s, const int64_t *rows, int64_t count, double rate) {
    Eight *values = s->bound + t->rows + 1, largest = {0}, sum = {0};
    for (int64_t i = 0; i < count; i++) {
        values[i] = -of_rows(s->offsets, rows[i]);
        for (int64_t o = 0; o < t->outputs; o++)
            values[i] += of_rows(s->rows, rows[i] * t->outputs + o) * s->value[t->output[o]];
        largest = greater(absolute_of(values[i]), largest);
    }
    for (int64_t i = 0; i < count; i++) {
        EACH(l) s->share[i][l] *= largest[l] > 0 ? exp(rate * values[i][l] / largest[l]) : 1.0;
        sum += s->share[i];
    }
    for (int64_t i = 0; i < count; i++) s->share[i] /= sum;
}

/* Shrink the box `low <= e <= high` of one of the eight to where no plane is positive; false if nothing is left. */
static int clip_to(const Tape *t, const Space *s, int l, int64_t number, double *low, double *high) {
    const Eight *plane = s->planes + number * (t->inputs + 2);
    const double error = s->error * plane[t->inputs + 1][l] + TINY + 1e-310 * (1.0 + s->total[l]);
    double lowest = plane[t->inputs][l];
    if (!(error < LARGEST)) return 1;
    for (int64_t j = 0; j < t->inputs; j++) lowest += least_of(plane[j][l] * low[j], plane[j][l] * high[j]);
    if (lowest > 2.0 * error) return 0;
    for (int64_t j = 0; j < t->inputs; j++) {
        const double slope = plane[j][l], rest = lowest - least_of(slope * low[j], slope * high[j]);
        const double end = slope != 0.0 ? (3.0 * error - rest) / slope : 0.0;
        if (slope > 0.0 && end + 1e-9 < high[j]) high[j] = end + 1e-9;
        if (slope < 0.0 && end - 1e-9 > low[j]) low[j] = end - 1e-9;
        if (low[j] > high[j]) return 0;
        lowest = rest + least_of(slope * low[j], slope * high[j]);
    }
    return 1;
}

/* What the search is told of one box. */
typedef struct {
    double low[64], high[64], corner[64], gain[64], bound;
    int64_t open, worst;
} Left;

/* A disjunct that no row puts out of reach: better lines and a mixture of its rows; then what planes leave of boxes. */
static void settle_disjunct(const Tape *t, Space *s, int64_t number, const int *open, Left *left) {
    const int64_t *rows = t->members + t->first_members[number];
    const int64_t count = t->first_members[number + 1] - t->first_members[number], mixed = t->rows, inputs = t->inputs;
    const int steps = count == 1 ? STEPS_ROW : STEPS_ROWS;
    Eight nearest = (Eight){0} - INFINITY, best = nearest;
    for (int64_t i = 0; i < count; i++) nearest = greater(s->bound[rows[i]], nearest);
    for (int64_t i = 0; i < count; i++)
        EACH(l) s->share[i][l] = 0.5 / (double)count + (s->bound[rows[i]][l] == nearest[l] ? 0.5 : 0.0);
    forget_choices(t, s);
    double step = 0.5;
    Eight *plane = s->planes + mixed * (inputs + 2), *kept = plane + inputs + 2;
    for (int64_t j = 0; j < inputs + 2; j++) kept[j] = (Eight){0};
    kept[inputs] = (Eight){0} - INFINITY;
    for (int n = 0; n <= steps && count; n++) {
        const Eight bound = bound_rows_of(t, s, rows, count, s->share, mixed, 1);
        int still = 0;
        EACH(l) {
            if (bound[l] > best[l] || n == 0) {
                best[l] = bound[l] > best[l] ? bound[l] : best[l];
                for (int64_t j = 0; j < inputs + 2; j++) kept[j][l] = plane[j][l];
                for (int64_t j = 0; j < inputs; j++) {
                    s->best_loss[j][l] = s->loss[j][l];
                    s->corner[j][l] = s->bottom[j][l];
                }
            }
            still |= open[l] && !(best[l] > 0);
        }
        if (!still || n == steps) break;
        attain(t, s);
        if (count > 1) shift_shares(t, s, rows, count, 3.0 * step);
        choose_anew(t, s, step);
        step *= count == 1 ? 0.6 : 0.8;
    }
    EACH(l) {
        if (!open[l] || best[l] > 0) continue;
        double low[64], high[64];
        int some = 1;
        for (int64_t j = 0; j < inputs; j++) {
            low[j] = -1.0;
            high[j] = 1.0;
        }
        for (int pass = 0; pass < 2 && some; pass++) {
            for (int64_t i = 0; i < count && some; i++) some = clip_to(t, s, l, rows[i], low, high);
            some = some && (!count || clip_to(t, s, l, mixed + 1, low, high));
        }
        if (!some) continue;
        Left *one = left + l;
        const double bound = most_of(best[l], nearest[l]);
        const int first = !one->open;
        one->open |= (int64_t)1 << number;
        for (int64_t j = 0; j < inputs; j++) {
            one->low[j] = first ? low[j] : least_of(low[j], one->low[j]);
            one->high[j] = first ? high[j] : most_of(high[j], one->high[j]);
        }
        if (!first && !(bound < one->bound)) continue;
        one->bound = bound;
        one->worst = number;
        double moved = 0.0, lost = 0.0;
        for (int64_t j = 0; j < inputs; j++) {
            moved += fabs(kept[j][l]);
            lost += s->best_loss[j][l];
        }
        for (int64_t j = 0; j < inputs; j++) {
            one->gain[j] = moved > 0 ? fabs(kept[j][l]) / moved : 0.0;
            one->gain[j] += lost > 0 && lost < LARGEST ? LOSS * s->best_loss[j][l] / lost : 0.0;
            one->corner[j] = s->centre[j][l] + s->corner[j][l] * s->reach[j][l];
        }
    }
}

/* Up to eight boxes, from the first on: their open disjuncts, what is left of them, and how to go on. */
static void bound_eight(const Tape *t, const Cells *c, int64_t first, int64_t count, Space *s) {
    const int64_t inputs = t->inputs;
    int64_t box[ABREAST], open = 0;
    s->alike = 1;
    EACH(l) {
        const int64_t b = box[l] = first + (l < count ? l : count - 1), owner = c->owner[b];
        s->constants[l] = t->constants + owner * t->stride;
        s->slacks[l] = t->slacks + owner * t->stride;
        s->rows[l] = t->row_weights + owner * t->rows * t->outputs;
        s->offsets[l] = t->offsets + owner * t->rows;
        s->alike &= s->constants[l] == s->constants[0];
        open |= c->open[b];
        for (int64_t j = 0; j < inputs; j++) {
            const double low = c->low[b * inputs + j], high = c->high[b * inputs + j];
            const double middle = low + (0.5 * high - 0.5 * low), above = high - middle, below = middle - low;
            s->centre[j][l] = middle;
            s->reach[j][l] = (above > below ? above : below) * (1.0 + 1e-15);
            s->low[j][l] = low;
            s->high[j][l] = high;
        }
    }
    s->total = (Eight){0};
    forwards(t, s);
    Left left[ABREAST];
    EACH(l) left[l].open = 0;
    int64_t unstable[ABREAST] = {0};
    for (int64_t b = 1; b < t->blocks; b++)
        for (int64_t v = t->starts[b]; v < t->starts[b + 1]; v++)
            if (t->kinds[b] == BENT)
                EACH(l) unstable[l] += s->low[t->columns[t->entries[v]]][l] < 0 && s->high[t->columns[t->entries[v]]][l] > 0;
    for (int64_t k = 0; k < t->rows; k++) s->bound[k] = (Eight){0} - INFINITY;
    for (int64_t d = 0; d < t->disjuncts; d++) {
        if (!(open >> d & 1)) continue;
        for (int64_t i = t->first_members[d]; i < t->first_members[d + 1]; i++) {
            const int64_t k = t->members[i];
            if (s->bound[k][0] == -INFINITY) s->bound[k] = bound_rows_of(t, s, &k, 1, 0, k, 0);
        }
    }
    for (int64_t d = 0; d < t->disjuncts; d++) {
        int still[ABREAST], some = 0;
        EACH(l) {
            still[l] = (int)(c->open[box[l]] >> d & 1);
            for (int64_t i = t->first_members[d]; i < t->first_members[d + 1]; i++)
                if (s->bound[t->members[i]][l] > 0) still[l] = 0;
            some |= still[l];
        }
        if (some) settle_disjunct(t, s, d, still, left);
    }
    for (int l = 0; l < count; l++) {
        const int64_t b = box[l];
        const Left *one = left + l;
        c->open[b] = one->open;
        c->unstable[b] = unstable[l];
        c->splits[b] = 0;
        if (!one->open) continue;
        c->bounds[b] = one->bound;
        c->worst[b] = one->worst;
        double most = -1.0;
        for (int64_t j = 0; j < inputs; j++) {
            const double centre = s->centre[j][l], reach = s->reach[j][l], guard = 1e-15 * (fabs(centre) + reach);
            const double low = centre + one->low[j] * reach - guard, high = centre + one->high[j] * reach + guard;
            const double promise = one->gain[j] * (one->high[j] - one->low[j]);
            double *low_x = c->low + b * inputs + j, *high_x = c->high + b * inputs + j;
            c->points[b * inputs + j] = one->corner[j] < *low_x ? *low_x : one->corner[j] > *high_x ? *high_x : one->corner[j];
            if (low > *low_x) *low_x = low;
            if (high < *high_x) *high_x = high;
            if (promise > most) {
                most = promise;
                c->splits[b] = j;
            }
        }
    }
}

static void bound_cells(const Tape *t, const Cells *c, int64_t first, int64_t last, double *memory) {
    Space s = space_in(t, memory);
    for (int64_t b = first; b < last; b += ABREAST) bound_eight(t, c, b, last - b < ABREAST ? last - b : ABREAST, &s);
}

#else
static void bound_cells(const Tape *t, const Cells *c, int64_t first, int64_t last, double *memory) {}
#endif

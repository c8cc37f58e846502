/* Bounds of one box, in time that grows with its unstable ReLUs.

   On a box with centroid c and radius r every value of the network is written as an affine function

       row = [constant, e_1 .. e_d, s_1 .. s_U],    x = c + r * e with |e| <= 1,  s_j = the output of unstable ReLU j,

   so stable neurons cost nothing: inactive ones are left out, active ones are composed with the next layer. A bound of
   a row eliminates s_U, ..., s_1 in turn by one line of each ReLU (the slope of the lower one is the ICF's, 0 or 1, at
   first). That is backward linear propagation; only the bookkeeping differs.

   Every value that decides something is moved by the disjunct's error, a bound on the rounding of everything before it
   (engine/problem.py). Comparisons are written so that a NaN proves nothing and changes no bound. */

#include "sums.h"

/* Working memory of one thread. `width` is the length of a row: constant, inputs, ReLUs. */
typedef struct {
    int64_t inputs, width, widest, relus;
    double *columns;      /* the layer before and the one at hand, one value per neuron in each column */
    double *rows;         /* rows of the layer at hand */
    double *unstable;     /* rows of the unstable ReLUs, all layers */
    double *spread;       /* per neuron: how far each input moves it */
    double *reach;        /* the same per unstable ReLU */
    double *planes;       /* per property row, and their combination last: constant and slopes of its best bound */
    double *blame;        /* what each unstable ReLU gives away in each plane */
    double *lower;        /* per unstable ReLU: its interval, */
    double *upper;
    double *slope;        /* the slope of its upper line, */
    double *line;         /* and of its lower line */
    double *chosen;       /* the lower slopes under optimisation */
    double *coefficients; /* what each unstable ReLU's coefficient was when it was eliminated */
    double *solution;     /* the value of each unstable ReLU at the minimum of a bound */
    double *work;         /* the row under elimination, */
    double *other;        /* and its negative */
    double *mixture;      /* the weights of the rows in their combination */
    double *values;       /* the rows' values at the minimum of the combination */
    double *centroid;     /* of the box */
    double *radius;
    double *low;          /* what is left of the box after cuts, in units of the radius */
    double *high;
    double *gain;         /* per input: what halving it promises, */
    double *loss;         /* and its share in what the lines give away */
    double *middle;       /* of what is left of the box */
    double *apart_low;    /* per unstable ReLU with a twin: between which values its input less its twin's lies */
    double *apart_high;
    double *leant;        /* per unstable ReLU: 1 if it was replaced by its twin and a line of their difference, */
    double *entering;     /* its input at the minimum of a bound, */
    double *extra;        /* what is still to be added of each row: its share in the difference of a twin from it, */
    double *extra_other;  /* and the same for the negative */
    int64_t *place;       /* per neuron: its number among the unstable ReLUs, */
    int64_t *twin;        /* and per unstable ReLU that of its twin, or -1 */
    int64_t *known;       /* how many unstable ReLUs lie in the layers before each of them */
    int64_t *active;      /* the active neurons of the layer before */
} Memory;

static double *take(double **space, int64_t count) {
    double *found = *space;
    *space += count;
    return found;
}

static Memory memory_in(const Net *net, double *space) {
    Memory m;
    m.inputs = net->inputs;
    m.width = 1 + net->inputs + net->relus;
    m.widest = net->widest;
    m.relus = net->relus;
    const int64_t relus = net->relus, inputs = net->inputs, planes = net->rows + 1;
    m.columns = take(&space, 2 * m.width * m.widest);
    m.rows = take(&space, m.widest * m.width);
    m.unstable = take(&space, relus * m.width);
    m.spread = take(&space, m.widest * inputs);
    m.reach = take(&space, relus * inputs);
    m.planes = take(&space, planes * (1 + inputs));
    m.blame = take(&space, planes * relus);
    double **per_relu[] = {&m.lower,    &m.upper,     &m.slope,      &m.line,  &m.chosen,      &m.coefficients,
                           &m.solution, &m.apart_low, &m.apart_high, &m.extra, &m.extra_other,
                           &m.leant,    &m.entering};
    for (int i = 0; i < 13; i++) *per_relu[i] = take(&space, relus);
    for (int64_t j = 0; j < relus; j++) m.extra[j] = m.extra_other[j] = 0.0;
    m.place = (int64_t *)take(&space, relus);
    m.twin = (int64_t *)take(&space, relus);
    m.work = take(&space, m.width);
    m.other = take(&space, m.width);
    m.mixture = take(&space, planes);
    m.values = take(&space, planes);
    double **per_input[] = {&m.centroid, &m.radius, &m.low, &m.high, &m.gain, &m.loss, &m.middle};
    for (int i = 0; i < 7; i++) *per_input[i] = take(&space, inputs);
    m.known = (int64_t *)take(&space, relus);
    m.active = (int64_t *)take(&space, m.widest);
    return m;
}

static const double *weights_of(const Net *net, int64_t owner, int64_t k) {
    if (k + 1 == net->layers) return net->last_weights + net->last_of[owner] * net->sizes[k] * net->rows;
    return k == 0 ? net->first_weight : net->weight + net->weights[k];
}

static const double *biases_of(const Net *net, int64_t owner, int64_t k) {
    if (k + 1 == net->layers) return net->last_biases + owner * net->rows;
    return k == 0 ? net->first_biases + net->first_of[owner] * net->sizes[1] : net->bias + net->biases[k];
}

static inline double smaller(double a, double b) { return a < b ? a : b; }
static inline double larger(double a, double b) { return a > b ? a : b; }

/* How far the line that a coefficient asks for can be from its ReLU. */
static inline double gap(const Memory *m, int64_t j, double coefficient) {
    return coefficient > 0.0 ? coefficient * smaller(m->upper[j], -m->lower[j])
                             : coefficient * m->slope[j] * m->lower[j];
}

/* The same for the line of its difference from its twin. */
static inline double gap_apart(const Memory *m, int64_t j, double coefficient) {
    return fabs(coefficient) * larger(m->apart_high[j], -m->apart_low[j]);
}

/* Whether ReLU j is replaced by its twin and a line of their difference, rather than by a line of its own: where that
   gives less away, counting what becomes of the twin's coefficient. A NaN says no. */
static inline int leans(const Memory *m, int64_t j, double coefficient, const double *work) {
    const int64_t t = m->twin[j];
    if (t < 0 || coefficient == 0.0) return 0;
    const double own = work[1 + m->inputs + t];
    return gap_apart(m, j, coefficient) + gap(m, t, own + coefficient) < gap(m, j, coefficient) + gap(m, t, own);
}

/* relu(g) - relu(f) lies between min(d, 0) and max(d, 0) for d = g - f; the slope of the chord of one of them, and what
   is added to d. */
typedef struct {
    double slope, shift;
} Chord;

static inline Chord chord(const Memory *m, int64_t j, double coefficient) {
    const double low = m->apart_low[j], high = m->apart_high[j];
    Chord found = {0.0, 0.0};
    if (coefficient > 0.0) {
        if (low >= 0.0) return found;
        found.slope = high <= 0.0 ? 1.0 : -low / (high - low);
        found.shift = high <= 0.0 ? 0.0 : -high;
    } else {
        if (high <= 0.0) return found;
        found.slope = low >= 0.0 ? 1.0 : high / (high - low);
        found.shift = low >= 0.0 ? 0.0 : -low;
    }
    return found;
}

/* What the row of ReLU j is multiplied with: its coefficient times the slope of its lower or its upper line. With a
   twin to lean on, the twin gets the coefficient, and the rows of both a share in their difference. */
static inline double factor_of(const Memory *m, int64_t j, double coefficient, const double *line, double *work,
                               double *extra) {
    const double more = extra[j];
    extra[j] = 0.0;
    if (leans(m, j, coefficient, work)) {
        const Chord of = chord(m, j, coefficient);
        const double factor = coefficient * of.slope;
        work[1 + m->inputs + m->twin[j]] += coefficient;
        work[0] += factor * of.shift;
        extra[m->twin[j]] -= factor;
        return factor + more;
    }
    if (coefficient > 0.0) return coefficient * line[j] + more;
    const double factor = coefficient * m->slope[j];
    work[0] -= factor * m->lower[j];
    return factor + more;
}

static inline double least(const double *work, int64_t inputs) {
    double bound = work[0];
    for (int64_t column = 1; column <= inputs; column++) bound -= fabs(work[column]);
    return bound;
}

static inline double most(const double *work, int64_t inputs) {
    double bound = work[0];
    for (int64_t column = 1; column <= inputs; column++) bound += fabs(work[column]);
    return bound;
}

/* ReLUs of one layer do not depend on each other, so four of them can be eliminated at once. */
static inline int64_t together(const Memory *m, int64_t j) {
    return j >= 3 && m->known[j - 3] == m->known[j] ? 4 : 1;
}

/* The lower bound of the row in `work`, whose unstable ReLUs are replaced by their lines, the last one first. */
static double eliminate(const Memory *m, int64_t count, const double *line) {
    double *work = m->work;
    for (int64_t j = count - 1, step; j >= 0; j -= step) {
        double factor[4];
        step = together(m, j);
        for (int64_t i = 0; i < step; i++) {
            const double coefficient = work[1 + m->inputs + j - i];
            m->coefficients[j - i] = coefficient;
            m->leant[j - i] = leans(m, j - i, coefficient, work);
            factor[i] = factor_of(m, j - i, coefficient, line, work, m->extra);
        }
        const double *row = m->unstable + j * m->width;
        const int64_t length = 1 + m->inputs + m->known[j], width = m->width;
        if (step == 4)
            add_rows(work, factor, row, row - width, row - 2 * width, row - 3 * width, length);
        else if (factor[0] != 0.0)
            add_row(work, factor[0], row, length);
    }
    return least(work, m->inputs);
}

static inline void add_rows_twice(double *RESTRICT to, double *RESTRICT other, const double *f, const double *g,
                                  const double *RESTRICT p, const double *RESTRICT q, const double *RESTRICT r,
                                  const double *RESTRICT s, int64_t count) {
    const double a = f[0], b = f[1], c = f[2], d = f[3], e = g[0], h = g[1], k = g[2], l = g[3];
    for (int64_t i = 0; i < count; i++) {
        to[i] += (a * p[i] + b * q[i]) + (c * r[i] + d * s[i]);
        other[i] += (e * p[i] + h * q[i]) + (k * r[i] + l * s[i]);
    }
}

/* `eliminate` for a row and its negative, in `work` and `other`, with the lines that the ReLUs have. */
static void eliminate_both(const Memory *m, int64_t count) {
    double *work = m->work, *other = m->other;
    for (int64_t j = count - 1, step; j >= 0; j -= step) {
        double f[4], g[4];
        step = together(m, j);
        for (int64_t i = 0; i < step; i++) {
            f[i] = factor_of(m, j - i, work[1 + m->inputs + j - i], m->line, work, m->extra);
            g[i] = factor_of(m, j - i, other[1 + m->inputs + j - i], m->line, other, m->extra_other);
        }
        const double *row = m->unstable + j * m->width;
        const int64_t length = 1 + m->inputs + m->known[j], width = m->width;
        if (step == 4) {
            add_rows_twice(work, other, f, g, row, row - width, row - 2 * width, row - 3 * width, length);
        } else {
            if (f[0] != 0.0) add_row(work, f[0], row, length);
            if (g[0] != 0.0) add_row(other, g[0], row, length);
        }
    }
}

/* The part of a row without ReLUs, at the corner of the box where `plane` is least. */
static inline double at_corner(const double *row, const double *plane, int64_t inputs) {
    double value = row[0];
    for (int64_t column = 1; column <= inputs; column++) value += plane[column] < 0.0 ? row[column] : -row[column];
    return value;
}

/* Where the bound in `work` is attained, and each chosen slope one step towards a better bound.

   The derivative of the bound by the slope of ReLU j is its coefficient, if positive, times its input there. */
static void descend(const Memory *m, int64_t count, double step) {
    for (int64_t j = 0; j < count; j++) {
        const double *row = m->unstable + j * m->width;
        const double y = at_corner(row, m->work, m->inputs) + dot(row + 1 + m->inputs, m->solution, m->known[j]);
        m->entering[j] = y;
        if (m->leant[j] != 0.0) {
            const Chord of = chord(m, j, m->coefficients[j]);
            const int64_t t = m->twin[j];
            m->solution[j] = m->solution[t] + of.slope * (y - m->entering[t] + of.shift);
        } else if (m->coefficients[j] > 0.0) {
            m->solution[j] = m->chosen[j] * y;
            if (y > 0.0)
                m->chosen[j] = m->chosen[j] + step < 1.0 ? m->chosen[j] + step : 1.0;
            else
                m->chosen[j] = m->chosen[j] - step > 0.0 ? m->chosen[j] - step : 0.0;
        } else {
            m->solution[j] = m->slope[j] * (y - m->lower[j]);
        }
    }
}

/* The rows of the first layer, on the box. */
static void first_rows(const Memory *m, const double *bias, const double *weight, int64_t here) {
    double *columns = m->columns + m->width * m->widest;
    for (int64_t i = 0; i < here; i++) {
        double *row = m->rows + i * m->width;
        row[0] = bias[i];
        for (int64_t j = 0; j < m->inputs; j++) {
            row[0] += weight[j * here + i] * m->centroid[j];
            row[1 + j] = weight[j * here + i] * m->radius[j];
        }
        for (int64_t c = 0; c <= m->inputs; c++) columns[c * m->widest + i] = row[c];
    }
}

/* Add to a column of a layer what its active inputs bring along: their values in it times their weights. */
static void compose(const double *values, const int64_t *active, int64_t count, const double *weight, double *column,
                    int64_t here) {
    int64_t p = 0;
    for (; p + 4 <= count; p += 4) {
        const int64_t *at = active + p;
        const double factor[4] = {values[at[0]], values[at[1]], values[at[2]], values[at[3]]};
        add_rows(column, factor, weight + at[0] * here, weight + at[1] * here, weight + at[2] * here,
                 weight + at[3] * here, here);
    }
    for (; p < count; p++) add_row(column, values[active[p]], weight + active[p] * here, here);
}

/* The rows of layer k.

   Neurons from `first` on are those of the layer before; `settled` unstable ReLUs lie before that layer. Active neurons
   are composed column by column, because a layer is wider than a row is long. */
static void affine_rows(const Net *net, int64_t owner, const Memory *m, int64_t k, const double *lower,
                        const double *upper, int64_t first, int64_t settled) {
    const int64_t before = net->sizes[k], here = net->sizes[k + 1], widest = m->widest;
    const double *bias = biases_of(net, owner, k), *weight = weights_of(net, owner, k);
    if (k == 0) {
        first_rows(m, bias, weight, here);
        return;
    }
    int64_t active = 0, at = 1 + m->inputs + settled;
    for (int64_t a = 0; a < before; a++)
        if (lower[first + a] >= 0.0 && upper[first + a] > 0.0) m->active[active++] = a;
    const double *from = m->columns + (k % 2) * m->width * widest;
    double *to = m->columns + ((k + 1) % 2) * m->width * widest;
    for (int64_t c = 0; c < at; c++) {
        double *column = to + c * widest;
        for (int64_t i = 0; i < here; i++) column[i] = c == 0 ? bias[i] : 0.0;
        compose(from + c * widest, m->active, active, weight, column, here);
    }
    for (int64_t a = 0; a < before; a++)
        if (upper[first + a] > 0.0 && lower[first + a] < 0.0) copy(weight + a * here, to + at++ * widest, here);
    for (int64_t i = 0; i < here; i++)
        for (int64_t c = 0; c < at; c++) m->rows[i * m->width + c] = to[c * widest + i];
}

typedef struct {
    double low, high;
} Interval;

/* The intersection of two intervals; what is not a number changes nothing. */
static inline Interval tighter(double low, double high, double new_low, double new_high) {
    const Interval found = {new_low > low ? new_low : low, new_high < high ? new_high : high};
    return found;
}

/* Bounds of row i, by intervals and, if those leave it unstable, by elimination; the tighter of old and new. */
static Interval tighten(const Memory *m, int64_t i, int64_t count, double error, double lower, double upper) {
    const double *row = m->rows + i * m->width;
    double *spread = m->spread + i * m->inputs, low = row[0], high = row[0];
    for (int64_t j = 0; j < m->inputs; j++) {
        spread[j] = fabs(row[1 + j]);
        low -= spread[j];
        high += spread[j];
    }
    for (int64_t j = 0; j < count; j++) {
        const double term = row[1 + m->inputs + j] * m->upper[j];
        if (row[1 + m->inputs + j] > 0.0)
            high += term;
        else
            low += term;
    }
    Interval found = tighter(lower, upper, low - error, high + error);
    if (count && found.low < 0.0 && found.high > 0.0) {
        for (int64_t column = 0; column < 1 + m->inputs + count; column++) {
            m->work[column] = row[column];
            m->other[column] = -row[column];
        }
        eliminate_both(m, count);
        for (int64_t j = 0; j < m->inputs; j++) spread[j] = fabs(m->work[1 + j]) + fabs(m->other[1 + j]);
        found = tighter(found.low, found.high, least(m->work, m->inputs) - error, error - least(m->other, m->inputs));
    }
    return found;
}

/* Between which values row i less the row of unstable ReLU t lies: no ReLU of their layer occurs in either. */
static Interval apart(const Memory *m, int64_t i, int64_t t, int64_t count, double error) {
    const double *row = m->rows + i * m->width, *twin = m->unstable + t * m->width;
    for (int64_t column = 0; column < 1 + m->inputs + count; column++) {
        m->work[column] = row[column] - twin[column];
        m->other[column] = -m->work[column];
    }
    eliminate_both(m, count);
    const Interval found = {least(m->work, m->inputs) - error, error - least(m->other, m->inputs)};
    return found;
}

/* Row i as unstable ReLU number `count`, with its two lines; the lower one has slope 1 if it is mostly active. */
static void enlist(const Memory *m, int64_t i, int64_t settled, int64_t count, double low, double high) {
    copy(m->rows + i * m->width, m->unstable + count * m->width, 1 + m->inputs + settled);
    copy(m->spread + i * m->inputs, m->reach + count * m->inputs, m->inputs);
    m->known[count] = settled;
    m->lower[count] = low;
    m->upper[count] = high;
    m->slope[count] = high / (high - low);
    m->line[count] = high > -low ? 1.0 : 0.0;
    m->twin[count] = -1;
}

/* `tighten` for a row whose twin is unstable: first from the twin's bounds and their difference, which is kept. */
static Interval tighten_twin(const Memory *m, int64_t i, int64_t t, int64_t count, double error, double lower,
                             double upper, Interval *difference) {
    const double low = m->lower[t], high = m->upper[t];
    const Interval d = apart(m, i, t, count, 3.0 * error);
    difference->low = larger(d.low, lower - high - error);
    difference->high = smaller(d.high, upper - low + error);
    const Interval found = tighter(lower, upper, low + d.low - error, high + d.high + error);
    copy(m->reach + t * m->inputs, m->spread + i * m->inputs, m->inputs);
    if (found.low >= 0.0 || found.high <= 0.0) return found;
    return tighten(m, i, count, error, found.low, found.high);
}

/* Tighten the bounds of all neurons, layer by layer; the property's rows are left in `rows`. */
static int64_t hidden_layers(const Net *net, int64_t owner, const Memory *m, double *lower, double *upper) {
    const double *errors = net->errors + owner * net->layers;
    const int executed = net->shares[0] != 0.0; /* then it matters how far a stable neuron is from 0 */
    int64_t first = 0, settled = 0, count = 0;
    for (int64_t k = 0; k < net->layers; k++) {
        affine_rows(net, owner, m, k, lower, upper, first, settled);
        if (k == net->layers - 1) break;
        first += k > 0 ? net->sizes[k] : 0;
        settled = count;
        for (int64_t i = 0, n = first; i < net->sizes[k + 1]; i++, n++) {
            const int64_t t = net->twins[n] < 0 ? -1 : m->place[net->twins[n]];
            Interval difference = {0.0, 0.0};
            m->place[n] = -1;
            const int open = upper[n] > 0.0 && lower[n] < 0.0;
            if (open || executed) {
                const Interval found =
                    t < 0 || !open ? tighten(m, i, settled, errors[k], lower[n], upper[n])
                          : tighten_twin(m, i, t, settled, errors[k], lower[n], upper[n], &difference);
                lower[n] = found.low;
                upper[n] = found.high;
            }
            if (!(upper[n] > 0.0 && lower[n] < 0.0)) continue;
            enlist(m, i, settled, count, lower[n], upper[n]);
            m->twin[count] = t;
            m->apart_low[count] = difference.low;
            m->apart_high[count] = difference.high;
            m->place[n] = count++;
        }
    }
    return count;
}

static void keep_plane(const Memory *m, int64_t number, int64_t count) {
    copy(m->work, m->planes + number * (1 + m->inputs), 1 + m->inputs);
    double *blame = m->blame + number * m->relus;
    for (int64_t j = 0; j < count; j++) {
        const double coefficient = m->coefficients[j];
        blame[j] = m->leant[j] != 0.0 ? gap_apart(m, j, coefficient) : gap(m, j, coefficient);
    }
}

/* A plane that cuts nothing: what a row has until a bound of it is a number. */
static void forget_plane(const Memory *m, int64_t number) {
    double *plane = m->planes + number * (1 + m->inputs), *blame = m->blame + number * m->relus;
    plane[0] = -INFINITY;
    for (int64_t j = 1; j <= m->inputs; j++) plane[j] = 0.0;
    for (int64_t j = 0; j < m->relus; j++) blame[j] = 0.0;
}

typedef struct {
    int64_t number;
    double bound;
} Best;

/* The best lower bound of each property row and its plane, with the lower slopes optimised for it.

   Returns the row with the largest bound, and that bound; all of them are left in `values`. A bound above `enough` is
   not improved, nor one whose plane is positive nowhere: it is too far from cutting anything. */
static Best bound_rows(const Memory *m, int64_t count, int64_t rows, int64_t steps, double enough) {
    Best nearest = {0, -INFINITY};
    for (int64_t i = 0; i < rows; i++) {
        forget_plane(m, i);
        copy(m->line, m->chosen, count);
        double best = -INFINITY, step = 0.5;
        for (int64_t n = 0; n <= steps; n++) {
            copy(m->rows + i * m->width, m->work, 1 + m->inputs + count);
            const double bound = eliminate(m, count, m->chosen);
            if (bound > best) {
                best = bound;
                keep_plane(m, i, count);
            }
            if (best > enough || !(most(m->work, m->inputs) > 0.0)) break;
            if (n < steps) descend(m, count, step);
            step *= 0.6;
        }
        m->values[i] = best;
        if (best > nearest.bound) {
            nearest.number = i;
            nearest.bound = best;
        }
    }
    return nearest;
}

/* More weight for rows with larger values: multiplied by their exponentials, and summing to 1 again. */
static void shift_weights(const Memory *m, int64_t rows, double rate) {
    double largest = -INFINITY, sum = 0.0;
    for (int64_t i = 0; i < rows; i++) largest = m->values[i] > largest ? m->values[i] : largest;
    for (int64_t i = 0; i < rows; i++) {
        m->mixture[i] *= exp(rate * (m->values[i] - largest));
        sum += m->mixture[i];
    }
    for (int64_t i = 0; i < rows; i++) m->mixture[i] /= sum;
}

/* The best lower bound of a convex combination of the rows: above 0, they cannot all be at most 0.

   Slopes and weights climb together; the derivative by a row's weight is its value where the bound is attained. */
static double bound_mixture(const Memory *m, int64_t count, int64_t rows, int64_t steps) {
    const int64_t length = 1 + m->inputs + count;
    forget_plane(m, rows);
    for (int64_t i = 0; i < rows; i++) m->mixture[i] = 1.0 / (double)rows;
    copy(m->line, m->chosen, count);
    double best = -INFINITY, step = 0.5, scale = 0.0;
    for (int64_t n = 0; n <= steps; n++) {
        for (int64_t column = 0; column < length; column++) m->work[column] = 0.0;
        for (int64_t i = 0; i < rows; i++) add_row(m->work, m->mixture[i], m->rows + i * m->width, length);
        const double bound = eliminate(m, count, m->chosen);
        if (bound > best) {
            best = bound;
            keep_plane(m, rows, count);
        }
        if (n == steps) break;
        descend(m, count, step);
        for (int64_t i = 0; i < rows; i++) {
            const double *row = m->rows + i * m->width;
            m->values[i] = at_corner(row, m->work, m->inputs) + dot(row + 1 + m->inputs, m->solution, count);
        }
        if (scale == 0.0)
            for (int64_t i = 0; i < rows; i++) scale = fabs(m->values[i]) > scale ? fabs(m->values[i]) : scale;
        if (scale > 0.0) shift_weights(m, rows, 3.0 * step / scale);
        step *= 0.8;
    }
    return best;
}

/* Shrink the box `low <= e <= high` to where no plane exceeds the error: elsewhere a row is positive.

   False if nothing is left. Twice, because one plane's cut helps another. */
static int clip(const Memory *m, int64_t first, int64_t last, double error) {
    double *low = m->low, *high = m->high;
    for (int64_t pass = 0; pass < 2; pass++) {
        for (int64_t p = first; p < last; p++) {
            const double *plane = m->planes + p * (1 + m->inputs);
            double lowest = plane[0];
            for (int64_t j = 0; j < m->inputs; j++) lowest += smaller(plane[1 + j] * low[j], plane[1 + j] * high[j]);
            if (lowest > error) return 0;
            for (int64_t j = 0; j < m->inputs; j++) {
                const double slope = plane[1 + j];
                const double rest = lowest - smaller(slope * low[j], slope * high[j]);
                const double end = slope != 0.0 ? (2.0 * error - rest) / slope : 0.0;
                if (slope > 0.0 && end + 1e-9 < high[j]) high[j] = end + 1e-9;
                if (slope < 0.0 && end - 1e-9 > low[j]) low[j] = end - 1e-9;
                if (low[j] > high[j]) return 0;
                lowest = rest + smaller(slope * low[j], slope * high[j]);
            }
        }
    }
    return 1;
}

/* The same where every row is a disjunct by itself: what is left of the box is what is left for any of them. `worst` is
   the row with the smallest bound. */
static int clip_each(const Memory *m, int64_t rows, double error, Best *worst) {
    double *low = m->gain, *high = m->loss;
    int open = 0;
    worst->bound = INFINITY;
    for (int64_t i = 0; i < rows; i++) {
        if (m->values[i] > error) continue;
        for (int64_t j = 0; j < m->inputs; j++) {
            m->low[j] = -1.0;
            m->high[j] = 1.0;
        }
        if (!clip(m, i, i + 1, error)) continue;
        for (int64_t j = 0; j < m->inputs; j++) {
            low[j] = open && low[j] < m->low[j] ? low[j] : m->low[j];
            high[j] = open && high[j] > m->high[j] ? high[j] : m->high[j];
        }
        open = 1;
        if (m->values[i] < worst->bound) {
            worst->number = i;
            worst->bound = m->values[i];
        }
    }
    copy(low, m->low, m->inputs);
    copy(high, m->high, m->inputs);
    return open;
}

/* What halving each input promises, per its width: its share in what the lines of unstable ReLUs give away (ten parts),
   and in the movement of the plane (one part). */
static void promises(const Memory *m, int64_t count, int64_t number, double *gains) {
    const double *plane = m->planes + number * (1 + m->inputs), *blame = m->blame + number * m->relus;
    for (int64_t i = 0; i < m->inputs; i++) gains[i] = m->loss[i] = 0.0;
    for (int64_t j = 0; j < count; j++) {
        const double *reach = m->reach + j * m->inputs;
        double sum = 0.0;
        for (int64_t i = 0; i < m->inputs; i++) sum += reach[i];
        if (sum > 0.0)
            for (int64_t i = 0; i < m->inputs; i++) m->loss[i] += blame[j] * reach[i] / sum;
    }
    double moved = 0.0, lost = 0.0;
    for (int64_t i = 0; i < m->inputs; i++) {
        moved += fabs(plane[1 + i]);
        lost += m->loss[i];
    }
    for (int64_t i = 0; i < m->inputs; i++) {
        if (moved > 0.0) gains[i] += fabs(plane[1 + i]) / moved;
        if (lost > 0.0) gains[i] += 10.0 * m->loss[i] / lost;
        if (m->radius[i] > 0.0) gains[i] /= m->radius[i];
    }
}

/* The differences between the execution of a network and real arithmetic on a box, per neuron: what its own sum adds to
   them at most, a bound of them, and one that adds up absolute values only; and the bounds in real arithmetic. */
typedef struct {
    double *off, *apart, *loose;
    const double *lower, *upper;
} Apart;

static inline int is_inactive(const Apart *d, int64_t n) { return d->upper[n] + d->apart[n] <= 0.0; }

/* A bound of the difference of `sum of c * x` over the values x that leave hidden layer k, whose first neuron is given.

   Coefficients of differences are followed through all layers. An active ReLU passes on a difference, an inactive one
   nothing; any other one a share s: half of it, and at most half of what it can be. `c` is used up. What is rounded
   here is much less than a billionth of the `loose` differences. */
static double follow(const Net *net, int64_t owner, const Apart *d, int64_t k, int64_t first, double *c, double *spare) {
    double total = 0.0;
    for (;; k--) {
        const int64_t here = net->sizes[k + 1], before = net->sizes[k];
        for (int64_t a = 0, n = first; a < here; a++, n++) {
            if (is_inactive(d, n)) c[a] = 0.0;
            if (!(d->lower[n] >= d->apart[n])) {
                c[a] *= 0.5;
                total += fabs(c[a]) * d->apart[n];
            }
            total += fabs(c[a]) * d->off[n];
        }
        if (k == 0) return total;
        first -= before;
        const double *weight = weights_of(net, owner, k);
        for (int64_t b = 0; b < before; b++, weight += here)
            spare[b] = is_inactive(d, first + b) ? 0.0 : dot(weight, c, here);
        double *old = c;
        c = spare;
        spare = old;
    }
}

/* Fill in the differences of all neurons; false if a sum may overflow. With `tight` those of neurons that may be
   unstable are followed back one by one, instead of adding up absolute values. */
static int differences(const Net *net, int64_t owner, const Memory *m, const Apart *d, int tight) {
    double *sum = m->columns, *carried = sum + m->widest, *c = carried + m->widest, *spare = c + m->widest;
    for (int64_t i = 0; i < net->sizes[1]; i++)
        d->off[i] = d->apart[i] = d->loose[i] = net->first_offs[owner * net->sizes[1] + i];
    for (int64_t k = 1, first = 0; k + 1 < net->layers; first += net->sizes[k++]) {
        const int64_t before = net->sizes[k], here = net->sizes[k + 1];
        const double *bias = biases_of(net, owner, k), *weights = weights_of(net, owner, k), *weight = weights;
        for (int64_t i = 0; i < here; i++) {
            sum[i] = fabs(bias[i]) + net->limits[1];
            carried[i] = 0.0;
        }
        for (int64_t a = 0; a < before; a++, weight += here) {
            if (is_inactive(d, first + a)) continue;
            const double distance = d->loose[first + a], top = d->upper[first + a] + d->apart[first + a];
            for (int64_t i = 0; i < here; i++) {
                const double size = fabs(weight[i]);
                sum[i] += size * top;
                carried[i] += size * distance;
            }
        }
        for (int64_t i = 0, n = first + before; i < here; i++, n++) {
            d->off[n] = net->shares[k] * sum[i];
            d->apart[n] = d->loose[n] = d->off[n] + carried[i];
            if (!(sum[i] < net->limits[0])) return 0;
            if (!tight || is_inactive(d, n) || d->lower[n] >= d->apart[n]) continue;
            for (int64_t a = 0; a < before; a++) c[a] = weights[a * here + i];
            d->apart[n] = d->off[n] + follow(net, owner, d, k - 1, first, c, spare) + 1e-9 * d->loose[n];
        }
    }
    return 1;
}

/* How far the property's rows as executed can be from the same in real arithmetic, anywhere on the box. */
static double executed_apart(const Net *net, int64_t owner, const Memory *m, const double *lower, const double *upper,
                             int tight) {
    if (net->shares[0] == 0.0) return 0.0;
    const Apart d = {m->work, m->other, m->solution, lower, upper};
    if (!differences(net, owner, m, &d, tight)) return INFINITY;
    const int64_t last = net->layers - 1, entering = net->sizes[last], rows = net->rows, first = m->relus - entering;
    const double *sizes = net->last_sizes + net->last_of[owner] * entering * rows;
    const double *weights = weights_of(net, owner, last);
    double *c = m->columns, *spare = c + m->widest, worst = 0.0;
    for (int64_t row = 0; row < rows; row++) {
        double sum = net->last_floors[owner * rows + row], loose = 0.0;
        for (int64_t a = 0, n = first; a < entering; a++, n++) {
            c[a] = weights[a * rows + row];
            if (is_inactive(&d, n)) continue;
            sum += sizes[a * rows + row] * (upper[n] + d.apart[n]);
            loose += fabs(c[a]) * d.loose[n];
        }
        if (!(sum < net->last_limits[owner * rows + row])) return INFINITY;
        const double total = net->shares[last] * sum + follow(net, owner, &d, last - 1, first, c, spare) + 1e-9 * loose;
        if (!(total <= worst)) worst = total;
    }
    return worst * (1.0 + 1e-9);
}

/* Bound one box. What is found is left in the batch: the box shrunk to where it can be unsafe, tighter bounds of its
   neurons, the corner where its best bound is attained. */
static void bound_box(const Net *net, const Boxes *boxes, int64_t b, const Memory *m) {
    const int64_t owner = boxes->owner[b], rows = net->rows;
    const double rounding = net->errors[owner * net->layers + net->layers - 1];
    double *low_x = boxes->low + b * m->inputs, *high_x = boxes->high + b * m->inputs;
    for (int64_t j = 0; j < m->inputs; j++) {
        const double c = low_x[j] + (0.5 * high_x[j] - 0.5 * low_x[j]), above = high_x[j] - c, below = c - low_x[j];
        m->centroid[j] = c;
        m->radius[j] = (above > below ? above : below) * (1.0 + 1e-15);
        m->low[j] = -1.0;
        m->high[j] = 1.0;
    }
    double *lower = boxes->lower + b * m->relus, *upper = boxes->upper + b * m->relus;
    const int64_t count = hidden_layers(net, owner, m, lower, upper);
    double error = rounding + executed_apart(net, owner, m, lower, upper, 0);
    Best nearest = bound_rows(m, count, rows, net->steps, net->each ? error : INFINITY);
    int64_t planes = rows;
    if (!net->each && nearest.bound <= error && rows > 1) {
        const double mixed = bound_mixture(m, count, rows, 2 * net->steps + 2);
        planes++;
        if (mixed > nearest.bound) {
            nearest.number = rows;
            nearest.bound = mixed;
        }
    }
    if (nearest.bound > rounding && nearest.bound <= error)
        error = rounding + executed_apart(net, owner, m, lower, upper, 1);
    boxes->unstable[b] = count;
    if (net->each)
        boxes->states[b] = clip_each(m, rows, error, &nearest) ? OPEN : PROVED;
    else
        boxes->states[b] = nearest.bound > error || !clip(m, 0, planes, error) ? PROVED : OPEN;
    boxes->bounds[b] = nearest.bound;
    if (boxes->states[b] == PROVED) return;
    promises(m, count, nearest.number, boxes->gains + b * m->inputs);
    const double *plane = m->planes + nearest.number * (1 + m->inputs);
    for (int64_t j = 0; j < m->inputs; j++) {
        const double c = m->centroid[j], r = m->radius[j], guard = 1e-15 * (fabs(c) + r);
        const double low = c + m->low[j] * r - guard, high = c + m->high[j] * r + guard;
        boxes->points[b * m->inputs + j] = plane[1 + j] > 0.0 ? low_x[j] : high_x[j];
        if (low > low_x[j]) low_x[j] = low;
        if (high < high_x[j]) high_x[j] = high;
    }
}

/* The largest property row at an input, or the smallest if each is a disjunct by itself: at most 0 where it is unsafe.
   The columns serve as memory. */
static double worst_in(const Net *net, int64_t owner, const Memory *m, const double *x) {
    double *values = m->columns, *others = m->columns + m->width * m->widest, worst = net->each ? INFINITY : -INFINITY;
    copy(x, values, m->inputs);
    for (int64_t k = 0; k < net->layers; k++) {
        const double *weight = weights_of(net, owner, k);
        const int64_t here = net->sizes[k + 1];
        int64_t active = 0;
        for (int64_t a = 0; a < net->sizes[k]; a++)
            if (values[a] != 0.0) m->active[active++] = a;
        copy(biases_of(net, owner, k), others, here);
        compose(values, m->active, active, weight, others, here);
        for (int64_t i = 0; i < here; i++) {
            if (k == net->layers - 1 && (net->each ? others[i] < worst : others[i] > worst)) worst = others[i];
            if (others[i] < 0.0) others[i] = 0.0;
        }
        double *swapped = values;
        values = others;
        others = swapped;
    }
    return worst;
}

static double worst_row(const Net *net, int64_t owner, const double *x, double *space) {
    const Memory m = memory_in(net, space);
    return worst_in(net, owner, &m, x);
}

/* `bound_box` from the first box to before the last; the corner or the centroid, whichever is worse, is its point. */
static void bound_boxes(const Net *net, const Boxes *boxes, int64_t first, int64_t last, double *space) {
    const Memory m = memory_in(net, space);
    for (int64_t b = first; b < last; b++) {
        bound_box(net, boxes, b, &m);
        if (boxes->states[b] != OPEN) continue;
        double *point = boxes->points + b * m.inputs;
        const double *low = boxes->low + b * m.inputs, *high = boxes->high + b * m.inputs;
        boxes->slacks[b] = worst_in(net, boxes->owner[b], &m, point);
        for (int64_t j = 0; j < m.inputs; j++) m.middle[j] = low[j] + (0.5 * high[j] - 0.5 * low[j]);
        const double other = worst_in(net, boxes->owner[b], &m, m.middle);
        if (other < boxes->slacks[b]) {
            copy(m.middle, point, m.inputs);
            boxes->slacks[b] = other;
        }
    }
}

/* The ascent of some rows, from first to last step; nothing that is computed here is believed.

   Matrices have one row per bound that is improved. `used`, `phase`, `multipliers` and the like have a column for every
   neuron of all layers, those of layer k from `ends[k]` on. The order of a sum does not depend on how many rows there
   are. */

#include "sums.h"

enum { BLOCK = 32 }; /* rows that are improved together: all that belongs to them fits into the cache */
enum { INACTIVE = -1, UNDECIDED = 0, ACTIVE = 1 };

typedef struct {
    float *multipliers, *mean, *square, *used; /* per neuron */
    float *plane;                              /* per input */
    float *x, *y, *terms;                      /* per neuron of a layer, or input */
    float *value;
    int8_t *improved;
} Climber;

#if defined(__GNUC__)
typedef float Wide __attribute__((vector_size(4 * WIDE), aligned(4), may_alias));
enum { TILE = 2 * WIDE };

/* COUNT rows of a matrix product, TILE columns at a time, whose sums stay in registers. The last tile overlaps the one
   before it. */
#define PRODUCT(COUNT)                                                                                                \
    static void product_##COUNT(const float *left, int64_t stride, const float *matrix, float *out,                   \
                                int64_t out_stride, int64_t inner, int64_t width) {                                   \
        for (int64_t tile = 0; tile < width; tile += TILE) {                                                          \
            const int64_t i = tile + TILE <= width ? tile : width - TILE;                                             \
            Wide sums[COUNT][2] = {{{0.0f}}};                                                                         \
            for (int64_t k = 0; k < inner; k++) {                                                                     \
                const Wide *line = (const Wide *)(matrix + k * width + i);                                            \
                for (int r = 0; r < COUNT; r++) {                                                                     \
                    sums[r][0] += left[r * stride + k] * line[0];                                                     \
                    sums[r][1] += left[r * stride + k] * line[1];                                                     \
                }                                                                                                     \
            }                                                                                                         \
            for (int r = 0; r < COUNT; r++) {                                                                         \
                Wide *to = (Wide *)(out + r * out_stride + i);                                                        \
                to[0] = sums[r][0];                                                                                   \
                to[1] = sums[r][1];                                                                                   \
            }                                                                                                         \
        }                                                                                                             \
    }

PRODUCT(4)
PRODUCT(1)
#endif

/* The first columns of `out` become left @ matrix. */
static void product(const float *RESTRICT left, int64_t stride, const float *RESTRICT matrix, float *RESTRICT out,
                    int64_t out_stride, int64_t rows, int64_t inner, int64_t width) {
    int64_t row = 0;
#if defined(__GNUC__)
    for (; row + 4 <= rows && width >= TILE; row += 4)
        product_4(left + row * stride, stride, matrix, out + row * out_stride, out_stride, inner, width);
    for (; row < rows && width >= TILE; row++)
        product_1(left + row * stride, stride, matrix, out + row * out_stride, out_stride, inner, width);
#endif
    for (; row < rows; row++) {
        for (int64_t i = 0; i < width; i++) out[row * out_stride + i] = 0.0f;
        for (int64_t k = 0; k < inner; k++) {
            const float factor = left[row * stride + k];
            for (int64_t i = 0; i < width; i++) out[row * out_stride + i] += factor * matrix[k * width + i];
        }
    }
}

/* A layer's part of what belongs to one row. */
typedef struct {
    int64_t count;
    const float *c;
    const int8_t *phase;
    float *multipliers;
    const float *slope, *intercept, *bias;
} Part;

/* From coefficients of what leaves a layer's ReLUs to those of what enters them; returns the constant. */
static float below(const Part part, float *RESTRICT out, float *RESTRICT terms) {
    const float *RESTRICT c = part.c, *RESTRICT multipliers = part.multipliers, *RESTRICT slope = part.slope;
    const float *RESTRICT intercept = part.intercept, *RESTRICT bias = part.bias;
    const int8_t *RESTRICT phase = part.phase;
    for (int64_t i = 0; i < part.count; i++) {
        const int32_t is = phase[i];
        const float undecided = c[i] * (c[i] > 0.0f ? multipliers[i] : slope[i]);
        const float constant = is == UNDECIDED && !(c[i] > 0.0f) ? c[i] * intercept[i] : 0.0f;
        const float active = is == ACTIVE ? c[i] - multipliers[i] : c[i];
        const float decided = is == INACTIVE ? multipliers[i] : active;
        const float value = is == UNDECIDED ? undecided : decided;
        terms[i] = value * bias[i] + constant;
        out[i] = value;
    }
    return total(terms, part.count);
}

/* The least value of a plane without its constant on the box. */
static float least_value(const float *RESTRICT plane, const float *RESTRICT middle, const float *RESTRICT radius,
                         int64_t count, float *RESTRICT terms) {
    for (int64_t i = 0; i < count; i++) terms[i] = plane[i] * middle[i] - fabsf(plane[i]) * radius[i];
    return total(terms, count);
}

/* The corner of the box where a plane is least; it is remembered if the bound has improved. */
static void corner_of(const float *RESTRICT plane, const float *RESTRICT middle, const float *RESTRICT radius,
                      int64_t count, float *RESTRICT x, int8_t *RESTRICT corner, int improved) {
    for (int64_t i = 0; i < count; i++) x[i] = plane[i] < 0.0f ? middle[i] + radius[i] : middle[i] - radius[i];
    if (improved)
        for (int64_t i = 0; i < count; i++) corner[i] = plane[i] < 0.0f;
}

/* From what enters a layer's ReLUs, its bias not yet added, to what leaves their lines. */
static void above(const Part part, float *RESTRICT y, float *RESTRICT out) {
    const float *RESTRICT c = part.c, *RESTRICT multipliers = part.multipliers, *RESTRICT slope = part.slope;
    const float *RESTRICT intercept = part.intercept, *RESTRICT bias = part.bias;
    const int8_t *RESTRICT phase = part.phase;
    for (int64_t i = 0; i < part.count; i++) {
        const int32_t is = phase[i];
        const float value = y[i] + bias[i];
        const float upper = slope[i] * value + intercept[i], lower = multipliers[i] * value;
        const float line = c[i] > 0.0f ? lower : upper, decided = is == INACTIVE ? 0.0f : value;
        y[i] = value;
        out[i] = is == UNDECIDED ? line : decided;
    }
}

/* The undecided ReLU whose decision saves most: what its line gives away, at this point for the lower line and at 0 for
   the upper one. The layer's neurons are numbered from `first` on. */
static void best_decision(const Part part, const float *RESTRICT y, float *RESTRICT terms, float *gain,
                          int64_t *neuron, int64_t first) {
    const float *RESTRICT c = part.c, *RESTRICT multipliers = part.multipliers, *RESTRICT intercept = part.intercept;
    const int8_t *RESTRICT phase = part.phase;
    for (int64_t i = 0; i < part.count; i++) {
        const int32_t is = phase[i];
        const float lower = c[i] * ((y[i] > 0.0f ? y[i] : 0.0f) - multipliers[i] * y[i]), upper = -c[i] * intercept[i];
        const float saved = c[i] > 0.0f ? lower : upper;
        terms[i] = is == UNDECIDED ? saved : 0.0f;
    }
    for (int64_t i = 0; i < part.count; i++)
        if (terms[i] > *gain) {
            *gain = terms[i];
            *neuron = first + i;
        }
}

/* One step of Adam: its rates, and what corrects its means for having started at 0. */
typedef struct {
    float rate, floor, early, late, keep, hold;
} Step;

/* A decision's multiplier moves by a share of its ReLU's coefficient, and by no less than `floor`: where the row no
   longer depends on the ReLU, the decisions may still contradict each other. */
static void move(const Part part, const float *RESTRICT y, float *RESTRICT mean, float *RESTRICT square,
                 const Step step) {
    const float *RESTRICT c = part.c;
    const int8_t *RESTRICT phase = part.phase;
    float *RESTRICT multipliers = part.multipliers;
    for (int64_t i = 0; i < part.count; i++) {
        const int32_t is = phase[i];
        const float product = c[i] * y[i], slope = c[i] > 0.0f ? product : 0.0f;
        const float inactive = is == INACTIVE ? y[i] : 0.0f, decided = is == ACTIVE ? -y[i] : inactive;
        const float gradient = is == UNDECIDED ? slope : decided;
        const float size = fabsf(c[i]), share = size > step.floor ? size : step.floor;
        const float length = is == UNDECIDED ? step.rate : step.rate * share;
        const float m = step.keep * mean[i] + (1.0f - step.keep) * gradient;
        const float s = step.hold * square[i] + (1.0f - step.hold) * gradient * gradient;
        const float to = multipliers[i] + length * step.early * m / (sqrtf(step.late * s) + 1e-20f);
        const float moved = to > 0.0f ? to : 0.0f, capped = moved < 1.0f ? moved : 1.0f;
        mean[i] = m;
        square[i] = s;
        multipliers[i] = is == UNDECIDED ? capped : moved;
    }
}

static float mean_size(const float *values, int64_t count, float *RESTRICT terms) {
    for (int64_t i = 0; i < count; i++) terms[i] = fabsf(values[i]);
    return total(terms, count) / (float)(count > 1 ? count : 1);
}

static Part part_of(const Reduced *net, const Climb *task, const Climber *m, int64_t row, int64_t at, int64_t k) {
    const int64_t end = net->ends[k], mine = row * net->neurons + end;
    const Part part = {net->ends[k + 1] - end,
                       m->used + mine,
                       task->phase + at * net->neurons + mine,
                       m->multipliers + mine,
                       net->slope + end,
                       net->intercept + end,
                       net->bias + end};
    return part;
}

/* From the rows back to the planes on the box; each one's bound is left in `value`. */
static void backward(const Reduced *net, const Climb *task, const Climber *m, int64_t at, int64_t rows) {
    const int64_t inputs = net->sizes[0];
    for (int64_t row = 0; row < rows; row++) m->value[row] = task->constant[at + row];
    for (int64_t k = net->layers - 1; k >= 0; k--) {
        const int64_t before = net->sizes[k], here = net->sizes[k + 1];
        for (int64_t row = 0; row < rows; row++)
            m->value[row] += below(part_of(net, task, m, row, at, k), m->x + row * net->widest, m->terms);
        float *out = k > 0 ? m->used + net->ends[k - 1] : m->plane;
        const int64_t stride = k > 0 ? net->neurons : inputs;
        product(m->x, net->widest, net->down + net->starts[k], out, stride, rows, here, before);
    }
    for (int64_t row = 0; row < rows; row++)
        m->value[row] += least_value(m->plane + row * inputs, net->middle, net->radius, inputs, m->terms);
}

/* `climb` for rows that fit into the cache together with all that belongs to them.

   A row is flat when its bound is not above 0 and no decision promises anything where it is best: its lines give
   nothing away there, but its decisions may contradict each other, which the last multipliers have begun to show. Then
   these are kept. */
static void climb_block(const Reduced *net, const Climb *task, const Climber *m, int64_t at, int64_t rows) {
    const int64_t inputs = net->sizes[0], neurons = net->neurons, widest = net->widest;
    Step adam = {task->rate, 0.0f, 1.0f, 1.0f, task->keep, task->hold};
    float first = 1.0f, second = 1.0f;
    for (int64_t step = 0; step <= task->steps; step++) {
        backward(net, task, m, at, rows);
        for (int64_t row = 0; row < rows; row++) {
            const int64_t r = at + row;
            const int improved = m->value[row] > task->bound[r];
            m->improved[row] = (int8_t)improved;
            corner_of(m->plane + row * inputs, net->middle, net->radius, inputs, m->x + row * widest,
                      task->corner + r * inputs, improved);
            if (improved) {
                task->bound[r] = m->value[row];
                task->gain[r] = 0.0f;
            }
            task->flat[r] = step == task->steps && task->bound[r] <= 0.0f && task->gain[r] == 0.0f && !improved;
            if (improved || task->flat[r])
                for (int64_t i = 0; i < neurons; i++) task->best[r * neurons + i] = m->multipliers[row * neurons + i];
        }
        first *= task->keep;
        second *= task->hold;
        adam.early = 1.0f / (1.0f - first);
        adam.late = 1.0f / (1.0f - second);
        for (int64_t k = 0; k < net->layers; k++) {
            const int64_t before = net->sizes[k], here = net->sizes[k + 1];
            product(m->x, widest, net->up + net->starts[k], m->y, widest, rows, before, here);
            for (int64_t row = 0; row < rows; row++) {
                const int64_t r = at + row, mine = row * neurons + net->ends[k];
                const Part part = part_of(net, task, m, row, at, k);
                float *y = m->y + row * widest;
                above(part, y, m->x + row * widest);
                if (m->improved[row] || task->flat[r])
                    best_decision(part, y, m->terms, task->gain + r, task->neuron + r, net->ends[k]);
                if (step < task->steps) {
                    adam.floor = task->least_rate * mean_size(task->weight + r * task->wanted, task->wanted, m->terms);
                    move(part, y, m->mean + mine, m->square + mine, adam);
                }
            }
        }
        adam.rate *= task->shorter;
    }
}

/* A row before its first step: what is wanted of it is in the last columns of `used`, or is the plane itself. */
static void set_up(const Reduced *net, const Climb *task, const Climber *m, int64_t at, int64_t row) {
    const int64_t neurons = net->neurons, inputs = net->sizes[0], r = at + row, mine = row * neurons;
    float *wanted = neurons ? m->used + mine + neurons - task->wanted : m->plane + row * inputs;
    for (int64_t i = 0; i < neurons; i++) {
        task->best[r * neurons + i] = m->multipliers[mine + i] = task->start[r * neurons + i];
        m->mean[mine + i] = m->square[mine + i] = 0.0f;
    }
    for (int64_t i = 0; i < task->wanted; i++) wanted[i] = task->weight[r * task->wanted + i];
    for (int64_t i = 0; i < inputs; i++) task->corner[r * inputs + i] = 0;
    task->bound[r] = -INFINITY;
    task->gain[r] = 0.0f;
    task->neuron[r] = -1;
}

static float *claim(float **space, int64_t count) {
    float *found = *space;
    *space += count;
    return found;
}

/* Improve the multipliers of all rows, a block after the other. */
static void climb(const Reduced *net, const Climb *task, float *space) {
    Climber m;
    float **per_neuron[] = {&m.multipliers, &m.mean, &m.square, &m.used};
    for (int i = 0; i < 4; i++) *per_neuron[i] = claim(&space, BLOCK * net->neurons);
    m.plane = claim(&space, BLOCK * net->sizes[0]);
    m.x = claim(&space, BLOCK * net->widest);
    m.y = claim(&space, BLOCK * net->widest);
    m.value = claim(&space, BLOCK);
    m.improved = (int8_t *)claim(&space, BLOCK);
    m.terms = claim(&space, net->widest);
    for (int64_t at = 0; at < task->rows; at += BLOCK) {
        const int64_t rows = task->rows - at < BLOCK ? task->rows - at : BLOCK;
        for (int64_t row = 0; row < rows; row++) set_up(net, task, &m, at, row);
        climb_block(net, task, &m, at, rows);
    }
}

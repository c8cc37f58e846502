/* The records that Python fills in (ginnacer_verify/native/__init__.py mirrors them) and what the kernels export.

   Arrays are contiguous, matrices row by row. Nothing is allocated here: the caller brings the memory. */

#ifndef GINNACER_RECORDS_H
#define GINNACER_RECORDS_H

#include <stdint.h>

#if defined(_MSC_VER)
#define RESTRICT __restrict
#define EXPORT __declspec(dllexport)
#else
#define RESTRICT restrict
#define EXPORT __attribute__((visibility("default")))
#endif

enum { OPEN = 0, PROVED = 1 };

/* A network with some disjuncts folded into its last layer. What no disjunct changes is there once. Weights are
   transposed: those of each value that enters a layer lie side by side. */
typedef struct {
    int64_t layers, inputs, rows, relus, widest, steps;
    int64_t each;               /* 1: every row is a disjunct by itself, unsafe where any of them is at most 0 */
    const int64_t *sizes;       /* inputs, neurons of each hidden layer, rows */
    const int64_t *weights;     /* where the weights of each hidden layer begin in `weight`, */
    const int64_t *biases;      /* and its biases in `bias`: from the second layer on */
    const double *weight, *bias;
    const double *first_weight; /* of the first layer, if it is a hidden one; over the inputs that vary */
    const double *first_biases; /* some of them, with the fixed inputs in them */
    const double *last_weights; /* some weights of the property's rows */
    const int64_t *first_of;    /* per disjunct: which of the first biases, */
    const int64_t *last_of;     /* which of the last weights, */
    const double *last_biases;  /* the biases of its rows, */
    const double *errors;       /* and per layer, how far a bound can be from that of real arithmetic */
    /* Where the network is bounded as it is executed: */
    const double *shares;       /* per layer, what part of the sum of absolute values is lost at most; 0: real numbers */
    const double *limits;       /* what such a sum must be below, and what is added to it for underflow */
    const double *first_offs;   /* per disjunct: how far the neurons of the first layer are off, */
    const double *last_sizes;   /* as `last_weights`: the absolute values that make up the rows' weights, */
    const double *last_floors;  /* per disjunct: those of its rows' biases, */
    const double *last_limits;  /* and what the sums of its rows must be below */
    const int64_t *twins;       /* per neuron: the neuron before it in its layer that is much like it, or -1 */
} Net;

/* A batch of boxes: each one's disjunct, its ends, its neurons' bounds; and what is found, per box. */
typedef struct {
    const int64_t *owner;
    double *low, *high, *lower, *upper;
    double *points, *bounds, *slacks, *gains;
    int64_t *states, *unstable;
} Boxes;

/* The layers before some rows, as `engine/phases/reduced.py` has them. */
typedef struct {
    int64_t layers, neurons, widest;
    const int64_t *sizes, *ends, *starts;
    const float *down, *up, *bias, *slope, *intercept, *middle, *radius;
} Reduced;

/* Rows to be bounded, with `wanted` coefficients each, how to climb, and what is found. */
typedef struct {
    int64_t rows, wanted, steps;
    float rate, shorter, least_rate, keep, hold;
    const float *weight, *constant, *start;
    const int8_t *phase;
    float *bound, *best, *gain;
    int64_t *neuron;
    int8_t *corner, *flat;
} Climb;

/* A layer's ICF: row i is `value[start[i] : start[i + 1]]` in the columns `column[...]`. */
typedef struct {
    int64_t neurons, columns;
    const int64_t *start, *column;
    const double *value, *bias, *distance, *potential, *slack;
} Rows;

/* A partition in the making: per neuron its subset; per subset its size, V, bias, slack, cost, and sums of max(V, 0). */
typedef struct {
    int64_t *label, *size;
    double *V, *bias, *slack, *cost, *above, *norm_above;
} Packing;

/* Rows to be merged, those of one kind from `first[i]` to before `last[i]`; where each is largest and where it is not 0
   (`stored[i]` places of at most `room`, or -1); its nearest one and how far that is; and the subset of each. */
typedef struct {
    int64_t count, columns, room;
    double *rows, *distance;
    const int64_t *first, *last;
    int64_t *peak, *stored, *column, *nearest, *label;
    int8_t *alive;
} Table;

/* Where the windows of a convolution lie on images of `height` times `width`: `rows` times `columns` of them, each of
   `high` times `wide` cells; the channels are those of one group. */
typedef struct {
    int64_t groups, inputs, outputs, height, width, rows, columns, high, wide;
    int64_t stride_down, stride_across, dilation_down, dilation_across, above, left;
} Windows;

/* A graph over the inputs that vary, value by value (engines/boxes/tape.py): each is an input, a sum or a function of
   values before it. Values of one kind that follow each other are a block. The first values are the inputs. */
typedef struct {
    int64_t inputs, length, blocks, outputs, rows, disjuncts; /* `length` values */
    int64_t stride, spread, roundings; /* between two boxes' constants; uses of a value, roundings of a weight, at most */
    const int64_t *kinds;         /* per block, */
    const int64_t *starts;        /* and its first value */
    const int64_t *entries;       /* per value: where its entries begin, */
    const int64_t *columns;       /* the value that each of them stands for, */
    const double *weights;        /* and its weight in a sum */
    const double *bends;          /* per value: the slope of a bent function on the left */
    const int64_t *wanted;        /* per value: 1 if it enters a bent function only, 2 any function, 0 none */
    const int64_t *touches;       /* per value: where its stretches begin: of blocks that its entries lie in, */
    const int64_t *touched_block; /* which block, */
    const int64_t *touched_from;  /* from which value */
    const int64_t *touched_to;    /* to which */
    const double *constants;      /* per disjuncts' box and value, */
    const double *slacks;         /* and how far these may be off */
    const int64_t *output;        /* the values that are outputs, */
    const int64_t *output_block;  /* and where they are */
    const double *row_weights;    /* per box: the property's rows, */
    const double *offsets;        /* and what they must exceed to be out of reach */
    const int64_t *first_members; /* per disjunct: where its rows begin in */
    const int64_t *members;
} Tape;

/* A batch of boxes on a tape: each one's disjuncts' box, its ends, and the disjuncts that are open, one bit each; and
   what is found. */
typedef struct {
    const int64_t *owner;
    double *low, *high, *points, *bounds;
    int64_t *open, *splits, *worst, *unstable;
} Cells;

/* What is compiled once per kind of processor. */
typedef struct {
    void (*bound_boxes)(const Net *, const Boxes *, int64_t first, int64_t last, double *space);
    double (*worst_row)(const Net *, int64_t owner, const double *x, double *space);
    void (*climb)(const Reduced *, const Climb *, float *space);
    void (*push_float)(const Windows *, int64_t batch, const float *kernel, const float *x, float *y, float *space,
                       const float **runs);
    void (*pull_float)(const Windows *, int64_t batch, const float *kernel, const float *y, float *x, float *space,
                       const float **runs, int64_t *count);
    void (*push_double)(const Windows *, int64_t batch, const double *kernel, const double *x, double *y,
                        double *space, const double **runs);
    void (*pull_double)(const Windows *, int64_t batch, const double *kernel, const double *y, double *x,
                        double *space, const double **runs, int64_t *count);
    void (*bound_cells)(const Tape *, const Cells *, int64_t first, int64_t last, double *space);
} Kernels;

extern const Kernels ginnacer_baseline, ginnacer_v3, ginnacer_v4;


#endif

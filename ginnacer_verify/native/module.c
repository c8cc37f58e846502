/* What Python calls through ctypes: the kernels for the processor at hand, and how much memory they need.

   The module itself is empty; being one lets the package's build make it on every platform. */

#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include "records.h"
#include "variants.h"

static const Kernels *chosen = &ginnacer_baseline;

/* Chooses the kernels; returns 1, 3 or 4: the level of x86-64 that they are for. `most` is the highest to be used. */
EXPORT int64_t ginnacer_choose(int64_t most) {
#if VARIANTS
    __builtin_cpu_init();
    const int fused = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                      __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    const int wide = fused && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                     __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                     __builtin_cpu_supports("avx512vl");
    if (wide && most >= 4) {
        chosen = &ginnacer_v4;
        return 4;
    }
    if (fused && most >= 3) {
        chosen = &ginnacer_v3;
        return 3;
    }
#endif
    (void)most;
    chosen = &ginnacer_baseline;
    return 1;
}

/* The size of each record, in the order of the header; 0 behind the last. */
EXPORT const int64_t ginnacer_sizes[] = {sizeof(Net),  sizeof(Boxes),   sizeof(Reduced), sizeof(Climb),
                                         sizeof(Rows), sizeof(Packing), sizeof(Table),   sizeof(Windows),
                                         sizeof(Tape), sizeof(Cells),   0};

/* How many doubles `ginnacer_bound_boxes` needs. */
EXPORT int64_t ginnacer_boxes_room(int64_t inputs, int64_t relus, int64_t widest, int64_t rows) {
    const int64_t width = 1 + inputs + relus, planes = rows + 1;
    return (3 * widest + relus + 2) * width + (widest + relus + 7) * inputs + planes * (1 + inputs + relus + 2) +
           16 * relus + widest;
}

EXPORT void ginnacer_bound_boxes(const Net *net, const Boxes *boxes, int64_t first, int64_t last, double *space) {
    chosen->bound_boxes(net, boxes, first, last, space);
}

EXPORT double ginnacer_worst_row(const Net *net, int64_t owner, const double *x, double *space) {
    return chosen->worst_row(net, owner, x, space);
}

/* How many floats `ginnacer_climb` needs. */
EXPORT int64_t ginnacer_climb_room(int64_t inputs, int64_t neurons, int64_t widest) {
    return 32 * (4 * neurons + inputs + 2 * widest + 2) + widest;
}

EXPORT void ginnacer_climb(const Reduced *net, const Climb *task, float *space) { chosen->climb(net, task, space); }

/* How many elements of its own kind a convolution needs, */
EXPORT int64_t ginnacer_windows_room(const Windows *w) {
    const int64_t cells = w->high * w->wide, pieces = w->stride_down * w->stride_across;
    const int64_t high = w->above + w->height + w->rows + w->high * w->dilation_down;
    const int64_t wide = w->left + w->width + w->columns + w->wide * w->dilation_across;
    return (w->inputs * pieces + w->outputs * pieces + w->inputs) * (high / w->stride_down + 2) *
               (wide / w->stride_across + 2) +
           w->groups * w->inputs * w->outputs * cells;
}

/* and how many addresses and counts. */
EXPORT int64_t ginnacer_windows_places(const Windows *w) {
    return (w->inputs + w->outputs) * w->high * w->wide + w->stride_down * w->stride_across;
}

EXPORT void ginnacer_push_float(const Windows *windows, int64_t batch, const float *kernel, const float *x, float *y,
                                float *space, void *places) {
    chosen->push_float(windows, batch, kernel, x, y, space, (const float **)places);
}

EXPORT void ginnacer_pull_float(const Windows *windows, int64_t batch, const float *kernel, const float *y, float *x,
                                float *space, void *places) {
    const int64_t runs = windows->outputs * windows->high * windows->wide;
    chosen->pull_float(windows, batch, kernel, y, x, space, (const float **)places, (int64_t *)places + runs);
}

EXPORT void ginnacer_push_double(const Windows *windows, int64_t batch, const double *kernel, const double *x,
                                 double *y, double *space, void *places) {
    chosen->push_double(windows, batch, kernel, x, y, space, (const double **)places);
}

EXPORT void ginnacer_pull_double(const Windows *windows, int64_t batch, const double *kernel, const double *y,
                                 double *x, double *space, void *places) {
    const int64_t runs = windows->outputs * windows->high * windows->wide;
    chosen->pull_double(windows, batch, kernel, y, x, space, (const double **)places, (int64_t *)places + runs);
}

/* How many doubles `ginnacer_bound_cells` needs; 0 where it was not compiled. */
EXPORT int64_t ginnacer_cells_room(int64_t inputs, int64_t values, int64_t blocks, int64_t rows) {
#if defined(__GNUC__)
    return 8 * (values * (1 + inputs + 16) + (rows + 2) * (inputs + 5) + inputs * (4 * inputs + 7)) + 2 * blocks + 64;
#else
    return 0;
#endif
}

EXPORT void ginnacer_bound_cells(const Tape *tape, const Cells *cells, int64_t first, int64_t last, double *space) {
    chosen->bound_cells(tape, cells, first, last, space);
}

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "kernels", "Called through ctypes.", -1, NULL};

PyMODINIT_FUNC PyInit_kernels(void) { return PyModule_Create(&definition); }

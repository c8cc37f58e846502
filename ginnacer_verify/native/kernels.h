/* The kernels, for the kind of processor that the including file names in VARIANT; its vectors hold WIDE floats. */

#include "boxes.h"
#include "phases.h"
#include "tape.h"

#define REAL float
#define LANE WIDE
#define NAME(x) x##_float
#include "convolve.h"
#undef REAL
#undef LANE
#undef NAME
#define REAL double
#define LANE (WIDE / 2)
#define NAME(x) x##_double
#include "convolve.h"

const Kernels VARIANT = {bound_boxes, worst_row, climb, push_float, pull_float, push_double, pull_double, bound_cells};

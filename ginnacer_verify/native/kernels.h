/* The kernels, for the kind of processor that the including file names in VARIANT; its vectors hold WIDE floats. */

#include "boxes.h"
#include "phases.h"

const Kernels VARIANT = {bound_boxes, worst_row, climb};

/* For any processor, and for any compiler. */
#define VARIANT ginnacer_baseline
#define WIDE 4
#include "kernels.h"

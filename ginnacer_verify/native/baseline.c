/* For any processor, and for any compiler. */
#define VARIANT ginnacer_baseline
#include "kernels.h"

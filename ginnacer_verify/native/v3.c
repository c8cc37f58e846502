/* For processors with AVX2 and FMA. */
#include "variants.h"
#if VARIANTS
TARGET("avx2,fma,bmi,bmi2")
#define VARIANT ginnacer_v3
#define WIDE 8
#include "kernels.h"
END_TARGET
#endif

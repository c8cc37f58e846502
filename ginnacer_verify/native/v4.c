/* For processors with AVX-512. */
#include "variants.h"
#if VARIANTS
TARGET("avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,bmi,bmi2,prefer-vector-width=512")
#define VARIANT ginnacer_v4
#define WIDE 16
#include "kernels.h"
END_TARGET
#endif

/* Where one file can be compiled for another kind of processor than the rest: x86-64 with GCC or Clang. */

#if defined(__x86_64__) && defined(__GNUC__)
#define VARIANTS 1
#define QUOTED(text) _Pragma(#text)
#if defined(__clang__)
#define TARGET(features) QUOTED(clang attribute push(__attribute__((target(features))), apply_to = function))
#define END_TARGET QUOTED(clang attribute pop)
#else
#define TARGET(features) QUOTED(GCC target(features))
#define END_TARGET
#endif
#else
#define VARIANTS 0
#endif

/* Convolutions of batches, forwards and backwards, for one element type: included once for each, with REAL, LANE (its
   elements in a vector) and NAME(x) defined.

   The images that are read are copied once, with their padding. There every cell of the kernel is a shift: what all
   windows see through it is one run of numbers, padding between the lines included. So a convolution is a product of
   the kernel with shifted runs, whose sums stay in registers. Windows that lie `stride` apart see one image in `stride`
   pieces each way: its pixels with the same remainder. */

#if defined(__GNUC__)
typedef REAL NAME(Vector) __attribute__((vector_size(sizeof(REAL) * LANE), aligned(sizeof(REAL)), may_alias));

/* ROWS rows of the product, WIDTH vectors of columns from `at` on. */
#define MULTIPLY(ROWS, WIDTH)                                                                                         \
    static void NAME(multiply_##ROWS##_##WIDTH)(const REAL *left, const REAL *const *runs, int64_t at, REAL *out,     \
                                                int64_t columns, int64_t inner) {                                     \
        NAME(Vector) sums[ROWS][WIDTH] = {{{0}}};                                                                     \
        for (int64_t k = 0; k < inner; k++) {                                                                         \
            const NAME(Vector) *run = (const NAME(Vector) *)(runs[k] + at);                                           \
            for (int r = 0; r < ROWS; r++)                                                                            \
                for (int v = 0; v < WIDTH; v++) sums[r][v] += left[r * inner + k] * run[v];                           \
        }                                                                                                             \
        for (int r = 0; r < ROWS; r++)                                                                                \
            for (int v = 0; v < WIDTH; v++) ((NAME(Vector) *)(out + r * columns + at))[v] = sums[r][v];               \
    }

MULTIPLY(6, 2)
MULTIPLY(6, 1)
MULTIPLY(4, 2)
MULTIPLY(4, 1)
MULTIPLY(3, 2)
MULTIPLY(3, 1)
MULTIPLY(2, 2)
MULTIPLY(2, 1)
MULTIPLY(1, 2)
MULTIPLY(1, 1)
#undef MULTIPLY
#endif

/* out = left @ runs: (rows, inner) and (inner, columns). The last vector of a row overlaps the one before it. */
static void NAME(multiply)(const REAL *left, const REAL *const *runs, REAL *out, int64_t rows, int64_t inner,
                           int64_t columns) {
    int64_t start = 0;
#if defined(__GNUC__)
    while (start < columns && columns >= LANE) {
        const int wide = columns - start >= 2 * LANE;
        const int64_t at = columns - start >= LANE ? start : columns - LANE;
        int64_t row = 0;
#define ROWS(COUNT)                                                                                                   \
    for (; row + COUNT <= rows; row += COUNT)                                                                         \
        (wide ? NAME(multiply_##COUNT##_2) : NAME(multiply_##COUNT##_1))(left + row * inner, runs, at,                \
                                                                         out + row * columns, columns, inner);
        ROWS(6)
        ROWS(4)
        ROWS(3)
        ROWS(2)
        ROWS(1)
#undef ROWS
        start = at + (wide ? 2 * LANE : LANE);
    }
#endif
    for (int64_t row = 0; row < rows && start < columns; row++) {
        REAL *to = out + row * columns;
        for (int64_t i = start; i < columns; i++) to[i] = 0;
        for (int64_t k = 0; k < inner; k++)
            for (int64_t i = start; i < columns; i++) to[i] += left[row * inner + k] * runs[k][i];
    }
}

/* From images x to y, with the kernel as (groups, outputs, inputs, cells). */
static void NAME(push)(const Windows *w, int64_t batch, const REAL *kernel, const REAL *x, REAL *y, REAL *space,
                       const REAL **runs) {
    const int64_t cells = w->high * w->wide, pixels = w->height * w->width, inner = w->inputs * cells;
    const int64_t down = w->stride_down, across = w->stride_across;
    const int64_t lines = w->rows + (w->high - 1) * w->dilation_down / down;
    const int64_t width = w->columns + (w->wide - 1) * w->dilation_across / across, piece = lines * width;
    const int64_t run = (w->rows - 1) * width + w->columns;
    REAL *out = space + w->inputs * down * across * piece;
    for (int64_t channel = 0; channel < w->inputs; channel++)
        for (int64_t cell = 0; cell < cells; cell++) {
            const int64_t i = cell / w->wide * w->dilation_down, j = cell % w->wide * w->dilation_across;
            const int64_t which = (channel * down + i % down) * across + j % across;
            runs[channel * cells + cell] = space + which * piece + i / down * width + j / across;
        }
    for (int64_t item = 0; item < batch * w->groups; item++) {
        REAL *to = space;
        for (int64_t channel = 0; channel < w->inputs; channel++)
            for (int64_t part = 0; part < down * across; part++)
                for (int64_t line = 0; line < lines; line++, to += width) {
                    const int64_t row = line * down + part / across - w->above, left = part % across - w->left;
                    const REAL *from = x + (item * w->inputs + channel) * pixels + row * w->width;
                    for (int64_t i = 0; i < width; i++) {
                        const int64_t column = i * across + left;
                        const int inside = row >= 0 && row < w->height && column >= 0 && column < w->width;
                        to[i] = inside ? from[column] : 0;
                    }
                }
        NAME(multiply)(kernel + item % w->groups * w->outputs * inner, runs, out, w->outputs, inner, run);
        REAL *result = y + item * w->outputs * w->rows * w->columns;
        for (int64_t row = 0; row < w->outputs * w->rows; row++)
            for (int64_t i = 0; i < w->columns; i++)
                result[row * w->columns + i] = out[row / w->rows * run + row % w->rows * width + i];
    }
}

/* Where a cell of the kernel lies: how far from the first one, in pixels. */
static void NAME(shift_of)(const Windows *w, int64_t cell, int64_t *i, int64_t *j) {
    *i = cell / w->wide * w->dilation_down;
    *j = cell % w->wide * w->dilation_across;
}

/* The kernel, piece by piece of x: for each, (groups, inputs, outputs * cells of the piece); and how many cells each has. */
static void NAME(pack)(const Windows *w, const REAL *kernel, REAL *packed, int64_t *count) {
    const int64_t cells = w->high * w->wide, across = w->stride_across;
    for (int64_t part = 0; part < w->stride_down * across; part++) {
        int64_t own = 0, i, j;
        for (int64_t cell = 0; cell < cells; cell++) {
            NAME(shift_of)(w, cell, &i, &j);
            own += i % w->stride_down == part / across && j % across == part % across;
        }
        count[part] = own;
        for (int64_t group = 0; group < w->groups; group++)
            for (int64_t input = 0; input < w->inputs; input++)
                for (int64_t output = 0; output < w->outputs; output++)
                    for (int64_t cell = 0; cell < cells; cell++) {
                        NAME(shift_of)(w, cell, &i, &j);
                        if (i % w->stride_down == part / across && j % across == part % across)
                            *packed++ = kernel[((group * w->outputs + output) * w->inputs + input) * cells + cell];
                    }
    }
}

/* From rows of coefficients of y to those of x, with the kernel as (groups, outputs, inputs, cells). */
static void NAME(pull)(const Windows *w, int64_t batch, const REAL *kernel, const REAL *y, REAL *x, REAL *space,
                       const REAL **runs, int64_t *count) {
    const int64_t cells = w->high * w->wide, pixels = w->height * w->width, windows = w->rows * w->columns;
    const int64_t down = w->stride_down, across = w->stride_across;
    const int64_t beyond_down = (w->high - 1) * w->dilation_down / down;
    const int64_t beyond_across = (w->wide - 1) * w->dilation_across / across;
    const int64_t lines = (w->above + w->height - 1) / down + 1, columns = (w->left + w->width - 1) / across + 1;
    const int64_t width = columns + beyond_across, piece = (lines + beyond_down) * width;
    const int64_t run = (lines - 1) * width + columns;
    REAL *packed = space + w->outputs * piece, *out = packed + w->groups * w->inputs * w->outputs * cells;
    NAME(pack)(w, kernel, packed, count);
    const REAL **next = runs;
    for (int64_t part = 0; part < down * across; part++)
        for (int64_t output = 0; output < w->outputs; output++)
            for (int64_t cell = 0; cell < cells; cell++) {
                int64_t i, j;
                NAME(shift_of)(w, cell, &i, &j);
                if (i % down == part / across && j % across == part % across)
                    *next++ = space + output * piece + (beyond_down - i / down) * width + beyond_across - j / across;
            }
    for (int64_t i = 0; i < w->outputs * piece; i++) space[i] = 0;
    for (int64_t item = 0; item < batch * w->groups; item++) {
        for (int64_t output = 0; output < w->outputs; output++)
            for (int64_t row = 0; row < w->rows && row < lines; row++) {
                REAL *to = space + output * piece + (row + beyond_down) * width + beyond_across;
                const REAL *from = y + (item * w->outputs + output) * windows + row * w->columns;
                for (int64_t i = 0; i < w->columns && i < columns; i++) to[i] = from[i];
            }
        const REAL *own = packed, **seen = runs;
        for (int64_t part = 0; part < down * across; part++) {
            const int64_t inner = w->outputs * count[part], top = part / across - w->above;
            const int64_t left = part % across - w->left;
            NAME(multiply)(own + item % w->groups * w->inputs * inner, seen, out, w->inputs, inner, run);
            for (int64_t line = 0; line < w->inputs * lines; line++) {
                const int64_t row = line % lines * down + top, input = line / lines;
                if (row < 0 || row >= w->height) continue;
                REAL *to = x + item * w->inputs * pixels + (input * w->height + row) * w->width + left;
                const REAL *from = out + input * run + line % lines * width;
                for (int64_t i = left < 0 ? (across - 1 - left) / across : 0; i * across + left < w->width; i++)
                    to[i * across] = from[i];
            }
            own += w->groups * w->inputs * inner;
            seen += inner;
        }
    }
}

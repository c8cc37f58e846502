/* The inner loops of the partition strategies and of Elboher's merging; ginnacer_verify/packing.py, moving.py and
   rivals/greedy.py say what they do, and do the same in numpy where there is no compiler.

   Two facts make the packing fast. A subset D that takes in neuron i changes only where row i is stored; elsewhere i has
   a 0, so V becomes max(V, 0). With the sum over max(V, 0) kept per subset, the potential and the 1-norm of D with i
   cost one pass over row i (`joined`). And V only grows, so a neuron that once made D invalid always will: one pass over
   the candidates is enough (`grow`).

   Every test leaves twice the slack, so that what is accepted is valid in `is_valid` whatever the order of its sums. */

#include <math.h>
#include <string.h>
#include "records.h"

enum { PIECE = 16 }; /* entries of a full row between two looks at the sum */
static const double EARLIEST = 1e-9;

static inline double larger(double a, double b) { return a > b ? a : b; }

/* Row i becomes all of V. */
static void fill(const Rows *rows, int64_t i, double *V) {
    memset(V, 0, (size_t)rows->columns * sizeof(double));
    for (int64_t p = rows->start[i]; p < rows->start[i + 1]; p++) V[rows->column[p]] = rows->value[p];
}

/* V becomes the maximum of V and row i. */
static void take(const Rows *rows, int64_t i, double *V) {
    int64_t p = rows->start[i];
    const int64_t stop = rows->start[i + 1];
    for (int64_t j = 0; j < rows->columns; j++)
        V[j] = larger(V[j], p < stop && rows->column[p] == j ? rows->value[p++] : 0.0);
}

typedef struct {
    double total, above, norm, norm_above;
} Sums;

/* V @ distance and the 1-norm of V, and those of max(V, 0). */
static Sums sums_of(const Rows *rows, const double *V) {
    Sums sums = {0.0, 0.0, 0.0, 0.0};
    for (int64_t k = 0; k < rows->columns; k++) {
        sums.total += V[k] * rows->distance[k];
        sums.norm += fabs(V[k]);
        if (V[k] > 0.0) {
            sums.above += V[k] * rows->distance[k];
            sums.norm_above += V[k];
        }
    }
    return sums;
}

/* Whether the maximum of V and row i, times the distances, is at most `limit`. */
static int stays_below(const Rows *rows, int64_t i, const double *V, Sums sums, double limit) {
    const int64_t first = rows->start[i], count = rows->start[i + 1] - first;
    const double *row = rows->value + first;
    const int64_t *column = rows->column + first;
    if (count < rows->columns) {
        double above = sums.above;
        for (int64_t p = 0; p < count; p++) {
            const double v = V[column[p]];
            above += (larger(v, row[p]) - larger(v, 0.0)) * rows->distance[column[p]];
        }
        return above <= limit;
    }
    double total = sums.total; /* a full row only adds, so stop as soon as it is too much */
    for (int64_t at = 0; at < count; at += PIECE) {
        const int64_t stop = at + PIECE < count ? at + PIECE : count;
        for (int64_t j = at; j < stop; j++) total += larger(row[j] - V[j], 0.0) * rows->distance[j];
        if (total > limit) return 0;
    }
    return total <= limit;
}

/* Which candidates a subset takes in that begins with `seed` and tries them one after the other. V is scratch. */
EXPORT void ginnacer_grow(const Rows *rows, int64_t seed, const int64_t *candidates, int64_t count, int8_t *accepted,
                          double *V) {
    fill(rows, seed, V);
    double bias = rows->bias[seed], slack = rows->slack[seed];
    Sums sums = sums_of(rows, V);
    for (int64_t place = 0; place < count; place++) {
        const int64_t i = candidates[place];
        const double limit = -2.0 * larger(slack, rows->slack[i]) - larger(bias, rows->bias[i]);
        accepted[place] = (int8_t)stays_below(rows, i, V, sums, limit);
        if (!accepted[place]) continue;
        bias = larger(bias, rows->bias[i]);
        slack = larger(slack, rows->slack[i]);
        take(rows, i, V);
        sums = sums_of(rows, V);
    }
}

/* Each neuron of `rest` that is left begins a subset, which tries those behind it. `rest` is used up. */
EXPORT void ginnacer_fit(const Rows *rows, int64_t *rest, int64_t count, int64_t *label, int8_t *accepted, double *V) {
    for (int64_t subset = 0; count; subset++) {
        int64_t left = 0;
        label[rest[0]] = subset;
        ginnacer_grow(rows, rest[0], rest + 1, count - 1, accepted, V);
        for (int64_t place = 0; place < count - 1; place++) {
            const int64_t i = rest[1 + place];
            if (accepted[place])
                label[i] = subset;
            else
                rest[left++] = i;
        }
        count = left;
    }
}

typedef struct {
    double total, norm;
} Joined;

/* V @ distance and the 1-norm of the maximum of V and row i; `above` and `norm_above` are those of max(V, 0). */
static Joined joined(const Rows *rows, int64_t i, const double *V, double above, double norm_above) {
    Joined found = {above, norm_above};
    for (int64_t p = rows->start[i]; p < rows->start[i + 1]; p++) {
        const double v = V[rows->column[p]], largest = larger(v, rows->value[p]);
        found.total += (largest - larger(v, 0.0)) * rows->distance[rows->column[p]];
        found.norm += fabs(largest) - larger(v, 0.0);
    }
    return found;
}

/* Which pairs of neurons are invalid beyond any rounding error. V is scratch. */
EXPORT void ginnacer_conflicts(const Rows *rows, int8_t *found, double *V) {
    const int64_t n = rows->neurons;
    for (int64_t i = 0; i < n; i++) {
        fill(rows, i, V);
        const Sums sums = sums_of(rows, V);
        found[i * n + i] = 0;
        for (int64_t j = i + 1; j < n; j++) {
            const double potential = joined(rows, j, V, sums.above, 0.0).total + larger(rows->bias[i], rows->bias[j]);
            found[i * n + j] = found[j * n + i] = potential > 2.0 * larger(rows->slack[i], rows->slack[j]);
        }
    }
}

/* How much a subset adds to the margin. */
static double cost(double size, double norm, double potential) {
    return norm == 0.0 ? 0.0 : size * norm / (larger(-potential, 0.0) / norm + EARLIEST);
}

/* The sums and the cost of a subset, after its V has changed; `member` is one of it. */
static void weigh(const Rows *rows, const Packing *packing, int64_t subset, int64_t member) {
    const Sums sums = sums_of(rows, packing->V + subset * rows->columns);
    const double potential =
        packing->size[subset] == 1 ? rows->potential[member] : sums.total + packing->bias[subset];
    packing->above[subset] = sums.above;
    packing->norm_above[subset] = sums.norm_above;
    packing->cost[subset] = cost((double)packing->size[subset], sums.norm, potential);
}

/* Neuron i joins a subset, which may be empty. */
static void put(const Rows *rows, const Packing *packing, int64_t i, int64_t subset) {
    double *V = packing->V + subset * rows->columns;
    if (packing->size[subset] == 0)
        fill(rows, i, V);
    else
        take(rows, i, V);
    packing->label[i] = subset;
    packing->size[subset]++;
    packing->bias[subset] = larger(packing->bias[subset], rows->bias[i]);
    packing->slack[subset] = larger(packing->slack[subset], rows->slack[i]);
    weigh(rows, packing, subset, i);
}

typedef struct {
    int64_t subset;
    double growth;
} Cheapest;

/* The valid subset that neuron i can join at the smallest growth of cost, and that growth; -1 if there is none. */
static Cheapest cheapest(const Rows *rows, const Packing *packing, int64_t i, int64_t subsets, int64_t but) {
    Cheapest best = {-1, INFINITY};
    for (int64_t s = 0; s < subsets; s++) {
        if (s == but || packing->size[s] == 0) continue;
        const Joined with = joined(rows, i, packing->V + s * rows->columns, packing->above[s], packing->norm_above[s]);
        const double potential = with.total + larger(packing->bias[s], rows->bias[i]);
        if (potential <= -2.0 * larger(packing->slack[s], rows->slack[i])) {
            const double growth = cost((double)packing->size[s] + 1.0, with.norm, potential) - packing->cost[s];
            if (growth < best.growth) {
                best.subset = s;
                best.growth = growth;
            }
        }
    }
    return best;
}

/* Each neuron in turn joins the cheapest valid subset, or opens one where none is valid. The packing is empty. */
EXPORT void ginnacer_place(const Rows *rows, const int64_t *order, const Packing *packing) {
    int64_t subsets = 0;
    for (int64_t n = 0; n < rows->neurons; n++) {
        const Cheapest found = cheapest(rows, packing, order[n], subsets, -1);
        put(rows, packing, order[n], found.subset < 0 ? subsets++ : found.subset);
    }
}

/* What is left of i's subset without i: how many members, what cost, and V, which is 0 before and must be forgotten
   after; `missing` is 0 before and after. Only the columns that a member stores are looked at. */
static double without(const Rows *rows, const Packing *packing, int64_t i, double *V, int64_t *missing) {
    const int64_t subset = packing->label[i];
    int64_t size = 0, last = -1;
    double bias = -INFINITY, norm = 0.0;
    for (int64_t j = 0; j < rows->neurons; j++) {
        if (packing->label[j] != subset || j == i) continue;
        for (int64_t p = rows->start[j]; p < rows->start[j + 1]; p++) {
            const int64_t k = rows->column[p];
            V[k] = missing[k]++ == 0 ? rows->value[p] : larger(V[k], rows->value[p]);
        }
        size++;
        bias = larger(bias, rows->bias[j]);
        last = j;
    }
    double total = bias;
    for (int64_t j = 0; j < rows->neurons; j++) {
        if (packing->label[j] != subset || j == i) continue;
        for (int64_t p = rows->start[j]; p < rows->start[j + 1]; p++) {
            const int64_t k = rows->column[p];
            if (missing[k] == 0) continue; /* not the first time that we come by */
            if (missing[k] < size) V[k] = larger(V[k], 0.0);
            missing[k] = 0;
            total += V[k] * rows->distance[k];
            norm += fabs(V[k]);
        }
    }
    return cost((double)size, norm, size == 1 ? rows->potential[last] : total);
}

/* V becomes 0 again. */
static void forget(const Rows *rows, const Packing *packing, int64_t subset, double *V) {
    for (int64_t j = 0; j < rows->neurons; j++)
        if (packing->label[j] == subset)
            for (int64_t p = rows->start[j]; p < rows->start[j + 1]; p++) V[rows->column[p]] = 0.0;
}

/* Neuron i leaves its subset, whose maximum without it is V. */
static void leave(const Rows *rows, const Packing *packing, int64_t i, const double *V) {
    const int64_t subset = packing->label[i];
    int64_t last = -1;
    memcpy(packing->V + subset * rows->columns, V, (size_t)rows->columns * sizeof(double));
    packing->label[i] = -1;
    packing->size[subset]--;
    packing->bias[subset] = -INFINITY;
    packing->slack[subset] = 0.0;
    for (int64_t j = 0; j < rows->neurons; j++) {
        if (packing->label[j] != subset) continue;
        packing->bias[subset] = larger(packing->bias[subset], rows->bias[j]);
        packing->slack[subset] = larger(packing->slack[subset], rows->slack[j]);
        last = j;
    }
    weigh(rows, packing, subset, last);
}

static void pack(const Rows *rows, const Packing *packing, const int64_t *label) {
    for (int64_t i = 0; i < rows->neurons; i++) put(rows, packing, i, label[i]);
}

/* How much cost is saved when each neuron alone becomes a singleton. The packing is empty, V and `missing` are 0. */
EXPORT void ginnacer_gains(const Rows *rows, const int64_t *label, const Packing *packing, double *saved, double *V,
                           int64_t *missing) {
    pack(rows, packing, label);
    for (int64_t i = 0; i < rows->neurons; i++) {
        saved[i] = 0.0;
        if (packing->size[label[i]] == 1) continue;
        double norm = 0.0;
        for (int64_t p = rows->start[i]; p < rows->start[i + 1]; p++) norm += fabs(rows->value[p]);
        const double rest = without(rows, packing, i, V, missing);
        saved[i] = packing->cost[label[i]] - rest - cost(1.0, norm, rows->potential[i]);
        forget(rows, packing, label[i], V);
    }
}

/* One sweep: each neuron that is not alone goes to the subset where the sum of costs falls most. */
EXPORT void ginnacer_move(const Rows *rows, const int64_t *label, int64_t subsets, const Packing *packing, double *V,
                          int64_t *missing) {
    pack(rows, packing, label);
    for (int64_t i = 0; i < rows->neurons; i++) {
        const int64_t old = packing->label[i];
        if (packing->size[old] == 1) continue;
        const Cheapest found = cheapest(rows, packing, i, subsets, old);
        if (found.subset < 0 || found.growth >= packing->cost[old]) continue;
        const double rest = without(rows, packing, i, V, missing);
        if (found.growth < (1.0 - EARLIEST) * (packing->cost[old] - rest)) {
            leave(rows, packing, i, V);
            put(rows, packing, i, found.subset);
        }
        forget(rows, packing, old, V);
    }
}

/* Write down where row i is largest, and where it is not 0 unless that is at too many places to be worth a list. */
static void note(const Table *table, int64_t i) {
    const double *row = table->rows + i * table->columns;
    double largest = -1.0;
    int64_t found = 0;
    for (int64_t k = 0; k < table->columns; k++)
        if (fabs(row[k]) > largest) {
            largest = fabs(row[k]);
            table->peak[i] = k;
        }
    table->stored[i] = -1;
    for (int64_t k = 0; k < table->columns; k++)
        if (row[k] != 0.0) {
            if (found == table->room) return;
            table->column[i * table->room + found++] = k;
        }
    table->stored[i] = found;
}

/* The largest difference of two rows' entries, or some number from `limit` on if it is not below that. */
static double apart(const Table *table, int64_t i, int64_t j, double limit) {
    const double *a = table->rows + i * table->columns, *b = table->rows + j * table->columns;
    double largest = larger(fabs(a[table->peak[i]] - b[table->peak[i]]), fabs(a[table->peak[j]] - b[table->peak[j]]));
    if (largest >= limit) return largest;
    if (table->stored[i] >= 0 && table->stored[j] >= 0) {
        const int64_t both[2] = {i, j};
        for (int n = 0; n < 2; n++) {
            const int64_t *column = table->column + both[n] * table->room;
            for (int64_t p = 0; p < table->stored[both[n]]; p++) {
                largest = larger(largest, fabs(a[column[p]] - b[column[p]]));
                if (largest >= limit) return largest;
            }
        }
        return largest;
    }
    for (int64_t at = 0; at < table->columns && largest < limit; at += PIECE) {
        const int64_t stop = at + PIECE < table->columns ? at + PIECE : table->columns;
        for (int64_t k = at; k < stop; k++) largest = larger(largest, fabs(a[k] - b[k]));
    }
    return largest;
}

/* The row nearest to row i among those of its kind, and how far it is; -1 if there is no other. */
static void find(const Table *table, int64_t i) {
    table->nearest[i] = -1;
    table->distance[i] = INFINITY;
    for (int64_t j = table->first[i]; j < table->last[i]; j++) {
        if (!table->alive[j] || j == i) continue;
        const double distance = apart(table, i, j, table->distance[i]);
        if (distance < table->distance[i]) {
            table->nearest[i] = j;
            table->distance[i] = distance;
        }
    }
}

/* Row i has taken in row j: who was nearest to either looks again, and i may now be nearest to others. */
static void look_again(const Table *table, int64_t i, int64_t j) {
    for (int64_t k = table->first[i]; k < table->last[i]; k++) {
        if (!table->alive[k]) continue;
        const int moved = k == i || table->nearest[k] == i || table->nearest[k] == j;
        const double limit = moved ? nextafter(table->distance[k], INFINITY) : table->distance[k];
        const double distance = k == i ? INFINITY : apart(table, k, i, limit);
        if (distance < table->distance[k] || (moved && k != i && distance == table->distance[k])) {
            table->nearest[k] = i;
            table->distance[k] = distance;
        } else if (moved) {
            find(table, k);
        }
    }
}

/* Merge the nearest two rows of one kind until `count` are left, or one of each kind. Changes the rows. */
EXPORT void ginnacer_merge(const Table *table, int64_t count) {
    const int64_t n = table->count;
    for (int64_t i = 0; i < n; i++) note(table, i);
    for (int64_t i = 0; i < n; i++) find(table, i);
    for (int64_t left = n; left > count; left--) {
        int64_t i = 0;
        for (int64_t k = 1; k < n; k++)
            if (table->distance[k] < table->distance[i]) i = k;
        const int64_t j = n ? table->nearest[i] : -1;
        if (j < 0) return;
        for (int64_t k = 0; k < table->columns; k++) {
            double *to = table->rows + i * table->columns + k;
            *to = larger(*to, table->rows[j * table->columns + k]);
        }
        note(table, i);
        table->alive[j] = 0;
        table->nearest[j] = -1;
        table->distance[j] = INFINITY;
        for (int64_t k = 0; k < n; k++)
            if (table->label[k] == j) table->label[k] = i;
        look_again(table, i, j);
    }
}

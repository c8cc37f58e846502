"""The compiled part of the engine: bounds of one box, in time that grows with its unstable ReLUs.

On a box with centroid c and radius r every value of the network is written as an affine function

    row = [constant, e_1 .. e_d, s_1 .. s_U],    x = c + r * e with |e| <= 1,  s_j = the output of unstable ReLU j,

so stable neurons cost nothing: inactive ones are left out, active ones are composed with the next layer. A bound of a
row eliminates s_U, ..., s_1 in turn by one line of each ReLU (the slope of the lower one is the ICF's, 0 or 1, at
first). That is backward linear propagation; only the bookkeeping differs.

Every value that decides something is moved by `Net.error`, a bound on the rounding of everything before it
(`ginnacer_verify.engine.problem`). The compiled code is kept on disk, so it is compiled once per machine.
"""

import numpy as np

from ginnacer_verify.engine.memory import compiled, copy
from ginnacer_verify.engine.net import OPEN, PROVED


@compiled
def eliminate(m, inputs, count, line):  # type: ignore[no-untyped-def]
    """The lower bound of the row in `m.work`, whose unstable ReLUs are replaced by their lines, the last one first."""
    work = m.work
    for j in range(count - 1, -1, -1):
        coefficient = work[1 + inputs + j]
        m.coefficients[j] = coefficient
        if coefficient > 0.0:
            factor = coefficient * line[j]
        else:
            factor = coefficient * m.slope[j]
            work[0] -= factor * m.lower[j]
        if factor != 0.0:
            for column in range(1 + inputs + m.known[j]):
                work[column] += factor * m.unstable[j, column]
    bound = work[0]
    for column in range(1, 1 + inputs):
        bound -= abs(work[column])
    return bound


@compiled
def descend(m, inputs, count, step):  # type: ignore[no-untyped-def]
    """Where the bound in `m.work` is attained, and each chosen slope one step towards a better bound.

    The derivative of the bound by the slope of ReLU j is its coefficient, if positive, times its input there."""
    for j in range(count):
        y = at_corner(m.unstable[j], m.work, inputs)
        for q in range(m.known[j]):
            y += m.unstable[j, 1 + inputs + q] * m.solution[q]
        if m.coefficients[j] > 0.0:
            m.solution[j] = m.chosen[j] * y
            m.chosen[j] = min(1.0, m.chosen[j] + step) if y > 0.0 else max(0.0, m.chosen[j] - step)
        else:
            m.solution[j] = m.slope[j] * (y - m.lower[j])


@compiled
def at_corner(row, plane, inputs):  # type: ignore[no-untyped-def]
    """The part of a row without ReLUs, at the corner of the box where `plane` is least."""
    value = row[0]
    for column in range(1, 1 + inputs):
        value += row[column] if plane[column] < 0.0 else -row[column]
    return value


@compiled
def affine_rows(net, m, k, centroid, radius, lower, upper, first, settled, count):  # type: ignore[no-untyped-def]
    """The rows of layer k.

    Neurons from `first` on are those of the layer before; `settled` unstable ReLUs lie before that layer, `count` up
    to and including it. Active neurons are composed column by column, because a layer is wider than a row is long."""
    inputs, before, here = net.sizes[0], net.sizes[k], net.sizes[k + 1]
    bias, weight = net.bias[net.biases[k] : net.biases[k] + here], net.across[net.weights[k] :]
    if k == 0:
        first_rows(m, bias, weight, centroid, radius, inputs, here)
        return
    active = 0
    for a in range(before):
        if lower[first + a] >= 0.0 and upper[first + a] > 0.0:
            m.active[active] = a
            active += 1
    for c in range(1 + inputs + settled):
        column = m.columns[(k + 1) % 2, c]
        for i in range(here):
            column[i] = bias[i] if c == 0 else 0.0
        compose(m.columns[k % 2, c], m.active[:active], weight, column, here)
        for i in range(here):
            m.rows[i, c] = column[i]
    at = 1 + inputs + settled
    for a in range(before):
        if upper[first + a] > 0.0 and lower[first + a] < 0.0:
            for i in range(here):
                m.rows[i, at] = m.columns[(k + 1) % 2, at, i] = weight[a * here + i]
            at += 1


@compiled
def first_rows(m, bias, weight, centroid, radius, inputs, here):  # type: ignore[no-untyped-def]
    """The rows of the first layer, on the box."""
    for i in range(here):
        row = m.rows[i]
        row[0] = bias[i]
        for j in range(inputs):
            row[0] += weight[j * here + i] * centroid[j]
            row[1 + j] = weight[j * here + i] * radius[j]
        for c in range(1 + inputs):
            m.columns[1, c, i] = row[c]


@compiled
def compose(values, active, weight, column, here):  # type: ignore[no-untyped-def]
    """Add to a column of a layer what its active inputs bring along: their values in it times their weights."""
    fours = len(active) // 4
    for four in range(fours):
        p, q, r, s = active[4 * four], active[4 * four + 1], active[4 * four + 2], active[4 * four + 3]
        a, b, c, d = values[p], values[q], values[r], values[s]
        wa, wb = weight[p * here : (p + 1) * here], weight[q * here : (q + 1) * here]
        wc, wd = weight[r * here : (r + 1) * here], weight[s * here : (s + 1) * here]
        for i in range(here):
            column[i] += (a * wa[i] + b * wb[i]) + (c * wc[i] + d * wd[i])
    for p in active[4 * fours :]:
        a, wa = values[p], weight[p * here : (p + 1) * here]
        for i in range(here):
            column[i] += a * wa[i]


@compiled
def tighten(m, i, inputs, count, error, lower, upper):  # type: ignore[no-untyped-def]
    """Bounds of row i, by intervals and, if those leave it unstable, by elimination; the tighter of old and new."""
    row = m.rows[i]
    low = high = row[0]
    for column in range(1, 1 + inputs):
        m.spread[i, column - 1] = abs(row[column])
        low -= abs(row[column])
        high += abs(row[column])
    for j in range(count):
        coefficient = row[1 + inputs + j]
        if coefficient > 0.0:
            high += coefficient * m.upper[j]
        else:
            low += coefficient * m.upper[j]
    low, high = tighter(lower, upper, low - error, high + error)
    if count and low < 0.0 and high > 0.0:
        m.spread[i] = 0.0
        for sign in (1.0, -1.0):
            for column in range(1 + inputs + count):
                m.work[column] = sign * row[column]
            bound = eliminate(m, inputs, count, m.line) - error
            for column in range(1, 1 + inputs):
                m.spread[i, column - 1] += abs(m.work[column])
            if sign > 0.0:
                low, high = tighter(low, high, bound, high)
            else:
                low, high = tighter(low, high, low, -bound)
    return low, high


@compiled
def tighter(low, high, new_low, new_high):  # type: ignore[no-untyped-def]
    """The intersection of two intervals; what is not a number changes nothing, as `max` and `min` would not promise."""
    if new_low > low:
        low = new_low
    if new_high < high:
        high = new_high
    return low, high


@compiled
def register(m, i, inputs, settled, count, low, high):  # type: ignore[no-untyped-def]
    """Row i as unstable ReLU number `count`, with its two lines; the lower one has slope 1 if it is mostly active."""
    copy(m.rows[i], m.unstable[count], 1 + inputs + settled)
    copy(m.spread[i], m.reach[count], inputs)
    m.known[count] = settled
    m.lower[count], m.upper[count] = low, high
    m.slope[count] = high / (high - low)
    m.line[count] = 1.0 if high > -low else 0.0


@compiled
def hidden_layers(net, m, centroid, radius, lower, upper):  # type: ignore[no-untyped-def]
    """Tighten the bounds of all neurons, layer by layer; the property's rows are left in `m.rows`."""
    inputs, layers = net.sizes[0], len(net.sizes) - 1
    first = settled = count = 0
    for k in range(layers):
        affine_rows(net, m, k, centroid, radius, lower, upper, first, settled, count)
        if k == layers - 1:
            break
        first += net.sizes[k] * (k > 0)
        settled = count
        for i in range(net.sizes[k + 1]):
            n = first + i
            if upper[n] > 0.0 and lower[n] < 0.0:
                lower[n], upper[n] = tighten(m, i, inputs, settled, net.error[k], lower[n], upper[n])
            if upper[n] > 0.0 and lower[n] < 0.0:
                register(m, i, inputs, settled, count, lower[n], upper[n])
                count += 1
    return count


@compiled
def keep_plane(m, number, inputs, count):  # type: ignore[no-untyped-def]
    copy(m.work, m.planes[number], 1 + inputs)
    copy(m.coefficients, m.blame[number], count)


@compiled
def forget_plane(m, number):  # type: ignore[no-untyped-def]
    """A plane that cuts nothing: what a row has until a bound of it is a number."""
    m.planes[number] = 0.0
    m.planes[number, 0] = -np.inf
    m.blame[number] = 0.0


@compiled
def bound_rows(m, inputs, count, rows, steps):  # type: ignore[no-untyped-def]
    """The best lower bound of each property row and its plane, with the lower slopes optimised for it.

    Returns the number of the row with the largest bound, and that bound."""
    nearest, largest = 0, -np.inf
    for i in range(rows):
        forget_plane(m, i)
        copy(m.line, m.chosen, count)
        best, step = -np.inf, 0.5
        for _ in range(steps + 1):
            copy(m.rows[i], m.work, 1 + inputs + count)
            bound = eliminate(m, inputs, count, m.chosen)
            if bound > best:
                best = bound
                keep_plane(m, i, inputs, count)
            descend(m, inputs, count, step)
            step *= 0.6
        if best > largest:
            nearest, largest = i, best
    return nearest, largest


@compiled
def shift_weights(m, rows, rate):  # type: ignore[no-untyped-def]
    """More weight for rows with larger values: multiplied by their exponentials, and summing to 1 again."""
    largest, total = -np.inf, 0.0
    for i in range(rows):
        largest = max(largest, m.values[i])
    for i in range(rows):
        m.mixture[i] *= np.exp(rate * (m.values[i] - largest))
        total += m.mixture[i]
    for i in range(rows):
        m.mixture[i] /= total


@compiled
def bound_mixture(m, inputs, count, rows, steps):  # type: ignore[no-untyped-def]
    """The best lower bound of a convex combination of the rows: above 0, they cannot all be at most 0.

    Slopes and weights climb together; the derivative by a row's weight is its value where the bound is attained."""
    forget_plane(m, rows)
    m.mixture[:] = 1.0 / rows
    copy(m.line, m.chosen, count)
    best, step, scale = -np.inf, 0.5, 0.0
    for _ in range(steps + 1):
        m.work[: 1 + inputs + count] = 0.0
        for i in range(rows):
            for column in range(1 + inputs + count):
                m.work[column] += m.mixture[i] * m.rows[i, column]
        bound = eliminate(m, inputs, count, m.chosen)
        if bound > best:
            best = bound
            keep_plane(m, rows, inputs, count)
        descend(m, inputs, count, step)
        for i in range(rows):
            m.values[i] = at_corner(m.rows[i], m.work, inputs)
            for j in range(count):
                m.values[i] += m.rows[i, 1 + inputs + j] * m.solution[j]
        if scale == 0.0:
            for i in range(rows):
                scale = max(scale, abs(m.values[i]))
        if scale > 0.0:
            shift_weights(m, rows, 3.0 * step / scale)
        step *= 0.8
    return best


@compiled
def clip(m, inputs, planes, error, low, high):  # type: ignore[no-untyped-def]
    """Shrink the box `low <= e <= high` to where no plane exceeds the error: elsewhere a row is positive.

    False if nothing is left. Twice, because one plane's cut helps another."""
    for _ in range(2):
        for p in range(planes):
            plane = m.planes[p]
            least = plane[0]
            for j in range(inputs):
                least += min(plane[1 + j] * low[j], plane[1 + j] * high[j])
            if least > error:
                return False
            for j in range(inputs):
                slope = plane[1 + j]
                rest = least - min(slope * low[j], slope * high[j])
                end = (2.0 * error - rest) / slope if slope != 0.0 else 0.0
                if slope > 0.0:
                    low[j], high[j] = tighter(low[j], high[j], low[j], end + 1e-9)
                elif slope < 0.0:
                    low[j], high[j] = tighter(low[j], high[j], end - 1e-9, high[j])
                if low[j] > high[j]:
                    return False
                least = rest + min(slope * low[j], slope * high[j])
    return True


@compiled
def widest(m, inputs, count, plane, low, high):  # type: ignore[no-untyped-def]
    """The input whose halving should help most: its share in what the lines of unstable ReLUs give away (ten parts),
    and in the movement of the plane (one part)."""
    m.gain[:] = 0.0
    m.loss[:] = 0.0
    for j in range(count):
        coefficient = m.blame[plane, j]
        if coefficient > 0.0:
            given = coefficient * min(m.upper[j], -m.lower[j])
        else:
            given = coefficient * m.slope[j] * m.lower[j]
        reach = 0.0
        for i in range(inputs):
            reach += m.reach[j, i]
        if reach > 0.0:
            for i in range(inputs):
                m.loss[i] += given * m.reach[j, i] / reach
    moved = lost = 0.0
    for i in range(inputs):
        moved += abs(m.planes[plane, 1 + i])
        lost += m.loss[i]
    best, most = 0, -1.0
    for i in range(inputs):
        if moved > 0.0:
            m.gain[i] += abs(m.planes[plane, 1 + i]) / moved
        if lost > 0.0:
            m.gain[i] += 10.0 * m.loss[i] / lost
        if m.gain[i] * (high[i] - low[i]) > most:
            best, most = i, m.gain[i] * (high[i] - low[i])
    return best


@compiled
def bound_box(net, m, steps, low_x, high_x, lower, upper, point):  # type: ignore[no-untyped-def]
    """Bound one box: (state, input to halve, largest bound, unstable ReLUs).

    What is found is left in the arguments: the box shrunk to where it can be unsafe, tighter bounds of its neurons,
    and the corner where its best bound is attained."""
    inputs, rows = net.sizes[0], net.sizes[-1]
    error = net.error[-1]
    centroid, radius, low, high = m.centroid, m.radius, m.low, m.high
    for j in range(inputs):
        centroid[j] = low_x[j] + (0.5 * high_x[j] - 0.5 * low_x[j])
        radius[j] = max(high_x[j] - centroid[j], centroid[j] - low_x[j]) * (1.0 + 1e-15)
        low[j], high[j] = -1.0, 1.0
    count = hidden_layers(net, m, centroid, radius, lower, upper)
    nearest, largest = bound_rows(m, inputs, count, rows, steps)
    planes = rows
    if largest <= error and rows > 1:
        planes += 1
        mixed = bound_mixture(m, inputs, count, rows, 2 * steps + 2)
        if mixed > largest:
            nearest, largest = rows, mixed
    if largest > error:
        return PROVED, 0, largest, count
    if not clip(m, inputs, planes, error, low, high):
        return PROVED, 0, largest, count
    split = widest(m, inputs, count, nearest, low, high) if inputs else 0
    for j in range(inputs):
        point[j] = low_x[j] if m.planes[nearest, 1 + j] > 0.0 else high_x[j]
        guard = 1e-15 * (abs(centroid[j]) + radius[j])
        low_x[j] = max(low_x[j], centroid[j] + low[j] * radius[j] - guard)
        high_x[j] = min(high_x[j], centroid[j] + high[j] * radius[j] + guard)
    return OPEN, split, largest, count


@compiled
def worst_row(net, m, x):  # type: ignore[no-untyped-def]
    """The largest property row at an input: at most 0 where it is unsafe. The columns of `m` serve as memory."""
    values, others = m.columns[0, 0], m.columns[1, 0]
    for i in range(net.sizes[0]):
        values[i] = x[i]
    largest = -np.inf
    for k in range(len(net.sizes) - 1):
        for i in range(net.sizes[k + 1]):
            value = net.bias[net.biases[k] + i]
            for a in range(net.sizes[k]):
                value += net.weight[net.weights[k] + i * net.sizes[k] + a] * values[a]
            others[i] = max(value, 0.0)
            if k == len(net.sizes) - 2:
                largest = max(largest, value)
        values, others = others, values
    return largest


@compiled
def bound_boxes(net, m, steps, low_x, high_x, lower, upper, points, states, splits, bounds, slacks):  # type: ignore[no-untyped-def]
    """`bound_box` for each row of the arguments; the corner or the centroid, whichever is worse, goes to `points`.

    Returns the unstable ReLUs of all boxes together."""
    unstable = 0
    for b in range(len(states)):
        states[b], splits[b], bounds[b], count = bound_box(
            net, m, steps, low_x[b], high_x[b], lower[b], upper[b], points[b]
        )
        unstable += count
        if states[b] == OPEN:
            slacks[b] = worst_row(net, m, points[b])
            for j in range(net.sizes[0]):
                m.middle[j] = low_x[b, j] + (0.5 * high_x[b, j] - 0.5 * low_x[b, j])
            other = worst_row(net, m, m.middle)
            if other < slacks[b]:
                copy(m.middle, points[b], net.sizes[0])
                slacks[b] = other
    return unstable

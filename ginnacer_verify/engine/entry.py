"""The way into the compiled part of the engine from outside: plain numbers and addresses of arrays."""

from numba import carray

from ginnacer_verify.engine.kernel import bound_boxes
from ginnacer_verify.engine.memory import memory_in
from ginnacer_verify.engine.net import Net


def boxes(  # type: ignore[no-untyped-def]
    sizes, weights, biases, layers, weight, across, bias, parameters, error,
    columns, layer, unstable, spread, reach, planes, blame, numbers, counts, widest, relus,
    steps, count, low_x, high_x, lower, upper, points, states, splits, bounds, slacks,
):  # fmt: skip
    """`bound_boxes` with arrays as addresses: what `machine_code` compiles."""
    sizes = carray(sizes, (layers + 1,))
    inputs, rows = sizes[0], sizes[layers]
    width = 1 + inputs + relus
    net = Net(
        sizes,
        carray(weights, (layers,)),
        carray(biases, (layers,)),
        carray(weight, (parameters,)),
        carray(across, (parameters,)),
        carray(bias, (relus + rows,)),
        carray(error, (layers,)),
    )
    memory = memory_in(
        carray(columns, (2, width, widest)),
        carray(layer, (widest, width)),
        carray(unstable, (relus, width)),
        carray(spread, (widest, inputs)),
        carray(reach, (relus, inputs)),
        carray(planes, (rows + 1, 1 + inputs)),
        carray(blame, (rows + 1, relus)),
        carray(numbers, (7 * relus + width + 2 * rows + 7 * inputs,)),
        carray(counts, (relus + widest,)),
        rows,
    )
    return bound_boxes(
        net,
        memory,
        steps,
        carray(low_x, (count, inputs)),
        carray(high_x, (count, inputs)),
        carray(lower, (count, relus)),
        carray(upper, (count, relus)),
        carray(points, (count, inputs)),
        carray(states, (count,)),
        carray(splits, (count,)),
        carray(bounds, (count,)),
        carray(slacks, (count,)),
    )

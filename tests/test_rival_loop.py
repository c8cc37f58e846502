"""The loop on a rival: never a wrong verdict, most small cases decided; what the solver is asked is an abstraction."""

import numpy as np
import pytest
from cases import BY_HAND, Case, random_case

from ginnacer_verify.arrays import Array
from ginnacer_verify.engines.refinement.loop import verify
from ginnacer_verify.engines.refinement.merged import MERGES, Merged, Merging, one_output
from ginnacer_verify.engines.verdict import Undecided
from ginnacer_verify.errors import InputError
from ginnacer_verify.graph.network import Network
from ginnacer_verify.query.query import Query
from ginnacer_verify.rivals.elboher import network_abstraction
from ginnacer_verify.rivals.interval_query import interval_relational
from ginnacer_verify.rivals.prabhakar import interval_network

CASES = [*BY_HAND, *(random_case(seed) for seed in range(16))]
RIVALS = (*MERGES, "linear")


@pytest.mark.parametrize("rival", RIVALS)
def test_no_verdict_is_wrong_and_most_cases_are_decided(rival: str) -> None:
    decided = 0
    for case in CASES:
        verdict = verify(case.network, case.prop, abstraction=rival, timeout=2.0, restarts=0)
        if isinstance(verdict, Undecided):
            assert verdict.reason, case.name
        else:
            assert verdict.word == case.expected, case.name
            decided += 1
    assert decided >= 0.75 * len(CASES)


def test_an_attack_goes_before_the_rival() -> None:
    case = next(case for case in BY_HAND if case.expected == "sat")
    verdict = verify(case.network, case.prop, abstraction="elboher", timeout=10.0)
    assert verdict.word == "sat"
    assert verdict.statistics.rounds == 0


@pytest.mark.parametrize("seed", range(6))
def test_every_run_of_the_network_is_a_solution_but_for_the_property(seed: int) -> None:
    """What a solver is asked contains the network: at any input, some values of the abstraction are no larger."""
    case = random_case(seed)
    for number, disjunct in enumerate(case.prop.disjuncts):
        network, error = one_output(case.network, disjunct, disjunct.box)
        for kind, merge in MERGES.items():
            merging = merge(network, np.random.default_rng(number))
            for _ in range(4):
                query = Merged(merging, disjunct.box, disjunct, error).query
                for x in disjunct.box.sample(np.random.default_rng(seed), 10):
                    assert least(query, x[list(disjunct.box.varying)]) <= float(network(x)[0]) + 1e-6, kind
                merging = merging.refined(disjunct.box.middle, 2)


def least(query: Query, x: Array) -> float:
    """The least excess of the unsafe rows with the inputs fixed, by HiGHS."""
    import highspy

    from ginnacer_verify.emit.milp import excess_column, milp_blocks

    model = highspy.Highs()
    model.setOptionValue("output_flag", False)
    nothing = np.zeros(0, dtype=np.int32)
    for block in milp_blocks(query):
        first, count = model.getNumCol(), len(block.lower)
        upper = block.upper.copy()
        if first == 0:
            upper[excess_column(query.base)] = np.inf
        model.addCols(count, np.zeros(count), block.lower, upper, 0, nothing, nothing, np.zeros(0))
        for column in np.flatnonzero(block.integer):
            model.changeColIntegrality(first + int(column), highspy.HighsVarType.kInteger)
        rows = block.rows
        starts, indices = rows.indptr[:-1].astype(np.int32), rows.indices.astype(np.int32)
        model.addRows(len(block.row_lower), block.row_lower, block.row_upper, rows.nnz, starts, indices, rows.data)
    for place, value in enumerate(x):
        model.changeColBounds(place, float(value), float(value))
    model.changeColCost(excess_column(query.base), 1.0)
    model.run()
    assert model.getModelStatus().name == "kOptimal"
    return float(model.getInfo().objective_function_value)


def test_one_output_is_unsafe_where_all_rows_are() -> None:
    case = next(case for case in BY_HAND if case.name == "both signs")
    disjunct = case.prop.disjuncts[0]
    network, error = one_output(case.network, disjunct, disjunct.box)
    assert network.outputs == 1
    for x in disjunct.box.sample(np.random.default_rng(0), 200):
        rows = disjunct.outputs.matrix @ case.network(x) - disjunct.outputs.offset
        assert (float(network(x)[0]) <= error[0]) == bool((rows <= 0).all())


def test_merging_everything_has_few_relus_and_refining_more() -> None:
    case: Case = random_case(2)
    network, _ = one_output(case.network, case.prop.disjuncts[0], case.prop.boxes[0])
    start: Merging = interval_network(network, [1] * (len(network.layers) - 1))
    assert start.relus_per_layer == (1,) * (len(network.layers) - 1)
    assert max(network_abstraction(network, [1] * (len(network.layers) - 1)).relus_per_layer) <= 4


def test_an_unmerged_interval_network_has_no_room() -> None:
    """Then every d is only rounding, and the query is the network's."""
    case: Case = random_case(0)
    network: Network = case.network
    box, disjunct = case.prop.boxes[0], case.prop.disjuncts[0]
    relational = interval_relational(
        interval_network(network, network.relus_per_layer), box, disjunct.inputs, np.zeros(1)
    )
    assert (relational.box.upper[box.inputs :] < 1e-9).all()


def test_an_unknown_rival_is_refused() -> None:
    case = BY_HAND[0]
    with pytest.raises(InputError, match="elboher"):
        verify(case.network, case.prop, abstraction="magic")

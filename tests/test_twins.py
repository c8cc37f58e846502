"""The set vnnlib/twins: its verdicts were decided by HiGHS, on a program that owes nothing to the package."""

from pathlib import Path

import pytest

import ginnacer_verify as gv
from ginnacer_verify.bench.instances import Instance, read_instances
from ginnacer_verify.replay.joint import subject
from ginnacer_verify.replay.judge import Counterexample, Judge

LIST = Path(__file__).resolve().parent.parent / "vnnlib" / "twins" / "instances.csv"
INSTANCES = read_instances(LIST)


def test_both_verdicts_occur() -> None:
    assert {instance.expected for instance in INSTANCES} == {"sat", "unsat"}
    assert len(INSTANCES) >= 15


@pytest.mark.parametrize("instance", INSTANCES, ids=lambda instance: instance.prop)
def test_verdicts(instance: Instance) -> None:
    networks = {name: gv.load(file) for name, file in instance.network_files.items()}
    prop = gv.read_vnnlib(instance.property_file)
    verdict = gv.verify(networks, prop, timeout=60)
    assert verdict.word == instance.expected
    if verdict.counterexample is not None:
        assert isinstance(Judge(subject(networks, prop), prop)(verdict.counterexample.x), Counterexample)

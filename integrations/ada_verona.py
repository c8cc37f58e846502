"""ginnacer-verify as a complete verifier of auto-verify and ada-verona.

Their `CompleteVerifier` is asked to verify a network file against a property file within a time limit, and answers with
a result word, what it took and a counterexample. If the package is installed, `Ginnacer` derives from its class."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ginnacer_verify as gv
from ginnacer_verify.errors import GinnacerError
from ginnacer_verify.replay.witness import witness_text

try:
    from autoverify.verifier.verifier import CompleteVerifier as Base
except ImportError:
    Base = object

WORDS = {"unsat": "UNSAT", "sat": "SAT", "unknown": "UNKNOWN", "timeout": "TIMEOUT"}


@dataclass(frozen=True)
class CompleteVerificationData:
    """What auto-verify keeps of a run."""

    result: str
    took: float
    counter_example: str | None = None
    err: str = ""
    stdout: str = ""


class Ginnacer(Base):  # type: ignore[misc]
    """Decides a network and a property; options are those of `ginnacer_verify.verify`."""

    name = "ginnacer"

    def __init__(self, timeout: float = 600.0, **options: Any) -> None:
        self.timeout, self.options = timeout, options

    def verify_property(
        self, network: Path, property: Path, *, config: Any = None, timeout: float | None = None
    ) -> CompleteVerificationData:
        start = time.monotonic()
        try:
            prop = gv.read_vnnlib(property)
            verdict = gv.verify(network, prop, timeout=timeout or self.timeout, **self.options)
        except GinnacerError as problem:
            return CompleteVerificationData("ERR", time.monotonic() - start, err=str(problem))
        found = verdict.counterexample
        text = None if found is None else witness_text(prop, found.x, found.y)
        return CompleteVerificationData(WORDS[verdict.word], time.monotonic() - start, text, stdout=repr(verdict))

    def verify_instance(self, instance: Any, *, config: Any = None) -> CompleteVerificationData:
        return self.verify_property(instance.network, instance.property, config=config, timeout=instance.timeout)

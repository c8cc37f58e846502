"""What the loop of abstraction and refinement was asked to do: names or values, checked before anything is read."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from ginnacer_verify.abstraction.abstraction import Abstraction
from ginnacer_verify.engines.budget import Budget
from ginnacer_verify.engines.choice import ENGINES, Choice
from ginnacer_verify.engines.parts import Part
from ginnacer_verify.engines.refinement import loop
from ginnacer_verify.engines.refinement.abstracted import Options, Refine
from ginnacer_verify.engines.refinement.methods import method_named, refinement_named
from ginnacer_verify.engines.refinement.relational import INITIAL
from ginnacer_verify.engines.verdict import Verdict
from ginnacer_verify.errors import InputError
from ginnacer_verify.graph.network import Network
from ginnacer_verify.properties.property import Property
from ginnacer_verify.query.backend import Backend, backend_class

PER_ROUND = 8
"""ReLUs that are refined per round."""


@dataclass(frozen=True, eq=False)
class Asked:
    """None is the usual way: backend "highs", abstraction "relational" from "relaxed", refinement by "split"."""

    backend: str | Backend | None = None
    abstraction: str | Abstraction | None = None
    options: Options | None = None
    initial: str | None = None
    refine: str | Refine | None = None
    per_round: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.backend, str):
            backend_class(self.backend)  # refuses names that there are not
        elif self.backend is not None and not isinstance(self.backend, Backend):
            raise InputError(f"backend must be a name or a Backend, not {type(self.backend).__name__}")
        if self.initial is not None and self.initial not in INITIAL:
            raise InputError(f"initial={self.initial!r} is unknown; choose one of {', '.join(INITIAL)}")
        refinement_named(method_named(self.method), self.refine)  # refuses what does not fit
        if self.initial is not None and self.method not in ("relational", "leaning"):
            raise InputError(f"initial={self.initial!r} is for the relational abstraction, not for {self.method}")

    @property
    def method(self) -> str:
        """The name of the abstraction; one that is given as a value is the paper's."""
        if self.abstraction is None:
            return "relational"
        return "paper" if isinstance(self.abstraction, Abstraction) else self.abstraction

    def engine(self, engine: str) -> str:
        """The engine, which is the loop where only options of the loop say so; some have the loop as their finisher."""
        given = [field.name for field in fields(self) if getattr(self, field.name) is not None]
        if not given or engine not in ENGINES or engine in {"cegar", "phases", "shallow"}:
            return engine
        if engine == "auto":
            return "cegar"
        raise InputError(f"{given[0]} is for the loop, which the engine {engine} does not use: choose the engine cegar")

    def run(
        self,
        network: Network,
        prop: Property,
        choice: Choice,
        budget: Budget,
        remaining: Sequence[Part] | None = None,
        refine: str | None = None,
    ) -> Verdict:
        """The loop, on all parts of the property or on those that remain."""
        options = replace(self.options or Options(), initial=self.initial or choice.initial)
        if isinstance(self.abstraction, Abstraction):
            options = replace(options, saved=self.abstraction)
        return loop.verify(
            network,
            prop,
            timeout=budget.deadline.left,
            backend=choice.backend if self.backend is None else self.backend,
            abstraction=self.method,
            options=options,
            refine=refine or self.refine,
            per_round=self.per_round or PER_ROUND,
            seed=budget.seed,
            restarts=budget.restarts,
            observe=budget.observe,
            remaining=remaining,
        )

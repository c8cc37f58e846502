"""Setting: everything that decides what an experiment computes, apart from its code."""

import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ginnacer_verify.bench.own import own_instances
from ginnacer_verify.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
OWN = ("pade", "digits", "advisory")
PUBLIC = ("acasxu", "mnistfc", "toyadmos")
LARGE = ("vww",)
NETWORKS = (*OWN, *PUBLIC, *LARGE)
QUICK_DISTANCES = (1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0)
QUICK_TIMEOUT, TIMEOUT = 5.0, 60.0
DISTANCES = (1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


@dataclass(frozen=True)
class Setting:
    """`samples` per distance, `runs` of a timed abstraction, `inferences` per run, seconds per verification."""

    quick: bool = False
    seed: int = 0
    networks: tuple[str, ...] = NETWORKS
    samples: int = 10_000
    distances: tuple[float, ...] = DISTANCES
    runs: int = 13
    inferences: int = 1000
    timeout: float = TIMEOUT
    benchmarks: str = ""
    own: str = ""

    @classmethod
    def of(
        cls,
        *,
        quick: bool = True,
        seed: int = 0,
        networks: str | None = None,
        timeout: float | None = None,
        benchmarks: Path | None = None,
        own: Path | None = None,
    ) -> "Setting":
        """The paper's numbers, or smaller ones and no Visual Wake Words with `quick`."""
        usual = (*OWN, *PUBLIC) if quick else NETWORKS
        chosen = usual if networks is None else tuple(dict.fromkeys(networks.split(",")))
        unknown = [name for name in chosen if name not in NETWORKS]
        if unknown:
            raise InputError(f"there is no network {unknown[0]!r}; choose from {', '.join(NETWORKS)}")
        public = benchmarks or Path(os.environ.get("GINNACER_BENCHMARKS", ROOT.parent / "shared" / "benchmarks"))
        seconds = timeout or (QUICK_TIMEOUT if quick else TIMEOUT)
        full = cls(False, seed, chosen, timeout=seconds, benchmarks=str(public), own=str(own or own_instances()))
        if not quick:
            return full
        return replace(full, quick=True, samples=1000, distances=QUICK_DISTANCES, runs=5, inferences=100)

    @property
    def absent(self) -> list[str]:
        """The chosen public networks whose folders are not there."""
        return [name for name in self.networks if name not in OWN and not Path(self.benchmarks, name).is_dir()]

    def as_json(self) -> dict[str, Any]:
        """What the results depend on: where files lie does not count."""
        return {name: value for name, value in asdict(self).items() if name not in {"benchmarks", "own"}}

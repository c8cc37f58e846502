"""Random tiny networks, every abstraction with every refinement, against exhaustive enumeration.

    python benchmarks/abstractions.py [FIRST LAST [BACKEND,...]]        (0 1000 highs)

Halving boxes takes as many as the distance to the unsafe set asks for, so `bisect` is given distances of 0.05 and more.
"""

import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from cases import random_case

from ginnacer_verify.engines.refinement.loop import verify
from ginnacer_verify.engines.refinement.methods import METHODS


def main() -> None:
    given = dict(enumerate(sys.argv[1:]))
    first, last, backends = given.get(0, "0"), given.get(1, "1000"), given.get(2, "highs")
    for backend in backends.split(","):
        for name, method in METHODS.items():
            for refine in method.refinements:
                start, found = time.process_time(), Counter[str]()
                distances = (0.05, 0.25) if refine == "bisect" else (1e-3, 1e-2, 0.25)
                for seed in range(int(first), int(last)):
                    case = random_case(seed, distances)
                    verdict = verify(
                        case.network,
                        case.prop,
                        abstraction=name,
                        refine=refine,
                        backend=backend,
                        restarts=0,
                        per_round=2,
                    )
                    found["right" if verdict.word == case.expected else "open" if verdict.undecided else "WRONG"] += 1
                print(backend, name, refine, dict(found), f"{time.process_time() - start:.1f} s CPU", flush=True)


if __name__ == "__main__":
    main()

"""Any command line that reads ONNX and VNN-LIB as a backend of the loop: it is asked about pairs of files."""

import tempfile
import time
from pathlib import Path

from ginnacer_verify.bench.limits import Outcome, run_limited
from ginnacer_verify.bench.tools import Tool, read_tools
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.emit.pair import QueryPair, query_pair
from ginnacer_verify.errors import InputError, NetworkError, WitnessError
from ginnacer_verify.properties.write import to_vnnlib
from ginnacer_verify.query.process import out_of_time
from ginnacer_verify.query.query import Answer, Query, Sat, Unknown, Unsat
from ginnacer_verify.replay.witness import parse_witness


class ToolBackend:
    """Writes `abstract.onnx` and `abstract.vnnlib`, runs the command, and reads its verdict and its witness."""

    requires: tuple[str, ...] = ()
    install = "see the tool's own page"
    complete = True

    def __init__(self, tool: Tool) -> None:
        self.tool, self.name = tool, tool.name

    @classmethod
    def read(cls, path: Path) -> "ToolBackend":
        """The one tool of a TOML file, as `ginnacer bench run --tools` takes it."""
        tools = read_tools(path)
        if len(tools) != 1:
            raise InputError(f"{path} has {len(tools)} tools: a backend is one of them")
        return cls(tools[0])

    def solve(self, query: Query, *, timeout: float) -> Answer:
        deadline = Deadline.after(timeout)
        if deadline.passed:
            return out_of_time(self.name)
        try:
            pair = query_pair(query)
        except NetworkError:
            return Unknown(
                f"a number of the query is too large for the files that {self.name} reads; try another backend"
            )
        with tempfile.TemporaryDirectory(prefix="ginnacer-tool-") as folder:
            outcome, result = self._run(pair, Path(folder), deadline)
        verdict, reason, *_ = self.tool.read(outcome, result)
        if outcome.ended == "timeout" or verdict == "timeout":
            return out_of_time(self.name)
        if verdict == "unsat":
            return Unsat()
        if verdict != "sat":
            return Unknown(f"{self.name} says {verdict}{': ' + reason if reason else ''}; try another backend")
        return self._witness(pair, result if self.tool.writes_result else outcome.stdout)

    def _run(self, pair: QueryPair, folder: Path, deadline: Deadline) -> tuple[Outcome, str]:
        network, prop, result = (folder / name for name in ("abstract.onnx", "abstract.vnnlib", "result.txt"))
        network.write_bytes(pair.model)
        prop.write_text(to_vnnlib(pair.prop), encoding="utf-8")
        left = deadline.left
        places = {
            "network": str(network),
            "property": str(prop),
            "timeout": str(max(1, int(left))),
            "category": "ginnacer",
            "threads": "1",
            "result": str(result),
            "since": f"{time.time():.3f}",
        }
        outcome = run_limited(self.tool.filled(places), timeout=left)
        return outcome, result.read_text(errors="replace") if result.exists() else ""

    def _witness(self, pair: QueryPair, text: str) -> Answer:
        """The solution that the tool wrote behind its `sat`."""
        _, found, rest = ("\n" + text).partition("\nsat")
        try:
            x = parse_witness(rest if found else text, pair.prop, source=self.name)
        except WitnessError as problem:
            return Unknown(f"{self.name} says sat and gives no counterexample to refine with ({problem})")
        return Sat(pair.z(pair.prop.boxes[0].clip(x)), room=pair.room)

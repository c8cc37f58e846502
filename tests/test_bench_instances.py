"""Reading and choosing instances, and what tools say."""

from itertools import chain
from pathlib import Path

import pytest
from bench_lists import write_list

from benchmarks import benchmark
from ginnacer_verify.bench.instances import Instance, networks, read_instances, select
from ginnacer_verify.bench.limits import Outcome
from ginnacer_verify.bench.tools import Tool, marabou, ours, read_tools, seconds_for, trace_of
from ginnacer_verify.errors import InputError


def test_a_list_without_a_last_newline_is_read_whole(tmp_path: Path) -> None:
    path = write_list(tmp_path / "some", ["sat", "unsat", "unknown"], expected=["sat", "unknown", "unsat"])
    instances = read_instances(path)
    assert [instance.prop for instance in instances] == ["prop_0.vnnlib", "prop_1.vnnlib", "prop_2.vnnlib"]
    assert [instance.expected for instance in instances] == ["sat", "", "unsat"]
    assert {instance.category for instance in instances} == {"some"}
    assert {instance.timeout for instance in read_instances(path, timeout=7)} == {7}


@pytest.mark.parametrize(("name", "count", "known"), [("acasxu", 186, 186), ("mnistfc", 90, 63)])
def test_public_lists(name: str, count: int, known: int) -> None:
    instances = read_instances(benchmark(name, "instances.csv"))
    assert len(instances) == len({instance.key for instance in instances}) == count
    assert sum(bool(instance.expected) for instance in instances) == known


def test_a_line_that_comes_twice_is_one_instance(tmp_path: Path) -> None:
    path = write_list(tmp_path, ["sat"])
    path.write_text(path.read_text() + "\n" + path.read_text() + "\n")
    assert len(read_instances(path)) == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no instances"),
        ("net.onnx", "network,property,timeout"),
        ("net.onnx,prop_0.vnnlib,soon", "seconds"),
        ("net.onnx,prop_0.vnnlib,-1", "seconds"),
        ("net.onnx,prop_9.vnnlib,5", "prop_9.vnnlib is not in"),
        ("[('f','net.onnx'),prop_0.vnnlib,5", "list of networks"),
    ],
)
def test_what_is_no_list_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = write_list(tmp_path, ["sat"])
    path.write_text(text)
    with pytest.raises(InputError, match=problem):
        read_instances(path)


def test_a_file_of_verdicts_that_is_asked_for_knows_some(tmp_path: Path) -> None:
    path = write_list(tmp_path, ["sat"])
    (tmp_path / "other.csv").write_text("nonsense\nnet.onnx,prop_0.vnnlib,unknown\n")
    with pytest.raises(InputError, match=r"other\.csv knows no verdict"):
        read_instances(path, expected=tmp_path / "other.csv")


def test_options_that_are_no_words_are_refused() -> None:
    with pytest.raises(InputError, match="No closing quotation"):
        ours("--backend 'highs")


def test_compressed_files_are_found(tmp_path: Path) -> None:
    path = write_list(tmp_path, ["sat"])
    (tmp_path / "prop_0.vnnlib").rename(tmp_path / "prop_0.vnnlib.gz")
    assert read_instances(path)[0].property_file.name == "prop_0.vnnlib.gz"


def test_lists_of_networks(tmp_path: Path) -> None:
    path = write_list(tmp_path, ["sat", "sat"])
    path.write_text("[('f','net.onnx')],prop_0.vnnlib,5\n\"[('f', 'net.onnx'), ('g', 'net.onnx')]\",prop_1.vnnlib,5\n")
    one, two = read_instances(path)
    assert networks(two.network) == [("f", "net.onnx"), ("g", "net.onnx")]
    assert one.network_files == {"f": tmp_path / "net.onnx"}
    assert two.network_files == {"f": tmp_path / "net.onnx", "g": tmp_path / "net.onnx"}


def test_shares_are_disjoint_and_complete() -> None:
    instances = [Instance("c", "n", f"p{number}", 1.0, Path()) for number in range(23)]
    shares = [select(instances, every=2, shard=(part, 5)) for part in range(1, 6)]
    assert sorted(chain(*shares), key=instances.index) == instances[::2]
    assert [instance.prop for instance in select(instances, every=6)] == ["p0", "p6", "p12", "p18"]
    assert [instance.prop for instance in select(instances, every=6, first=2)] == ["p0", "p6"]


def outcome(stdout: str = "", stderr: str = "", code: int = 0) -> Outcome:
    return Outcome("", code, stdout, stderr, 0.1, 0)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("unsat\n", "unsat"),
        ("some noise about SAT\nsat\nx0 = 3\n", "sat"),
        ("holds", "unsat"),
        ("timed-out", "timeout"),
        ("sat\nunsat\n", "error"),
        ("UNSAT", "error"),
        ("unsatisfiable", "error"),
        ("the answer is unsat", "error"),
        ("", "error"),
    ],
)
def test_a_verdict_is_a_whole_line(text: str, verdict: str) -> None:
    assert Tool("t", ("t",)).read(outcome(text), "")[0] == verdict


@pytest.mark.parametrize(("text", "verdict"), [("Result: SAFE", "unsat"), ("Result: UNSAFE", "sat"), ("SAFE", "error")])
def test_a_verdict_by_pattern_and_words(tmp_path: Path, text: str, verdict: str) -> None:
    path = tmp_path / "tools.toml"
    path.write_text(
        "[t]\ncommand = ['t', '{network}', '{property}']\nverdict = 'Result: (\\w+)'\n"
        "words = { SAFE = 'unsat', UNSAFE = 'sat' }\n"
    )
    (tool,) = read_tools(path)
    assert tool.read(outcome(f"Result: UNKNOWN\n{text}" if verdict != "error" else text), "")[0] == verdict


def test_a_verdict_from_a_result_file_is_its_first_line() -> None:
    tool = Tool("t", ("t", "{result}"))
    assert tool.read(outcome("unsat\n"), "sat\n((X_0 1.0))\n")[0] == "sat"
    assert tool.read(outcome("unsat\n"), "")[0] == "error"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no tools"),
        ("x = 3", "table"),
        ("[ginnacer]\ncommand = '{network} {property}'", "another name"),
        ("[t]\ncommand = '{network}'", "{property}"),
        ("[t]\ncommand = 3", "command"),
        ("[t]\ncommand = '{network} {property}'\ncolour = 1", "colour"),
        ("[t]\ncommand = '{network} {property}'\nverdict = 'no group'", "one group"),
        ("[t]\ncommand = '{network} {property}'\nverdict = '('", "regular expression"),
        ("[t]\ncommand = '{network} {property}'\nwords = { a = 'b' }", "words"),
        ("not toml", "cannot be read"),
    ],
)
def test_what_is_no_tool_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "tools.toml").write_text(text)
    with pytest.raises(InputError, match=problem):
        read_tools(tmp_path / "tools.toml")


def test_places_are_filled_in_and_nothing_else() -> None:
    tool = Tool("t", ("run", "--net={network}", "{property}", "{other}"))
    assert tool.filled({"network": "a{property}", "property": "p"}) == ["run", "--net=a{property}", "p", "{other}"]


def test_our_document_is_read() -> None:
    document = '{"verdict": "unknown", "reason": "why", "seconds": 1.5}'
    trace = '{"round": 1, "box": {}}\na message\n{"round": 2}\n{"rou'
    verdict, reason, details, records = ours().read(outcome(document, trace, 1), "")
    assert (verdict, reason, details["seconds"], records) == ("unknown", "why", 1.5, [{"round": 1}, {"round": 2}])
    assert ours().read(outcome('{"error": "no such file"}', "", 2), "")[:2] == ("error", "no such file")
    assert ours().read(outcome("", "Segmentation fault", -11), "")[0] == "error"
    assert ours().read(outcome("", trace, -9), "")[3] == [{"round": 1}, {"round": 2}], "killed, but it left a trace"
    assert ours().read(outcome('{"verdict": "perhaps"}'), "")[0] == "error"


def test_long_traces_are_thinned_with_their_ends_kept() -> None:
    records = trace_of([f'{{"round": {number}}}' for number in range(5000)])
    assert len(records) == 300
    assert (records[0]["round"], records[-1]["round"]) == (0, 4999)


def test_what_tools_are_told_about_time() -> None:
    pytest.importorskip("maraboupy")
    assert float(seconds_for(ours(), 116)) == 115
    assert 0 < float(seconds_for(ours(), 0.5)) < 0.5
    assert seconds_for(marabou(), 0.5) == "1"

"""The report: its numbers, and the page as Chromium shows it."""

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench_lists import call, journal, write_list, write_tool
from chromium import Chromium

from ginnacer_verify.bench.report import document, page, read_folders
from ginnacer_verify.bench.results import Journal, Row
from ginnacer_verify.bench.scores import competition
from ginnacer_verify.cli import main
from ginnacer_verify.errors import InputError

TOOLS = ("ginnacer", "other", "third")


def rounds(count: int) -> list[dict[str, Any]]:
    """A trace of the loop."""
    return [
        {"round": n + 1, "kept_per_layer": [n, 2 * n], "unstable_per_layer": [60, 60], "bound": 5.0 - n, "seconds": 0.1}
        for n in range(count)
    ]


def results(count: int, *, wrong: int = 0) -> list[Row]:
    """Results of three tools on so many instances; the second is wrong on the first `wrong` ones."""
    rng, rows = random.Random(7), []
    for number in range(count):
        truth = "sat" if number % 3 == 0 else "unsat"
        for place, tool in enumerate(TOOLS):
            seconds = rng.lognormvariate(place, 1.5)
            verdict = "timeout" if seconds > 60 else truth
            if number < wrong and place == 1:
                verdict, seconds = ("unsat" if truth == "sat" else "sat"), 1.0
            place_names = f"set{number % 2}", f"net_{number % 7}.onnx", f"prop_{number}.vnnlib"
            trace = rounds(5) if place == 0 else []
            rows.append(Row(*place_names, tool, verdict, min(seconds, 60.0), 60.0, expected=truth, trace=trace))
    return rows


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with Chromium() as browser:
        yield browser


def show(browser: Chromium, folder: Path, rows: list[Row], address: str = "") -> None:
    path = folder / "report.html"
    path.write_text(page(rows, title="A <title> & more"))
    browser.problems.clear()
    browser.open(path.as_uri() + address)


def first_rows(browser: Chromium, column: int) -> list[str]:
    cells = f"[...document.querySelectorAll('tr.row')].slice(0, 5).map(row => row.cells[{column}].innerText)"
    return [str(text) for text in browser.run(cells)]


def test_a_page_with_ten_thousand_rows(browser: Chromium, tmp_path: Path) -> None:
    rows = results(10_000, wrong=3)
    show(browser, tmp_path, rows)
    assert browser.run("document.getElementById('count').innerText") == "10000 of 10000 instances"
    assert browser.run("document.querySelector('h1').innerText") == "A <title> & more"
    assert browser.run("document.querySelectorAll('tr.row').length") < 100, "only what is in sight is drawn"
    assert "3 instances with a wrong or conflicting verdict" in browser.run(
        "document.getElementById('alarm').innerText"
    )
    assert browser.run("document.querySelectorAll('#cactus path, #scatter path').length") > 6
    # Sorted by the first tool's time: what it did not solve comes last.
    browser.run("document.querySelectorAll('th button')[5].click()")
    fastest = sorted(row.seconds for row in rows if row.tool == "ginnacer" and row.verdict != "timeout")
    assert [text.lstrip("unsat") for text in first_rows(browser, 5)] == [f"{time:.2f} s" for time in fastest[:5]]
    browser.run("document.querySelectorAll('th button')[5].click()")
    assert all("timeout" in text for text in first_rows(browser, 5))
    browser.run("document.querySelectorAll('th button')[3].click()")
    assert first_rows(browser, 3) == [f"prop_{number}.vnnlib" for number in range(5)], "numbers sort as numbers"
    # To the end of the list.
    browser.run(
        "(async () => { const s = document.getElementById('scroll'); s.scrollTop = s.scrollHeight;"
        " await new Promise(requestAnimationFrame); await new Promise(requestAnimationFrame); })()"
    )
    assert "prop_9999.vnnlib" in browser.run("document.getElementById('table').innerText")
    assert browser.problems == []
    assert browser.run("performance.getEntriesByType('resource').length") == 0, "nothing is loaded"


def test_filters(browser: Chromium, tmp_path: Path) -> None:
    show(browser, tmp_path, results(40, wrong=2))

    def count(script: str) -> str:
        browser.run(script)
        return str(browser.run("document.getElementById('count').innerText"))

    change = "dispatchEvent(new Event('change'))"
    write = "(t => { const e = document.getElementById('text'); e.value = t; e.dispatchEvent(new Event('input')); })"
    choose = "((id, i) => { const e = document.getElementById(id); e.selectedIndex = i; e." + change + "; })"
    assert count(f"{write}('NET_3 prop_1')") == "2 of 40 instances"
    assert first_rows(browser, 3) == ["prop_10.vnnlib", "prop_17.vnnlib"]
    assert count(f"{write}('')") == "40 of 40 instances"
    assert count(f"{choose}('category', 1)") == "20 of 40 instances"
    assert count(f"{choose}('category', 0)") == "40 of 40 instances"
    assert count(f"{choose}('verdict', 7)") == "2 of 40 instances"
    assert count(f"{write}('nothing of the kind')") == "0 of 40 instances"
    assert browser.problems == []


def test_the_tool_card_follows_the_filter_and_compares_on_the_same_instances(browser: Chromium, tmp_path: Path) -> None:
    rows = results(40)
    show(browser, tmp_path, [row for row in rows if not (row.tool == "third" and row.property == "prop_0.vnnlib")])

    def cells(tool: int) -> list[str]:
        script = f"[...document.querySelectorAll('#scores tbody tr')[{tool}].cells].map(cell => cell.innerText)"
        return [str(text) for text in browser.run(script)]

    assert cells(0)[2].endswith(" of 39")
    assert "39 instances that all tools ran; 1 in sight" in browser.run("document.getElementById('scores').innerText")
    assert len(cells(0)) == 11
    write = "(t => { const e = document.getElementById('text'); e.value = t; e.dispatchEvent(new Event('input')); })"
    browser.run(f"{write}('prop_1')")
    own = [row for row in rows if row.tool == "other" and row.property.startswith("prop_1")]
    solved = [row for row in own if row.verdict in ("sat", "unsat")]
    assert cells(1)[2] == f"{len(solved)} of {len(own)}"
    par2 = sum(row.seconds if row in solved else 2 * row.timeout for row in own)
    assert cells(1)[8] == f"{par2:.1f}"
    assert len(cells(0)) == 10, "the competition's score is that of the whole set"
    browser.run(f"{write}('nothing of the kind')")
    assert cells(0)[2] == "0 of 0"
    assert browser.problems == []


def test_a_counterexample_is_shown(browser: Chromium, tmp_path: Path) -> None:
    found = {"counterexample": {"x": [number / 64 for number in range(64)], "y": [1.5, -2.0]}}
    row = Row("c", "net.onnx", "prop.vnnlib", "ginnacer", "sat", 1.0, 60.0, details=found)
    show(browser, tmp_path, [row], "#1")
    text = browser.run("document.getElementById('details').innerText")
    assert "1.5, -2" in text
    assert "64 inputs" in text
    assert browser.run("document.querySelector('canvas.witness').width") == 8
    assert browser.problems == []
    large = {"counterexample": {"x": [0.0] * 500_000, "y": [0.0]}}
    document_ = document([Row("c", "n", "p", "ginnacer", "sat", 1.0, 60.0, details=large)], "")
    assert document_["rows"][0]["runs"][0]["witness"] is None


def test_narrow_pages_do_not_overflow(browser: Chromium, tmp_path: Path) -> None:
    show(browser, tmp_path, results(10))
    cards = "[...document.querySelectorAll('.card')].every(one => getComputedStyle(one).minWidth === '0px')"
    assert browser.run(cards)
    assert browser.run("getComputedStyle(document.getElementById('scores')).overflowX") == "auto"


def test_a_trace_opens_and_a_picture_is_taken(browser: Chromium, tmp_path: Path) -> None:
    show(browser, tmp_path, results(40))
    assert (
        browser.run("document.getElementById('alarm').innerText") == "No wrong verdict and no conflict between tools."
    )
    assert browser.run("document.getElementById('details').hidden")
    browser.run("document.querySelectorAll('tr.row')[2].click()")
    text = browser.run("document.getElementById('details').innerText")
    assert "prop_2.vnnlib" in text
    assert "ReLUs kept" in browser.run("document.getElementById('details').textContent")
    assert browser.run("document.querySelectorAll('#details .trace svg').length") == 3
    browser.screenshot(tmp_path / "page.png")
    assert (tmp_path / "page.png").read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "page.png").stat().st_size > 20_000, "not an empty page"
    browser.run("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}))")
    assert browser.run("document.getElementById('details').hidden")
    show(browser, tmp_path, results(40), "#7")
    assert "prop_6.vnnlib" in browser.run("document.getElementById('details').innerText")
    assert browser.problems == []


def test_one_tool_without_known_verdicts(browser: Chromium, tmp_path: Path) -> None:
    rows = [Row("c", "n", f"p{number}", "ginnacer", "timeout", 60.0, 60.0) for number in range(3)]
    show(browser, tmp_path, rows)
    assert browser.run("document.getElementById('cactus').innerText") == "Nothing is solved."
    assert browser.run("document.getElementById('scatter').parentElement.hidden")
    assert browser.problems == []


def test_text_of_results_cannot_become_part_of_the_page() -> None:
    row = Row("c", "n</script><script>alert(1)</script>", "p", "t", "error", 1.0, 1.0, reason="<b>")
    html = page([row], title="t")
    assert html.count("<script") == 2
    assert not re.search(r"(src|href)=", html)


def test_the_numbers_of_the_page() -> None:
    found = document(results(10, wrong=1), "about")
    assert found["tools"] == list(TOOLS)
    assert [entry["position"] for entry in found["rows"]] == list(range(1, 11))
    assert [score["count"] for score in found["scores"]] == [10, 10, 10]
    assert found["scores"][1]["wrong"] == 1
    series = found["rows"][0]["runs"][0]["trace"][0]["series"]
    assert series[0]["values"] == [0, 3, 6, 9, 12]


def test_the_score_of_the_competition_by_hand() -> None:
    def row(category: str, tool: str, prop: str, verdict: str) -> Row:
        return Row(category, "n", prop, tool, verdict, 1.0, 60.0, expected="sat")

    rows = [
        row("one", "a", "1", "sat"),
        row("one", "a", "2", "sat"),
        row("one", "b", "1", "sat"),
        row("one", "b", "2", "timeout"),
    ]
    rows += [row("two", "a", "1", "unsat"), row("two", "b", "1", "sat")]
    assert competition(rows) == {"a": 100.0, "b": 150.0}


def test_folders_with_shares_and_folders_to_compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_list(tmp_path / "list", ["sat", "unsat"])
    tools = write_tool(tmp_path)
    for part in ("1/2", "2/2"):
        call(path, "-o", tmp_path / "old", "--tools", tools, "--only-peers", "--shard", part)
    call(path, "-o", tmp_path / "new", "--tools", tools, "--only-peers")
    assert {row.tool for row in read_folders([tmp_path / "old"])} == {"reader"}
    both = read_folders([tmp_path / "old", tmp_path / "new"])
    assert sorted({row.tool for row in both}) == ["reader (new)", "reader (old)"]
    assert len(both) == 4
    output = tmp_path / "report.html"
    assert main(["bench", "report", str(tmp_path / "old"), str(tmp_path / "new"), "-o", str(output), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"file": str(output), "rows": 4}
    assert "ginnacer-verify" in output.read_text()
    with pytest.raises(InputError, match="bench run"):
        read_folders([tmp_path / "list"])


def test_a_journal_of_another_version_can_be_read(tmp_path: Path) -> None:
    book = Journal(tmp_path)
    book.append(Row("c", "n", "p", "t", "sat", 1.0, 2.0))
    book.close()
    record = journal(tmp_path)[0] | {"colour": "green"}
    (tmp_path / "results.jsonl").write_text(json.dumps(record) + "\n")
    assert [row.verdict for row in read_folders([tmp_path])] == ["sat"]

"""One HTML page with every figure and table of a run: self-contained, for screens, phones and paper."""

import base64
import platform
import sys
from collections.abc import Sequence
from html import escape
from importlib.metadata import PackageNotFoundError, version

from ginnacer_verify.lab.claims import Finding, findings
from ginnacer_verify.lab.experiment import Table
from ginnacer_verify.lab.run import Report
from ginnacer_verify.lab.setting import Setting
from ginnacer_verify.version import __version__

PACKAGES = ("numpy", "scipy", "highspy", "onnx", "onnxruntime", "torch", "auto_LiRPA", "matplotlib")
LONG = 14
"""Tables with more rows are folded on screens; on paper everything is open."""
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #111; background: #fff; max-width: 70rem; margin: 0 auto;
       padding: 0 1rem 3rem; }
h1 { font-size: 1.7rem; }
h2 { font-size: 1.3rem; margin-top: 2.5rem; border-top: 2px solid #0072b2; padding-top: .6rem; }
h3 { font-size: 1rem; margin-bottom: .3rem; }
nav a { margin-right: 1rem; display: inline-block; padding: .2rem 0; } a { color: #00507d; }
figure { margin: 1rem 0; overflow-x: auto; } img { width: 100%; height: auto; display: block; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid #ddd; }
th { border-bottom: 2px solid #888; text-align: right; vertical-align: bottom; }
td:first-child, th:first-child, table.words td, table.words th { text-align: left; vertical-align: top; }
.paper { color: #555; font-style: italic; } .problem { color: #8a3000; }
.differs { font-weight: bold; color: #8a3000; }
tr.claim th { padding-top: 1rem; border-bottom: 1px solid #888; break-after: avoid; }
summary { cursor: pointer; font-weight: bold; margin-top: .8rem; }
@media (max-width: 50rem) { img { width: 62rem; max-width: none; } body { padding: 0 .6rem 2rem; } }
@media print {
  body { max-width: none; font-size: 10pt; } img { width: 100%; } nav { display: none; }
  figure, tr, h2, h3 { break-inside: avoid; } h2, h3, summary { break-after: avoid; }
  details::details-content { content-visibility: visible; display: block; height: auto; }
  .scroll, figure { overflow: visible; } table { font-size: 7.5pt; }
}
"""


def page(reports: Sequence[Report], setting: Setting) -> str:
    """The whole page."""
    links = "".join(f'<a href="#{r.experiment.name}">{escape(r.experiment.title)}</a>' for r in reports)
    kind = "quick" if setting.quick else "full"
    parts = [
        f"<h1>Abstractions of neural networks: {kind} run, seed {setting.seed}</h1>",
        "<p>The experiments of Manino, Bessa and Cordeiro, <cite>Towards Global Neural Network Abstractions with "
        "Locally-Exact Reconstruction</cite> (GINNACER, arXiv 2210.12054), and some beyond them.</p>",
        f'<nav>{links}<a href="#setting">Setting and versions</a></nav>',
        _claims(findings({report.experiment.name: report.rows for report in reports})),
        *(_section(report) for report in reports),
        _setting(setting),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>ginnacer lab</title><style>{STYLE}</style></head>\n<body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def _section(report: Report) -> str:
    each = report.experiment
    text = [
        f'<section id="{each.name}"><h2>{escape(each.title)}</h2>',
        f'<p class="paper">Paper: {escape(each.paper)}.</p><p>{escape(each.text)}</p>',
    ]
    for stem, image in report.figures.items():
        data = base64.b64encode(image).decode()
        text.append(f'<figure><img alt="{escape(each.title)}: {stem}" src="data:image/png;base64,{data}"></figure>')
    text += [_table(table) for table in report.tables]
    text += [f'<p class="problem">Not measured: {escape(problem)}</p>' for problem in report.problems]
    files = ", ".join(file.name for file in report.files)
    text.append(
        f'<p class="paper">Files: {escape(files)}. Computed in {report.seconds:.0f} s of one core.</p></section>'
    )
    return "\n".join(text)


def _table(table: Table, kind: str = "") -> str:
    header = "".join(f"<th>{escape(name)}</th>" for name in table.header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    inner = (
        f'<div class="scroll"><table class="{kind}"><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table></div>'
    )
    if len(table.rows) > LONG:
        return f"<details><summary>{escape(table.title)} ({len(table.rows)} rows)</summary>{inner}</details>"
    return f"<h3>{escape(table.title)}</h3>{inner}"


def _claims(found: Sequence[Finding]) -> str:
    if not found:
        return ""
    rows, last = [], ""
    for finding in found:
        if finding.claim != last:
            rows.append(f'<tr class="claim"><th colspan="3">{escape(finding.claim)}</th></tr>')
        last = finding.claim
        word = "yes" if finding.holds else '<span class="differs">differs</span>'
        cells = (escape(finding.network), escape(finding.measured), word)
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    header = "".join(f"<th>{name}</th>" for name in ("network", "measured here", "the claim holds"))
    return (
        '<section id="claims"><h2>What the paper claims and what was measured</h2><div class="scroll">'
        f'<table class="words"><thead><tr>{header}</tr></thead><tbody>{"".join(rows)}</tbody></table></div></section>'
    )


def _setting(setting: Setting) -> str:
    rows = [(name, str(value)) for name, value in setting.as_json().items()]
    rows += [("ginnacer-verify", __version__), ("Python", sys.version.split()[0])]
    rows += [(name, _version(name)) for name in PACKAGES]
    rows.append(("machine", f"{platform.system()} {platform.machine()}"))
    inner = "".join(f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>" for name, value in rows)
    table = f'<div class="scroll"><table class="words"><tbody>{inner}</tbody></table></div>'
    return f'<section id="setting"><h2>Setting and versions</h2>{table}</section>'


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"

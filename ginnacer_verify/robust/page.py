"""One self-contained page about a certified data set: the table, and what each attack changed, as images."""

from collections.abc import Sequence
from html import escape

import numpy as np

from ginnacer_verify.arrays import Array
from ginnacer_verify.robust.certify import Certified, Result
from ginnacer_verify.robust.images import data_uri, grey, image, is_image, signed

MOST = 200
"""So many attacks are shown as images."""
TIMES = 10
COLOURS = {"certified": "#1a7f37", "attacked": "#c1272d", "open": "#9a6700", "misclassified": "#6e7781"}
STYLE = """
body { font: 17px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #1f2328; }
h1 { font-size: 1.7rem; } h2 { font-size: 1.3rem; margin-top: 2.2rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; } td, th { padding: .3rem .9rem; text-align: right; }
tr + tr { border-top: 1px solid #d0d7de; } .bar { display: flex; height: 1.2rem; margin: .3rem 0 1rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(19rem, 1fr)); gap: 1.2rem; }
figure { margin: 0; border: 1px solid #d0d7de; border-radius: .5rem; padding: .7rem; break-inside: avoid; }
figure div { display: grid; grid-template-columns: repeat(3, 1fr); gap: .4rem; }
img { width: 100%; image-rendering: pixelated; background: #eee; } figcaption { margin-bottom: .4rem; }
small { color: #57606a; } @media print { body { font-size: 11pt; margin: 0; max-width: none; } }
"""


def page(certified: Certified, inputs: Array, shape: tuple[int, ...], title: str) -> str:
    """The page; `inputs` are flat, one per row, and `shape` is what the network takes."""
    parts = [f"<h1>Robustness of {escape(title)}</h1>", _table(certified)]
    attacked = [result for result in certified.results if result.adversarial]
    if attacked and is_image(shape):
        cards = "".join(_card(result, inputs[result.index], shape) for result in attacked[:MOST])
        more = f"<p>The first {MOST} of {len(attacked)}.</p>" if len(attacked) > MOST else ""
        scale = f"<p>Each: original, adversarial example, and {TIMES} times their difference (red is more).</p>"
        parts.append(f"<h2>Adversarial examples</h2>{scale}{more}<div class=cards>{cards}</div>")
    parts.append(_list(certified.results))
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    whole = f"{head}<title>{escape(title)}</title><style>{STYLE}</style>{''.join(parts)}"
    return f"<!doctype html><html lang=en>{whole}</html>"


def _table(certified: Certified) -> str:
    head = "".join(f"<th>{name}</th>" for name in ("radius", "inputs", "accuracy", "certified", "attacked", "open"))
    rows, bars = [], []
    for row in certified.table:
        shares = "".join(f"<td>{row[name]:.1%}</td>" for name in ("accuracy", "certified", "attacked", "open"))
        rows.append(f"<tr><td>{row['eps']:g}</td><td>{row['inputs']:.0f}</td>{shares}</tr>")
        parts = {
            **{name: row[name] for name in ("certified", "open", "attacked")},
            "misclassified": 1 - row["accuracy"],
        }
        bar = "".join(
            f'<span title="{name} {share:.1%}" style="width:{share:.2%};background:{COLOURS[name]}"></span>'
            for name, share in parts.items()
        )
        bars.append(f"<div>radius {row['eps']:g}</div><div class=bar>{bar}</div>")
    legend = ", ".join(f'<span style="color:{colour}">{name}</span>' for name, colour in COLOURS.items())
    return f"<div class=wide><table><tr>{head}</tr>{''.join(rows)}</table></div><p>{legend}</p>{''.join(bars)}"


def _card(result: Result, x: Array, shape: tuple[int, ...]) -> str:
    before, after = image(x, shape), image(np.array(result.adversarial), shape)
    low, high = float(min(before.min(), after.min())), float(max(before.max(), after.max()))
    pictures = (grey(before, low, high), grey(after, low, high), signed(TIMES * (after - before), high - low))
    tags = "".join(f'<img alt="" src="{data_uri(one)}">' for one in pictures)
    text = f"input {result.index}: {result.label} becomes {result.becomes} <small>within {result.eps:g}</small>"
    return f"<figure><figcaption>{text}</figcaption><div>{tags}</div></figure>"


def _list(results: Sequence[Result]) -> str:
    with_radius = any(result.radius >= 0 for result in results)
    names = [
        "input",
        "label",
        "predicted",
        "radius",
        "state",
        "seconds",
        *(["proved", "refuted"] if with_radius else []),
    ]
    rows = []
    for one in results:
        state = f'<td style="color:{COLOURS[one.state]}">{one.state}</td>'
        known = [f"{value:.4g}" if value >= 0 else "" for value in (one.radius, one.refuted)] if with_radius else []
        cells = [f"<td>{value}</td>" for value in (one.index, one.label, one.predicted, f"{one.eps:g}")]
        rows.append(
            "<tr>" + "".join([*cells, state, *(f"<td>{v}</td>" for v in (f"{one.seconds:.2f}", *known))]) + "</tr>"
        )
    head = "".join(f"<th>{name}</th>" for name in names)
    return f"<h2>All results</h2><div class=wide><table><tr>{head}</tr>{''.join(rows)}</table></div>"

"use strict";
// The page: scores, filters, a table that draws only the rows in sight, and the details of one instance.

const DATA = JSON.parse(document.getElementById("data").textContent);
const {tools: TOOLS, rows: ROWS} = DATA;
const VERDICTS = ["unsat", "sat", "unknown", "timeout", "error"];
const ROW = 34;
const get = (id) => document.getElementById(id);
const colourOf = (tool) => COLOURS[tool % COLOURS.length];
const state = {sort: -1, down: false, shown: ROWS.map((_, i) => i), chosen: -1};

function make(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

const isDecided = (run) => run && (run.verdict === "sat" || run.verdict === "unsat");
const isWrong = (row, run) => isDecided(run) && Boolean(row.expected) && run.verdict !== row.expected;
const isSolved = (row, run) => isDecided(run) && !isWrong(row, run);
const isConflict = (row) => new Set(row.runs.filter(isDecided).map((run) => run.verdict)).size > 1;
const isBad = (row) => isConflict(row) || row.runs.some((run) => isWrong(row, run));
const seconds = (value) => value >= 100 ? value.toFixed(0) : value.toFixed(2);

function chip(row, run) {
  const wrong = isWrong(row, run);
  return make("span", {class: `chip ${wrong ? "wrong" : run.verdict}`}, wrong ? `${run.verdict} ✗` : run.verdict);
}

function alarm() {
  const bad = ROWS.map((row, i) => [row, i]).filter(([row]) => isBad(row));
  const place = get("alarm");
  place.hidden = false;
  if (!bad.length) { place.textContent = "No wrong verdict and no conflict between tools."; return; }
  place.className = "bad";
  place.append(make("h2", {}, `${bad.length} instance${bad.length > 1 ? "s" : ""} with a wrong or conflicting verdict`));
  for (const [row, i] of bad.slice(0, 50)) {
    const said = row.runs.map((run, t) => run && `${TOOLS[t]} ${run.verdict}`).filter(Boolean).join(", ");
    const button = make("button", {}, `${row.network} ${row.property}: ${said}`
      + (row.expected ? `; known: ${row.expected}` : ""));
    button.addEventListener("click", () => open(i));
    place.append(button);
  }
  if (bad.length > 50) place.append(`and ${bad.length - 50} more: choose “wrong or conflicting” below`);
}

// Tools are compared on the instances in sight that all of them ran: sums over different sets say nothing.
function score(rows, t) {
  const count = Object.fromEntries(VERDICTS.map((word) => [word, rows.filter((row) => row.runs[t].verdict === word).length]));
  const solved = rows.filter((row) => isSolved(row, row.runs[t])), wrong = rows.filter((row) => isWrong(row, row.runs[t])).length;
  const times = solved.map((row) => row.runs[t].seconds).sort((a, b) => a - b), half = times.length >> 1;
  const median = times.length ? (times.length % 2 ? times[half] : (times[half - 1] + times[half]) / 2) : null;
  const par2 = rows.reduce((sum, row) => sum + (isSolved(row, row.runs[t]) ? row.runs[t].seconds : 2 * row.timeout), 0);
  return {count, solved: solved.length, wrong, median, par2, points: 10 * solved.length - 150 * wrong};
}

function scores() {
  const shown = state.shown.map((i) => ROWS[i]), rows = shown.filter((row) => row.runs.every(Boolean));
  const whole = shown.length === ROWS.length;
  const head = ["", "", "solved", "unsat", "sat", "not solved", "wrong", "median s", "PAR-2 s", "points"];
  if (whole) head.push("VNN-COMP score");
  const body = make("tbody");
  for (const [t, tool] of TOOLS.entries()) {
    const found = score(rows, t), bar = make("div", {class: "bar"});
    for (const word of VERDICTS) {
      const share = found.count[word] / Math.max(1, rows.length) * 100;
      if (share) bar.append(make("div", {class: word, style: `width: ${share}%`, title: `${word}: ${found.count[word]}`}));
    }
    const name = make("td", {}, make("span", {class: "dot", style: `background: ${colourOf(t)}`}), make("b", {}, tool));
    const open = rows.length - found.count.unsat - found.count.sat;
    const cells = [`${found.solved} of ${rows.length}`, found.count.unsat, found.count.sat, open, found.wrong,
      found.median === null ? "–" : seconds(found.median), found.par2.toFixed(1), found.points];
    if (whole) cells.push(DATA.scores[t].competition.toFixed(1));
    body.append(make("tr", {}, name, make("td", {}, bar), ...cells.map((cell) => make("td", {class: "number"}, String(cell)))));
  }
  const heads = head.map((text, i) => make("th", {class: i > 1 ? "number" : ""}, text));
  const key = make("div", {class: "key"}, ...VERDICTS.map((word) => make("span", {}, make("i", {class: word}), word)));
  const left = shown.length - rows.length;
  const note = left ? [make("p", {class: "note"}, `${rows.length} instances that all tools ran; ${left} in sight that some did not are left out.`)] : [];
  get("scores").replaceChildren(make("table", {}, make("thead", {}, make("tr", {}, ...heads)), body), key, ...note);
}

const FILTERS = {
  "all verdicts": () => true,
  ...Object.fromEntries(VERDICTS.map((word) => [word, (row) => row.runs.some((run) => run && run.verdict === word)])),
  "not solved by some": (row) => row.runs.some((run) => run && !isSolved(row, run)),
  "wrong or conflicting": isBad,
};

function fill(select, words) {
  select.replaceChildren(...words.map((word, i) => make("option", {value: i}, word)));
}

function column(row, key) {
  if (key >= 0) { const run = row.runs[key]; return run ? (isSolved(row, run) ? run.seconds : 1e9 + run.seconds) : 2e9; }
  return [row.position, row.network, row.property, row.expected, row.category][-key - 1];
}

function update() {
  const words = get("text").value.toLowerCase().split(/\s+/).filter(Boolean);
  const category = get("category").selectedOptions[0].textContent, all = get("category").value === "0";
  const passes = FILTERS[get("verdict").selectedOptions[0].textContent];
  state.shown = ROWS.map((_, i) => i).filter((i) => {
    const row = ROWS[i], name = `${row.category}/${row.network} ${row.property}`.toLowerCase();
    return (all || row.category === category) && passes(row) && words.every((word) => name.includes(word));
  });
  sort();
  get("count").textContent = `${state.shown.length} of ${ROWS.length} instances`;
  scores();
  plots();
}

function sort() {
  const collator = new Intl.Collator("en", {numeric: true}), sign = state.down ? -1 : 1;
  const compare = (a, b) => typeof a === "number" ? a - b : collator.compare(a, b);
  state.shown.sort((i, j) => sign * compare(column(ROWS[i], state.sort), column(ROWS[j], state.sort)) || i - j);
  get("scroll").scrollTop = 0;
  heading();
  draw();
}

function plots() {
  const rows = state.shown.map((i) => ROWS[i]);
  const times = (t) => rows.filter((row) => isSolved(row, row.runs[t])).map((row) => row.runs[t].seconds);
  const limits = new Set(rows.map((row) => row.timeout));
  const limit = limits.size === 1 ? [...limits][0] : 0;
  drawCactus(get("cactus"), TOOLS.map((name, t) => ({name, colour: colourOf(t), times: times(t)})), limit);
  const [a, b] = [+get("across").value, +get("up").value];
  const time = (row, t) => isSolved(row, row.runs[t]) ? row.runs[t].seconds : null;
  const style = getComputedStyle(document.documentElement);
  const colour = (row) => {
    const decided = [row.runs[a], row.runs[b]].find(isDecided);
    return style.getPropertyValue(isBad(row) ? "--wrong" : decided ? `--${decided.verdict}` : "--unknown").trim();
  };
  const both = state.shown.filter((i) => ROWS[i].runs[a] && ROWS[i].runs[b]);
  const points = both.map((i) => ({row: ROWS[i], a: time(ROWS[i], a), b: time(ROWS[i], b), colour: colour(ROWS[i]),
    pick: () => open(i)}));
  const show = ({row}) => [`${row.network}\n${row.property}`, ...[...new Set([a, b])].map((t) =>
    `${TOOLS[t]}: ${row.runs[t].verdict}, ${seconds(row.runs[t].seconds)} s`)].join("\n");
  drawScatter(get("scatter"), points, [TOOLS[a], TOOLS[b]], show);
}

function heading() {
  const columns = [["#", -1], ["network", -2], ["property", -3], ["known", -4]];
  if (DATA.categories.length > 1) columns.splice(1, 0, ["category", -5]);
  columns.push(...TOOLS.map((name, t) => [name, t]));
  const cells = columns.map(([name, key]) => {
    const button = make("button", {tabindex: 0}, name + (state.sort === key ? (state.down ? " ↓" : " ↑") : ""));
    button.addEventListener("click", () => {
      state.down = state.sort === key && !state.down;
      state.sort = key;
      sort();
    });
    return make("th", {scope: "col"}, button);
  });
  get("table").tHead.replaceChildren(make("tr", {}, ...cells));
}

// Only the rows in sight are in the document; two empty rows keep the place of the others.
function draw() {
  const scroll = get("scroll"), body = get("table").tBodies[0];
  const first = Math.max(0, Math.floor(scroll.scrollTop / ROW) - 15), last = Math.min(state.shown.length, first + 60);
  const space = (count) => make("tr", {"aria-hidden": "true"}, make("td", {style: `height: ${count * ROW}px; padding: 0; border: 0`}));
  body.replaceChildren(space(first), ...state.shown.slice(first, last).map(tableRow), space(state.shown.length - last));
}

function tableRow(i) {
  const row = ROWS[i];
  const cells = [make("td", {}, String(row.position))];
  if (DATA.categories.length > 1) cells.push(make("td", {}, row.category));
  cells.push(make("td", {class: "path", title: row.network}, row.network), make("td", {class: "path", title: row.property}, row.property));
  cells.push(make("td", {}, row.expected));
  for (const run of row.runs) {
    cells.push(run ? make("td", {}, chip(row, run), make("span", {class: "seconds"}, `${seconds(run.seconds)} s`)) : make("td"));
  }
  const line = make("tr", {class: i === state.chosen ? "row chosen" : "row", tabindex: 0, "data-row": i}, ...cells);
  line.addEventListener("click", () => open(i));
  line.addEventListener("keydown", (event) => { if (event.key === "Enter") open(i); });
  return line;
}

function list(pairs) {
  const kept = pairs.filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return make("dl", {}, ...kept.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, String(value))]));
}

function open(i) {
  const row = ROWS[i], place = get("details");
  state.chosen = i;
  const close = make("button", {class: "close", "aria-label": "Close"}, "✕");
  close.addEventListener("click", shut);
  place.replaceChildren(close, make("h2", {}, row.network), make("div", {}, row.property),
    list([["category", row.category], ["time limit", `${row.timeout} s`], ["known", row.expected]]));
  row.runs.forEach((run, t) => run && place.append(...toolDetails(row, run, t)));
  place.hidden = false;
  place.scrollTop = 0;
  history.replaceState(null, "", `#${row.position}`);
  draw();
}

function toolDetails(row, run, t) {
  const title = make("h3", {}, make("span", {class: "dot", style: `background: ${colourOf(t)}`}), `${TOOLS[t]} `, chip(row, run));
  const facts = list([["wall time", `${run.seconds.toFixed(3)} s`], ["memory", run.memory ? `${(run.memory / 1e6).toFixed(0)} MB` : ""],
    ["reason", run.reason], ...Object.entries(run.details), ["load when it began", run.load], ["machine", run.host]]);
  const parts = [title, facts];
  for (const {label, series} of run.trace) {
    const plot = make("div", {class: "plot trace"});
    drawTrace(plot, series.map((one, n) => ({...one, colour: COLOURS[n]})), label);
    parts.push(plot);
  }
  if (run.witness) parts.push(...witness(run.witness));
  return parts;
}

// The counterexample: its outputs, its inputs, and a picture where they make a square.
function witness({x, y}) {
  const parts = [make("h3", {}, "Counterexample"), list([["outputs", y.map((value) => +value.toPrecision(5)).join(", ")]])];
  const side = Math.sqrt(x.length);
  if (Number.isInteger(side) && side > 3) {
    const canvas = make("canvas", {width: side, height: side, class: "witness", role: "img", "aria-label": "inputs as an image"});
    const context = canvas.getContext("2d"), pixels = context.createImageData(side, side);
    const low = Math.min(...x), high = Math.max(...x);
    x.forEach((value, i) => {
      const shade = 255 * (value - low) / Math.max(high - low, 1e-30);
      pixels.data.set([shade, shade, shade, 255], 4 * i);
    });
    context.putImageData(pixels, 0, 0);
    parts.push(canvas);
  }
  parts.push(make("details", {}, make("summary", {}, `${x.length} input${x.length > 1 ? "s" : ""}`), make("code", {}, x.join(" "))));
  return parts;
}

function shut() {
  get("details").hidden = true;
  state.chosen = -1;
  history.replaceState(null, "", "#");
  draw();
}

function openFromAddress() {
  const i = ROWS.findIndex((row) => String(row.position) === location.hash.slice(1));
  if (i >= 0) open(i);
}

get("about").textContent = DATA.about;
alarm();
fill(get("category"), ["all categories", ...DATA.categories]);
get("category").hidden = DATA.categories.length < 2;
fill(get("verdict"), Object.keys(FILTERS));
for (const id of ["across", "up"]) fill(get(id), TOOLS);
get("scatter").parentElement.hidden = TOOLS.length < 2;
get("up").value = TOOLS.length > 1 ? 1 : 0;
for (const id of ["category", "verdict"]) get(id).addEventListener("change", update);
for (const id of ["across", "up"]) get(id).addEventListener("change", plots);
get("text").addEventListener("input", update);
get("scroll").addEventListener("scroll", draw);
document.addEventListener("keydown", (event) => { if (event.key === "Escape") shut(); });
addEventListener("hashchange", openFromAddress);
update();
openFromAddress();

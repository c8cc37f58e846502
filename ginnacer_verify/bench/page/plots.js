"use strict";
// Diagrams as plain SVG: many points are one path, so that ten thousand of them stay quick.

const WIDE = 640, HIGH = 460, LEFT = 58, RIGHT = 22, TOP = 14, BOTTOM = 44;
const COLOURS = ["#2457c5", "#e0701a", "#0c8f86", "#a53a8f", "#6b7a12", "#8a5a2b", "#59657a"];

function element(name, attributes, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

function scale(from, to, start, end, logarithmic) {
  const f = logarithmic ? Math.log10 : (value) => value;
  const a = f(from), b = f(to) === a ? a + 1 : f(to);
  return (value) => start + (f(value) - a) / (b - a) * (end - start);
}

function short(value) {
  if (Math.abs(value) >= 1e5 || (value !== 0 && Math.abs(value) < 1e-3)) return value.toExponential(0);
  return String(+value.toPrecision(3));
}

function powers(from, to) {
  const ticks = [];
  for (let power = Math.ceil(Math.log10(from) - 1e-9); power <= Math.log10(to) + 1e-9; power++) ticks.push(10 ** power);
  return ticks.length > 1 ? ticks : [from, to];
}

function steps(from, to, least = 0) {
  const raw = Math.max(least, (to - from) / 5), unit = 10 ** Math.floor(Math.log10(raw || 1));
  const step = [1, 2, 5, 10].map((factor) => factor * unit).find((size) => size >= raw) || 1;
  const ticks = [];
  for (let tick = Math.ceil(from / step) * step; tick <= to + step * 1e-9; tick += step) ticks.push(tick);
  return ticks;
}

// An empty diagram with its axes; x and y are {from, to, log, label}.
function frame(place, x, y, high = HIGH) {
  const svg = element("svg", {viewBox: `0 0 ${WIDE} ${high}`, role: "img"});
  const sx = scale(x.from, x.to, LEFT, WIDE - RIGHT, x.log), sy = scale(y.from, y.to, high - BOTTOM, TOP, y.log);
  for (const tick of x.log ? powers(x.from, x.to) : steps(x.from, x.to, 1)) {
    svg.append(element("line", {x1: sx(tick), x2: sx(tick), y1: TOP, y2: high - BOTTOM, class: "grid"}));
    svg.append(element("text", {x: sx(tick), y: high - BOTTOM + 18, "text-anchor": "middle"}, short(tick)));
  }
  for (const tick of y.log ? powers(y.from, y.to) : steps(y.from, y.to)) {
    svg.append(element("line", {x1: LEFT, x2: WIDE - RIGHT, y1: sy(tick), y2: sy(tick), class: "grid"}));
    svg.append(element("text", {x: LEFT - 8, y: sy(tick) + 4, "text-anchor": "end"}, short(tick)));
  }
  svg.append(element("path", {d: `M${LEFT} ${TOP}V${high - BOTTOM}H${WIDE - RIGHT}`, class: "axis"}));
  svg.append(element("text", {x: (LEFT + WIDE - RIGHT) / 2, y: high - 6, "text-anchor": "middle"}, x.label));
  const middle = (TOP + high - BOTTOM) / 2;
  svg.append(element("text", {x: 14, y: middle, "text-anchor": "middle", transform: `rotate(-90 14 ${middle})`}, y.label));
  place.replaceChildren(svg);
  return {svg, sx, sy};
}

function polyline(points, sx, sy) {
  return points.map(([a, b], i) => `${i ? "L" : "M"}${sx(a).toFixed(1)} ${sy(b).toFixed(1)}`).join("");
}

function line(plot, points, colour, more = {}) {
  const style = {d: polyline(points, plot.sx, plot.sy), fill: "none", stroke: colour, "stroke-width": 2.5,
    "stroke-linejoin": "round", ...more};
  plot.svg.append(element("path", style));
}

function dots(plot, points, colour, width = 6) {
  const d = points.map(([a, b]) => `M${plot.sx(a).toFixed(1)} ${plot.sy(b).toFixed(1)}h0`).join("");
  plot.svg.append(element("path", {d, stroke: colour, "stroke-width": width, "stroke-linecap": "round",
    "stroke-opacity": 0.62, fill: "none"}));
}

// How many instances each tool has solved within a time limit: series are {name, colour, times}.
function drawCactus(place, series, limit) {
  const all = series.flatMap((tool) => tool.times);
  if (!all.length) { place.textContent = "Nothing is solved."; return; }
  const count = Math.max(...series.map((tool) => tool.times.length));
  const least = all.reduce((a, b) => Math.min(a, b)), most = all.reduce((a, b) => Math.max(a, b), limit || 0);
  const plot = frame(place, {from: 0, to: count, label: "instances solved"},
    {from: least * 0.8, to: most * 1.25, log: true, label: "seconds for each, sorted"});
  const ranked = [...series].sort((a, b) => b.times.length - a.times.length);
  for (const [number, {name, colour, times}] of ranked.entries()) {
    const points = [...times].sort((a, b) => a - b).map((time, i) => [i + 1, time]);
    line(plot, points, colour);
    if (points.length < 80) dots(plot, points, colour, 5);
    label(plot, LEFT + 14, number, `${name}: ${points.length}`, colour);
  }
}

function label(plot, x, number, text, colour, anchor = "start") {
  const style = {x, y: TOP + 18 + 19 * number, class: "name", "text-anchor": anchor, style: `fill: ${colour}`};
  plot.svg.append(element("text", style, text));
}

// One point per instance that both tools ran; points are {a, b, colour, pick}, a and b in seconds or null if unsolved.
function drawScatter(place, points, names, show) {
  if (!points.length) { place.textContent = "No instance was run by both tools."; return; }
  const times = points.flatMap((point) => [point.a, point.b]).filter((time) => time !== null);
  const least = times.reduce((a, b) => Math.min(a, b), 1e9), most = times.reduce((a, b) => Math.max(a, b), 1e-9);
  const from = Math.min(least, most) * 0.7, edge = Math.max(most, least === 1e9 ? 1 : 0) * 1.7, to = edge * 1.3;
  const low = least === 1e9 ? 0.1 : from;
  const plot = frame(place, {from: low, to, log: true, label: `${names[0]}, seconds`},
    {from: low, to, log: true, label: `${names[1]}, seconds`});
  line(plot, [[low, low], [to, to]], "#aab3c0", {"stroke-width": 1});
  for (const band of [[[edge, low], [edge, to]], [[low, edge], [to, edge]]]) {
    line(plot, band, "#aab3c0", {"stroke-width": 1, "stroke-dasharray": "4 4"});
  }
  plot.svg.append(element("text", {x: LEFT + 6, y: plot.sy(edge) - 5}, `not solved by ${names[1]}`));
  const x = plot.sx(edge) + 13, y = HIGH - BOTTOM - 6;
  plot.svg.append(element("text", {x, y, transform: `rotate(-90 ${x} ${y})`}, `not solved by ${names[0]}`));
  const placed = points.map((point) => ({...point, a: point.a ?? edge, b: point.b ?? edge}));
  for (const colour of new Set(placed.map((point) => point.colour))) {
    dots(plot, placed.filter((point) => point.colour === colour).map(({a, b}) => [a, b]), colour);
  }
  hover(plot, placed, show);
}

function hover(plot, points, show) {
  const tip = document.getElementById("tip");
  const nearest = (event) => {
    const box = plot.svg.getBoundingClientRect(), zoom = box.width / WIDE;
    const x = (event.clientX - box.left) / zoom, y = (event.clientY - box.top) / zoom;
    let best = null, distance = 144;
    for (const point of points) {
      const d = (plot.sx(point.a) - x) ** 2 + (plot.sy(point.b) - y) ** 2;
      if (d < distance) { best = point; distance = d; }
    }
    return best;
  };
  plot.svg.addEventListener("mousemove", (event) => {
    const point = nearest(event);
    tip.hidden = !point;
    plot.svg.style.cursor = point ? "pointer" : "";
    if (!point) return;
    tip.textContent = show(point);
    tip.style.left = `${Math.min(event.clientX + 14, innerWidth - 390)}px`;
    tip.style.top = `${event.clientY + 14}px`;
  });
  plot.svg.addEventListener("mouseleave", () => { tip.hidden = true; });
  plot.svg.addEventListener("click", (event) => { const point = nearest(event); if (point) point.pick(); });
}

// Lines over the steps of one run: series are {name, colour, values}; null is a gap.
function drawTrace(place, series, across) {
  const values = series.flatMap((one) => one.values).filter((value) => value !== null);
  if (!values.length) return;
  const low = values.reduce((a, b) => Math.min(a, b), 0), high = values.reduce((a, b) => Math.max(a, b), 0);
  const count = Math.max(...series.map((one) => one.values.length));
  const plot = frame(place, {from: 1, to: Math.max(2, count), label: across},
    {from: low, to: high > low ? high + 0.4 * (high - low) : low + 1, label: ""}, 230);
  series.forEach(({name, colour, values: list}, number) => {
    const points = list.map((value, i) => [i + 1, value]).filter(([, value]) => value !== null);
    line(plot, points, colour);
    if (points.length < 60) dots(plot, points, colour, 6);
    label(plot, WIDE - RIGHT - 6, number, name, colour, "end");
  });
}

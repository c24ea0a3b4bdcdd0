// Charts of lines: hover for values, drag to zoom, arrow keys to walk along.

// lines: [{ label, points: [[x, y]…], paper, truth, band }], drawn over one axis.
function chart(caption, xLabel, yLabel, lines, options) {
  const settings = Object.assign({ levels: [], height: 280, digits: 2, log: false }, options);
  const place = make("div", { class: "chart", tabindex: "0", role: "group",
    "aria-label": caption + ". Arrow keys move along the lines; the numbers are in the table below." });
  const figure = make("figure", {}, make("figcaption", {}, caption), place, lines.length > 6 ? lineChooser(lines, () => draw()) : null,
    numbersOf(caption, [xLabel, ...lines.map((line) => line.label)], () => rowsOf(lines, settings.digits)));
  colours(lines);
  let drawn = null;
  const draw = () => {
    const width = Math.floor(place.clientWidth);
    if (width < 50) return;
    if (drawn) drawn.destroy();
    drawn = plot(place, width, xLabel, yLabel, lines, settings);
  };
  themed.push(draw);
  let last = 0;
  new ResizeObserver(() => {
    const width = Math.floor(place.clientWidth);
    if (Math.abs(width - last) > 1) {
      last = width;
      draw();
    }
  }).observe(place);
  place.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (drawn && steps) {
      event.preventDefault();
      walk(drawn, steps);
    }
  });
  return figure;
}

// A line keeps its colour whichever others are drawn; those drawn first differ most. The paper's line has the
// colour of ours of the same name.
function colours(lines) {
  const ours = lines.filter((line) => !line.paper && !line.truth && !line.bound);
  const first = [...ours.filter((line) => line.shown !== false), ...ours.filter((line) => line.shown === false)];
  first.forEach((line, place) => { line.colour = place; });
  const key = (label) => label.replace(/^paper: /, "").replace(/ \(Q = 1\)$/, "").split(",")[0];
  lines.filter((line) => line.paper).forEach((line, place) => {
    const pair = first.find((one) => key(one.label) === key(line.label));
    line.colour = pair ? pair.colour : first.length + place;
  });
}

// Boxes to tick for the lines of a chart of many.
function lineChooser(lines, changed) {
  const boxes = lines.map((line) => {
    const box = make("input", { type: "checkbox", checked: line.shown !== false });
    box.addEventListener("change", () => {
      line.shown = box.checked;
      changed();
    });
    return make("label", { class: line.paper ? "paper" : null }, box, " " + line.label);
  });
  return make("details", {}, make("summary", {}, "Choose lines"), make("div", { class: "lines" }, ...boxes));
}

// All x values once, in order, and each line's values there.
function joined(lines) {
  const xs = [...new Set(lines.flatMap((line) => line.points.map((point) => point[0])))].sort((a, b) => a - b);
  const at = new Map(xs.map((x, place) => [x, place]));
  const columns = lines.map((line) => {
    const values = new Array(xs.length).fill(null);
    line.points.forEach(([x, y]) => { values[at.get(x)] = y; });
    return values;
  });
  return [xs, ...columns];
}

function rowsOf(lines, digits) {
  const [xs, ...columns] = joined(lines);
  return xs.map((x, at) => ({
    label: String(Math.round(x * 100) / 100),
    cells: columns.map((values) => rounded(values[at], digits)),
  }));
}

function plot(place, width, xLabel, yLabel, lines, settings) {
  const ink = colour("--faint"), grid = { stroke: colour("--line"), width: 1 };
  const shown = lines.filter((line) => line.shown !== false);
  const values = joined(shown);
  const series = shown.map((line) => {
    const stroke = line.truth ? colour("--ink") : line.bound ? "transparent" : lineColour(line.colour);
    return {
      label: line.label, stroke, width: line.truth ? 1.6 : 2, dash: line.paper ? [6, 5] : undefined,
      spanGaps: true, points: { show: values[0].length < 30 && !line.bound, size: 6 },
      value: (_, value) => (value === null || value === undefined ? "–" : value.toFixed(settings.digits)),
    };
  });
  const bands = shown.flatMap((line, at) => line.bound === "high" ? [{ series: [at + 1, at], fill: colour("--band") }] : []);
  return new uPlot({
    width, height: settings.height, bands,
    scales: { x: { time: false }, y: settings.log ? { distr: 3 } : { range: (u, low, high) => ranged(low, high, settings.levels) } },
    axes: [
      { stroke: ink, grid, ticks: grid, label: xLabel, labelSize: 22, size: 38 },
      { stroke: ink, grid, ticks: grid, label: yLabel, labelSize: 22, size: 52 },
    ],
    cursor: { drag: { x: true, y: false } },
    series: [{ label: xLabel, value: (_, value) => (value === null || value === undefined ? "–" : String(Math.round(value * 100) / 100)) }, ...series],
    hooks: { draw: [(u) => settings.levels.forEach((level) => across(u, level))] },
  }, values, place);
}

// Some room above and below; zero belongs to the picture of a quantity that starts near it.
function ranged(low, high, levels) {
  if (low === null || high === null) return [0, 1];
  const least = Math.min(low, ...levels), most = Math.max(high, ...levels);
  const room = (most - least || Math.abs(most) || 1) * 0.06;
  return [least < 0.35 * most ? Math.min(0, least) : least - room, most + room];
}

function across(u, level) {
  const y = u.valToPos(level, "y", true), { left, width } = u.bbox, context = u.ctx;
  context.save();
  context.strokeStyle = colour("--faint");
  context.setLineDash([3, 4]);
  context.beginPath();
  context.moveTo(left, y);
  context.lineTo(left + width, y);
  context.stroke();
  context.restore();
}

function walk(u, steps) {
  const xs = u.data[0];
  const now = u.cursor.idx === null || u.cursor.idx === undefined ? (steps > 0 ? -1 : xs.length) : u.cursor.idx;
  const next = Math.min(Math.max(now + steps, 0), xs.length - 1);
  u.setCursor({ left: u.valToPos(xs[next], "x"), top: u.bbox.height / devicePixelRatio / 2 });
}

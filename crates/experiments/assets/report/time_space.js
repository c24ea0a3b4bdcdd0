// Pictures of time along and distance up, coloured by a quantity; asked by pointer or arrow keys.

// Dark and red is slow or dense, blue-green free: told apart by lightness as well.
const STOPS = [[0, [94, 0, 30]], [0.25, [214, 68, 40]], [0.5, [253, 190, 90]], [0.75, [190, 225, 190]], [1, [40, 130, 150]]];
function ramp(share) {
  const at = Math.min(Math.max(share, 0), 1);
  let upper = STOPS.findIndex(([stop]) => at <= stop);
  upper = Math.max(upper, 1);
  const [[a, low], [b, high]] = [STOPS[upper - 1], STOPS[upper]];
  const part = (at - a) / (b - a);
  return "rgb(" + low.map((value, i) => Math.round(value + part * (high[i] - value))).join(",") + ")";
}

// rows from the bottom up: { name, metres, border }; value(column, row) is a number or null.
function heatmap(caption, columns, rows, value, picture) {
  const canvas = make("canvas", { class: "map", tabindex: "0", role: "img",
    "aria-label": caption + ". Arrow keys move a mark; its value is read out below." });
  const reading = make("p", { class: "reading", "aria-live": "polite" }, "Point at the picture for values.");
  const total = rows.reduce((sum, row) => sum + row.metres, 0);
  const left = 74, bottom = 34, top = 6;
  let mark = null;

  function draw() {
    const width = canvas.clientWidth, height = canvas.clientHeight, dots = devicePixelRatio || 1;
    if (width < 50) return;
    canvas.width = width * dots;
    canvas.height = height * dots;
    const context = canvas.getContext("2d");
    context.scale(dots, dots);
    const wide = (width - left - 8) / columns.length, high = (height - bottom - top) / total;
    let from = 0;
    context.font = "12px system-ui, sans-serif";
    let named = null, begin = 0;
    rows.forEach((row, r) => {
      const y = height - bottom - (from + row.metres) * high;
      columns.forEach((_, c) => {
        const share = value(c, r);
        if (share !== null) {
          context.fillStyle = ramp(picture.share(share));
          context.fillRect(left + c * wide, y, wide + 0.6, row.metres * high + 0.6);
        }
      });
      from += row.metres;
      if (named === null) [named, begin] = [row.name, from - row.metres];
      const next = rows[r + 1];
      if (!next || next.name !== named) {
        const middle = height - bottom - ((begin + from) / 2) * high;
        context.fillStyle = colour("--ink");
        context.fillText(named, 6, middle + 4);
        context.strokeStyle = colour("--ink");
        context.globalAlpha = 0.5;
        context.beginPath();
        context.moveTo(left, height - bottom - from * high);
        context.lineTo(width - 8, height - bottom - from * high);
        context.stroke();
        context.globalAlpha = 1;
        named = null;
      }
    });
    context.fillStyle = colour("--faint");
    context.textAlign = "center";
    const every = Math.max(1, Math.ceil(columns.length / Math.max(2, Math.floor(width / 90))));
    for (let c = 0; c < columns.length; c += every) {
      context.fillText(columns[c].toFixed(0), left + (c + 0.5) * wide, height - bottom + 15);
    }
    context.fillText("minutes", left + (columns.length * wide) / 2, height - 5);
    context.textAlign = "start";
    if (mark) {
      const below = rows.slice(0, mark[1]).reduce((sum, row) => sum + row.metres, 0);
      const y = height - bottom - (below + rows[mark[1]].metres) * high;
      context.strokeStyle = colour("--ink");
      context.lineWidth = 2;
      context.strokeRect(left + mark[0] * wide - 2, y - 2, wide + 4, rows[mark[1]].metres * high + 4);
      context.lineWidth = 1;
    }
  }

  function put(c, r) {
    mark = [Math.min(Math.max(c, 0), columns.length - 1), Math.min(Math.max(r, 0), rows.length - 1)];
    const found = value(...mark), where = rows[mark[1]];
    reading.textContent = "minute " + columns[mark[0]].toFixed(1) + ", " + where.name + (where.part || "") + ": " +
      (found === null ? "no vehicle" : picture.text(found));
    draw();
  }

  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const c = Math.floor(((event.clientX - box.left - left) / (box.width - left - 8)) * columns.length);
    let metres = ((box.bottom - bottom - event.clientY) / (box.height - bottom - top)) * total, r = 0;
    if (c < 0 || c >= columns.length || metres < 0 || metres > total) return;
    while (r < rows.length - 1 && metres > rows[r].metres) metres -= rows[r++].metres;
    put(c, r);
  });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (step) {
      event.preventDefault();
      put(mark ? mark[0] + step[0] : 0, mark ? mark[1] + step[1] : 0);
    }
  });
  themed.push(draw);
  new ResizeObserver(draw).observe(canvas);
  const legend = make("div", { class: "scale" }, picture.ends[0], make("span", { class: "ramp", role: "img", "aria-label": "colour scale" }), picture.ends[1]);
  const stops = Array.from({ length: 13 }, (_, at) => ramp(picture.turned ? 1 - at / 12 : at / 12));
  legend.children[0].style.background = "linear-gradient(to right, " + stops.join(", ") + ")";
  return make("figure", {}, make("figcaption", {}, caption), canvas, legend, reading, means(caption, columns, rows, value, picture));
}

// The same as a table: means of five minutes, by name.
function means(caption, columns, rows, value, picture) {
  const names = [...new Set(rows.map((row) => row.name))];
  return numbersOf(caption + ", means of 5 minutes", ["minutes from", ...names], () => {
    const blocks = new Map();
    columns.forEach((minute, c) => {
      const block = Math.floor(minute / 5) * 5;
      if (!blocks.has(block)) blocks.set(block, new Map());
      rows.forEach((row, r) => {
        const found = value(c, r), sums = blocks.get(block);
        if (found === null) return;
        const [sum, count] = sums.get(row.name) || [0, 0];
        sums.set(row.name, [sum + found, count + 1]);
      });
    });
    return [...blocks].map(([block, sums]) => ({
      label: String(block),
      cells: names.map((name) => (sums.has(name) ? picture.short(sums.get(name)[0] / sums.get(name)[1]) : "")),
    }));
  });
}

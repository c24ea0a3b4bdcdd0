// A link's last hours: the estimate, its interval, where guests were missing, and another link to compare with.

import { QUANTITIES, shown } from "./scale.js";
import { clock } from "./timeline.js";

const HEIGHT = 190;

function style(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export class Chart {
  constructor() {
    this.box = document.getElementById("chart");
    this.text = document.getElementById("chart-text");
    new ResizeObserver(() => this.plot?.setSize({ width: this.box.clientWidth, height: HEIGHT })).observe(this.box);
  }

  clear(text) {
    this.plot?.destroy();
    this.plot = null;
    this.box.hidden = true;
    this.text.textContent = text;
  }

  // A link's series by a quantity; of another link the same, if there is one.
  draw(document, name, other) {
    const { moments } = document;
    if (!moments.length) return this.clear("Nothing is stored of this time.");
    this.box.hidden = false;
    const quantity = QUANTITIES[name];
    const times = moments.map((moment) => moment.end_s);
    const values = moments.map((moment) => moment[name]);
    const compared = new Map(other?.moments.map((moment) => [moment.end_s, moment[name]]));
    const border = (at) => moments.map((moment) => moment[`${name}_interval`]?.[at] ?? null);
    const missing = moments.map((moment) => Object.values(moment.participants).some((how) => how !== "in"));
    const data = [times, values, border(0), border(1), times.map((time) => compared.get(time) ?? null)];
    this.plot?.destroy();
    this.plot = new uPlot(this.options(quantity, document, missing), data, this.box);
    this.say(document, name, missing, other);
  }

  options(quantity, document, missing) {
    const [ink, line, faint, lack] = ["--ink", "--accent", "--faint", "--lack"].map(style);
    const axis = { stroke: ink, grid: { stroke: faint, width: 1 }, ticks: { stroke: faint, width: 1 }, font: "12px system-ui, sans-serif" };
    const edge = { stroke: line, width: 0.75, dash: [3, 3], points: { show: false } };
    // To the second where the ticks are closer than a minute.
    const hours = (times) => times.map((time) => clock(time).slice(-8, times.every((at) => at % 60 === 0) ? -3 : undefined));
    return {
      width: this.box.clientWidth, height: HEIGHT, legend: { show: false }, cursor: { drag: { x: true, y: false } },
      tzDate: (time) => uPlot.tzDate(new Date(time * 1000), "Etc/UTC"),
      scales: { y: { range: (_, low, high) => [0, Math.max(high, quantity.breaks[0]) * 1.08] } },
      axes: [{ ...axis, values: (_, times) => hours(times), space: 70 }, { ...axis, size: 46, label: quantity.unit, labelSize: 16, labelFont: "12px system-ui, sans-serif" }],
      series: [{}, { stroke: line, width: 2, points: { show: false }, spanGaps: false }, edge, edge, { stroke: style("--other"), width: 2, dash: [8, 4], points: { show: false }, spanGaps: false }],
      bands: [{ series: [3, 2], fill: style("--band") }],
      hooks: { drawClear: [(plot) => shade(plot, document, missing, lack)] },
    };
  }

  say(document, name, missing, other) {
    const quantity = QUANTITIES[name];
    const last = document.moments[document.moments.length - 1];
    const known = document.moments.map((moment) => moment[name]).filter((value) => value !== null);
    const [least, most] = [Math.min(...known), Math.max(...known)];
    const parts = [`${quantity.title} in ${quantity.unit}, ${clock(document.moments[0].end_s)} to ${clock(last.end_s)}`];
    if (known.length) parts.push(`between ${shown(quantity, least)} and ${shown(quantity, most)}`);
    if (other) {
      const numbers = other.moments.map((moment) => moment[name]).filter((value) => value !== null);
      const range = numbers.length ? `between ${shown(quantity, Math.min(...numbers))} and ${shown(quantity, Math.max(...numbers))}` : "without a number";
      parts.push(`dashed: ${other.link}, ${range}`);
    }
    this.box.setAttribute("aria-label", `${document.link}: ${parts.join(", ")}.`);
    const notes = [];
    if (last[`${name}_interval`]) notes.push(`Band: holds the truth in ${document.interval_percent} of 100 cases, with all guests in.`);
    const count = missing.filter(Boolean).length;
    const guests = Object.keys(last.participants).map((guest) => {
      const there = document.moments.filter((moment) => moment.participants[guest] === "in").length;
      return `${guest} in ${there}`;
    });
    notes.push(count ? `Shaded: ${count} of ${missing.length} steps without all guests (${guests.join(", ")}).` : `All guests in all ${missing.length} steps.`);
    this.text.textContent = `${parts.join(", ")}. ${notes.join(" ")}`;
  }
}

function shade(plot, document, missing, colour) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.fillStyle = colour;
  document.moments.forEach((moment, at) => {
    if (!missing[at]) return;
    const from = plot.valToPos(moment.end_s - document.step_s, "x", true);
    const to = plot.valToPos(moment.end_s, "x", true);
    const [left, right] = [Math.max(from, bbox.left), Math.min(to, bbox.left + bbox.width)];
    if (right > left) ctx.fillRect(left, bbox.top, right - left, bbox.height);
  });
  ctx.restore();
}

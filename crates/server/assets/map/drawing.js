// The network: a line for each link, as wide as its lanes, on a plane of metres.

import { colourOf, shown } from "./scale.js";

const SVG = "http://www.w3.org/2000/svg";
const MARGIN = 0.1;
const CLOSEST_M = 60;
// Labels of links are read out with their numbers, unless there are too many to write at each step.
const MOST_LABELS = 600;

function element(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

export function width(lanes) {
  return 2.5 + 3 * lanes;
}

export class Drawing {
  constructor(links, { onChoose, onView }) {
    this.svg = document.getElementById("map");
    this.tip = document.getElementById("tip");
    this.onChoose = onChoose;
    this.onView = onView;
    this.links = links;
    this.states = new Map();
    const points = links.flatMap((link) => link.shape);
    const [left, right] = [Math.min(...points.map((p) => p[0])), Math.max(...points.map((p) => p[0]))];
    const [low, high] = [Math.min(...points.map((p) => p[1])), Math.max(...points.map((p) => p[1]))];
    this.whole = { x: (left + right) / 2, y: (low + high) / 2, w: Math.max(right - left, CLOSEST_M), h: Math.max(high - low, CLOSEST_M) };
    this.basemap = element("g", { "aria-hidden": "true" });
    this.casings = element("g", { "aria-hidden": "true", class: "casings" });
    this.lines = element("g", { class: "lines" });
    this.arrows = element("g", { "aria-hidden": "true", class: "arrows" });
    this.svg.append(this.basemap, this.casings, this.lines, this.arrows);
    this.opposite = this.twoWay();
    this.drawn = links.map((link, at) => this.add(link, at));
    this.byName = new Map(this.drawn.map((drawn) => [drawn.link.link, drawn]));
    this.view = { x: this.whole.x, y: this.whole.y, metres: 1 };
    this.fit();
    new ResizeObserver(() => this.place()).observe(this.svg);
    this.listen();
  }

  // Links that have another one against them lie to the right of the line, as they do on the road.
  twoWay() {
    const key = (from, to) => [...from, ...to].map((part) => part.toFixed(0)).join(" ");
    const ends = (link) => [link.shape[0], link.shape[link.shape.length - 1]];
    const all = new Set(this.links.map((link) => key(...ends(link))));
    return this.links.map((link) => all.has(key(...ends(link).reverse())));
  }

  add(link, at) {
    const casing = element("path", { "stroke-width": width(link.lanes) + 2.5 });
    const line = element("path", {
      "stroke-width": width(link.lanes), role: "button", tabindex: at === 0 ? 0 : -1, "aria-label": link.link, "data-link": link.link,
    });
    const touch = element("path", { class: "touch", "stroke-width": Math.max(24, width(link.lanes)), "data-link": link.link });
    const arrow = element("path", { d: "M-3.2 -3.6 3.6 0 -3.2 3.6Z" });
    this.casings.append(casing);
    this.lines.append(touch, line);
    this.arrows.append(arrow);
    return { link, casing, line, touch, arrow, at };
  }

  // Pixels of a point.
  pixel([x, y]) {
    const { width: w, height: h } = this.size;
    return [w / 2 + (x - this.view.x) / this.view.metres, h / 2 - (y - this.view.y) / this.view.metres];
  }

  fit() {
    this.size = this.svg.getBoundingClientRect();
    const across = this.whole.w / Math.max(50, this.size.width * (1 - 2 * MARGIN));
    const up = this.whole.h / Math.max(50, this.size.height * (1 - 2 * MARGIN));
    this.fitted = Math.max(across, up);
    Object.assign(this.view, { x: this.whole.x, y: this.whole.y, metres: this.fitted });
    this.place();
  }

  place() {
    const before = this.fitted === this.view.metres;
    const size = this.svg.getBoundingClientRect();
    const changed = size.width !== this.size.width || size.height !== this.size.height;
    this.size = size;
    if (changed && before) return this.fit();
    this.svg.setAttribute("viewBox", `0 0 ${size.width} ${size.height}`);
    for (const { link, casing, line, touch, arrow, at } of this.drawn) {
      const aside = this.opposite[at] ? width(link.lanes) / 2 + 1.5 : 0;
      const points = beside(link.shape.map((point) => this.pixel(point)), aside);
      const d = "M" + points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L");
      for (const path of [casing, line, touch]) path.setAttribute("d", d);
      const [[x1, y1], [x2, y2]] = middle(points);
      const turn = (Math.atan2(y2 - y1, x2 - x1) * 180) / Math.PI;
      arrow.setAttribute("transform", `translate(${((x1 + x2) / 2).toFixed(1)} ${((y1 + y2) / 2).toFixed(1)}) rotate(${turn.toFixed(1)})`);
    }
    this.onView?.();
  }

  zoom(factor, at) {
    const { width: w, height: h } = this.size;
    const [px, py] = at ?? [w / 2, h / 2];
    const metres = Math.min(this.fitted * 2, Math.max(CLOSEST_M / w, this.view.metres * factor));
    this.view.x += (px - w / 2) * (this.view.metres - metres);
    this.view.y -= (py - h / 2) * (this.view.metres - metres);
    this.view.metres = metres;
    this.place();
  }

  // Colours all links by a quantity of their states.
  colour(states, quantity, name, dark) {
    Object.assign(this, { states, quantity, name });
    for (const { link, line, arrow } of this.drawn) {
      const value = states.get(link.link)?.[name];
      const colour = colourOf(quantity, value, dark);
      line.setAttribute("stroke", colour ?? "var(--none)");
      line.classList.toggle("none", colour === null);
      arrow.classList.toggle("on-none", colour === null);
      if (this.drawn.length <= MOST_LABELS) line.setAttribute("aria-label", this.label(link.link));
    }
  }

  label(link) {
    const value = this.states.get(link)?.[this.name];
    if (value === null || value === undefined) return `${link}: no ${this.quantity.title.toLowerCase()}`;
    return `${link}: ${this.quantity.title.toLowerCase()} ${shown(this.quantity, value)} ${this.quantity.spoken}`;
  }

  choose(link) {
    for (const drawn of this.drawn) {
      const chosen = drawn.link.link === link;
      drawn.casing.classList.toggle("chosen", chosen);
      drawn.casing.setAttribute("stroke-width", width(drawn.link.lanes) + (chosen ? 8 : 2.5));
      drawn.line.setAttribute("aria-pressed", String(chosen));
      if (chosen) this.rove(drawn);
    }
  }

  // One link can be reached by Tab, the others from it by arrows.
  rove(drawn) {
    for (const other of this.drawn) other.line.setAttribute("tabindex", other === drawn ? 0 : -1);
  }

  listen() {
    this.svg.addEventListener("click", (event) => {
      if (event.target.dataset.link && !this.dragged) this.onChoose(event.target.dataset.link);
    });
    this.svg.addEventListener("keydown", (event) => this.key(event));
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => (this.tip.hidden = true));
    this.svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(event.deltaY > 0 ? 1.2 : 1 / 1.2, [event.offsetX, event.offsetY]);
    }, { passive: false });
    document.getElementById("zoom").addEventListener("click", (event) => {
      const way = event.target.dataset.zoom;
      if (way === "all") this.fit();
      else if (way) this.zoom(way === "in" ? 1 / 1.5 : 1.5);
    });
    this.drag();
  }

  // One finger moves, two zoom.
  drag() {
    const held = new Map();
    const spread = () => {
      const [one, other] = [...held.values()];
      return Math.hypot(one[0] - other[0], one[1] - other[1]);
    };
    this.svg.addEventListener("pointerdown", (event) => {
      held.set(event.pointerId, [event.offsetX, event.offsetY]);
      this.dragged = false;
    });
    this.svg.addEventListener("pointermove", (event) => {
      const before = held.get(event.pointerId);
      if (!before) return;
      const now = [event.offsetX, event.offsetY];
      const [dx, dy] = [now[0] - before[0], now[1] - before[1]];
      if (held.size === 1 && (this.dragged || Math.hypot(dx, dy) > 4)) {
        if (!this.dragged) this.svg.setPointerCapture(event.pointerId);
        this.dragged = true;
        this.view.x -= dx * this.view.metres;
        this.view.y += dy * this.view.metres;
        held.set(event.pointerId, now);
        this.place();
      } else if (held.size === 2) {
        const wide = spread();
        held.set(event.pointerId, now);
        this.dragged = true;
        this.zoom(wide / Math.max(1, spread()), now);
      }
    });
    for (const end of ["pointerup", "pointercancel"]) {
      this.svg.addEventListener(end, (event) => held.delete(event.pointerId));
    }
  }

  key(event) {
    const drawn = this.byName.get(event.target.dataset?.link);
    const ways = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    if (event.key === "+" || event.key === "=") this.zoom(1 / 1.5);
    else if (event.key === "-") this.zoom(1.5);
    else if (drawn && ways[event.key]) {
      const next = this.drawn[(drawn.at + ways[event.key] + this.drawn.length) % this.drawn.length];
      this.rove(next);
      next.line.focus();
    } else if (drawn && (event.key === "Enter" || event.key === " ")) this.onChoose(drawn.link.link);
    else return;
    event.preventDefault();
  }

  point(event) {
    const link = event.target.dataset?.link;
    this.tip.hidden = !link || event.pointerType === "touch";
    if (this.tip.hidden || !this.quantity) return;
    const value = this.states.get(link)?.[this.name];
    this.tip.textContent = `${link} · ${shown(this.quantity, value)} ${this.quantity.unit}`;
    const right = event.offsetX > this.size.width - 180;
    this.tip.style.transform = `translate(${event.offsetX + (right ? -14 : 14)}px, ${event.offsetY + 14}px)${right ? " translateX(-100%)" : ""}`;
  }
}

// The middle piece of a line.
function middle(points) {
  const at = Math.max(1, Math.floor(points.length / 2));
  return [points[at - 1], points[at]];
}

// A line so many pixels to the right of another, in the direction of travel.
function beside(points, aside) {
  if (!aside) return points;
  return points.map((point, at) => {
    const [from, to] = [points[Math.max(0, at - 1)], points[Math.min(points.length - 1, at + 1)]];
    const long = Math.hypot(to[0] - from[0], to[1] - from[1]) || 1;
    return [point[0] - ((to[1] - from[1]) / long) * aside, point[1] + ((to[0] - from[0]) / long) * aside];
  });
}

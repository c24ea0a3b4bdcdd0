// Speed along a route as a time–space diagram: time to the right, the way upwards, colours as on the map.

import { ask } from "./estimates.js";
import { NONE, NONE_COLOUR, QUANTITIES, classOf, shown } from "./scale.js";
import { clock } from "./timeline.js";

const HOUR_S = 3600;
const HEIGHT = 260;
const MARGIN = { left: 56, right: 8, top: 8, bottom: 22 };
const byId = (id) => document.getElementById(id);

export class Route {
  constructor(page) {
    Object.assign(this, { page, way: null, diagram: null });
    this.canvas = byId("route-picture");
    byId("route-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.find(byId("route-from").value.trim(), byId("route-to").value.trim());
    });
    new ResizeObserver(() => this.paint()).observe(this.canvas);
  }

  say(text) {
    byId("route-text").textContent = text;
  }

  clear(text) {
    Object.assign(this, { way: null, diagram: null });
    this.canvas.hidden = byId("route-scroll").hidden = true;
    this.page.mark();
    this.say(text);
  }

  async find(from, to) {
    const { network, map } = this.page;
    for (const name of [from, to]) if (!network.byName.has(name)) return this.clear(`No link has the name ${name}.`);
    const way = network.route(network.byName.get(from), network.byName.get(to));
    if (!way) return this.clear(`There is no way from ${from} to ${to}.`);
    if (!map.history) return this.clear("This host stores no past.");
    this.way = way;
    [byId("route-from").value, byId("route-to").value] = [from, to];
    this.page.mark();
    this.page.share();
    await this.draw();
  }

  async draw() {
    const { map, estimate } = this.page;
    if (!this.way || !estimate || byId("route").hidden || this.busy) return;
    this.busy = true;
    try {
      const names = this.way.map((at) => map.links[at].link);
      const links = names.map((name) => `link=${encodeURIComponent(name)}`).join("&");
      this.diagram = await ask(`v1/route?${links}&from_s=${estimate.end_s - HOUR_S}&to_s=${estimate.end_s}`);
      this.canvas.hidden = byId("route-scroll").hidden = false;
      this.paint();
      this.table();
    } catch (error) {
      this.clear(error.message);
    } finally {
      this.busy = false;
    }
  }

  paint() {
    const { diagram, page } = this;
    if (!diagram?.steps.length || this.canvas.hidden) return;
    const scale = devicePixelRatio || 1;
    const width = this.canvas.clientWidth;
    Object.assign(this.canvas, { width: width * scale, height: HEIGHT * scale });
    const context = this.canvas.getContext("2d");
    context.scale(scale, scale);
    const style = getComputedStyle(document.documentElement);
    const [ink, faint] = ["--ink", "--faint"].map((name) => style.getPropertyValue(name).trim());
    const { left, right, top, bottom } = MARGIN;
    const [wide, high] = [width - left - right, HEIGHT - top - bottom];
    const metres = diagram.links.map(({ length_m: length }) => length);
    const long = metres.reduce((sum, length) => sum + length, 0);
    const begins = metres.map((_, at) => metres.slice(0, at).reduce((sum, length) => sum + length, 0));
    const x = (at) => left + (wide * at) / diagram.steps.length;
    const y = (place) => top + high * (1 - place / long);
    const quantity = QUANTITIES.speed;
    diagram.links.forEach(({ speed }, row) => {
      const [upper, lower] = [y(begins[row] + metres[row]), y(begins[row])];
      speed.forEach((value, at) => {
        const of = classOf(quantity, value);
        context.fillStyle = of === NONE ? NONE_COLOUR[page.dark() ? "dark" : "light"] : page.colours()[of];
        context.fillRect(x(at), upper, x(at + 1) - x(at) + 0.5, lower - upper);
      });
      context.fillStyle = faint;
      context.fillRect(left, upper, wide, 0.5);
    });
    context.fillStyle = ink;
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "top";
    const ends = [[0, "left"], [Math.floor(diagram.steps.length / 2), "center"], [diagram.steps.length - 1, "right"]];
    for (const [at, align] of ends) {
      context.textAlign = align;
      context.fillText(clock((diagram.steps[at] + 1) * diagram.step_s).slice(-8), x(align === "right" ? at + 1 : at), HEIGHT - bottom + 5);
    }
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const share of [0, 0.5, 1]) {
      const place = Math.min(HEIGHT - bottom - 6, Math.max(top + 6, y(share * long)));
      context.fillText(`${Math.round(share * long)} m`, left - 4, place);
    }
    const all = diagram.links.flatMap(({ speed }) => speed).filter((value) => value !== null);
    const range = all.length ? `, between ${shown(quantity, Math.min(...all))} and ${shown(quantity, Math.max(...all))} km/h` : "";
    const text = `${diagram.links.length} links, ${Math.round(long)} m, ${diagram.steps.length} steps up to ${clock((diagram.steps[diagram.steps.length - 1] + 1) * diagram.step_s)}${range}`;
    this.canvas.setAttribute("aria-label", `Speed along the route: ${text}. The table below has it link by link.`);
    this.say(`${text}. Time runs to the right, the way upwards.`);
  }

  table() {
    let from = 0;
    const rows = this.diagram.links.map(({ link, length_m: length, speed }) => {
      const row = document.createElement("tr");
      const known = speed.filter((value) => value !== null);
      const mean = known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
      const head = document.createElement("th");
      head.scope = "row";
      head.textContent = link;
      row.append(head);
      for (const text of [from.toFixed(0), shown(QUANTITIES.speed, mean), shown(QUANTITIES.speed, known.length ? Math.min(...known) : null)]) row.insertCell().textContent = text;
      from += length;
      return row;
    });
    byId("route-rows").replaceChildren(...rows);
  }
}

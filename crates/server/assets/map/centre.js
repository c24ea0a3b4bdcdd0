// For the traffic control centre: worst queues, largest changes, total delay in the part of the map that is shown.

import { QUANTITIES, shown } from "./scale.js";

const MOST = 10;
// A change is one against the estimate of so long ago, or the oldest that this page has of that time.
const BACK_S = 300;
const byId = (id) => document.getElementById(id);

// Vehicles on a link: density is of a kilometre and a lane.
export function vehicles(link, density) {
  return (density * link.lanes * link.length_m) / 1000;
}

// Vehicle-hours that are lost per hour against the speed limit: each vehicle loses the share of its time that it would save.
export function delay(link, density, speed) {
  return speed === null ? 0 : vehicles(link, density) * Math.max(0, 1 - speed / link.limit_km_h);
}

export class Centre {
  constructor(page) {
    this.page = page;
    this.panel = byId("centre");
    this.kept = [];
    for (const list of this.panel.querySelectorAll(".ranking")) {
      list.addEventListener("click", ({ target }) => target.dataset.at && page.choose(Number(target.dataset.at), true));
    }
  }

  // A new estimate: older ones are kept for as long as changes are asked of them.
  keep(estimate) {
    if (this.kept.length && estimate.step <= this.kept[this.kept.length - 1].step) this.kept = [];
    this.kept.push(estimate);
    while (this.kept.length > 1 && this.kept[1].end_s <= estimate.end_s - BACK_S) this.kept.shift();
    // Of few seconds' steps some are enough.
    if (this.kept.length > 64) this.kept = this.kept.filter((_, at) => at % 2 === 0 || at === this.kept.length - 1);
  }

  draw() {
    if (this.panel.hidden || !this.page.estimate) return;
    const { page } = this;
    const links = page.view ? page.view.visible() : page.map.links.map((_, at) => at);
    this.area(links);
    this.queues(links);
    this.changes(links);
  }

  area(links) {
    const { map, estimate } = this.page;
    let [sum, count, metres, flow] = [0, 0, 0, 0];
    for (const at of links) {
      const [link, density] = [map.links[at], estimate.value("density", at)];
      const speed = estimate.value("speed", at);
      sum += delay(link, density, speed);
      count += vehicles(link, density);
      metres += link.length_m * link.lanes;
      flow += ((speed ?? 0) * vehicles(link, density));
    }
    const rows = [
      ["Links", `${links.length}`], ["Vehicles", count.toFixed(0)],
      ["Mean speed", count > 0.05 ? `${(flow / count).toFixed(0)} km/h` : "–"],
      ["Total delay", `${sum.toFixed(1)} veh·h/h`], ["Length of lanes", `${(metres / 1000).toFixed(1)} km`],
    ];
    byId("area").replaceChildren(...rows.flatMap(([term, text]) => ["dt", "dd"].map((tag, at) => {
      const made = document.createElement(tag);
      made.textContent = at ? text : term;
      if (at) made.dataset.of = term;
      return made;
    })));
    this.total = sum;
  }

  // Most vehicles that are held up.
  queues(links) {
    const { map, estimate } = this.page;
    const all = links.map((at) => {
      const [density, speed] = [estimate.value("density", at), estimate.value("speed", at)];
      return { at, held: delay(map.links[at], density, speed), density, speed };
    });
    const worst = largest(all, ({ held }) => held).filter(({ held }) => held > 0.05);
    this.list("queues", worst, ({ held, density, speed }) => `${held.toFixed(1)} veh·h/h, ${shown(QUANTITIES.density, density)} veh/km/lane, ${shown(QUANTITIES.speed, speed)} km/h`, "Nothing is held up here.");
  }

  changes(links) {
    const { estimate, name } = this.page;
    const quantity = QUANTITIES[name];
    const before = this.kept.filter(({ step, end_s: end }) => step < estimate.step && end >= estimate.end_s - 2 * BACK_S)[0];
    const span = before ? Math.round(estimate.end_s - before.end_s) : 0;
    byId("changes-title").textContent = before ? `Largest changes of ${quantity.title.toLowerCase()} in ${span < 120 ? `${span} s` : `${Math.round(span / 60)} min`}` : "Largest changes";
    if (!before) return this.list("changes", [], () => "", "Changes show once there are two estimates.");
    const all = links.flatMap((at) => {
      const [now, then] = [this.page.value(name, at), this.page.value(name, at, before)];
      return now === null || then === null ? [] : [{ at, now, then }];
    });
    const most = largest(all, ({ now, then }) => Math.abs(now - then)).filter(({ now, then }) => now !== then);
    this.list("changes", most, ({ now, then }) => `${now > then ? "+" : "−"}${shown(quantity, Math.abs(now - then))} to ${shown(quantity, now)} ${quantity.unit}`, "Nothing has changed here.");
  }

  list(id, rows, text, none) {
    const items = rows.map((row) => {
      const item = document.createElement("li");
      const button = document.createElement("button");
      button.type = "button";
      button.dataset.at = row.at;
      button.textContent = this.page.map.links[row.at].link;
      const span = document.createElement("span");
      span.textContent = text(row);
      item.append(button, span);
      return item;
    });
    if (!items.length) {
      const item = document.createElement("li");
      item.textContent = none;
      items.push(item);
    }
    // A button that has the focus keeps it.
    const focused = document.activeElement?.closest?.(`#${id}`) ? document.activeElement.dataset.at : null;
    byId(id).replaceChildren(...items);
    if (focused) byId(id).querySelector(`[data-at="${focused}"]`)?.focus();
  }
}

// The few with the largest of a number, in order.
function largest(all, number) {
  const best = [];
  for (const row of all) {
    const value = number(row);
    if (best.length === MOST && value <= best[MOST - 1].value) continue;
    const place = best.findIndex((other) => other.value < value);
    best.splice(place < 0 ? best.length : place, 0, { value, row });
    if (best.length > MOST) best.pop();
  }
  return best.map(({ row }) => row);
}

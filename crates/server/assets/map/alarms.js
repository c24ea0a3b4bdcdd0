// Alarms of the host: thresholds that links are beyond, and guests that are silent.

import { ask } from "./estimates.js";
import { clock } from "./timeline.js";

const byId = (id) => document.getElementById(id);
// Rows that are shown.
const MOST = 50;

export class Alarms {
  constructor(page) {
    this.page = page;
    byId("alarm-list").addEventListener("click", ({ target }) => {
      const at = page.network.byName.get(target.dataset.link);
      if (at !== undefined) page.choose(at, true);
    });
    this.refresh();
    const source = new EventSource("v1/alarms/stream");
    source.addEventListener("alarm", (event) => this.arrived(JSON.parse(event.data)));
    // What was missed while there was no connection.
    source.addEventListener("open", () => this.refresh());
  }

  async refresh() {
    try {
      this.draw(await ask("v1/alarms"));
    } catch (error) {
      byId("alarms-about").textContent = error.message;
    }
  }

  arrived(event) {
    const parts = [];
    if (event.raised_count) parts.push(`${event.raised_count} new ${event.raised_count === 1 ? "alarm" : "alarms"}: ${event.raised.slice(0, 3).map(({ link, rule }) => `${link}, ${rule}`).join("; ")}`);
    for (const guest of event.silent) parts.push(`guest ${guest} is silent`);
    for (const guest of event.back) parts.push(`guest ${guest} is back`);
    if (parts.length) this.page.say(parts.join(". "));
    // Many at a time ask once.
    clearTimeout(this.due);
    this.due = setTimeout(() => this.refresh(), 200);
  }

  draw({ rules, active, active_count: count, silent }) {
    byId("alarms-about").textContent = rules.length ? `Rules: ${rules.join("; ")}` : "This host has no thresholds; silent guests are told here.";
    const items = [];
    for (const guest of silent) items.push(this.item(`guest ${guest}`, "silent", null));
    for (const { link, rule, value, since_s: since } of active.slice(0, MOST)) items.push(this.item(link, `${rule} (${value === null ? "–" : value.toFixed(1)}), since ${clock(since)}`, link));
    if (count > MOST) items.push(this.item("…", `${count - Math.min(MOST, active.length)} more`, null));
    if (!items.length) items.push(this.item("none", "", null));
    byId("alarm-list").replaceChildren(...items);
    byId("alarms").dataset.active = String(count + silent.length);
  }

  item(head, text, link) {
    const item = document.createElement("li");
    const title = document.createElement(link === null ? "strong" : "button");
    title.textContent = head;
    if (link !== null) Object.assign(title, { type: "button" }).dataset.link = link;
    const span = document.createElement("span");
    span.textContent = text;
    item.append(title, span);
    return item;
  }
}

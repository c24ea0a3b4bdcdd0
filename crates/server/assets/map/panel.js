// The chosen link: its numbers now, its last hours, who contributed, and another link beside it.

import { Chart } from "./chart.js";
import { ask } from "./estimates.js";
import { QUANTITIES, shown } from "./scale.js";

const HOUR_S = 3600;
const byId = (id) => document.getElementById(id);

export class Panel {
  constructor(page) {
    this.page = page;
    this.chart = new Chart();
    byId("link-show").addEventListener("click", () => page.view?.show([page.link, page.other].filter((at) => at !== null)));
    byId("link-compare").addEventListener("click", () => this.comparing(!page.comparing));
    byId("link-alone").addEventListener("click", () => page.compare(null));
    byId("hours").addEventListener("change", () => {
      page.share();
      this.draw(true);
    });
  }

  // Whether the next link that is chosen is the other one.
  comparing(on) {
    this.page.comparing = on;
    byId("link-compare").setAttribute("aria-pressed", String(on));
    byId("link-compare").textContent = on ? "Choose the other link …" : "Compare with another";
  }

  // Numbers at once, the last hours when they are there.
  async draw(anew = false) {
    const { page } = this;
    const { link, other, map, estimate, name } = page;
    if (link === null) return;
    const names = [link, other].filter((at) => at !== null).map((at) => map.links[at].link);
    byId("link-title").textContent = names.length > 1 ? `Links ${names.join(" and ")}` : `Link ${names[0]}`;
    byId("link-about").textContent = [link, other].filter((at) => at !== null).map((at) => about(map.links[at])).join(" · ");
    byId("link-buttons").hidden = false;
    byId("link-alone").hidden = other === null;
    byId("link-show").hidden = !page.view;
    this.now(null);
    if (!map.history) return this.none("This host stores no past.");
    if (!estimate) return this.none("Nothing is stored of this moment.");
    if (!anew && this.busy) return;
    this.busy = true;
    try {
      const hours = Number(byId("hours").value);
      const span = `from_s=${estimate.end_s - hours * HOUR_S}&to_s=${estimate.end_s}`;
      const series = await Promise.all(names.map((of) => ask(`v1/links/${encodeURIComponent(of)}?${span}`)));
      if (page.link !== link || page.other !== other || page.name !== name) return;
      const limits = [link, other].filter((at) => at !== null).map((at) => map.links[at].limit_km_h);
      series.forEach(({ moments }, place) => moments.forEach((moment) => (moment.share = moment.speed === null ? null : (100 * moment.speed) / limits[place])));
      this.chart.draw(series[0], name, series[1]);
      this.now(series);
      this.quality(series[0]);
    } catch (error) {
      this.none(error.message);
    } finally {
      this.busy = false;
    }
  }

  none(text) {
    this.chart.clear(text);
    byId("quality").replaceChildren();
  }

  // Each quantity as a row, each link as a column; with intervals where the moment shown has them.
  now(series) {
    const { page } = this;
    const table = byId("link-now");
    const links = [page.link, page.other].filter((at) => at !== null);
    const row = (cells) => {
      const made = document.createElement("tr");
      made.append(...cells);
      return made;
    };
    const cell = (tag, text, scope) => {
      const made = document.createElement(tag);
      made.textContent = text;
      if (scope) made.scope = scope;
      return made;
    };
    const rows = Object.entries(QUANTITIES).map(([name, quantity]) => {
      const values = links.map((at, place) => {
        const last = series?.[place]?.moments.at(-1);
        const interval = last?.step === page.estimate?.step ? last?.[`${name}_interval`] : null;
        const range = interval ? ` (${shown(quantity, interval[0])} to ${shown(quantity, interval[1])})` : "";
        return cell("td", `${shown(quantity, page.value(name, at))}${range} ${quantity.unit}`);
      });
      return row([cell("th", quantity.title, "row"), ...values]);
    });
    const heads = links.length > 1 ? [row([cell("td", ""), ...links.map((at) => cell("th", page.map.links[at].link, "col"))])] : [];
    // A page that is looked at while numbers come must not jump: what is there stays until the intervals are there.
    if (series === null && !table.hidden && table.dataset.of === `${links} ${page.estimate?.step}`) return;
    table.dataset.of = `${links} ${page.estimate?.step}`;
    table.replaceChildren(...heads, ...rows);
    table.hidden = false;
  }

  // How many of the steps each guest contributed to, and how wide intervals are.
  quality({ moments, interval_percent: percent }) {
    const list = document.createElement("dl");
    const put = (term, text) => {
      for (const [tag, content] of [["dt", term], ["dd", text]]) {
        const made = document.createElement(tag);
        made.textContent = content;
        list.append(made);
      }
    };
    const of = moments.length;
    const whole = moments.filter(({ participants }) => Object.values(participants).every((how) => how === "in")).length;
    put("All guests in", `${whole} of ${of} steps`);
    for (const guest of this.page.map.guests) {
      const count = moments.filter(({ participants }) => participants[guest] === "in").length;
      put(`${guest} contributed`, `${count} of ${of} steps`);
    }
    const widths = moments.flatMap(({ density_interval: interval }) => (interval ? [interval[1] - interval[0]] : []));
    if (widths.length) put(`Mean width of the ${percent} % interval`, `${(widths.reduce((sum, width) => sum + width, 0) / widths.length).toFixed(1)} veh/km/lane`);
    const title = document.createElement("h3");
    title.textContent = "Data quality of this time";
    byId("quality").replaceChildren(title, list);
  }
}

function about(link) {
  const lanes = link.lanes === 1 ? "1 lane" : `${link.lanes} lanes`;
  return `${lanes}, ${link.length_m.toFixed(0)} m, limit ${link.limit_km_h.toFixed(0)} km/h`;
}

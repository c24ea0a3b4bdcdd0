// All links as a table: the map for those who do not see it. Sorted, filtered, a page at a time.

import { QUANTITIES, shown } from "./scale.js";

const ROWS = 100;
const COLUMNS = ["density", "flow", "speed"];

export class Table {
  constructor(links, onChoose) {
    Object.assign(this, { links, onChoose, estimate: null, page: 0, sort: "name", down: false, chosen: null });
    this.names = links.map((link) => link.link);
    const order = new Intl.Collator("en", { numeric: true });
    this.byName = this.names.map((_, at) => at).sort((one, other) => order.compare(this.names[one], this.names[other]));
    this.panel = document.getElementById("all");
    this.body = document.getElementById("rows");
    this.body.addEventListener("click", ({ target }) => target.dataset.at && onChoose(Number(target.dataset.at)));
    for (const button of this.panel.querySelectorAll("[data-sort]")) {
      button.addEventListener("click", () => this.sortBy(button.dataset.sort));
    }
    this.filters = ["name", "density", "speed"].map((name) => document.getElementById(`filter-${name}`));
    for (const filter of this.filters) filter.addEventListener("input", () => this.turn(0));
    document.getElementById("page-back").addEventListener("click", () => this.turn(this.page - 1));
    document.getElementById("page-on").addEventListener("click", () => this.turn(this.page + 1));
  }

  sortBy(name) {
    this.down = this.sort === name ? !this.down : name !== "name" && name !== "speed";
    this.sort = name;
    for (const button of this.panel.querySelectorAll("[data-sort]")) {
      const sorted = button.dataset.sort === name ? (this.down ? "descending" : "ascending") : "none";
      button.closest("th").setAttribute("aria-sort", sorted);
    }
    this.turn(0);
  }

  turn(page) {
    this.page = page;
    this.draw();
  }

  update(estimate) {
    this.estimate = estimate;
    this.draw();
  }

  choose(at) {
    this.chosen = at;
    for (const row of this.body.rows) row.classList.toggle("chosen", Number(row.dataset.of) === at);
  }

  // Links that pass the filters, in order.
  found() {
    const [name, least, most] = this.filters.map((filter) => filter.value.trim());
    const { estimate } = this;
    const passes = (at) =>
      (!name || this.names[at].toLowerCase().includes(name.toLowerCase())) &&
      (!least || (estimate?.value("density", at) ?? -1) >= Number(least)) &&
      (!most || (estimate?.value("speed", at) ?? Infinity) <= Number(most));
    const found = this.byName.filter(passes);
    if (this.sort === "name") return this.down ? found.reverse() : found;
    // Links without a number stand last, whichever way.
    const value = (at) => estimate?.value(this.sort, at) ?? null;
    const sign = this.down ? -1 : 1;
    return found.sort((one, other) => {
      const [a, b] = [value(one), value(other)];
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * (a - b);
    });
  }

  // Rows are not written while nobody looks at them.
  draw() {
    if (this.panel.hidden) return;
    const found = this.found();
    const pages = Math.max(1, Math.ceil(found.length / ROWS));
    this.page = Math.min(Math.max(0, this.page), pages - 1);
    const from = this.page * ROWS;
    const here = found.slice(from, from + ROWS);
    while (this.body.rows.length > here.length) this.body.deleteRow(-1);
    while (this.body.rows.length < here.length) this.body.append(this.row());
    here.forEach((at, place) => this.fill(this.body.rows[place], at));
    document.getElementById("table-count").textContent = found.length ? `${from + 1} to ${from + here.length} of ${found.length} links` : "no link passes the filters";
    document.getElementById("page-back").disabled = this.page === 0;
    document.getElementById("page-on").disabled = this.page === pages - 1;
  }

  row() {
    const row = document.createElement("tr");
    const head = document.createElement("th");
    head.scope = "row";
    const button = document.createElement("button");
    button.type = "button";
    head.append(button);
    row.append(head);
    for (const _ of COLUMNS) row.insertCell();
    return row;
  }

  fill(row, at) {
    const button = row.querySelector("button");
    if (button.dataset.at !== String(at)) {
      button.dataset.at = at;
      button.textContent = this.names[at];
      row.dataset.of = at;
    }
    row.classList.toggle("chosen", at === this.chosen);
    COLUMNS.forEach((name, column) => {
      row.cells[column + 1].textContent = shown(QUANTITIES[name], this.estimate?.value(name, at));
    });
  }
}

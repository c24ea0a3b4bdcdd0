// All links as a table: the map for those who do not see it.

import { QUANTITIES, shown } from "./scale.js";

export class Table {
  constructor(links, onChoose) {
    this.details = document.getElementById("all");
    this.latest = null;
    const body = document.getElementById("rows");
    this.rows = links.map((link) => {
      const row = body.insertRow();
      const head = document.createElement("th");
      head.scope = "row";
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = link.link;
      button.addEventListener("click", () => onChoose(link.link));
      head.append(button);
      row.append(head);
      return { row, cells: Object.keys(QUANTITIES).map(() => row.insertCell()), link: link.link };
    });
    document.getElementById("table-title").textContent =
      `Density in ${QUANTITIES.density.unit}, flow in ${QUANTITIES.flow.unit}, speed in ${QUANTITIES.speed.unit}`;
    this.details.addEventListener("toggle", () => this.draw());
  }

  update(states) {
    this.latest = states;
    this.draw();
  }

  // Thousands of rows are not written while nobody looks at them.
  draw() {
    if (!this.details.open || !this.latest) return;
    for (const { cells, link } of this.rows) {
      const state = this.latest.get(link);
      Object.entries(QUANTITIES).forEach(([name, quantity], column) => {
        cells[column].textContent = shown(quantity, state?.[name]);
      });
    }
  }

  choose(link) {
    for (const { row, link: name } of this.rows) row.classList.toggle("chosen", name === link);
  }
}

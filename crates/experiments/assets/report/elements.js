// Building blocks of the page. Text is always set as text, never as markup.

const data = JSON.parse(document.getElementById("data").textContent);
const content = document.getElementById("content");

function make(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === true) node.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

// A section with a heading and a place in the list of contents.
function section(id, title, short) {
  const heading = make("h2", { id: id + "-title" }, title);
  const node = make("section", { id, "aria-labelledby": id + "-title" }, heading);
  content.append(node);
  document.getElementById("contents").append(make("a", { href: "#" + id }, short));
  return node;
}

// Rows are { label, paper, cells }, cells are texts or { text, best, words }.
function table(caption, columns, rows, corner) {
  const inWords = (at) => rows.length > 0 && rows[0].cells[at].words;
  const head = make("tr", {}, corner ? make("th", { scope: "col" }, corner) : make("td", {}),
    ...columns.map((text, at) => make("th", { scope: "col", class: inWords(at) ? "words" : null }, text)));
  const body = rows.map((row) => make("tr", { class: row.paper ? "paper" : null },
    make("th", { scope: "row" }, row.paper ? "paper: " + row.label : row.label),
    ...row.cells.map((cell) => {
      const value = typeof cell === "object" ? cell : { text: cell };
      const text = value.text === "" ? "–" : value.text;
      return make("td", { class: value.best ? "best" : value.words ? "words" : null }, text);
    })));
  const grid = make("table", { class: "numbers" }, make("caption", { class: "heard" }, caption),
    make("thead", {}, head), make("tbody", {}, ...body));
  // Shown outside of what scrolls sideways; heard with the table.
  return make("div", {}, make("p", { class: "caption", "aria-hidden": "true" }, caption),
    make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption }, grid));
}

// Numbers of a chart, made when they are asked for.
function numbersOf(caption, columns, rows) {
  const details = make("details", {}, make("summary", {}, "Numbers as a table: " + caption));
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) {
      const grid = table(caption, columns.slice(1), rows(), columns[0]);
      grid.lastElementChild.classList.add("tall");
      details.append(grid);
    }
  });
  return details;
}

function choice(label, options, changed) {
  const select = make("select", {}, ...options.map((option) => make("option", { value: option }, option)));
  select.addEventListener("change", () => changed(select.value));
  return make("label", {}, label + " ", select);
}

function rounded(value, digits) {
  return value === null || value === undefined ? "" : value.toFixed(digits === undefined ? 2 : digits);
}

function counted(value) {
  return Math.round(value).toLocaleString("en-GB");
}

// The theme: the system's until one is chosen. Whoever draws is told when it changes.
const themed = [];
const dark = matchMedia("(prefers-color-scheme: dark)");
const chooser = document.getElementById("theme");
function isDark() {
  return chooser.value === "auto" ? dark.matches : chooser.value === "dark";
}
function applyTheme() {
  document.documentElement.dataset.theme = isDark() ? "dark" : "light";
  themed.forEach((draw) => draw());
}
chooser.addEventListener("change", applyTheme);
dark.addEventListener("change", applyTheme);
document.documentElement.dataset.theme = isDark() ? "dark" : "light";

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// Told apart by colour-blind readers too (after Okabe and Ito), on light and on dark ground.
const LIGHT = ["#0072b2", "#d55e00", "#00795a", "#b0478a", "#8a6d00", "#2b8cbe", "#555d66", "#7a3e9d", "#a23b3b", "#3f7d20"];
const DARK = ["#56b4e9", "#f0853c", "#35c79b", "#e08fc2", "#e6c84c", "#9fd3f5", "#c0c7d0", "#b894e0", "#f09a9a", "#a4d977"];
function lineColour(place) {
  const all = isDark() ? DARK : LIGHT;
  return all[place % all.length];
}

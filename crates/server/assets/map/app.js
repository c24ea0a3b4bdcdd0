// The page: what is shown, and when.

import { Basemap } from "./basemap.js";
import { Chart } from "./chart.js";
import { Drawing } from "./drawing.js";
import { QUANTITIES, colour, shown, ticks } from "./scale.js";
import { Table } from "./table.js";
import { Timeline, clock } from "./timeline.js";

const HOUR_S = 3600;
// After a refused connection, before the next.
const AGAIN_MS = 5000;
const STALE_S = 60;
const WORDS = { in: "in", late: "late", absent: "absent", unusable: "unusable" };
const byId = (id) => document.getElementById(id);
const systemDark = matchMedia("(prefers-color-scheme: dark)");

const page = { name: "density", estimate: null, newest: null, link: null, wanted: null, charted: null };

async function ask(path) {
  const response = await fetch(path);
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error ?? response.statusText);
  return answer;
}

async function begin() {
  page.map = await ask("v1/map");
  const { map } = page;
  QUANTITIES.speed.most = Math.ceil(Math.max(...map.links.map((link) => link.limit_km_h)) / 10) * 10;
  byId("name").textContent = map.name;
  document.title = `${map.name}: traffic`;
  page.drawing = new Drawing(map.links, { onChoose: choose, onView: () => page.basemap?.draw() });
  if (map.tiles && map.origin) {
    page.basemap = new Basemap(map.tiles, map.origin, page.drawing);
    page.basemap.draw();
  }
  page.table = new Table(map.links, choose);
  page.chart = new Chart();
  page.timeline = new Timeline(map.step_s, past, live);
  for (const radio of document.querySelectorAll("[name=quantity]")) {
    radio.addEventListener("change", () => quantity(radio.value));
  }
  if (!map.live) byId("live").textContent = "Newest";
  themes();
  quantity(page.name);
  byId("exports").hidden = !map.history;
  if (map.history) await stored();
  mode("no estimate yet");
  listen();
  setInterval(age, 1000);
  document.documentElement.dataset.ready = "true";
}

async function stored() {
  page.timeline.cover((await ask("v1/history")).stretches);
}

function listen() {
  const stream = new EventSource("v1/estimates/stream");
  stream.addEventListener("estimate", (event) => arrived(JSON.parse(event.data)));
  stream.addEventListener("open", () => {
    if (page.lost) say("connected again");
    page.lost = false;
    age();
  });
  stream.addEventListener("error", () => {
    if (!page.lost) say("connection lost");
    page.lost = true;
    age();
    // A browser does not try again by itself once it was turned away.
    if (stream.readyState === EventSource.CLOSED) setTimeout(listen, AGAIN_MS);
  });
}

// A new estimate. A host tells them in their order: one of an earlier step than the newest means that its records have begun
// anew, as when a recording is replayed again.
function arrived(estimate) {
  const anew = page.newest && estimate.step < page.newest.step;
  if (anew) say("the records have begun anew");
  page.newest = estimate;
  page.arrived = performance.now();
  page.timeline.reach(estimate.step);
  if (page.map.history && (anew || byId("time").hidden)) stored().catch(() => {});
  if (page.timeline.following) show(estimate);
}

function live() {
  page.wanted = null;
  say("live");
  if (page.newest) show(page.newest);
}

// An estimate of the past: while one is fetched, only the last one wished for is fetched next.
async function past(step) {
  const busy = page.wanted !== null;
  page.wanted = step;
  if (busy) return;
  while (page.wanted !== null) {
    const next = page.wanted;
    try {
      const estimate = await ask(`v1/history/${next}`);
      if (!page.timeline.following) show(estimate);
    } catch (error) {
      if (!page.timeline.following) nothing(next, error.message);
    }
    if (page.wanted === next) page.wanted = null;
  }
}

function nothing(step, text) {
  page.estimate = null;
  page.states = new Map();
  byId("clock").textContent = clock((step + 1) * page.map.step_s);
  mode(text);
  page.drawing.colour(new Map(), QUANTITIES[page.name], page.name, dark());
  page.table.update(new Map());
  guests({});
  if (page.link) details(true);
}

// Shows an estimate.
function show(estimate) {
  page.estimate = estimate;
  page.states = new Map(estimate.links.map((link) => [link.link, link]));
  byId("clock").textContent = clock(estimate.end_s);
  age();
  paint();
  page.table.update(page.states);
  guests(estimate.participants);
  const [from, to] = [estimate.end_s - HOUR_S, estimate.end_s];
  byId("export-csv").href = `v1/exports/estimates.csv?from_s=${from}&to_s=${to}`;
  byId("export-parquet").href = `v1/exports/estimates.parquet?from_s=${from}&to_s=${to}`;
  byId("export-geojson").href = `v1/exports/estimates.geojson?step=${estimate.step}`;
  if (page.link) details();
}

function paint() {
  if (page.estimate) page.drawing.colour(page.states, QUANTITIES[page.name], page.name, dark());
}

function quantity(name) {
  page.name = name;
  const chosen = QUANTITIES[name];
  byId("legend-title").textContent = `${chosen.title}, ${chosen.unit}`;
  const high = chosen.attention === "high";
  const stops = Array.from({ length: 17 }, (_, at) => {
    const attention = high ? at / 16 : 1 - at / 16;
    return colour(dark() ? attention : 1 - attention);
  });
  byId("legend-bar").style.background = `linear-gradient(to right, ${stops.join(", ")})`;
  const tick = (value, at, all) => {
    const made = document.createElement("span");
    made.textContent = `${at === all.length - 1 && name !== "speed" ? "≥ " : ""}${value.toFixed(value % 1 ? 1 : 0)}`;
    return made;
  };
  byId("legend-ticks").replaceChildren(...ticks(chosen).map(tick));
  byId("legend-none").textContent = name === "speed" ? "dashed: no vehicles, so no speed" : "wider lines: more lanes";
  paint();
  if (page.link) details(true);
}

function guests(participants) {
  const items = (page.map.guests ?? []).map((guest) => {
    const how = participants[guest] ?? "unknown";
    const item = document.createElement("li");
    item.dataset.guest = guest;
    item.dataset.how = how;
    const name = document.createElement("span");
    name.textContent = guest;
    const word = document.createElement("strong");
    word.textContent = WORDS[how] ?? "not known";
    item.append(name, word);
    return item;
  });
  byId("guests").replaceChildren(...items);
  const lacking = Object.entries(participants).filter(([, how]) => how !== "in").map(([guest, how]) => `${guest} ${how}`);
  const text = lacking.join(", ");
  if (page.lacking !== undefined && page.lacking !== text) say(text ? `now: ${text}` : "all guests are in");
  page.lacking = text;
}

function choose(link) {
  page.link = link;
  page.drawing.choose(link);
  page.table.choose(link);
  details(true);
  say(`${link} chosen`);
}

// The chosen link: numbers at once, the hour when it is there.
async function details(anew = false) {
  const { link, map, estimate } = page;
  const about = map.links.find((found) => found.link === link);
  byId("link-title").textContent = `Link ${link}`;
  const lanes = about.lanes === 1 ? "1 lane" : `${about.lanes} lanes`;
  byId("link-about").textContent = `${lanes}, ${about.length_m.toFixed(0)} m, limit ${about.limit_km_h.toFixed(0)} km/h`;
  const state = page.states?.get(link);
  const rows = Object.entries(QUANTITIES).flatMap(([name, chosen]) => {
    const interval = state?.[`${name}_interval`];
    const range = interval ? ` (${shown(chosen, interval[0])} to ${shown(chosen, interval[1])})` : "";
    return [["dt", chosen.title], ["dd", `${shown(chosen, state?.[name])}${range} ${chosen.unit}`]].map(([tag, text]) => {
      const made = document.createElement(tag);
      made.textContent = text;
      return made;
    });
  });
  byId("link-now").replaceChildren(...rows);
  byId("link-now").hidden = false;
  if (!map.history) return page.chart.clear("This host stores no past.");
  if (!estimate) return page.chart.clear("Nothing is stored of this moment.");
  if (!anew && page.charting) return;
  page.charting = true;
  try {
    const span = `from_s=${estimate.end_s - HOUR_S}&to_s=${estimate.end_s}`;
    const series = await ask(`v1/links/${encodeURIComponent(link)}?${span}`);
    if (page.link === link) page.chart.draw(series, page.name);
  } catch (error) {
    page.chart.clear(error.message);
  } finally {
    page.charting = false;
  }
}

function age() {
  const { timeline, newest, estimate } = page;
  if (!timeline.following && estimate) {
    byId("age").textContent = "";
    return mode("past");
  }
  if (!newest) return;
  if (newest.age_s === null) {
    byId("age").textContent = "";
    return mode(page.map.live ? "latest" : "stored");
  }
  const seconds = newest.age_s + (performance.now() - page.arrived) / 1000;
  byId("age").textContent = `${seconds < 120 ? `${seconds.toFixed(0)} s` : `${(seconds / 60).toFixed(0)} min`} old`;
  if (page.lost) mode("connection lost", "bad");
  else if (seconds > STALE_S) mode("no new estimates", "bad");
  else mode("live", "good");
}

function mode(text, kind = "") {
  const pill = byId("mode");
  pill.textContent = text;
  pill.dataset.kind = kind;
}

function say(text) {
  byId("said").textContent = text;
}

function dark() {
  const { theme } = document.documentElement.dataset;
  return theme ? theme === "dark" : systemDark.matches;
}

function themes() {
  const button = byId("theme");
  const change = () => {
    button.textContent = dark() ? "Light" : "Dark";
    button.setAttribute("aria-label", dark() ? "Light colours" : "Dark colours");
    quantity(page.name);
  };
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    change();
  });
  systemDark.addEventListener("change", change);
  change();
}

begin().catch((error) => {
  mode("not available", "bad");
  byId("link-about").textContent = error.message;
});

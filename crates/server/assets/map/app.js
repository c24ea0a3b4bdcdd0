// The page: what is shown, and when.

import { Alarms } from "./alarms.js";
import { Centre } from "./centre.js";
import { Stream, ask, stored } from "./estimates.js";
import { Network } from "./network.js";
import { Panel } from "./panel.js";
import { Route } from "./route.js";
import { NONE_COLOUR, QUANTITIES, SCALES, classOf, fit, ranges, shown } from "./scale.js";
import { Search } from "./search.js";
import { read, remember, remembered, write } from "./state.js";
import { Table } from "./table.js";
import { Timeline, clock } from "./timeline.js";
import { View } from "./view.js";

const HOUR_S = 3600;
const STALE_S = 60;
const WORDS = { in: "in", late: "late", absent: "absent", unusable: "unusable" };
const TABS = ["link", "centre", "route", "all"];
const byId = (id) => document.getElementById(id);
const systemDark = matchMedia("(prefers-color-scheme: dark)");

const page = {
  name: "density", tab: "link", estimate: null, newest: null, link: null, other: null, comparing: false, wanted: null, view: null,
  choose, compare, share, say, mark, dark, colours, value,
};

async function begin() {
  if (remembered("theme")) document.documentElement.dataset.theme = remembered("theme");
  page.map = await ask("v1/map");
  const { map } = page;
  const start = read();
  fit(Math.max(10, ...map.links.map((link) => link.limit_km_h)));
  byId("name").textContent = map.name;
  document.title = `${map.name}: traffic`;
  page.network = new Network(map);
  page.table = new Table(map.links, (at) => choose(at, true));
  page.panel = new Panel(page);
  page.centre = new Centre(page);
  page.route = new Route(page);
  page.search = new Search(map.links, choose);
  page.timeline = new Timeline(map.step_s, past, live);
  listen();
  const attribution = byId("attribution");
  attribution.textContent = map.tiles?.attribution ?? "";
  attribution.hidden = !attribution.textContent;
  await draw(start);
  for (const radio of document.querySelectorAll("[name=quantity]")) {
    radio.addEventListener("change", () => quantity(radio.value));
  }
  if (!map.live) byId("live").textContent = "Newest";
  controls();
  tabs();
  restore(start);
  byId("exports").hidden = !map.history;
  page.alarms = new Alarms(page);
  if (!page.estimate) mode("no estimate yet");
  if (map.history) await covered();
  if (start.t !== null && map.history) await page.timeline.go(start.t);
  if (start.from && start.to) await page.route.find(start.from, start.to);
  setInterval(age, 1000);
  page.begun = true;
  share();
  document.documentElement.dataset.ready = "true";
}

// The map; a browser without WebGL has all the rest.
async function draw(start) {
  const { map, network } = page;
  try {
    if (map.tiles?.kind === "pmtiles") await script("lib/pmtiles-4.5.0.js");
    page.view = new View(network, { tiles: map.tiles, dark: dark(), colours: colours(), start: start.v, onChoose: choose, onTip: tip, onMove: moved });
    await page.view.begin();
    if (page.estimate) paint();
  } catch (error) {
    page.view = null;
    byId("map").hidden = byId("zoom").hidden = true;
    byId("no-map").hidden = false;
    byId("no-map").textContent = `This browser cannot draw the map (${error.message}). Search, table and charts have all links.`;
  }
}

function script(src) {
  return new Promise((done, failed) => {
    const made = Object.assign(document.createElement("script"), { src, onload: done, onerror: () => failed(new Error(`${src} cannot be loaded`)) });
    document.head.append(made);
  });
}

// What the URL says, on top of what this browser remembers.
function restore(start) {
  const { network } = page;
  const radio = document.querySelector(`[name=quantity][value="${CSS.escape(start.q)}"]`);
  if (radio) radio.checked = true;
  quantity(radio ? start.q : page.name);
  if ([...byId("hours").options].some(({ value }) => value === start.h)) byId("hours").value = start.h;
  page.link = network.byName.get(start.l) ?? null;
  page.other = page.link === null ? null : network.byName.get(start.c) ?? null;
  tab(TABS.includes(start.tab) ? start.tab : "link");
  if (page.link !== null) chosen();
}

function share() {
  if (!page.begun) return;
  const { map, link, other, timeline } = page;
  const name = (at) => (at === null ? null : map.links[at].link);
  const way = page.route.way;
  write({
    q: page.name, tab: page.tab, h: byId("hours").value, l: name(link), c: name(other),
    from: way && name(way[0]), to: way && name(way[way.length - 1]),
    t: timeline.following ? null : page.estimate?.step, v: page.view?.place(),
  });
}

async function covered() {
  page.timeline.cover((await ask("v1/history")).stretches);
}

function listen() {
  page.stream = new Stream({
    onEstimate: arrived,
    onOpen: () => {
      if (page.lost) say("connected again");
      page.lost = false;
      age();
    },
    onLost: () => {
      if (!page.lost) say("connection lost");
      page.lost = true;
      age();
    },
  });
}

// A new estimate. A host tells them in their order: one of an earlier step than the newest means that its records have begun
// anew, as when a recording is replayed again.
function arrived(estimate) {
  const anew = page.newest && estimate.step < page.newest.step;
  if (anew) say("the records have begun anew");
  page.newest = estimate;
  page.centre.keep(estimate);
  page.timeline.reach(estimate.step);
  if (page.map.history && (anew || byId("time").hidden)) covered().catch(() => {});
  if (!page.timeline.following) return;
  show(estimate);
  measure(estimate);
}

function live() {
  page.wanted = null;
  say("live");
  if (page.newest) show(page.newest);
  share();
}

// An estimate of the past: while one is fetched, only the last one wished for is fetched next.
async function past(step) {
  const busy = page.wanted !== null;
  page.wanted = step;
  if (busy) return;
  while (page.wanted !== null) {
    const next = page.wanted;
    try {
      const estimate = await stored(next);
      if (!page.timeline.following) show(estimate);
    } catch (error) {
      if (!page.timeline.following) nothing(next, error.message);
    }
    if (page.wanted === next) page.wanted = null;
  }
  share();
}

function nothing(step, text) {
  page.estimate = null;
  byId("clock").textContent = clock((step + 1) * page.map.step_s);
  mode(text);
  paint();
  page.table.update(null);
  guests({});
  if (page.link !== null) page.panel.draw(true);
}

// Shows an estimate.
function show(estimate) {
  page.estimate = estimate;
  byId("clock").textContent = clock(estimate.end_s);
  age();
  paint();
  page.table.update(estimate);
  page.centre.draw();
  guests(estimate.participants);
  const [from, to] = [estimate.end_s - HOUR_S, estimate.end_s];
  byId("export-csv").href = `v1/exports/estimates.csv?from_s=${from}&to_s=${to}`;
  byId("export-parquet").href = `v1/exports/estimates.parquet?from_s=${from}&to_s=${to}`;
  byId("export-geojson").href = `v1/exports/estimates.geojson?step=${estimate.step}`;
  if (page.link !== null && page.tab === "link") page.panel.draw();
  if (page.tab === "route") page.route.draw();
}

// Of the quantity that is shown, of a link and an estimate; null where there is no number.
function value(name, at, estimate = page.estimate) {
  if (!estimate) return null;
  if (name !== "share") return estimate.value(name, at);
  const speed = estimate.value("speed", at);
  return speed === null ? null : (100 * speed) / page.map.links[at].limit_km_h;
}

function paint() {
  const { view, map, name } = page;
  if (!view) return;
  const quantity = QUANTITIES[name];
  const classes = new Uint8Array(map.links.length);
  for (let at = 0; at < classes.length; at++) classes[at] = classOf(quantity, value(name, at));
  view.paint(classes);
}

// For those who measure how long a new estimate takes from its arrival to the screen: a frame after it was drawn.
function measure({ arrived: start, step }) {
  page.view?.map.once("render", () => requestAnimationFrame(() => {
    globalThis.drawnAt ??= performance.now();
    performance.clearMeasures("estimate to screen");
    performance.measure("estimate to screen", { start, end: performance.now(), detail: { step } });
  }));
}

function quantity(name) {
  page.name = name;
  legend();
  paint();
  page.centre.draw();
  if (page.link !== null) page.panel.draw(true);
  share();
}

function legend() {
  const chosen = QUANTITIES[page.name];
  byId("legend-title").textContent = `${chosen.title}, ${chosen.unit}`;
  const row = (colour, text) => {
    const item = document.createElement("li");
    const patch = document.createElement("span");
    patch.className = "patch";
    patch.style.background = colour;
    item.append(patch, text);
    return item;
  };
  const rows = ranges(chosen).map(({ text, of }) => row(colours()[of], text));
  byId("legend-classes").replaceChildren(...rows, row(NONE_COLOUR[dark() ? "dark" : "light"], "no number"));
  byId("legend-none").textContent = "wider lines: more lanes";
}

function guests(participants) {
  const items = page.map.guests.map((guest) => {
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

// A link; the second one of a comparison while one is asked for.
function choose(at, seen = false) {
  if (page.comparing && page.link !== null && at !== page.link) return compare(at);
  page.link = at;
  if (page.other === at) page.other = null;
  if (seen) page.view?.show([at]);
  tab("link");
  chosen();
  say(`${page.map.links[at].link} chosen`);
}

function compare(at) {
  page.other = at;
  page.panel.comparing(false);
  chosen();
  say(at === null ? "comparison ended" : `compared with ${page.map.links[at].link}`);
}

function chosen() {
  mark();
  page.table.choose(page.link);
  page.panel.draw(true);
  share();
}

// What is marked on the map: the links of the tab that is open.
function mark() {
  const { view, link, other, route } = page;
  const links = page.tab === "route" && route.way ? route.way.map((at) => ({ at, rank: 1 })) : [[link, 0], [other, 1]].filter(([at]) => at !== null).map(([at, rank]) => ({ at, rank }));
  view?.mark(links);
}

function tip(at, point) {
  const box = byId("tip");
  box.hidden = at === null;
  if (at === null) return;
  const chosen = QUANTITIES[page.name];
  box.textContent = `${page.map.links[at].link} · ${shown(chosen, value(page.name, at))} ${chosen.unit}`;
  const right = point.x > byId("map").clientWidth - 180;
  box.style.transform = `translate(${point.x + (right ? -14 : 14)}px, ${point.y + 14}px)${right ? " translateX(-100%)" : ""}`;
}

function moved() {
  page.centre.draw();
  share();
}

function tab(name) {
  page.tab = name;
  for (const other of TABS) {
    const open = other === name;
    byId(other).hidden = !open;
    byId(`tab-${other}`).setAttribute("aria-selected", String(open));
    byId(`tab-${other}`).tabIndex = open ? 0 : -1;
  }
  page.table.draw();
  page.centre.draw();
  page.route.draw();
  if (name === "link" && page.link !== null && page.begun) page.panel.draw();
  mark();
  share();
}

function tabs() {
  for (const name of TABS) byId(`tab-${name}`).addEventListener("click", () => tab(name));
  byId("tabs").addEventListener("keydown", (event) => {
    const ways = { ArrowRight: 1, ArrowLeft: -1 };
    const now = TABS.indexOf(page.tab);
    const to = event.key === "Home" ? 0 : event.key === "End" ? TABS.length - 1 : ways[event.key] && (now + ways[event.key] + TABS.length) % TABS.length;
    if (to === undefined) return;
    tab(TABS[to]);
    byId(`tab-${TABS[to]}`).focus();
    event.preventDefault();
  });
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
  const seconds = newest.age_s + (performance.now() - newest.arrived) / 1000;
  byId("age").textContent = `${seconds < 120 ? `${seconds.toFixed(0)} s` : `${(seconds / 60).toFixed(0)} min`} old`;
  if (page.lost) mode("connection lost", "bad");
  else if (seconds > STALE_S) mode("no new estimates", "bad");
  else mode("live", "good");
}

function mode(text, kind = "") {
  const pill = byId("mode");
  if (pill.textContent !== text) pill.textContent = text;
  pill.dataset.kind = kind;
}

function say(text) {
  byId("said").textContent = text;
}

function dark() {
  const { theme } = document.documentElement.dataset;
  return theme ? theme === "dark" : systemDark.matches;
}

function colours() {
  return SCALES[byId("scale").value] ?? SCALES.conventional;
}

// Theme and colours, which this browser remembers.
function controls() {
  const button = byId("theme");
  const change = () => {
    button.textContent = dark() ? "Light" : "Dark";
    button.setAttribute("aria-label", dark() ? "Light theme" : "Dark theme");
    page.view?.theme(dark(), colours());
    legend();
    page.route.paint();
    if (page.link !== null) page.panel.draw(true);
  };
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    remember("theme", document.documentElement.dataset.theme);
    change();
  });
  byId("scale").addEventListener("change", () => {
    remember("scale", byId("scale").value);
    change();
  });
  systemDark.addEventListener("change", change);
  change();
}

if (SCALES[remembered("scale")]) byId("scale").value = remembered("scale");
// For scripts that drive the page, as its tests do.
globalThis.trafficMap = page;

begin().catch((error) => {
  mode("not available", "bad");
  byId("link-about").textContent = error.message;
});

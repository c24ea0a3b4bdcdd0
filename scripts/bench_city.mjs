// How fast the live map is with a city of links, in headless Chromium that draws with the processor:
//
//     cargo build --release -p server --example load && scripts/browser.sh bench [--links 20000] [--network FILE] [--clients 200] [--steps 20] [--picture FILE]
//
// The made-up traffic of crates/server/examples/load.rs, a step a second. Prints, as JSON and as a table: the time from opening
// the page to its first estimate on screen, with an empty cache; from a later estimate's arrival in the page to the screen; frames
// per second while the map is panned and zoomed, beside a map of four links; and what a step costs a client of the stream of
// changes and of the whole stream, with many clients at a time.

import { spawn } from "node:child_process";
import { get } from "node:http";
import { cpus, loadavg } from "node:os";
import { join } from "node:path";

import { browser } from "../crates/fedtse/tests/browser/federation.mjs";

const option = (name, otherwise) => {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? otherwise : process.argv[at + 1];
};
const [clients, steps] = [Number(option("clients", 200)), Number(option("steps", 20))];
const PROGRAM = join("target/release/examples", "load");
const children = [];

async function served(words) {
  const child = spawn(PROGRAM, words, { stdio: ["ignore", "pipe", "inherit"] });
  children.push(child);
  return new Promise((found, failed) => {
    let text = "";
    child.stdout.on("data", (bytes) => {
      text += bytes;
      if (text.includes("\n")) found({ ...JSON.parse(text.split("\n")[0]), child });
    });
    child.on("exit", (code) => failed(new Error(`${PROGRAM} has ended with ${code}`)));
  });
}

const quantile = (values, share) => [...values].sort((one, other) => one - other)[Math.min(values.length - 1, Math.floor(share * values.length))];

// From the beginning of the navigation to the first estimate on screen.
async function opening(chromium, url) {
  const context = await chromium.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  await page.addInitScript(() => {
    globalThis.toScreen = [];
    new PerformanceObserver((list) => list.getEntriesByName("estimate to screen").forEach(({ startTime, duration, detail }) => globalThis.toScreen.push({ step: detail.step, end: startTime + duration, duration }))).observe({ type: "measure", buffered: true });
  });
  await page.goto(url);
  await page.waitForSelector("html[data-ready=true]", { timeout: 60_000 });
  const first = await page.waitForFunction(() => globalThis.drawnAt, null, { timeout: 60_000 }).then((handle) => handle.jsonValue());
  return { context, page, first };
}

// Frames per second while the map moves.
async function frames(page) {
  return page.evaluate(async () => {
    const { map } = globalThis.trafficMap.view;
    const begin = performance.now();
    let count = 0;
    const going = () => {
      count += 1;
      if (performance.now() - begin < 6000) requestAnimationFrame(going);
    };
    requestAnimationFrame(going);
    const around = [[200, 0], [0, 150], [-200, 0], [0, -150]];
    const home = map.getZoom();
    for (let at = 0; performance.now() - begin < 6000; at++) {
      if (at % 3 === 2) map.easeTo({ zoom: home + (at % 2 ? 1.5 : 0), duration: 500 });
      else map.panBy(around[at % 4], { duration: 500 });
      await new Promise((next) => setTimeout(next, 520));
    }
    map.jumpTo({ zoom: home });
    return (1000 * count) / (performance.now() - begin);
  });
}

// Bytes that each of many clients gets for a step, as they come over the wire; the first event, which is whole, apart.
async function bytes(url, path, seconds) {
  const counts = [];
  const listen = () => new Promise((done, failed) => {
    const counted = { first: 0, rest: 0, steps: 0 };
    const asked = get(new URL(path, url), { agent: false }, (response) => {
      let tail = "";
      response.on("data", (chunk) => {
        const events = (tail + chunk.toString("latin1")).split("\n\n").length - 1;
        if (counted.steps === 0) counted.first += chunk.length;
        else counted.rest += chunk.length;
        counted.steps += events;
        tail = chunk.subarray(-1).toString("latin1") === "\n" ? "" : chunk.subarray(-1).toString("latin1");
      });
      response.on("error", () => {});
    });
    asked.on("error", failed);
    setTimeout(() => { asked.destroy(); counts.push(counted); done(); }, seconds * 1000);
  });
  await Promise.all(Array.from({ length: clients }, listen));
  const later = counts.filter(({ steps: seen }) => seen > 1);
  const mean = (numbers) => numbers.reduce((sum, number) => sum + number, 0) / Math.max(1, numbers.length);
  return { clients, steps: mean(counts.map((count) => count.steps)), first: mean(counts.map((count) => count.first)), perStep: mean(later.map(({ rest, steps: seen }) => rest / (seen - 1))) };
}

const load = loadavg()[0];
const words = option("network") ? ["--network", option("network")] : ["--links", option("links", "20000")];
const chromium = await browser();
const result = { processors: cpus().length, load };
try {
  const city = await served(words);
  result.links = city.links;
  const opened = [];
  let shown;
  for (let round = 0; round < 3; round++) {
    shown = await opening(chromium, city.url);
    opened.push(shown.first);
    if (round < 2) await shown.context.close();
  }
  result.opening_ms = opened.map(Math.round);
  await shown.page.waitForFunction((steps) => globalThis.toScreen.length >= steps, steps, { timeout: 240_000 });
  const durations = (await shown.page.evaluate(() => globalThis.toScreen)).slice(1).map(({ duration }) => duration);
  result.to_screen_ms = { p50: Math.round(quantile(durations, 0.5)), p95: Math.round(quantile(durations, 0.95)), steps: durations.length };
  result.frames_per_s = await frames(shown.page);
  if (option("picture")) {
    await shown.page.locator("[data-zoom=all]").click();
    await shown.page.locator("#tab-centre").click();
    await shown.page.evaluate(() => new Promise((drawn) => globalThis.trafficMap.view.map.once("idle", drawn).triggerRepaint()));
    await shown.page.screenshot({ path: option("picture") });
  }
  await shown.context.close();
  const small = await served(["--links", "4"]);
  const empty = await opening(chromium, small.url);
  result.frames_per_s_of_four_links = await frames(empty.page);
  await empty.context.close();
  small.child.kill();
  result.changes = await bytes(city.url, "v1/estimates/changes", 12);
  result.whole = await bytes(city.url, "v1/estimates/stream", 12);
} finally {
  await chromium.close();
  for (const child of children) {
    child.removeAllListeners("exit");
    child.kill();
  }
}
console.log(JSON.stringify(result));
const kilobytes = (number) => `${(number / 1000).toFixed(1)} kB`;
console.log(`
| ${result.links} links, ${result.processors} processors, load ${load.toFixed(1)} before | |
|---|---|
| opening to the first estimate on screen, three times | ${result.opening_ms.join(", ")} ms |
| arrival of an estimate to the screen, p50 / p95 of ${result.to_screen_ms.steps} | ${result.to_screen_ms.p50} / ${result.to_screen_ms.p95} ms |
| frames a second while panned and zoomed; of a map of four links | ${result.frames_per_s.toFixed(0)}; ${result.frames_per_s_of_four_links.toFixed(0)} |
| bytes a step and client, ${clients} clients: changes, packed | ${kilobytes(result.changes.perStep)} (the first, whole: ${kilobytes(result.changes.first)}) |
| the same of the whole stream | ${kilobytes(result.whole.perStep)} |`);

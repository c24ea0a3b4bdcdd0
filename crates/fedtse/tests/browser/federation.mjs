// A small federation by `fedtse up`, and a browser to look at its map.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { crc32, deflateSync } from "node:zlib";

const TOOLS = resolve(process.env.FEDTSE_BROWSER ?? ".browser");
const { chromium } = createRequire(join(TOOLS, "package.json"))("playwright-core");
const AXE = readFileSync(join(TOOLS, "node_modules/axe-core/axe.min.js"), "utf8");
const PICTURES = join(TOOLS, "pictures");
const PROGRAM = resolve(process.env.FEDTSE ?? "target/release/fedtse");

// A folder with the page's files, to try changes of them without a build.
const PAGE = process.env.FEDTSE_PAGE && resolve(process.env.FEDTSE_PAGE);
const file = ({ pathname }) => (pathname === "/" ? "index.html" : pathname.slice(1));

export const PATIENCE = 60_000;

// Whatever was started and still runs.
const running = new Set();

// Ends what a failed test has left.
export function end() {
  for (const child of running) child.kill("SIGKILL");
}

// A host and two guests, trained briefly; a simulated day is replayed to them ten times as fast, for longer than the
// tests may take.
export function federation(folder, http = "127.0.0.1:0", more = []) {
  return started(["up", "--json", "--http", http, "--minutes", "140", "--epochs", "2", "--speed-up", "10", "--folder", folder, ...more]);
}

// The past that such a federation leaves.
export function past(folder, more = []) {
  return started(["serve", "--json", "--http", "127.0.0.1:0", "--history", join(folder, "city/run/history"), ...more]);
}

// Starts the program, and waits for the line that says where its page is.
async function started(commands) {
  const child = spawn(PROGRAM, commands, { stdio: ["ignore", "pipe", "inherit"] });
  running.add(child);
  child.on("close", () => running.delete(child));
  const report = await new Promise((found, failed) => {
    let text = "";
    child.stdout.on("data", (bytes) => {
      text += bytes;
      if (text.includes("\n")) found(JSON.parse(text.split("\n")[0]));
    });
    setTimeout(() => failed(new Error(`fedtse ${commands[0]} says nothing`)), 4 * PATIENCE).unref();
    child.on("exit", (code) => failed(new Error(`fedtse ${commands[0]} has ended with ${code}`)));
  });
  const stop = async () => {
    child.removeAllListeners("exit");
    const ended = new Promise((end) => child.on("exit", end));
    child.kill("SIGINT");
    return ended;
  };
  return { ...report, stop };
}

export async function browser() {
  mkdirSync(PICTURES, { recursive: true });
  const args = [
    "--no-sandbox", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    // WebGL drawn by the processor.
    "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
  ];
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", headless: true, args });
}

// A folder that is gone at the end.
export function folder() {
  const path = mkdtempSync(join(tmpdir(), "fedtse-browser-"));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

// A page that notes what must not happen: errors, and requests to anyone else.
export async function visit(opened, url, { mode = "live", tiles, ...options } = {}) {
  const context = await opened.newContext({ viewport: { width: 1280, height: 800 }, acceptDownloads: true, ...options });
  if (PAGE) {
    await context.route((address) => address.origin === new URL(url).origin && existsSync(join(PAGE, file(address))), async (route) => {
      const response = await route.fetch();
      return route.fulfill(response.status() === 200 ? { response, path: join(PAGE, file(new URL(route.request().url()))) } : { response });
    });
  }
  const page = await context.newPage();
  const asked = [];
  if (tiles) {
    const headers = { "Access-Control-Allow-Origin": "*" };
    await context.route(`${tiles}/**`, (route) => { asked.push(route.request().url()); return route.fulfill({ contentType: "image/png", headers, body: tile() }); });
  }
  const bad = [];
  page.on("console", (message) => message.type() === "error" && bad.push(message.text()));
  page.on("pageerror", (error) => bad.push(String(error)));
  page.on("request", (request) => [new URL(url).origin, tiles].includes(new URL(request.url()).origin) || bad.push(`asks ${request.url()}`));
  await page.goto(url);
  await page.waitForSelector("html[data-ready=true]", { timeout: PATIENCE });
  await page.waitForFunction((mode) => document.getElementById("mode").textContent === mode, mode, { timeout: PATIENCE });
  return { page, bad, asked, close: () => context.close() };
}

// The point of the screen where a link is drawn.
export async function point(page, link) {
  const box = await page.locator("#map canvas").boundingBox();
  const { x, y } = await page.evaluate((name) => trafficMap.view.point(trafficMap.network.byName.get(name)), link);
  return [box.x + x, box.y + y];
}

// The class of each link, as the map was told.
export function classes(page) {
  return page.evaluate(() => [...trafficMap.view.classes]);
}

// Waits until something holds, which the page may take a moment to draw.
export async function until(holds, what) {
  for (const over = Date.now() + PATIENCE; !(await holds()); await new Promise((go) => setTimeout(go, 20))) {
    assert.ok(Date.now() < over, what);
  }
}

export async function picture(page, name) {
  return page.screenshot({ path: join(PICTURES, `${name}.png`) });
}

// A picture beside the one of the repository: at most so large a share of the pixels may be of another colour. Fonts differ a
// little between machines; a map that is not drawn, or in other colours, differs in far more. UPDATE_REFERENCES=1 writes the
// repository's anew.
const REFERENCES = resolve("crates/fedtse/tests/browser/references");
const OTHER_COLOUR = 40;

export async function asBefore(opened, page, name, most) {
  const taken = await picture(page, name);
  const file = join(REFERENCES, `${name}.png`);
  if (process.env.UPDATE_REFERENCES) {
    mkdirSync(REFERENCES, { recursive: true });
    writeFileSync(file, taken);
  }
  const [one, other] = await pixels(opened, [taken, readFileSync(file)]);
  assert.deepEqual([one.width, one.height], [other.width, other.height], `${name}: the size of the picture`);
  let differ = 0;
  for (let at = 0; at < one.data.length; at += 4) {
    if ([0, 1, 2].some((part) => Math.abs(one.data[at + part] - other.data[at + part]) > OTHER_COLOUR)) differ += 1;
  }
  const share = differ / (one.width * one.height);
  assert.ok(share <= most, `${name}: ${(100 * share).toFixed(2)} % of the pixels differ from ${file}, expected at most ${100 * most} %`);
  return share;
}

// The pixels of PNG files, read by the browser.
export async function pixels(opened, files) {
  const context = await opened.newContext();
  const page = await context.newPage();
  const read = await page.evaluate(async (urls) => Promise.all(urls.map(async (url) => {
    const image = new Image();
    image.src = url;
    await image.decode();
    const canvas = new OffscreenCanvas(image.width, image.height);
    const drawing = canvas.getContext("2d");
    drawing.drawImage(image, 0, 0);
    const { data } = drawing.getImageData(0, 0, image.width, image.height);
    let text = "";
    for (let at = 0; at < data.length; at += 32768) text += String.fromCharCode(...data.subarray(at, at + 32768));
    return { width: image.width, height: image.height, text: btoa(text) };
  })), files.map((file) => `data:image/png;base64,${file.toString("base64")}`));
  await context.close();
  return read.map(({ width, height, text }) => ({ width, height, data: Buffer.from(text, "base64") }));
}

// A PNG of one colour.
export function tile([red, green, blue] = [200, 225, 205], size = 256) {
  const chunk = (kind, data) => {
    const body = Buffer.concat([Buffer.from(kind), data]);
    const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
    length.writeUInt32BE(data.length);
    sum.writeUInt32BE(crc32(body));
    return Buffer.concat([length, body, sum]);
  };
  const head = Buffer.alloc(13);
  head.writeUInt32BE(size, 0);
  head.writeUInt32BE(size, 4);
  head.set([8, 2, 0, 0, 0], 8);
  const row = Buffer.concat([Buffer.from([0]), Buffer.alloc(3 * size, Buffer.from([red, green, blue]))]);
  const data = deflateSync(Buffer.concat(Array(size).fill(row)));
  return Buffer.concat([Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]), chunk("IHDR", head), chunk("IDAT", data), chunk("IEND", Buffer.alloc(0))]);
}

// A PMTiles archive (version 3) of one picture for the whole Earth.
export function archive(picture) {
  const header = Buffer.alloc(127);
  header.write("PMTiles");
  header[7] = 3;
  // One entry: tile 0, once, so long, at the beginning.
  const directory = Buffer.from([1, 0, 1, ...varint(picture.length), 1]);
  const about = Buffer.from(JSON.stringify({ attribution: "© The archive" }));
  const places = [127, directory.length, 127 + directory.length, about.length, 0, 0, 127 + directory.length + about.length, picture.length, 1, 1, 1];
  places.forEach((number, at) => header.writeBigUInt64LE(BigInt(number), 8 + 8 * at));
  // Clustered, nothing compressed, PNG, zoom 0 only.
  header.set([1, 1, 1, 2, 0, 0], 96);
  [-1800000000, -850000000, 1800000000, 850000000].forEach((degree, at) => header.writeInt32LE(degree, 102 + 4 * at));
  return Buffer.concat([header, directory, about, picture]);
}

function varint(number) {
  const bytes = [];
  for (; number > 127; number >>= 7) bytes.push((number & 127) | 128);
  return [...bytes, number];
}

// All rules of axe, on the page as it stands.
export async function accessible(page) {
  await page.evaluate(AXE);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const told = found.violations.map((rule) => `${rule.id}: ${rule.help}\n${rule.nodes.map((node) => `  ${node.html}\n  ${node.failureSummary}`).join("\n")}`);
  assert.deepEqual(told, []);
}

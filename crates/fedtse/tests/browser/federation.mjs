// A small federation by `fedtse up`, and a browser to look at its map.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const TOOLS = resolve(process.env.FEDTSE_BROWSER ?? ".browser");
const { chromium } = createRequire(join(TOOLS, "package.json"))("playwright-core");
const AXE = readFileSync(join(TOOLS, "node_modules/axe-core/axe.min.js"), "utf8");
const PICTURES = join(TOOLS, "pictures");
const PROGRAM = resolve(process.env.FEDTSE ?? "target/release/fedtse");

export const PATIENCE = 60_000;

// Whatever was started and still runs.
const running = new Set();

// Ends what a failed test has left.
export function end() {
  for (const child of running) child.kill("SIGKILL");
}

// A host and two guests, trained briefly; a simulated day is replayed to them ten times as fast, for longer than the
// tests may take.
export function federation(folder, http = "127.0.0.1:0") {
  return started(["up", "--json", "--http", http, "--minutes", "140", "--epochs", "2", "--speed-up", "10", "--folder", folder]);
}

// The past that such a federation leaves.
export function past(folder, more) {
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
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
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
  const page = await context.newPage();
  const asked = [];
  if (tiles) {
    const body = Buffer.from("<svg xmlns='http://www.w3.org/2000/svg' width='256' height='256'><rect width='255' height='255' fill='#dde8d8'/></svg>");
    await context.route(`${tiles}/**`, (route) => { asked.push(route.request().url()); return route.fulfill({ contentType: "image/svg+xml", body }); });
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

// Waits until something holds, which the page may take a moment to draw.
export async function until(holds, what) {
  for (const over = Date.now() + PATIENCE; !(await holds()); await new Promise((go) => setTimeout(go, 20))) {
    assert.ok(Date.now() < over, what);
  }
}

export async function picture(page, name) {
  await page.screenshot({ path: join(PICTURES, `${name}.png`) });
}

// All rules of axe, on the page as it stands.
export async function accessible(page) {
  await page.evaluate(AXE);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const told = found.violations.map((rule) => `${rule.id}: ${rule.help}\n${rule.nodes.map((node) => `  ${node.html}\n  ${node.failureSummary}`).join("\n")}`);
  assert.deepEqual(told, []);
}

// The report in a browser, opened as a file: drawn, complete, quiet; for the keyboard, for screen readers, on a phone, in the dark.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { join, resolve } from "node:path";
import { after, before, describe, it } from "node:test";
import { pathToFileURL } from "node:url";

import { PATIENCE, accessible, browser, folder, picture, until } from "./federation.mjs";

const PROGRAM = resolve(process.env.FEDTSE ?? "target/release/fedtse");
const home = folder();
const file = join(home.path, "report.html");
let chromium;

before(async () => {
  const demo = join(home.path, "demo");
  execFileSync(PROGRAM, ["demo", "--minutes", "60", "--epochs", "2", "--epochs-without-truth", "1", "--out", demo]);
  execFileSync(PROGRAM, ["report", "--run", demo, "--results", "docs/results", "--out", file]);
  chromium = await browser();
});

after(async () => {
  await chromium?.close();
  home.remove();
});

// The page, noting errors and every request but the one for the file itself.
async function read(options = {}) {
  const context = await chromium.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  const url = pathToFileURL(file).href, bad = [];
  page.on("console", (message) => message.type() === "error" && bad.push(message.text()));
  page.on("pageerror", (error) => bad.push(String(error)));
  page.on("request", (request) => request.url() === url || bad.push(`asks ${request.url()}`));
  await page.goto(url);
  await page.waitForSelector(".chart canvas", { timeout: PATIENCE });
  return { page, bad, close: () => context.close() };
}

// Whether something other than one colour was drawn.
const drawn = (canvas) => canvas.evaluate((node) => {
  const { data } = node.getContext("2d").getImageData(0, 0, node.width, node.height);
  const seen = new Set();
  for (let at = 0; at < data.length && seen.size < 3; at += 4) seen.add(data.slice(at, at + 4).join());
  return seen.size > 2;
});

describe("the report", { timeout: 10 * PATIENCE }, () => {
  it("draws every chart, asks nobody for anything, and is accessible", async () => {
    const { page, bad, close } = await read();
    const headings = await page.locator("section > h2").allTextContents();
    for (const heading of ["Who estimates best", "Learning curves", "Estimated and true traffic, link by link", "Time and space", "What left each party", "Privacy: who can learn what, in which mode"]) {
      assert.ok(headings.includes(heading), heading);
    }
    const canvases = await page.locator(".chart canvas, canvas.map").all();
    assert.ok(canvases.length > 15, `${canvases.length} pictures`);
    for (const canvas of canvases) assert.ok(await drawn(canvas));
    assert.equal(await page.locator("figure").count(), await page.locator("figure details:has(summary:text('Numbers as a table'))").count());
    await picture(page, "report");
    await accessible(page);
    assert.deepEqual(bad, []);
    await close();
  });

  it("shows another link, values under the pointer, and zooms", async () => {
    const { page, bad, close } = await read();
    const links = page.locator("#links");
    await links.locator("select").selectOption("E3");
    await page.waitForSelector("#links .chart canvas");
    await until(async () => /Density of E3/.test(await links.locator("figcaption").first().textContent()), "density of E3");
    const chart = links.locator(".u-over").first();
    await chart.scrollIntoViewIfNeeded();
    const box = await chart.boundingBox();
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
    const value = () => links.locator(".u-legend .u-value").first().textContent();
    await until(async () => Number(await value()) > 0, "a minute under the pointer");
    const middle = Number(await value());
    // The right half, dragged over, becomes the whole: the middle is later than before.
    await page.mouse.down();
    await page.mouse.move(box.x + box.width - 2, box.y + box.height / 2, { steps: 5 });
    await page.mouse.up();
    await page.mouse.move(box.x + box.width / 2 + 1, box.y + box.height / 2);
    await until(async () => Number(await value()) > middle, `a minute after ${middle}`);
    assert.deepEqual(bad, []);
    await close();
  });

  it("is read by keyboard and as tables", async () => {
    const { page, bad, close } = await read();
    await page.locator("#links .chart").first().focus();
    await page.keyboard.press("ArrowRight");
    const value = () => page.locator("#links .u-legend .u-value").first().textContent();
    await until(async () => Number(await value()) >= 0, "a first minute");
    const first = await value();
    await page.keyboard.press("ArrowRight");
    await until(async () => await value() !== first, "another minute");
    await page.locator("canvas.map").first().focus();
    await page.keyboard.press("ArrowRight");
    await until(async () => /minute [\d.]+, E1/.test(await page.locator(".reading").first().textContent()), "a reading of E1");
    const summary = page.locator("#links details summary").first();
    await summary.focus();
    await page.keyboard.press("Enter");
    const rows = page.locator("#links details").first().locator("tbody tr");
    await rows.first().waitFor();
    assert.ok(await rows.count() > 20);
    // A line that is chosen is drawn, and its numbers are told.
    const lines = page.locator("#table2 details").first();
    await lines.locator("summary").click();
    const legend = page.locator("#table2 .u-legend").first().locator("tr");
    const before = await legend.count();
    await lines.locator("input:not(:checked)").first().check();
    await until(async () => await legend.count() === before + 1, "one line more");
    await accessible(page);
    assert.deepEqual(bad, []);
    await close();
  });

  it("follows the system into the dark, and the reader's choice", async () => {
    const { page, bad, close } = await read({ colorScheme: "dark" });
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const dark = await ground();
    await picture(page, "report-dark");
    await accessible(page);
    await page.locator("#theme").selectOption("light");
    assert.notEqual(await ground(), dark);
    await page.locator("#theme").selectOption("auto");
    assert.equal(await ground(), dark);
    assert.deepEqual(bad, []);
    await close();
  });

  it("fits a phone", async () => {
    const { page, bad, close } = await read({ viewport: { width: 390, height: 844 } });
    const wider = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.equal(wider, 0, "nothing sticks out sideways");
    await picture(page, "report-phone");
    await accessible(page);
    assert.deepEqual(bad, []);
    await close();
  });
});

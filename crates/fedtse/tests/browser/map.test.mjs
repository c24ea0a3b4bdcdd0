// The live map in a browser: drawn, live, past, exported; for the keyboard, for screen readers, on a phone.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";

import { PATIENCE, accessible, browser, federation, end, folder, past, picture, visit } from "./federation.mjs";

const LINKS = 17;
const home = folder();
let town, chromium;

before(async () => {
  chromium = await browser();
  town = await federation(home.path);
}, { timeout: 5 * PATIENCE });

after(async () => {
  await chromium?.close();
  end();
  home.remove();
});

const text = (page, id) => page.locator(`#${id}`).textContent();
const changes = (page, id, from) =>
  page.waitForFunction(([id, from]) => document.getElementById(id).textContent !== from, [id, from], { timeout: PATIENCE });

describe("the map", { timeout: 10 * PATIENCE }, () => {
  it("shows the network and goes on by itself", async () => {
    const { page, bad, close } = await visit(chromium, town.url);
    assert.equal(await page.locator("#map path[role=button]").count(), LINKS);
    assert.match(await text(page, "legend-title"), /Density, veh\/km\/lane/);
    const [clock, colours] = [await text(page, "clock"), await colouring(page)];
    assert.ok(new Set(colours).size > 3, "links differ in colour");
    await changes(page, "clock", clock);
    await page.waitForFunction((before) => [...document.querySelectorAll("#map path[role=button]")].map((path) => path.getAttribute("stroke")).join() !== before, colours.join(), { timeout: PATIENCE });
    await page.check("input[value=speed]", { force: true });
    assert.match(await text(page, "legend-title"), /Speed, km\/h/);
    await picture(page, "map-speed");
    // Wider roads are drawn wider.
    const wide = await page.locator("#map path[role=button][data-link=E1]").getAttribute("stroke-width");
    const narrow = await page.locator("#map path[role=button][data-link=on_R2]").getAttribute("stroke-width");
    assert.ok(Number(wide) > 2 * Number(narrow), `${wide} for 5 lanes, ${narrow} for 1`);
    assert.deepEqual(bad, []);
    await close();
  });

  it("opens the last hour of a link that is clicked", async () => {
    const { page, bad, close } = await visit(chromium, town.url);
    await page.locator("#map path[role=button][data-link=E3]").click({ force: true });
    await page.waitForSelector("#chart canvas", { timeout: PATIENCE });
    assert.equal(await text(page, "link-title"), "Link E3");
    assert.match(await text(page, "chart-text"), /Density in veh\/km\/lane, .* between [\d.]+ and [\d.]+/);
    // There are intervals when all guests are in, which a busy machine may delay by a step.
    const told = (id, pattern) => page.waitForFunction(([id, pattern]) => new RegExp(pattern).test(document.getElementById(id).textContent), [id, pattern], { timeout: PATIENCE });
    await told("chart-text", "Band: holds the truth in 90 of 100 cases");
    await told("link-now", "Density[\\d.]+ \\([\\d.]+ to [\\d.]+\\) veh/km/lane");
    await page.check("input[value=flow]", { force: true });
    await page.waitForFunction(() => document.getElementById("chart-text").textContent.startsWith("Flow in"), null, { timeout: PATIENCE });
    await picture(page, "map-link");
    await accessible(page);
    assert.deepEqual(bad, []);
    await close();
  });

  it("goes back to the stored past and to the present again", async () => {
    const { page, bad, close } = await visit(chromium, town.url);
    await page.locator("#all summary").click();
    await page.locator("#slider").focus();
    await page.keyboard.press("Home");
    await page.waitForFunction(() => document.getElementById("mode").textContent === "past", null, { timeout: PATIENCE });
    const step = Number(await page.locator("#slider").inputValue());
    const stored = await (await page.request.get(new URL(`v1/history/${step}`, town.url).href)).json();
    assert.equal(stored.step, step);
    await page.waitForFunction((density) => document.querySelector("#rows tr td").textContent === density, stored.links[0].density.toFixed(1), { timeout: PATIENCE });
    assert.equal(await text(page, "clock"), await text(page, "slider-clock"));
    // It stays there while new estimates come.
    const { max } = await page.locator("#slider").evaluate((slider) => ({ max: slider.max }));
    await page.waitForFunction((before) => document.getElementById("slider").max !== before, max, { timeout: PATIENCE });
    assert.equal(Number(await page.locator("#slider").inputValue()), step);
    await picture(page, "map-past");
    await accessible(page);
    await page.locator("#live").click();
    await page.waitForFunction(() => document.getElementById("mode").textContent === "live", null, { timeout: PATIENCE });
    assert.deepEqual(bad, []);
    await close();
  });

  it("exports what it shows", async () => {
    const { page, bad, close } = await visit(chromium, town.url);
    const fetched = async (id) => {
      const [download] = await Promise.all([page.waitForEvent("download", { timeout: PATIENCE }), page.locator(`#${id}`).click()]);
      return { name: download.suggestedFilename(), bytes: readFileSync(await download.path()) };
    };
    const csv = await fetched("export-csv");
    assert.equal(csv.name, "estimates.csv");
    const lines = csv.bytes.toString().trim().split("\n");
    assert.match(lines[0], /^step,begin_s,link,density_veh_km_lane,flow_veh_min_lane,speed_km_h,/);
    assert.equal((lines.length - 1) % LINKS, 0);
    assert.ok(lines.length > LINKS);
    const parquet = await fetched("export-parquet");
    assert.equal(parquet.bytes.subarray(0, 4).toString() + parquet.bytes.subarray(-4).toString(), "PAR1PAR1");
    const geojson = JSON.parse((await fetched("export-geojson")).bytes);
    assert.equal(geojson.features.length, LINKS);
    const [lon, lat] = geojson.features[0].geometry.coordinates[0];
    // The corridor begins at its origin, in Athens.
    assert.ok(Math.abs(lon - 23.7341) < 1e-9 && Math.abs(lat - 37.9757) < 1e-9);
    assert.deepEqual(bad, []);
    await close();
  });

  it("is usable by keyboard alone", async () => {
    const { page, bad, close } = await visit(chromium, town.url);
    await page.locator("#map path[role=button][tabindex='0']").focus();
    await page.keyboard.press("ArrowRight");
    const label = await page.evaluate(() => document.activeElement.getAttribute("aria-label"));
    assert.match(label, /^E2: density [\d.]+ vehicles per kilometre and lane$/);
    await page.keyboard.press("Enter");
    await page.waitForSelector("#chart canvas", { timeout: PATIENCE });
    assert.equal(await text(page, "link-title"), "Link E2");
    assert.deepEqual(bad, []);
    await close();
  });

  it("fits a phone, dark", async () => {
    const phone = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true, colorScheme: "dark" };
    const { page, bad, close } = await visit(chromium, town.url, phone);
    await picture(page, "map-phone");
    await page.locator("#map path[role=button][data-link=E4]").tap({ force: true });
    await page.waitForSelector("#chart canvas", { timeout: PATIENCE });
    await page.locator("#chart").scrollIntoViewIfNeeded();
    await picture(page, "map-phone-link");
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.equal(wide, 0, "nothing to scroll sideways");
    await accessible(page);
    assert.deepEqual(bad, []);
    await close();
  });

  // Last, for the guest does not come back.
  it("marks a guest that is gone", async () => {
    const { page, bad, close } = await visit(chromium, town.url);
    await page.waitForSelector("#guests li[data-guest=fleet-1][data-how=in]", { timeout: PATIENCE });
    process.kill(town.processes["fleet-2"], "SIGKILL");
    await page.waitForSelector("#guests li[data-guest=fleet-2][data-how=absent]", { timeout: PATIENCE });
    assert.match(await text(page, "said"), /fleet-2 (late|absent)/);
    await page.locator("#map path[role=button][data-link=E1]").click({ force: true });
    await page.waitForFunction(() => /Shaded: \d+ of \d+ steps without all guests/.test(document.getElementById("chart-text").textContent), null, { timeout: PATIENCE });
    await picture(page, "map-absent");
    await accessible(page);
    assert.deepEqual(bad, []);
    await close();
  });
});

describe("a recording that is replayed again", { timeout: 5 * PATIENCE }, () => {
  it("is followed from its beginning by a page that was open", async () => {
    const { page, bad, close } = await visit(chromium, town.url);
    const slider = () => page.locator("#slider").inputValue().then(Number);
    // Some steps on, so that there is something to go back from.
    const [begun, { host }] = [await slider(), new URL(town.url)];
    await page.waitForFunction((step) => Number(document.getElementById("slider").value) > step, begun, { timeout: PATIENCE });
    const before = await slider();
    assert.equal(await town.stop(), 0, "fedtse up ends well when it is interrupted");
    town = await federation(home.path, host);
    await page.waitForFunction((step) => document.getElementById("mode").textContent === "live" && Number(document.getElementById("slider").value) < step, before, { timeout: PATIENCE });
    const now = await slider();
    await page.waitForFunction((step) => Number(document.getElementById("slider").value) > step, now, { timeout: PATIENCE });
    // What was stored of the first time is still there to go to.
    assert.ok(await page.locator("#slider").evaluate((slider) => Number(slider.max)) >= before);
    // A browser tells of the connection that it lost, and of nothing else.
    assert.deepEqual(bad.filter((text) => !text.includes("net::ERR_")), []);
    await close();
  });
});

describe("the past of a host that has ended", { timeout: 5 * PATIENCE }, () => {
  it("is shown by itself, on a basemap if one is wanted", async () => {
    assert.equal(await town.stop(), 0, "fedtse up ends well when it is interrupted");
    town = null;
    const tiles = "https://tiles.example";
    const served = await past(home.path, ["--tiles", `${tiles}/{z}/{x}/{y}.png`, "--attribution", "© Nobody"]);
    const { page, bad, asked, close } = await visit(chromium, served.url, { mode: "stored", tiles });
    assert.equal(await page.locator("#map path[role=button]").count(), LINKS);
    await page.waitForFunction(() => document.querySelectorAll("#map image").length > 3, null, { timeout: PATIENCE });
    assert.ok(asked.every((url) => /\/1[5-9]\/\d+\/\d+\.png$/.test(url)), asked.join());
    assert.equal(await text(page, "attribution"), "© Nobody");
    await page.locator("#slider").focus();
    await page.keyboard.press("Home");
    await page.waitForFunction(() => document.getElementById("mode").textContent === "past", null, { timeout: PATIENCE });
    await picture(page, "map-basemap");
    assert.deepEqual(bad, []);
    await close();
    assert.equal(await served.stop(), 0);
  });
});

const colouring = (page) => page.locator("#map path[role=button]").evaluateAll((paths) => paths.map((path) => path.getAttribute("stroke")));

// The live map in a browser: drawn, live, past, searched, compared, exported; for the keyboard, for screen readers, on a phone.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";

import { PATIENCE, accessible, archive, asBefore, browser, classes, federation, end, folder, past, picture, pixels, point, tile, until, visit } from "./federation.mjs";

const LINKS = 17;
const home = folder();
let town, chromium;

before(async () => {
  chromium = await browser();
  // Any link with a vehicle or two is an alarm, so that there is one.
  town = await federation(home.path, "127.0.0.1:0", ["--alarm", "density > 1"]);
}, { timeout: 5 * PATIENCE });

after(async () => {
  await chromium?.close();
  end();
  home.remove();
});

const text = (page, id) => page.locator(`#${id}`).textContent();
const changes = (page, id, from) =>
  page.waitForFunction(([id, from]) => document.getElementById(id).textContent !== from, [id, from], { timeout: PATIENCE });
const holds = (page, id, pattern) =>
  page.waitForFunction(([id, pattern]) => new RegExp(pattern).test(document.getElementById(id).textContent), [id, pattern], { timeout: PATIENCE });

// The colour at a point of the screen.
async function colour(page, [x, y]) {
  const clip = { x: Math.round(x), y: Math.round(y), width: 1, height: 1 };
  const [{ data }] = await pixels(chromium, [await page.screenshot({ clip })]);
  return [...data.subarray(0, 3)];
}

describe("the map", { timeout: 10 * PATIENCE }, () => {
  it("shows the network and goes on by itself", async () => {
    const { page, bad, close } = await visit(chromium, town.url);
    assert.match(await text(page, "legend-title"), /Density, veh\/km\/lane/);
    assert.equal(await page.locator("#legend-classes li").count(), 8);
    const [clock, before] = [await text(page, "clock"), await classes(page)];
    assert.equal(before.length, LINKS);
    assert.ok(new Set(before).size > 1, "links differ in colour");
    assert.match(await text(page, "age"), /^\d+ s old$/);
    await changes(page, "clock", clock);
    await page.waitForFunction((before) => [...trafficMap.view.classes].join() !== before, before.join(), { timeout: PATIENCE });
    await page.check("input[value=speed]", { force: true });
    assert.match(await text(page, "legend-title"), /Speed, km\/h/);
    await picture(page, "map-speed");
    assert.deepEqual(bad, []);
    await close();
  });

  it("draws each link in the colour of its class, in both themes, and remembers the reader's colours", async () => {
    const { page, bad, close } = await visit(chromium, town.url);
    await page.waitForFunction(() => Number(document.getElementById("slider").max) > Number(document.getElementById("slider").min) + 1, null, { timeout: PATIENCE });
    await page.locator("#slider").focus();
    await page.keyboard.press("ArrowLeft");
    await page.waitForFunction(() => document.getElementById("mode").textContent === "past", null, { timeout: PATIENCE });
    const expected = () => page.evaluate(() => {
      const at = trafficMap.network.byName.get("E1");
      const shown = trafficMap.colours()[trafficMap.view.classes[at]];
      return shown && [1, 3, 5].map((from) => parseInt(shown.slice(from, from + 2), 16));
    });
    const seen = new Set();
    for (const scale of ["conventional", "safe"]) {
      await page.selectOption("#scale", scale);
      for (const _ of ["light", "dark"]) {
        await page.locator("#theme").click();
        const wanted = await expected();
        assert.ok(wanted, "E1 has a number");
        // An arrow may lie on the very middle: beside it is the line.
        const [x, y] = await point(page, "E1");
        await until(async () => {
          const found = await Promise.all([-8, 0, 8].map((aside) => colour(page, [x + aside, y])));
          return found.some((one) => one.every((part, at) => Math.abs(part - wanted[at]) < 6));
        }, `E1 in ${wanted}`);
        seen.add(wanted.join());
      }
    }
    assert.equal(seen.size, 2, "the same in light and dark");
    await page.reload();
    await page.waitForSelector("html[data-ready=true]", { timeout: PATIENCE });
    assert.equal(await page.locator("#scale").inputValue(), "safe");
    assert.deepEqual(bad, []);
    await close();
  });

  it("opens the last hours of a link that is clicked, and compares it with another", async () => {
    const { page, bad, close } = await visit(chromium, town.url);
    await page.mouse.click(...await point(page, "E3"));
    await page.waitForSelector("#chart canvas", { timeout: PATIENCE });
    assert.equal(await text(page, "link-title"), "Link E3");
    assert.match(await text(page, "chart-text"), /Density in veh\/km\/lane, .* between [\d.]+ and [\d.]+/);
    // There are intervals when all guests are in, which a busy machine may delay by a step.
    await holds(page, "chart-text", "Band: holds the truth in 90 of 100 cases");
    await holds(page, "link-now", "Density[\\d.]+ \\([\\d.]+ to [\\d.]+\\) veh/km/lane");
    await holds(page, "quality", "fleet-1 contributed\\d+ of \\d+ steps");
    await page.check("input[value=flow]", { force: true });
    await holds(page, "chart-text", "^Flow in");
    await page.locator("#link-compare").click();
    await page.mouse.click(...await point(page, "E2"));
    await holds(page, "link-title", "^Links E3 and E2$");
    await holds(page, "chart-text", "dashed: E2, between");
    assert.equal(await page.locator("#link-now th[scope=col]").count(), 2);
    assert.match(page.url(), /#.*l=E3.*c=E2|#.*c=E2.*l=E3/);
    await picture(page, "map-link");
    await accessible(page);
    await page.locator("#link-alone").click();
    await holds(page, "link-title", "^Link E3$");
    assert.deepEqual(bad, []);
    await close();
  });

  it("finds links by name, and sorts and filters them in a table", async () => {
    const { page, bad, close } = await visit(chromium, town.url);
    await page.locator("#find").fill("on_");
    const found = await page.locator("#found [role=option]").allTextContents();
    assert.ok(found.length > 1 && found.every((name) => name.includes("on_")), found.join());
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    assert.equal(await text(page, "link-title"), `Link ${found[1]}`);
    await page.locator("#find").fill("nowhere");
    assert.match(await text(page, "found"), /no link has this name/);
    await page.keyboard.press("Escape");

    await page.locator("#tab-all").click();
    assert.equal(await page.locator("#rows tr").count(), LINKS);
    await page.locator("[data-sort=density]").click();
    assert.equal(await page.locator("th[aria-sort=descending]").textContent(), "Density");
    const numbers = (column) => page.locator(`#rows tr td:nth-child(${column})`).evaluateAll((cells) => cells.map((cell) => cell.textContent).filter((text) => text !== "–").map(Number));
    const densities = await numbers(2);
    assert.deepEqual(densities, [...densities].sort((one, other) => other - one));
    await page.locator("#filter-density").fill(String(Math.ceil(densities[3])));
    await until(async () => (await numbers(2)).every((number) => number >= Math.ceil(densities[3])), "dense links only");
    await page.locator("#filter-density").fill("");
    await page.locator("#filter-name").fill("E1");
    await until(async () => (await page.locator("#rows tr th").allTextContents()).every((name) => name.includes("E1")), "links with E1");
    await accessible(page);
    await page.locator("#rows button").first().click();
    assert.match(await text(page, "link-title"), /E1/);
    assert.deepEqual(bad, []);
    await close();
  });

  it("ranks queues and changes, adds up the delay of what is shown, and lists alarms", async () => {
    const { page, bad, close } = await visit(chromium, town.url);
    await page.locator("#tab-centre").click();
    await page.waitForSelector("#queues button", { timeout: PATIENCE });
    // Against the numbers of the API: vehicles times the share of their time that they lose.
    const [sum, step] = await page.evaluate(() => [trafficMap.centre.total, trafficMap.estimate.step]);
    const [map, told] = await Promise.all(["v1/map", `v1/history/${step}`].map(async (path) => (await page.request.get(new URL(path, town.url).href)).json()));
    const expected = map.links.reduce((all, link, at) => {
      const { density, speed } = told.links[at];
      return all + (speed === null ? 0 : (density * link.lanes * link.length_m / 1000) * Math.max(0, 1 - speed / link.limit_km_h));
    }, 0);
    // Of rounded numbers: half a tenth of a vehicle, and a quarter of a km/h, on each link.
    assert.ok(Math.abs(sum - expected) < 0.02 * expected + 0.3, `${sum} for ${expected} veh·h/h`);
    await page.waitForSelector("#changes button", { timeout: PATIENCE });
    await page.waitForSelector("#alarm-list button[data-link]", { timeout: PATIENCE });
    assert.match(await text(page, "alarms-about"), /density > 1/);
    await accessible(page);
    await picture(page, "map-centre");
    const worst = await page.locator("#queues button").first().textContent();
    await page.locator("#queues button").first().click();
    assert.equal(await text(page, "link-title"), `Link ${worst}`);
    assert.deepEqual(bad, []);
    await close();
  });

  it("shows the speed along a route in time and space", async () => {
    const { page, bad, close } = await visit(chromium, town.url);
    await page.locator("#tab-route").click();
    await page.locator("#route-from").fill("E1");
    await page.locator("#route-to").fill("E4");
    await page.locator("#route-form button").click();
    await page.waitForSelector("#route-picture:not([hidden])", { timeout: PATIENCE });
    const way = await page.locator("#route-rows th").allTextContents();
    assert.deepEqual([way[0], way[way.length - 1]], ["E1", "E4"]);
    await holds(page, "route-text", `^${way.length} links, \\d+ m, \\d+ steps`);
    const colours = await page.locator("#route-picture").evaluate((canvas) => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      const seen = new Set();
      for (let at = 0; at < data.length; at += 4) seen.add(data.slice(at, at + 4).join());
      return seen.size;
    });
    assert.ok(colours > 4, `${colours} colours`);
    await accessible(page);
    await picture(page, "map-route");
    await page.locator("#route-to").fill("nowhere");
    await page.keyboard.press("Enter");
    await holds(page, "route-text", "No link has the name nowhere");
    assert.deepEqual(bad, []);
    await close();
  });

  it("goes back to the stored past, plays it, and returns to the present", async () => {
    const { page, bad, close } = await visit(chromium, town.url);
    await page.locator("#tab-all").click();
    await page.locator("#slider").focus();
    await page.keyboard.press("Home");
    await page.waitForFunction(() => document.getElementById("mode").textContent === "past", null, { timeout: PATIENCE });
    const step = Number(await page.locator("#slider").inputValue());
    const stored = await (await page.request.get(new URL(`v1/history/${step}`, town.url).href)).json();
    assert.equal(stored.step, step);
    const first = await page.locator("#rows button").first().textContent();
    const { density } = stored.links.find(({ link }) => link === first);
    await page.waitForFunction((density) => document.querySelector("#rows tr td").textContent === density, density.toFixed(1), { timeout: PATIENCE });
    assert.equal(await text(page, "clock"), await text(page, "slider-clock"));
    // It stays there while new estimates come.
    const { max } = await page.locator("#slider").evaluate((slider) => ({ max: slider.max }));
    await page.waitForFunction((before) => document.getElementById("slider").max !== before, max, { timeout: PATIENCE });
    assert.equal(Number(await page.locator("#slider").inputValue()), step);
    await picture(page, "map-past");
    await accessible(page);
    // What is shared is shown to another reader.
    const shared = page.url();
    assert.match(shared, new RegExp(`[#&]t=${step}(&|$)`));
    const other = await visit(chromium, shared, { mode: "past" });
    assert.equal(await other.page.evaluate(() => trafficMap.estimate.step), step);
    assert.equal(await other.page.locator("#tab-all").getAttribute("aria-selected"), "true");
    await other.close();
    // Played, it moves on by itself, and pauses.
    await page.locator("#play").click();
    await page.waitForFunction((step) => Number(document.getElementById("slider").value) >= step + 3, step, { timeout: PATIENCE });
    await page.locator("#play").click();
    assert.equal(await page.locator("#play").getAttribute("aria-pressed"), "false");
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
    await page.locator("#map canvas").focus();
    const place = () => page.evaluate(() => trafficMap.view.place());
    const before = await place();
    await page.keyboard.press("ArrowRight");
    await until(async () => await place() !== before, "the map moves");
    // The link nearest to the middle.
    await page.keyboard.press("Enter");
    await page.waitForSelector("#chart canvas", { timeout: PATIENCE });
    assert.match(await text(page, "link-title"), /^Link \S+$/);
    await page.locator("#tab-link").focus();
    await page.keyboard.press("ArrowRight");
    assert.equal(await page.evaluate(() => document.activeElement.id), "tab-centre");
    assert.ok(await page.locator("#centre").isVisible());
    assert.deepEqual(bad, []);
    await close();
  });

  it("fits a phone, dark", async () => {
    const phone = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true, colorScheme: "dark" };
    const { page, bad, close } = await visit(chromium, town.url, phone);
    await picture(page, "map-phone");
    await page.touchscreen.tap(...await point(page, "E4"));
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
    await holds(page, "alarm-list", "guest fleet-2silent");
    await page.mouse.click(...await point(page, "E1"));
    await holds(page, "chart-text", "Shaded: \\d+ of \\d+ steps without all guests");
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
  // A moment in which all guests were in: the same on every machine.
  let shown;

  before(async () => {
    assert.equal(await town?.stop(), 0, "fedtse up ends well when it is interrupted");
    town = null;
  });

  it("is shown by itself, on a basemap if one is wanted", async () => {
    const tiles = "https://tiles.example";
    const served = await past(home.path, ["--tiles", `${tiles}/{z}/{x}/{y}.png`, "--attribution", "© Nobody"]);
    const { page, bad, asked, close } = await visit(chromium, served.url, { mode: "stored", tiles });
    await until(() => asked.length > 3, "tiles");
    assert.ok(asked.every((url) => /\/1[4-9]\/\d+\/\d+\.png$/.test(url)), asked.join());
    assert.equal(await text(page, "attribution"), "© Nobody");
    const { stretches } = await (await page.request.get(new URL("v1/history", served.url).href)).json();
    shown = stretches[0].first + 20;
    await page.locator("#slider").focus();
    await page.keyboard.press("Home");
    await page.waitForFunction(() => document.getElementById("mode").textContent === "past", null, { timeout: PATIENCE });
    await picture(page, "map-basemap");
    assert.deepEqual(bad, []);
    await close();
    assert.equal(await served.stop(), 0);
  });

  it("is shown on a PMTiles file, which this server serves", async () => {
    const file = join(home.path, "earth.pmtiles");
    writeFileSync(file, archive(tile([60, 200, 60])));
    const served = await past(home.path, ["--tiles", file]);
    const { page, bad, close } = await visit(chromium, served.url, { mode: "stored" });
    // Green that the plain ground has not.
    await until(async () => {
      const box = await page.locator("#map canvas").boundingBox();
      const [red, green] = await colour(page, [box.x + box.width / 2, box.y + 6]);
      return green - red > 60;
    }, "the archive's colour");
    assert.equal(await text(page, "attribution"), "© The archive");
    assert.deepEqual(bad, []);
    await close();
    assert.equal(await served.stop(), 0);
  });

  it("looks as before: light, dark, on a phone", async () => {
    const served = await past(home.path);
    const at = `${served.url}#l=E3&t=${shown}`;
    const phone = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };
    for (const [name, options] of [["light", {}], ["dark", { colorScheme: "dark" }], ["phone", phone]]) {
      const { page, bad, close } = await visit(chromium, at, { mode: "past", ...options });
      await page.waitForSelector("#chart canvas", { timeout: PATIENCE });
      await page.evaluate(() => new Promise((drawn) => trafficMap.view.map.once("idle", drawn).triggerRepaint()));
      await asBefore(chromium, page, `look-${name}`, 0.05);
      assert.deepEqual(bad, []);
      await close();
    }
    assert.equal(await served.stop(), 0);
  });
});

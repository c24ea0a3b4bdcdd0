// The map itself, drawn by MapLibre: lines in the colours of their classes, over a plain ground or a basemap.

import * as maplibregl from "./lib/maplibre-gl-6.17.0.mjs";
import { CLASSES, NONE, NONE_COLOUR } from "./scale.js";

const WORKER = "lib/maplibre-gl-worker-6.17.0.mjs";
// Widths of a lane's line, in pixels, by zoom.
const WIDTHS = [[8, 0.9], [11, 1.3], [13, 2.2], [15, 4.5], [17, 10], [19, 24]];
const GAP = 0.8;
const ARROWS_FROM = 14;
// Around the pointer, in pixels.
const REACH = 6;
const MOST_ZOOM = 19;
const LINE = { "line-cap": "butt", "line-join": "round" };
const EMPTY = { type: "FeatureCollection", features: [] };

// The worker is started while the network is still on its way.
maplibregl.setWorkerUrl(new URL(WORKER, document.baseURI).href);
maplibregl.prewarm();

export class View {
  constructor(network, { tiles, dark, colours, start, onChoose, onTip, onMove }) {
    Object.assign(this, { network, tiles, dark, colours, onChoose });
    this.classes = new Uint8Array(network.links.length).fill(NONE);
    this.basemap = tiles ? tilesSource(tiles) : null;
    const [west, south, east, north] = network.bounds;
    const map = (this.map = new maplibregl.Map({
      container: "map",
      style: this.style(),
      attributionControl: false,
      dragRotate: false,
      pitchWithRotate: false,
      touchPitch: false,
      maxPitch: 0,
      maxZoom: MOST_ZOOM,
      fadeDuration: 0,
      renderWorldCopies: false,
      ...(start ? { zoom: start[0], center: [start[2], start[1]] } : { bounds: [[west, south], [east, north]], fitBoundsOptions: { padding: 40 } }),
    }));
    map.touchZoomRotate.disableRotation();
    map.keyboard.disableRotation();
    const canvas = map.getCanvas();
    canvas.setAttribute("aria-label", "Map of the network");
    canvas.setAttribute("aria-describedby", "map-help");
    canvas.addEventListener("keydown", (event) => event.key === "Enter" && this.chooseNearest());
    this.ready = new Promise((done) => map.once("load", done));
    map.once("style.load", () => {
      map.addImage("arrow", arrow(), { pixelRatio: 2 });
      map.addLayer({ id: "arrows", type: "line", source: "links", minzoom: ARROWS_FROM, layout: LINE, paint: { "line-pattern": "arrow", "line-width": width(1, 0), "line-offset": offset() } });
    });
    map.on("click", (event) => {
      const at = this.at(event.point);
      if (at !== null) onChoose(at);
    });
    let due = null;
    map.on("mousemove", (event) => {
      if (due === null) requestAnimationFrame(() => { const point = due; due = null; const at = map.isMoving() ? null : this.at(point); canvas.style.cursor = at === null ? "" : "pointer"; onTip(at, point); });
      due = event.point;
    });
    map.on("mouseout", () => onTip(null));
    map.on("moveend", onMove);
    document.getElementById("zoom").addEventListener("click", ({ target }) => {
      const way = target.dataset.zoom;
      const quick = { duration: 150 };
      if (way === "all") this.all();
      else if (way === "in") map.zoomIn(quick);
      else if (way === "out") map.zoomOut(quick);
    });
    map.on("error", ({ error }) => console.warn(`map: ${error?.message ?? error}`));
  }

  style() {
    const { network } = this;
    const features = network.lines.map((coordinates, at) => ({
      type: "Feature",
      id: at,
      // Width by lanes; to the right of the line where another link runs against it.
      properties: { w: Math.min(3, 1 + 0.45 * (network.links[at].lanes - 1)), o: network.opposite[at] ? 1 : 0 },
      geometry: { type: "LineString", coordinates },
    }));
    return {
      version: 8,
      sources: {
        ...(this.basemap ? { basemap: this.basemap.source } : {}),
        links: { type: "geojson", data: { type: "FeatureCollection", features }, tolerance: 0.5, maxzoom: 16, buffer: 16 },
        chosen: { type: "geojson", data: EMPTY },
      },
      layers: [
        { id: "ground", type: "background", paint: { "background-color": this.ground() } },
        ...(this.basemap?.layers(this.dark) ?? []),
        { id: "casings", type: "line", source: "links", minzoom: 13, layout: LINE, paint: { "line-color": this.casing(), "line-width": width(1, 1.6), "line-offset": offset() } },
        { id: "links", type: "line", source: "links", layout: LINE, paint: { "line-color": this.colour(), "line-width": width(1, 0), "line-offset": offset() } },
        // An outline, so that the colour is seen.
        { id: "chosen", type: "line", source: "chosen", layout: LINE, paint: { "line-color": ["match", ["get", "rank"], 0, "#d81b60", "#7b3fe4"], "line-width": 3.5, "line-gap-width": width(1, 0), "line-offset": offset() } },
      ],
    };
  }

  ground() {
    return this.dark ? "#12161a" : "#f4f5f2";
  }

  casing() {
    return this.dark ? "#8d979f" : "#4a5158";
  }

  // By the class that is the state of each feature: a new estimate changes states and no geometry.
  colour() {
    const steps = this.colours.flatMap((colour, of) => [of, colour]);
    const none = NONE_COLOUR[this.dark ? "dark" : "light"];
    return ["step", ["coalesce", ["feature-state", "c"], NONE], none, ...steps, CLASSES, none];
  }

  async begin() {
    await this.ready;
    if (this.basemap?.prepare) await this.basemap.prepare(this);
    this.paint(this.classes, true);
  }

  // The class of each link. Only those that have changed are told to the map.
  paint(classes, all = false) {
    let changed = 0;
    for (let at = 0; at < classes.length; at++) {
      if (!all && classes[at] === this.classes[at]) continue;
      this.map.setFeatureState({ source: "links", id: at }, { c: classes[at] });
      changed += 1;
    }
    this.classes = classes;
    return changed;
  }

  theme(dark, colours) {
    Object.assign(this, { dark, colours });
    this.map.setPaintProperty("ground", "background-color", this.ground());
    this.map.setPaintProperty("casings", "line-color", this.casing());
    this.map.setPaintProperty("links", "line-color", this.colour());
    for (const { id, paint } of this.basemap?.layers(dark) ?? []) {
      for (const [name, value] of Object.entries(paint ?? {})) if (this.map.getLayer(id)) this.map.setPaintProperty(id, name, value);
    }
  }

  // Marks links: the chosen one, the compared one, a route.
  mark(links) {
    const { network } = this;
    const feature = ({ at, rank }) => ({
      type: "Feature",
      properties: { rank, w: Math.min(3, 1 + 0.45 * (network.links[at].lanes - 1)), o: network.opposite[at] ? 1 : 0 },
      geometry: { type: "LineString", coordinates: network.lines[at] },
    });
    this.map.getSource("chosen").setData({ type: "FeatureCollection", features: links.map(feature) });
  }

  // The link at a point of the screen; null where there is none.
  at({ x, y }) {
    const near = (reach) => this.map.queryRenderedFeatures([[x - reach, y - reach], [x + reach, y + reach]], { layers: ["links"] });
    if (!this.map.getLayer("links")) return null;
    return (near(1)[0] ?? near(REACH)[0])?.id ?? null;
  }

  // The pixel of a link's middle, beside the line where the link is drawn there.
  point(at) {
    const line = this.network.lines[at];
    const half = Math.max(1, Math.floor(line.length / 2));
    const [from, to] = [line[half - 1], line[half]].map((place) => this.map.project(place));
    const zoom = this.map.getZoom();
    const lane = interpolated(zoom);
    const aside = this.network.opposite[at] ? (lane * Math.min(3, 1 + 0.45 * (this.network.links[at].lanes - 1))) / 2 + GAP : 0;
    const long = Math.hypot(to.x - from.x, to.y - from.y) || 1;
    return { x: (from.x + to.x) / 2 - ((to.y - from.y) / long) * aside, y: (from.y + to.y) / 2 + ((to.x - from.x) / long) * aside };
  }

  chooseNearest() {
    const middle = this.map.project(this.map.getCenter());
    let best = [Infinity, null];
    for (const at of this.visible()) {
      const { x, y } = this.map.project(this.network.middle(at));
      const far = Math.hypot(x - middle.x, y - middle.y);
      if (far < best[0]) best = [far, at];
    }
    if (best[1] !== null) this.onChoose(best[1]);
  }

  // Links whose middle is on the screen.
  visible() {
    const bounds = this.map.getBounds();
    const [west, south, east, north] = [bounds.getWest(), bounds.getSouth(), bounds.getEast(), bounds.getNorth()];
    const found = [];
    for (let at = 0; at < this.network.links.length; at++) {
      const [lon, lat] = this.network.middle(at);
      if (lon >= west && lon <= east && lat >= south && lat <= north) found.push(at);
    }
    return found;
  }

  show(links) {
    const [west, south, east, north] = this.network.around(links.map((at) => this.network.lines[at]));
    this.map.fitBounds([[west, south], [east, north]], { padding: 60, maxZoom: Math.max(16, this.map.getZoom()), duration: 0 });
  }

  all() {
    const [west, south, east, north] = this.network.bounds;
    this.map.fitBounds([[west, south], [east, north]], { padding: 40, duration: 0 });
  }

  // As in the URL: zoom, latitude, longitude.
  place() {
    const { lng, lat } = this.map.getCenter();
    return `${this.map.getZoom().toFixed(2)}/${lat.toFixed(5)}/${lng.toFixed(5)}`;
  }
}

function byZoom(value) {
  return ["interpolate", ["exponential", 1.6], ["zoom"], ...WIDTHS.flatMap(([zoom, lane]) => [zoom, value(lane)])];
}

function width(factor, more) {
  return byZoom((lane) => ["+", more, ["*", lane * factor, ["get", "w"]]]);
}

// Half of the line's own width, so that the lines of both directions lie beside each other.
function offset() {
  return byZoom((lane) => ["*", ["get", "o"], ["+", GAP, ["*", lane / 2, ["get", "w"]]]]);
}

// A lane's width at a zoom, as `byZoom` has it.
function interpolated(zoom) {
  const next = WIDTHS.findIndex(([at]) => at > zoom);
  if (next <= 0) return WIDTHS[next === 0 ? 0 : WIDTHS.length - 1][1];
  const [[from, low], [to, high]] = [WIDTHS[next - 1], WIDTHS[next]];
  return low + (high - low) * ((1.6 ** (zoom - from) - 1) / (1.6 ** (to - from) - 1));
}

// An arrow head in the direction of travel, repeated along a line as wide as the picture is high.
function arrow() {
  const [wide, high] = [128, 16];
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width: wide, height: high });
  const context = canvas.getContext("2d");
  context.beginPath();
  context.moveTo(58, 2);
  context.lineTo(71, 8);
  context.lineTo(58, 14);
  context.closePath();
  context.fillStyle = "#fff";
  context.strokeStyle = "#000";
  context.lineWidth = 1.4;
  context.fill();
  context.stroke();
  const { data } = context.getImageData(0, 0, wide, high);
  return { width: wide, height: high, data };
}

// A basemap's source, and its layers in both themes.
function tilesSource({ kind, url, attribution }) {
  const shade = (dark) => ({ "raster-opacity": dark ? 0.35 : 0.75, "raster-fade-duration": 0 });
  const raster = (dark) => [{ id: "basemap", type: "raster", source: "basemap", paint: shade(dark) }];
  if (kind === "raster") return { source: { type: "raster", tiles: [url], tileSize: 256, attribution }, layers: raster };
  if (kind === "vector") return { source: { type: "vector", tiles: [absolute(url)], attribution }, layers: (dark) => vectorLayers(dark) };
  return archiveSource(url);
}

function absolute(url) {
  return decodeURI(new URL(url, document.baseURI).href);
}

// A PMTiles archive: its header says whether it has pictures or vectors.
function archiveSource(url) {
  const archive = new pmtiles.PMTiles(absolute(url));
  const protocol = new pmtiles.Protocol();
  protocol.add(archive);
  maplibregl.addProtocol("pmtiles", protocol.tile);
  let layers = () => [];
  return {
    source: { type: "geojson", data: EMPTY },
    layers: (dark) => layers(dark),
    async prepare(view) {
      const [header, about] = await Promise.all([archive.getHeader(), archive.getMetadata()]);
      const vector = header.tileType === 1;
      const source = { type: vector ? "vector" : "raster", url: `pmtiles://${absolute(url)}`, ...(vector ? {} : { tileSize: 256 }) };
      view.map.addSource("archive", source);
      const there = new Set((about?.vector_layers ?? []).map((layer) => layer.id));
      layers = (dark) => (vector ? vectorLayers(dark, there) : [{ id: "basemap", type: "raster", paint: { "raster-opacity": dark ? 0.35 : 0.75, "raster-fade-duration": 0 } }]).map((layer) => ({ ...layer, source: "archive" }));
      for (const layer of layers(view.dark)) view.map.addLayer(layer, "casings");
      const credit = document.getElementById("attribution");
      if (credit.hidden && about?.attribution) {
        credit.textContent = about.attribution.replace(/<[^>]*>/g, "");
        credit.hidden = false;
      }
    },
  };
}

// Quiet ground for the layers that the usual schemas (OpenMapTiles, Protomaps, Shortbread) have.
function vectorLayers(dark, there) {
  const [water, green, built, road] = dark ? ["#1b2a36", "#17211b", "#1f252b", "#2b333a"] : ["#cfe0ea", "#e3ebdc", "#e6e4df", "#ffffff"];
  const fills = [["landcover", green], ["landuse", green], ["park", green], ["water", water], ["water_polygons", water], ["building", built], ["buildings", built]];
  const lines = [["waterway", water], ["transportation", road], ["roads", road], ["streets", road]];
  const layer = (type, paint) => ([name, colour]) => ({ id: `basemap-${name}`, type, source: "basemap", "source-layer": name, paint: paint(colour) });
  const all = [...fills.map(layer("fill", (colour) => ({ "fill-color": colour }))), ...lines.map(layer("line", (colour) => ({ "line-color": colour, "line-width": 1.5 })))];
  return there ? all.filter((found) => there.has(found["source-layer"])) : all;
}

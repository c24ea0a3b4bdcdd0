// A basemap of tiles from elsewhere, where the host is configured to have one.

const SVG = "http://www.w3.org/2000/svg";
const EARTH_M = 6371008.8;
const TILE = 256;
const MOST_TILES = 64;

export class Basemap {
  constructor(tiles, origin, drawing) {
    this.tiles = tiles;
    this.origin = origin;
    this.drawing = drawing;
    const note = document.getElementById("attribution");
    note.textContent = tiles.attribution;
    note.hidden = false;
  }

  // Longitude and latitude of a point of the plane, as the host's own plane has it.
  place(x, y) {
    const degree = (EARTH_M * Math.PI) / 180;
    return [this.origin.lon + x / (degree * Math.cos((this.origin.lat * Math.PI) / 180)), this.origin.lat + y / degree];
  }

  // Tile numbers of a place, with their fractions.
  tile([lon, lat], zoom) {
    const count = 2 ** zoom;
    const phi = (lat * Math.PI) / 180;
    return [((lon + 180) / 360) * count, ((1 - Math.asinh(Math.tan(phi)) / Math.PI) / 2) * count];
  }

  draw() {
    const { view, size, basemap } = this.drawing;
    if (!size.width) return;
    const around = 2 * Math.PI * EARTH_M * Math.cos((this.origin.lat * Math.PI) / 180);
    const zoom = Math.min(19, Math.max(0, Math.round(Math.log2(around / (TILE * view.metres)))));
    const corner = (px, py) =>
      this.tile(this.place(view.x + (px - size.width / 2) * view.metres, view.y - (py - size.height / 2) * view.metres), zoom);
    const [left, top] = corner(0, 0);
    const [right, bottom] = corner(size.width, size.height);
    const [across, down] = [size.width / (right - left), size.height / (bottom - top)];
    const images = [];
    for (let x = Math.floor(left); x <= right; x += 1) {
      for (let y = Math.floor(top); y <= bottom && images.length < MOST_TILES; y += 1) {
        const image = document.createElementNS(SVG, "image");
        const url = this.tiles.url.replace("{z}", zoom).replace("{x}", x).replace("{y}", y);
        const place = { href: url, x: (x - left) * across, y: (y - top) * down, width: across + 0.5, height: down + 0.5, preserveAspectRatio: "none" };
        for (const [key, value] of Object.entries(place)) image.setAttribute(key, value);
        images.push(image);
      }
    }
    basemap.replaceChildren(...images);
  }
}

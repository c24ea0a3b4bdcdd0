// The network: links by number and name, where they lie, and ways along them.

const EARTH_M = 6371008.8;
// Ends of two links this near to each other are one place.
const NEAR_M = 20;
const degrees = (radians) => (radians * 180) / Math.PI;

export class Network {
  constructor(map) {
    this.links = map.links;
    this.byName = new Map(this.links.map((link, at) => [link.link, at]));
    const { lat, lon } = map.origin ?? { lat: 0, lon: 0 };
    const north = degrees(1 / EARTH_M);
    const east = north / Math.cos((lat * Math.PI) / 180);
    this.place = ([x, y]) => [lon + x * east, lat + y * north];
    this.lines = this.links.map((link) => link.shape.map(this.place));
    this.bounds = this.around(this.lines);
    this.opposite = this.twoWay();
    this.fastest = Math.max(10, ...this.links.map((link) => link.limit_km_h));
  }

  // West, south, east and north of lines.
  around(lines) {
    const box = [Infinity, Infinity, -Infinity, -Infinity];
    for (const line of lines) {
      for (const [x, y] of line) {
        if (x < box[0]) box[0] = x;
        if (y < box[1]) box[1] = y;
        if (x > box[2]) box[2] = x;
        if (y > box[3]) box[3] = y;
      }
    }
    return box;
  }

  // Whether each link has another one against it: its begin near the end of the other, and the other way round.
  twoWay() {
    const cells = new Map();
    const cell = ([x, y]) => [Math.floor(x / NEAR_M), Math.floor(y / NEAR_M)];
    this.links.forEach((link, at) => {
      const key = cell(link.shape[0]).join();
      if (!cells.has(key)) cells.set(key, []);
      cells.get(key).push(at);
    });
    const near = ([x, y], [u, v]) => Math.hypot(x - u, y - v) <= NEAR_M;
    return this.links.map((link, at) => {
      const [begin, end] = [link.shape[0], link.shape[link.shape.length - 1]];
      const [column, row] = cell(end);
      for (let dx = -1; dx <= 1; dx++) {
        for (let dy = -1; dy <= 1; dy++) {
          for (const other of cells.get(`${column + dx},${row + dy}`) ?? []) {
            const { shape } = this.links[other];
            if (other !== at && near(shape[0], end) && near(shape[shape.length - 1], begin)) return true;
          }
        }
      }
      return false;
    });
  }

  // The middle of a link.
  middle(at) {
    const line = this.lines[at];
    const half = Math.max(1, Math.floor(line.length / 2));
    return [0, 1].map((part) => (line[half - 1][part] + line[half][part]) / 2);
  }

  // The shortest way from one link to another, both included; null if there is none. Dijkstra with a binary heap.
  route(from, to) {
    const least = new Float64Array(this.links.length).fill(Infinity);
    const before = new Int32Array(this.links.length).fill(-1);
    const heap = [[0, from]];
    least[from] = 0;
    while (heap.length) {
      const [metres, at] = pop(heap);
      if (at === to) break;
      if (metres > least[at]) continue;
      for (const name of this.links[at].next) {
        const next = this.byName.get(name);
        const sum = metres + this.links[next].length_m;
        if (sum < least[next]) {
          least[next] = sum;
          before[next] = at;
          push(heap, [sum, next]);
        }
      }
    }
    if (least[to] === Infinity) return null;
    const way = [to];
    while (way[0] !== from) way.unshift(before[way[0]]);
    return way;
  }
}

function push(heap, entry) {
  let at = heap.push(entry) - 1;
  while (at > 0) {
    const parent = (at - 1) >> 1;
    if (heap[parent][0] <= entry[0]) break;
    heap[at] = heap[parent];
    at = parent;
  }
  heap[at] = entry;
}

function pop(heap) {
  const top = heap[0];
  const entry = heap.pop();
  if (heap.length) {
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && heap[child + 1][0] < heap[child][0]) child += 1;
      if (heap[child][0] >= entry[0]) break;
      heap[at] = heap[child];
      at = child;
    }
    heap[at] = entry;
  }
  return top;
}

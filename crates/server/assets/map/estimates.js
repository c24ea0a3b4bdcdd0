// Estimates in their packed form: from the stream as changes, from the history whole.

// After a refused connection, before the next.
const AGAIN_MS = 5000;
const NO_SPEED = 65535;

// One estimate: its numbers by link.
export class Estimate {
  constructor(document, numbers) {
    Object.assign(this, document);
    [this.tenths, this.flows, this.halves] = numbers;
  }

  // Of a quantity and a link; null where there is no number.
  value(quantity, at) {
    if (quantity === "density") return this.tenths[at] / 10;
    if (quantity === "flow") return this.flows[at] / 10;
    return this.halves[at] === NO_SPEED ? null : this.halves[at] / 2;
  }
}

// See `PackedEstimate` in v1/openapi.json.
async function unpack(document, base) {
  const text = atob(document.numbers);
  const packed = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
  const inflated = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(inflated).arrayBuffer());
  const { links } = document;
  if (bytes.length !== 6 * links) throw new Error(`found ${bytes.length} bytes of ${links} links, expected ${6 * links}`);
  const numbers = [0, 1, 2].map((quantity) => {
    const found = base ? base[quantity].slice() : new Uint16Array(links);
    const [low, high] = [2 * quantity * links, (2 * quantity + 1) * links];
    for (let at = 0; at < links; at++) {
      const coded = bytes[low + at] | (bytes[high + at] << 8);
      // Modulo 2^16, as the array has it.
      if (coded) found[at] += (coded >> 1) ^ -(coded & 1);
    }
    return found;
  });
  return new Estimate(document, numbers);
}

export async function ask(path) {
  const response = await fetch(path);
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error ?? response.statusText);
  return answer;
}

export async function stored(step) {
  return unpack(await ask(`v1/history/${step}/packed`), null);
}

// The stream of new estimates, in their order.
export class Stream {
  constructor({ onEstimate, onOpen, onLost }) {
    Object.assign(this, { onEstimate, onOpen, onLost });
    this.open();
  }

  open() {
    this.source?.close();
    this.last = null;
    let queue = Promise.resolve();
    const source = (this.source = new EventSource("v1/estimates/changes"));
    source.addEventListener("open", () => this.onOpen());
    source.addEventListener("estimate", (event) => {
      const arrived = performance.now();
      queue = queue.then(() => source === this.source && this.take(JSON.parse(event.data), arrived)).catch(() => source === this.source && this.open());
    });
    source.addEventListener("error", () => {
      this.onLost();
      // A browser does not try again by itself once it was turned away.
      if (source.readyState === EventSource.CLOSED) setTimeout(() => source === this.source && this.open(), AGAIN_MS);
    });
  }

  async take(document, arrived) {
    if (document.base !== null && document.base !== this.last?.step) throw new Error("a change of another estimate");
    const base = this.last && [this.last.tenths, this.last.flows, this.last.halves];
    const estimate = await unpack(document, document.base === null ? null : base);
    estimate.arrived = arrived;
    this.last = estimate;
    this.onEstimate(estimate);
  }
}

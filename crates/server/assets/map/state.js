// What a URL shares, behind its #, and what this browser remembers.

const DEFAULTS = { q: "density", tab: "link", h: "1" };

// As in q=speed&l=E1&c=E2&t=360&h=3&v=14.5/37.97571/23.73410
export function read() {
  const found = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const view = (found.v ?? "").split("/").map(Number);
  const step = /^-?\d{1,15}$/.test(found.t ?? "") ? Number(found.t) : null;
  return { ...DEFAULTS, ...found, t: step, v: view.length === 3 && view.every(Number.isFinite) ? view : null };
}

// The URL follows what is shown, without a new entry in the history of the browser.
export function write(state) {
  const shared = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) {
    if (value !== null && value !== undefined && value !== "" && value !== DEFAULTS[name]) shared.set(name, value);
  }
  const hash = shared.toString().replaceAll("%2F", "/");
  if (hash !== location.hash.slice(1)) history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
}

// A browser may refuse to remember.
export function remembered(name) {
  try {
    return localStorage.getItem(`fedtse.${name}`);
  } catch {
    return null;
  }
}

export function remember(name, value) {
  try {
    localStorage.setItem(`fedtse.${name}`, value);
  } catch {
    // Then it holds for this visit.
  }
}

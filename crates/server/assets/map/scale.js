// Colours of numbers: dark blue over grey to yellow, even in lightness, told apart with any kind of colour blindness.
// What needs attention (dense, busy, slow) is farthest from the background.

const STOPS = [
  [0, 34, 78], [38, 58, 107], [74, 82, 110], [103, 105, 112], [130, 128, 118],
  [160, 153, 115], [192, 180, 103], [226, 209, 83], [253, 231, 62],
];

export const QUANTITIES = {
  density: { title: "Density", unit: "veh/km/lane", spoken: "vehicles per kilometre and lane", most: 80, digits: 1, attention: "high" },
  flow: { title: "Flow", unit: "veh/min/lane", spoken: "vehicles per minute and lane", most: 20, digits: 1, attention: "high" },
  speed: { title: "Speed", unit: "km/h", spoken: "kilometres per hour", most: 50, digits: 0, attention: "low" },
};

export function colour(share) {
  const at = Math.min(1, Math.max(0, share)) * (STOPS.length - 1);
  const low = Math.min(STOPS.length - 2, Math.floor(at));
  const mixed = STOPS[low].map((from, part) => Math.round(from + (at - low) * (STOPS[low + 1][part] - from)));
  return `rgb(${mixed.join(" ")})`;
}

// The colour of a value, or null where there is none.
export function colourOf(quantity, value, dark) {
  if (value === null || value === undefined) return null;
  const share = value / quantity.most;
  const attention = quantity.attention === "high" ? share : 1 - share;
  return colour(dark ? attention : 1 - attention);
}

export function ticks(quantity) {
  return [0, 0.25, 0.5, 0.75, 1].map((share) => share * quantity.most);
}

export function shown(quantity, value) {
  return value === null || value === undefined ? "–" : value.toFixed(quantity.digits);
}

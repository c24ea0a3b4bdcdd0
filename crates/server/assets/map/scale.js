// Colours of numbers: classes from free to congested, the same in light and dark themes.

// Seven classes, from what needs no attention to what needs most.
export const SCALES = {
  conventional: ["#0b8a4a", "#57ad3f", "#a5c93a", "#f2cf27", "#f39a22", "#df5327", "#a80f2c"],
  // Blue over sand to brown: told apart with any colour blindness.
  safe: ["#1d5fa8", "#5b97cb", "#a9c9e3", "#e9e0c0", "#eeb055", "#cf6a1b", "#7d2a06"],
};
export const CLASSES = 7;
// The class of links without a number.
export const NONE = CLASSES;
export const NONE_COLOUR = { light: "#b3b9b6", dark: "#4a545c" };

// The least value of each class but the first, in the order of the values.
export const QUANTITIES = {
  density: { title: "Density", unit: "veh/km/lane", spoken: "vehicles per kilometre and lane", digits: 1, attention: "high", breaks: [8, 16, 25, 35, 50, 70] },
  flow: { title: "Flow", unit: "veh/min/lane", spoken: "vehicles per minute and lane", digits: 1, attention: "high", breaks: [3, 6, 9, 12, 15, 18] },
  speed: { title: "Speed", unit: "km/h", spoken: "kilometres per hour", digits: 0, attention: "low", breaks: [8, 15, 22, 30, 38, 45] },
  share: { title: "Speed", unit: "% of the limit", spoken: "per cent of the speed limit", digits: 0, attention: "low", breaks: [15, 30, 45, 60, 75, 90] },
};

// Speeds of a network with other limits than a city's.
export function fit(fastest) {
  QUANTITIES.speed.breaks = [0.15, 0.3, 0.45, 0.6, 0.75, 0.9].map((share) => Math.round(share * fastest));
}

// The class of a value: 0 needs no attention.
export function classOf(quantity, value) {
  if (value === null || value === undefined) return NONE;
  const { breaks, attention } = quantity;
  let above = 0;
  while (above < breaks.length && value >= breaks[above]) above += 1;
  return attention === "high" ? above : CLASSES - 1 - above;
}

// Each class with its range, in the order of the values.
export function ranges({ breaks, attention }) {
  const texts = [`< ${breaks[0]}`, ...breaks.slice(1).map((to, at) => `${breaks[at]}–${to}`), `≥ ${breaks[breaks.length - 1]}`];
  return texts.map((text, at) => ({ text, of: attention === "high" ? at : CLASSES - 1 - at }));
}

export function shown(quantity, value) {
  return value === null || value === undefined ? "–" : value.toFixed(quantity.digits);
}

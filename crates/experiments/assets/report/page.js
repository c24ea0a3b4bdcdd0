// The page from its data, section by section. What has no data has no section.

function scores(run) {
  const best = (pick) => Math.min(...run.methods.map(pick));
  const density = (method) => method.score.density.rmse, flow = (method) => method.score.flow.rmse;
  const [least, lowest] = [best(density), best(flow)];
  const number = (value, lead) => ({ text: rounded(value), best: value === lead });
  return table("Errors on the test part, target links: RMSE and MAE of density (veh/km/lane) and flow (veh/min/lane)",
    ["sees", "learns from truth", "density RMSE", "density MAE", "flow RMSE", "flow MAE", "seconds"],
    run.methods.map((method) => ({
      label: method.label,
      cells: [{ text: method.sees, words: true }, { text: method.with_truth ? "yes" : "no", words: true },
        number(density(method), least), rounded(method.score.density.mae),
        number(flow(method), lowest), rounded(method.score.flow.mae), rounded(method.seconds, 1)],
    })), "estimator");
}

function overview(run, id, name) {
  const node = section(id + "overview", name("Who estimates best"), name("Overview"));
  const d = run.data;
  node.append(make("p", {}, `${d.network}: ${counted(d.vehicles)} vehicles on ${d.links} links (${d.world}). ` +
    `${d.guests === 1 ? "One guest has" : d.guests + " guests have"} ${d.rate} % of the vehicles together. Steps of ${d.step_s} s: ` +
    `${counted(d.train)} windows to learn from, ${counted(d.validation)} to choose by, ${counted(d.test)} to score on.`),
    scores(run),
    make("p", { class: "made" }, `Made on ${run.date} by ${run.command}, commit ${run.program.commit}`));
}

function learning(run, id, name) {
  const trained = run.methods.filter((method) => method.history && method.history.length > 1);
  if (trained.length === 0) return;
  const node = section(id + "learning", name("Learning curves"), name("Learning"));
  node.append(make("p", { class: "hint" }, "Losses of scaled targets, or of measurements where there is no truth to learn from: compare the course, not the height."));
  const pair = make("div", { class: "pair" });
  trained.forEach((method) => {
    const line = (label, pick) => ({ label, points: method.history.map((epoch) => [epoch.number, pick(epoch)]) });
    pair.append(chart(method.label, "epoch", "loss",
      [line("training", (epoch) => epoch.train), line("validation", (epoch) => epoch.validation)],
      { digits: 4, height: 230, log: method.history.every((epoch) => epoch.train > 0 && epoch.validation > 0) }));
  });
  node.append(pair);
}

function perLink(run, id, name) {
  const all = run.estimated;
  if (!all || all.links.length === 0) return;
  const node = section(id + "links", name("Estimated and true traffic, link by link"), name("Links"));
  const sure = all.intervals;
  if (sure) {
    const share = sure.coverage.within.map((part) => (100 * part).toFixed(1) + " %");
    node.append(make("p", {}, `The shaded interval is ${sure.of}'s, made to hold ${sure.coverage.level} % of the truth; on these windows it holds ${share[0]} of densities and ${share[1]} of flows.`));
  }
  const place = make("div", { class: "pair" });
  const show = (wanted) => {
    const link = all.links.find((one) => one.link === wanted);
    const lines = (course) => {
      const line = (label, values, more) => Object.assign({ label, points: all.minutes.map((minute, at) => [minute, values[at]]) }, more);
      const bounds = course.interval ? [line("interval from", course.interval[0], { bound: "low" }), line("to", course.interval[1], { bound: "high" })] : [];
      return [...bounds, line("truth", course.truth, { truth: true }), ...course.estimates.map((one) => line(one.label, one.values))];
    };
    place.replaceChildren(
      chart(`Density of ${wanted}, ${link.has_loop ? "with" : "without"} a loop`, "minutes", "veh/km/lane", lines(link.density), { height: 320 }),
      chart(`Flow of ${wanted}, ${link.has_loop ? "with" : "without"} a loop`, "minutes", "veh/min/lane", lines(link.flow), { height: 320 }));
  };
  node.append(make("div", { class: "choices" }, choice("Link", all.links.map((link) => link.link), show)), place);
  show(all.links[0].link);
}

function diagrams(run, id, name) {
  const map = run.time_space, all = run.estimated;
  if (!map && !all) return;
  const node = section(id + "time-space", name("Time and space"), name("Time–space"));
  if (map) {
    const rows = map.links.flatMap((link) => Array.from({ length: map.cells }, (_, cell) => ({
      name: link.link, metres: link.metres / map.cells, part: `, ${Math.round((cell * link.metres) / map.cells)} m along` })));
    const columns = Array.from({ length: map.speeds.length / rows.length }, (_, at) => map.from_minute + (at * map.step_s) / 60);
    const value = (c, r) => { const found = map.speeds[c * rows.length + r]; return found === null ? null : found / 100; };
    node.append(heatmap("Speed along the busiest way, all vehicles", columns, rows, value, {
      share: (speed) => speed / map.fastest, text: (speed) => speed.toFixed(1) + " m/s", short: (speed) => speed.toFixed(1),
      ends: ["0 m/s", map.fastest.toFixed(1) + " m/s"] }));
  }
  if (!all) return;
  const most = Math.max(1, ...all.links.map((link) => Math.max(...link.density.truth)));
  const picture = { share: (density) => 1 - Math.sqrt(density / most), text: (density) => density.toFixed(1) + " veh/km/lane",
    short: (density) => density.toFixed(1), ends: ["0 veh/km/lane", most.toFixed(0) + " (root scale)"], turned: true };
  const rows = all.links.map((link) => ({ name: link.link, metres: link.length_m }));
  const courses = [["truth", (link) => link.density.truth],
    ...all.links[0].density.estimates.map((one, at) => [one.label, (link) => link.density.estimates[at].values])];
  const pair = make("div", { class: "pair" });
  courses.forEach(([label, pick]) => pair.append(heatmap(`Density of the target links: ${label}`, all.minutes, rows,
    (c, r) => pick(all.links[r])[c], picture)));
  node.append(pair);
}

function privacy(run, id, name) {
  const shared = run.methods.filter((method) => method.releases && method.releases.length > 0);
  if (shared.length === 0) return;
  const node = section(id + "privacy", name("What left each party"), name("Privacy"));
  node.append(make("p", {}, "A party can send only what its own ledger has recorded first. These are the ledgers' sums; each line of a ledger holds the hash of the one before, and the head is the last of them."));
  shared.forEach((method) => {
    node.append(make("h3", {}, `${method.label}, mode ${method.privacy || "clear"}: ${counted(method.rounds || 0)} exchanges`));
    const rows = method.releases.flatMap((party) => party.sent.map((sent) => ({
      label: party.party,
      cells: [{ text: sent.to, words: true }, { text: sent.kind, words: true }, counted(sent.messages), counted(sent.numbers), (sent.bytes / 1e6).toFixed(3)],
    })));
    node.append(table(`What left whom, ${method.label}`, ["to", "what", "messages", "numbers in them", "MB"], rows, "from"));
    node.append(table(`Sums, ${method.label}`, ["messages", "MB", "head of the ledger"], method.releases.map((party) => ({
      label: party.party, cells: [counted(party.messages), (party.bytes / 1e6).toFixed(2), { text: party.head.slice(0, 16) + "…", words: true }] })), "party"));
  });
}

function result(found) {
  const node = section(found.id, found.title, found.short);
  found.warnings.forEach((text) => node.append(make("p", { class: "warning" }, text)));
  if (found.charts.length > 0) {
    const pair = make("div", { class: "pair" });
    found.charts.forEach((one) => pair.append(chart(one.caption, one.x, one.y, one.lines, { levels: one.levels, height: 320 })));
    node.append(pair);
  }
  found.grids.forEach((grid) => node.append(table(grid.caption, grid.columns, grid.rows)));
  if (found.notes.length > 0) {
    node.append(make("details", {}, make("summary", {}, "Notes: " + found.id), make("ul", { class: "notes" }, ...found.notes.map((note) => make("li", {}, note)))));
  }
  node.append(make("p", { class: "made" }, found.made));
}

data.runs.forEach((run, at) => {
  const several = data.runs.length > 1;
  const id = several ? `run-${at + 1}-` : "";
  const name = (text) => (several ? `${run.title}: ${text}` : text);
  [overview, learning, perLink, diagrams, privacy].forEach((show) => show(run, id, name));
});
data.results.forEach(result);

// Time: clocks of recordings, the slider over what is stored, and its playback.

const DAY = 86400;

// Recordings count from an epoch of their own: within the first years after it only the time of day means something.
export function clock(seconds) {
  const date = new Date(seconds * 1000);
  const time = date.toISOString().slice(11, 19);
  if (seconds > 3650 * DAY) return `${date.toISOString().slice(0, 10)} ${time}`;
  return seconds >= DAY ? `day ${Math.floor(seconds / DAY) + 1}, ${time}` : time;
}

export class Timeline {
  constructor(stepSeconds, onPast, onLive) {
    Object.assign(this, { stepSeconds, onPast, stretches: [], following: true, playing: false });
    this.slider = document.getElementById("slider");
    this.output = document.getElementById("slider-clock");
    this.live = document.getElementById("live");
    this.play = document.getElementById("play");
    this.speed = document.getElementById("speed");
    this.slider.addEventListener("input", () => {
      this.pause();
      this.go(Number(this.slider.value));
    });
    this.live.addEventListener("click", () => {
      this.pause();
      this.follow(true);
      this.show(this.newest ?? Number(this.slider.max));
      onLive();
    });
    this.play.addEventListener("click", () => (this.playing ? this.pause() : this.start()));
  }

  // Goes to a step of the past.
  go(step) {
    this.follow(false);
    this.show(step);
    return this.onPast(this.nearest(step));
  }

  // What is stored.
  cover(stretches) {
    if (!stretches.length) return;
    this.stretches = stretches;
    this.slider.min = stretches[0].first;
    const { last } = stretches[stretches.length - 1];
    this.extend(last);
    document.getElementById("time").hidden = false;
    if (this.following) this.show(this.newest ?? last);
  }

  // The newest step; what is stored may go on after it, where a recording is replayed again.
  reach(step) {
    this.newest = step;
    this.extend(step);
    if (this.following) this.show(step);
  }

  extend(step) {
    if (step > Number(this.slider.max) || document.getElementById("time").hidden) this.slider.max = step;
  }

  // The stored step that is nearest to one: of old days only some are.
  nearest(step) {
    let best = step;
    let far = Infinity;
    for (const { first, last, every } of this.stretches) {
      const spacing = every ?? 1;
      const inside = first + Math.round((Math.min(Math.max(step, first), last) - first) / spacing) * spacing;
      if (Math.abs(inside - step) < far) [best, far] = [inside, Math.abs(inside - step)];
    }
    // Steps after the last that was asked about may be stored by now.
    const { last } = this.stretches[this.stretches.length - 1] ?? { last: -Infinity };
    return step > last ? step : best;
  }

  // The stored step after one; null at the end.
  next(step) {
    for (const { first, last, every } of this.stretches) {
      if (first > step) return first;
      if (step < last) return Math.min(last, step + (every ?? 1));
    }
    return step < Number(this.slider.max) ? step + 1 : null;
  }

  // Step after step, as fast as chosen and as estimates come.
  async start() {
    this.playing = true;
    this.pressed();
    if (this.following || Number(this.slider.value) >= Number(this.slider.max)) this.slider.value = this.slider.min;
    for (let step = this.nearest(Number(this.slider.value)); step !== null && this.playing; step = this.next(step)) {
      const due = performance.now() + 1000 / Number(this.speed.value);
      await this.go(step);
      await new Promise((on) => setTimeout(on, Math.max(0, due - performance.now())));
    }
    this.pause();
  }

  pause() {
    this.playing = false;
    this.pressed();
  }

  pressed() {
    this.play.setAttribute("aria-pressed", String(this.playing));
    this.play.setAttribute("aria-label", this.playing ? "Pause" : "Play the past");
    this.play.textContent = this.playing ? "❚❚" : "▶";
  }

  show(step) {
    this.slider.value = step;
    const text = clock((step + 1) * this.stepSeconds);
    this.output.textContent = text;
    this.slider.setAttribute("aria-valuetext", text);
  }

  follow(following) {
    this.following = following;
    this.live.setAttribute("aria-pressed", String(following));
  }
}

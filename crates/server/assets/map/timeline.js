// Time: clocks of recordings, and the slider over what is stored.

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
    this.stepSeconds = stepSeconds;
    this.slider = document.getElementById("slider");
    this.output = document.getElementById("slider-clock");
    this.live = document.getElementById("live");
    this.following = true;
    this.slider.addEventListener("input", () => {
      this.follow(false);
      this.show(Number(this.slider.value));
      onPast(Number(this.slider.value));
    });
    this.live.addEventListener("click", () => {
      this.follow(true);
      this.show(this.newest ?? Number(this.slider.max));
      onLive();
    });
  }

  // What is stored.
  cover(stretches) {
    if (!stretches.length) return;
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

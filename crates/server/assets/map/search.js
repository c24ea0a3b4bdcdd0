// Finds a link by a part of its name.

const MOST = 20;

export class Search {
  constructor(links, onChoose) {
    this.names = links.map((link) => link.link);
    this.lower = this.names.map((name) => name.toLowerCase());
    this.onChoose = onChoose;
    this.input = document.getElementById("find");
    this.list = document.getElementById("found");
    this.active = -1;
    this.input.addEventListener("input", () => this.suggest());
    this.input.addEventListener("keydown", (event) => this.key(event));
    this.input.addEventListener("blur", () => setTimeout(() => this.close(), 150));
    this.list.addEventListener("pointerdown", (event) => event.preventDefault());
    this.list.addEventListener("click", ({ target }) => target.dataset.at && this.take(Number(target.dataset.at)));
  }

  // Names that begin with the text before those that have it elsewhere.
  matches(text) {
    const wanted = text.trim().toLowerCase();
    if (!wanted) return [];
    const [first, rest] = [[], []];
    for (let at = 0; at < this.lower.length && first.length < MOST; at++) {
      const where = this.lower[at].indexOf(wanted);
      if (where === 0) first.push(at);
      else if (where > 0 && rest.length < MOST) rest.push(at);
    }
    const exact = this.lower.indexOf(wanted);
    const all = [...first, ...rest].filter((at) => at !== exact);
    return (exact < 0 ? all : [exact, ...all]).slice(0, MOST);
  }

  suggest() {
    const found = this.matches(this.input.value);
    this.active = found.length ? 0 : -1;
    this.list.replaceChildren(...found.map((at, place) => {
      const item = document.createElement("li");
      Object.assign(item, { id: `found-${place}`, role: "option", textContent: this.names[at] });
      item.dataset.at = at;
      return item;
    }));
    if (!found.length && this.input.value.trim()) {
      const item = document.createElement("li");
      Object.assign(item, { role: "option", textContent: "no link has this name", ariaDisabled: "true" });
      this.list.append(item);
    }
    this.list.hidden = !this.input.value.trim();
    this.input.setAttribute("aria-expanded", String(!this.list.hidden));
    this.mark();
  }

  mark() {
    [...this.list.children].forEach((item, place) => item.setAttribute("aria-selected", String(place === this.active)));
    const active = this.list.children[this.active];
    if (active && this.active >= 0) {
      this.input.setAttribute("aria-activedescendant", active.id);
      active.scrollIntoView({ block: "nearest" });
    } else this.input.removeAttribute("aria-activedescendant");
  }

  key(event) {
    const count = this.list.querySelectorAll("[data-at]").length;
    if (event.key === "Escape") return this.close();
    if (event.key === "Enter") {
      const at = this.list.children[this.active]?.dataset.at ?? this.matches(this.input.value)[0];
      if (at !== undefined) this.take(Number(at));
    } else if (event.key === "ArrowDown" && count) this.active = (this.active + 1) % count;
    else if (event.key === "ArrowUp" && count) this.active = (this.active - 1 + count) % count;
    else return;
    event.preventDefault();
    this.mark();
  }

  take(at) {
    this.input.value = this.names[at];
    this.close();
    this.onChoose(at, true);
  }

  close() {
    this.list.hidden = true;
    this.active = -1;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }
}

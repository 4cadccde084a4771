// The run's test problems: one at random, or a page of them to choose from.
import { byId, count, make } from "./dom.js";
import { ServerError, getJson } from "./wire.js";

const LIMIT = 10;

export class ProblemPicker {
  constructor(total, { onPick }) {
    Object.assign(this, { total, onPick, offset: 0, last: -1 });
    if (!total) return;
    byId("pick").hidden = false;
    byId("random").addEventListener("click", () => this.random());
    byId("browse").addEventListener("click", () => this.toggle());
    this.list = make("ul", { class: "list" });
    this.where = make("span", { class: "where", role: "status" });
    this.back = make("button", { type: "button", onclick: () => this.turn(-LIMIT) }, "← previous");
    this.forward = make("button", { type: "button", onclick: () => this.turn(LIMIT) }, "next →");
    byId("problems").append(this.list, make("div", { class: "pager" }, this.back, this.forward, this.where));
  }

  async random() {
    let at = Math.floor(Math.random() * this.total);
    if (at === this.last) at = (at + 1) % this.total;
    this.last = at;
    const page = await this.read(at, 1);
    if (page) this.onPick(page.problems[0]);
  }

  toggle(open = byId("problems").hidden) {
    byId("problems").hidden = !open;
    byId("browse").setAttribute("aria-expanded", String(open));
    if (open && !this.list.hasChildNodes()) this.turn(0);
  }

  async turn(by) {
    const page = await this.read(Math.max(0, this.offset + by), LIMIT);
    if (!page) return;
    this.offset = page.offset;
    this.list.replaceChildren(...page.problems.map((problem) => make("li", {}, make("button", { type: "button", onclick: () => this.choose(problem) },
      make("span", { class: "snippet" }, problem.question), problem.level !== null && make("small", {}, `level ${problem.level}`)))));
    const last = page.offset + page.problems.length;
    this.where.textContent = `${count(page.offset + 1)} to ${count(last)} of ${count(page.total)}`;
    this.back.disabled = page.offset === 0;
    this.forward.disabled = last >= page.total;
  }

  choose(problem) {
    this.toggle(false);
    this.onPick(problem);
  }

  async read(offset, limit) {
    byId("trouble").replaceChildren();
    try {
      return await getJson(`arena/problems?offset=${offset}&limit=${limit}`);
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      byId("trouble").append(make("strong", {}, error.message), make("p", {}, error.remedy));
      return null;
    }
  }
}

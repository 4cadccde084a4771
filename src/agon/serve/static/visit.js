// What was played in this visit: the matches, and how often who was right.
import { byId, count, make } from "./dom.js";
import { cellOf, isCascade, markOf, playersOf, wordsOf } from "./record.js";

// The oldest match leaves the list for one more; what it counted for stays in the score.
const MOST_KEPT = 200;

export class Visit {
  constructor({ onShow }) {
    this.onShow = onShow;
    this.records = [];
    this.score = new Map();
  }

  add(record) {
    this.records.unshift(record);
    this.records.length = Math.min(this.records.length, MOST_KEPT);
  }

  remove(record) {
    this.records = this.records.filter((one) => one !== record);
  }

  // Only matches that a program judged count, each under who played it.
  count(record) {
    const cell = cellOf(record);
    const [draft, final] = cell.includes("-") ? cell.split("-") : [null, cell];
    if (final !== "right" && final !== "wrong") return;
    const row = this.score.get(record.model) ?? { checked: 0, draftRight: 0, answerRight: 0, turnedRight: 0, turnedWrong: 0 };
    row.checked += 1;
    row.draftRight += draft === "right";
    row.answerRight += final === "right";
    row.turnedRight += cell === "wrong-right";
    row.turnedWrong += cell === "right-wrong";
    this.score.set(record.model, row);
  }

  draw(shown) {
    byId("visit").hidden = this.records.length === 0;
    const hadFocus = byId("history").contains(document.activeElement);
    byId("history").replaceChildren(...this.records.map((record) => make("li", {}, make("button", { type: "button", "aria-current": record === shown && "true", onclick: () => this.onShow(record) },
      make("span", { class: `mark cell ${cellOf(record)}`, title: wordsOf(record) }, markOf(record)),
      make("span", { class: "snippet" }, record.problem.replace(/\s+/g, " ").slice(0, 120)),
      make("small", {}, `${record.number}: ${playersOf(record.model)}`)))));
    if (hadFocus) byId("history").querySelector('[aria-current="true"]')?.focus();
    byId("score").replaceChildren(...scoreTable(this.score));
  }
}

function scoreTable(score) {
  if (!score.size) return [make("p", { class: "hint" }, "Nothing yet: only matches whose answers a program could check count.")];
  const head = ["who plays", "checked", "draft right", "answer right", "turned right", "turned wrong"];
  return [make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Score of this visit" }, make("table", {},
    make("thead", {}, make("tr", {}, ...head.map((name, at) => make("th", { scope: "col", class: at > 0 && "num" }, name)))),
    make("tbody", {}, ...[...score].map(([model, row]) => make("tr", {}, make("th", { scope: "row" }, playersOf(model)),
      ...cellsOf(model, row).map((value) => make("td", { class: "num" }, value)))))))];
}

function cellsOf(model, row) {
  const isPair = isCascade(model);
  const ofPair = (value) => (isPair ? count(value) : "–");
  return [count(row.checked), ofPair(row.draftRight), count(row.answerRight), ofPair(row.turnedRight), ofPair(row.turnedWrong)];
}

// The match that is looked at: its problem, how it stands, its stages side by side.
import { count, make, plural, seconds } from "./dom.js";
import { cellOf, finalOf, isCascade, isChoice, markOf, nameOf, numTokens, playersOf, titleOf, wordsOf } from "./record.js";
import { CrossingView, StageView } from "./stage.js";
import { readCountdown } from "./text.js";

export class MatchView {
  constructor(host, { onReuse, onStop }) {
    Object.assign(this, { host, onReuse, onStop });
    this.record = null;
  }

  show(record, form) {
    this.record = record;
    const slots = form === "countdown" ? readCountdown(record.problem) : null;
    this.stages = record.stages.map((stage) => new StageView(stage, { model: record.model, slots }));
    this.crossing = isCascade(record.model) ? new CrossingView(record.model) : null;
    this.mark = make("span", { class: "mark" });
    this.standing = make("span", { class: "standing" });
    this.figures = make("span", { class: "figures" });
    // On a phone the form, with its own button, is out of sight.
    this.stop = make("button", { type: "button", class: "small", onclick: () => { this.host.focus({ preventScroll: true }); this.onStop(); } }, "Stop this match");
    this.again = make("button", { type: "button", class: "small", onclick: () => this.onReuse(record) }, "Ask this again");
    this.error = make("div", { class: "error-box", role: "alert" });
    const columns = this.crossing ? [this.stages[0].node, this.crossing.node, this.stages.at(-1).node] : this.stages.map((stage) => stage.node);
    this.title = document.createTextNode("");
    this.host.replaceChildren(
      make("h2", {}, this.title, make("small", {}, `${playersOf(record.model)}, seed ${record.request.seed}`)),
      make("div", { class: "problem" }, make("div", { class: "text", tabindex: "0", role: "group", "aria-label": "Problem of this match" }, record.problem), ...aboutProblem(record, slots)),
      this.outcome = make("p", { class: "outcome" }, this.mark, this.standing, this.figures, this.stop, this.again),
      this.error,
      this.board = make("div", { class: `stages of-${columns.length}` }, ...columns));
    this.update();
  }

  update() {
    const { record } = this;
    if (!record) return;
    const now = performance.now();
    this.title.data = record.state === "refused" ? "Not played" : `Match ${count(record.number)}`;
    record.stages.forEach((stage, at) => this.stages[at].update(stage, now));
    this.crossing?.update(record.summary);
    this.mark.className = `mark cell ${cellOf(record)}`;
    this.mark.textContent = markOf(record);
    this.stop.hidden = record.state !== "running";
    this.again.hidden = record.state === "running";
    const took = record.seconds ?? (now - record.begun) / 1000;
    this.standing.textContent = standingOf(record);
    this.board.hidden = this.outcome.hidden = record.state === "refused";
    this.figures.textContent = record.state === "running" ? seconds(took) : `${plural(numTokens(record), "token")} in all, ${seconds(took)}`;
    if (record.error && !this.error.hasChildNodes()) this.error.append(make("strong", {}, record.error.message), make("p", {}, record.error.remedy));
  }
}

function aboutProblem(record, slots) {
  const told = [];
  if (slots) told.push(make("p", { class: "hint" }, `a = ${slots.a}, b = ${slots.b}, c = ${slots.c}; two moves that come to ${slots.target}`));
  if (record.gold) told.push(make("p", { class: "hint" }, slots ? "one right answer " : "right answer ", make("code", {}, record.gold)));
  return told;
}

export function standingOf(record) {
  if (record.state === "running") {
    const [running, another] = record.stages.filter((stage) => stage.state === "running");
    if (another) return "The drafts are being written";
    if (running) return `${titleOf(record.model, running)} by ${nameOf(running.adapter)} is being written`;
    return record.stages[0].state === "waiting" ? "Waiting for a free place on the server" : "The answers are being checked";
  }
  if (record.state !== "finished") return { stopped: "Stopped by you", failed: "Failed", refused: "Not played" }[record.state];
  const final = finalOf(record);
  if (cellOf(record) !== "unchecked") return wordsOf(record);
  return final.answer === null ? "No answer was read" : "Answered; nobody said what is right";
}

// What stands in the place of a match before the first: what will be seen there.
export function showBefore(host, model) {
  const [first, last] = [model.stages[0], model.stages.at(-1)];
  const box = (kind, title, by, text) => make("section", { class: `stage ${kind}`, "data-state": "waiting" },
    make("h3", {}, kind === "crossing" && make("span", { class: "arrow", "aria-hidden": "true" }), title, by && make("small", {}, `by ${by}`)), make("p", { class: "before" }, text));
  if (model.stages.length === 1) {
    const alone = box("drafter", "Answer", nameOf(first.adapter), "One player alone, to compare with: it reads the problem and answers.");
    host.replaceChildren(make("h2", {}, "What you will see"), make("div", { class: "stages of-1" }, alone));
    return;
  }
  if (isChoice(model)) {
    const boxes = model.stages.map((stage, at) => box("drafter", titleOf(model, { ...stage, at }), nameOf(stage.adapter), "It reads the problem alone. Of the drafts that have an answer, the one that is likelier, token for token, becomes the answer."));
    host.replaceChildren(make("h2", {}, "What you will see"), make("div", { class: `stages of-${boxes.length}` }, ...boxes));
    return;
  }
  const draft = box("drafter", "Draft", nameOf(first.adapter), "One player reads the problem and writes a first solution: reasoning, a short account of it, an answer.");
  host.replaceChildren(make("h2", {}, "What you will see"), make("div", { class: "stages of-3" }, draft,
    box("crossing", "What crosses", null, model.shows_answer ? "The account crosses, its answer left in, as this pair was trained." : "A program takes the answer out of the account. The reasoning stays behind, too."),
    box("challenger", "Challenge", nameOf(last.adapter), "The other reads the problem and what crossed, solves it anew, and has the last word. A program judges both, if it can.")));
}

export const sentenceOf = (record) => `Match ${count(record.number)}: ${standingOf(record)}.`;

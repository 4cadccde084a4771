// The three boxes of a match: draft, what crosses, challenge.
import { count, grow, make, plural, seconds } from "./dom.js";
import { inNumbers, splitReasoning, splitWithheld } from "./text.js";
import { isChoice, nameOf, titleOf } from "./record.js";

// Longer reasoning folds when the visible text begins, unless somebody opened or closed it.
const FOLDS_FROM = 1500;
const VERDICTS = { correct: "right", wrong: "wrong", unparsed: "no answer read", truncated: "cut off", timeout: "check ran out of time", error: "check failed" };

export class StageView {
  constructor(stage, { model, slots }) {
    const title = titleOf(model, stage);
    this.isOneOfSeveral = isChoice(model);
    this.slots = slots;
    this.touched = false;
    this.badge = make("span", { class: "badge", hidden: true });
    this.facts = make("p", { class: "facts" });
    this.reasoning = document.createTextNode("");
    this.visible = document.createTextNode("");
    this.fold = make("details", { class: "reasoning", open: true, hidden: true },
      make("summary", { onclick: () => { this.touched = true; } }, "Reasoning", title === "Draft" && make("small", {}, " stays behind")),
      make("div", { class: "thought" }, this.reasoning));
    this.text = make("div", { class: "text", tabindex: "0", role: "group", "aria-label": `${title} by ${nameOf(stage.adapter)}` }, this.fold, make("div", {}, this.visible));
    this.answer = make("p", { class: "answer", hidden: true });
    this.node = make("section", { class: `stage ${stage.role}` },
      make("h3", {}, title, this.by = make("small", {}, `by ${nameOf(stage.adapter)}`), this.badge), this.facts, this.text, this.answer);
  }

  update(stage, now) {
    const atEnd = this.text.scrollHeight - this.text.scrollTop - this.text.clientHeight < 40;
    const { reasoning, visible, isOpen } = splitReasoning(stage.text);
    this.node.dataset.state = stage.state;
    this.fold.hidden = reasoning === "" && !isOpen;
    grow(this.reasoning, reasoning);
    grow(this.visible, visible);
    if (!this.touched && visible && reasoning.length > FOLDS_FROM) this.fold.open = false;
    if (stage.state === "running" && atEnd) this.text.scrollTop = this.text.scrollHeight;
    this.facts.textContent = factsOf(stage, now);
    this.showVerdict(stage);
  }

  showVerdict(stage) {
    if (!stage.isJudged || !this.answer.hidden) return;
    this.answer.hidden = false;
    if (this.isOneOfSeveral && stage.isAnswer) this.by.append(": the answer");
    const numbers = stage.answer === null ? null : inNumbers(stage.answer, this.slots);
    this.answer.append(...(stage.answer === null ? ["no answer read"] : ["answer ", make("code", {}, stage.answer)]),
      ...(numbers ? [" ", make("span", { class: "soft" }, numbers)] : []),
      ...(stage.verdict !== null && stage.reason ? [make("small", {}, stage.reason)] : []));
    this.badge.hidden = false;
    this.badge.textContent = stage.verdict === null ? "not checked" : VERDICTS[stage.verdict] ?? stage.verdict;
    this.badge.classList.add(stage.verdict ?? "unchecked");
  }
}

function factsOf(stage, now) {
  if (stage.state === "waiting") return stage.role === "drafter" ? "waits for a free place" : "waits for the draft";
  if (stage.state === "running") return `writing for ${seconds((now - stage.begun) / 1000)}`;
  if (stage.state === "left") return "not begun";
  if (stage.state === "cut") return "broken off here";
  const { tokens, prompt_tokens: read, seconds: took, finish_reason: reason, is_estimated: isEstimated } = stage.facts;
  const cut = reason === "length" ? ", cut off at the cap on tokens" : "";
  return `${isEstimated ? "about " : ""}${plural(tokens, "token")} in ${seconds(took)}${cut}; prompt of ${count(read)}`;
}

export class CrossingView {
  constructor(model) {
    this.badges = make("span", { class: "badges" });
    this.facts = make("p", { class: "facts" }, "Once the draft has ended, a program takes its answer out.");
    this.text = make("div", { class: "text", tabindex: "0", role: "group", "aria-label": "Summary of the draft, as the challenger reads it" });
    this.shownAnswer = model.shows_answer;
    if (this.shownAnswer) this.facts.textContent = "This pair was trained with the draft's answer left in.";
    this.node = make("section", { class: "stage crossing", "data-state": "waiting" },
      make("h3", {}, make("span", { class: "arrow", "aria-hidden": "true" }), "What crosses", this.badges), this.facts, this.text);
  }

  update(summary) {
    if (!summary || this.node.dataset.state === "ended") return;
    this.node.dataset.state = "ended";
    const parts = splitWithheld(summary.summary);
    this.text.append(...parts.map((part) => (part === null ? make("mark", { class: "withheld" }, "withheld") : part)));
    this.facts.textContent = crossedWords(summary, this.shownAnswer);
    if (summary.is_empty) this.badges.append(make("span", { class: "badge alert" }, "stand-in"));
    if (summary.num_withheld) this.badges.append(make("span", { class: "badge alert" }, `${count(summary.num_withheld)} withheld`));
    if (summary.has_leak && !this.shownAnswer) this.badges.append(make("span", { class: "badge error" }, "answer still readable"));
    if (summary.is_cut) this.badges.append(make("span", { class: "badge" }, "front cut off"));
  }
}

function crossedWords(summary, showsAnswer) {
  const taken = summary.num_withheld ? `Taken out: ${plural(summary.num_withheld, "place")} that told its answer.` : "";
  if (summary.is_empty) return taken ? `${taken} Nothing else was left to read: this stands in for it.` : "The draft left nothing to read: this stands in for it.";
  if (showsAnswer) return "All that the challenger reads of the draft, its answer left in.";
  if (taken) return `All that the challenger reads of the draft. ${taken}`;
  return "All that the challenger reads of the draft. Nothing had to be taken out.";
}

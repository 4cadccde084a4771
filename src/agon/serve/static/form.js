// What is asked: the problem, who plays, and the settings of one request.
import { byId, make } from "./dom.js";
import { isCascade, isChoice, nameOf, playersOf } from "./record.js";

const EXAMPLE = "12 7 5 = 24";

export class AskForm {
  constructor(info, { onStart, onModel }) {
    this.info = info;
    this.onStart = onStart;
    this.picked = null;
    [this.problem, this.gold, this.seed, this.temperature, this.maxDraft, this.maxFinal] = ["problem", "gold", "seed", "temperature", "max-draft", "max-final"].map(byId);
    this.offerPlayers(onModel);
    this.explain();
    byId("ask").addEventListener("submit", (event) => { event.preventDefault(); this.onStart(); });
    // The browser cannot point at a field that is folded away.
    byId("more").addEventListener("invalid", () => { byId("more").open = true; }, true);
    this.problem.addEventListener("keydown", (event) => this.onKey(event));
    this.problem.addEventListener("input", () => this.forgetPicked());
  }

  get model() {
    return this.info.models[Number(document.querySelector('input[name="model"]:checked').value)];
  }

  offerPlayers(onModel) {
    byId("players").replaceChildren(...this.info.models.map((model, at) => make("label", { class: "choice" },
      make("input", { type: "radio", name: "model", value: at, checked: at === 0, onchange: () => { this.showCaps(); onModel(this.model); } }),
      make("span", {}, playersOf(model), make("small", {}, model.id)))));
  }

  explain() {
    const { info } = this;
    const isCountdown = info.form === "countdown";
    byId("problem-hint").append(...(isCountdown
      ? ["Three numbers from 1 to 15 and a target from 1 to 32, such as ", make("code", {}, EXAMPLE), ": two moves of +, − and × that reach it."]
      : [info.check === "never" ? "In words. No program can check the answer to a typed problem of this task." : info.method ? "In words, as the run's problems are." : "In words."]));
    if (isCountdown) Object.assign(this.problem, { rows: 1, value: EXAMPLE });
    byId("gold-field").hidden = info.check !== "gold";
    byId("start-key").textContent = isCountdown ? "Enter" : "Ctrl Enter";
    this.temperature.placeholder = `${info.temperature}, as the server is set`;
    this.showCaps();
  }

  showCaps() {
    const hasDraft = isCascade(this.model);
    this.maxDraft.disabled = !hasDraft;
    this.maxDraft.placeholder = hasDraft ? this.info.max_draft_tokens : isChoice(this.model) ? "those of the answer" : "no draft before it";
    this.maxFinal.placeholder = !hasDraft ? this.info.max_draft_tokens : this.info.max_tokens;
  }

  onKey(event) {
    if (event.key !== "Enter" || event.isComposing || event.shiftKey) return;
    if (this.info.form !== "countdown" && !event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    byId("ask").requestSubmit();
  }

  // A right answer that came with a picked problem is not that of what is typed over it.
  forgetPicked() {
    if (this.picked && this.problem.value !== this.picked.question) {
      if (this.gold.value === (this.picked.gold ?? "")) this.gold.value = "";
      this.picked = null;
    }
  }

  pick(problem) {
    this.picked = problem;
    this.problem.value = problem.question;
    this.gold.value = this.info.check === "gold" ? problem.gold ?? "" : "";
  }

  reuse(record) {
    this.picked = record.gold ? { question: record.problem, gold: record.gold } : null;
    this.problem.value = record.problem;
    this.gold.value = this.info.check === "gold" ? record.gold ?? "" : "";
    this.seed.value = record.request.seed;
    byId("more").open = true;
    this.problem.focus();
  }

  // What newRecord wants: a seed is drawn here, so that it can be shown and used again.
  asked() {
    const model = this.model;
    const problem = this.problem.value;
    const request = { model: model.id, messages: [{ role: "user", content: problem }], stream: true, include_draft: true, seed: this.seed.value === "" ? Math.floor(Math.random() * 2 ** 31) : Number(this.seed.value) };
    const typed = this.gold.value.trim();
    if (this.info.check === "gold" && typed !== "") request.gold = typed;
    for (const [name, input] of [["temperature", this.temperature], ["max_draft_tokens", this.maxDraft], ["max_tokens", this.maxFinal]]) {
      if (input.value !== "" && !input.disabled) request[name] = Number(input.value);
    }
    return { problem, gold: request.gold ?? (this.info.check === "always" ? this.picked?.gold : null) ?? null, model, request };
  }
}

export const aboutOf = (info) => {
  const trained = info.method ? `Trained by the method ${info.method}${info.task ? ` on ${info.task}` : ""}` : "Not trained as a pair";
  const pair = info.models.find(isCascade);
  const [drafter, challenger] = pair ? pair.stages.map((stage) => nameOf(stage.adapter)) : [];
  return `${trained}. ${drafter === challenger ? "It drafts, and then answers with its own summary before it." : "One drafts; the other reads what is left of the draft and has the last word."}`;
};

// Put the page together: one match runs at a time, any match of the visit can be looked at meanwhile.
import { byId, make } from "./dom.js";
import { AskForm, aboutOf } from "./form.js";
import { MatchView, sentenceOf, showBefore } from "./match.js";
import { ProblemPicker } from "./problems.js";
import { apply, end, newRecord } from "./record.js";
import { Visit } from "./visit.js";
import { ServerError, getJson, play } from "./wire.js";

const CLOCK_MS = 100;
const LEAST_SEEN = 400;

class Page {
  constructor(info) {
    this.info = info;
    this.running = null;
    this.number = 0;
    this.isDrawing = false;
    this.view = new MatchView(byId("match"), { onReuse: (record) => this.form.reuse(record), onStop: () => this.stop() });
    this.visit = new Visit({ onShow: (record) => this.show(record, true) });
    this.form = new AskForm(info, { onStart: () => this.start(), onModel: (model) => { if (!this.view.record) showBefore(byId("match"), model); } });
    this.picker = new ProblemPicker(info.num_problems, { onPick: (problem) => this.form.pick(problem) });
    byId("stop").addEventListener("click", () => this.stop());
    document.addEventListener("keydown", (event) => { if (event.key === "Escape" && this.running) { event.preventDefault(); this.stop(); } });
    byId("name").textContent = info.name;
    byId("about").textContent = aboutOf(info);
    byId("foot").textContent = `Served by agon ${info.version}. Nothing is loaded from elsewhere.`;
    document.title = `${info.name}: agon arena`;
    showBefore(byId("match"), this.form.model);
  }

  async start() {
    if (this.running) {
      say("A match is being played: stop it first, or wait for its end.");
      return;
    }
    const record = newRecord(this.number + 1, this.form.asked());
    this.number += 1;
    this.running = { record, abort: new AbortController() };
    this.visit.add(record);
    this.show(record, false);
    this.switchButtons(true);
    const clock = setInterval(() => this.draw(), CLOCK_MS);
    await this.play(record, this.running.abort.signal);
    clearInterval(clock);
    this.running = null;
    this.switchButtons(false);
    this.visit.count(record);
    this.view.update();
    this.visit.draw(this.view.record);
    say(sentenceOf(record));
  }

  async play(record, signal) {
    let standing = null;
    try {
      for await (const chunk of play(record.request, signal)) {
        apply(record, chunk);
        this.draw();
        if (chunk.agon && sentenceOf(record) !== standing) say((standing = sentenceOf(record)));
      }
      end(record, "finished");
    } catch (error) {
      if (error.name === "AbortError") end(record, "stopped");
      else this.fail(record, error);
    }
  }

  fail(record, error) {
    if (!(error instanceof ServerError)) console.error(error);
    // What was refused at once was no match.
    const state = record.stages.every((stage) => stage.begun === null) ? "refused" : "failed";
    end(record, state, error instanceof ServerError ? error : new ServerError(`The page could not read the answer: ${error.message}`, "Reload the page; if it comes again, it is a fault of agon."));
    if (state === "refused") {
      this.visit.remove(record);
      this.number -= 1;
    }
    if (this.view.record !== record) this.show(record, false);
  }

  stop() {
    this.running?.abort.abort();
  }

  show(record, moves) {
    this.view.show(record, this.info.form);
    this.visit.draw(record);
    const host = byId("match");
    const box = host.getBoundingClientRect();
    if (moves) host.focus({ preventScroll: true });
    // Where the stages stand below each other, as on a phone, all of the screen is needed.
    const isNarrow = matchMedia("(max-width: 57.99rem)").matches;
    if (box.top < 0 || box.top > (isNarrow ? 0 : innerHeight - LEAST_SEEN)) host.scrollIntoView({ block: "start" });
  }

  // Pieces come faster than a screen is drawn.
  draw() {
    if (this.isDrawing) return;
    this.isDrawing = true;
    requestAnimationFrame(() => {
      this.isDrawing = false;
      this.view.update();
    });
  }

  // A button that is switched off loses the focus: it goes to the one that can be pressed.
  switchButtons(isRunning) {
    const [start, stop] = [byId("start"), byId("stop")];
    const [on, off] = isRunning ? [stop, start] : [start, stop];
    const hadFocus = document.activeElement === off;
    on.disabled = false;
    off.disabled = true;
    if (hadFocus) on.focus({ preventScroll: true });
  }
}

function say(sentence) {
  byId("said").textContent = sentence;
}

function tellTrouble(host, error) {
  host.replaceChildren(make("div", { class: "error-box", role: "alert" }, make("strong", {}, error.message), make("p", {}, error.remedy)));
}

try {
  const [info, listed] = await Promise.all([getJson("arena/info"), getJson("v1/models")]);
  new Page({ ...info, models: listed.data.map(({ id, agon }) => ({ id, ...agon })) });
} catch (error) {
  if (!(error instanceof ServerError)) throw error;
  byId("name").textContent = "agon arena";
  byId("ask").hidden = true;
  tellTrouble(byId("match"), error);
}

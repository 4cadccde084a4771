// One match of this visit as plain data, and how chunks of the stream change it. The page draws what stands here.

const CELLS = {
  "wrong-right": ["✗→✓", "draft wrong → challenge right"],
  "right-wrong": ["✓→✗", "draft right → challenge wrong"],
  "right-right": ["✓→✓", "draft right → challenge right"],
  "wrong-wrong": ["✗→✗", "draft wrong → challenge wrong"],
  right: ["✓", "answer right"],
  wrong: ["✗", "answer wrong"],
  unjudged: ["?", "the check failed"],
  unchecked: ["–", "not checked"],
  running: ["…", "being played"],
  stopped: ["■", "stopped"],
  failed: ["!", "failed"],
  refused: ["!", "not played"],
};

// Who plays: a cascade, several drafts of which one becomes the answer, or one player alone.
export const isCascade = (model) => model.stages.at(-1).role === "challenger";
export const isChoice = (model) => model.stages.length > 1 && !isCascade(model);

export function newRecord(number, { problem, gold, model, request }) {
  return {
    number, problem, gold, model, request,
    state: "running", error: null, summary: null, seconds: null, begun: performance.now(),
    stages: model.stages.map((stage, at) => ({ ...stage, at, isAnswer: false, text: "", state: "waiting", begun: null, facts: null, verdict: null, answer: null, reason: "" })),
  };
}

export function apply(record, chunk) {
  const final = record.stages.at(-1);
  // Drafts that are written side by side come by events; what the end repeats of them has been seen.
  for (const { delta } of isChoice(record.model) ? [] : chunk.choices ?? []) {
    if (delta?.reasoning_content && record.stages.length > 1) begin(record.stages[0]).text += delta.reasoning_content;
    if (delta?.content) begin(final).text += delta.content;
  }
  if (chunk.agon) applyEvent(record, chunk.agon);
}

function applyEvent(record, event) {
  const stage = record.stages[event.stage];
  if (event.event === "stage_started") begin(stage);
  else if (event.event === "grew") begin(stage).text += event.text;
  else if (event.event === "crossed") record.summary = event;
  else if (event.event === "stage_ended") Object.assign(begin(stage), { state: "ended", facts: event });
  else if (event.event === "finished") judge(record, event);
}

function begin(stage) {
  if (stage.state === "waiting") Object.assign(stage, { state: "running", begun: performance.now() });
  return stage;
}

function judge(record, event) {
  for (const [at, told] of (event.stages ?? []).entries()) {
    Object.assign(record.stages[at], { verdict: told.verdict ?? null, answer: told.answer ?? null, reason: told.reason ?? "", isJudged: true, isAnswer: at === event.final_stage });
  }
}

export function end(record, state, error = null) {
  Object.assign(record, { state, error, seconds: (performance.now() - record.begun) / 1000 });
  for (const stage of record.stages) {
    if (stage.state === "running") stage.state = "cut";
    else if (stage.state === "waiting") stage.state = "left";
  }
}

// The cell of a match, as the reports sort them.
export function cellOf(record) {
  if (record.state !== "finished") return record.state;
  const judged = isChoice(record.model) ? [finalOf(record)] : record.stages;
  const verdicts = judged.map((stage) => stage.verdict);
  if (verdicts.includes("error")) return "unjudged";
  if (verdicts.includes(null)) return "unchecked";
  return verdicts.map((verdict) => (verdict === "correct" ? "right" : "wrong")).join("-");
}

export const finalOf = (record) => record.stages.find((stage) => stage.isAnswer) ?? record.stages.at(-1);

export const markOf = (record) => CELLS[cellOf(record)][0];
export const wordsOf = (record) => CELLS[cellOf(record)][1];

export const numTokens = (record) => record.stages.reduce((sum, stage) => sum + (stage.facts?.tokens ?? 0), 0);

export function nameOf(adapter) {
  return adapter ?? "base";
}

export function titleOf(model, { role, at }) {
  if (model.stages.length === 1) return "Answer";
  if (isChoice(model)) return `Draft ${at + 1}`;
  return role === "drafter" ? "Draft" : "Challenge";
}

export function playersOf(model) {
  const names = model.stages.map((stage) => nameOf(stage.adapter));
  if (isChoice(model)) return `likelier of ${names.join(" and ")}`;
  return names.length === 1 ? `${names[0]} alone` : names.join(" → ");
}

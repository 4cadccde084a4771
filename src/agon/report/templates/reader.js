// The reader: pick an evaluation, filter its matches, read draft, summary and challenge side by side.
(() => {
  const host = document.getElementById("reader-app");
  if (!host) return;
  const { shelves, cells, start } = readData("reader-data");
  const state = { shelf: 0, cell: "", outcome: "", search: "", found: [], at: 0 };
  const marks = { "wrong-right": "✗→✓", "right-wrong": "✓→✗", "right-right": "✓→✓", "wrong-wrong": "✗→✗", right: "✓", wrong: "✗", unjudged: "?" };
  const count = (number) => number.toLocaleString("en");

  const select = (name, onchange) => make("select", { "aria-label": name, onchange });
  const shelfSelect = select("evaluation", () => { state.shelf = Number(shelfSelect.value); fillFilters(); update(true); });
  const cellSelect = select("cell", () => { state.cell = cellSelect.value; update(); });
  const outcomeSelect = select("verdict of any stage", () => { state.outcome = outcomeSelect.value; update(); });
  const search = make("input", { type: "search", placeholder: "search questions, answers, texts", "aria-label": "search", oninput: () => { state.search = search.value.toLowerCase(); update(); } });
  const list = make("ul", { class: "list", role: "listbox", tabindex: "0", "aria-label": "matches" });
  const where = make("span", { class: "where", role: "status" });
  const pager = make("div", { class: "pager" }, make("button", { type: "button", onclick: () => go(state.at - 1) }, "← previous"), make("button", { type: "button", onclick: () => go(state.at + 1) }, "next →"), where);
  const pane = make("div", {});
  host.append(make("div", { class: "controls" }, shelfSelect, cellSelect, outcomeSelect, search), make("div", { class: "reader" }, list, make("div", {}, pager, pane)));

  shelves.forEach((shelf, index) => shelfSelect.append(make("option", { value: index }, `${shelf.title} (${count(shelf.total)})`)));

  function fillFilters() {
    const { matches, counts } = shelves[state.shelf];
    const shown = new Map();
    for (const match of matches) shown.set(match.cell, (shown.get(match.cell) ?? 0) + 1);
    const option = (value, text) => make("option", { value }, text);
    cellSelect.replaceChildren(option("", "every cell"), ...Object.keys(counts).map((cell) => {
      const here = shown.get(cell) ?? 0;
      return option(cell, `${cells[cell]} (${here === counts[cell] ? count(here) : `${count(here)} of ${count(counts[cell])}`})`);
    }));
    const outcomes = new Set(matches.flatMap((match) => attemptsOf(match).map((attempt) => attempt.outcome)));
    outcomeSelect.replaceChildren(option("", "every verdict"), ...[...outcomes].sort().map((outcome) => option(outcome, outcome)));
    // A filter that the new evaluation does not know is dropped.
    cellSelect.value = state.cell in counts ? state.cell : "";
    outcomeSelect.value = outcomes.has(state.outcome) ? state.outcome : "";
    state.cell = cellSelect.value;
    state.outcome = outcomeSelect.value;
  }

  const attemptsOf = (match) => match.challenge ? [...match.drafts, match.challenge] : match.drafts;

  function textOf(match) {
    match.haystack ??= [match.question, match.gold, match.id, ...attemptsOf(match).flatMap((attempt) => [attempt.text, attempt.answer ?? ""]), ...match.summaries.map((summary) => summary.text)].join("\n").toLowerCase();
    return match.haystack;
  }

  function update(keepProblem = false) {
    const before = state.found[state.at];
    state.found = shelves[state.shelf].matches.filter((match) =>
      (!state.cell || match.cell === state.cell)
      && (!state.outcome || attemptsOf(match).some((attempt) => attempt.outcome === state.outcome))
      && (!state.search || textOf(match).includes(state.search)));
    list.replaceChildren(...state.found.map((match, at) => make("li", { role: "option", id: `match-${at}`, onclick: () => go(at) },
      make("span", { class: `mark cell ${match.cell}`, title: cells[match.cell] }, marks[match.cell]), make("span", { class: "snippet" }, match.question.replace(/\s+/g, " ").slice(0, 120)))));
    if (!state.found.length) list.append(make("li", { class: "empty" }, "no match fits these filters"));
    const same = before ? state.found.findIndex((match) => match === before || (keepProblem && match.id === before.id && match.sample === before.sample)) : -1;
    go(Math.max(0, same), false);
  }

  function go(at, scroll = true) {
    if (!state.found.length) {
      list.removeAttribute("aria-activedescendant");
      where.textContent = "0 matches";
      pane.replaceChildren();
      return;
    }
    list.querySelector('[aria-selected="true"]')?.removeAttribute("aria-selected");
    state.at = Math.min(state.found.length - 1, Math.max(0, at));
    const item = list.children[state.at];
    item.setAttribute("aria-selected", "true");
    list.setAttribute("aria-activedescendant", item.id);
    // scrollIntoView would move the page as well; only the list is to move.
    if (scroll || item.offsetTop < list.scrollTop || item.offsetTop > list.scrollTop + list.clientHeight) {
      const below = item.offsetTop + item.offsetHeight - list.clientHeight;
      list.scrollTop = Math.max(Math.min(list.scrollTop, item.offsetTop), below);
    }
    where.textContent = `${count(state.at + 1)} of ${count(state.found.length)}`;
    showMatch(state.found[state.at]);
  }

  function showMatch(match) {
    const level = match.level === null ? "" : `, level ${match.level}`;
    const problem = make("div", { class: "problem" },
      make("div", { class: "text" }, match.question),
      make("div", {}, "gold ", make("code", {}, match.gold), make("small", {}, `problem ${match.id}${level}, sample ${match.sample}: ${cells[match.cell]}`)));
    const several = match.drafts.length > 1;
    const drafts = make("div", {}, ...match.drafts.map((draft, at) =>
      stage(`draft ${several ? at + 1 + " " : ""}by ${draft.adapter}${!match.challenge && several && at === match.chosen ? " (final)" : ""}`, draft)));
    const columns = [drafts];
    if (match.summaries.length) columns.push(make("div", {}, ...match.summaries.map((summary, at) => summaryBox(summary, several ? at + 1 : null))));
    if (match.challenge) columns.push(make("div", {}, stage(`challenge by ${match.challenge.adapter}`, match.challenge)));
    pane.replaceChildren(problem, make("div", { class: "stages" }, ...columns), prompts());
  }

  function stage(title, attempt) {
    const answer = attempt.answer === null ? ["no answer read"] : ["answer ", make("code", {}, attempt.answer)];
    const facts = `${count(attempt.tokens)} tokens, after a prompt of ${count(attempt.prompt_tokens)}${attempt.truncated ? ", cut at the cap" : ""}, format ${attempt.format}`;
    return make("section", { class: "stage" },
      make("h4", {}, title, make("span", { class: `badge ${attempt.outcome}` }, attempt.outcome)),
      make("p", { class: "facts" }, ...answer, attempt.reason ? ` (${attempt.reason})` : null, make("br"), facts),
      make("div", { class: "text", tabindex: "0" }, attempt.text || "(empty)"));
  }

  function summaryBox(summary, number) {
    const badge = (shown, kind, text) => shown ? make("span", { class: `badge ${kind}` }, text) : null;
    return make("section", { class: "stage" },
      make("h4", {}, `summary ${number ?? ""} as the challenger saw it`, badge(summary.leak, "alert", "answer still shown"), badge(summary.empty, "alert", "stand-in"), badge(summary.cut, "", "front cut")),
      make("p", { class: "facts" }, `${count(summary.withheld)} withheld, ${count(summary.tokens)} tokens`),
      make("div", { class: "text", tabindex: "0" }, summary.text));
  }

  function prompts() {
    const shown = Object.entries(shelves[state.shelf].prompts);
    return make("details", {}, make("summary", {}, "Prompts of this evaluation's first match, as the model read them"),
      ...shown.map(([role, text]) => make("section", { class: "stage" }, make("h4", {}, role), make("div", { class: "text", tabindex: "0" }, text))));
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (typing) {
      if (event.key === "Escape") list.focus();
      return;
    }
    const step = { ArrowRight: 1, j: 1, ArrowLeft: -1, k: -1 }[event.key] ?? (event.target === list ? { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity }[event.key] : undefined);
    if (event.key === "/") { event.preventDefault(); search.focus(); host.scrollIntoView({ block: "start" }); }
    else if (step !== undefined) { event.preventDefault(); go(state.at + step); }
  });

  // Begin where the page says, else where there is an exchange to read: the last evaluation, rows run from the weakest control up.
  const exchanges = shelves.findLastIndex((shelf) => shelf.kind === "evaluation" && shelf.matches.some((match) => match.challenge));
  state.shelf = start ?? Math.max(0, exchanges);
  shelfSelect.value = state.shelf;
  fillFilters();
  update();
})();

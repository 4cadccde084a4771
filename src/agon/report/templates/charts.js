// Training curves: one SVG a chart, colour and marker by run (or by arm, with a band over its seeds), dash by role.
(() => {
  const host = document.getElementById("charts");
  if (!host) return;
  const data = readData("curves-data");
  const dash = (index) => ["", "5 4", "1.5 3"][index] ?? "";
  // styles.get(index) is the style of a run that is shown; a hidden run gives its style back.
  const styles = new Map();
  const lastStyle = new Map();
  let smoothing = 1;
  const redraws = [];
  const redraw = () => redraws.forEach((draw) => draw());

  function setShown(index, wanted) {
    if (!wanted) { styles.delete(index); return; }
    if (styles.has(index)) return;
    const taken = new Set(styles.values());
    let style = lastStyle.get(index) ?? 0;
    if (taken.has(style)) for (style = 0; taken.has(style);) style += 1;
    styles.set(index, style);
    lastStyle.set(index, style);
  }

  function controls() {
    const bar = document.getElementById("curve-controls");
    const buttons = data.runs.map((run, index) => {
      const button = make("button", { type: "button", onclick: () => { setShown(index, !styles.has(index)); refresh(); } });
      return button;
    });
    const refresh = () => {
      buttons.forEach((button, index) => {
        const on = styles.has(index);
        button.setAttribute("aria-pressed", String(on));
        button.replaceChildren(on ? swatch(styles.get(index)) : "", data.runs[index].name);
      });
      redraw();
    };
    const all = (wanted) => () => { data.runs.forEach((run, index) => setShown(index, wanted && run.shown !== false)); refresh(); };
    data.runs.forEach((run, index) => setShown(index, run.shown !== false));
    if (data.runs.some((run) => run.shown === false)) {
      const groups = new Map();
      data.runs.forEach((run, index) => groups.set(run.group, [...(groups.get(run.group) ?? []), buttons[index]]));
      for (const [group, members] of groups) bar.append(make("div", { class: "legend", role: "group", "aria-label": group }, make("span", { class: "group-name" }, group), make("span", {}, ...members)));
      bar.append(make("button", { type: "button", onclick: all(false) }, "hide all"), make("button", { type: "button", onclick: all(true) }, "as at first"));
    } else bar.append(...buttons);
    const longest = Math.max(...data.runs.map((run) => run.steps.length));
    const options = [1, 3, 5, 9, 15, 25].filter((width) => width === 1 || width * 3 <= longest);
    const select = make("select", { id: "smoothing" }, ...options.map((width) => make("option", { value: width }, width === 1 ? "none" : `mean of ${width} points`)));
    smoothing = data.runs.some((run) => run.bands) ? 1 : options.findLast((width) => width * 12 <= longest) ?? 1;
    select.value = smoothing;
    select.addEventListener("change", () => { smoothing = Number(select.value); redraw(); });
    bar.append(make("label", { for: "smoothing" }, "smoothing"), select);
    bar.append(make("label", {}, make("span", { class: "stroke-key" }), "draft"), make("label", {}, make("span", { class: "stroke-key dashed" }), "challenge"));
    refresh();
  }

  // Mean over a centred window of the numbers that exist.
  function smooth(values, chart) {
    if (smoothing <= 1 || chart.unit === "per step") return values;
    const half = (smoothing - 1) / 2;
    return values.map((value, at) => {
      if (value === null) return null;
      const near = values.slice(Math.max(0, at - half), at + half + 1).filter((item) => item !== null);
      return near.reduce((sum, item) => sum + item, 0) / near.length;
    });
  }

  function linesOf(chart) {
    return data.runs.flatMap((run, index) => !styles.has(index) ? [] : chart.lines.flatMap((line, order) => {
      const raw = run.series[line.metric];
      const band = run.bands?.[line.metric];
      return raw ? [{ run, style: styles.get(index), order, name: line.name, raw, values: smooth(raw, chart), low: band && smooth(band.low, chart), high: band && smooth(band.high, chart) }] : [];
    }));
  }

  function rangeOf(chart, lines) {
    const numbers = lines.flatMap((line) => [...line.values, ...(line.low ?? []), ...(line.high ?? [])]).filter((value) => value !== null);
    let low = Math.min(...numbers);
    let high = Math.max(...numbers);
    // From zero where that costs no more than half of the height.
    if (low > 0 && low < high / 2) low = 0;
    // Means of equal numbers differ by rounding: that is no range to draw.
    if (high - low <= 1e-9 * Math.max(Math.abs(low), Math.abs(high))) { low -= Math.abs(low) * 0.05 || 0.5; high += Math.abs(high) * 0.05 || 0.5; }
    const room = (high - low) * 0.05;
    const top = chart.unit === "share" ? Math.min(1.02, high + room) : high + room;
    return [low === 0 ? 0 : low - room, top];
  }

  function path(steps, values, x, y) {
    let out = "";
    let pen = false;
    values.forEach((value, at) => {
      if (value === null) { pen = false; return; }
      out += `${pen ? "L" : "M"}${x(steps[at]).toFixed(1)} ${y(value).toFixed(1)}`;
      // A lone point between gaps is drawn as a dot.
      if (!pen && (values[at + 1] ?? null) === null) out += "h0.01";
      pen = true;
    });
    return out;
  }

  // One closed area for every stretch in which the band exists.
  function area({ run: { steps }, low, high }, x, y) {
    const areas = [];
    let at = 0;
    while (at < low.length) {
      const from = at;
      while (at < low.length && low[at] !== null) at += 1;
      const inside = Array.from({ length: at - from }, (_, offset) => from + offset);
      const corner = (values) => (index) => `${x(steps[index]).toFixed(1)} ${y(values[index]).toFixed(1)}`;
      if (inside.length) areas.push(`M${[...inside.map(corner(high)), ...inside.reverse().map(corner(low))].join("L")}z`);
      at += 1;
    }
    return areas.join("");
  }

  // A few markers a line, in another place for every line, so that they can be told apart without colour.
  function marksOn(line, number, x, y) {
    const every = Math.max(1, Math.ceil(line.values.length / 4));
    const offset = Math.floor((number * every * 0.37) % every);
    return line.values.flatMap((value, at) => value === null || at % every !== offset ? [] : [mark(line.style, { x: x(line.run.steps[at]), y: y(value), size: 3, hollow: line.order > 0 })]);
  }

  function addChart(chart) {
    const figure = make("figure", { class: "chart" });
    const canvas = svg("svg", { role: "img", tabindex: "0", height: "190" });
    const tip = make("div", { class: "tip", role: "status", hidden: true });
    figure.append(
      make("figcaption", {}, chart.title, make("span", {}, chart.unit + (chart.lines.length > 1 ? ": " + chart.lines.map((line, order) => `${line.name} ${["—", "- -", "···"][order]}`).join(", ") : "") + ", by step")),
      canvas, tip, make("details", {}, make("summary", {}, "What is this?"), chart.about),
    );
    host.append(figure);
    let drawn = null;
    let cursor = null;

    const draw = () => {
      tip.hidden = true;
      canvas.replaceChildren();
      const width = Math.max(200, canvas.clientWidth || 340);
      const [left, right, top, bottom, height] = [44, 8, 10, 22, 190];
      canvas.setAttribute("viewBox", `0 0 ${width} ${height}`);
      const lines = linesOf(chart);
      drawn = null;
      if (!lines.length) { canvas.append(svg("text", { x: width / 2, y: 95, "text-anchor": "middle" }, "nothing with this metric is shown")); return; }
      const [low, high] = rangeOf(chart, lines);
      const first = Math.min(...lines.map((line) => line.run.steps[0]));
      const last = Math.max(...lines.map((line) => line.run.steps.at(-1)), first + 1);
      const x = (step) => left + ((step - first) / (last - first)) * (width - left - right);
      const y = (value) => top + (1 - (value - low) / (high - low)) * (height - top - bottom);
      for (const value of ticks(low, high, 4)) {
        canvas.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }));
        canvas.append(svg("text", { x: left - 5, y: y(value) + 4, "text-anchor": "end" }, show(value)));
      }
      for (const value of ticks(first, last, width > 420 ? 6 : 4).filter(Number.isInteger)) {
        canvas.append(svg("text", { x: x(value), y: height - 6, "text-anchor": "middle" }, value));
      }
      for (const line of lines) if (line.low) canvas.append(svg("path", { class: "band", style: `fill: ${colourOf(line.style)}`, d: area(line, x, y) }));
      lines.forEach((line, number) => {
        const style = `stroke: ${colourOf(line.style)}`;
        if (line.values !== line.raw && lines.length <= 6 && !line.low) canvas.append(svg("path", { class: "raw", style, d: path(line.run.steps, line.raw.map((value) => value === null ? null : Math.min(high, Math.max(low, value))), x, y) }));
        canvas.append(svg("path", { class: "curve", style, "stroke-dasharray": dash(line.order), "stroke-linecap": dash(line.order) ? "butt" : "round", d: path(line.run.steps, line.values, x, y) }));
        if (data.runs.length > 1) canvas.append(...marksOn(line, number, x, y));
      });
      canvas.setAttribute("aria-label", `${chart.title} by step. ` + lines.map((line) => `${line.run.name} ${line.name}: from ${show(line.values.find((value) => value !== null))} to ${show(line.values.findLast((value) => value !== null))}`).join(". "));
      const cross = svg("line", { class: "cross", y1: top, y2: height - bottom, visibility: "hidden" });
      canvas.append(cross);
      drawn = { lines, x, first, last, left, right, width, cross };
    };

    const point = (step) => {
      if (!drawn) return;
      const { lines, x, width, cross } = drawn;
      cursor = step;
      cross.setAttribute("x1", x(step));
      cross.setAttribute("x2", x(step));
      cross.setAttribute("visibility", "visible");
      const body = make("tbody", {}, make("tr", {}, make("td", { colspan: 3 }, `step ${step}`)));
      for (const line of lines) {
        const at = nearest(line.run.steps, step);
        const spread = line.low && line.low[at] !== null ? ` [${show(line.low[at])}, ${show(line.high[at])}]` : "";
        body.append(make("tr", {}, make("td", {}, swatch(line.style), line.run.name), make("td", {}, chart.lines.length > 1 ? line.name : ""), make("td", { class: "num" }, show(line.values[at]) + spread)));
      }
      tip.replaceChildren(make("table", {}, body));
      tip.hidden = false;
      placeTip(tip, { canvas, figure, share: x(step) / width });
    };
    const leave = () => { tip.hidden = true; drawn?.cross.setAttribute("visibility", "hidden"); };

    canvas.addEventListener("pointermove", (event) => {
      if (!drawn) return;
      const box = canvas.getBoundingClientRect();
      const at = ((event.clientX - box.left) / box.width) * drawn.width;
      const share = (at - drawn.left) / (drawn.width - drawn.left - drawn.right);
      const wanted = drawn.first + Math.min(1, Math.max(0, share)) * (drawn.last - drawn.first);
      const steps = drawn.lines[0].run.steps;
      point(steps[nearest(steps, wanted)]);
    });
    canvas.addEventListener("pointerleave", leave);
    canvas.addEventListener("blur", leave);
    canvas.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
      if (!move || !drawn) return;
      event.preventDefault();
      event.stopPropagation();
      const steps = drawn.lines[0].run.steps;
      const at = cursor === null ? steps.length - 1 : nearest(steps, cursor) + move;
      point(steps[Math.min(steps.length - 1, Math.max(0, at))]);
    });
    redraws.push(draw);
    draw();
  }

  function nearest(steps, wanted) {
    let best = 0;
    steps.forEach((step, at) => { if (Math.abs(step - wanted) < Math.abs(steps[best] - wanted)) best = at; });
    return best;
  }

  controls();
  data.charts.forEach(addChart);
  onResize(redraw);
})();

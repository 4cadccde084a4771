// Training curves: one SVG a chart, colour by run, dash by role.
(() => {
  const host = document.getElementById("charts");
  if (!host) return;
  const data = readData("curves-data");
  const hidden = new Set();
  let smoothing = 1;
  // Eight chosen colours, then as many more as there are runs, far apart on the wheel.
  const colour = (index) => index < 8 ? `var(--s${index})` : `hsl(${(index * 137.5) % 360} 60% 50%)`;
  const dash = (index) => ["", "5 4", "1.5 3"][index] ?? "";
  const redraws = [];
  const redraw = () => redraws.forEach((draw) => draw());

  const svg = (tag, attributes, text) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    return node;
  };

  function controls() {
    const bar = document.getElementById("curve-controls");
    data.runs.forEach((run, index) => {
      const button = make("button", { type: "button", "aria-pressed": "true" }, make("span", { class: "swatch", style: `background: ${colour(index)}` }), run.name);
      button.addEventListener("click", () => {
        if (!hidden.delete(index)) hidden.add(index);
        button.setAttribute("aria-pressed", String(!hidden.has(index)));
        redraw();
      });
      bar.append(button);
    });
    const longest = Math.max(...data.runs.map((run) => run.steps.length));
    const options = [1, 3, 5, 9, 15, 25].filter((width) => width === 1 || width * 3 <= longest);
    const select = make("select", { id: "smoothing" }, ...options.map((width) => make("option", { value: width }, width === 1 ? "none" : `mean of ${width} points`)));
    smoothing = options.findLast((width) => width * 12 <= longest) ?? 1;
    select.value = smoothing;
    select.addEventListener("change", () => { smoothing = Number(select.value); redraw(); });
    bar.append(make("label", { for: "smoothing" }, "smoothing"), select);
    bar.append(make("label", {}, make("span", { class: "stroke-key" }), "draft"), make("label", {}, make("span", { class: "stroke-key dashed" }), "challenge"));
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

  function ticks(low, high, count) {
    const rough = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
    const first = Math.ceil(low / step - 1e-9);
    const last = Math.floor(high / step + 1e-9);
    return Array.from({ length: Math.max(0, last - first + 1) }, (_, at) => (first + at) * step);
  }

  const show = (value) => {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    if (size >= 10000) return `${(value / 1000).toPrecision(3)}k`;
    if (size !== 0 && size < 0.001) return value.toExponential(1);
    return String(Number(value.toPrecision(size >= 100 ? 4 : 3)));
  };

  function linesOf(chart) {
    return data.runs.flatMap((run, index) => hidden.has(index) ? [] : chart.lines.flatMap((line, order) => {
      const raw = run.series[line.metric];
      return raw ? [{ run, index, order, name: line.name, raw, values: smooth(raw, chart) }] : [];
    }));
  }

  function rangeOf(chart, lines) {
    const numbers = lines.flatMap((line) => line.values).filter((value) => value !== null);
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

  function addChart(chart) {
    const figure = make("figure", { class: "chart" });
    const canvas = svg("svg", { role: "img", tabindex: "0", height: "190" });
    const tip = make("div", { class: "tip", role: "status", hidden: true });
    figure.append(
      make("figcaption", {}, chart.title, make("span", {}, chart.unit + (chart.lines.length > 1 ? ": " + chart.lines.map((line, order) => `${line.name} ${["—", "- -", "···"][order]}`).join(", ") : ""))),
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
      if (!lines.length) { canvas.append(svg("text", { x: width / 2, y: 95, "text-anchor": "middle" }, "no run with this metric is shown")); return; }
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
      for (const line of lines) {
        const style = `stroke: ${colour(line.index)}`;
        if (line.values !== line.raw && lines.length <= 6) canvas.append(svg("path", { class: "raw", style, d: path(line.run.steps, line.raw.map((value) => value === null ? null : Math.min(high, Math.max(low, value))), x, y) }));
        canvas.append(svg("path", { class: "curve", style, "stroke-dasharray": dash(line.order), "stroke-linecap": dash(line.order) ? "butt" : "round", d: path(line.run.steps, line.values, x, y) }));
      }
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
        body.append(make("tr", {}, make("td", {}, make("span", { class: "stroke-key" + (line.order ? " dashed" : ""), style: `color: ${colour(line.index)}` }), line.run.name), make("td", {}, chart.lines.length > 1 ? line.name : ""), make("td", { class: "num" }, show(line.values[at]))));
      }
      tip.replaceChildren(make("table", {}, body));
      tip.hidden = false;
      const [inner, outer] = [canvas.getBoundingClientRect(), figure.getBoundingClientRect()];
      const place = (x(step) / width) * inner.width + inner.left - outer.left;
      tip.style.top = `${inner.top - outer.top + 8}px`;
      const onRight = place < figure.clientWidth / 2;
      tip.style.left = onRight ? `${place + 10}px` : "auto";
      tip.style.right = onRight ? "auto" : `${figure.clientWidth - place + 10}px`;
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
  let pending = 0;
  addEventListener("resize", () => { cancelAnimationFrame(pending); pending = requestAnimationFrame(redraw); });
})();

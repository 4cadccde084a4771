// Accuracy against tokens: one point a row, shape and colour by group, a line through the front.
(() => {
  const host = document.getElementById("frontier-plot");
  if (!host) return;
  const { groups, points } = readData("frontier-data");
  const state = { cost: "total", every: false };
  const bar = document.getElementById("frontier-controls");
  const figure = make("figure", { class: "chart" });
  const unit = make("span", {});
  const canvas = svg("svg", { role: "img", tabindex: "0" });
  const tip = make("div", { class: "tip", role: "status", hidden: true });
  figure.append(make("figcaption", {}, "Accuracy against tokens", unit), canvas, tip);
  host.append(figure);
  let drawn = [];
  let cursor = -1;

  const frontOf = (point) => state.cost === "total" ? point.front : point.front_all;

  function controls() {
    const cost = make("select", { id: "frontier-cost", onchange: () => { state.cost = cost.value; draw(); } },
      make("option", { value: "total" }, "generated tokens"), make("option", { value: "all" }, "generated and read tokens"));
    const rows = make("select", { id: "frontier-rows", onchange: () => { state.every = rows.value === "every"; draw(); } },
      make("option", { value: "main" }, "arms as trained, base, front"), make("option", { value: "every" }, `every row (${points.length})`));
    bar.append(make("label", { for: "frontier-cost" }, "cost"), cost, make("label", { for: "frontier-rows" }, "rows"), rows);
    groups.forEach((group, index) => bar.append(make("label", {}, swatch(index), group)));
  }

  // Names stand where they cover no point and no other name; a name without room is left to the tip.
  function placeNames(placed, lines, { left, width, height }) {
    const taken = [...lines, ...placed.map(({ x, y }) => ({ left: x - 5, right: x + 5, top: y - 5, bottom: y + 5 }))];
    const clash = (box) => box.left < left || box.right > width || box.top < 2 || box.bottom > height || taken.some((other) => box.left < other.right && other.left < box.right && box.top < other.bottom && other.top < box.bottom);
    const rank = ({ point }) => 2 * frontOf(point) + point.key + point.accuracy;
    const wanted = placed.filter(({ point }) => frontOf(point) || point.key || !state.every).sort((a, b) => rank(b) - rank(a));
    for (const { point, x, y } of wanted) {
      const node = svg("text", { class: frontOf(point) ? "name front" : "name" }, point.short);
      canvas.append(node);
      const long = node.getComputedTextLength();
      const near = [[x + 8, y + 4], [x - 8 - long, y + 4], [x - long / 2, y - 9], [x - long / 2, y + 17], [x + 6, y - 6], [x + 6, y + 14], [x - 6 - long, y - 6], [x - 6 - long, y + 14]];
      const far = (width < 500 ? [] : [22, 36]).flatMap((r) => [[x + r, y + 4], [x - r - long, y + 4], [x + r, y - r], [x - r - long, y - r], [x + r, y + r], [x - r - long, y + r]]);
      const free = [...near, ...far].map(([left, base]) => ({ left, base, right: left + long, top: base - 10, bottom: base + 3 })).find((box) => !clash(box));
      if (!free) { node.remove(); continue; }
      node.setAttribute("x", free.left);
      node.setAttribute("y", free.base);
      taken.push(free);
      const edge = Math.min(free.right, Math.max(free.left, x));
      // A name that stands apart is tied to its point.
      if (Math.hypot(edge - x, free.base - 4 - y) > 18) canvas.append(svg("line", { class: "tie", x1: x, y1: y, x2: edge, y2: free.base - 4 }));
    }
  }

  // What the front's line covers, step by step: along, then up.
  function frontBoxes(front, x, y, end) {
    return front.flatMap((point, at) => {
      const [from, level, next] = [x(point[state.cost]), y(point.accuracy), front[at + 1]];
      const to = next ? x(next[state.cost]) : end;
      return [{ left: from, right: to, top: level - 2, bottom: level + 2 }, ...(next ? [{ left: to - 2, right: to + 2, top: y(next.accuracy), bottom: level }] : [])];
    });
  }

  function draw() {
    tip.hidden = true;
    canvas.replaceChildren();
    const width = Math.max(260, canvas.clientWidth || 340);
    const height = Math.max(320, Math.min(520, width * 0.6));
    const [left, right, top, bottom] = [44, 14, 14, 40];
    canvas.setAttribute("viewBox", `0 0 ${width} ${height}`);
    canvas.setAttribute("height", height);
    unit.textContent = `pass@1 (share), against ${state.cost === "total" ? "generated" : "generated and read"} tokens a problem (mean)`;
    const shown = points.filter((point) => state.every || point.main || frontOf(point)).sort((a, b) => a[state.cost] - b[state.cost]);
    const costs = shown.map((point) => point[state.cost]);
    const gains = shown.map((point) => point.accuracy);
    const room = (low, high) => [low - ((high - low) * 0.06 || 0.5), high + ((high - low) * 0.06 || 0.5)];
    const [first, last] = room(Math.min(...costs), Math.max(...costs));
    const [low, high] = room(Math.min(...gains), Math.max(...gains));
    const x = (value) => left + ((value - first) / (last - first)) * (width - left - right);
    const y = (value) => top + (1 - (value - low) / (high - low)) * (height - top - bottom);
    for (const value of ticks(low, high, 5)) {
      canvas.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }), svg("text", { x: left - 5, y: y(value) + 4, "text-anchor": "end" }, show(value)));
    }
    for (const value of ticks(first, last, width > 500 ? 8 : 4)) {
      canvas.append(svg("line", { class: "grid", x1: x(value), x2: x(value), y1: top, y2: height - bottom }), svg("text", { x: x(value), y: height - bottom + 15, "text-anchor": "middle" }, show(value)));
    }
    canvas.append(svg("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, `${state.cost === "total" ? "generated" : "generated and read"} tokens a problem`));
    const front = shown.filter(frontOf);
    const steps = front.map((point, at) => `${at ? `H${x(point[state.cost]).toFixed(1)}V` : `M${x(point[state.cost]).toFixed(1)} `}${y(point.accuracy).toFixed(1)}`).join("");
    if (front.length) canvas.append(svg("path", { class: "front-line", d: `${steps}H${width - right}` }));
    drawn = shown.map((point) => ({ point, x: x(point[state.cost]), y: y(point.accuracy) }));
    for (const item of drawn) canvas.append(mark(item.point.group, { x: item.x, y: item.y, size: 4.5, hollow: item.point.rival }));
    placeNames(drawn, frontBoxes(front, x, y, width - right), { left, width: width - 2, height: height - bottom });
    const ring = svg("g", { visibility: "hidden" });
    canvas.append(ring);
    Object.assign(drawn, { ring, y });
    drawn.width = width;
    canvas.setAttribute("aria-label", "Accuracy against tokens. On the front: " + front.map((point) => `${point.name}, ${show(point.accuracy)} at ${show(point[state.cost])} tokens`).join(". "));
    cursor = -1;
  }

  function pointAt(at) {
    cursor = at;
    const { point, x, y } = drawn[at];
    drawn.ring.replaceChildren(svg("line", { class: "ring", x1: x, x2: x, y1: drawn.y(point.low), y2: drawn.y(point.high) }), svg("circle", { class: "ring", cx: x, cy: y, r: 9 }));
    drawn.ring.setAttribute("visibility", "visible");
    const line = (name, value) => make("tr", {}, make("td", {}, name), make("td", { class: "num" }, value));
    const heading = make("tr", {}, make("td", { colspan: 2 }, swatch(point.group), point.name, point.rival ? " (rival)" : ""));
    const beaten = frontOf(point) ? "on the front" : state.cost === "total" && point.beaten_by ? `beaten by ${point.beaten_by}` : "not on the front";
    tip.replaceChildren(make("table", {}, make("tbody", {}, heading, line("pass@1", `${show(point.accuracy)} [${show(point.low)}, ${show(point.high)}]`), line("generated", show(point.total)), line("generated and read", show(point.all)), make("tr", {}, make("td", { colspan: 2 }, beaten)))));
    tip.hidden = false;
    placeTip(tip, { canvas, figure, share: x / drawn.width });
  }
  const leave = () => { tip.hidden = true; drawn.ring?.setAttribute("visibility", "hidden"); };

  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const scale = drawn.width / box.width;
    const [px, py] = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
    const far = drawn.map((item) => (item.x - px) ** 2 + (item.y - py) ** 2);
    const best = far.indexOf(Math.min(...far));
    if (far[best] < 900) pointAt(best);
    else leave();
  });
  canvas.addEventListener("pointerleave", leave);
  canvas.addEventListener("blur", leave);
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (!move || !drawn.length) return;
    event.preventDefault();
    event.stopPropagation();
    pointAt(Math.min(drawn.length - 1, Math.max(0, cursor + move)));
  });

  if (!points.length) return;
  controls();
  draw();
  onResize(draw);
})();

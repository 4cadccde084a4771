"use strict";

// Everything shown goes through textContent: model text is never read as HTML.
function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

function readData(id) {
  return JSON.parse(document.getElementById(id).textContent);
}

function svg(tag, attributes, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

// Round numbers from low to high, about `count` of them.
function ticks(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, at) => (first + at) * step);
}

function show(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size >= 10000) return `${(value / 1000).toPrecision(3)}k`;
  if (size !== 0 && size < 0.001) return value.toExponential(1);
  return String(Number(value.toPrecision(size >= 100 ? 4 : 3)));
}

// Eight colours and eight shapes. The first eight styles differ in both; later ones repeat a colour with another shape.
const NUM_STYLES = 8;
const colourOf = (style) => `var(--s${style % NUM_STYLES})`;
const SHAPES = [
  (r) => `M${-r} 0a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`,
  (r) => `M${-r} ${-r}h${2 * r}v${2 * r}h${-2 * r}z`,
  (r) => `M0 ${-1.3 * r}L${1.2 * r} ${r}H${-1.2 * r}z`,
  (r) => `M0 ${-1.4 * r}L${1.4 * r} 0L0 ${1.4 * r}L${-1.4 * r} 0z`,
  (r) => `M0 ${1.3 * r}L${1.2 * r} ${-r}H${-1.2 * r}z`,
  (r) => `M${-r} ${-r}L${r} ${r}M${-r} ${r}L${r} ${-r}`,
  (r) => `M${-1.3 * r} 0H${1.3 * r}M0 ${-1.3 * r}V${1.3 * r}`,
  (r) => `M${-1.3 * r} ${-0.6 * r}H${1.3 * r}V${0.6 * r}H${-1.3 * r}z`,
];
const shapeOf = (style) => SHAPES[(style + Math.floor(style / NUM_STYLES)) % SHAPES.length];

function mark(style, { x = 0, y = 0, size = 3.5, hollow = false } = {}) {
  return svg("path", { class: hollow ? "mark-shape hollow" : "mark-shape", d: shapeOf(style)(size), transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`, style: `color: ${colourOf(style)}` });
}

function swatch(style) {
  const box = svg("svg", { class: "swatch", viewBox: "-6 -6 12 12", "aria-hidden": "true" });
  box.append(mark(style, { size: 4 }));
  return box;
}

// Put a chart's tip beside the place that is pointed at (`share` of the canvas' width); below the chart where there is no room.
function placeTip(tip, { canvas, figure, share }) {
  const [inner, outer] = [canvas.getBoundingClientRect(), figure.getBoundingClientRect()];
  if (figure.clientWidth < 480 && tip.offsetWidth > figure.clientWidth / 2 - 20) {
    Object.assign(tip.style, { top: `${inner.bottom - outer.top + 4}px`, left: "8px", right: "auto" });
    return;
  }
  const place = share * inner.width + inner.left - outer.left;
  tip.style.top = `${inner.top - outer.top + 8}px`;
  const onRight = place < figure.clientWidth / 2;
  tip.style.left = onRight ? `${place + 10}px` : "auto";
  tip.style.right = onRight ? "auto" : `${figure.clientWidth - place + 10}px`;
}

function onResize(redraw) {
  let pending = 0;
  addEventListener("resize", () => { cancelAnimationFrame(pending); pending = requestAnimationFrame(redraw); });
}

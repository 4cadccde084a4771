// Everything shown goes in as text nodes: text of a model is never read as HTML.
export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export const byId = (id) => document.getElementById(id);

export const count = (number) => number.toLocaleString("en");

export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

export function seconds(value) {
  if (value >= 99.95) return `${Math.floor(value / 60)} min ${Math.floor(value % 60)} s`;
  return `${value.toFixed(value < 9.95 ? 2 : 1)} s`;
}

// Only what is new is added, so that a long text is not laid out anew with every piece, and a selection in it stays.
export function grow(node, text) {
  if (text.length === node.data.length) return;
  if (text.startsWith(node.data)) node.appendData(text.slice(node.data.length));
  else node.data = text;
}

// Click (or Enter on) a column's heading sorts by it.
for (const table of document.querySelectorAll("table.sortable")) {
  const rows = [...table.tHead.rows];
  // With two heading rows, the columns under the colspan come from the second.
  const headings = rows.flatMap((row) => [...row.cells]).filter((cell) => !cell.hasAttribute("data-unsorted"));
  for (const heading of headings) {
    const button = make("button", { type: "button" });
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => sortBy(table, heading));
  }
}

function columnOf(table, heading) {
  // Where a heading stands on the page says which column it is, whatever the spans.
  const left = heading.getBoundingClientRect().left;
  const visible = [...table.tBodies[0].rows].find((row) => !row.hidden);
  const cells = [...(visible?.cells ?? [])];
  return cells.findIndex((cell) => Math.abs(cell.getBoundingClientRect().left - left) < 2);
}

function sortBy(table, heading) {
  const column = heading.dataset.column ?? columnOf(table, heading);
  heading.dataset.column = column;
  const down = heading.getAttribute("aria-sort") !== "descending";
  for (const other of table.tHead.querySelectorAll("th")) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  const valueOf = (row) => {
    const cell = row.cells[column];
    const text = cell.dataset.value ?? cell.textContent.trim().replace(/^\[/, "").replaceAll(",", "");
    const number = Number.parseFloat(text);
    return Number.isNaN(number) ? text : number;
  };
  const compare = (a, b) => {
    const [x, y] = [valueOf(a), valueOf(b)];
    if (typeof x === "number" && typeof y === "number") return x - y;
    if (typeof x !== typeof y) return typeof x === "number" ? 1 : -1;
    return x.localeCompare(y);
  };
  const sign = down ? -1 : 1;
  table.tBodies[0].append(...[...table.tBodies[0].rows].sort((a, b) => sign * compare(a, b)));
}

// The table's filter: every arm as it was trained, every protocol, or one of them.
(() => {
  const select = document.getElementById("table-filter");
  const table = document.getElementById("matrix-table");
  if (!select || !table) return;
  const apply = () => {
    for (const row of table.tBodies[0].rows) {
      row.hidden = select.value === "headline" ? row.dataset.headline !== "yes" : select.value !== "" && row.dataset.protocol !== select.value;
    }
  };
  select.addEventListener("change", apply);
  apply();
})();

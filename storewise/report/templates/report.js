"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = Array.from(table.tHead.rows[0].cells);
  const body = table.tBodies[0];
  const value = (row, column) => {
    const cell = row.cells[column];
    const text = cell.dataset.order ?? cell.textContent;
    const number = text === "-inf" ? -Infinity : Number(text);
    return text !== "" && !Number.isNaN(number) ? number : text;
  };
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a === b ? 0 : a < b ? -1 : 1;
    return String(a).localeCompare(String(b), "en", { numeric: true });
  };
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = Array.from(body.rows);
      rows.sort((a, b) => compare(value(a, column), value(b, column)) * (down ? -1 : 1));
      body.append(...rows);
      document.getElementById("sorted").textContent =
        `${table.caption.textContent}: sorted by ${head.textContent.trim()}, ` +
        (down ? "descending" : "ascending");
    });
  });
}
// What is folded away on the screen belongs on paper.
addEventListener("beforeprint", () => {
  for (const folded of document.querySelectorAll("details")) folded.open = true;
});

// Tables: sort, search and copy rows, all of which are in the page.
const collator = new Intl.Collator("en", { numeric: true });
/** The sort key of a cell: its number, else its text. */
const orderOf = (cell) => (cell.dataset.order === undefined ? cell.firstChild?.textContent ?? "" : Number(cell.dataset.order));
const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b
  : typeof a === "number" ? -1 : typeof b === "number" ? 1 : collator.compare(a, b));

/** The visible rows of a table as Markdown. */
function markdownOf(table) {
  const seen = (cell) => Array.from(cell.childNodes).filter((node) => node.className !== "unseen");
  const textOf = (cell) => seen(cell).map((node) => node.textContent.trim()).filter(Boolean).join("; ").replaceAll("|", "&#124;");
  const shown = Array.from(table.rows).filter((row) => !row.hidden);
  const [heads, ...rows] = shown.map(({ cells }) => `| ${Array.from(cells, textOf).join(" | ")} |`);
  return [heads, heads.replaceAll(/[^|]+/g, " --- "), ...rows].join("\n");
}
byId("copy-chart")?.addEventListener("click", () => copyText(markdownOf(byId("chart")), byId("chart-markdown")));

function addControls(box) {
  const table = box.querySelector("table");
  const body = table.tBodies[0];
  const caption = table.caption.textContent;
  const heads = Array.from(table.tHead.rows[0].cells);
  const named = (words, rest) => [words, make("span", { class: "unseen" }, `${rest} ${caption}`)];
  const count = make("span", { class: "count", role: "status" });
  const search = make("input", { type: "search", id: `${table.id}-search`, autocomplete: "off", oninput: show });
  const copied = make("pre", { hidden: true });

  function show() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of body.rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
    count.textContent = `${Array.from(body.rows).filter((row) => !row.hidden).length} of ${body.rows.length} rows`;
  }
  function sort(head) {
    const down = head.getAttribute("aria-sort") === "ascending";
    const order = down ? "descending" : "ascending";
    for (const one of heads) one.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", order);
    const column = heads.indexOf(head);
    const rows = Array.from(body.rows).sort((a, b) => compare(orderOf(a.cells[column]), orderOf(b.cells[column])));
    body.append(...(down ? rows.reverse() : rows));
    say(`${caption}: sorted by ${head.textContent}, ${order}`);
  }

  for (const head of heads) head.replaceChildren(make("button", { type: "button", onclick: () => sort(head) }, ...head.childNodes));
  box.querySelector(".scroll").before(make("div", { class: "bar" },
    make("label", { for: search.id }, ...named("Search", " in")), search,
    make("button", { type: "button", onclick: () => copyText(markdownOf(table), copied) }, ...named("Copy as Markdown", ":")), count), copied);
  show();
}
document.querySelectorAll("[data-table]").forEach(addControls);

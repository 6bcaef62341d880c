// Tables: all rows are there; they are sorted, searched and copied.
const collator = new Intl.Collator("en", { numeric: true });
/** What a cell sorts by: its number, else its text. */
const orderOf = (cell) => (cell.dataset.order === undefined ? cell.firstChild?.textContent ?? "" : Number(cell.dataset.order));
const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b
  : typeof a === "number" ? -1 : typeof b === "number" ? 1 : collator.compare(a, b));

function addControls(box) {
  const table = box.querySelector("table");
  const body = table.tBodies[0];
  const caption = table.caption.textContent;
  const heads = Array.from(table.tHead.rows[0].cells);
  const named = (words, rest) => [words, make("span", { class: "unseen" }, `${rest} ${caption}`)];
  const count = make("span", { class: "count", role: "status" });
  const search = make("input", { type: "search", id: `${table.id}-search`, autocomplete: "off", oninput: show });
  const copied = make("pre", { hidden: true });
  const shown = () => Array.from(body.rows).filter((row) => !row.hidden);

  function show() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of body.rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
    count.textContent = `${shown().length} of ${body.rows.length} rows`;
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
  /** The rows that are shown; what stands under a value is in brackets. */
  function markdown() {
    const textOf = (cell) => Array.from(cell.childNodes, (node, place) => (place ? ` (${node.textContent})` : node.textContent)).join("");
    const line = (cells) => `| ${cells.map((text) => text.replaceAll("|", "&#124;")).join(" | ")} |`;
    const rows = shown().map((row) => line(Array.from(row.cells, textOf)));
    return [line(heads.map((head) => head.textContent)), line(heads.map(() => "---")), ...rows].join("\n");
  }

  for (const head of heads) head.replaceChildren(make("button", { type: "button", onclick: () => sort(head) }, ...head.childNodes));
  box.querySelector(".scroll").before(make("div", { class: "bar" },
    make("label", { for: search.id }, ...named("Search", " in")), search,
    make("button", { type: "button", onclick: () => copyText(markdown(), copied) }, ...named("Copy as Markdown", ":")), count), copied);
  show();
}
document.querySelectorAll("[data-table]").forEach(addControls);

// Tables: the rows that are there are sorted, searched, paged, saved and copied.
const PAGE = 25;
const views = new Map();
const collator = new Intl.Collator("en", { numeric: true });
/** What a cell sorts by: its number, else its text. */
const orderOf = (cell) => (cell.dataset.order === undefined ? cell.firstChild?.textContent ?? "" : Number(cell.dataset.order));
const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b
  : typeof a === "number" ? -1 : typeof b === "number" ? 1 : collator.compare(a, b));
/** What a file has of a cell: the number itself where the text is nothing but a number. */
function savedOf(cell) {
  const text = cell.firstChild?.textContent ?? "";
  return /^-?[\d,]+(\.\d+)?$/.test(text) && cell.dataset.order ? Number(cell.dataset.order) : text === "–" ? "" : text;
}

class View {
  constructor(id, table, scroll) {
    Object.assign(this, { id, table, down: false, page: 0, all: false, words: "", rows: Array.from(table.tBodies[0].rows) });
    this.caption = table.caption.textContent;
    this.heads = Array.from(table.tHead.rows[0].cells);
    this.heads.forEach((head, column) => head.replaceChildren(make("button", { type: "button", onclick: () => this.sort(column) }, ...head.childNodes)));
    this.told = make("span", { class: "count", role: "status" });
    const search = make("input", { type: "search", id: `${id}-search`, autocomplete: "off", oninput: () => { this.words = search.value.toLowerCase(); this.turn(0); } });
    const button = (words, act, attributes = {}) => make("button", { type: "button", onclick: act, ...attributes }, words, make("span", { class: "unseen" }, `: ${this.caption}`));
    this.pager = make("span", { class: "pager" }, button("Previous", () => this.turn(this.page - 1)), button("Next", () => this.turn(this.page + 1)),
      button("Show all", () => { this.all = !this.all; this.turn(0); }));
    this.copied = make("pre", { hidden: true });
    scroll.before(make("div", { class: "bar" },
      make("label", { for: search.id }, "Search", make("span", { class: "unseen" }, ` in ${this.caption}`)), search,
      button("Save as CSV", () => this.save(), { class: "save" }), button("Copy as Markdown", () => copyText(this.markdown(), this.copied)),
      this.told, this.pager), this.copied);
    this.draw();
  }
  /** Shows the rows that are searched for, a page of them at once. */
  draw() {
    const words = this.words.split(/\s+/).filter(Boolean);
    this.kept = this.rows.filter((row) => words.every((word) => row.textContent.toLowerCase().includes(word)));
    const [from, to] = this.all ? [0, Infinity] : [this.page * PAGE, (this.page + 1) * PAGE];
    const shown = new Set(this.kept.slice(from, to));
    for (const row of this.rows) row.hidden = !shown.has(row);
    const none = this.kept.length ? "" : " No row fits the search.";
    const of = this.kept.length === this.rows.length ? `${this.rows.length}` : `${this.kept.length} (of ${this.rows.length})`;
    this.told.textContent = shown.size < this.kept.length ? `rows ${from + 1} to ${from + shown.size} of ${of}` : `${of} ${this.kept.length === 1 ? "row" : "rows"}.${none}`;
    this.pager.hidden = this.kept.length <= PAGE;
    const [back, next, every] = this.pager.children;
    back.disabled = this.all || this.page === 0;
    next.disabled = this.all || to >= this.kept.length;
    every.firstChild.textContent = this.all ? "Show pages" : "Show all";
  }
  turn(page) { this.page = page; this.draw(); }
  sort(column) {
    const head = this.heads[column];
    this.down = head.getAttribute("aria-sort") === "ascending";
    this.heads.forEach((one) => one.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", this.down ? "descending" : "ascending");
    const sign = this.down ? -1 : 1;
    this.rows.sort((a, b) => sign * compare(orderOf(a.cells[column]), orderOf(b.cells[column])));
    this.table.tBodies[0].append(...this.rows);
    this.turn(0);
    say(`${this.caption}: sorted by ${head.textContent}, ${this.down ? "descending" : "ascending"}`);
  }
  /** Headings and rows that are shown; what stands under a value has a column of its own. */
  lines() {
    const under = this.heads.map((_, column) => this.kept.some((row) => row.cells[column].querySelector(".under")));
    const line = (cells, of, second) => cells.flatMap((cell, column) => (under[column] ? [of(cell), second(cell)] : [of(cell)]));
    return [line(this.heads, (head) => head.textContent, (head) => `${head.textContent}: interval`),
      ...this.kept.map((row) => line(Array.from(row.cells), savedOf, (cell) => cell.querySelector(".under")?.textContent ?? ""))];
  }
  markdown() {
    const [heads, ...rows] = this.lines().map((cells) => `| ${cells.map((cell) => String(cell).replaceAll("|", "&#124;")).join(" | ")} |`);
    return [heads, heads.replaceAll(/[^|]+/g, " --- "), ...rows].join("\n");
  }
  save() {
    saveText(`${this.id}.csv`, this.lines().map((line) => line.map(csvCell).join(",")).join("\r\n") + "\r\n", "text/csv;charset=utf-8");
    say(`${this.caption}: ${this.kept.length} rows saved`);
  }
}

for (const box of document.querySelectorAll("[data-table]")) {
  const scroll = box.querySelector(".scroll");
  views.set(box.dataset.table, new View(box.dataset.table, scroll.querySelector("table"), scroll));
}

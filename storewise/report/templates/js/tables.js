// Tables: sorted, searched, chosen, paged and saved.
const PAGE = 25;
const PRINTED = 400;
const views = new Map();
const collator = new Intl.Collator("en", { numeric: true });
const textOf = (cell) => (Array.isArray(cell) ? cell[0] : cell);
const orderOf = (cell) => (Array.isArray(cell) ? cell[1] : cell);
const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b
  : typeof a === "number" ? -1 : typeof b === "number" ? 1 : collator.compare(String(a), String(b)));
/** What a saved file has of a cell: the number itself where the text is nothing but a number. */
function savedOf(cell) {
  const text = textOf(cell);
  const order = orderOf(cell);
  const bare = /^-?[\d,]+(\.\d+)?(e[-+]?\d+)?$/.test(text);
  return bare && typeof order === "number" ? order : text === "–" ? "" : text;
}

class View {
  /** A table element with its data: caption, columns, numeric, rows, and for each row f, source. */
  constructor(id, spec, table, before) {
    Object.assign(this, { id, spec, table, sorted: null, down: false, page: 0, all: false, words: "" });
    this.heads = Array.from(table.tHead.rows[0].cells).slice(0, spec.columns.length);
    this.heads.forEach((head, column) => {
      const button = make("button", { type: "button", onclick: () => this.sort(column) }, ...head.childNodes);
      head.replaceChildren(button);
    });
    this.told = make("span", { class: "count", role: "status" });
    const search = make("input", { type: "search", id: `${id}-search`, autocomplete: "off", oninput: () => { this.words = search.value; this.page = 0; this.draw(); } });
    this.back = make("button", { type: "button", onclick: () => this.turn(-1) }, "Previous");
    this.next = make("button", { type: "button", onclick: () => this.turn(1) }, "Next");
    this.every = make("button", { type: "button", onclick: () => { this.all = !this.all; this.page = 0; this.draw(); } }, "Show all");
    this.pager = make("span", { class: "pager" }, this.back, this.next, this.every);
    this.bar = make("div", { class: "bar" },
      make("label", { for: search.id }, "Search", make("span", { class: "unseen" }, ` in ${spec.caption}`)), search,
      make("button", { type: "button", class: "save", onclick: () => this.save() }, "Save as CSV", make("span", { class: "unseen" }, `: ${spec.caption}`)),
      this.told, this.pager);
    before.before(this.bar);
    this.cut = make("p", { class: "cut" });
    before.after(this.cut);
    this.find();
    this.count();
  }
  /** The places of the rows that are shown, in order. */
  find() {
    const words = this.words.toLowerCase().split(/\s+/).filter(Boolean);
    const { rows, f, source } = this.spec;
    const kept = [];
    for (let place = 0; place < rows.length; place += 1) {
      if (f && !passes(f[place])) continue;
      if (words.length) {
        const text = (rows[place].map((cell) => (Array.isArray(cell) ? `${cell[0]} ${cell[2] ?? ""}` : cell)).join(" ") + (source?.[place] ?? "")).toLowerCase();
        if (!words.every((word) => text.includes(word))) continue;
      }
      kept.push(place);
    }
    if (this.sorted !== null) {
      const sign = this.down ? -1 : 1;
      kept.sort((a, b) => sign * compare(orderOf(rows[a][this.sorted]), orderOf(rows[b][this.sorted])) || a - b);
    }
    this.kept = kept;
  }
  draw(most = this.all ? Infinity : PAGE) {
    this.find();
    const { spec } = this;
    const start = most === Infinity ? 0 : this.page * PAGE;
    const rows = this.kept.slice(start, most === Infinity ? undefined : start + most).map((place) => {
      const row = make("tr");
      spec.rows[place].forEach((cell, column) => {
        const text = textOf(cell);
        const box = make("td", { class: spec.numeric[column] ? "number" : text.length > 60 ? "wrap" : "" }, text);
        box.dataset.label = spec.columns[column];
        if (Array.isArray(cell) && cell[5]) box.classList.add("best");
        if (Array.isArray(cell) && cell[2]) box.append(make("small", { class: "under" }, cell[2]));
        if (Array.isArray(cell) && cell[3]) box.append(sourceLink(cell[3], cell[4]));
        row.append(box);
      });
      if (spec.source) row.append(make("td", {}, ...(spec.source[place] ? [sourceLink(spec.source[place])] : [])));
      return row;
    });
    if (!rows.length) rows.push(make("tr", {}, make("td", { colspan: spec.columns.length + 1 }, "No row fits the search and what is chosen.")));
    this.table.tBodies[0].replaceChildren(...rows);
    this.count();
  }
  count() {
    const total = this.spec.rows.length;
    const kept = this.kept.length;
    const start = this.all ? 0 : this.page * PAGE;
    const end = this.all ? kept : Math.min(kept, start + PAGE);
    const of = kept === total ? `${total}` : `${kept} (of ${total})`;
    this.told.textContent = kept > PAGE && !this.all ? `rows ${start + 1} to ${end} of ${of}` : `${of} ${kept === 1 ? "row" : "rows"}`;
    this.pager.hidden = kept <= PAGE;
    this.back.disabled = this.all || this.page === 0;
    this.next.disabled = this.all || end >= kept;
    this.every.textContent = this.all ? "Show pages" : "Show all";
  }
  turn(by) { this.page += by; this.draw(); }
  sort(column) {
    this.down = this.sorted === column && !this.down;
    this.sorted = column;
    this.page = 0;
    this.heads.forEach((head) => head.removeAttribute("aria-sort"));
    this.heads[column].setAttribute("aria-sort", this.down ? "descending" : "ascending");
    this.draw();
    say(`${this.spec.caption}: sorted by ${this.spec.columns[column]}, ${this.down ? "descending" : "ascending"}`);
  }
  text() {
    const { spec } = this;
    this.find();
    // An interval that stands under its value has a column of its own in a file.
    const under = ", 95 % interval";
    const both = (head) => head.endsWith(under);
    const heads = [...spec.columns.flatMap((head) => (both(head) ? [head.slice(0, -under.length), under.slice(2)] : [head])), ...(spec.source ? ["source"] : [])];
    const saved = (cell, column) => (both(spec.columns[column]) ? [savedOf(cell), Array.isArray(cell) ? cell[2] ?? "" : ""] : [savedOf(cell)]);
    const lines = this.kept.map((place) => [...spec.rows[place].flatMap(saved), ...(spec.source ? [spec.source[place] ? labelOf(spec.source[place]) : ""] : [])]);
    return [heads, ...lines].map((line) => line.map(csvCell).join(",")).join("\r\n") + "\r\n";
  }
  save() {
    saveText(`${this.id}.csv`, this.text(), "text/csv;charset=utf-8");
    say(`${this.spec.caption}: ${this.kept.length} rows saved`);
  }
  chosenAgain() { this.page = 0; this.draw(); }
  /** For paper: all rows, or a cut that says what it leaves out. */
  print(on) {
    if (this.kept.length > PAGE) this.draw(on ? PRINTED : undefined);
    this.cut.textContent = on && this.kept.length > PRINTED ? `The first ${PRINTED} of ${this.kept.length} rows; the files of analysis/ have all.` : "";
  }
}

/** A table made of data alone. */
function newTable(id, spec) {
  const caption = make("caption", { id: `${id}-caption` }, spec.caption);
  const heads = spec.columns.map((name, column) => make("th", { scope: "col", class: spec.numeric[column] ? "number" : "" }, name));
  if (spec.source) heads.push(make("th", { scope: "col" }, "source"));
  const table = make("table", { id }, caption, make("thead", {}, make("tr", {}, ...heads)), make("tbody"));
  const scroll = make("div", { class: "scroll", role: "region", tabindex: "0", "aria-labelledby": caption.id }, table);
  const box = make("div", { class: "table" }, scroll);
  const view = new View(id, spec, table, scroll);
  view.draw();
  return { box, view };
}

for (const box of document.querySelectorAll("[data-table]")) {
  const id = box.dataset.table;
  const scroll = box.querySelector(".scroll");
  views.set(id, new View(id, DATA.tables[id], scroll.querySelector("table"), scroll));
}
choice.listeners.push(() => views.forEach((view) => { if (view.spec.f) view.chosenAgain(); }));

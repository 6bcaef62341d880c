// Where a number comes from: its row of a CSV file, the trials behind it, the value of each.
let evidence = null;
function rowsOf(ranges) {
  return ranges.split(",").flatMap((run) => {
    const [first, last = first] = run.split("-").map(Number);
    return Array.from({ length: last - first + 1 }, (_, place) => first + place);
  });
}
/** Rows as people count them, from 1. */
const counted = (ranges) => ranges.split(",").map((run) => run.split("-").map((end) => Number(end) + 1).join("–"));

/** The trials behind a row with their values and result files. */
function trialList(table, row, values) {
  const places = table.trials?.[row] ?? [];
  if (!places.length) return make("p", {}, "It was made of several rows of other tables, which its columns name.");
  const each = table.each?.[row] ?? [];
  const phase = values.phase;
  const list = make("ul", { class: "trials" });
  places.forEach((place, number) => {
    const trial = evidence.trials[place];
    const files = trial.files.filter((file) => !phase || file.startsWith(`${phase}.`) || /^(node|session|verify)/.test(file));
    const folder = `trials/${encodeURIComponent(trial.id)}/`;
    const links = files.slice(0, 24).flatMap((file, i) => [i ? ", " : " ", make("a", { href: folder + encodeURIComponent(file) }, file)]);
    list.append(make("li", {},
      make("a", { href: folder }, trial.id), ` (${trial.engine}, repeat ${trial.repeat})`,
      typeof each[number] === "number" ? make("strong", {}, `: ${spoken(each[number])}`) : null,
      make("small", { class: "under" }, "files:", ...links, files.length > 24 ? ` and ${files.length - 24} more` : "")));
  });
  const title = each.some((value) => typeof value === "number") ? "Value of each repeat" : "Trials behind it";
  return make("div", {}, make("h3", {}, title), list);
}

async function openSource(source) {
  const dialog = byId("source");
  const body = byId("source-body");
  const [csv, ranges] = source.split(":");
  const rows = rowsOf(ranges);
  const told = counted(ranges);
  body.replaceChildren(make("h2", { id: "source-heading", tabindex: "-1" }, `Source: ${csv} ${told.slice(0, 2).join(", ")}${told.length > 2 ? ", …" : ""}`), make("p", {}, "Reading …"));
  if (!dialog.open) dialog.showModal();
  evidence ??= JSON.parse(await unpack("evidence"));
  const table = evidence.tables[csv];
  body.lastChild.remove();
  const file = make("a", { href: `analysis/${csv}.csv` }, `analysis/${csv}.csv`);
  const lines = rows.length > 6 ? `${rows[0] + 2} to ${rows.at(-1) + 2}` : rows.map((row) => row + 2).join(", ");
  body.append(make("p", {}, file, `, ${rows.length === 1 ? "row" : "rows"} ${told.join(", ")} (${rows.length === 1 ? "line" : "lines"} ${lines} of the file, its heading counted).`));
  if (!table) {
    body.append(make("p", {}, "The table is too long to be in this page; the file has all of it."));
    return;
  }
  for (const row of rows.slice(0, 12)) {
    const values = Object.fromEntries(table.columns.map((name, place) => [name, table.rows[row][place]]));
    const list = make("dl", { class: "row" });
    for (const [name, value] of Object.entries(values)) {
      if (value === null || value === "") continue;
      list.append(make("div", {}, make("dt", {}, name), make("dd", {}, Array.isArray(value) ? value.join(", ") : String(value))));
    }
    if (rows.length > 1) body.append(make("h3", {}, `Row ${row + 1}`));
    body.append(list);
    if (row === rows[0] || table.each) body.append(trialList(table, row, values));
  }
  if (rows.length > 12) body.append(make("p", {}, `${rows.length - 12} further rows are in the file.`));
  byId("source-heading").focus();
}
function showSource(source) {
  openSource(source).catch((error) => {
    byId("source-body").append(make("p", {}, `This cannot be shown here: ${error.message}. The file has it.`));
  });
}
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-source]");
  // With a key held it opens the file itself, as links do.
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  showSource(link.dataset.source);
});
byId("source-close").addEventListener("click", () => byId("source").close());
byId("source").addEventListener("click", (event) => {
  if (event.target === byId("source")) byId("source").close();
});

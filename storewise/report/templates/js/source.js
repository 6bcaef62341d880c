// The source of a number: its row of a CSV file, the trials behind it, the value of each.
const MOST_ROWS = 12, MOST_FILES = 24;
let evidence = null;
function rowsOf(ranges) {
  return ranges.split(",").flatMap((run) => {
    const [first, last = first] = run.split("-").map(Number);
    return Array.from({ length: last - first + 1 }, (_, place) => first + place);
  });
}

/** The trials behind a row with their values and result files. */
function trialList(table, row, phase) {
  const places = table.trials[row];
  if (!places.length) return make("p", {}, "It was made of several rows of other tables, which its columns name.");
  const each = (table.each?.[row] ?? []).map((value) => (value === null ? "" : `: ${value.toLocaleString("en", { maximumSignificantDigits: 6 })}`));
  const list = make("ul", { class: "trials" }, ...places.map((place, number) => {
    const trial = evidence.trials[place];
    const files = trial.files.filter((file) => !phase || file.startsWith(`${phase}.`) || /^(node|session|verify)/.test(file));
    const folder = `trials/${encodeURIComponent(trial.id)}/`;
    const links = files.slice(0, MOST_FILES).flatMap((file, i) => [i ? ", " : " ", make("a", { href: folder + encodeURIComponent(file) }, file)]);
    const more = files.length > MOST_FILES ? ` and ${files.length - MOST_FILES} more` : "";
    return make("li", {}, make("a", { href: folder }, trial.id), ` (${trial.engine}, repeat ${trial.repeat})`, make("strong", {}, each[number] ?? ""),
      make("small", { class: "under" }, "files:", ...links, more));
  }));
  return make("div", {}, make("h3", {}, each.some(Boolean) ? "Value of each repeat" : "Trials behind it"), list);
}

function rowOf(table, row, first) {
  const values = Object.fromEntries(table.columns.map((name, place) => [name, table.rows[row][place]]));
  const known = Object.entries(values).filter(([, value]) => value !== null && value !== "");
  return make("div", {}, make("h3", {}, `Row ${row + 1}`),
    make("dl", { class: "row" }, ...known.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, String(value))))),
    first || table.each ? trialList(table, row, values.phase) : "");
}

async function openSource(source) {
  const [csv, ranges] = source.split(":");
  const rows = rowsOf(ranges);
  const body = byId("source-body");
  byId("source-heading").textContent = `Source: ${csv}`;
  body.replaceChildren(make("p", {}, "Reading …"));
  if (!byId("source").open) byId("source").showModal();
  evidence ??= JSON.parse(await unpack("evidence"));
  const table = evidence.tables[csv];
  const more = table ? rows.length - MOST_ROWS : 0;
  body.replaceChildren(
    make("p", {}, make("a", { href: `analysis/${csv}.csv` }, `analysis/${csv}.csv`), `, row ${rows.map((row) => row + 1).join(", ")} (the heading not counted).`),
    ...(table ? rows.slice(0, MOST_ROWS).map((row, place) => rowOf(table, row, place === 0)) : [make("p", {}, "The table is too long to be in this page; the file has all of it.")]),
    more > 0 ? make("p", {}, `${more} further rows are in the file.`) : "");
}
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-source]");
  // With a modifier key the link opens the file itself.
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  openSource(link.dataset.source).catch((error) => {
    byId("source-body").append(make("p", {}, `This cannot be shown here: ${error.message}. The file has it.`));
  });
});
byId("source-close").addEventListener("click", () => byId("source").close());
byId("source").addEventListener("click", (event) => {
  if (event.target === byId("source")) byId("source").close();
});

// Interactive figures: drawn by Plotly when they come near the view, anew when the choice changes.
let library = null;
function plotly() {
  library ??= unpack("plotly").then((code) => {
    document.head.append(make("script", {}, code));
    return window.Plotly;
  });
  return library;
}
const CONFIG = { responsive: false, displaylogo: false, displayModeBar: false, doubleClick: "reset", scrollZoom: false };
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Colours of a trace for the page as it looks now; nothing else of it is changed. */
function recoloured(trace) {
  const copy = { ...trace };
  for (const part of ["line", "marker", "error_x", "error_y"]) {
    if (copy[part]?.color) copy[part] = { ...copy[part], color: seen(copy[part].color) };
  }
  return copy;
}
/** Long names in lines of about so many signs. */
function wrapped(text, signs) {
  const lines = [""];
  for (const word of text.split(" ")) {
    if (lines.at(-1) && (lines.at(-1) + word).length > signs) lines.push("");
    lines[lines.length - 1] += (lines.at(-1) ? " " : "") + word;
  }
  return lines.join("<br>");
}
const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

/** A panel's layout with what depends on width and looks. */
function layoutOf(panel, traces, width) {
  const text = css("--text");
  const axis = { gridcolor: css("--line"), linecolor: css("--soft"), zerolinecolor: css("--line"), tickcolor: css("--soft"), automargin: true, exponentformat: "SI", minexponent: 3 };
  const layout = {
    autosize: false, width, height: 330,
    margin: { l: 58, r: 16, t: 10, b: 48 },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: css("--font"), size: width < 420 ? 11 : 12.5, color: text },
    hoverlabel: { align: "left", bgcolor: css("--card"), bordercolor: css("--soft"), font: { color: text, size: width < 420 ? 11 : 12.5 }, namelength: -1 },
    showlegend: false, hovermode: "closest", dragmode: "zoom", bargap: 0.3,
    ...structuredClone(panel.layout),
  };
  layout.xaxis = { ...axis, ...panel.layout.xaxis };
  layout.yaxis = { ...axis, ...panel.layout.yaxis };
  for (const side of [layout.xaxis, layout.yaxis]) {
    side.title = { standoff: 8, ...side.title };
    if (width < 420 || side.title.text?.length > 36) side.title.text = side.title.text?.replace("(logarithmic)", "(log.)");
    if (side.type === "log" && !side.tickvals) Object.assign(side, { dtick: width < 420 || decades(panel, side === layout.xaxis ? "x" : "y") > 2.5 ? 1 : "D2" });
  }
  if (panel.rows) {
    const names = Array.from(new Set(traces.flatMap((trace) => trace.y)));
    layout.height = 62 + Math.max(3, names.length) * 26;
    layout.yaxis.tickvals = names;
    const signs = width < 420 ? 17 : 34;
    layout.yaxis.ticktext = names.map((name) => wrapped(escaped(String(name)), signs));
    layout.yaxis.showgrid = false;
    layout.yaxis.fixedrange = true;
    layout.margin = { ...layout.margin, l: 10 };
    if (width < 420) layout.height = 62 + Math.max(3, names.length) * 36;
  }
  return layout;
}

/** What an axis of these panels must show, so that one measure has one scale in all of them. */
function scaleOf(groups, side, type) {
  const values = groups.flatMap((traces) => traces.flatMap((trace) => trace[side].flatMap((value, i) => {
    const error = trace[`error_${side}`];
    return [value, typeof error?.array[i] === "number" ? value + error.array[i] : value, typeof error?.array[i] === "number" ? value - error.arrayminus[i] : value];
  }))).filter((value) => Number.isFinite(value) && (type !== "log" || value > 0));
  if (!values.length) return null;
  const high = values.reduce((a, b) => Math.max(a, b));
  if (type !== "log") {
    // One interval of two unlike repeats must not press all the others into the corner.
    const most = groups.flatMap((traces) => traces.flatMap((trace) => trace[side])).reduce((a, b) => Math.max(a, b), 0);
    return [0, 1.05 * (most > 0 ? Math.min(high, 2 * most) : high) || 1];
  }
  const low = values.reduce((a, b) => Math.min(a, b));
  const room = 0.05 * (Math.log10(high / low) || 1);
  return [Math.log10(low) - room, Math.log10(high) + room];
}

/** Names at the ends of lines instead of a legend, where they fit: annotations, or null. */
function endLabels(panel, traces, layout, width, plain) {
  if (panel.rows) return [];
  const named = traces.filter(({ meta, x }) => meta.short && x.length);
  const shorts = new Set(named.map(({ meta }) => meta.short));
  const short = plain && shorts.size === named.length;
  const texts = named.map(({ name, meta }) => [short && meta.rank <= 0 ? meta.short : name, meta.size].filter(Boolean).join(", "));
  const size = width < 420 ? 11 : 12;
  const longest = Math.max(0, ...texts.map((text) => text.length)) * size * 0.56 + 18;
  const room = layout.height - layout.margin.t - 66;
  if (longest > 0.42 * width || named.length * 15 > room) return null;
  const { xaxis, yaxis } = layout;
  if (!yaxis.range) return null;
  const at = (axis, value) => (axis.type === "log" ? Math.log10(value) : value);
  const [low, high] = yaxis.range;
  // The end of a line, or of what is drawn thin beside it and goes further.
  const ends = named.map((line) => traces
    .filter((one) => one === line || (!one.meta.short && one.mode === "lines" && one.meta.engine === line.meta.engine && one.meta.rank === line.meta.rank))
    .flatMap((one) => one.x.map((x, i) => [x, one.y[i]])).reduce((best, one) => (one[0] > best[0] ? one : best)));
  const places = ends.map(([, y]) => room * (1 - (at(yaxis, y) - low) / (high - low)));
  const moved = spaced(places, 15, room);
  layout.margin = { ...layout.margin, r: longest };
  return named.map((trace, i) => ({
    x: at(xaxis, ends[i][0]), y: at(yaxis, ends[i][1]), text: escaped(texts[i]),
    ax: 20, ay: moved[i] - places[i], xanchor: "left", showarrow: true, arrowhead: 0, arrowwidth: 1, standoff: 5,
    arrowcolor: trace.line?.color ?? trace.marker.color, font: { size }, borderpad: 1, bgcolor: isDark() ? "rgba(20,23,28,.8)" : "rgba(255,255,255,.8)",
  }));
}
/** Places from 0 to `top` of which no two are closer than `gap`, moved as little as need be. */
function spaced(places, gap, top) {
  const order = places.map((_, i) => i).sort((a, b) => places[a] - places[b]);
  const moved = [...places];
  let last = -Infinity;
  for (const i of order) last = moved[i] = Math.max(places[i], last + gap, 0);
  let limit = top;
  for (const i of order.reverse()) { limit = moved[i] = Math.min(moved[i], limit); limit -= gap; }
  return moved;
}

/** Powers of ten between the least and the greatest value of a panel, intervals counted. */
function decades(panel, side) {
  const logs = panel.data.flatMap((trace) => trace[side].flatMap((value, i) => {
    const error = trace[`error_${side}`];
    return [value, error && value - error.arrayminus[i], error && value + error.array[i]];
  })).filter((value) => value > 0).map(Math.log10);
  return logs.length ? logs.reduce((a, b) => Math.max(a, b)) - logs.reduce((a, b) => Math.min(a, b)) : 0;
}
/** Points of several lines at the same level, a little apart so that their intervals are seen. */
function apart(panel, traces) {
  if (!panel.layout.xaxis?.tickvals) return traces;
  const levels = panel.layout.xaxis.tickvals.filter((value) => panel.layout.xaxis.type !== "log" || value > 0);
  const log = panel.layout.xaxis.type === "log";
  const [low, high] = [levels[0], levels.at(-1)].map((value) => (log ? Math.log(value) : value));
  const lines = traces.filter((trace) => trace.error_y);
  const step = Math.min(0.012, 0.12 / Math.max(1, lines.length)) * (high - low);
  return traces.map((trace) => {
    const place = lines.indexOf(trace);
    if (place < 0) return trace;
    const shift = step * (place - (lines.length - 1) / 2);
    return { ...trace, x: trace.x.map((x) => (log ? x * Math.exp(shift) : x + shift)) };
  });
}

/** The traces of a panel that are chosen; of a line over levels of a choice the chosen points. */
function tracesOf(panel, graph, everySetting) {
  const lowest = new Map();
  let kept = panel.data.filter((trace) => passes(trace.meta.f) && (choice.published || !trace.meta.ref));
  if (graph.lowest && !everySetting) {
    for (const { meta } of kept) {
      if (meta.rank >= 0) lowest.set(meta.engine, Math.min(meta.rank, lowest.get(meta.engine) ?? Infinity));
    }
    kept = kept.filter(({ meta }) => meta.rank < 0 || meta.rank === lowest.get(meta.engine));
  }
  return kept.map((trace) => recoloured(pointsOf(trace)));
}
function pointsOf(trace) {
  const facet = trace.meta.over;
  if (facet < 0 || chosen[facet].size === DATA.facets[facet].levels.length) return trace;
  const places = trace.x.map((_, i) => i).filter((i) => chosen[facet].has(DATA.facets[facet].levels.indexOf(String(trace.x[i]))));
  const pick = (list) => places.map((i) => list[i]);
  const found = { ...trace };
  for (const name of ["x", "y", "text", "customdata"]) if (Array.isArray(trace[name])) found[name] = pick(trace[name]);
  for (const name of ["error_x", "error_y"]) {
    if (trace[name]) found[name] = { ...trace[name], array: pick(trace[name].array), arrayminus: pick(trace[name].arrayminus) };
  }
  return found;
}

/** Lines and markers as a legend of the page's own: it is never cut, and wraps on a phone. */
const SHAPES = {
  "circle": "M14 4a4 4 0 1 0 0 8a4 4 0 1 0 0-8z", "square": "M10.5 4.5h7v7h-7z", "triangle-up": "M14 3l5 9h-10z", "diamond": "M14 3l5 5l-5 5l-5-5z",
  "triangle-down": "M14 13l5-9h-10z", "cross": "M12.5 3h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5v-3h3.5z", "x": "M10 4l1.5-1l2.5 3l2.500-3l1.5 1l-2.500 4l2.500 4l-1.500 1l-2.500-3l-2.500 3l-1.500-1l2.500-4z",
  "triangle-left": "M9 8l9-5v10z", "triangle-right": "M19 8l-9-5v10z", "pentagon": "M14 3l5 4l-2 6h-6l-2-6z", "octagon": "M12 3.200h4l2.800 2.800v4l-2.800 2.800h-4l-2.800-2.800v-4z", "diamond-tall": "M14 2l3.500 6l-3.500 6l-3.500-6z", "line-ns": "M14 2v12",
  "hexagon": "M14 3l4.500 2.500v5l-4.500 2.500l-4.500-2.500v-5z", "star": "M14 3l1.500 3.500l4 .5l-3 2.500l1 4l-3.500-2l-3.500 2l1-4l-3-2.500l4-.5z",
};
const DASHES = { solid: "", dash: "6 4", dashdot: "8 3 2 3", dot: "2 3", longdash: "10 4", longdashdot: "10 3 2 3" };
function legendOf(groups, named = false) {
  const entries = new Map();
  // Where rows have their names at the axis only lines through them need one here.
  for (const trace of groups.flat()) if ((!named || trace.mode === "lines" || trace.meta.aside) && !entries.has(trace.name)) entries.set(trace.name, trace);
  const list = make("ul", { class: "legend", "aria-label": "Legend" });
  for (const [name, trace] of entries) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", "0 0 28 16");
    svg.setAttribute("aria-hidden", "true");
    const draw = (path, attributes) => {
      const one = document.createElementNS("http://www.w3.org/2000/svg", "path");
      one.setAttribute("d", path);
      for (const [key, value] of Object.entries(attributes)) one.setAttribute(key, value);
      svg.append(one);
    };
    const colour = trace.line?.color ?? trace.marker?.color;
    if (trace.mode?.includes("lines")) draw("M0 8H28", { stroke: colour, "stroke-width": 2, "stroke-dasharray": DASHES[trace.line.dash] ?? "", fill: "none" });
    const each = trace.marker?.symbol;
    // A line that names no symbol has Plotly's own.
    const symbol = Array.isArray(each) ? each[0].replace("-open", "") : each ?? "circle";
    if (trace.mode?.includes("markers")) {
      const fill = symbol.endsWith("-open") ? css("--page") : colour;
      draw(SHAPES[symbol.replace("-open", "")], { fill, stroke: colour });
    }
    list.append(make("li", {}, svg, name));
  }
  if (entries.size <= 16) return list;
  return make("details", {}, make("summary", {}, `Legend (${entries.size} lines)`), list);
}

class Figure {
  constructor(element) {
    this.element = element;
    this.live = element.querySelector(".live");
    this.graph = JSON.parse(element.querySelector("script.graph").textContent);
    this.heading = element.querySelector("h3").textContent;
    this.every = false;
    this.near = false;
    this.stale = true;
    this.panels = [];
    this.grid = make("div", { class: `panels${this.graph.panels.length === 1 ? " one" : ""}` });
    this.legend = make("div");
    this.note = make("p", { class: "setting" }, this.graph.note);
    this.none = make("p", { class: "note", hidden: true }, "Nothing of this figure is chosen.");
    const tools = make("div", { class: "bar tools" });
    if (this.graph.lowest && this.graph.panels.some((panel) => panel.data.some(({ meta }) => meta.rank > 0))) {
      tools.append(make("label", {}, make("input", { type: "checkbox", onchange: (event) => { this.every = event.target.checked; this.refresh(); } }), "every setting, not only each engine's lowest"));
    }
    tools.append(...zoomButtons(() => this.panels.map((panel) => panel.plot), this.heading, this.graph.time));
    this.data = make("details", { class: "numbers" }, make("summary", {}, "Show data", make("span", { class: "unseen" }, ` of ${this.heading}`)));
    this.data.addEventListener("toggle", () => this.tell());
    this.live.append(tools, this.note, this.grid, this.none, this.legend);
    element.querySelector(".links").after(this.data);
  }
  async refresh() {
    this.stale = true;
    if (this.data.open) this.tell();
    if (this.near) await this.draw();
  }
  /** One drawing after the other: what was chosen meanwhile is drawn by the last. */
  draw() {
    this.queue = (this.queue ?? Promise.resolve()).then(() => (this.stale ? this.drawn() : null))
      .catch((error) => failed(this.element, error));
    return this.queue;
  }
  async drawn() {
    this.stale = false;
    const Plotly = await plotly();
    this.element.classList.add("drawn");
    const groups = this.graph.panels.map((panel) => tracesOf(panel, this.graph, this.every));
    const shown = groups.map((traces) => traces.some(({ meta }) => meta.rank >= 0 || meta.engine));
    this.none.hidden = shown.some(Boolean);
    this.graph.panels.forEach((panel, place) => {
      if (!this.panels[place]) {
        const plot = make("div", { class: "plot", role: "img", "aria-label": `${this.heading}: ${panel.title}` });
        const box = make("div", { class: "panel" }, make("h4", {}, panel.title), plot);
        this.panels.push({ box, plot });
        this.grid.append(box);
      }
      this.panels[place].box.hidden = !shown[place];
    });
    this.grid.classList.toggle("one", shown.filter(Boolean).length === 1);
    // The lowest setting of each engine needs no name but the engine's while nothing else is chosen.
    const plain = !this.every && DATA.facets.every(({ name, levels }, i) => chosen[i].size === levels.length || name === "engine" || name === "phase");
    this.note.hidden = !this.graph.note || !plain;
    let direct = true;
    for (const [place, panel] of this.graph.panels.entries()) {
      const { plot } = this.panels[place];
      if (!shown[place]) continue;
      const fresh = !plot.data;
      const width = Math.floor(this.panels[place].box.clientWidth);
      const layout = layoutOf(panel, groups[place], width);
      for (const side of ["x", "y"]) {
        const axis = layout[`${side}axis`];
        if (axis.type === "category" || axis.range) continue;
        if (axis.tickvals && !panel.rows) {
          const at = axis.tickvals.map((value) => (axis.type === "log" ? Math.log10(value) : value)).filter(Number.isFinite);
          const room = 0.07 * (at.at(-1) - at[0] || 1);
          axis.range = [at[0] - room, at.at(-1) + room];
          continue;
        }
        const peers = this.graph.panels.map((_, i) => i).filter((i) => shown[i] && this.graph.panels[i].share[side] === panel.share[side]);
        const range = scaleOf(peers.map((i) => groups[i]), side, axis.type);
        if (range) axis.range = range;
        // Panels that share a scale share its ticks.
        if (range && axis.type === "log") axis.dtick = width < 420 || range[1] - range[0] > 2.5 ? 1 : "D2";
      }
      const labels = endLabels(panel, groups[place], layout, width, plain);
      if (labels) layout.annotations = labels;
      else direct = false;
      const before = plot.layout?.xaxis;
      plot.home = { x: layout.xaxis.range?.slice(), y: layout.yaxis.range?.slice() };
      if (before && !before.autorange && plot.zoomed) layout.xaxis = { ...layout.xaxis, range: before.range, autorange: false };
      await Plotly.react(plot, apart(panel, groups[place]), layout, CONFIG);
      if (fresh) listen(plot, () => (this.graph.time ? this.panels.map((one) => one.plot) : []));
    }
    const open = this.legend.querySelector("details")?.open ?? false;
    const rows = this.graph.panels[0]?.rows > 0;
    this.legend.replaceChildren(...(direct && !rows ? [] : [legendOf(groups.filter((_, place) => shown[place]), rows)]));
    if (open && this.legend.querySelector("details")) this.legend.querySelector("details").open = true;
  }
  /** The numbers of what is shown as a table. */
  tell() {
    while (this.data.children.length > 1) this.data.lastChild.remove();
    if (!this.data.open) return;
    const rows = [];
    const source = [];
    for (const panel of this.graph.panels) {
      for (const trace of tracesOf(panel, this.graph, this.every)) {
        const sideways = panel.rows > 0;
        const error = sideways ? trace.error_x : trace.error_y;
        trace.x.forEach((x, i) => {
          const [at, value] = sideways ? ["", trace.x[i]] : [x, trace.y[i]];
          const bounds = error && typeof error.array[i] === "number" ? [value - error.arrayminus[i], value + error.array[i]] : [null, null];
          const { tickvals = [], ticktext = [] } = panel.layout.xaxis;
          const words = ticktext[tickvals.indexOf(at)] || spoken(at);
          rows.push([panel.title, trace.name, ...(sideways ? [] : [[words, at]]), ...[value, ...bounds].map((one) => [spoken(one), one ?? -1e300])]);
          source.push(trace.customdata?.[i] ?? "");
        });
      }
    }
    const first = this.graph.panels[0];
    const title = (axis) => axis?.title?.text ?? "";
    const sideways = first.rows > 0;
    const columns = ["panel", "line", ...(sideways ? [] : [title(first.layout.xaxis)]), title(sideways ? first.layout.xaxis : first.layout.yaxis), "low", "high"];
    const spec = { caption: `Data of ${this.heading}`, columns, numeric: columns.map((_, place) => place > 1), rows, ...(source.some(Boolean) ? { source } : {}) };
    this.data.append(newTable(`${this.element.id}-data`, spec).box);
  }
}

/** Clicks lead to sources, and zooming one of several plots over time zooms all. */
function listen(plot, together) {
  plot.on("plotly_click", ({ points }) => {
    const source = points[0]?.customdata;
    if (typeof source === "string" && source) showSource(source);
  });
  plot.on("plotly_relayout", async (change) => {
    if (plot.quiet) return;
    const range = change["xaxis.range[0]"] === undefined ? change["xaxis.range"] : [change["xaxis.range[0]"], change["xaxis.range[1]"]];
    if (!range && !change["xaxis.autorange"]) return;
    plot.zoomed = Boolean(range);
    for (const other of together()) if (other !== plot && other.data) await rangeTo(other, range ?? null);
  });
}
async function rangeTo(plot, range) {
  plot.quiet = true;
  plot.zoomed = Boolean(range);
  const Plotly = await plotly();
  await Plotly.relayout(plot, range ? { "xaxis.range": range } : { "xaxis.autorange": true });
  plot.quiet = false;
}
/** Zooming without a mouse. */
function zoomButtons(plots, heading, time) {
  const act = (word, change) => make("button", { type: "button", class: "zoom", onclick: async () => {
    for (const plot of plots()) if (plot?.data) await change(plot);
    say(`${heading}: ${word.toLowerCase()}`);
  } }, word, make("span", { class: "unseen" }, ` in ${heading}`));
  const move = (from, to) => async (plot) => {
    const [start, end] = plot.layout.xaxis.range;
    const length = end - start;
    await rangeTo(plot, [start + from * length, end + to * length]);
  };
  const reset = act("Show all again", async (plot) => {
    const Plotly = await plotly();
    plot.zoomed = false;
    plot.quiet = true;
    // A range that belongs to the figure comes back; others are those of the data.
    const { x, y } = plot.home;
    const flat = plot.layout.yaxis.type === "category";
    await Plotly.relayout(plot, {
      ...(x ? { "xaxis.range": [...x] } : { "xaxis.autorange": true }),
      ...(y ? { "yaxis.range": [...y] } : { "yaxis.autorange": flat ? "reversed" : true }),
    });
    plot.quiet = false;
  });
  if (!time) return [reset];
  return [act("Zoom in", move(0.25, -0.25)), act("Zoom out", move(-0.5, 0.5)), act("Earlier", move(-0.5, -0.5)), act("Later", move(0.5, 0.5)), reset];
}

const figures = Array.from(document.querySelectorAll("figure.figure:has(script.graph)"), (element) => new Figure(element));
const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const figure = figures.find((one) => one.element === entry.target);
    figure.near = entry.isIntersecting;
    if (figure.near && figure.stale) figure.draw();
  }
}, { rootMargin: "400px" });
/** Where it cannot be drawn the printed figure is what is seen. */
function failed(element, error) {
  element.classList.remove("drawn");
  element.classList.add("unlive");
  element.querySelector(".live").replaceChildren(make("p", { class: "note" }, `The interactive figure cannot be drawn: ${error.message}.`));
}
choice.listeners.push(() => figures.forEach((figure) => figure.refresh()));
look.listeners.push(() => figures.forEach((figure) => figure.refresh()));

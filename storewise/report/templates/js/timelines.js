// What one trial did over time, or two of them over each other.
const METRICS = [
  ["operations", "Operations", "operations per second"],
  ["cpu", "Processors, without waiting", "host CPU in %"],
  ["iowait", "Waiting for the disk", "iowait in %"],
  ["disk_busy", "Disk", "disk busy in %"],
  ["disk_read", "Disk, read", "bytes per second"],
  ["disk_write", "Disk, written", "bytes per second"],
  ["received", "Network, received", "bytes per second"],
  ["sent", "Network, sent", "bytes per second"],
];
const HOSTS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#882255", "#999933", "#332288", "#44AA99"];
class Timeline {
  constructor(box) {
    this.near = false;
    this.stale = true;
    this.plots = new Map();
    const trials = (first) => [...first, ...DATA.trials.map((trial, place) => make("option", { value: place }, `${trial.name} (${trial.id})`))];
    this.one = make("select", { id: "timeline-trial", onchange: () => this.refresh() }, ...trials([]));
    this.two = make("select", { id: "timeline-other", onchange: () => this.refresh() }, ...trials([make("option", { value: "" }, "none")]));
    this.part = make("select", { id: "timeline-part", onchange: () => this.refresh() });
    this.host = make("select", { id: "timeline-host", onchange: () => this.refresh() });
    const label = (text, select) => make("div", {}, make("label", { for: select.id }, text), select);
    this.grid = make("div", { class: "panels" });
    this.legend = make("div");
    this.table = make("details", { class: "numbers" }, make("summary", {}, "Show data", make("span", { class: "unseen" }, " of the timelines")));
    this.table.addEventListener("toggle", () => this.tell());
    box.append(make("div", { class: "bar picks" }, label("Trial", this.one), label("Second trial, dashed", this.two), label("Phase", this.part), label("Host", this.host)),
      make("div", { class: "bar tools" }, ...zoomButtons(() => Array.from(this.plots.values(), ({ plot }) => plot), "Timelines", true)),
      this.grid, this.legend, this.table);
    this.box = box;
  }
  async refresh() {
    this.stale = true;
    if (this.near) await this.draw();
  }
  async read(place) { return place === "" ? null : JSON.parse(await unpack(`timeline-${place}`)); }
  /** The options of phase and host as this trial has them; what was chosen stays. */
  options(trial) {
    const parts = trial.parts.map((part) => `${part.phase}${part.step || trial.parts.filter((one) => one.phase === part.phase).length > 1 ? `, step ${part.step}` : ""}`);
    refill(this.part, parts);
    const part = trial.parts[Math.max(0, parts.indexOf(this.part.value))];
    refill(this.host, ["all", ...Object.keys(part.hosts)]);
    return part;
  }
  draw() {
    this.queue = (this.queue ?? Promise.resolve()).then(() => (this.stale ? this.drawn() : null))
      .catch((error) => this.box.replaceChildren(make("p", { class: "note" }, `The timelines cannot be drawn: ${error.message}.`)));
    return this.queue;
  }
  async drawn() {
    this.stale = false;
    const Plotly = await plotly();
    const one = await this.read(this.one.value);
    const other = await this.read(this.two.value);
    const part = this.options(one);
    const twin = other?.parts.find(({ phase, step }) => phase === part.phase && step === part.step) ?? null;
    const hosts = Array.from(new Set([part, twin].filter(Boolean).flatMap((which) => Object.keys(which.hosts))));
    const lines = (metric) => [[part, this.one, "solid"], [twin, this.two, "dash"]].flatMap(([which, select, dash]) => {
      if (!which) return [];
      const { id: trial, colour: own } = DATA.trials[select.value];
      const values = metric === "operations" ? [["", which.operations, own]]
        : Object.entries(which.hosts).filter(([host]) => this.host.value === "all" || this.host.value === host || which === twin && !(this.host.value in twin.hosts))
          .map(([host, curves]) => [host, curves[metric], HOSTS[hosts.indexOf(host) % HOSTS.length]]);
      return values.filter(([, curve]) => curve?.length).map(([host, curve, colour]) => ({
        type: "scatter", mode: curve.length < 20 ? "lines+markers" : "lines", marker: { size: 5, color: colour }, name: host ? `${host}, ${trial}` : trial, x: curve.map((_, i) => which.x0 + i * which.dx), y: curve,
        line: { color: colour, dash, width: 1.8 }, connectgaps: false,
        hovertemplate: `%{y:,.4~s} in second %{x:.0f}<extra>${escaped(host ? `${host}, ${trial}` : trial)}</extra>`, meta: { f: null, engine: trial, rank: 0 },
      }));
    });
    this.shown = METRICS.map(([metric, title, axis]) => ({ metric, title, axis, data: lines(metric) })).filter(({ data }) => data.length);
    for (const [metric, title] of METRICS) {
      const there = this.shown.some((one_) => one_.metric === metric);
      if (!this.plots.has(metric)) {
        const plot = make("div", { class: "plot", role: "img", "aria-label": `Timeline: ${title}` });
        const panel = make("div", { class: "panel" }, make("h3", {}, title), plot);
        this.plots.set(metric, { plot, panel });
        this.grid.append(panel);
      }
      this.plots.get(metric).panel.hidden = !there;
    }
    const last = Math.max(1, ...this.shown.flatMap(({ data }) => data.map(({ x }) => x.at(-1))));
    for (const { metric, axis, data } of this.shown) {
      const { plot, panel } = this.plots.get(metric);
      const fresh = !plot.data;
      const percent = axis.endsWith("%");
      const layout = layoutOf({ layout: {
        xaxis: { title: { text: "seconds since the start of the phase" }, range: [0, last + part.x0] },
        yaxis: { title: { text: axis }, rangemode: "tozero", ...(percent ? { range: [0, 103] } : {}) },
        shapes: part.warm ? [{ type: "rect", xref: "x", yref: "paper", x0: 0, x1: part.warm, y0: 0, y1: 1, fillcolor: "rgba(128,128,128,0.2)", line: { width: 0 }, layer: "below" }] : [],
      } }, data, Math.floor(panel.clientWidth));
      layout.height = 250;
      await Plotly.react(plot, data.map(recoloured), layout, CONFIG);
      plot.home = { x: layout.xaxis.range.slice(), y: layout.yaxis.range?.slice() };
      if (fresh) listen(plot, () => Array.from(this.plots.values(), (two) => two.plot));
    }
    this.legend.replaceChildren(legendOf(this.shown.map(({ data }) => data.map(recoloured))));
    this.tell();
  }
  tell() {
    while (this.table.children.length > 1) this.table.lastChild.remove();
    if (!this.table.open || !this.shown) return;
    const rows = this.shown.flatMap(({ title, axis, data }) => data.flatMap(({ name, x, y }) => x.map((second, i) => [title, name, [spoken(second), second], [spoken(y[i]), y[i] ?? -1e300], axis])));
    const spec = { caption: "Data of the timelines", columns: ["panel", "line", "second", "value", "unit"], numeric: [false, false, true, true, false], rows };
    this.table.append(newTable("timeline-data", spec).box);
  }
}
function refill(select, names) {
  const before = select.value;
  if (Array.from(select.options, (option) => option.value).join("\n") !== names.join("\n")) {
    select.replaceChildren(...names.map((name) => make("option", { value: name }, name)));
  }
  select.value = names.includes(before) ? before : names[0];
}
let timeline = null;
if (DATA.trials.length) {
  timeline = new Timeline(byId("timeline"));
  const near = new IntersectionObserver(([entry]) => {
    timeline.near = entry.isIntersecting;
    if (timeline.near && timeline.stale) timeline.draw();
  }, { rootMargin: "400px" });
  near.observe(timeline.box);
  look.listeners.push(() => timeline.refresh());
}

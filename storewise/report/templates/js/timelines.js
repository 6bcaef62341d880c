// What one trial did over time, or two of them over each other: small plots of packed numbers.
const METRICS = [
  ["operations", "operations per second"], ["cpu", "host CPU in %, without waiting"], ["iowait", "waiting for the disk in %"], ["disk_busy", "disk busy in %"],
  ["disk_read", "bytes read per second"], ["disk_write", "bytes written per second"], ["received", "bytes received per second"], ["sent", "bytes sent per second"],
];
const HOSTS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "currentColor", "#A65B78", "#999933", "#8578C8", "#44AA99"];
const WIDE = 300, HIGH = 110, LEFT = 44;

function svg(name, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}
/** A plot of lines {name, colour, dashes, values, x0, dx} from 0 to `last` seconds. */
function plotOf(heading, lines, last, warm) {
  const top = heading.includes("%") ? 100 : Math.max(...lines.flatMap(({ values }) => values.filter((value) => value !== null))) || 1;
  const x = (second) => LEFT + ((WIDE - LEFT - 4) * second) / last;
  const y = (value) => 8 + (HIGH - 24) * (1 - value / top);
  const text = (at, words, anchor) => svg("text", { ...at, "font-size": 10, "text-anchor": anchor, fill: "currentColor" }, words);
  const most = top.toLocaleString("en", { notation: "compact", maximumSignificantDigits: 3 });
  const picture = svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": heading },
    svg("rect", { x: x(0), y: y(top), width: x(warm) - x(0), height: y(0) - y(top), fill: "currentColor", opacity: 0.1 }),
    svg("path", { d: `M${LEFT} ${y(top)}V${y(0)}H${WIDE - 4}`, fill: "none", stroke: "currentColor" }),
    text({ x: LEFT - 4, y: y(top) + 4 }, most, "end"), text({ x: LEFT - 4, y: y(0) }, "0", "end"),
    text({ x: LEFT, y: HIGH - 4 }, "0 s", "start"), text({ x: WIDE - 4, y: HIGH - 4 }, `${Math.round(last)} s`, "end"));
  for (const { name, colour, dashes, values, x0, dx } of lines) {
    const way = values.map((value, i) => (value === null ? "" : `${i && values[i - 1] !== null ? "L" : "M"}${x(x0 + i * dx).toFixed(1)} ${y(value).toFixed(1)}`)).join("");
    picture.append(svg("path", { d: way, fill: "none", stroke: colour, "stroke-width": 1.4, "stroke-dasharray": dashes }, svg("title", {}, name)));
  }
  return make("div", { class: "panel" }, make("h3", {}, heading), picture);
}

class Timeline {
  constructor(box) {
    const select = (id, options) => make("select", { id, onchange: () => this.draw() }, ...options.map(([value, text]) => make("option", { value }, text)));
    const trials = DATA.trials.map((trial, place) => [place, `${trial.name} (${trial.id})`]);
    this.one = select("timeline-trial", trials);
    this.two = select("timeline-other", [["", "none"], ...trials]);
    this.part = select("timeline-part", []);
    this.grid = make("div", { class: "panels" });
    this.legend = make("ul", { class: "legend", "aria-label": "Hosts" });
    const label = (text, input) => make("div", {}, make("label", { for: input.id }, text), input);
    box.append(make("div", { class: "bar picks" }, label("Trial", this.one), label("Second trial, dashed", this.two), label("Phase", this.part)), this.legend, this.grid);
    this.box = box;
  }
  async draw() {
    const read = async (place) => (place === "" ? null : JSON.parse(await unpack(`timeline-${place}`)));
    const [one, two] = [await read(this.one.value), await read(this.two.value)];
    const names = one.parts.map(({ phase, step }) => (step ? `${phase}, step ${step}` : phase));
    const before = names.indexOf(this.part.value);
    this.part.replaceChildren(...names.map((name) => make("option", { value: name }, name)));
    this.part.selectedIndex = Math.max(0, before);
    const part = one.parts[this.part.selectedIndex];
    const twin = two?.parts.find(({ phase, step }) => phase === part.phase && step === part.step);
    const drawn = [[part, this.one, ""], [twin, this.two, "5 3"]].filter(([which]) => which);
    const hosts = Array.from(new Set(drawn.flatMap(([which]) => Object.keys(which.hosts))));
    const colourOf = (host) => HOSTS[hosts.indexOf(host) % HOSTS.length];
    const linesOf = (metric) => drawn.flatMap(([which, { value }, dashes]) => {
      const { id, colour } = DATA.trials[value];
      const curves = metric === "operations" ? [[id, which.operations, colour]]
        : Object.entries(which.hosts).map(([host, curve]) => [`${host}, ${id}`, curve[metric], colourOf(host)]);
      return curves.filter(([, values]) => values?.length).map(([name, values, stroke]) => ({ name, values, colour: stroke, dashes, x0: which.x0, dx: which.dx }));
    });
    const shown = METRICS.map(([metric, heading]) => [heading, linesOf(metric)]).filter(([, lines]) => lines.length);
    const last = Math.max(1, ...shown.flatMap(([, lines]) => lines.map(({ values, x0, dx }) => x0 + values.length * dx)));
    this.grid.replaceChildren(...shown.map(([heading, lines]) => plotOf(heading, lines, last, part.warm ?? 0)));
    this.legend.replaceChildren(...hosts.map((host) => make("li", {}, make("span", { class: "swatch", style: `background:${colourOf(host)}` }), host)));
  }
}
if (DATA.trials.length) {
  const timeline = new Timeline(byId("timeline"));
  const near = new IntersectionObserver(([entry]) => {
    if (!entry.isIntersecting) return;
    near.disconnect();
    timeline.draw().catch((error) => timeline.box.replaceChildren(make("p", { class: "note" }, `The timelines cannot be drawn: ${error.message}.`)));
  });
  near.observe(timeline.box);
}

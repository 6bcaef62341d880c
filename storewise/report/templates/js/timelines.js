// Timelines of one trial: small plots of compressed numbers.
const METRICS = [
  ["cpu", "host CPU in %, without waiting"], ["iowait", "waiting for the disk in %"], ["disk_busy", "disk busy in %"],
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
/** A plot of lines {name, colour, values} from 0 to `last` seconds; `part` has their times. */
function plotOf(heading, lines, last, part) {
  const top = heading.includes("%") ? 100 : Math.max(...lines.flatMap(({ values }) => values.filter((value) => value !== null))) || 1;
  const x = (second) => LEFT + ((WIDE - LEFT - 4) * second) / last;
  const y = (value) => 8 + (HIGH - 24) * (1 - value / top);
  const text = (at, words, anchor) => svg("text", { ...at, "font-size": 10, "text-anchor": anchor, fill: "currentColor" }, words);
  const most = top.toLocaleString("en", { notation: "compact", maximumSignificantDigits: 3 });
  const picture = svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": heading },
    svg("rect", { x: x(0), y: y(top), width: x(part.warm) - x(0), height: y(0) - y(top), fill: "currentColor", opacity: 0.1 }),
    svg("path", { d: `M${LEFT} ${y(top)}V${y(0)}H${WIDE - 4}`, fill: "none", stroke: "currentColor" }),
    text({ x: LEFT - 4, y: y(top) + 4 }, most, "end"), text({ x: LEFT - 4, y: y(0) }, "0", "end"),
    text({ x: LEFT, y: HIGH - 4 }, "0 s", "start"), text({ x: WIDE - 4, y: HIGH - 4 }, `${Math.round(last)} s`, "end"));
  for (const { name, colour, values } of lines) {
    const way = values.map((value, i) => (value === null ? "" : `${i && values[i - 1] !== null ? "L" : "M"}${x(part.x0 + i * part.dx).toFixed(1)} ${y(value).toFixed(1)}`)).join("");
    picture.append(svg("path", { d: way, fill: "none", stroke: colour, "stroke-width": 1.4 }, svg("title", {}, name)));
  }
  return make("div", { class: "panel" }, make("h3", {}, heading), picture);
}

function addTimeline(box) {
  const select = (id, options) => make("select", { id, onchange: draw }, ...options.map((text, value) => make("option", { value }, text)));
  const label = (text, input) => make("div", {}, make("label", { for: input.id }, text), input);
  const trial = select("timeline-trial", DATA.trials.map(({ name, id }) => `${name} (${id})`));
  const phase = select("timeline-part", []);
  const grid = make("div", { class: "panels" });
  const legend = make("ul", { class: "legend", "aria-label": "Hosts" });
  const body = make("div", {}, make("div", { class: "bar picks" }, label("Trial", trial), label("Phase", phase)), legend, grid);
  box.append(body);

  async function show() {
    const { parts } = JSON.parse(await unpack(`timeline-${trial.value}`));
    const place = Math.max(0, phase.selectedIndex);
    phase.replaceChildren(...parts.map((part, value) => make("option", { value }, part.step ? `${part.phase}, step ${part.step}` : part.phase)));
    phase.selectedIndex = Math.min(place, parts.length - 1);
    const part = parts[phase.selectedIndex];
    const hosts = Object.keys(part.hosts);
    const colourOf = (host) => HOSTS[hosts.indexOf(host) % HOSTS.length];
    const linesOf = (metric) => hosts.map((name) => ({ name, colour: colourOf(name), values: part.hosts[name][metric] ?? [] }));
    const { id, colour } = DATA.trials[trial.value];
    const plots = [["operations per second", [{ name: id, colour, values: part.operations }]], ...METRICS.map(([metric, heading]) => [heading, linesOf(metric)])]
      .filter(([, lines]) => lines.some(({ values }) => values.length));
    const last = Math.max(1, ...plots.flatMap(([, lines]) => lines.map(({ values }) => part.x0 + values.length * part.dx)));
    grid.replaceChildren(...plots.map(([heading, lines]) => plotOf(heading, lines, last, part)));
    legend.replaceChildren(...hosts.map((host) => make("li", {}, make("span", { class: "swatch", style: `background:${colourOf(host)}` }), host)));
  }
  function draw() {
    show().catch((error) => body.replaceChildren(make("p", { class: "note" }, `The timelines cannot be drawn: ${error.message}.`)));
  }
  byId("timelines").addEventListener("toggle", draw, { once: true });
}
if (DATA.trials.length) addTimeline(byId("timeline"));

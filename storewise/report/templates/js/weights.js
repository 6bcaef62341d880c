// Weights set by the reader: sliders, and the answer for these weights.
const priorities = DATA.weights;
const weighable = priorities.criteria;
const slides = new Map();
/** The positions of the sliders for the verdict's own weights, whose answer is complete. */
const initial = new Map();
/** "A", "A or B", "A, B or 3 others". */
function anyOf(names) {
  if (names.length <= 3) return [names.slice(0, -1).join(", "), names.at(-1)].filter(Boolean).join(" or ");
  return `${names.slice(0, 2).join(", ")} or ${names.length - 2} others`;
}
function weigh(announce = true) {
  const weights = Object.fromEntries(Array.from(slides, ([name, slide]) => [name, Number(slide.value)]));
  const order = scored(priorities, weights);
  const untouched = weighable.every(({ name }) => Math.abs(slides.get(name).value - initial.get(name)) < 1e-9);
  const first = untouched ? priorities.named : order.filter(({ named }) => named).map(({ choice }) => choice);
  const same = announce && first.join() === priorities.named.join();
  const answer = byId("weighed");
  answer.replaceChildren(make("strong", {}, first.length ? `→ ${same ? "still " : ""}${anyOf(first)}` : "→ give a weight to something that was measured"));
  const rest = order.filter(({ choice }) => !(first.length === 1 && choice === first[0])).slice(0, 4);
  if (rest.length && first.length) answer.append(make("span", {}, ` (of the best score: ${rest.map(({ choice, relative }) => `${choice} ${Math.round(100 * relative)} %`).join(", ")})`));
  if (announce) say(answer.textContent);
}
/** Sets the sliders to weights (shares); the largest is 10. */
function slideTo(shares) {
  const most = Math.max(0, ...Object.values(shares));
  for (const [name, slide] of slides) slide.value = most > 0 ? (10 * (shares[name] ?? 0)) / most : 0;
}
const own = Object.fromEntries(weighable.map(({ name, weight }) => [name, weight]));
if (weighable.length > 1) {
  const box = byId("sliders");
  for (const { name } of weighable) {
    const slide = make("input", { type: "range", id: `weight-${name.replaceAll(/\W/g, "-")}`, min: 0, max: 10, step: 0.1, oninput: () => weigh() });
    slides.set(name, slide);
    box.append(make("label", {}, make("span", {}, priorities.titles[name] ?? name), slide));
  }
  box.append(make("button", { type: "button", onclick: () => { slideTo(own); weigh(); } }, "Reset"));
  slideTo(own);
  for (const [name, slide] of slides) initial.set(name, slide.value);
  weigh(false);
  byId("weights").open = innerWidth >= 640;
  byId("weights").hidden = false;
  document.querySelectorAll("#uses [data-use]").forEach((line) => {
    line.append(make("button", { type: "button", class: "set", title: "set the weights below to these", onclick: () => { slideTo(priorities.uses[Number(line.dataset.use)]); byId("weights").open = true; weigh(); } }, "set weights", make("span", { class: "unseen" }, ` of ${line.firstElementChild.textContent}`)));
  });
}
// For tests: the formula alone.
window.storewise = { scored, priorities };

// The choices above figures and tables, and how the page looks.
const box = byId("choices");
DATA.facets.forEach((facet, place) => {
  const inputs = facet.levels.map((name, level) => make("input", {
    type: "checkbox", checked: true, "data-facet": place, "data-level": level,
    onchange: (event) => {
      if (event.target.checked) chosen[place].add(level);
      else chosen[place].delete(level);
      update();
    },
  }));
  const set = (on) => {
    inputs.forEach((input, level) => { input.checked = on; if (on) chosen[place].add(level); else chosen[place].delete(level); });
    update();
  };
  const labels = inputs.map((input, level) => make("label", {}, input,
    facet.colours.length ? make("span", { class: "swatch", style: `background:${facet.colours[level]}`, "aria-hidden": "true" }) : null, facet.levels[level]));
  box.append(make("fieldset", { "data-choice": facet.name }, make("legend", {}, facet.heading), ...labels,
    ...(facet.levels.length > 2 ? [
      make("button", { type: "button", onclick: () => set(true) }, "all", make("span", { class: "unseen" }, ` of ${facet.heading}`)),
      make("button", { type: "button", onclick: () => set(false) }, "none", make("span", { class: "unseen" }, ` of ${facet.heading}`)),
    ] : [])));
});
function update() {
  const parts = DATA.facets.map((facet, place) => `${facet.heading.toLowerCase()} ${chosen[place].size} of ${facet.levels.length}`)
    .filter((_, place) => chosen[place].size < DATA.facets[place].levels.length);
  byId("chosen").textContent = parts.length ? `shown: ${parts.join(", ")}` : "all is shown";
  changed();
}
byId("choose").hidden = DATA.facets.every((facet) => facet.levels.length < 2);
byId("chosen").textContent = "all is shown";

/** Lines and rows of figures that are not chosen go, and so do panels of nothing else. */
const drawn = Array.from(document.querySelectorAll(".panel [data-f]"), (part) => ({ part, levels: JSON.parse(part.dataset.f) }));
choice.listeners.push(() => {
  for (const { part, levels } of drawn) part.toggleAttribute("hidden", !passes(levels));
  for (const panel of document.querySelectorAll(".panel:has([data-f])")) panel.hidden = !panel.querySelector("[data-f]:not([hidden])");
});

byId("scheme").addEventListener("change", (event) => {
  if (event.target.value) document.documentElement.dataset.scheme = event.target.value;
  else delete document.documentElement.dataset.scheme;
});
document.querySelector(".appearance").hidden = false;

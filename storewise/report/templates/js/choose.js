// The choices above the figures, and how the page looks.
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
    facet.colours ? make("span", { class: "swatch", "data-colour": facet.colours[level], "aria-hidden": "true" }) : null, facet.levels[level]));
  box.append(make("fieldset", { "data-choice": facet.name }, make("legend", {}, facet.heading), ...labels,
    ...(facet.levels.length > 2 ? [
      make("button", { type: "button", onclick: () => set(true) }, "all", make("span", { class: "unseen" }, ` of ${facet.heading}`)),
      make("button", { type: "button", onclick: () => set(false) }, "none", make("span", { class: "unseen" }, ` of ${facet.heading}`)),
    ] : [])));
});
const hasPublished = Array.from(document.querySelectorAll("script.graph")).some((one) => one.textContent.includes('"ref":true'));
if (hasPublished) {
  box.append(make("fieldset", {}, make("legend", {}, "Published curves"), make("label", {},
    make("input", { type: "checkbox", id: "published-curves", checked: true, onchange: (event) => { choice.published = event.target.checked; update(); } }),
    "laid over those of this study")));
}
function update() {
  const parts = DATA.facets.map((facet, place) => `${chosen[place].size} of ${facet.levels.length} ${facet.heading.toLowerCase()}`)
    .filter((_, place) => chosen[place].size < DATA.facets[place].levels.length);
  byId("chosen").textContent = parts.length ? `shown: ${parts.join(", ")}` : "all is shown";
  changed();
}
byId("choose").hidden = DATA.facets.every((facet) => facet.levels.length < 2) && !hasPublished;
byId("chosen").textContent = "all is shown";

const dark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.scheme ?? (dark.matches ? "dark" : "light")) === "dark";
/** A colour of the printed figures as it is seen on this page. */
const seen = (colour) => (isDark() && typeof colour === "string" ? DATA.dark[colour.toUpperCase()] ?? colour : colour);
function paint() {
  for (const swatch of document.querySelectorAll("[data-colour]")) swatch.style.background = seen(swatch.dataset.colour);
}
const look = { listeners: [] };
byId("scheme").addEventListener("change", (event) => {
  if (event.target.value) document.documentElement.dataset.scheme = event.target.value;
  else delete document.documentElement.dataset.scheme;
  relook();
});
dark.addEventListener("change", relook);
function relook() { paint(); for (const listener of look.listeners) listener(); }
document.querySelector(".appearance").hidden = false;

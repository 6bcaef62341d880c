// Last: printed figures, paper, anchors, and the first sight.
document.documentElement.classList.remove("plain");
/** The printed figures, for paper and for where nothing interactive is; the page's text has them. */
const printed = Array.from(document.querySelectorAll("noscript.printed"), (one) => {
  const image = new DOMParser().parseFromString(one.textContent, "text/html").querySelector("img");
  const figure = one.closest("figure");
  const live = figure.querySelector("script.graph");
  const put = make("img", { class: `static${live ? "" : " only"}`, alt: image.alt, loading: "eager", decoding: "async" });
  put.hidden = false;
  one.before(live ? put : make("div", { class: "plot still", role: "region", tabindex: "0", "aria-label": figure.querySelector("h3").textContent }, put));
  return { put, address: image.getAttribute("src"), live: Boolean(live) };
});
const load = () => { for (const { put, address } of printed) if (!put.src) put.src = address; };
for (const { put, address, live } of printed) if (!live) put.src = address;
(window.requestIdleCallback ?? ((run) => setTimeout(run, 500)))(load, { timeout: 4000 });
// While the verdict is read the library gets ready; a figure tells where that fails.
if (figures.length) (window.requestIdleCallback ?? ((run) => setTimeout(run, 500)))(() => plotly().catch(() => null), { timeout: 2000 });
for (const figure of figures) watcher.observe(figure.element);

let folded = [];
function paper(on) {
  if (on) {
    load();
    folded = Array.from(document.querySelectorAll("details:not([open]):not(.numbers)"));
  }
  for (const one of folded) one.open = on;
  if (!on) folded = [];
  views.forEach((view) => view.print(on));
}
addEventListener("beforeprint", () => paper(true));
addEventListener("afterprint", () => paper(false));

/** What a link leads to may be folded away. */
function unfold() {
  const target = location.hash ? byId(decodeURIComponent(location.hash.slice(1))) : null;
  for (let one = target?.closest("details"); one; one = one.parentElement?.closest("details")) one.open = true;
  if (target?.closest("details")) target.scrollIntoView();
}
addEventListener("hashchange", unfold);
unfold();

/** What has the focus must not lie under the choices that stay in view. */
const stays = byId("choose");
new ResizeObserver(() => {
  const fixed = getComputedStyle(stays).position === "sticky" && !stays.hidden;
  document.documentElement.style.scrollPaddingTop = fixed ? `${stays.offsetHeight + 8}px` : "";
}).observe(stays);

let width = innerWidth;
let waiting = 0;
addEventListener("resize", () => {
  if (innerWidth === width) return;
  width = innerWidth;
  cancelAnimationFrame(waiting);
  waiting = requestAnimationFrame(() => { figures.forEach((figure) => figure.refresh()); timeline?.refresh(); });
});
paint();

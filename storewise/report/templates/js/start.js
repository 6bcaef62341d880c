// Last: paper, anchors, and the first sight.
document.documentElement.classList.remove("plain");
let folded = [];
function paper(on) {
  if (on) folded = Array.from(document.querySelectorAll("details:not([open])"));
  for (const one of folded) one.open = on;
  if (!on) folded = [];
  views.forEach((view) => { view.all = on; view.turn(0); });
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

// Loaded last: printing, anchors, light or dark colours.
document.documentElement.classList.remove("plain");
let folded = [];
function paper(on) {
  if (on) folded = Array.from(document.querySelectorAll("details:not([open])"));
  for (const one of folded) one.open = on;
}
addEventListener("beforeprint", () => paper(true));
addEventListener("afterprint", () => paper(false));

/** Opens the folded part of the page that a link points to. */
function unfold() {
  const target = location.hash ? byId(decodeURIComponent(location.hash.slice(1))) : null;
  for (let one = target?.closest("details"); one; one = one.parentElement?.closest("details")) one.open = true;
  if (target?.closest("details")) target.scrollIntoView();
}
addEventListener("hashchange", unfold);
unfold();

byId("scheme").addEventListener("change", (event) => { document.documentElement.style.colorScheme = event.target.value; });

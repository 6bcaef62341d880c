// Shared by all parts of the page: its data, and small helpers.
const byId = (id) => document.getElementById(id);
const DATA = JSON.parse(byId("data").textContent);

/** A new element with attributes and children; strings become text nodes, never HTML. */
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") element.className = value;
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

/** Announces a change in the live region, for screen readers. */
function say(text) { byId("said").textContent = text; }

/** The text of a compressed part of the page, decompressed once. */
const unpacked = new Map();
function unpack(id) {
  if (!unpacked.has(id)) {
    unpacked.set(id, (async () => {
      if (typeof DecompressionStream === "undefined") {
        throw new Error("this browser cannot unpack data (it has no DecompressionStream)");
      }
      const raw = atob(byId(id).textContent.trim());
      // A plain loop: a function call for each of two million characters takes ten times as long.
      const bytes = new Uint8Array(raw.length);
      for (let place = 0; place < raw.length; place += 1) bytes[place] = raw.charCodeAt(place);
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
      return new Response(stream).text();
    })());
  }
  return unpacked.get(id);
}

/** Copies a text to the clipboard; if that is not allowed, selects the text, to copy by hand. */
async function copyText(text, shown) {
  try {
    await navigator.clipboard.writeText(text);
    say("Copied.");
  } catch {
    shown.textContent = text;
    shown.hidden = false;
    getSelection().selectAllChildren(shown);
    say("The text is selected: copy it with the keyboard.");
  }
}
for (const button of document.querySelectorAll("[data-copy]")) {
  const shown = byId(button.dataset.copy);
  button.hidden = false;
  button.addEventListener("click", () => copyText(shown.textContent.trim(), shown));
}

// @ts-check
/** Keys: single ones that follow a link or focus a field, g and a letter for a page, j and k for rows, ? for help. */

let going = false;

addEventListener("keydown", (event) => {
  if (event.target instanceof HTMLElement && event.target.matches("input:not([type=range], [type=checkbox]), textarea, select")) return;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const { key } = event;
  const done = going ? press(`[data-go="${CSS.escape(key)}"]`) : key === "j" || key === "k" ? row(key === "j" ? 1 : -1) : key === "w" ? figure() : key === "?" ? help() : press(`[aria-keyshortcuts="${CSS.escape(key)}"]`);
  going = key === "g" && !going;
  if (done) event.preventDefault();
});

/** @param {string} selector */
function press(selector) {
  const [found] = visible(document.documentElement, selector);
  if (!(found instanceof HTMLElement)) return false;
  found.focus();
  if (!found.matches("input")) found.click();
  return true;
}

/** The elements in a part of the page that can be seen. @param {Element | null} part @param {string} selector */
function visible(part, selector) {
  return [...(part?.querySelectorAll(selector) ?? [])].filter((each) => each instanceof HTMLElement && each.offsetParent !== null);
}

/** Goes to the link of the next row, or the one before. @param {number} by */
function row(by) {
  const links = [...document.querySelectorAll("main tbody tr")].map((each) => visible(each, "a[href]:not(.moved)")[0] ?? visible(each, "a[href]")[0]).filter((each) => each);
  const at = links.findIndex((each) => each?.closest("tr")?.contains(document.activeElement));
  const next = links[at < 0 ? (by > 0 ? 0 : links.length - 1) : at + by];
  if (!(next instanceof HTMLElement)) return false;
  next.focus();
  return true;
}

/** Goes to the next figure of the row, or of the page where no row is chosen, that leads to who moved it last. */
function figure() {
  const of = document.activeElement?.closest("main tr") ?? document.querySelector("main");
  const links = visible(of, "a.moved");
  const next = links[(links.findIndex((each) => each === document.activeElement) + 1) % links.length];
  if (!(next instanceof HTMLElement)) return false;
  next.focus();
  return true;
}

function help() {
  const dialog = document.querySelector("#keys");
  if (!(dialog instanceof HTMLDialogElement)) return false;
  if (dialog.open) dialog.close();
  else dialog.showModal();
  return true;
}
document.querySelector("[data-help]")?.addEventListener("click", (event) => help() && event.preventDefault());

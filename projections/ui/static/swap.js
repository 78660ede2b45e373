// @ts-check
/** Changes a part of the page in place: what is typed, checked, opened or selected stays, changed cells flash, and the
 * rows of a table that is pointed at don't move. */

const note = document.querySelector("#waits");
/** What is shown, and what waits until the pointer has gone, by element. @type {Map<string, string>} */
const shown = new Map();
/** @type {Map<string, string>} */
const waiting = new Map();

/** @param {Element} element @param {string} html */
export function swap(element, html) {
  if (shown.get(element.id) === html) return;
  const table = held(element);
  if (table) {
    const moves = inPlace(table, html);
    if (moves) {
      waiting.set(element.id, html);
      tell(moves);
      return;
    }
  }
  waiting.delete(element.id);
  shown.set(element.id, html);
  morph(element, html.trim());
  tell(0);
}

/** The table in a part that somebody points at or stands in. @param {Element} element */
function held(element) {
  const table = element.matches("[data-hold]") ? element : element.querySelector("[data-hold]");
  return table && (table.matches(":hover") || table.contains(document.activeElement)) ? table : null;
}

/** Changes the rows that are there, and says how many others come, go or move. @param {Element} table @param {string} html */
function inPlace(table, html) {
  const fresh = new DOMParser().parseFromString(html, "text/html");
  const next = [...fresh.querySelectorAll("[data-hold] tr[id]")];
  const now = [...table.querySelectorAll("tr[id]")];
  const places = new Map(now.map((row, place) => [row.id, place]));
  const same = next.filter((row) => places.has(row.id));
  const moved = same.filter((row, place) => place && Number(places.get(row.id)) < Number(places.get(same[place - 1].id)));
  const moves = next.length - same.length + now.length - same.length + moved.length;
  if (moves) for (const row of same) morph(now[Number(places.get(row.id))], row.outerHTML);
  return moves;
}

/** @param {Element} element @param {string} html */
function morph(element, html) {
  /** @type {Element[]} */
  const changed = [];
  Idiomorph.morph(element, html, {
    morphStyle: "outerHTML",
    ignoreActiveValue: true,
    callbacks: {
      beforeNodeMorphed(/** @type {Node} */ old, /** @type {Node} */ next) {
        if (!(old instanceof Element) || !(next instanceof Element)) return true;
        if (old.hasAttribute("data-keep")) return false;
        if (old instanceof HTMLDetailsElement) next.toggleAttribute("open", old.open);
        if (old instanceof HTMLInputElement && next instanceof HTMLInputElement && old.type === "checkbox") next.toggleAttribute("checked", old.checked);
        if (old.matches("td:not([data-still], [data-still] *)") && old.textContent !== next.textContent) changed.push(old);
        return true;
      },
    },
  });
  for (const cell of changed) cell.classList.add("changed");
  for (const each of [element, ...element.querySelectorAll("[data-keep]")]) each.dispatchEvent(new CustomEvent("paceline:swap"));
}

/** @param {number} moves */
function tell(moves) {
  if (!(note instanceof HTMLElement)) return;
  note.hidden = moves === 0 && waiting.size === 0;
  if (moves) note.textContent = `${moves} ${moves === 1 ? "change waits" : "changes wait"} until the pointer leaves the table`;
}

function settle() {
  for (const [id, html] of waiting) {
    const element = document.getElementById(id);
    if (!element) waiting.delete(id);
    else if (!held(element)) swap(element, html);
  }
}
for (const kind of ["pointerover", "pointerout", "focusin", "focusout"]) document.addEventListener(kind, () => waiting.size && queueMicrotask(settle));
document.documentElement.addEventListener("pointerleave", () => waiting.size && setTimeout(settle));

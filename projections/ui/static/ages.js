// @ts-check
/** Ages go on between two versions of a page: each is counted from the time in its data-since. */

/** How far the clock here is ahead of that of the server. */
const ahead = Date.now() - Number(document.body.dataset.now);

/** 41 s, 12 min, 3 h 26 min, 12 d: as the server writes it. @param {number} ms */
function lasts(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const [minutes, hours, days] = [60, 3600, 86400].map((each) => Math.floor(seconds / each));
  if (seconds < 60) return `${seconds} s`;
  if (minutes < 60) return `${minutes} min`;
  return hours < 48 ? `${hours} h ${String(minutes % 60).padStart(2, "0")} min` : `${days} d`;
}

export function count() {
  for (const each of document.querySelectorAll("[data-since]")) {
    const text = lasts(Date.now() - ahead - Number(each.getAttribute("data-since")));
    if (each.textContent !== text) each.textContent = text;
  }
}

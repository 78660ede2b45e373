// @ts-check
/** The time bar: the handle leads to a moment, steps count from now while the page is live. */

const bar = document.querySelector(".time");
const slider = document.querySelector("#at");
const shown = document.querySelector("[data-moment]");
/** When the cell began, and what the bar spans: it grows while the page is live. */
const span = () => {
  const { begin, from, to } = /** @type {HTMLElement} */ (document.querySelector("#live_track")).dataset;
  return { begin: Number(begin), from: Number(from), to: Number(to) };
};

/** Shows this page at a moment. @param {string} at */
function go(at) {
  const query = new URLSearchParams(location.search);
  if (at) query.set("at", at);
  else query.delete("at");
  location.search = query.toString();
}

/** @param {number} ms */
const iso = (ms) => new Date(ms).toISOString();
/** 24 Nov 14:03:27Z @param {number} ms */
const written = (ms) => {
  const [, , day, month, , clock] = /^(\w+), (\d+) (\w+) (\d+) ([\d:]+)/.exec(new Date(ms).toUTCString()) ?? [];
  return `${day} ${month} ${clock}Z`;
};

if (bar instanceof HTMLElement && slider instanceof HTMLInputElement) {
  const last = Number(slider.max);
  const past = Boolean(bar.dataset.atMs);
  // in the present its right end is now, whenever that is
  const moment = () => {
    const { begin, from, to } = span();
    return Math.max(begin, (past ? to : Date.now()) - (1 - slider.valueAsNumber / last) * (to - from));
  };
  const live = () => moment() >= Date.now();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let leaving;
  slider.addEventListener("input", () => {
    clearTimeout(leaving);
    const text = live() ? "now" : written(moment());
    slider.setAttribute("aria-valuetext", text);
    if (shown) shown.textContent = text;
  });
  // keys change it a little each: it leads there when the last of them was pressed
  slider.addEventListener("change", () => (leaving = setTimeout(() => (past || !live()) && go(live() ? "" : iso(moment())), 400)));
  if (!past) bar.addEventListener("click", step);
  bar.addEventListener("click", mark);
}

/** A mark leads to its moment on this page. @param {Event} event */
function mark(event) {
  const link = event.target instanceof Element && event.target.closest("[data-at]");
  if (!link || (event instanceof MouseEvent && (event.ctrlKey || event.metaKey || event.shiftKey))) return;
  event.preventDefault();
  go(link.getAttribute("data-at") ?? "");
}

/** In the present the links of steps are as old as the page. @param {Event} event */
function step(event) {
  const link = event.target instanceof Element && event.target.closest("[data-step]");
  if (!(link instanceof HTMLElement) || (event instanceof MouseEvent && (event.ctrlKey || event.metaKey || event.shiftKey))) return;
  const { round, cell } = /** @type {HTMLElement} */ (document.querySelector("#live_moment")).dataset;
  event.preventDefault();
  go(link.dataset.step === "round" ? `${cell}/placement/round/${Number(round) - 1}` : iso(Math.max(span().begin, Date.now() + Number(link.dataset.step))));
}

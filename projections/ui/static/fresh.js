// @ts-check
/** Keeps the page as fresh as the stream, and says how fresh that is. */
import { count } from "./ages.js";
import { Live } from "./live.js";
import { swap } from "./swap.js";

const SILENT_MS = 12_000;
const { watch, time, worker } = document.body.dataset;
const label = document.querySelector("#fresh");
let heard = Date.now();
let behind = 0;
let lost = false;

/** @param {import("./live.js").News} news */
function take(news) {
  if ("part" in news) {
    const element = document.getElementById(news.part[1]);
    if (element) swap(element, news.part[2]);
  } else if ("fresh" in news) {
    [heard, behind, lost] = [Date.now(), news.fresh, false];
    say();
  } else if ("lost" in news) {
    lost = true;
    say();
  } else if (label) {
    label.textContent = news.gone[1];
    label.classList.add("stale");
    leave();
  }
}

function say() {
  if (!label) return;
  const silent = Date.now() - heard;
  const stale = lost || silent > SILENT_MS;
  label.classList.toggle("stale", stale);
  if (!stale) count();
  const text = stale ? `not live since ${Math.round(silent / 1000)} s: reconnecting` : `live, ${behind.toFixed(1)} s behind`;
  const said = label.querySelector("span");
  if (said && said.textContent !== text) said.textContent = text;
}

let enter = () => {};
let leave = () => {};
if (watch) {
  const watches = time ? [watch, time] : [watch];
  if ("SharedWorker" in globalThis && worker) {
    const { port } = new SharedWorker(worker, { type: "module", name: "live" });
    port.onmessage = ({ data }) => take(data);
    enter = () => port.postMessage(watches);
    leave = () => port.postMessage("leave");
    enter();
  } else {
    // without a worker only the tab that is seen holds a stream
    const live = new Live();
    enter = () => (document.hidden ? live.leave(take) : live.watch(take, watches));
    leave = () => live.leave(take);
    document.addEventListener("visibilitychange", enter);
    enter();
  }
  addEventListener("pagehide", () => leave());
  addEventListener("pageshow", ({ persisted }) => persisted && enter());
  setInterval(say, 1000);
}

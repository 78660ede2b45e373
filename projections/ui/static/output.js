// @ts-check
/** The output of a run: both streams, loaded, and followed until the run has ended by one question at a time. */

const WAIT = "20s";
const FOLLOW_MS = 700;
const AGAIN_MS = 3000;
const KEPT = 400_000;
const FIRST = -200_000;

/** @typedef {{box: HTMLElement, address: string, decoder: TextDecoder, offset: number, end: number, ended: boolean}} Stream
 * `end`: how much it has by now, below 0: not known. */

for (const part of document.querySelectorAll("[data-outputs]")) {
  const boxes = [...part.querySelectorAll("[data-output]")].filter((each) => each instanceof HTMLElement);
  void follow(boxes.map((box) => ({ box, address: box.dataset.output ?? "", decoder: new TextDecoder(), offset: FIRST, end: -1, ended: false })));
}

/** @param {Stream[]} streams */
async function follow(streams) {
  const [first] = streams;
  if (!first) return;
  for (const { box } of streams) box.replaceChildren();
  show(streams);
  for (;;) {
    const open = streams.filter((each) => !each.ended);
    const stream = open.find((each) => each.end < 0 || each.end > each.offset) ?? open[0];
    if (!stream) break;
    const [other] = open.filter((each) => each !== stream);
    const waits = stream.end === stream.offset;
    if (waits) await seen();
    const answer = await ask(stream, waits ? `&wait=${WAIT}&other_offset=${other?.offset ?? -1}` : "");
    if (answer === "hidden") continue;
    if (answer && !answer.ok && answer.status < 500 && answer.status !== 429) {
      const problem = await answer.json().catch(() => ({}));
      tell(first.box, problem.detail ?? "The output can't be loaded.");
      return;
    }
    if (!answer?.ok) {
      tell(first.box, "The output can't be loaded now; it is tried again.");
      await pause(AGAIN_MS);
      for (const each of open) if (each.offset >= 0) each.end = -1;
      continue;
    }
    untell(first.box);
    const size = await take(stream, answer);
    const otherEnd = number(answer, "Log-Other-End");
    if (other && other.offset >= 0 && otherEnd >= 0) other.end = otherEnd;
    show(streams);
    if (waits && !size && stream.end < 0) {
      await pause(FOLLOW_MS); // its agent is older, and doesn't wait
    }
  }
  if (streams.every((each) => !each.box.textContent)) tell(first.box, "It has written nothing.");
}

/** @param {Stream} stream @param {string} more @returns {Promise<Response | "hidden" | null>} */
async function ask(stream, more) {
  const leaving = new AbortController();
  const look = () => document.hidden && more && leaving.abort();
  document.addEventListener("visibilitychange", look);
  try {
    return await fetch(`${stream.address}&offset=${stream.offset}${more}`, { signal: leaving.signal });
  } catch {
    return leaving.signal.aborted ? "hidden" : null;
  } finally {
    document.removeEventListener("visibilitychange", look);
  }
}

/** Takes a piece of a stream; how many bytes it has. @param {Stream} stream @param {Response} answer */
async function take(stream, answer) {
  const data = new Uint8Array(await answer.arrayBuffer());
  const [at, next, end] = [number(answer, "Log-Offset"), number(answer, "Log-Next-Offset"), number(answer, "Log-End")];
  if (at > Math.max(0, stream.offset)) gap(stream.box, stream.offset < 0 ? "… " : `\n… ${(at - stream.offset).toLocaleString("en")} bytes are not kept any more …\n`);
  stream.offset = next;
  stream.ended = answer.headers.get("Log-Ended") === "1";
  stream.end = end >= 0 ? end : data.length ? -1 : next;
  if (!stream.address.includes("&run=") && number(answer, "Log-Run") > 0) stream.address += `&run=${number(answer, "Log-Run")}`;
  add(stream.box, stream.decoder.decode(data, { stream: true }));
  return data.length;
}

/** @param {Response} answer @param {string} name */
function number(answer, name) {
  return Number(answer.headers.get(name) ?? -1);
}

/** Hides a stream to which nothing was written, unless none was. @param {Stream[]} streams */
function show(streams) {
  for (const [at, { box }] of streams.entries()) {
    const place = box.closest("figure");
    if (place) place.hidden = !box.textContent && (at > 0 || streams.some((each) => each.box.textContent));
  }
}

/** Waits so long. @param {number} ms */
function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Waits until somebody looks. */
async function seen() {
  while (document.hidden) await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
}

/** Adds text without characters that turn or hide what is around them, and stays at the end if it was there.
 * @param {HTMLElement} box @param {string} text */
function add(box, text) {
  if (!text) return;
  const atEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 4;
  const plain = text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
  box.append(plain);
  if ((box.textContent?.length ?? 0) > KEPT) box.textContent = `…${box.textContent?.slice(-KEPT / 2)}`;
  if (atEnd) box.scrollTop = box.scrollHeight;
}

/** @param {HTMLElement} box @param {string} text */
function gap(box, text) {
  const note = document.createElement("span");
  note.className = "t";
  note.textContent = text;
  box.append(note);
}

/** @param {HTMLElement} box @param {string} text */
function tell(box, text) {
  untell(box);
  gap(box, text);
  box.lastElementChild?.setAttribute("role", "status");
}

/** @param {HTMLElement} box */
function untell(box) {
  box.querySelector("[role=status]")?.remove();
}

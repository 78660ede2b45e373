// @ts-check
/** The output of a run: loaded, and followed until the run has ended. */

const FOLLOW_MS = 700;
const AGAIN_MS = 3000;
const KEPT = 400_000;

for (const box of document.querySelectorAll("[data-output]")) if (box instanceof HTMLElement) void follow(box, box.dataset.output ?? "");

/** @param {HTMLElement} box @param {string} address */
async function follow(box, address) {
  const decoder = new TextDecoder();
  let offset = 0;
  box.replaceChildren();
  for (;;) {
    const answer = await fetch(`${address}&offset=${offset}`).catch(() => null);
    if (answer && !answer.ok && answer.status < 500) {
      const problem = await answer.json().catch(() => ({}));
      tell(box, problem.detail ?? "The output can't be loaded.");
      return;
    }
    if (!answer?.ok) {
      tell(box, "The output can't be loaded now; it is tried again.");
      await pause(AGAIN_MS);
      continue;
    }
    box.querySelector("span")?.remove();
    const data = new Uint8Array(await answer.arrayBuffer());
    offset = Number(answer.headers.get("Log-Next-Offset"));
    add(box, decoder.decode(data, { stream: true }));
    if (!data.length) {
      if (answer.headers.get("Log-Ended") === "1") break;
      await pause(FOLLOW_MS);
    }
  }
  if (!box.textContent) tell(box, "It has written nothing.");
}

/** Waits so long, and until somebody looks. @param {number} ms */
async function pause(ms) {
  await new Promise((resolve) => setTimeout(resolve, ms));
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
function tell(box, text) {
  box.querySelector("span")?.remove();
  const note = document.createElement("span");
  note.className = "t";
  note.textContent = text;
  box.append(note);
}

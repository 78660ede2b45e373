// @ts-check
/** What live runs use, asked of their hosts every five seconds while the page is seen. */

const MEASURED_EVERY_MS = 5000;

for (const part of document.querySelectorAll("[data-usage]")) if (part instanceof HTMLElement) void follow(part);

/** @param {HTMLElement} part */
async function follow(part) {
  for (;;) {
    if (!document.hidden && part.isConnected) {
      const answer = await fetch(part.dataset.usage ?? "").catch(() => null);
      const body = await answer?.json().catch(() => null);
      if (answer?.ok && body) show(part, body.runs, body.silent ?? []);
      else say(part, body?.detail ?? "It can't be asked now; it is tried again.");
      if (answer && answer.status === 404) return;
    }
    await new Promise((done) => setTimeout(done, MEASURED_EVERY_MS));
  }
}

/** @param {HTMLElement} part @param {Record<string, any>[]} runs @param {{host_id: string, reason: string}[]} silent */
function show(part, runs, silent) {
  const rows = runs.map((run) => {
    const row = document.createElement("tr");
    const name = part.dataset.of === "host" ? `${run.job_id}/${run.instance}` : `${run.instance}`;
    row.append(cell(name, "lead"), cell(`${run.run}`, "n", "Run"));
    row.append(cell(cores(run.cpu_milli), "n", "CPU"), cell(cores(run.asked_cpu_milli), "n", "Asked"));
    row.append(cell(mib(run.memory_kib), "n", "Memory"), cell(mib(run.asked_memory_kib), "n", "Asked"));
    row.append(cell(mib(run.peak_kib), "n", "Peak"), cell(lasting(run.idle_s), "n", "Idle"));
    return row;
  });
  part.querySelector("tbody")?.replaceChildren(...rows);
  const away = silent.map((host) => `${host.host_id}: ${host.reason}`).join("; ");
  say(part, runs.length ? away : away || "No run goes on that was measured yet.");
}

/** @param {HTMLElement} part @param {string} text */
function say(part, text) {
  const line = part.querySelector("p");
  if (line) line.textContent = text;
}

/** @param {string} text @param {string} kind @param {string} [title] */
function cell(text, kind, title) {
  const made = document.createElement("td");
  const inner = document.createElement("span");
  made.className = kind;
  if (title) made.dataset.k = title;
  inner.textContent = text;
  made.append(inner);
  return made;
}

/** @param {number} milli */
function cores(milli) {
  return (milli / 1000).toFixed(2);
}

/** @param {number} kib */
function mib(kib) {
  return `${Math.round(kib / 1024).toLocaleString("en")} MiB`;
}

/** @param {number} seconds */
function lasting(seconds) {
  if (seconds >= 86400) return `${Math.floor(seconds / 86400)} d`;
  if (seconds >= 3600) return `${Math.floor(seconds / 3600)} h`;
  return seconds >= 60 ? `${Math.floor(seconds / 60)} min` : "-";
}

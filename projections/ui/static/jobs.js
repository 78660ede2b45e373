// @ts-check
/** Choosing jobs of the list: how many they are, and the buttons that change them. */

const form = document.querySelector("form[data-bulk]");
if (form instanceof HTMLFormElement) start(form);

/** @param {HTMLFormElement} form */
function start(form) {
  const bar = /** @type {HTMLElement | null} */ (form.querySelector("#bulk"));
  if (!bar) return;
  const say = /** @type {HTMLElement} */ (bar.querySelector("[data-say]"));
  const all = /** @type {HTMLInputElement} */ (bar.querySelector("[data-all]"));

  function count() {
    const boxes = [...form.querySelectorAll("input[name=job]:checked")];
    const tasks = boxes.reduce((sum, box) => sum + Number(box instanceof HTMLElement ? box.dataset.tasks : 0), 0);
    if (bar) bar.hidden = !boxes.length && !all.checked;
    say.textContent = all.checked
      ? "All of the list"
      : `${boxes.length.toLocaleString("en")} ${boxes.length === 1 ? "job" : "jobs"}, ${tasks.toLocaleString("en")} ${tasks === 1 ? "task" : "tasks"} chosen`;
  }
  form.addEventListener("change", count);
  bar.querySelector("[data-clear]")?.addEventListener("click", () => {
    for (const box of form.querySelectorAll("input[type=checkbox]")) if (box instanceof HTMLInputElement) box.checked = false;
    count();
  });
  form.addEventListener("paceline:swap", count, true);
  addEventListener("pageshow", count);
  count();
}

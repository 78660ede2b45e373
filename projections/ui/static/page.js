// @ts-check
/** What every page needs: keys that follow links. */

addEventListener("keydown", (event) => {
  if (event.target instanceof HTMLElement && event.target.matches("input:not([type=range]), textarea, select")) return;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const link = document.querySelector(`[aria-keyshortcuts="${CSS.escape(event.key)}"]`);
  if (!(link instanceof HTMLElement)) return;
  event.preventDefault();
  if (link.matches("input")) link.focus();
  else link.click();
});

// @ts-check
/** The theme: that of the system, unless ?theme= or an earlier choice says another. Runs before anything is painted. */
{
  const chosen = new URLSearchParams(location.search).get("theme");
  try {
    if (chosen === "system") localStorage.removeItem("theme");
    else if (chosen === "light" || chosen === "dark") localStorage.setItem("theme", chosen);
    const theme = localStorage.getItem("theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen; // nothing is kept here
  }
}

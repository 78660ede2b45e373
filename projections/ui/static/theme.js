// @ts-check
/** The theme: that of the system, unless ?theme= or an earlier choice says another. Runs before anything is painted. */
{
  const url = new URL(location.href);
  const chosen = url.searchParams.get("theme");
  url.searchParams.delete("theme");
  if (chosen) history.replaceState(null, "", url);
  try {
    if (chosen === "system") localStorage.removeItem("theme");
    else if (chosen === "light" || chosen === "dark") localStorage.setItem("theme", chosen);
    const theme = localStorage.getItem("theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen; // nothing is kept here
  }
}

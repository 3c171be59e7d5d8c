// Light, dark, or as the system: kept in this browser, set before the first paint.

/** @typedef {"system" | "light" | "dark"} Theme */

const KEY = "clew.theme";

/** @returns {Theme} */
export function getTheme() {
  const kept = localStorage.getItem(KEY);
  return kept === "light" || kept === "dark" ? kept : "system";
}

/** @param {Theme} theme */
export function setTheme(theme) {
  if (theme === "system") localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, theme);
  applyTheme();
}

export function applyTheme() {
  const theme = getTheme();
  if (theme === "system") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.setAttribute("data-theme", theme);
}

applyTheme();

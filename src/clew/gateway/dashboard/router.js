// Addresses and pages. A page is a function that fills an element and returns what undoes it. The
// address says everything that has to survive a reload: page, session, message, filters.

/** Told to the document before another page is shown. */
export const LEAVING = "clew:leaving";

/** @type {Map<string, View>} */
let views = new Map();
/** @type {HTMLElement} */
let root;
/** @type {void | (() => void)} */
let leave;
/** @type {Set<(place: Place) => void>} */
const watchers = new Set();

/**
 * Show the page of the address, now and whenever it changes.
 *
 * @param {HTMLElement} element where pages are shown
 * @param {Record<string, View>} pages by path; `/s/` is the page of a session
 */
export function startRouter(element, pages) {
  root = element;
  views = new Map(Object.entries(pages));
  addEventListener("popstate", show);
  document.addEventListener("click", followLink);
  show();
}

/** Leave the page that is shown, for none: nothing of it goes on. */
export function stopRouter() {
  removeEventListener("popstate", show);
  leave?.();
  leave = undefined;
}

/**
 * Go to an address of the dashboard. With `replace` the back button skips where we were.
 *
 * @param {string} address
 * @param {{replace?: boolean}} [options]
 */
export function go(address, { replace = false } = {}) {
  document.dispatchEvent(new Event(LEAVING));
  history[replace ? "replaceState" : "pushState"](null, "", address);
  show();
}

/**
 * Change the query of the address without showing the page anew. With `push` the back button shows
 * the page as it was before.
 *
 * @param {Record<string, string | null>} values null takes one out
 * @param {{push?: boolean}} [options]
 */
export function setQuery(values, { push = false } = {}) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(values)) {
    if (value === null || value === "") query.delete(name);
    else query.set(name, value);
  }
  const text = query.size > 0 ? `?${query}` : "";
  const address = location.pathname + text + location.hash;
  if (push) history.pushState(null, "", address);
  else history.replaceState(history.state, "", address);
}

/** What a page keeps with this entry of the history, such as where it was scrolled to. @returns {any} */
export function keptPlace() {
  return history.state;
}

/**
 * Keep something with this entry, for a reload or the back button. A page does so now and then, and
 * at the event `LEAVING` of the document.
 *
 * @param {any} value
 */
export function keepPlace(value) {
  history.replaceState(value, "");
}

/** Where we are. @returns {Place} */
export function here() {
  const path = location.pathname;
  return {
    path: path.startsWith("/s/") ? "/s/" : path,
    id: path.startsWith("/s/") ? path.slice(3) : "",
    query: new URLSearchParams(location.search),
    hash: location.hash.slice(1),
  };
}

/**
 * Be told after each change of page.
 *
 * @param {(place: Place) => void} watcher
 */
export function watchPlace(watcher) {
  watchers.add(watcher);
}

function show() {
  leave?.();
  const place = here();
  root.replaceChildren();
  root.scrollTop = 0;
  leave = (views.get(place.path) ?? views.get("/"))?.(root, place);
  for (const watcher of watchers) watcher(place);
}

/** Links to our own pages are followed without loading. @param {MouseEvent} event */
function followLink(event) {
  if (event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = /** @type {Element} */ (event.target).closest?.("a");
  if (!link || link.target || link.hasAttribute("download")) return;
  const url = new URL(link.href, location.href);
  const isPage = views.has(url.pathname) || url.pathname.startsWith("/s/");
  if (url.origin !== location.origin || !isPage || link.closest(".rendered")) return;
  event.preventDefault();
  go(url.pathname + url.search + url.hash);
}

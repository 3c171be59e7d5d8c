// Elements. Text from the server reaches the page as text nodes here, or as the server's own
// sanitised HTML through `setServerHtml`: the only place in the dashboard that parses HTML.

const policy = globalThis.trustedTypes?.createPolicy("clew", {
  createHTML: (/** @type {string} */ html) => html,
  createScriptURL: (/** @type {string} */ url) => {
    if (url !== "/worker.js") throw new TypeError("the only other script is the service worker");
    return url;
  },
});

/**
 * Make an element. A property whose name begins with `on` is a listener; `class`, `aria-…`,
 * `data-…` and the like are attributes; a property with the value null, undefined or false is left
 * out, and true is an attribute without a value.
 *
 * @param {string} tag
 * @param {Record<string, any> | null} [properties]
 * @param {...Child} children
 * @returns {any}
 */
export function h(tag, properties = null, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else setAttribute(element, name, value);
  }
  append(element, children);
  return element;
}

/**
 * An icon of the sprite below.
 *
 * @param {string} name
 * @returns {SVGElement}
 */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  path.setAttribute("d", ICONS[name] ?? "M12 12h.01");
  svg.append(path);
  return svg;
}

/**
 * Replace what is in an element.
 *
 * @param {Element} element
 * @param {...Child} children
 */
export function replace(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

/**
 * Show HTML that the server has sanitised (`render=html`, and nothing else).
 *
 * @param {Element} element
 * @param {string} html
 */
export function setServerHtml(element, html) {
  element.innerHTML = /** @type {string} */ (
    /** @type {unknown} */ (policy?.createHTML(html) ?? html)
  );
}

/** Start the service worker, where the browser has one. */
export function startWorker() {
  const url = policy?.createScriptURL("/worker.js") ?? "/worker.js";
  navigator.serviceWorker?.register(/** @type {any} */ (url)).catch(() => {
    // The page works without it; it is missing on plain http to other hosts, for example.
  });
}

/**
 * @param {Element} element
 * @param {string} name
 * @param {any} value
 */
function setAttribute(element, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (name === "value" || name === "checked" || name === "indeterminate") {
    /** @type {any} */ (element)[name] = value;
  } else element.setAttribute(name, value === true ? "" : String(value));
}

/**
 * @param {Element} element
 * @param {Child[]} children
 */
function append(element, children) {
  for (const child of children) {
    if (Array.isArray(child)) append(element, child);
    else if (child !== null && child !== undefined && child !== false) {
      element.append(child instanceof Node ? child : String(child));
    }
  }
}

/** Paths of 24 × 24 icons, drawn as lines. @type {Record<string, string>} */
const ICONS = {
  sessions: "M4 6h16M4 12h16M4 18h10",
  memory: "M6 4h9l4 4v12H6zM15 4v4h4M9 13h7M9 17h5",
  usage: "M5 20V10M12 20V4M19 20v-7",
  status: "M3 12h4l3-8 4 16 3-8h4",
  settings: "M4 7h10M18 7h2M4 17h2M10 17h10M16 5v4M8 15v4",
  plus: "M12 5v14M5 12h14",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM16 16l4 4",
  pin: "M9 4h6l-1 6 3 3H7l3-3zM12 13v7",
  archive: "M4 5h16v4H4zM6 9v10h12V9M10 13h4",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13M10 11v5M14 11v5",
  rename: "M5 19l1-4L16 5l3 3L9 18zM14 7l3 3",
  fork: "M7 4v7a4 4 0 0 0 4 4h6M17 11l4 4-4 4M7 11v9",
  copy: "M9 9h11v11H9zM5 15V4h11",
  stop: "M7 7h10v10H7z",
  send: "M4 12l16-8-6 16-3-7z",
  undo: "M9 7L4 12l5 5M4 12h10a6 6 0 0 1 6 6",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  close: "M6 6l12 12M18 6L6 18",
  left: "M15 5l-7 7 7 7",
  right: "M9 5l7 7-7 7",
  down: "M5 9l7 7 7-7",
  up: "M12 20V5M6 11l6-6 6 6",
  filter: "M4 6h16M7 12h10M10 18h4",
  check: "M5 12l5 5L20 7",
  file: "M6 3h8l5 5v13H6zM14 3v5h5",
  tool: "M14 6a4 4 0 0 0 5 5l-9 9-4-4 9-9a4 4 0 0 0-1-1zM5 19l1 1",
  thinking: "M12 4a6 6 0 0 0-3 11v3h6v-3a6 6 0 0 0-3-11zM10 21h4",
  warning: "M12 4l9 16H3zM12 10v4M12 17h.01",
  clip: "M8 12l6-6a3 3 0 0 1 4 4l-8 8a5 5 0 0 1-7-7l8-8",
  export: "M12 4v11M8 11l4 4 4-4M5 20h14",
  retry: "M5 12a7 7 0 1 1 2 5M5 12V7M5 12h5",
  clock: "M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16zM12 8v4l3 2",
  help: "M9 9a3 3 0 1 1 4 3c-1 .5-1 1-1 2M12 18h.01",
  key: "M14 4a6 6 0 1 1-4 10l-6 6H4v-3l6-6a6 6 0 0 1 4-7zM16 8h.01",
  person: "M12 4a4 4 0 1 1 0 8 4 4 0 0 1 0-8zM4 20c1-5 4-6 8-6s7 1 8 6",
};

// A part of a page that reads something and shows it; read again, it changes only if what was read
// did, and the focus stays where it was (`data-key` names an element across redraws).

import { h, replace } from "../dom.js";
import { failure } from "./page.js";

/**
 * @typedef {object} Panel
 * @property {HTMLElement} element
 * @property {() => Promise<void>} refresh
 */

/**
 * @param {string} title
 * @param {() => Promise<any>} read
 * @param {(data: any, refresh: () => Promise<void>) => Child} draw
 * @param {{actions?: Child, id?: string, lead?: Child}} [options]
 * @returns {Panel}
 */
export function panel(title, read, draw, { actions, id, lead } = {}) {
  const body = h(
    "div",
    { class: "panel-body", "aria-busy": "true" },
    h("p", { class: "faint" }, "Reading…"),
  );
  const heading = id ?? `panel-${title.toLowerCase().replace(/\W+/g, "-")}`;
  const element = h(
    "section",
    { class: "panel", "aria-labelledby": heading },
    h("header", null, h("h2", { id: heading }, title), actions),
    lead && h("p", { class: "faint small" }, lead),
    body,
  );
  let shown = "";

  async function refresh() {
    try {
      const data = await read();
      const text = JSON.stringify(data) ?? "";
      if (text === shown) return;
      shown = text;
      keepFocus(() => replace(body, draw(data, refresh)));
    } catch (error) {
      // What is shown stays, unless there is nothing yet: the shell says that nobody answers.
      if (!shown) replace(body, failure(error, refresh));
    } finally {
      body.removeAttribute("aria-busy");
    }
  }

  /** @param {() => void} redraw */
  function keepFocus(redraw) {
    const active = document.activeElement;
    const key = body.contains(active) ? active?.getAttribute("data-key") : null;
    redraw();
    if (key) body.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus();
  }

  return { element, refresh };
}

/**
 * A list of things with details and actions, which becomes narrow without scrolling sideways.
 *
 * @param {Child[]} items
 * @param {Child} nothing what is said if there are none
 */
export function rows(items, nothing) {
  if (items.length === 0) return h("p", { class: "faint" }, nothing);
  return h("ul", { class: "rows" }, items);
}

/**
 * @param {Child} title
 * @param {Child} [details]
 * @param {...Child} actions
 */
export function row(title, details, ...actions) {
  return h(
    "li",
    null,
    h(
      "div",
      { class: "what" },
      h("div", { class: "name" }, title),
      details && h("div", { class: "faint small" }, details),
    ),
    actions.some(Boolean) && h("div", { class: "buttons" }, actions),
  );
}

/**
 * Names and values; what is false is left out.
 *
 * @param {any[]} pairs each a name and a value
 */
export function facts(pairs) {
  return h(
    "dl",
    { class: "facts" },
    pairs
      .filter(Boolean)
      .map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))),
  );
}

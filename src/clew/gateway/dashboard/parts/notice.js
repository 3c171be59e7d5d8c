// Notices at the edge of the page: one at a time, said to screen readers; with an undo where what was
// done can be taken back.

import { h, icon, replace } from "../dom.js";
import { Problem } from "../api.js";

const STAYS = 8_000;

/** @type {HTMLElement} */
const place = h("div", { class: "notices", role: "status", "aria-live": "polite" });
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;
/** @type {(() => void) | null} */
let undoLast = null;
/** What is being done and will offer an undo. @type {Set<Promise<unknown>>} */
const underWay = new Set();

/** @returns {HTMLElement} the element that the shell shows */
export function noticePlace() {
  return place;
}

/**
 * Say something for a few seconds; with `undo`, offer to take it back.
 *
 * @param {string} text
 * @param {{undo?: () => Promise<unknown>, isError?: boolean, done?: string}} [options]
 */
export function notify(text, { undo, isError = false, done = "Undone." } = {}) {
  clearTimeout(timer);
  undoLast = undo ? () => takeBack(undo, done) : null;
  replace(
    place,
    h(
      "div",
      { class: isError ? "notice error" : "notice" },
      h("span", null, text),
      undoLast &&
        h(
          "button",
          { type: "button", onclick: undoLast },
          icon("undo"),
          "Undo ",
          h("kbd", null, "z"),
        ),
      h(
        "button",
        { class: "quiet", type: "button", "aria-label": "Dismiss", onclick: clear },
        icon("close"),
      ),
    ),
  );
  if (!isError) timer = setTimeout(clear, undo ? 2 * STAYS : STAYS);
}

/**
 * Say what went wrong.
 *
 * @param {unknown} error
 */
export function notifyProblem(error) {
  if (error instanceof DOMException && error.name === "AbortError") return;
  if (!(error instanceof Problem)) console.error(error);
  notify(error instanceof Error ? error.message : String(error), { isError: true });
}

/**
 * Something that will offer an undo once it is done. Until then the notice of the change before may
 * still be there, and `z` must not take back that one.
 *
 * @template T
 * @param {Promise<T>} doing
 */
export function willNotify(doing) {
  underWay.add(doing);
  doing.finally(() => underWay.delete(doing)).catch(() => {});
  return doing;
}

/** Take back what was done last, if that is still offered. @returns {void | false} */
export function undoNotified() {
  if (underWay.size > 0) Promise.allSettled(underWay).then(() => undoLast?.());
  else if (undoLast) undoLast();
  else return false;
}

/**
 * @param {() => Promise<unknown>} undo
 * @param {string} done
 */
async function takeBack(undo, done) {
  clear();
  try {
    await undo();
    notify(done);
  } catch (error) {
    notifyProblem(error);
  }
}

function clear() {
  clearTimeout(timer);
  undoLast = null;
  replace(place);
}

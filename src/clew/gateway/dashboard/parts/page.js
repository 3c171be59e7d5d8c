// What every page has: a heading with actions, states for loading, nothing and failure, a title for the tab.

import { h, icon } from "../dom.js";
import { state, watchState } from "../state.js";

let title = "clew";

/**
 * The heading of a page; sets the tab's title too.
 *
 * @param {string} name
 * @param {...Child} actions
 * @returns {HTMLElement}
 */
export function pageHeader(name, ...actions) {
  setTitle(name);
  return h(
    "header",
    { class: "page-header" },
    h("h1", null, name),
    h("div", { class: "actions" }, actions),
  );
}

/**
 * The tab's title; before it stands what runs or waits for the person.
 *
 * @param {string} name
 */
export function setTitle(name) {
  title = name;
  drawTitle();
}

/**
 * Nothing is here, and what to do about it.
 *
 * @param {string} text
 * @param {...Child} more
 */
export function empty(text, ...more) {
  return h("div", { class: "empty" }, h("p", null, text), more);
}

/**
 * It could not be read; try again.
 *
 * @param {unknown} error
 * @param {() => void} retry
 */
export function failure(error, retry) {
  return h(
    "div",
    { class: "empty" },
    h("p", { role: "alert" }, error instanceof Error ? error.message : String(error)),
    h("button", { type: "button", onclick: retry }, icon("retry"), "Try again"),
  );
}

function drawTitle() {
  const waiting = state.approvals.size;
  const mark = waiting > 0 ? `(${waiting}) ` : state.running.size > 0 ? "● " : "";
  document.title = `${mark}${title} · clew`.replace("clew · clew", "clew");
}

watchState(drawTitle);

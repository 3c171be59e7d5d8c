// Differences that come as a unified diff: from a tool, or with a question about one.

import { h } from "../dom.js";

/**
 * Whether a text is a unified diff.
 *
 * @param {string} text
 */
export function isDiff(text) {
  return /^(diff --git |--- \S.*\n\+\+\+ )/.test(text) || /^@@ -\d+(,\d+)? \+\d+/m.test(text);
}

/**
 * A unified diff with its added and removed lines marked: by sign and colour.
 *
 * @param {string} text
 * @returns {HTMLElement}
 */
export function diffView(text) {
  return show(text.replace(/\n$/, "").split("\n").map(classify));
}

/** @typedef {["added" | "removed" | "hunk" | "same", string]} Line */

/** @param {Line[]} lines */
function show(lines) {
  return h(
    "pre",
    { class: "diff" },
    lines.map(([kind, text]) => h("span", { class: kind }, `${text}\n`)),
  );
}

/** @param {string} line @returns {Line} */
function classify(line) {
  if (/^(@@|diff --git|index |--- |\+\+\+ )/.test(line)) return ["hunk", line];
  if (line.startsWith("+")) return ["added", line];
  if (line.startsWith("-")) return ["removed", line];
  return ["same", line];
}

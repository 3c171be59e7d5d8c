// Differences, line by line: those that come as a unified diff, and those of two texts.

import { h } from "../dom.js";

/** Lines of one text beyond which two texts are not compared: the search takes time × both. */
const MOST = 600;

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

/**
 * The difference of two texts.
 *
 * @param {string} before
 * @param {string} after
 * @returns {HTMLElement}
 */
export function compareView(before, after) {
  const old = before === "" ? [] : before.replace(/\n$/, "").split("\n");
  const now = after === "" ? [] : after.replace(/\n$/, "").split("\n");
  return show(compare(old, now));
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

/**
 * Equal ends are set aside first; what is between is compared by the longest common subsequence.
 *
 * @param {string[]} old
 * @param {string[]} now
 * @returns {Line[]}
 */
function compare(old, now) {
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) start += 1;
  let end = 0;
  while (
    end < old.length - start &&
    end < now.length - start &&
    old[old.length - 1 - end] === now[now.length - 1 - end]
  ) {
    end += 1;
  }
  const same = (/** @type {string} */ text) => /** @type {Line} */ (["same", `  ${text}`]);
  return [
    ...old.slice(0, start).slice(-3).map(same),
    ...middle(old.slice(start, old.length - end), now.slice(start, now.length - end)),
    ...old.slice(old.length - end, old.length - end + 3).map(same),
  ];
}

/** @param {string[]} old @param {string[]} now @returns {Line[]} */
function middle(old, now) {
  const removed = (/** @type {string} */ text) => /** @type {Line} */ (["removed", `- ${text}`]);
  const added = (/** @type {string} */ text) => /** @type {Line} */ (["added", `+ ${text}`]);
  if (old.length > MOST || now.length > MOST) return [...old.map(removed), ...now.map(added)];
  const width = now.length + 1;
  const longest = new Uint16Array((old.length + 1) * width);
  const at = (/** @type {number} */ i, /** @type {number} */ j) => longest[i * width + j] ?? 0;
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = now.length - 1; j >= 0; j -= 1) {
      longest[i * width + j] =
        old[i] === now[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  /** @type {Line[]} */
  const lines = [];
  let i = 0;
  let j = 0;
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) {
      lines.push(["same", `  ${old[i]}`]);
      i += 1;
      j += 1;
    } else if (i < old.length && (j === now.length || at(i + 1, j) >= at(i, j + 1))) {
      lines.push(removed(String(old[i])));
      i += 1;
    } else {
      lines.push(added(String(now[j])));
      j += 1;
    }
  }
  return lines;
}

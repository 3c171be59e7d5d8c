// Versions of a text, compared by lines: what changed between two, and how two changes of the same
// text fit together. Lines are joined again exactly as they were split, so no text is lost.

import { h } from "../dom.js";

/** More differences than this are shown as one: nobody reads them, and finding them takes long. */
const MOST = 1_000;
/** Lines around a change that are shown with it. */
const AROUND = 3;

/**
 * @typedef {{from: number, to: number, with: [number, number]}} Change lines of the first text, and
 *   those of the second that stand for them
 * @typedef {object} Segment a piece of three texts
 * @property {"same" | "mine" | "theirs" | "conflict"} kind who changed it; "conflict": both did
 * @property {string[]} base
 * @property {string[]} mine
 * @property {string[]} theirs
 */

/** @param {string} text @returns {string[]} */
export function toLines(text) {
  return text.split("\n");
}

/**
 * The changes that lead from one text to another (Myers' algorithm).
 *
 * @param {string[]} a
 * @param {string[]} b
 * @returns {Change[]}
 */
export function findChanges(a, b) {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (
    end < a.length - start &&
    end < b.length - start &&
    a[a.length - 1 - end] === b[b.length - 1 - end]
  )
    end += 1;
  const left = a.slice(start, a.length - end);
  const right = b.slice(start, b.length - end);
  if (left.length === 0 && right.length === 0) return [];
  const pairs = left.length && right.length ? (findPairs(left, right) ?? []) : [];
  /** @type {Change[]} */
  const changes = [];
  let [x, y] = [0, 0];
  for (const [i, j] of [...pairs, /** @type {const} */ ([left.length, right.length])]) {
    if (i > x || j > y)
      changes.push({ from: start + x, to: start + i, with: [start + y, start + j] });
    [x, y] = [i + 1, j + 1];
  }
  return changes;
}

/**
 * Pairs of equal lines in order, as many as there can be; null if the texts differ too much.
 *
 * @param {string[]} a
 * @param {string[]} b
 * @returns {[number, number][] | null}
 */
function findPairs(a, b) {
  /** @type {Map<number, number>[]} */
  const steps = [];
  const reached = new Map([[1, 0]]);
  for (let edits = 0; edits <= Math.min(a.length + b.length, MOST); edits += 1) {
    steps.push(new Map(reached));
    for (let k = -edits; k <= edits; k += 2) {
      const isDown = k === -edits || (k !== edits && at(reached, k - 1) < at(reached, k + 1));
      let x = isDown ? at(reached, k + 1) : at(reached, k - 1) + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x += 1;
      reached.set(k, x);
      if (x >= a.length && x - k >= b.length) return walkBack(steps, a.length, b.length);
    }
  }
  return null;
}

/** @param {Map<number, number>} reached @param {number} k */
function at(reached, k) {
  return reached.get(k) ?? -1;
}

/**
 * @param {Map<number, number>[]} steps
 * @param {number} x
 * @param {number} y
 */
function walkBack(steps, x, y) {
  /** @type {[number, number][]} */
  const pairs = [];
  for (let edits = steps.length - 1; edits >= 0; edits -= 1) {
    const reached = /** @type {Map<number, number>} */ (steps[edits]);
    const k = x - y;
    const isDown = k === -edits || (k !== edits && at(reached, k - 1) < at(reached, k + 1));
    const before = isDown ? k + 1 : k - 1;
    const fromX = at(reached, before);
    while (x > Math.max(fromX, 0) && y > fromX - before) {
      [x, y] = [x - 1, y - 1];
      pairs.push([x, y]);
    }
    if (edits > 0) [x, y] = [fromX, fromX - before];
  }
  return pairs.reverse();
}

/**
 * Two changes of the same text, side by side. What only one side changed has that side's name.
 *
 * @param {string} base
 * @param {string} mine
 * @param {string} theirs
 * @returns {Segment[]}
 */
export function compareThree(base, mine, theirs) {
  const [old, left, right] = [toLines(base), toLines(mine), toLines(theirs)];
  const changes = [
    ...findChanges(old, left).map((each) => ({ ...each, side: "mine" })),
    ...findChanges(old, right).map((each) => ({ ...each, side: "theirs" })),
  ].sort((one, other) => one.from - other.from || one.to - other.to);
  /** @type {Segment[]} */
  const segments = [];
  // How far each text is used up; between changes the three run in step.
  let [o, l, r] = [0, 0, 0];
  const take = (/** @type {number} */ many) => {
    if (many <= 0) return;
    const lines = old.slice(o, o + many);
    segments.push({ kind: "same", base: lines, mine: lines, theirs: lines });
    [o, l, r] = [o + many, l + many, r + many];
  };
  for (let index = 0; index < changes.length;) {
    const first = /** @type {(typeof changes)[number]} */ (changes[index]);
    let to = first.to;
    let count = 1;
    // Changes that touch are one: which comes first at the border is for a person to say.
    for (let next; (next = changes[index + count]) && next.from <= to; count += 1)
      to = Math.max(to, next.to);
    const group = changes.slice(index, index + count);
    index += count;
    take(first.from - o);
    const grown = (/** @type {string} */ side) =>
      group
        .filter((each) => each.side === side)
        .reduce((sum, each) => sum + each.with[1] - each.with[0] - (each.to - each.from), to - o);
    const lines = {
      base: old.slice(o, to),
      mine: left.slice(l, l + grown("mine")),
      theirs: right.slice(r, r + grown("theirs")),
    };
    [o, l, r] = [to, l + lines.mine.length, r + lines.theirs.length];
    const sides = new Set(group.map((each) => each.side));
    const kind = sides.size > 1 ? "conflict" : /** @type {"mine" | "theirs"} */ (first.side);
    if (kind === "conflict" && lines.mine.join("\n") === lines.theirs.join("\n"))
      segments.push({ ...lines, kind: "theirs" });
    else segments.push({ ...lines, kind });
  }
  take(old.length - o);
  return segments;
}

/**
 * Show what changed from one text to another, with a few lines around each change.
 *
 * @param {string} before
 * @param {string} after
 * @returns {HTMLElement}
 */
export function showTextDiff(before, after) {
  const [a, b] = [toLines(before), toLines(after)];
  const changes = findChanges(a, b);
  if (changes.length === 0) return h("p", { class: "faint" }, "There is no difference.");
  /** @type {Child[]} */
  const rows = [];
  let shown = 0;
  changes.forEach((change, index) => {
    const from = Math.max(shown, change.from - AROUND);
    if (from > shown) rows.push(line("gap", "⋯"));
    rows.push(a.slice(from, change.from).map((each) => line("same", each)));
    rows.push(a.slice(change.from, change.to).map((each) => line("removed", each)));
    rows.push(b.slice(...change.with).map((each) => line("added", each)));
    const next = changes[index + 1]?.from ?? a.length;
    shown = Math.min(next, change.to + AROUND);
    rows.push(a.slice(change.to, shown).map((each) => line("same", each)));
  });
  if (shown < a.length) rows.push(line("gap", "⋯"));
  return h(
    "div",
    { class: "text-diff", tabindex: "0", role: "region", "aria-label": "Differences" },
    rows,
  );
}

/** @param {string} kind @param {string} text */
function line(kind, text) {
  const words = { added: "added: ", removed: "removed: " }[kind];
  return h(
    "div",
    { class: kind },
    words && h("span", { class: "visually-hidden" }, words),
    text || "\u00a0",
  );
}

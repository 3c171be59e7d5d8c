// Find in a session: the server searches, so that what is not on the page is found too.

import { call } from "../api.js";
import { h, icon, replace } from "../dom.js";
import { number } from "../format.js";

const PAUSE = 150;
const MOST = 200;

/**
 * @param {string} session
 * @param {(seq: number) => Promise<HTMLElement | null>} jump
 * @param {() => void} onClose
 */
export function makeFind(session, jump, onClose) {
  /** @type {number[]} */
  let hits = [];
  let at = -1;
  let isCut = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  /** @type {AbortController | null} */
  let asking = null;
  const input = h("input", {
    type: "search",
    placeholder: "Find in this session",
    "aria-label": "Find in this session",
    autocomplete: "off",
    spellcheck: "false",
    oninput: () => {
      clearTimeout(timer);
      timer = setTimeout(look, PAUSE);
    },
    onkeydown: press,
  });
  const count = h("span", { class: "faint small", role: "status" });
  const element = h(
    "div",
    { class: "find", role: "search", hidden: true },
    icon("search"),
    input,
    count,
    step("Previous", "left", -1),
    step("Next", "right", 1),
    h(
      "button",
      { type: "button", class: "quiet", "aria-label": "Close the search", onclick: () => close() },
      icon("close"),
    ),
  );

  /** @param {string} label @param {string} picture @param {number} way */
  function step(label, picture, way) {
    return h(
      "button",
      { type: "button", class: "quiet", "aria-label": label, onclick: () => go(way) },
      icon(picture),
    );
  }

  /** @param {KeyboardEvent} event */
  async function press(event) {
    if (event.key !== "Enter") return;
    event.preventDefault();
    clearTimeout(timer);
    if (input.value.trim() !== asked) await look();
    else go(event.shiftKey ? -1 : 1);
  }

  let asked = "";
  async function look() {
    const text = input.value.trim();
    asked = text;
    asking?.abort();
    mark(null);
    if (!text) {
      hits = [];
      replace(count);
      return;
    }
    asking = new AbortController();
    try {
      const params = { q: text, session, limit: MOST, typing: true };
      const found = await call("sessions.search", params, { signal: asking.signal });
      // In the order of the transcript; the newest first, as one reads from the end.
      hits = [
        ...new Set(/** @type {number[]} */ (found.hits.map((/** @type {any} */ hit) => hit.seq))),
      ];
      hits.sort((one, two) => one - two);
      isCut = Boolean(found.cut || found.cursor);
      at = hits.length;
      if (hits.length > 0) await go(-1);
      else replace(count, "Nothing found");
    } catch (error) {
      if (!(error instanceof DOMException))
        replace(count, error instanceof Error ? error.message : "");
    }
  }

  /** @param {number} way */
  async function go(way) {
    if (hits.length === 0) return;
    at = (at + way + hits.length) % hits.length;
    replace(count, `${number(at + 1)} of ${number(hits.length)}${isCut ? "+" : ""}`);
    const keep = document.activeElement;
    mark(await jump(Number(hits[at])));
    if (keep instanceof HTMLElement && element.contains(keep)) keep.focus({ preventScroll: true });
  }

  /** Mark the words, where the browser can mark without changing the document. @param {HTMLElement | null} place */
  function mark(place) {
    const highlights = /** @type {any} */ (CSS).highlights;
    if (!highlights) return;
    highlights.delete("found");
    if (!place) return;
    const words = asked.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [];
    const ranges = [];
    const walker = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node && ranges.length < 500; node = walker.nextNode()) {
      const text = (node.nodeValue ?? "").toLowerCase();
      if (text.length !== node.nodeValue?.length) continue; // places would not fit
      for (const word of words) {
        for (let from = text.indexOf(word); from >= 0; from = text.indexOf(word, from + 1)) {
          const range = document.createRange();
          range.setStart(node, from);
          range.setEnd(node, Math.min(from + word.length, text.length));
          ranges.push(range);
        }
      }
    }
    highlights.set("found", new /** @type {any} */ (globalThis).Highlight(...ranges));
    const box = ranges[0]?.getBoundingClientRect();
    if (box && (box.top < 80 || box.bottom > innerHeight - 160)) {
      ranges[0]?.startContainer.parentElement?.scrollIntoView({ block: "center" });
    }
  }

  function open() {
    element.hidden = false;
    input.focus();
    input.select();
  }

  /** @returns {boolean} whether it was open */
  function close() {
    if (element.hidden) return false;
    element.hidden = true;
    mark(null);
    onClose();
    return true;
  }

  return { element, open, close };
}

// Searching: what is typed as a query, and what was found with its match marked.

import { h } from "../dom.js";

const NARROW = 720;

/**
 * A query whose last word may be unfinished; the language of the search writes that as `refu*`.
 *
 * @param {string} text
 */
export function beginning(text) {
  const isOpen = (text.split('"').length - 1) % 2 === 1;
  return !isOpen && /[\p{L}\p{N}]$/u.test(text) ? `${text}*` : text;
}

/**
 * A line with its match marked.
 *
 * @param {{text: string, start: number, end: number}} snippet
 * @returns {Child[]}
 */
export function marked({ text, start, end }) {
  // The server counts characters, and a string here counts units of UTF-16.
  const characters = [...text];
  if (end <= start) return [text];
  // On a narrow screen the match would be cut off behind its surroundings.
  const from = Math.max(0, start - (innerWidth < NARROW ? 12 : 60));
  return [
    (from > 0 ? "…" : "") + characters.slice(from, start).join(""),
    h("mark", null, characters.slice(start, end).join("")),
    characters.slice(end).join(""),
  ];
}

/**
 * A name with the first match of what is searched for marked.
 *
 * @param {string} name
 * @param {string} text
 * @returns {Child[]}
 */
export function markedName(name, text) {
  const at = text ? name.toLowerCase().indexOf(text.toLowerCase()) : -1;
  if (at < 0) return [name];
  const end = at + text.length;
  return [name.slice(0, at), h("mark", null, name.slice(at, end)), name.slice(end)];
}

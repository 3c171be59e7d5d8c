// A call of a tool: one line with its state, folded; inside, what was asked for and what came of it.

import { h, icon, replace, setServerHtml } from "../dom.js";
import { diffView, isDiff } from "./diff.js";
import { showTextDiff } from "./text_diff.js";

/** @typedef {"running" | "waiting" | "done" | "failed" | "refused" | "unknown"} ToolState */

const WORDS = {
  running: "running",
  waiting: "waits for you",
  done: "",
  failed: "failed",
  refused: "refused",
  unknown: "no result",
};
/** @type {Record<string, string>} */
const PICTURES = { failed: "warning", refused: "close", waiting: "help" };
const REFUSED =
  /^(The owner (said no|did not answer|can't be asked)|A rule forbids|Plan mode changes)/;
const TAIL = 4_000;

/**
 * @typedef {object} ToolBlock
 * @property {HTMLDetailsElement} element
 * @property {string} id of the call
 * @property {(state: ToolState) => void} setState
 * @property {(message: any, html?: string) => void} setResult
 * @property {(text: string) => void} addProgress
 */

/**
 * @param {{id: string, name: string, arguments: string}} call
 * @param {ToolState} state
 * @returns {ToolBlock}
 */
export function toolBlock(call, state) {
  const given = read(call.arguments);
  const word = h("span", { class: "tool-state" });
  const mark = h("span", { class: "tool-mark" }, icon("tool"));
  const body = h("div", { class: "tool-body" });
  /** @type {any} */
  let result = null;
  /** @type {string | undefined} */
  let resultHtml;
  let progress = "";
  /** @type {HTMLElement | null} */
  let output = null;
  const element = h(
    "details",
    { class: "tool", "data-call": call.id, ontoggle: () => element.open && fill() },
    h(
      "summary",
      null,
      mark,
      h("span", { class: "tool-name" }, call.name),
      h("span", { class: "tool-line cut" }, summarise(call.name, given)),
      word,
    ),
    body,
  );

  /** @param {ToolState} now */
  function setState(now) {
    element.dataset.state = now;
    replace(word, WORDS[now]);
    replace(mark, icon(PICTURES[now] ?? "tool"));
  }

  /** The inside is made when it is first looked at: most are never opened. */
  function fill() {
    replace(body, describe(call.name, given, call.arguments), showResult());
  }

  function showResult() {
    output = null;
    if (result === null) {
      if (!progress) return null;
      output = h("pre", { class: "output" }, progress);
      return output;
    }
    const text = result.content ?? "";
    if (!text.trim()) return h("p", { class: "faint small" }, "No output.");
    if (!result.is_error && isDiff(text)) return diffView(text);
    if (resultHtml === undefined) return h("pre", { class: "output" }, text);
    const place = h("div", { class: "rendered output" });
    setServerHtml(place, resultHtml);
    return place;
  }

  setState(state);
  return {
    element,
    id: call.id,
    setState,
    setResult(message, html) {
      result = message;
      resultHtml = html;
      setState(!message.is_error ? "done" : REFUSED.test(message.content) ? "refused" : "failed");
      if (element.open) fill();
    },
    addProgress(text) {
      progress = (progress + text).slice(-TAIL);
      if (!element.open) return;
      if (output) output.textContent = progress;
      else fill();
    },
  };
}

/**
 * What a tool is asked to do, in one line.
 *
 * @param {string} name
 * @param {any} given
 */
export function summarise(name, given) {
  if (given === null || typeof given !== "object") return "";
  const picked =
    given.command ??
    given.path ??
    given.query ??
    given.q ??
    given.pattern ??
    given.url ??
    given.task;
  const text =
    typeof picked === "string"
      ? picked
      : Object.entries(given)
          .map(
            ([key, value]) =>
              `${key}: ${typeof value === "string" ? value : JSON.stringify(value)}`,
          )
          .join(", ");
  const more =
    name === "search_files" && given.path && picked !== given.path ? ` in ${given.path}` : "";
  return `${text}${more}`.replace(/\s+/g, " ").slice(0, 300);
}

/**
 * The whole of what is asked for: a command, a difference, or the arguments.
 *
 * @param {string} name
 * @param {any} given
 * @param {string} raw
 * @returns {Child}
 */
function describe(name, given, raw) {
  if (given === null || typeof given !== "object") {
    return raw.trim() && raw.trim() !== "{}" ? h("pre", null, raw) : null;
  }
  if (name === "edit_file" && typeof given.old === "string" && typeof given.new === "string") {
    return [pathLine(given.path), showTextDiff(given.old, given.new)];
  }
  if (name === "write_file" && typeof given.content === "string") {
    return [pathLine(given.path), showTextDiff("", given.content)];
  }
  if (typeof given.command === "string") return h("pre", { class: "command" }, given.command);
  if (Object.keys(given).length === 0) return null;
  return h("pre", null, JSON.stringify(given, null, 2));
}

/** @param {unknown} path */
function pathLine(path) {
  return h("p", { class: "tool-path" }, String(path ?? ""));
}

/** @param {string} text */
function read(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

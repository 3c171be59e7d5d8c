// "Why?": asks the gateway which rules decided, and shows them as a list. Nothing is changed by it.

import { call } from "../api.js";
import { h } from "../dom.js";
import { openDialog } from "./dialog.js";
import { actionButton } from "./form.js";
import { facts } from "./panel.js";

/** How the fields of an explanation are called here; those that are not named are left out. */
const NAMES = /** @type {Record<string, string>} */ ({
  decision: "Decision",
  rule: "Rule that decided",
  key: "Key",
  agent: "Agent",
  account: "Account",
  matched_by: "Found by",
  dm_scope: "Direct messages",
  linked: "Known as",
  channel: "Channel",
  chat_type: "Kind of chat",
  fresh: "Goes on",
  reason: "Reason of the reset",
  type: "Kind",
  boundary: "Daily reset at",
  idle_until: "Idle reset at",
  note: "Note",
  why: "Because",
});

/**
 * @param {string} about what is explained, such as "this delivery"
 * @param {string} method such as `explain.send`
 * @param {Record<string, any>} params
 */
export function whyButton(about, method, params) {
  return actionButton(
    ["Why?", h("span", { class: "visually-hidden" }, ` About ${about}`)],
    async () => showReasons(`Why: ${about}`, await call(method, params)),
    { class: "quiet" },
  );
}

/** @param {string} title @param {any} answer */
function showReasons(title, answer) {
  const told = Object.entries(NAMES)
    .filter(([name]) => answer[name] !== null && answer[name] !== undefined && answer[name] !== "")
    .map(([name, words]) => /** @type {[Child, Child]} */ ([words, inWords(answer[name])]));
  const considered = answer.considered ?? [];
  openDialog(title, [
    facts(told),
    considered.length > 0 && h("h3", { class: "spaced" }, "What was looked at, in this order"),
    considered.length > 0 &&
      h(
        "ol",
        { class: "reasons" },
        considered.map((/** @type {any} */ each) => {
          const [what, result] = Array.isArray(each) ? each : Object.values(each);
          return h("li", null, h("code", null, String(what)), ` ${result}`);
        }),
      ),
  ]);
}

/** @param {any} value */
function inWords(value) {
  if (value === true) return "yes";
  if (value === false) return "no";
  return String(value);
}

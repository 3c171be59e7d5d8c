// Marks between the messages of a transcript: compactions, forks, turns without an answer, and
// replies that did not arrive, or may not have.

import { call } from "../api.js";
import { h, icon, setServerHtml } from "../dom.js";
import { fullTime, shortNumber, timeOfDay } from "../format.js";
import { notify, notifyProblem } from "./notice.js";

const ENDS = { aborted: "Stopped", interrupted: "Interrupted", failed: "Failed" };
/** @type {Record<string, string>} */
const RESETS = {
  daily: "the daily reset",
  idle: "a long pause",
  new: "/new",
  reset: "/reset",
};

/** @param {any} made a compaction */
export function compactionMark(made) {
  const inside = h("div", { class: "rendered text" });
  const tokens =
    made.tokens_before && made.tokens_after
      ? ` · ${shortNumber(made.tokens_before)} → ${shortNumber(made.tokens_after)} tokens`
      : "";
  return h(
    "details",
    {
      class: "mark compaction",
      ontoggle: () => inside.firstChild ?? setServerHtml(inside, made.html ?? ""),
    },
    h(
      "summary",
      { title: fullTime(made.created_at) },
      icon("archive"),
      `Compacted ${timeOfDay(made.created_at)}${tokens}: the model reads a summary of what is above`,
    ),
    inside,
  );
}

/** @param {any} fork */
export function forkMark(fork) {
  return h(
    "p",
    { class: "mark" },
    icon("fork"),
    "Fork from here: ",
    h("a", { href: `/s/${fork.id}#m${fork.at}` }, fork.name),
  );
}

/** @param {any} parent */
export function parentMark(parent) {
  return h(
    "p",
    { class: "mark" },
    icon("fork"),
    "Forked here from ",
    h("a", { href: `/s/${parent.id}#m${parent.at}` }, parent.name),
    ": what is above is shared",
  );
}

/**
 * The beginning of a transcript: when, and which session was before.
 *
 * @param {any} session
 * @param {any} previous
 */
export function beginMark(session, previous) {
  const why =
    session.reset_reason &&
    /** @type {any} */ (RESETS[session.reset_reason] ?? session.reset_reason);
  return h(
    "p",
    { class: "mark" },
    icon("clock"),
    `Began ${fullTime(session.created_at)}`,
    why && ` after ${why}`,
    previous && [". Before it: ", h("a", { href: `/s/${previous.id}` }, previous.name)],
  );
}

/** @param {any} now the session in which the conversation goes on */
export function endMark(now) {
  return h(
    "p",
    { class: "mark" },
    icon("right"),
    "This conversation goes on in ",
    h("a", { href: `/s/${now.id}` }, now.name),
  );
}

/**
 * @param {any} turn one that ended without an answer
 * @param {(() => void) | null} retry
 */
export function unfinishedMark(turn, retry) {
  const word = /** @type {any} */ (ENDS)[turn.status] ?? "Without an answer";
  return h(
    "div",
    { class: "unfinished" },
    turn.partial && h("div", { class: "plain partial" }, turn.partial),
    h(
      "p",
      { class: "mark warn" },
      icon("warning"),
      turn.error ? `${word}: ${turn.error}` : `${word}.`,
      retry && h("button", { type: "button", onclick: retry }, icon("retry"), "Try again"),
    ),
  );
}

/**
 * @param {any} row of the outbox
 * @param {() => void} changed
 */
export function deliveryMark(row, changed) {
  const words = {
    pending: `On its way to ${row.channel}`,
    sending: `On its way to ${row.channel}`,
    sent: `Sent to ${row.channel}`,
    uncertain: `May not have arrived at ${row.channel}`,
    failed: `Not delivered to ${row.channel}`,
    withheld: `Not sent to ${row.channel}: sending is off here`,
  };
  const status = /** @type {keyof typeof words} */ (row.status);
  const isOpen = status === "uncertain" || status === "failed";
  const act = (/** @type {string} */ method, /** @type {string} */ done) => async () => {
    try {
      await call(method, { id: row.id });
      notify(done);
    } catch (error) {
      notifyProblem(error);
    }
    changed();
  };
  return h(
    "p",
    { class: `mark delivery ${status}`, "data-status": status },
    icon(
      isOpen ? "warning" : status === "withheld" ? "close" : status === "sent" ? "check" : "clock",
    ),
    words[status] ?? status,
    row.error && isOpen && `: ${row.error}`,
    status === "uncertain" &&
      h(
        "button",
        { type: "button", onclick: act("outbox.confirm", "Marked as arrived.") },
        icon("check"),
        "It has arrived",
      ),
    isOpen &&
      h(
        "button",
        { type: "button", onclick: act("outbox.retry", "It is sent again.") },
        icon("retry"),
        "Send again",
      ),
  );
}

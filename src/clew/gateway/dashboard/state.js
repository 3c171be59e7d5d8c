// What the whole page knows: who is signed in, whether the gateway answers, what runs and what waits
// for the person. Pages keep what is theirs for themselves.

import { call } from "./api.js";
import { listen } from "./live.js";

/**
 * @typedef {object} State
 * @property {"connecting" | "online" | "offline"} connection
 * @property {string} version
 * @property {string} person
 * @property {string[]} scopes
 * @property {Map<string, any>} approvals those that wait, by id
 * @property {Set<string>} running ids of sessions in which a turn runs
 * @property {any[]} newest sessions, as they were when we connected
 */

/** @type {State} */
export const state = {
  connection: "connecting",
  version: "",
  person: "",
  scopes: [],
  approvals: new Map(),
  running: new Set(),
  newest: [],
};

/** @type {Set<(state: State) => void>} */
const watchers = new Set();

/**
 * Be told of every change of `state`, and at once of what it is now.
 *
 * @param {(state: State) => void} watcher
 * @returns {() => void} stop watching
 */
export function watchState(watcher) {
  watchers.add(watcher);
  watcher(state);
  return () => watchers.delete(watcher);
}

/**
 * Whether this browser may do what needs a scope.
 *
 * @param {string} scope
 */
export function may(scope) {
  return state.scopes.includes("admin") || state.scopes.includes(scope);
}

let approvalsAsked = 0;

/** Read again which approvals wait. */
export async function refreshApprovals() {
  const asked = ++approvalsAsked;
  const { approvals } = await call("approvals.list");
  if (asked !== approvalsAsked) return; // a newer question was answered before
  state.approvals = new Map(approvals.map((/** @type {any} */ each) => [each.id, each]));
  changed();
}

function changed() {
  for (const watcher of [...watchers]) watcher(state);
}

listen((frame) => {
  if (frame.type === "connection") state.connection = frame.state;
  else if (frame.type === "state") {
    const { version, person, scopes, sessions = [], approvals = [] } = frame;
    Object.assign(state, { version, person, scopes, newest: sessions });
    state.approvals = new Map(approvals.map((/** @type {any} */ each) => [each.id, each]));
    state.running = new Set(
      sessions
        .filter((/** @type {any} */ each) => each.status === "running")
        .map((/** @type {any} */ each) => each.id),
    );
  } else if (frame.type === "hint") {
    if (frame.status === "running") state.running.add(frame.session);
    else state.running.delete(frame.session);
    if (frame.kind === "approval") refreshApprovals().catch(() => {});
  } else return;
  changed();
});

// The filters of the list of sessions: in the address, as parameters of the list, in words, and as a
// choice. Knows nothing of the list itself.

import { call } from "../api.js";
import { dayOf } from "../format.js";
import { fits } from "./chooser.js";

const DAY = 86_400_000;
const NAMES = [
  "state",
  "platform",
  "project",
  "person",
  "agent",
  "kind",
  "since",
  "until",
  "pinned",
];

/** @type {Record<string, string>} */
const STATES = {
  waiting: "Waits for you",
  running: "Running",
  interrupted: "Interrupted",
  open: "Open in a terminal",
  idle: "Idle",
};
/** @type {Record<string, string>} */
const PERIODS = {
  "1d": "last 24 hours",
  "7d": "last 7 days",
  "30d": "last 30 days",
  "365d": "last year",
};
/** @type {Record<string, string>} */
const WORDS = {
  state: "state",
  platform: "platform",
  project: "project",
  person: "person",
  agent: "agent",
  kind: "kind",
  since: "since",
  until: "until",
};

/**
 * @typedef {Record<string, string>} Filters by name, as in the address; with `q` and `in`
 */

/** Those of an address. @param {URLSearchParams} query @returns {Filters} */
export function readFilters(query) {
  /** @type {Filters} */
  const filters = {};
  for (const name of [...NAMES, "q", "in"]) {
    const value = query.get(name);
    if (value) filters[name] = value;
  }
  return filters;
}

/** The filters that are shown as chips. @param {Filters} filters @returns {[name: string, value: string][]} */
export function listFilters(filters) {
  return NAMES.flatMap((name) => {
    const value = filters[name];
    return value ? [/** @type {[string, string]} */ ([name, value])] : [];
  });
}

/**
 * As parameters of `sessions.list`.
 *
 * @param {Filters} filters
 * @param {number} now
 * @returns {Record<string, any>}
 */
export function toParams(filters, now) {
  /** @type {Record<string, any>} */
  const params = {};
  for (const name of ["state", "platform", "project", "person", "agent", "kind", "q"]) {
    if (filters[name]) params[name] = filters[name];
  }
  const since = filters.since && toTime(filters.since, now, 0);
  const until = filters.until && toTime(filters.until, now, DAY - 1);
  if (since) params.since = since;
  if (until) params.until = until;
  if (filters.pinned) params.pinned = filters.pinned === "yes";
  if (filters.in === "archived") params.archived = true;
  else if (filters.in === "trash") params.trashed = true;
  else if (filters.q) params.archived = false;
  return params;
}

/**
 * A filter in words: what it is about, and its value.
 *
 * @param {string} name
 * @param {string} value
 * @returns {[about: string, value: string]}
 */
export function wordFilter(name, value) {
  if (name === "state") return ["", STATES[value] ?? value];
  if (name === "pinned") return ["", value === "yes" ? "Pinned" : "Not pinned"];
  if (name === "since" && PERIODS[value]) return ["", PERIODS[value]];
  if (name === "since" || name === "until") {
    const at = toTime(value, Date.now(), 0);
    return [name, at ? dayOf(at) : value];
  }
  if (name === "project") return ["project", value.split("/").at(-1) || value];
  if (name === "person" && value === "owner") return ["person", "you"];
  return [WORDS[name] ?? name, value];
}

/**
 * What one can filter by.
 *
 * @param {AbortSignal} [signal]
 * @returns {Promise<[name: string, value: string][]>}
 */
export async function listChoices(signal) {
  const facets = await call("sessions.facets", {}, { signal });
  return [
    ...Object.keys(STATES).map((each) => /** @type {[string, string]} */ (["state", each])),
    ["pinned", "yes"],
    ...Object.keys(PERIODS).map((each) => /** @type {[string, string]} */ (["since", each])),
    ...some("platform", facets.platforms),
    ...some("project", facets.projects),
    ...some("person", facets.people),
    ...some("agent", facets.agents),
    ...some("kind", facets.kinds),
  ];
}

/**
 * Choices that fit what is typed; a day such as 2026-05-01 is a choice of its own.
 *
 * @param {string} text
 * @param {[name: string, value: string][]} choices
 * @returns {[name: string, value: string][]}
 */
export function fitChoices(text, choices) {
  if (toTime(text, Date.now(), 0) && !PERIODS[text]) {
    return [
      ["since", text],
      ["until", text],
    ];
  }
  return choices.filter(([name, value]) =>
    fits(text, `${GROUPS[name]} ${wordFilter(name, value).join(" ")} ${value}`),
  );
}

/** What kind of filter it is, for the list of choices. @type {Record<string, string>} */
export const GROUPS = {
  state: "State",
  pinned: "State",
  since: "Time",
  until: "Time",
  platform: "Platform",
  project: "Project",
  person: "Person",
  agent: "Agent",
  kind: "Kind",
};

/**
 * One value alone is no choice.
 *
 * @param {string} name
 * @param {string[]} values
 * @returns {[name: string, value: string][]}
 */
function some(name, values) {
  return values.length > 1 ? values.map((each) => [name, each]) : [];
}

/**
 * "7d", or a day; undefined for anything else.
 *
 * @param {string} text
 * @param {number} now
 * @param {number} more milliseconds into the day
 * @returns {number | undefined}
 */
function toTime(text, now, more) {
  const days = /^(\d{1,5})d$/.exec(text);
  if (days) return now - Number(days[1]) * DAY;
  if (!/^\d{4}-\d\d-\d\d$/.test(text)) return undefined;
  const at = new Date(`${text}T00:00`).getTime();
  return Number.isNaN(at) ? undefined : at + more;
}

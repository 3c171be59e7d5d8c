// The command palette (Ctrl+K): go to a page or a session, by its name or by what was said in it, or
// run a command. Pages add commands of their own while they are shown.

import { call } from "../api.js";
import { h } from "../dom.js";
import { shortTime } from "../format.js";
import { go } from "../router.js";
import { state } from "../state.js";
import { fits, openChooser } from "./chooser.js";
import { beginning, marked } from "./search.js";

/** @typedef {import("./chooser.js").Command} Command */

const RECENT = 6;

/** @type {Set<() => Command[]>} */
const sources = new Set();

/**
 * Offer commands.
 *
 * @param {() => Command[]} list asked each time the palette opens
 * @returns {() => void} take them back
 */
export function addCommands(list) {
  sources.add(list);
  return () => sources.delete(list);
}

/** Open the palette. */
export function openPalette() {
  if (document.querySelector("dialog.palette")) return;
  // Those of the page come before those of the shell.
  const commands = [...sources].reverse().flatMap((list) => list());
  openChooser({
    label: "Go to a session or run a command",
    list: (text) =>
      text
        ? commands.filter(({ label }) => fits(text, label))
        : [...state.newest.slice(0, RECENT).map(toCommand), ...commands],
    find: async (text, signal) => {
      if (!text) {
        const { sessions } = await call("sessions.list", { limit: RECENT }, { signal });
        return [...sessions.map(toCommand), ...commands];
      }
      const [named, said] = await Promise.all([
        call("sessions.list", { named: text.slice(0, 100), limit: 8 }, { signal }),
        call("sessions.list", { q: beginning(text.slice(0, 200)), limit: 8 }, { signal }),
      ]);
      const known = new Set(named.sessions.map((/** @type {any} */ each) => each.id));
      const more = said.sessions.filter((/** @type {any} */ each) => !known.has(each.id));
      return [
        ...commands.filter(({ label }) => fits(text, label)),
        ...[...named.sessions, ...more].map(toCommand),
      ];
    },
  });
}

/** @param {any} session @returns {Command} */
function toCommand(session) {
  const { hit } = session;
  return {
    label: session.label,
    hint: `${session.platform} · ${shortTime(session.updated_at)}`,
    icon: "sessions",
    detail: hit && h("span", null, marked(hit.snippet)),
    run: () => go(`/s/${session.id}${hit ? `#m${hit.seq}` : ""}`),
  };
}

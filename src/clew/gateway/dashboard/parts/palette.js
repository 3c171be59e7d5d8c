// The command palette (Ctrl+K): go to a page or a session, or run a command. Pages add commands of
// their own while they are shown.

import { call } from "../api.js";
import { h, icon, replace } from "../dom.js";
import { nameOf, shortTime } from "../format.js";
import { go } from "../router.js";

/**
 * @typedef {object} Command
 * @property {string} label
 * @property {() => void} run
 * @property {string} [hint] a key, or where it leads
 * @property {string} [icon]
 */

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
  const commands = [...sources].flatMap((list) => list());
  /** @type {Command[]} */
  let shown = [];
  let chosen = 0;
  /** @type {AbortController | null} */
  let asking = null;

  const input = h("input", {
    type: "text",
    role: "combobox",
    "aria-expanded": "true",
    "aria-controls": "palette-list",
    "aria-label": "Go to a session or run a command",
    placeholder: "Go to a session or run a command…",
    autocomplete: "off",
    spellcheck: "false",
    oninput: look,
    onkeydown: press,
  });
  const list = h("div", {
    id: "palette-list",
    role: "listbox",
    "aria-label": "Commands and sessions",
  });
  const dialog = h("dialog", { class: "palette", "aria-label": "Command palette" }, input, list);
  dialog.addEventListener("close", () => {
    asking?.abort();
    dialog.remove();
  });
  dialog.addEventListener("click", (/** @type {Event} */ event) => {
    if (event.target === dialog) dialog.close();
  });
  document.body.append(dialog);
  dialog.showModal();
  look();

  async function look() {
    const text = input.value.trim().toLowerCase();
    /** @type {string[]} */
    const words = text.split(/\s+/).filter(Boolean);
    const fitting = commands.filter(({ label }) =>
      words.every((word) => label.toLowerCase().includes(word)),
    );
    chosen = 0;
    draw(fitting);
    asking?.abort();
    asking = new AbortController();
    try {
      const found = await call(
        "sessions.list",
        text ? { named: text.slice(0, 100), limit: 8 } : { limit: 6 },
        { signal: asking.signal },
      );
      draw([...fitting, ...found.sessions.map(toCommand)]);
    } catch {
      // Without an answer the commands are shown all the same.
    }
  }

  /** @param {any} session @returns {Command} */
  function toCommand(session) {
    return {
      label: nameOf(session),
      hint: `${session.platform} · ${shortTime(session.updated_at)}`,
      icon: "sessions",
      run: () => go(`/s/${session.id}`),
    };
  }

  /** @param {Command[]} found */
  function draw(found) {
    shown = found;
    replace(list, shown.length > 0 ? shown.map(row) : h("p", { class: "faint" }, "Nothing fits."));
    mark();
  }

  /** @param {Command} command @param {number} index */
  function row(command, index) {
    return h(
      "div",
      {
        role: "option",
        id: `palette-${index}`,
        "aria-selected": "false",
        onclick: () => run(index),
      },
      icon(command.icon ?? "right"),
      h("span", { class: "label" }, command.label),
      command.hint && h("span", { class: "faint" }, command.hint),
    );
  }

  function mark() {
    [...list.children].forEach((each, index) => {
      each.setAttribute("aria-selected", String(index === chosen));
      if (index === chosen) each.scrollIntoView({ block: "nearest" });
    });
    input.setAttribute("aria-activedescendant", `palette-${chosen}`);
  }

  /** @param {number} index */
  function run(index) {
    const command = shown[index];
    if (!command) return;
    dialog.close();
    command.run();
  }

  /** @param {KeyboardEvent} event */
  function press(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      chosen = (chosen + step + shown.length) % Math.max(1, shown.length);
      mark();
    } else if (event.key === "Enter") run(chosen);
    else return;
    event.preventDefault();
  }
}

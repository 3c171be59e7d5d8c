// A dialog to choose from a list by typing: the arrows move, Enter chooses, Escape closes. The command
// palette is one, and so is every longer choice.

import { h, icon, replace } from "../dom.js";

/**
 * @typedef {object} Command
 * @property {string} label
 * @property {() => void} run
 * @property {string} [hint] at the right: a key, a group, where it leads
 * @property {string} [icon]
 * @property {Child} [detail] a second line
 * @property {boolean} [checked] it holds already
 *
 * @typedef {object} Chooser
 * @property {string} label what is chosen, for the placeholder and screen readers
 * @property {(text: string) => Command[]} list what fits, shown at once
 * @property {(text: string, signal: AbortSignal) => Promise<Command[]>} [find] all that fits, when it is known
 */

/**
 * Whether all words of a text are in another one.
 *
 * @param {string} text
 * @param {string} whole
 */
export function fits(text, whole) {
  const searched = whole.toLowerCase();
  return text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => searched.includes(word));
}

/** Let a person choose. @param {Chooser} chooser */
export function openChooser({ label, list, find }) {
  document.querySelector("dialog.palette")?.remove();
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
    "aria-autocomplete": "list",
    "aria-label": label,
    placeholder: `${label}…`,
    autocomplete: "off",
    spellcheck: "false",
    oninput: look,
    onkeydown: press,
  });
  const options = h("div", { id: "palette-list", role: "listbox", "aria-label": label });
  const dialog = h("dialog", { class: "palette", "aria-label": label }, input, options);
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
    const text = input.value.trim();
    chosen = 0;
    draw(list(text));
    asking?.abort();
    if (!find) return;
    const asked = (asking = new AbortController());
    try {
      const found = await find(text, asked.signal);
      if (!asked.signal.aborted) draw(found);
    } catch {
      // Without an answer what is known here is shown all the same.
    }
  }

  /** @param {Command[]} found */
  function draw(found) {
    shown = found;
    chosen = Math.min(chosen, Math.max(0, shown.length - 1));
    replace(
      options,
      shown.length > 0
        ? shown.map(row)
        : h("p", { class: "faint", role: "option", "aria-disabled": "true" }, "Nothing fits."),
    );
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
        onpointermove: () => index !== chosen && choose(index),
      },
      icon(command.icon ?? "right"),
      h(
        "span",
        { class: "label" },
        h("span", { class: "cut" }, command.label),
        command.detail && h("span", { class: "cut faint small" }, command.detail),
      ),
      command.checked && icon("check"),
      command.hint && h("span", { class: "hint faint small" }, command.hint),
    );
  }

  /** @param {number} index */
  function choose(index) {
    chosen = index;
    mark();
  }

  function mark() {
    [...options.children].forEach((each, index) => {
      each.setAttribute("aria-selected", String(index === chosen && shown.length > 0));
      if (index === chosen) each.scrollIntoView({ block: "nearest" });
    });
    if (shown.length > 0) input.setAttribute("aria-activedescendant", `palette-${chosen}`);
    else input.removeAttribute("aria-activedescendant");
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
    if (event.isComposing) return;
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
    const many = shown.length;
    if (step && many > 0) {
      const next = chosen + step;
      choose(Math.abs(step) === 1 ? (next + many) % many : Math.max(0, Math.min(many - 1, next)));
    } else if (event.key === "Enter") run(chosen);
    else return;
    event.preventDefault();
  }
}

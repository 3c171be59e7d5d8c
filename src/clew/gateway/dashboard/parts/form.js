// Small pieces of forms: labelled fields, tabs, text to copy, a button that waits for what it does.

import { h, icon, replace } from "../dom.js";
import { notifyProblem } from "./notice.js";

/**
 * @param {string} label
 * @param {HTMLElement} input
 * @param {Child} [help]
 */
export function field(label, input, help) {
  if (!help) return h("label", { class: "field" }, h("span", null, label), input);
  const id = `help-${Math.random().toString(36).slice(2)}`;
  input.setAttribute("aria-describedby", id);
  return h(
    "div",
    { class: "field" },
    h("label", null, h("span", null, label), input),
    h("span", { class: "faint small", id }, help),
  );
}

/**
 * One of a few: buttons of which one is pressed.
 *
 * @template {string} T
 * @param {string} label
 * @param {[value: T, name: string][]} options
 * @param {T} chosen
 * @param {(value: T) => void} choose
 * @returns {HTMLElement}
 */
export function segments(label, options, chosen, choose) {
  const buttons = options.map(([value, name]) =>
    h(
      "button",
      {
        type: "button",
        "aria-pressed": String(value === chosen),
        onclick: () => {
          for (const [index, [each]] of options.entries())
            buttons[index].setAttribute("aria-pressed", String(each === value));
          choose(value);
        },
      },
      name,
    ),
  );
  return h("div", { class: "segments", role: "group", "aria-label": label }, buttons);
}

/**
 * A button that can't be pressed again while it works, and says what went wrong.
 *
 * @param {Child} label
 * @param {() => Promise<unknown>} run
 * @param {Record<string, any>} [properties]
 */
export function actionButton(label, run, properties = {}) {
  const button = h(
    "button",
    {
      type: "button",
      ...properties,
      onclick: async () => {
        // Not disabled meanwhile: that would take the focus away from who presses keys.
        if (button.getAttribute("aria-disabled")) return;
        button.setAttribute("aria-disabled", "true");
        try {
          await run();
        } catch (error) {
          notifyProblem(error);
        } finally {
          button.removeAttribute("aria-disabled");
        }
      },
    },
    label,
  );
  return button;
}

/**
 * A text with a button that copies it.
 *
 * @param {string} text
 * @param {string} [label] of the button
 */
export function copyable(text, label = "Copy") {
  const words = h("span", { role: "status" }, label);
  return h(
    "div",
    { class: "copyable" },
    h("code", null, text),
    h(
      "button",
      {
        type: "button",
        onclick: async () => {
          try {
            await navigator.clipboard.writeText(text);
            replace(words, "Copied");
          } catch {
            // On plain http to another host a browser does not copy.
            replace(words, "Select it and copy");
          }
        },
      },
      icon("copy"),
      words,
    ),
  );
}

/**
 * A form in a dialog: what goes wrong is said in it, since notices are behind a dialog, and what was
 * typed stays.
 *
 * @param {string} id
 * @param {() => Promise<unknown>} send
 * @param {...Child} fields
 */
export function dialogForm(id, send, ...fields) {
  const said = h("p", { class: "bad", role: "alert" });
  return h(
    "form",
    {
      class: "form",
      id,
      onsubmit: async (/** @type {Event} */ event) => {
        event.preventDefault();
        replace(said);
        try {
          await send();
        } catch (error) {
          replace(said, error instanceof Error ? error.message : String(error));
        }
      },
    },
    fields,
    said,
  );
}

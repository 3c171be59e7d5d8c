// Small pieces of forms: labelled fields, tabs, text to copy, a button that waits for what it does.

import { h, icon } from "../dom.js";
import { notify, notifyProblem } from "./notice.js";

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
        button.disabled = true;
        try {
          await run();
        } catch (error) {
          notifyProblem(error);
        } finally {
          button.disabled = false;
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
            notify("Copied.");
          } catch {
            notify("This browser does not copy here: select the text and copy it yourself.", {
              isError: true,
            });
          }
        },
      },
      icon("copy"),
      label,
    ),
  );
}

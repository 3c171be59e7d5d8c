// A button that opens a menu: arrows move, Enter chooses, Escape closes.

import { h } from "../dom.js";

/**
 * @typedef {object} Choice
 * @property {string} label
 * @property {() => void} run
 * @property {boolean} [checked] shown with a mark
 * @property {string} [hint] at the right, such as a key
 */

/**
 * @param {Child} label
 * @param {() => Choice[] | Promise<Choice[]>} list asked each time it is opened
 * @param {Record<string, any>} [properties] of the button
 * @returns {HTMLElement}
 */
export function menuButton(label, list, properties = {}) {
  /** @type {HTMLElement | null} */
  let menu = null;
  const button = h(
    "button",
    {
      type: "button",
      "aria-haspopup": "menu",
      "aria-expanded": "false",
      ...properties,
      onclick: toggle,
    },
    label,
  );
  const place = h("span", { class: "menu-place" }, button);

  async function toggle() {
    if (menu) return close();
    const choices = await list();
    const made = h("div", { class: "menu", role: "menu", onkeydown: move }, choices.map(item));
    menu = made;
    place.append(made);
    const box = made.getBoundingClientRect();
    if (box.right > innerWidth) made.classList.add("to-left");
    if (box.bottom > innerHeight) made.classList.add("above");
    button.setAttribute("aria-expanded", "true");
    made.querySelector("button")?.focus();
    document.addEventListener("pointerdown", leave, true);
  }

  function close() {
    menu?.remove();
    menu = null;
    button.setAttribute("aria-expanded", "false");
    document.removeEventListener("pointerdown", leave, true);
  }

  /** @param {Event} event */
  function leave(event) {
    if (!place.contains(/** @type {Node} */ (event.target))) close();
  }

  /** @param {Choice} choice */
  function item({ label: text, run, checked, hint }) {
    const role = checked === undefined ? "menuitem" : "menuitemradio";
    return h(
      "button",
      {
        type: "button",
        role,
        tabindex: "-1",
        "aria-checked": checked === undefined ? null : String(checked),
        onclick: () => {
          close();
          button.focus();
          run();
        },
      },
      h("span", null, text),
      hint && h("kbd", { "aria-hidden": "true" }, hint),
    );
  }

  /** @param {KeyboardEvent} event */
  function move(event) {
    const items = /** @type {HTMLElement[]} */ ([...(menu?.querySelectorAll("button") ?? [])]);
    const at = items.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[event.key];
    if (next !== undefined) items[(next + items.length) % items.length]?.focus();
    else if (event.key === "Escape" || event.key === "Tab") {
      close();
      button.focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  return place;
}

// Dialogs on the browser's own <dialog>: focus stays inside, Escape closes, focus returns.

import { h, icon } from "../dom.js";

/**
 * Show a dialog until it is closed.
 *
 * @param {string} title
 * @param {Child} content
 * @param {{actions?: any[], wide?: boolean, onClose?: () => void}} [options]
 * @returns {HTMLDialogElement}
 */
export function openDialog(title, content, { actions = [], wide = false, onClose } = {}) {
  const close = () => dialog.close();
  const name = `dialog-${Math.random().toString(36).slice(2)}`;
  /** @type {HTMLDialogElement} */
  const dialog = h(
    "dialog",
    { class: wide ? "dialog wide" : "dialog", "aria-labelledby": name },
    h(
      "header",
      null,
      h("h2", { id: name }, title),
      h(
        "button",
        { class: "quiet", type: "button", "aria-label": "Close", onclick: close },
        icon("close"),
      ),
    ),
    h("div", { class: "dialog-body" }, content),
    actions.length > 0 && h("footer", null, actions),
  );
  dialog.addEventListener("close", () => {
    dialog.remove();
    onClose?.();
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) close();
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/**
 * Ask before something that can't be undone. Everything else is done at once, with an undo.
 *
 * @param {string} title
 * @param {string} text what will happen
 * @param {string} yes the words of the button that does it
 * @returns {Promise<boolean>}
 */
export function confirm(title, text, yes) {
  return new Promise((resolve) => {
    let answer = false;
    const decide = (/** @type {boolean} */ value) => () => {
      answer = value;
      dialog.close();
    };
    const dialog = openDialog(title, h("p", null, text), {
      actions: [
        h("button", { type: "button", onclick: decide(false) }, "Cancel"),
        h("button", { type: "button", class: "danger", onclick: decide(true) }, yes),
      ],
      onClose: () => resolve(answer),
    });
  });
}

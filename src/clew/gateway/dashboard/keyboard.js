// Keys of the page. A key is registered with words for it, which `?` shows; a letter alone is a key
// only while nobody types.

/**
 * @typedef {object} Shortcut
 * @property {string} keys such as "j", "Ctrl+k", "g s" (one after the other), "Escape"
 * @property {string} does in words, for the list of keys
 * @property {string} group where it belongs in that list
 * @property {(event: KeyboardEvent) => void | false} run false: this key was not for it after all
 */

const SEQUENCE = 1_000;

/** @type {Shortcut[]} */
const shortcuts = [];
let before = "";
let beforeAt = 0;

/**
 * Register keys; the newest one comes first.
 *
 * @param {string} group
 * @param {[keys: string, does: string, run: Shortcut["run"]][]} rows
 * @returns {() => void} take them back
 */
export function addKeys(group, rows) {
  const added = rows.map(([keys, does, run]) => ({ keys, does, group, run }));
  shortcuts.unshift(...added);
  return () => {
    for (const each of added) shortcuts.splice(shortcuts.indexOf(each), 1);
  };
}

/** Nobody is signed in any more: no key works. */
export function dropAllKeys() {
  shortcuts.length = 0;
}

/** The keys that work now, for the list of keys. @returns {Shortcut[]} */
export function listKeys() {
  return shortcuts.filter((each) => each.does);
}

/**
 * Whether an element takes what is typed.
 *
 * @param {EventTarget | null} element
 */
export function isTyping(element) {
  return (
    element instanceof HTMLElement &&
    (element.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName)) &&
    !["checkbox", "radio", "button"].includes(element.getAttribute("type") ?? "")
  );
}

/** @param {KeyboardEvent} event */
function spell(event) {
  const key = event.key.length === 1 && event.key !== " " ? event.key.toLowerCase() : event.key;
  const shift = event.shiftKey && (event.key.length > 1 || /[a-z]/i.test(event.key));
  return `${event.ctrlKey || event.metaKey ? "Ctrl+" : ""}${event.altKey ? "Alt+" : ""}${shift ? "Shift+" : ""}${key}`;
}

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.isComposing) return;
  const spelled = spell(event);
  const typing = isTyping(event.target);
  const plain = !/^(Ctrl|Alt)\+/.test(spelled) && spelled !== "Escape";
  // By itself a browser closes a dialog a moment after Escape, and leaves the focus in it for a moment
  // more when there is nothing to give it back to: keys pressed in that time would be lost.
  const dialog = [...document.querySelectorAll("dialog[open]")].at(-1);
  if (spelled === "Escape" && dialog instanceof HTMLDialogElement) {
    event.preventDefault();
    dialog.close();
    const focused = document.activeElement;
    if (focused instanceof HTMLElement && dialog.contains(focused)) focused.blur();
    return;
  }
  // Dialogs and menus have keys of their own.
  const isCovered = document.querySelector("dialog[open], [role=menu]") !== null;
  if ((plain && typing) || (isCovered && (plain || spelled === "Escape"))) return;
  const sequence = performance.now() - beforeAt < SEQUENCE ? `${before} ${spelled}` : "";
  for (const wanted of [sequence, spelled].filter(Boolean)) {
    for (const each of shortcuts.filter((shortcut) => shortcut.keys === wanted)) {
      if (each.run(event) === false) continue;
      event.preventDefault();
      before = "";
      return;
    }
  }
  before = spelled;
  beforeAt = performance.now();
});

// Completion of slash commands over an input: arrows choose, Tab or Enter takes, Escape closes.

import { call } from "../api.js";
import { h, replace } from "../dom.js";

/** @typedef {{text: string, help: string, wants: boolean}} Offer `wants`: more is to be typed */

const LEVELS = ["off", "low", "medium", "high"];

/**
 * @param {HTMLTextAreaElement} input
 * @returns {{element: HTMLElement, look: () => void, press: (event: KeyboardEvent) => boolean, close: () => boolean}}
 */
export function makeCompletion(input) {
  const element = h("div", {
    class: "completion",
    role: "listbox",
    id: "commands",
    "aria-label": "Commands",
    hidden: true,
  });
  /** @type {Offer[]} */
  let offers = [];
  let chosen = 0;
  /** @type {Promise<any[]> | null} */
  let known = null;

  /** @returns {Promise<any[]>} */
  function commands() {
    known ??= call("commands.list").then(
      (found) => [
        ...found.commands,
        { name: "export", usage: "[md|html|jsonl]", help: "Download this session." },
      ],
      () => {
        known = null;
        return [];
      },
    );
    return known;
  }

  async function look() {
    const text = input.value;
    const match = /^\/([a-z_-]*)(?:\s+(\S*))?$/i.exec(text);
    if (!match || text.includes("\n")) return void close();
    const found =
      match[2] === undefined
        ? await listNames(String(match[1]).toLowerCase())
        : await listValues(String(match[1]).toLowerCase(), match[2].toLowerCase());
    if (input.value !== text) return;
    offers = found.slice(0, 40);
    chosen = 0;
    draw();
  }

  /** @param {string} start @returns {Promise<Offer[]>} */
  async function listNames(start) {
    const fitting = (await commands()).filter(
      (each) =>
        each.name.startsWith(start) ||
        (each.aliases ?? []).some((/** @type {string} */ alias) => alias.startsWith(start)),
    );
    return fitting.map((each) => ({
      text: `/${each.name}`,
      help: `${each.usage ? `${each.usage}  ` : ""}${each.help}`,
      wants: Boolean(each.usage),
    }));
  }

  /** @param {string} name @param {string} start @returns {Promise<Offer[]>} */
  async function listValues(name, start) {
    /** @type {[string, string][]} */
    let values = [];
    if (name === "thinking") values = LEVELS.map((each) => [each, ""]);
    else if (name === "mode")
      values = [
        ["default", "works, and asks before it changes things"],
        ["plan", "looks and proposes"],
      ];
    else if (name === "export") values = ["md", "html", "jsonl"].map((each) => [each, ""]);
    else if (name === "model") {
      const { models } = await call("models.list").catch(() => ({ models: [] }));
      values = models.map((/** @type {any} */ each) => [each.name, each.problem ?? ""]);
    } else if (name === "personality") {
      const { personalities } = await call("personalities.list").catch(() => ({
        personalities: [],
      }));
      values = personalities.map((/** @type {any} */ each) => [each.id, each.description ?? ""]);
    }
    return values
      .filter(([value]) => value.toLowerCase().includes(start) && value !== start)
      .map(([value, help]) => ({ text: `/${name} ${value}`, help, wants: false }));
  }

  function draw() {
    element.hidden = offers.length === 0;
    replace(
      element,
      offers.map(({ text, help }, index) =>
        h(
          "div",
          {
            role: "option",
            id: `command-${index}`,
            "aria-selected": String(index === chosen),
            onpointerdown: (/** @type {Event} */ event) => {
              event.preventDefault();
              take(index);
            },
          },
          h("code", null, text),
          h("span", { class: "faint cut" }, help),
        ),
      ),
    );
    if (offers.length > 0) input.setAttribute("aria-activedescendant", `command-${chosen}`);
    else input.removeAttribute("aria-activedescendant");
    element.children[chosen]?.scrollIntoView({ block: "nearest" });
  }

  /** @param {number} index */
  function take(index) {
    const offer = offers[index];
    if (!offer) return;
    input.value = offer.wants ? `${offer.text} ` : offer.text;
    input.dispatchEvent(new Event("input"));
    if (!offer.wants) close();
  }

  /** Whether the key was for the list. @param {KeyboardEvent} event */
  function press(event) {
    if (element.hidden) return false;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      chosen = (chosen + step + offers.length) % offers.length;
      draw();
    } else if (event.key === "Tab" || (event.key === "Enter" && !isWhole())) take(chosen);
    else if (event.key === "Escape") close();
    else return false;
    event.preventDefault();
    return true;
  }

  /** A whole command is run by Enter; nothing has to be chosen first. */
  function isWhole() {
    return input.value.trim() === offers[chosen]?.text.trim() || /\s/.test(input.value.trim());
  }

  function close() {
    if (element.hidden) return false;
    offers = [];
    draw();
    return true;
  }

  return { element, look, press, close };
}

// The head of a session's page: its name, which is changed in place; what runs; and a menu.

import { h, icon, replace } from "../dom.js";
import { nameOf } from "../format.js";
import { menuButton } from "./menu.js";
import { openOn } from "./about.js";

/**
 * @param {{rename: (title: string) => Promise<void>, choices: () => any[], find: () => void, about: () => void}} given
 */
export function makeHead({ rename, choices, find, about }) {
  const title = h("h1", { class: "title" });
  const pills = h("div", { class: "pills" });
  const aboutButton = h(
    "button",
    {
      type: "button",
      class: "quiet",
      "aria-pressed": "false",
      title: "About this session (d)",
      onclick: about,
    },
    icon("status"),
    h("span", { class: "wide-only" }, "About"),
  );
  const element = h(
    "header",
    { class: "session-head" },
    h("a", { class: "back", href: "/", "aria-label": "All sessions" }, icon("left")),
    title,
    pills,
    h(
      "div",
      { class: "actions" },
      h(
        "button",
        {
          type: "button",
          class: "quiet",
          title: "Find (Ctrl+F)",
          "aria-label": "Find in this session",
          onclick: find,
        },
        icon("search"),
      ),
      aboutButton,
      menuButton(icon("more"), choices, { class: "quiet", "aria-label": "More" }),
    ),
  );
  /** @type {any} */
  let shown = null;

  function draw() {
    replace(
      title,
      h(
        "button",
        { type: "button", class: "quiet", title: "Rename (r)", onclick: edit },
        h("span", { class: "cut" }, nameOf(shown)),
      ),
    );
  }

  function edit() {
    if (!shown) return;
    const input = h("input", {
      type: "text",
      maxlength: "200",
      value: shown.title ?? nameOf(shown),
      "aria-label": "Title",
      onblur: () => end(true),
      onkeydown: (/** @type {KeyboardEvent} */ event) => {
        if (event.key !== "Enter" && event.key !== "Escape") return;
        event.preventDefault();
        event.stopPropagation();
        end(event.key === "Enter");
        title.querySelector("button")?.focus();
      },
    });
    let isOpen = true;
    const end = (/** @type {boolean} */ keeps) => {
      if (!isOpen) return;
      isOpen = false;
      const text = input.value.trim();
      if (keeps && text && text !== nameOf(shown)) rename(text);
      draw();
    };
    replace(title, input);
    input.focus();
    input.select();
  }

  return {
    element,
    edit,
    /** @param {any} session @param {any} state @param {boolean} isRunning @param {number} waiting */
    show(session, state, isRunning, waiting) {
      const wasEdited = title.querySelector("input");
      shown = session;
      if (!wasEdited) draw();
      const places = openOn(session, state);
      replace(
        pills,
        waiting > 0
          ? h("span", { class: "pill waiting" }, "waits for you")
          : isRunning && h("span", { class: "pill running" }, "running"),
        session.pinned && h("span", { class: "pill" }, icon("pin"), "pinned"),
        session.archived_at && h("span", { class: "pill" }, "archived"),
        places.length > 0 && h("span", { class: "pill open-on" }, `Open on: ${places.join(", ")}`),
      );
    },
    /** @param {boolean} isShown */
    setAbout(isShown) {
      aboutButton.setAttribute("aria-pressed", String(isShown));
    },
  };
}

// The first steps: from nothing to the first answer. Which model, whether it answers, what to ask.

import { call } from "../api.js";
import { h, icon, replace } from "../dom.js";
import { addProvider, missingModels, testButton } from "../parts/agent_settings.js";
import { actionButton, copyable } from "../parts/form.js";
import { notify } from "../parts/notice.js";
import { failure, pageHeader } from "../parts/page.js";
import { rows, row } from "../parts/panel.js";
import { go } from "../router.js";

const FIRST = "Hello! What can you do for me?";
const KEY = "clew.first";

/** @type {View} */
export function showWelcome(root) {
  const model = h("div", null, h("p", { class: "faint" }, "Looking for models…"));
  const result = h("div", { role: "status" });
  const testing = h("div", { class: "buttons" });
  const message = h("textarea", {
    rows: "3",
    "aria-label": "Your first message",
    value: localStorage.getItem(KEY) ?? FIRST,
    oninput: () => localStorage.setItem(KEY, message.value),
    onkeydown: (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) sending.click();
    },
  });
  const sending = actionButton([icon("send"), "Send"], send, { class: "primary" });
  root.append(
    pageHeader("Welcome"),
    h(
      "div",
      { class: "page-body" },
      h(
        "p",
        null,
        "clew keeps every conversation with your agent in one place: terminal, browser, phone. Three steps to the first answer.",
      ),
      h(
        "ol",
        { class: "steps" },
        step("Which model answers", model),
        step("See whether it answers", testing, result),
        step(
          "Say something",
          message,
          h("div", { class: "buttons spaced" }, sending, h("kbd", null, "Ctrl+Enter")),
        ),
        step("Where to go next", next()),
      ),
    ),
  );
  read();

  async function read() {
    try {
      draw(await call("models.list"));
    } catch (error) {
      replace(model, failure(error, read));
    }
  }

  /** @param {any} list */
  function draw({ models, current }) {
    const usable = models.filter((/** @type {any} */ each) => !each.problem);
    replace(
      model,
      usable.length === 0 &&
        h("p", { class: "warn" }, current.problem ?? "No model can be used yet."),
      rows(
        usable.map((/** @type {any} */ each) => {
          const isDefault = each.name === current.name;
          return row(
            [
              h("strong", null, each.name),
              isDefault && h("span", { class: "pill running" }, "answers now"),
            ],
            each.embedded
              ? "Small, on this machine: no key and no network, but weak answers."
              : `Found: a key or a server for ${each.provider}.`,
            !isDefault && actionButton("Use this one", () => use(each.name)),
          );
        }),
        "",
      ),
      missingModels(models.filter((/** @type {any} */ each) => each.problem)),
      h(
        "div",
        { class: "buttons spaced" },
        h(
          "button",
          { type: "button", onclick: () => addProvider(read) },
          icon("key"),
          "Add a key or a server",
        ),
      ),
    );
    replace(testing, current.problem ? null : testButton(current.name, result), current.name);
  }

  /** @param {string} name */
  async function use(name) {
    await call("config.set", { key: "model", value: name });
    notify(`${name} answers from now on.`);
    await read();
  }

  async function send() {
    if (!message.value.trim()) return message.focus();
    const { session } = await call("chat.send", { text: message.value });
    localStorage.removeItem(KEY);
    go(`/s/${session}`);
  }
}

/** @param {string} title @param {...Child} content */
function step(title, ...content) {
  return h("li", { class: "panel" }, h("h2", null, title), content);
}

function next() {
  return rows(
    [
      row("In the terminal", copyable("clew")),
      row("Bring your history along", copyable("clew import")),
      row("Talk from your phone", copyable("clew channels add")),
      row(
        [h("a", { href: "/memory" }, "Tell it who you are")],
        "What it should always know about you.",
      ),
    ],
    "",
  );
}

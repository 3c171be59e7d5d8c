// What answers, and how: models, personalities, the configuration. Panels of the page "Settings".

import { call } from "../api.js";
import { h, icon, replace } from "../dom.js";
import { duration, number } from "../format.js";
import { openDialog } from "./dialog.js";
import { actionButton, dialogForm, field } from "./form.js";
import { notify } from "./notice.js";
import { panel, row, rows } from "./panel.js";

/** Providers that need nothing but a key; the last is any server. @type {[id: string, name: string][]} */
const PROVIDERS = [
  ["anthropic", "Anthropic"],
  ["openai", "OpenAI"],
  ["google", "Google"],
  ["", "A server that speaks as OpenAI's does (Ollama, vLLM, …)"],
];

/**
 * The models that can be named. `chosen` is called when another one becomes the default.
 *
 * @param {() => unknown} [chosen]
 */
export function modelsPanel(chosen) {
  const made = panel(
    "Models",
    () => call("models.list"),
    ({ models, current }, refresh) => {
      const usable = models.filter(
        (/** @type {any} */ each) => !each.problem || each.name === current.name,
      );
      return [
        rows(
          usable.map((/** @type {any} */ each) =>
            modelRow(each, each.name === current.name, refresh, chosen),
          ),
          "No model can be used yet.",
        ),
        missingModels(models.filter((/** @type {any} */ each) => !usable.includes(each))),
      ];
    },
    {
      actions: h(
        "button",
        {
          type: "button",
          onclick: () =>
            addProvider(async () => {
              await made.refresh();
              chosen?.();
            }),
        },
        icon("key"),
        "Add a key or a server",
      ),
    },
  );
  return made;
}

/**
 * Ask for a key, or for a server that speaks as OpenAI's does.
 *
 * @param {() => unknown} added
 */
export function addProvider(added) {
  const kind = h(
    "select",
    { onchange: draw },
    PROVIDERS.map(([id, name]) => h("option", { value: id }, name)),
  );
  const name = h("input", { type: "text", maxlength: "60", value: "ollama", autocomplete: "off" });
  const address = h("input", {
    type: "text",
    maxlength: "500",
    value: "http://localhost:11434/v1",
    autocomplete: "off",
  });
  const models = h("input", {
    type: "text",
    maxlength: "1000",
    placeholder: "qwen3",
    autocomplete: "off",
  });
  const key = h("input", { type: "password", maxlength: "1000", autocomplete: "off" });
  const server = h(
    "div",
    { class: "form" },
    h("div", { class: "pair" }, field("Name", name), field("Address", address)),
    field("Models", models, "Their names there, with spaces between them"),
  );
  const form = dialogForm(
    "add-provider",
    send,
    field("From", kind),
    server,
    field(
      "Key",
      key,
      "It is kept in a file that only the gateway's user can read, and never shown again.",
    ),
  );
  const dialog = openDialog("Add a key or a server", form, {
    actions: [
      h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
      h("button", { class: "primary", form: "add-provider" }, "Add"),
    ],
  });
  draw();

  function draw() {
    server.hidden = kind.value !== "";
  }

  async function send() {
    const id = kind.value || name.value.trim();
    const set = (/** @type {string} */ what, /** @type {string} */ value) =>
      call("config.set", { key: `providers.${id}.${what}`, value });
    // The address before the key: a new address takes the old key away.
    if (!kind.value) {
      await set("base_url", address.value.trim());
      const names = models.value.split(/[\s,]+/).filter(Boolean);
      if (names.length > 0) await set("models", JSON.stringify(names));
    }
    if (key.value) await set("api_key", key.value.trim());
    dialog.close();
    notify("Added. Test it before you rely on it.");
    await added();
  }
}

/**
 * Models that need something first, said once for those that need the same.
 *
 * @param {any[]} models
 */
export function missingModels(models) {
  if (models.length === 0) return null;
  /** @type {Map<string, string[]>} */
  const reasons = new Map();
  for (const { name, problem } of models)
    reasons.set(problem, [...(reasons.get(problem) ?? []), name]);
  return h(
    "details",
    { class: "more" },
    h("summary", null, `${models.length} more, which need a key or a program`),
    rows(
      [...reasons].map(([problem, names]) =>
        row(names.join(", "), h("span", { class: "warn" }, problem)),
      ),
      "",
    ),
  );
}

/**
 * @param {any} model
 * @param {boolean} isDefault
 * @param {() => Promise<void>} refresh
 * @param {() => unknown} [chosen]
 */
function modelRow(model, isDefault, refresh, chosen) {
  const result = h("div", { role: "status", class: "small" });
  return row(
    [
      h("strong", null, model.name),
      isDefault && h("span", { class: "pill running" }, "default"),
      model.embedded && h("span", { class: "pill" }, "on this machine"),
    ],
    [
      [
        model.provider,
        model.context_window && `${number(model.context_window)} tokens`,
        model.images && "sees pictures",
        model.tools === false && "no tools",
      ]
        .filter(Boolean)
        .join(", "),
      model.problem && h("div", { class: "warn" }, model.problem),
      result,
    ],
    !model.problem && testButton(model.name, result),
    !isDefault &&
      !model.problem &&
      actionButton(
        "Use by default",
        async () => {
          await call("config.set", { key: "model", value: model.name });
          notify(`New chats use ${model.name}.`);
          await refresh();
          chosen?.();
        },
        { "data-key": `use-${model.name}` },
      ),
  );
}

/**
 * Ask a model for a word, and say how it went.
 *
 * @param {string} name
 * @param {HTMLElement} place where the result is shown
 * @param {(ok: boolean) => unknown} [done]
 */
export function testButton(name, place, done) {
  return actionButton(
    ["Test", h("span", { class: "visually-hidden" }, ` ${name}`)],
    async () => {
      replace(place, h("span", { class: "faint" }, "Asking it…"));
      try {
        const { works, ms, words } = await call("models.test", { name });
        replace(
          place,
          works
            ? h("span", { class: "good" }, `It answers, in ${duration(ms)}: ${words}`)
            : h("span", { class: "bad" }, words),
        );
        done?.(works);
      } catch (error) {
        replace(
          place,
          h("span", { class: "bad" }, error instanceof Error ? error.message : String(error)),
        );
        done?.(false);
      }
    },
    { "data-key": `test-${name}` },
  );
}

export function personalitiesPanel() {
  const made = panel(
    "Personalities",
    async () => (await call("personalities.list")).personalities,
    (personalities, refresh) =>
      rows(
        personalities.map((/** @type {any} */ each) =>
          row(
            [
              h("strong", null, each.name),
              each.builtin && h("span", { class: "pill" }, "of clew"),
              each.memory_scope === "per-personality" && h("span", { class: "pill" }, "own memory"),
            ],
            [each.description, each.model && ` Model: ${each.model}.`],
            h(
              "button",
              {
                type: "button",
                "data-key": `open-${each.id}`,
                onclick: () => openPersonality(each, refresh),
              },
              "Open",
              h("span", { class: "visually-hidden" }, ` ${each.name}`),
            ),
          ),
        ),
        "There is no personality.",
      ),
    {
      lead: "A personality is how the agent speaks, and which model and tools it has.",
      actions: h(
        "button",
        { type: "button", onclick: () => newPersonality(made.refresh) },
        icon("plus"),
        "New",
        h("span", { class: "visually-hidden" }, " personality"),
      ),
    },
  );
  return made;
}

/** @param {() => Promise<void>} refresh */
function newPersonality(refresh) {
  const id = h("input", {
    type: "text",
    required: true,
    maxlength: "64",
    pattern: "[a-z0-9][a-z0-9_\\-]*",
    autocomplete: "off",
  });
  const dialog = openDialog(
    "A new personality",
    h(
      "form",
      {
        class: "form",
        id: "new-personality",
        onsubmit: (/** @type {Event} */ event) => {
          event.preventDefault();
          dialog.close();
          openPersonality({ id: id.value, name: id.value }, refresh);
        },
      },
      field("Name", id, "Small letters, digits, - and _"),
    ),
    { actions: [h("button", { class: "primary", form: "new-personality" }, "Go on")] },
  );
  id.focus();
}

/** @param {any} personality @param {() => Promise<void>} refresh */
function openPersonality(personality, refresh) {
  const soul = h("textarea", {
    class: "editor",
    rows: "10",
    value: personality.soul ?? "",
    spellcheck: "false",
  });
  const description = h("input", {
    type: "text",
    maxlength: "1000",
    value: personality.description ?? "",
  });
  const model = h("input", { type: "text", maxlength: "200", value: personality.model ?? "" });
  const own = h("input", {
    type: "checkbox",
    checked: personality.memory_scope === "per-personality",
  });
  const question = h("input", { type: "text", value: "Who are you?", maxlength: "1000" });
  const answer = h("div", { role: "status", class: "small" });
  const form = dialogForm(
    "personality",
    async () => {
      await call("personalities.update", {
        id: personality.id,
        edit: {
          soul: soul.value,
          description: description.value || null,
          model: model.value || null,
          memory_scope: own.checked ? "per-personality" : "global",
        },
      });
      dialog.close();
      notify("Saved. The next turn uses it.");
      await refresh();
    },
    field("What it is for", description),
    field("What the model is told first (SOUL.md)", soul),
    field("Model", model, "Left empty: the default"),
    h("label", { class: "check" }, own, "It has a memory of its own"),
  );
  const trial = dialogForm(
    "try-personality",
    async () => {
      replace(answer, h("span", { class: "faint" }, "Asking…"));
      const asked = { id: personality.id, soul: soul.value, question: question.value };
      const {
        works,
        words,
        model: by,
      } = await call("personalities.test", asked).catch((error) => {
        replace(answer);
        throw error;
      });
      replace(answer, h("span", { class: works ? "" : "bad" }, words), works && ` (${by})`);
    },
    h(
      "div",
      { class: "ask end" },
      field("Try it as it stands here", question),
      h("button", null, "Ask"),
    ),
    answer,
  );
  const dialog = openDialog(personality.name, [form, trial], {
    wide: true,
    actions: [
      h("button", { type: "button", onclick: () => dialog.close() }, "Close"),
      h("button", { class: "primary", form: "personality" }, "Save"),
    ],
  });
}

export function configPanel() {
  return panel(
    "Configuration",
    () => call("config.show"),
    ({ file, settings }) => {
      const isSet = (/** @type {any} */ each) => each.source !== "default";
      return [
        h("p", { class: "faint small path" }, file),
        rows(
          settings.filter(isSet).map(setting),
          "Nothing is set: everything has its usual value.",
        ),
        h(
          "details",
          { class: "more" },
          h(
            "summary",
            null,
            `${settings.filter((/** @type {any} */ each) => !isSet(each)).length} usual values`,
          ),
          rows(settings.filter((/** @type {any} */ each) => !isSet(each)).map(setting), ""),
        ),
      ];
    },
    { lead: "What holds now, and where it comes from. Secrets are not shown." },
  );
}

/** @param {any} setting */
function setting({ key, value, source }) {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return row(h("code", null, key), [
    h("code", null, text || "empty"),
    source !== "default" && ` from ${source}`,
  ]);
}

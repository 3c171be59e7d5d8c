// What answers, and how: models, personalities, the configuration. Panels of the page "Settings".

import { call } from "../api.js";
import { h, icon, replace } from "../dom.js";
import { duration, number } from "../format.js";
import { openDialog } from "./dialog.js";
import { actionButton, field } from "./form.js";
import { notify, notifyProblem } from "./notice.js";
import { panel, row, rows } from "./panel.js";

/**
 * The models that can be named. `chosen` is called when another one becomes the default.
 *
 * @param {() => unknown} [chosen]
 */
export function modelsPanel(chosen) {
  return panel(
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
  );
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
        const { ok, ms, problem, text } = await call("models.test", { name });
        replace(
          place,
          ok
            ? h(
                "span",
                { class: "good" },
                icon("check"),
                ` It answers, in ${duration(ms)}${text ? `: ${text}` : "."}`,
              )
            : h("span", { class: "bad" }, problem),
        );
        done?.(ok);
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
  return panel(
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
    { lead: "A personality is how the agent speaks, and which model and tools it has." },
  );
}

/** @param {any} personality @param {() => Promise<void>} refresh */
function openPersonality(personality, refresh) {
  const soul = h("textarea", {
    class: "editor",
    rows: "10",
    value: personality.soul ?? "",
    "aria-label": "How it begins",
    spellcheck: "false",
  });
  const description = h("input", {
    type: "text",
    maxlength: "1000",
    value: personality.description ?? "",
  });
  const question = h("input", { type: "text", value: "Who are you?", maxlength: "1000" });
  const answer = h("div", { role: "status", class: "small" });
  const dialog = openDialog(
    personality.name,
    h(
      "div",
      { class: "form" },
      field("What it is for", description),
      field("What the model is told first (SOUL.md)", soul),
      h(
        "div",
        { class: "buttons" },
        field("Try it", question),
        actionButton("Ask", async () => {
          replace(answer, h("span", { class: "faint" }, "Asking…"));
          const result = await call("personalities.test", {
            id: personality.id,
            soul: soul.value,
            text: question.value,
          });
          replace(answer, result.text ?? result.problem);
        }),
      ),
      answer,
    ),
    {
      wide: true,
      actions: [
        h("button", { type: "button", onclick: () => dialog.close() }, "Close"),
        actionButton(
          "Save",
          async () => {
            try {
              await call("personalities.update", {
                id: personality.id,
                soul: soul.value,
                description: description.value,
              });
              dialog.close();
              notify("Saved. The next turn uses it.");
              await refresh();
            } catch (error) {
              notifyProblem(error);
            }
          },
          { class: "primary" },
        ),
      ],
    },
  );
}

export function configPanel() {
  return panel(
    "Configuration",
    () => call("config.show"),
    ({ settings }) =>
      rows(
        settings.map((/** @type {any} */ each) =>
          row(h("code", null, each.key), [h("code", null, String(each.value)), ` ${each.source}`]),
        ),
        "Nothing is set: everything has its usual value.",
      ),
    { lead: "What holds now, and where it comes from. Secrets are not shown." },
  );
}

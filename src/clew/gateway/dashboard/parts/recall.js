// What the model would be given of memory for a question: a panel of the page "Memory".

import { call } from "../api.js";
import { h, replace } from "../dom.js";
import { notifyProblem } from "./notice.js";
import { row, rows } from "./panel.js";

/**
 * @param {() => {personality?: string, person?: string}} whose
 * @returns {HTMLElement}
 */
export function recallPanel(whose) {
  const question = h("input", {
    type: "search",
    "aria-label": "A question as you would ask it",
    placeholder: "A question as you would ask it",
    maxlength: "4000",
  });
  const found = h("div", { role: "status" });
  return h(
    "section",
    { class: "panel", "aria-labelledby": "recall" },
    h("header", null, h("h2", { id: "recall" }, "What the model is given")),
    h(
      "form",
      {
        class: "ask",
        onsubmit: async (/** @type {Event} */ event) => {
          event.preventDefault();
          if (!question.value.trim()) return;
          try {
            replace(found, draw(await call("memory.search", { ...whose(), q: question.value })));
          } catch (error) {
            notifyProblem(error);
          }
        },
      },
      question,
      h("button", null, "Look"),
    ),
    found,
  );
}

/** @param {any} answer */
function draw({ mode, hits, prompt, model, notice }) {
  const given = hits.filter((/** @type {any} */ each) => each.given).length;
  return [
    h(
      "p",
      { class: "small spaced" },
      mode === "vector"
        ? `For this question it gets ${given} of these pieces (${model}).`
        : "It gets both files whole. These pieces fit the question best.",
    ),
    notice && h("p", { class: "warn small" }, notice),
    rows(
      hits.map((/** @type {any} */ each) =>
        row(
          [
            h("span", { class: "clip" }, each.text),
            each.given && h("span", { class: "pill running" }, "given"),
          ],
          [each.place, ranks(each)].filter(Boolean).join(" · "),
        ),
      ),
      "Nothing in memory fits it.",
    ),
    prompt &&
      h(
        "details",
        { class: "more" },
        h("summary", null, "As the model reads it"),
        h("pre", { class: "wrapped", tabindex: "0" }, prompt),
      ),
  ];
}

/** @param {any} hit */
function ranks({ keyword_rank: words, vector_rank: meaning, similarity }) {
  return [
    words && `no. ${words} by words`,
    meaning && `no. ${meaning} by meaning (${similarity.toFixed(2)})`,
  ]
    .filter(Boolean)
    .join(", ");
}

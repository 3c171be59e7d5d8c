// Three texts in one view: yours, theirs, and what both began with. For each place that changed one
// chooses; the joined text can be edited by hand before it is saved.

import { h, icon, replace } from "../dom.js";
import { compareThree } from "./text_diff.js";

/** @typedef {import("./text_diff.js").Segment} Segment */

/** @type {[take: string, label: string][]} */
const CHOICES = [
  ["mine", "Yours"],
  ["theirs", "Theirs"],
  ["both", "Both, theirs first"],
  ["base", "As it was before"],
];

/**
 * @param {{base: string, mine: string, theirs: string, who: string}} texts `who` wrote theirs
 * @param {{save: (text: string) => Promise<unknown>, leave: (text: string) => void}} actions `leave`
 *   goes back to the editor with the joined text
 * @returns {HTMLElement}
 */
export function mergeView({ base, mine, theirs, who }, { save, leave }) {
  const segments = compareThree(base, mine, theirs);
  const places = segments.filter((each) => each.kind !== "same");
  /** @type {Map<Segment, string>} */
  const taken = new Map(
    places.map((each) => [each, each.kind === "conflict" ? "both" : each.kind]),
  );
  const conflicts = places.filter((each) => each.kind === "conflict").length;

  const result = h("textarea", {
    class: "editor",
    "aria-label": "The joined text",
    spellcheck: "false",
    rows: "12",
    oninput: () => again.removeAttribute("hidden"),
  });
  const again = h(
    "button",
    { type: "button", hidden: true, onclick: write },
    icon("undo"),
    "Take the choices again",
  );
  const saving = h(
    "button",
    { type: "button", class: "primary", onclick: () => save(result.value) },
    "Save the joined text",
  );

  function write() {
    result.value = segments.flatMap(pick).join("\n");
    again.setAttribute("hidden", "");
  }

  /** @param {Segment} segment */
  function pick(segment) {
    const choice = taken.get(segment) ?? "base";
    if (choice === "both") return [...segment.theirs, ...segment.mine];
    return choice === "mine" ? segment.mine : choice === "theirs" ? segment.theirs : segment.base;
  }

  /** @param {Segment} segment @param {number} index */
  function row(segment, index) {
    const title = {
      mine: "You changed this",
      theirs: `Changed by ${who}`,
      conflict: `You and ${who} changed this`,
      same: "",
    }[segment.kind];
    const options = CHOICES.filter(
      ([take]) => segment.kind === "conflict" || take === segment.kind || take === "base",
    );
    return h(
      "fieldset",
      { class: `merge-place ${segment.kind}` },
      h("legend", null, title),
      h(
        "div",
        { class: "merge-texts" },
        segment.kind !== "theirs" && text("Yours", segment.mine, "added"),
        text("Before", segment.base, "removed"),
        segment.kind !== "mine" && text("Theirs", segment.theirs, "added"),
      ),
      h(
        "div",
        { class: "choices" },
        options.map(([take, label]) =>
          h(
            "label",
            null,
            h("input", {
              type: "radio",
              name: `place-${index}`,
              checked: taken.get(segment) === take,
              onchange: () => {
                taken.set(segment, take);
                write();
              },
            }),
            label,
          ),
        ),
      ),
    );
  }

  write();
  const told = conflicts
    ? `${conflicts === 1 ? "One place was" : `${conflicts} places were`} changed on both sides: choose for each.`
    : "The changes do not touch each other: together they are below.";
  const view = h("section", { class: "merge panel", "aria-label": "Yours and theirs" });
  replace(
    view,
    h("h2", { tabindex: "-1" }, "The file changed while you wrote"),
    h("p", null, `Nothing is lost: your text is here, and so is that of ${who}. ${told}`),
    places.map(row),
    h("h3", null, "What will be saved"),
    h("p", { class: "faint small" }, "You can edit this too."),
    result,
    h(
      "div",
      { class: "buttons" },
      saving,
      again,
      h("button", { type: "button", onclick: () => leave(result.value) }, "Back to the editor"),
    ),
  );
  return view;
}

/** @param {string} title @param {string[]} lines @param {string} kind */
function text(title, lines, kind) {
  return h(
    "div",
    null,
    h("div", { class: "faint small" }, title),
    lines.length
      ? h("pre", { class: kind, tabindex: "0" }, lines.join("\n"))
      : h("p", { class: "faint" }, "Nothing."),
  );
}

// The editor of one memory file. Two may write it at once, a person here and the agent (or an editor
// on the machine): the file's etag tells, and then three texts are shown. What was typed is kept in
// this browser until it is saved or discarded.

import { Problem, call } from "../api.js";
import { h, icon, replace, setServerHtml } from "../dom.js";
import { number, size } from "../format.js";
import { actionButton, segments } from "./form.js";
import { mergeView } from "./merge.js";
import { notify, notifyProblem } from "./notice.js";
import { showTextDiff } from "./text_diff.js";

/** Bytes that a file can have; what is more goes to the archive. */
const LARGEST = 512 * 1024;
/** Characters of a file that the model is given: its end. */
const GIVEN = 20_000;

/**
 * @typedef {{store: string, personality?: string, person?: string}} Which
 * @typedef {object} Editor
 * @property {HTMLElement} element
 * @property {() => Promise<void>} check whether the file changed underneath
 * @property {() => Promise<void>} save
 * @property {(line: number) => void} showLine
 * @property {() => Promise<any>} open
 */

/**
 * @param {Which} which
 * @param {(file: any) => void} onSaved also called when the file turns out to be another
 * @returns {Editor}
 */
export function memoryEditor(which, onSaved) {
  const key = `clew.memory.${which.store}.${which.personality ?? ""}.${which.person ?? ""}`;
  /** What the text began as. @type {{content: string, etag: string, path: string} | null} */
  let base = null;
  /** The file as it is now, if that is another. @type {any} */
  let theirs = null;
  let how = "write";
  let isMerging = false;

  const told = h("div", { class: "told", role: "status" });
  const text = h("textarea", {
    class: "editor",
    "aria-label": "Text of the file",
    spellcheck: "false",
    disabled: true,
    oninput: changed,
  });
  const shown = h("div", { class: "shown", hidden: true });
  const filled = h("progress", { max: LARGEST, value: 0, "aria-label": "How full the file is" });
  const sizes = h("span", { class: "faint small" });
  const saving = actionButton("Save", save, { class: "primary", disabled: true });
  const discarding = h("button", { type: "button", disabled: true, onclick: discard }, "Discard");
  const place = h("code", { class: "faint small path" });
  const writing = h(
    "div",
    null,
    h(
      "div",
      { class: "tools" },
      segments(
        "Show",
        [
          ["write", "Write"],
          ["preview", "Preview"],
          ["changes", "Changes"],
        ],
        "write",
        (value) => {
          how = value;
          draw();
        },
      ),
      h("span", { class: "buttons" }, discarding, saving),
    ),
    text,
    shown,
    h("div", { class: "fullness" }, filled, sizes),
    place,
  );
  const element = h(
    "section",
    { class: "panel memory-file", "aria-label": "The file" },
    told,
    writing,
  );

  async function open() {
    const file = await call("memory.get", which);
    base = file;
    const draft = readDraft();
    text.value = file.content;
    text.disabled = false;
    replace(place, file.path);
    if (draft && draft.text !== file.content) {
      text.value = draft.text;
      // The draft's own beginning counts, not today's file: else saving would undo the others' work.
      base = { content: draft.base, etag: draft.etag, path: file.path };
      if (draft.etag !== file.etag) theirs = file;
      tell("What you typed here before is shown, and not saved yet.");
    }
    changed();
    return file;
  }

  function isChanged() {
    return base !== null && text.value !== base.content;
  }

  function changed() {
    const bytes = new Blob([text.value]).size;
    filled.value = bytes;
    const over = text.value.length - GIVEN;
    replace(
      sizes,
      `${size(bytes)} of ${size(LARGEST)}, ${number(text.value.length)} characters. `,
      over > 0
        ? h(
            "span",
            { class: "warn" },
            `The model is given the last ${number(GIVEN)}; the first ${number(over)} only when it reads the file.`,
          )
        : "The model is given all of it.",
      bytes > LARGEST &&
        h("strong", { class: "bad" }, " Too long: the beginning will move to the archive."),
    );
    saving.disabled = discarding.disabled = !isChanged();
    if (isChanged()) keepDraft();
    else localStorage.removeItem(key);
    drawTold();
  }

  function readDraft() {
    try {
      return JSON.parse(localStorage.getItem(key) ?? "null");
    } catch {
      return null;
    }
  }

  function keepDraft() {
    try {
      localStorage.setItem(
        key,
        JSON.stringify({ text: text.value, base: base?.content, etag: base?.etag }),
      );
    } catch {
      // A full store of the browser: the text is still in the editor.
    }
  }

  async function draw() {
    text.hidden = how !== "write";
    shown.hidden = how === "write";
    if (how === "changes") replace(shown, showTextDiff(base?.content ?? "", text.value));
    if (how !== "preview") return;
    try {
      const { html } = await call("memory.render", { store: which.store, content: text.value });
      if (how !== "preview") return;
      const rendered = h("div", { class: "rendered" });
      setServerHtml(rendered, html);
      replace(
        shown,
        text.value.trim() ? rendered : h("p", { class: "faint" }, "Nothing is in it."),
      );
    } catch (error) {
      replace(shown, h("p", { role: "alert" }, error instanceof Error ? error.message : ""));
    }
  }

  /** @param {string} words */
  function tell(words) {
    replace(told, h("p", { class: "told-line" }, icon("memory"), words));
  }

  function drawTold() {
    if (!theirs || isMerging) return;
    replace(
      told,
      h(
        "div",
        { class: "told-line warning" },
        icon("warning"),
        h("span", null, `This file was changed by ${writer()} while you wrote. Yours is kept.`),
        h("button", { type: "button", onclick: merge }, "Compare and join"),
      ),
    );
  }

  function writer() {
    return theirs?.by || "somebody else";
  }

  /** Who wrote the newest version; the file itself does not say. */
  async function withWriter(/** @type {any} */ file) {
    try {
      const { versions } = await call("memory.history", which);
      const newest = versions.find((/** @type {any} */ each) => each.etag === file.etag);
      return { ...file, by: newest ? await writerName(newest.by) : "an editor on the machine" };
    } catch {
      return file;
    }
  }

  async function check() {
    if (!base) return;
    const known = theirs?.etag ?? base.etag;
    let file;
    try {
      file = await call("memory.get", which);
    } catch {
      return; // The shell says that nobody answers.
    }
    if (file.etag === known || file.etag === base?.etag) return;
    file = await withWriter(file);
    onSaved(file);
    if (isChanged() || isMerging) {
      theirs = file;
      drawTold();
    } else {
      base = file;
      theirs = null;
      text.value = file.content;
      changed();
      draw();
      tell(`Changed just now by ${file.by ?? "somebody else"}: this is the new text.`);
    }
  }

  /** @param {string} content @param {string} etag */
  async function write(content, etag) {
    const file = await call("memory.write", { ...which, content, if_match: etag });
    base = file;
    theirs = null;
    isMerging = false;
    text.value = file.content;
    replace(told);
    replace(element, told, writing);
    changed();
    draw();
    onSaved(file);
    notify("Saved. The next turn reads it.");
  }

  async function save() {
    if (!base || !isChanged()) return;
    if (theirs) return merge();
    try {
      await write(text.value, base.etag);
    } catch (error) {
      if (!isStale(error)) return notifyProblem(error);
      theirs = await withWriter(await call("memory.get", which));
      merge();
    }
  }

  function merge() {
    if (!base || !theirs) return;
    const seen = theirs;
    isMerging = true;
    const view = mergeView(
      { base: base.content, mine: text.value, theirs: seen.content, who: writer() },
      {
        save: async (joined) => {
          try {
            await write(joined, seen.etag);
          } catch (error) {
            if (!isStale(error)) return notifyProblem(error);
            // Once more in the meantime: what was joined is now ours, and theirs the beginning.
            base = seen;
            text.value = joined;
            keepDraft();
            theirs = await withWriter(await call("memory.get", which));
            merge();
          }
        },
        leave: (joined) => {
          isMerging = false;
          base = seen;
          theirs = null;
          text.value = joined;
          replace(told);
          replace(element, told, writing);
          changed();
          check();
        },
      },
    );
    replace(told);
    replace(element, told, view);
    view.querySelector("h2")?.focus();
  }

  function discard() {
    if (!base) return;
    const dropped = { text: text.value, base };
    const now = theirs ?? base;
    base = now;
    theirs = null;
    text.value = now.content;
    replace(told);
    changed();
    draw();
    notify("Your changes are gone from here.", {
      undo: async () => {
        base = dropped.base;
        text.value = dropped.text;
        if (now !== dropped.base) theirs = now;
        changed();
        draw();
      },
      done: "Your changes are back.",
    });
  }

  /** @param {number} line */
  function showLine(line) {
    const lines = text.value.split("\n");
    const start = lines.slice(0, line).join("\n").length + (line ? 1 : 0);
    text.focus();
    text.setSelectionRange(start, start + (lines[line]?.length ?? 0));
    text.scrollTop = (text.scrollHeight * line) / Math.max(lines.length, 1) - text.clientHeight / 3;
  }

  return { element, check, save, showLine, open };
}

/** @type {Promise<Map<string, string>> | null} */
let tokens = null;

/**
 * Who wrote a version, in words: the name of a token in place of its id.
 *
 * @param {string} by
 * @returns {Promise<string>}
 */
export async function writerName(by) {
  const id = /^api:([^,]+)/.exec(by)?.[1];
  if (!id) return by;
  tokens ??= call("tokens.list").then(
    (list) =>
      new Map(
        list.tokens.map((/** @type {any} */ each) => [
          each.id,
          each.kind === "cookie" ? "a browser" : `“${each.name}”`,
        ]),
      ),
    () => new Map(),
  );
  const known = await tokens;
  // A token that was made after this list was read.
  if (!known.has(id)) tokens = null;
  return by.replace(`api:${id}`, known.get(id) ?? "a program");
}

/** @param {unknown} error */
function isStale(error) {
  return error instanceof Problem && error.status === 412;
}

// The place to write: grows with the text, keeps it as a draft, takes files by drop, paste and
// button. Enter sends, Shift+Enter begins a line, the up arrow brings back what was said before.

import { toBase64 } from "../api.js";
import { h, icon, replace } from "../dom.js";
import { size } from "../format.js";
import { makeCompletion } from "./completion.js";
import { getDraft, keepDraft, keyOfDraft } from "./drafts.js";
import { notify, notifyProblem } from "./notice.js";

const MOST_FILES = 10;
const LARGEST = 20_000_000;
const TYPE = /^[a-z]+\/[A-Za-z0-9.+-]+$/;

/**
 * @typedef {object} Said
 * @property {string} text
 * @property {any[]} attachments
 * @property {string} key sending it twice under the same key is sending it once
 */

/**
 * @param {string} session its id, or "new"
 * @param {{send: (said: Said) => Promise<boolean>, stop: () => void, history: () => string[], tools: Child}} given
 *   `send` says whether it arrived: if not, everything stays in its place
 */
export function makeComposer(session, { send, stop, history, tools }) {
  /** @type {File[]} */
  let files = [];
  let back = -1;
  let unsent = "";
  /** On their way, in this order. @type {{text: string, files: File[]}[]} */
  let sending = [];
  /** @type {Promise<unknown>} */
  let sent = Promise.resolve();
  const input = h("textarea", {
    rows: "1",
    "aria-label": "Message",
    "aria-controls": "commands",
    "aria-autocomplete": "list",
    placeholder: "Write a message…  / for commands",
    value: getDraft(session),
    oninput: changed,
    onkeydown: press,
    onpaste: (/** @type {ClipboardEvent} */ event) => {
      const pasted = [...(event.clipboardData?.files ?? [])];
      if (pasted.length === 0) return;
      event.preventDefault();
      take(pasted);
    },
  });
  const completion = makeCompletion(input);
  const chips = h("div", { class: "attached", hidden: true });
  const picker = h("input", {
    type: "file",
    multiple: true,
    hidden: true,
    onchange: () => {
      take([...picker.files]);
      picker.value = "";
    },
  });
  const sendButton = h(
    "button",
    { type: "submit", class: "primary", "aria-label": "Send" },
    icon("send"),
  );
  const stopButton = h(
    "button",
    { type: "button", class: "stop", hidden: true, onclick: stop },
    icon("stop"),
    "Stop",
  );
  const line = h("p", { class: "composer-line", role: "status" });
  const element = h(
    "form",
    {
      class: "composer",
      onsubmit: (/** @type {Event} */ event) => {
        event.preventDefault();
        submit();
      },
    },
    completion.element,
    line,
    h(
      "div",
      { class: "writing" },
      chips,
      input,
      h(
        "div",
        { class: "writing-bar" },
        h(
          "button",
          {
            type: "button",
            class: "quiet",
            "aria-label": "Add files",
            onclick: () => picker.click(),
          },
          icon("clip"),
        ),
        picker,
        tools,
        h("span", { class: "grow" }),
        stopButton,
        sendButton,
      ),
    ),
  );

  /** Also what is on its way is kept: it may not arrive. */
  function keep() {
    const texts = [...sending.map((each) => each.text), input.value];
    keepDraft(session, texts.filter(Boolean).join("\n"));
  }

  function changed() {
    keep();
    back = -1;
    fit();
    completion.look();
    drawButton();
  }

  /** As high as the text; the browser does it by itself where it can (`field-sizing`). */
  function fit() {
    if (CSS.supports("field-sizing", "content")) return;
    input.style.height = "auto";
    input.style.height = `${input.scrollHeight + 2}px`;
  }

  function drawButton() {
    sendButton.disabled = !input.value.trim() && files.length === 0;
  }

  /** @param {KeyboardEvent} event */
  function press(event) {
    if (event.isComposing || completion.press(event)) return;
    if (event.key === "Enter" && !event.shiftKey && !event.altKey) {
      event.preventDefault();
      submit();
    } else if (event.key === "ArrowUp" && (back >= 0 || !input.value)) recall(1, event);
    else if (event.key === "ArrowDown" && back >= 0) recall(-1, event);
  }

  /** @param {number} way @param {KeyboardEvent} event */
  function recall(way, event) {
    const said = history();
    if (back < 0) unsent = input.value;
    const next = Math.min(back + way, said.length - 1);
    if (next === back) return;
    event.preventDefault();
    back = next;
    input.value = back < 0 ? unsent : said[said.length - 1 - back];
    keep();
    fit();
    drawButton();
  }

  /** @param {File[]} more */
  function take(more) {
    const fitting = more.filter((file) => file.size > 0 && file.size <= LARGEST);
    if (fitting.length < more.length)
      notify(`A file may have up to ${size(LARGEST)}, and must not be empty.`, { isError: true });
    if (files.length + fitting.length > MOST_FILES)
      notify(`A message may have up to ${MOST_FILES} files.`, { isError: true });
    files = [...files, ...fitting].slice(0, MOST_FILES);
    drawChips();
    input.focus();
  }

  function drawChips() {
    chips.hidden = files.length === 0;
    replace(
      chips,
      files.map((file) =>
        h(
          "span",
          null,
          icon("file"),
          h("span", { class: "cut" }, file.name || "file"),
          h("span", { class: "faint" }, size(file.size)),
          h(
            "button",
            {
              type: "button",
              class: "quiet",
              "aria-label": `Remove ${file.name}`,
              onclick: () => {
                files = files.filter((each) => each !== file);
                drawChips();
              },
            },
            icon("close"),
          ),
        ),
      ),
    );
    drawButton();
  }

  function submit() {
    const text = input.value;
    if (!text.trim() && files.length === 0) return;
    const message = { text, files, key: keyOfDraft(session, text) };
    completion.close();
    sending.push(message);
    input.value = "";
    files = [];
    back = -1;
    show();
    sent = sent.then(() => deliver(message));
  }

  /** @param {{text: string, files: File[], key: string}} message */
  async function deliver(message) {
    if (!sending.includes(message)) return;
    let isArrived = false;
    try {
      const attachments = await Promise.all(message.files.map(pack));
      isArrived = await send({ text: message.text, attachments, key: message.key });
    } catch (error) {
      notifyProblem(error);
    }
    if (isArrived) sending.shift();
    else giveBack();
    show();
  }

  /** Bring back all that is on its way: what comes after a message must not arrive before it. */
  function giveBack() {
    const texts = [...sending.map((each) => each.text), input.value];
    input.value = texts.filter(Boolean).join("\n");
    files = [...sending.flatMap((each) => each.files), ...files].slice(0, MOST_FILES);
    sending = [];
  }

  function show() {
    keep();
    drawChips();
    fit();
  }

  fit();
  drawButton();
  return {
    element,
    take,
    focus: () => input.focus(),
    /** @returns {boolean} whether there was something to close */
    escape() {
      if (completion.close()) return true;
      if (document.activeElement !== input) return false;
      input.blur();
      return true;
    },
    /** Bring back a text that was taken back; what is there already stays. @param {string} text */
    put(text) {
      input.value = input.value.trim() ? `${text}\n${input.value}` : text;
      changed();
      input.focus();
    },
    /** @param {boolean} isRunning */
    setRunning(isRunning) {
      stopButton.hidden = !isRunning;
    },
    /** @param {string} text */
    say(text) {
      replace(line, text);
    },
  };
}

/** @param {File} file */
async function pack(file) {
  return {
    media_type: TYPE.test(file.type) ? file.type : "application/octet-stream",
    data: await toBase64(file),
    name: file.name ? file.name.slice(0, 255) : undefined,
  };
}

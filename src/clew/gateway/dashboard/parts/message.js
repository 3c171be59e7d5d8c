// One message of a transcript: who said it, the text, thinking, calls of tools, files, marks.

import { h, icon, setServerHtml } from "../dom.js";
import { counted, dayOf, fullTime, timeOfDay } from "../format.js";
import { toolBlock } from "./toolcall.js";

const INLINE = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/**
 * @typedef {object} Article a message as it is shown
 * @property {HTMLElement} element
 * @property {any} message
 * @property {Map<string, import("./toolcall.js").ToolBlock>} calls
 * @property {HTMLElement} before marks above the message
 * @property {HTMLElement} after marks below it
 */

/**
 * @param {any} message
 * @param {{html: string, thinking?: string} | undefined} html the server's, if it is there already
 * @param {{session: any, me: string}} around
 * @returns {Article}
 */
export function makeArticle(message, html, { session, me }) {
  const { seq, role } = message;
  const before = h("div", { class: "marks" });
  const after = h("div", { class: "marks" });
  const author = authorOf(message, session, me);
  /** @type {Article["calls"]} */
  const calls = new Map();
  const body = h("div", { class: "body" });
  const said = h(
    "div",
    { class: "said" },
    role !== "tool" &&
      h(
        "header",
        { class: "who" },
        h("span", { class: "author" }, author),
        h(
          "a",
          { class: "when", href: `#m${seq}`, title: fullTime(message.at) },
          h("time", { datetime: new Date(message.at).toISOString() }, timeOfDay(message.at)),
        ),
        role === "assistant" &&
          message.model &&
          h("span", { class: "model" }, shortModel(message.model)),
      ),
    body,
  );
  const element = h(
    "article",
    {
      class: `message ${role}`,
      id: `m${seq}`,
      "data-seq": seq,
      "data-day": dayOf(message.at),
      "data-turn": message.turn_id,
      tabindex: "-1",
      "aria-label": `${author}, ${timeOfDay(message.at)}`,
    },
    before,
    said,
    after,
  );
  setBody(body, message, html);
  for (const call of message.tool_calls ?? []) {
    const block = toolBlock(call, "unknown");
    calls.set(call.id, block);
    said.append(block.element);
  }
  const files = (message.parts ?? []).filter(
    (/** @type {any} */ part) => typeof part.blob === "string",
  );
  if (files.length > 0) {
    said.append(
      h(
        "div",
        { class: "files" },
        files.map((/** @type {any} */ part) => fileView(part, session.id)),
      ),
    );
  }
  return { element, message, calls, before, after };
}

/**
 * Put the server's HTML in the place of the plain text.
 *
 * @param {Article} article
 * @param {{html: string, thinking?: string}} html
 */
export function fillArticle(article, html) {
  const body = article.element.querySelector(".said > .body");
  if (body instanceof HTMLElement) setBody(body, article.message, html);
}

/**
 * Who said it, in words.
 *
 * @param {any} message
 * @param {any} session
 * @param {string} me
 */
export function authorOf(message, session, me) {
  if (message.role !== "user") return session.agent === "main" ? "clew" : session.agent;
  const { author } = message;
  // A name is chosen by its person: in a group the id says who it is.
  if (author?.among) return author.name ? `${author.name} (${author.id})` : author.id;
  if (session.person === me) return "You";
  return author?.name || session.display_name || session.person;
}

/**
 * @param {HTMLElement} body
 * @param {any} message
 * @param {{html: string, thinking?: string} | undefined} html
 */
function setBody(body, message, html) {
  body.replaceChildren();
  if (message.role === "tool") return;
  body.append(...(message.parts ?? []).map(showAround).filter(Boolean));
  const thought = html?.thinking;
  if (thought) {
    const inside = h("div", { class: "rendered" });
    body.append(
      h(
        "details",
        { class: "thinking", ontoggle: () => inside.firstChild ?? setServerHtml(inside, thought) },
        h("summary", null, icon("thinking"), "Thinking"),
        inside,
      ),
    );
  }
  if (!html) {
    if (message.content) body.append(h("div", { class: "plain" }, message.content));
    return;
  }
  const text = h("div", { class: "rendered text" });
  setServerHtml(text, html.html);
  for (const pre of text.querySelectorAll("pre")) addCopy(pre);
  for (const table of text.querySelectorAll("table")) {
    const frame = h("div", {
      class: "table-frame",
      tabindex: "0",
      role: "region",
      "aria-label": "Table",
    });
    table.replaceWith(frame);
    frame.append(table);
  }
  if (html.html) body.append(text);
}

/** What a person's message answers, and what was said in the group before it. @param {any} part */
function showAround(part) {
  if (part.type === "quote") {
    const whose = part.own ? "clew" : part.name;
    return h(
      "blockquote",
      { class: "quote" },
      whose && h("b", null, whose, ": "),
      String(part.text),
    );
  }
  if (part.type !== "context" || !Array.isArray(part.lines)) return null;
  return h(
    "details",
    { class: "thinking" },
    h(
      "summary",
      null,
      icon("sessions"),
      `Said before it: ${counted(part.lines.length, "message")}`,
    ),
    h(
      "div",
      null,
      part.lines.map((/** @type {any} */ line) =>
        h("p", { class: "plain" }, line.name && h("b", null, line.name, ": "), String(line.text)),
      ),
    ),
  );
}

/** A bar over code with its language and a copy button. @param {HTMLElement} pre */
function addCopy(pre) {
  const language = /language-(\w+)/.exec(pre.querySelector("code")?.className ?? "")?.[1] ?? "";
  const frame = h("div", { class: "code" });
  const button = h(
    "button",
    { type: "button", class: "quiet copy", onclick: () => copy(pre.textContent ?? "", button) },
    icon("copy"),
    h("span", null, "Copy"),
  );
  pre.replaceWith(frame);
  pre.tabIndex = 0;
  frame.append(h("div", { class: "code-bar" }, h("span", null, language), button), pre);
}

/**
 * Copy a text, and say so on the button.
 *
 * @param {string} text
 * @param {HTMLElement} button
 */
export async function copy(text, button) {
  const word = button.querySelector("span");
  try {
    await navigator.clipboard.writeText(text);
    if (word) word.textContent = "Copied";
  } catch {
    if (word) word.textContent = "Not allowed";
  }
  setTimeout(() => word && (word.textContent = "Copy"), 1_500);
}

/**
 * @param {any} part
 * @param {string} session
 */
function fileView(part, session) {
  const address = `/v1/blobs/${encodeURIComponent(part.blob)}?session=${session}`;
  const type = String(part.media_type ?? "");
  const name = String(part.name || (type.startsWith("image/") ? "Picture" : "File"));
  if (!INLINE.includes(type)) {
    return h(
      "a",
      {
        class: "file button",
        href: address,
        download: part.name || `file-${part.blob.slice(0, 8)}`,
      },
      icon("file"),
      h("span", { class: "cut" }, name),
      h("span", { class: "faint small" }, type),
    );
  }
  return h(
    "a",
    { class: "picture", href: address, target: "_blank", rel: "noopener" },
    h("img", { src: address, alt: name, loading: "lazy", decoding: "async" }),
  );
}

/** @param {string} name */
function shortModel(name) {
  return name.slice(name.lastIndexOf("/") + 1);
}

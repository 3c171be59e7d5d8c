// One session in the list: a link with what is known of it, a box to select it, and its buttons while
// somebody points at it.

import { h, icon, replace } from "../dom.js";
import { counted, fullTime, shortNumber, shortTime } from "../format.js";
import { state } from "../state.js";
import { marked, markedName } from "./search.js";

/** @typedef {import("./session_pages.js").Row} Row */

/** @type {Record<string, string>} */
const STATUS = { waiting: "waits for you", running: "running", interrupted: "interrupted" };

const OPEN = "open in a terminal";

/** What each element shows. @type {WeakMap<HTMLElement, string>} */
const shown = new WeakMap();

/**
 * Fill the element of a row, unless it shows this already.
 *
 * @param {HTMLElement} element
 * @param {Row | undefined} row undefined: not read yet
 * @param {{isSelected: boolean, isCurrent: boolean, isReached: boolean, text: string}} look
 *   `isReached`: the Tab key comes here, and to no other row; `text`: what is searched for
 */
export function drawRow(element, row, { isSelected, isCurrent, isReached, text }) {
  if (!row) {
    element.className = "row hole";
    element.setAttribute("aria-busy", "true");
    return;
  }
  const asked = row.status === "waiting" ? askedIn(row.id) : "";
  const signature = JSON.stringify([row, text, asked, shortTime(row.updated_at)]);
  if (shown.get(element) !== signature && !element.classList.contains("editing")) {
    shown.set(element, signature);
    element.dataset.id = row.id;
    replace(element, ...parts(row, text, asked));
  }
  element.classList.toggle("selected", isSelected);
  element.classList.toggle("current", isCurrent);
  const box = element.querySelector("input");
  if (box?.type === "checkbox") box.checked = isSelected;
  for (const each of element.querySelectorAll("a, .pick input")) {
    each.setAttribute("tabindex", isReached ? "0" : "-1");
  }
}

/**
 * @param {Row} row
 * @param {string} text
 * @param {string} asked
 */
function parts(row, text, asked) {
  const { hit } = row;
  const href = `/s/${row.id}${hit ? `#m${hit.seq}` : ""}`;
  const word = STATUS[row.status];
  return [
    h(
      "span",
      { class: "pick", "data-status": row.status, title: row.status === "open" ? OPEN : null },
      h("input", { type: "checkbox", "aria-label": `Select ${row.label}` }),
    ),
    h(
      "span",
      { class: "what" },
      row.pinned && h("span", { class: "pinned", title: "Pinned" }, icon("pin")),
      h("a", { class: "name cut", href }, markedName(row.label, text)),
      row.pinned && h("span", { class: "visually-hidden" }, "pinned"),
      word && h("span", { class: `pill ${row.status}` }, word),
      row.status === "open" && h("span", { class: "visually-hidden" }, OPEN),
      !text && h("span", { class: "gist cut" }, asked || about(row)),
    ),
    text &&
      h(
        "span",
        { class: "hit cut" },
        hit
          ? [h("span", { class: "faint" }, WHO[hit.role] ?? hit.role, ": "), marked(hit.snippet)]
          : h("span", { class: "faint" }, about(row)),
      ),
    h("span", { class: "where cut", title: row.project ?? row.cwd ?? "" }, where(row)),
    h(
      "span",
      { class: "many", title: counted(row.message_count ?? 0, "message") },
      shortNumber(row.message_count ?? 0),
    ),
    h(
      "time",
      {
        datetime: new Date(row.updated_at).toISOString(),
        title: fullTime(row.deleted_at ?? row.updated_at),
      },
      shortTime(row.deleted_at ?? row.updated_at),
    ),
  ];
}

/** @type {Record<string, string>} */
const WHO = { user: "you", assistant: "agent", tool: "tool", system: "system" };

/** What is said beside the name: what it began with, unless that is the name. @param {Row} row */
function about(row) {
  const text = row.title ? row.short_summary || row.preview || "" : "";
  return text.replace(/\s+/g, " ").trim().slice(0, 200);
}

/** @param {Row} row */
function where(row) {
  const project = (row.project ?? row.cwd ?? "").split("/").at(-1);
  const person = row.person === "owner" ? "" : row.display_name || row.person;
  const agent = row.agent === "main" ? "" : row.agent;
  return [row.platform, project, person, agent].filter(Boolean).join(" · ");
}

/** What the agent asks for in a session that waits. @param {string} id */
function askedIn(id) {
  for (const each of state.approvals.values()) {
    if (each.session_id !== id) continue;
    const { command, path, url } = each.request ?? {};
    return `asks for ${each.tool_name}${command || path || url ? `: ${command ?? path ?? url}` : ""}`;
  }
  return "";
}

/**
 * Change the name in its place. `save` may refuse by raising; then it stays open.
 *
 * @param {HTMLElement} element
 * @param {Row} row
 * @param {(text: string) => Promise<void>} save
 * @param {() => void} done told when it is closed
 */
export function editName(element, row, save, done) {
  const link = element.querySelector("a.name");
  if (!link || element.classList.contains("editing")) return;
  let isOver = false;
  const input = h("input", {
    class: "rename",
    type: "text",
    value: row.title ?? row.label,
    maxlength: "200",
    "aria-label": `New name of ${row.label}`,
    onkeydown: press,
    onblur: () => finish(true),
    onclick: (/** @type {Event} */ event) => event.stopPropagation(),
  });
  element.classList.add("editing");
  link.replaceWith(input);
  input.focus();
  input.select();

  /** @param {KeyboardEvent} event */
  function press(event) {
    event.stopPropagation();
    if (event.isComposing) return;
    if (event.key === "Enter") finish(true);
    else if (event.key === "Escape") finish(false);
    else return;
    event.preventDefault();
  }

  /** @param {boolean} isKept */
  async function finish(isKept) {
    if (isOver) return;
    isOver = true;
    const text = input.value.trim();
    try {
      if (isKept && text !== (row.title ?? row.label)) await save(text);
    } catch {
      isOver = false;
      input.focus();
      return;
    }
    element.classList.remove("editing");
    shown.delete(element);
    done();
  }
}

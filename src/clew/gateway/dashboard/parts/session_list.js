// The list of sessions on the screen: what is selected, which row is the current one, buttons and
// editing in place, and what other browsers and surfaces change while it is looked at.

import { call } from "../api.js";
import { h, icon } from "../dom.js";
import { nameOf } from "../format.js";
import { listen } from "../live.js";
import { go, keepPlace } from "../router.js";
import { may, watchState } from "../state.js";
import { notify, notifyProblem } from "./notice.js";
import { archive, pin, purge, rename, trash } from "./session_actions.js";
import { drawRow, editName } from "./session_row.js";
import { VirtualList } from "./virtual_list.js";

/** @typedef {import("./session_pages.js").Row} Row */
/** @typedef {import("./session_pages.js").SessionPages} SessionPages */

const LIVE = 50; // rows at the beginning, whose changes the gateway tells by itself
const PAUSE = 250;
const LOOK_AGAIN = 1_500;
const MINUTE = 60_000;
const MOST = 10_000; // sessions that one call may change

export class SessionList {
  /**
   * @param {SessionPages} pages
   * @param {{text: string, view: string, onSelect: () => void, onDraw: () => void}} options
   *   `view`: "", "archived" or "trash"
   */
  constructor(pages, { text, view, onSelect, onDraw }) {
    this.pages = pages;
    this.text = text;
    this.view = view;
    this.onSelect = onSelect;
    this.onDraw = onDraw;
    /** @type {Map<string, Row>} */
    this.selected = new Map();
    /** @type {string | null} */
    this.current = null;
    /** @type {string | null} where a range began */
    this.pivot = null;
    /** @type {string[]} */
    this.seen = [];
    this.offset = 0;
    this.isHeld = false;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.refreshing = undefined;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.keeping = undefined;
    this.scroller = h("div", { class: "session-list", tabindex: "-1" });
    this.newer = h(
      "button",
      { type: "button", class: "newer", hidden: true, onclick: () => this.toStart() },
      icon("up"),
      "New above",
    );
    this.element = h("div", { class: "session-area" }, this.scroller, this.newer);
    this.list = new VirtualList(
      this.scroller,
      {
        count: () => this.pages.count,
        key: (index) => this.pages.at(index)?.id ?? `hole-${index}`,
        make: (index) => this.make(index),
        update: (element, index) => this.update(element, index),
        seen: (first, last) => this.see(first, last),
      },
      { "aria-label": "Sessions" },
    );
    const timers = [
      setInterval(() => this.list.later(), MINUTE),
      setInterval(() => this.lookAgain(), LOOK_AGAIN),
    ];
    const stops = [
      listen((frame) => this.hear(frame)),
      watchState(() => this.list.later()),
      () => timers.forEach(clearInterval),
    ];
    this.stops = stops;
    this.scroller.addEventListener("click", (/** @type {MouseEvent} */ event) => this.click(event));
    this.scroller.addEventListener("pointerover", (/** @type {PointerEvent} */ event) =>
      this.point(event),
    );
    this.scroller.addEventListener("pointerleave", () => this.dropButtons());
    this.scroller.addEventListener("focusin", (/** @type {FocusEvent} */ event) => {
      const id = rowOf(event.target)?.dataset.id;
      if (id && id !== this.current) this.setCurrent(id, { focus: false });
    });
  }

  close() {
    for (const stop of this.stops) stop();
    clearTimeout(this.refreshing);
    clearTimeout(this.keeping);
    this.list.close();
  }

  /** The pages have changed: show it, and keep the row in its place that one looks at. */
  changed() {
    if (this.isHeld) return;
    const anchor = this.seen.find((id) => this.pages.indexOf(id) >= 0);
    if (anchor && this.scroller.scrollTop > this.list.height / 2) {
      const index = this.pages.indexOf(anchor) - this.seen.indexOf(anchor);
      const { top } = this.list;
      if (index !== top.index) {
        this.newer.hidden = index < top.index;
        this.list.setTop(Math.max(0, index), this.offset);
      }
    }
    for (const id of this.selected.keys()) {
      const row = this.pages.get(id);
      if (row) this.selected.set(id, row);
    }
    this.list.draw();
    this.onDraw();
  }

  /** Show the beginning. */
  toStart() {
    this.list.setTop(0);
    this.newer.hidden = true;
  }

  // --- where we are ------------------------------------------------------------------------------

  /** @param {number} first @param {number} last */
  see(first, last) {
    this.seen = [];
    for (let index = first; index <= last; index++) {
      this.seen.push(this.pages.at(index)?.id ?? "");
    }
    this.offset = this.list.top.offset;
    if (this.scroller.scrollTop < this.list.height) this.newer.hidden = true;
    this.pages.ensure(first, last);
    clearTimeout(this.keeping);
    this.keeping = setTimeout(() => this.keep(), 200);
  }

  /** Keep the place for a reload and the back button. */
  keep() {
    if (!this.scroller.isConnected || this.isHeld) return;
    const { index, offset } = this.list.top;
    keepPlace({ list: { index, offset, id: this.seen[0] || null, current: this.current } });
  }

  /**
   * Go to where we were.
   *
   * @param {{index: number, offset: number, id: string | null, current: string | null}} place
   */
  async goTo({ index, offset, id, current }) {
    this.current = current;
    this.list.setTop(index, offset);
    await this.pages.ensure(index, index + this.list.page);
    const found = id ? this.pages.indexOf(id) : -1;
    if (found >= 0 && found !== index) this.list.setTop(found, offset);
    if (current) this.list.find(current)?.querySelector("a")?.focus({ preventScroll: true });
  }

  /** @returns {number} */
  get index() {
    return this.current === null ? -1 : this.pages.indexOf(this.current);
  }

  /** Move by so many rows. @param {number} step @param {{extend?: boolean}} [options] */
  move(step, { extend = false } = {}) {
    if (this.pages.count === 0) return;
    const before = this.index;
    const from = before < 0 ? this.list.top.index - (step > 0 ? 1 : 0) : before;
    const index = Math.max(0, Math.min(this.pages.count - 1, from + step));
    const row = this.pages.at(index);
    this.list.show(index);
    if (!row) {
      this.pages.ensure(index, index).then(() => this.setCurrent(this.pages.at(index)?.id ?? null));
      return;
    }
    if (extend) {
      const begun = this.pages.at(before);
      if (begun && !this.pivot) this.pivot = begun.id;
      this.setCurrent(row.id);
      this.selectRange(row.id);
    } else {
      this.pivot = null;
      this.setCurrent(row.id);
    }
  }

  /** @param {string | null} id @param {{focus?: boolean}} [options] */
  setCurrent(id, { focus = true } = {}) {
    this.current = id;
    this.list.draw();
    if (id && focus) this.list.find(id)?.querySelector("a")?.focus({ preventScroll: true });
  }

  open() {
    const link = this.current && this.list.find(this.current)?.querySelector("a");
    if (link) go(link.getAttribute("href") ?? "/");
  }

  // --- selecting ---------------------------------------------------------------------------------

  /** @param {string} id */
  toggle(id) {
    const row = this.pages.get(id);
    if (!row) return;
    if (!this.selected.delete(id)) this.selected.set(id, row);
    this.pivot = id;
    this.list.draw();
    this.onSelect();
  }

  /** Select all from where it began to here. @param {string} id */
  async selectRange(id) {
    const from = this.pivot ? this.pages.indexOf(this.pivot) : this.pages.indexOf(id);
    const to = this.pages.indexOf(id);
    if (from < 0 || to < 0) return;
    await this.select(Math.min(from, to), Math.max(from, to));
  }

  async selectAll() {
    this.selected.clear();
    await this.select(0, this.pages.count - 1);
  }

  /** @param {number} first @param {number} last */
  async select(first, last) {
    if (last - first >= MOST) {
      last = first + MOST - 1;
      notify(`${MOST.toLocaleString()} sessions can be changed at once: these are selected.`);
    }
    try {
      for (const row of await this.pages.readAll(first, last)) this.selected.set(row.id, row);
    } catch (error) {
      notifyProblem(error);
    }
    this.list.draw();
    this.onSelect();
  }

  clear() {
    if (this.selected.size === 0) return false;
    this.selected.clear();
    this.pivot = null;
    this.list.draw();
    this.onSelect();
    return true;
  }

  /** What an action is about: the selected sessions, or the current one. @returns {Row[]} */
  get meant() {
    if (this.selected.size > 0) return [...this.selected.values()];
    const row = this.current && this.pages.get(this.current);
    return row ? [row] : [];
  }

  // --- acting ------------------------------------------------------------------------------------

  /**
   * Do something to what is meant. Afterwards the next row is the current one.
   *
   * @param {"pin" | "archive" | "trash" | "rename" | "restore" | "purge"} action
   * @param {Row[]} [rows]
   */
  act(action, rows = this.meant) {
    if (!may("write")) {
      notify("This browser may read only.", { isError: true });
      return;
    }
    const first = rows[0];
    if (!first) return;
    if (action === "rename") {
      this.rename(first);
      return;
    }
    const index = this.pages.indexOf(first.id);
    const isCurrent = rows.some((each) => each.id === this.current);
    const done = this.run(action, rows);
    this.clear();
    if (isCurrent && action !== "purge") {
      const next = this.pages.at(Math.min(index, this.pages.count - 1));
      this.setCurrent(next?.id ?? null);
    }
    return done;
  }

  /** @param {string} action @param {Row[]} rows */
  run(action, rows) {
    const isTrash = this.view === "trash";
    if (action === "pin" && !isTrash)
      return pin(this.pages, rows, !rows.every((each) => each.pinned));
    if (isTrash && (action === "restore" || action === "archive")) {
      return trash(this.pages, rows, false);
    }
    if (isTrash) return action === "pin" ? undefined : purge(this.pages, rows);
    if (action === "archive") return archive(this.pages, rows, this.view !== "archived");
    return trash(this.pages, rows, true);
  }

  /** @param {Row} row */
  rename(row) {
    const index = this.pages.indexOf(row.id);
    if (index >= 0) this.list.show(index);
    const element = this.list.find(row.id);
    if (!element || this.view === "trash") return;
    this.dropButtons();
    editName(
      element,
      row,
      (text) =>
        rename(this.pages, row, text).catch((error) => {
          notifyProblem(error);
          throw error;
        }),
      () => this.setCurrent(row.id),
    );
  }

  // --- rows --------------------------------------------------------------------------------------

  /** @param {number} index */
  make(index) {
    const element = h("li", { class: "row" });
    this.update(element, index);
    return element;
  }

  /** @param {HTMLElement} element @param {number} index */
  update(element, index) {
    const row = this.pages.at(index);
    drawRow(element, row, {
      isSelected: Boolean(row && this.selected.has(row.id)),
      isCurrent: row?.id === this.current,
      text: this.text,
    });
  }

  /** @param {MouseEvent} event */
  click(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    const id = rowOf(target)?.dataset.id;
    if (!id) return;
    const button = target.closest("button");
    if (button?.dataset.action) {
      const row = this.pages.get(id);
      if (row) this.act(/** @type {any} */ (button.dataset.action), [row]);
    } else if (event.shiftKey) {
      event.preventDefault();
      getSelection()?.removeAllRanges();
      if (!this.pivot) this.pivot = this.current ?? id;
      this.setCurrent(id);
      this.selectRange(id);
    } else if (target.closest(".pick")) this.toggle(id);
  }

  /** Show the buttons of the row under the pointer. @param {PointerEvent} event */
  point(event) {
    const element = rowOf(event.target);
    if (event.pointerType !== "mouse" || !element?.dataset.id) return;
    if (element.querySelector(".row-actions") || element.classList.contains("editing")) return;
    this.dropButtons();
    const row = this.pages.get(element.dataset.id);
    if (!row || !may("write")) return;
    element.append(
      h(
        "span",
        { class: "row-actions" },
        actionsOf(this.view, [row]).map(([action, name, picture, key]) =>
          h(
            "button",
            {
              type: "button",
              class: "quiet",
              tabindex: "-1",
              "data-action": action,
              title: `${name} (${key})`,
              "aria-label": `${name} ${row.label}`,
            },
            icon(picture),
          ),
        ),
      ),
    );
  }

  dropButtons() {
    for (const each of this.scroller.querySelectorAll(".row-actions")) each.remove();
  }

  // --- live --------------------------------------------------------------------------------------

  /** @param {Frame} frame */
  hear(frame) {
    if (frame.type === "connection") {
      if (frame.state !== "online") return;
      if (!this.pages.isRead) this.pages.start();
      else this.refreshSoon();
    } else if (frame.type === "hint") {
      const row = this.pages.get(frame.session);
      if (row) {
        const { title = null, status = null } = frame;
        const isNamed = title && title !== row.title;
        this.pages.patch(row.id, { status, ...(isNamed ? { title, label: title } : {}) });
      }
      this.refreshSoon();
    }
  }

  refreshSoon() {
    if (this.refreshing) return;
    this.refreshing = setTimeout(() => {
      this.refreshing = undefined;
      this.pages.refresh().catch(() => {});
    }, PAUSE);
  }

  /** Read the visible rows again whose changes the gateway does not tell: those far down. */
  async lookAgain() {
    const isFar = this.list.top.index + this.seen.length > LIVE || this.view === "archived";
    const ids = this.seen.filter(Boolean);
    if (!isFar || document.hidden || this.view === "trash" || ids.length === 0) return;
    const asked = ids.join(",");
    try {
      const [{ names }, { states }] = await Promise.all([
        call("sessions.names", { ids: asked }),
        call("sessions.states", { ids: asked }),
      ]);
      const found = new Set();
      for (const each of names) {
        found.add(each.id);
        const row = this.pages.get(each.id);
        if (!row) continue;
        if ((each.title ?? null) !== (row.title ?? null)) {
          this.pages.patch(row.id, { title: each.title, label: nameOf(each) });
        }
        if (each.archived !== (this.view === "archived") && !this.text) found.delete(each.id);
        const status = statusOf(states[each.id]);
        if (status !== (row.status ?? null)) this.pages.patch(row.id, { status });
      }
      const gone = ids.filter((id) => !found.has(id));
      if (gone.length > 0) this.pages.remove(gone);
    } catch {
      // The next look comes soon.
    }
  }
}

/**
 * The actions for sessions in a view: name, words, icon and key of each.
 *
 * @param {string} view
 * @param {Row[]} rows
 * @returns {[action: string, name: string, icon: string, key: string][]}
 */
export function actionsOf(view, rows) {
  if (view === "trash") {
    return [
      ["restore", "Restore", "undo", "e"],
      ["purge", "Delete for good", "trash", "#"],
    ];
  }
  const isPinned = rows.length > 0 && rows.every((each) => each.pinned);
  return [
    ["pin", isPinned ? "Unpin" : "Pin", "pin", "p"],
    ...(rows.length === 1
      ? [/** @type {[string, string, string, string]} */ (["rename", "Rename", "rename", "r"])]
      : []),
    ["archive", view === "archived" ? "Back to the list" : "Archive", "archive", "e"],
    ["trash", "Trash", "trash", "#"],
  ];
}

/** The most urgent part of a state, as lists have it. @param {any} state */
function statusOf(state) {
  const part = ["waiting", "running", "interrupted"].find((each) => state?.[each]);
  return part ?? (state?.attachment ? "open" : null);
}

/** @param {EventTarget | null} target @returns {HTMLElement | null} */
function rowOf(target) {
  return target instanceof Element ? target.closest(".row") : null;
}

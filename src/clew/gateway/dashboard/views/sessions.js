// The page "Sessions": one list over all surfaces, with search, filters, and what one does to sessions.

import { h, icon, replace } from "../dom.js";
import { counted, number } from "../format.js";
import { addKeys, isTyping } from "../keyboard.js";
import { openChooser } from "../parts/chooser.js";
import {
  GROUPS,
  fitChoices,
  listChoices,
  listFilters,
  readFilters,
  toParams,
  wordFilter,
} from "../parts/filters.js";
import { confirm } from "../parts/dialog.js";
import { notify, notifyProblem } from "../parts/notice.js";
import { empty, failure, setTitle } from "../parts/page.js";
import { addCommands } from "../parts/palette.js";
import { beginning } from "../parts/search.js";
import { SessionList, actionsOf } from "../parts/session_list.js";
import { SessionPages } from "../parts/session_pages.js";
import { LEAVING, here, keptPlace, setQuery } from "../router.js";
import { call } from "../api.js";

const TYPING = 120;
/** @type {[view: string, name: string][]} */
const VIEWS = [
  ["", "Active"],
  ["archived", "Archived"],
  ["trash", "Trash"],
];
/** @type {Record<string, string>} */
const TITLES = { "": "Sessions", archived: "Archive", trash: "Trash" };

/** The list that was shown last, so that the back button finds it as it was. @type {{key: string, pages: SessionPages} | null} */
let kept = null;
/** @type {[name: string, value: string][]} */
let choices = [];

/** @param {HTMLElement} root @param {Place} place */
export function showSessions(root, place) {
  let filters = readFilters(place.query);
  /** @type {SessionPages} */
  let pages;
  /** @type {SessionList} */
  let list;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let typing;

  const heading = h("h1", null);
  const total = h("span", { class: "total faint", role: "status" });
  const views = h("div", {
    class: "segments views",
    role: "group",
    "aria-label": "Which sessions",
  });
  const bulk = h("div", { class: "bulk", role: "toolbar", "aria-label": "Selected", hidden: true });
  const input = h("input", {
    type: "search",
    "aria-label": "Search sessions",
    placeholder: "Search what was said…",
    autocomplete: "off",
    spellcheck: "false",
    "aria-keyshortcuts": "/",
    oninput: () => {
      clearTimeout(typing);
      typing = setTimeout(search, TYPING);
    },
    onkeydown: pressInSearch,
  });
  const chips = h("div", { class: "chips" });
  const emptier = h(
    "button",
    { type: "button", class: "quiet", onclick: emptyTrash },
    "Empty the trash",
  );
  const body = h("div", { class: "sessions-body" });
  root.append(
    h(
      "div",
      { class: "sessions" },
      h("header", { class: "page-header" }, heading, total, views, bulk),
      h(
        "div",
        { class: "toolbar" },
        h("label", { class: "search" }, icon("search"), input, h("kbd", null, "/")),
        chips,
      ),
      body,
    ),
  );
  input.value = filters.q ?? "";
  load(keptPlace()?.list);

  // --- the list ----------------------------------------------------------------------------------

  /** Show the list of the filters. @param {any} [where] where it was scrolled to */
  function load(where) {
    const key = JSON.stringify(filters);
    list?.close();
    if (kept?.key !== key) {
      kept?.pages.close();
      const params = toParams(filters, Date.now());
      if (params.q) params.q = beginning(params.q);
      kept = { key, pages: new SessionPages(params, () => {}) };
    }
    pages = kept.pages;
    list = new SessionList(pages, {
      text: filters.q ?? "",
      view: filters.in ?? "",
      onSelect: drawBulk,
      onDraw: draw,
    });
    pages.changed = () => list.changed();
    setTitle(TITLES[filters.in ?? ""] ?? "Sessions");
    drawFilters();
    drawBulk();
    draw();
    begin(where);
  }

  /** @param {any} where */
  async function begin(where) {
    if (pages.isRead) {
      list.changed();
      if (where) list.goTo(where);
      pages.refresh().catch(() => {});
      return;
    }
    const [mine, shown] = [pages, list];
    // The place where we were is shown, and not the beginning before it.
    shown.isHeld = Boolean(where);
    await mine.start();
    if (mine !== pages || shown !== list) return;
    shown.isHeld = false;
    shown.changed();
    if (where) shown.goTo(where);
  }

  function draw() {
    const isEmpty = pages.isRead && pages.count === 0;
    const isBroken = !pages.isRead && pages.problem;
    const content = isBroken
      ? failure(pages.problem, () => pages.start())
      : isEmpty
        ? nothing()
        : list.element;
    if (content !== body.firstChild) body.replaceChildren(content);
    list.scroller.classList.toggle("found", Boolean(filters.q));
    body.setAttribute("aria-busy", String(!pages.isRead && !isBroken));
    const many = number(pages.count);
    const isUnsure = pages.isRead && !pages.isCounted;
    replace(
      total,
      !pages.isRead || isEmpty ? "" : !isUnsure ? many : pages.isTimed ? "" : `${many}+`,
    );
    emptier.hidden = pages.count === 0;
    total.title = pages.isCut ? "There are more that fit than were looked at." : "";
  }

  function nothing() {
    const active = listFilters(filters);
    if (filters.q || active.length > 0) {
      return empty(
        filters.q ? `Nothing was found for “${filters.q}”.` : "No session fits these filters.",
        h(
          "div",
          { class: "row-of-buttons" },
          active.length > 0 &&
            h("button", { type: "button", onclick: clearFilters }, "Clear the filters"),
          filters.q && h("button", { type: "button", onclick: clearSearch }, "Clear the search"),
          filters.q &&
            filters.in !== "archived" &&
            h(
              "button",
              { type: "button", onclick: () => change({ in: "archived" }) },
              "Search the archive",
            ),
        ),
      );
    }
    if (filters.in === "trash") {
      return empty("The trash is empty. What you delete stays here for a while.");
    }
    if (filters.in === "archived") {
      return empty("Nothing is archived. Press e on a session to put it away: search finds it.");
    }
    return empty(
      "No sessions yet. Whatever you and your agent say, in the terminal, here or in a chat, appears in this list.",
      h(
        "div",
        { class: "row-of-buttons" },
        h("a", { class: "button primary", href: "/welcome" }, "Begin: choose a model, say hello"),
        h("a", { class: "button", href: "/s/new" }, "New chat"),
      ),
    );
  }

  // --- search and filters ------------------------------------------------------------------------

  /** @param {Record<string, string | null>} values @param {{push?: boolean}} [options] */
  function change(values, { push = true } = {}) {
    list.keep();
    setQuery(values, { push });
    filters = readFilters(here().query);
    load();
  }

  function search() {
    clearTimeout(typing);
    const q = input.value.trim();
    if (q === (filters.q ?? "")) return;
    // One entry of the history for the search, not one for each letter.
    change({ q: q || null }, { push: !filters.q && Boolean(q) });
  }

  /** @param {KeyboardEvent} event */
  function pressInSearch(event) {
    if (event.isComposing) return;
    if (event.key === "Escape" && input.value) clearSearch();
    else if (event.key === "Escape") input.blur();
    else if (event.key === "ArrowDown") {
      search();
      list.move(list.index < 0 ? 1 : 0);
    } else if (event.key === "Enter") {
      search();
      list.move(list.index < 0 ? 1 : 0);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  function clearSearch() {
    input.value = "";
    search();
    input.focus();
  }

  function clearFilters() {
    change(Object.fromEntries(listFilters(filters).map(([name]) => [name, null])));
  }

  function drawFilters() {
    const view = filters.in ?? "";
    replace(heading, TITLES[view] ?? "Sessions");
    replace(
      views,
      VIEWS.map(([each, name]) =>
        h(
          "button",
          {
            type: "button",
            "aria-pressed": String(each === view),
            onclick: () => each !== view && switchView(each),
          },
          name,
        ),
      ),
    );
    const active = listFilters(filters);
    replace(
      chips,
      h(
        "button",
        {
          type: "button",
          class: "quiet choose-filter",
          "aria-label": "Filter",
          "aria-keyshortcuts": "f",
          onclick: chooseFilter,
        },
        icon("filter"),
        h("span", null, "Filter"),
      ),
      active.map(([name, value]) => {
        const [about, word] = wordFilter(name, value);
        return h(
          "button",
          {
            type: "button",
            class: "chip",
            title: value,
            "aria-label": `Remove the filter ${about} ${word}`,
            onclick: () => change({ [name]: null }),
          },
          about && h("span", { class: "faint" }, about),
          h("span", { class: "cut" }, word),
          icon("close"),
        );
      }),
      active.length > 1 &&
        h("button", { type: "button", class: "quiet", onclick: clearFilters }, "Clear"),
      view === "trash" && emptier,
    );
  }

  /** @param {string} view */
  function switchView(view) {
    change({ in: view || null });
  }

  function chooseFilter() {
    openChooser({
      label: "Filter the sessions",
      list: (text) => fitChoices(text, choices).map(toChoice),
      find: async (text, signal) => {
        choices = await listChoices(signal);
        return fitChoices(text, choices).map(toChoice);
      },
    });
  }

  /** @param {[name: string, value: string]} choice */
  function toChoice([name, value]) {
    const [about, word] = wordFilter(name, value);
    const label = name === "since" || name === "until" ? `${about} ${word}`.trim() : word;
    return {
      label,
      hint: GROUPS[name],
      icon: "filter",
      detail: name === "project" ? value : undefined,
      checked: filters[name] === value,
      run: () => change({ [name]: filters[name] === value ? null : value }),
    };
  }

  async function emptyTrash() {
    const text = "What was said in these sessions can't be brought back.";
    if (!(await confirm("Empty the trash?", text, "Delete all for good"))) return;
    try {
      const { ids } = await call("trash.empty");
      notify(`${counted(ids.length, "session")} deleted for good.`);
      kept = null;
      load();
    } catch (error) {
      notifyProblem(error);
    }
  }

  // --- several at once ---------------------------------------------------------------------------

  function drawBulk() {
    const rows = [...list.selected.values()];
    bulk.hidden = rows.length === 0;
    list.scroller.classList.toggle("selecting", rows.length > 0);
    if (rows.length === 0) return;
    replace(
      bulk,
      h(
        "button",
        {
          type: "button",
          class: "quiet",
          "aria-label": "Select none",
          onclick: () => list.clear(),
        },
        icon("close"),
      ),
      h("strong", { role: "status" }, `${number(rows.length)} selected`),
      rows.length < pages.count &&
        h(
          "button",
          { type: "button", class: "quiet select-all", onclick: () => list.selectAll() },
          "Select all",
        ),
      h(
        "span",
        { class: "actions" },
        actionsOf(filters.in ?? "", rows).map(([action, name, picture, key]) =>
          h(
            "button",
            {
              type: "button",
              title: `${name} (${key})`,
              "aria-keyshortcuts": key,
              onclick: () => list.act(/** @type {any} */ (action)),
            },
            icon(picture),
            h("span", null, name),
          ),
        ),
      ),
    );
  }

  // --- keys --------------------------------------------------------------------------------------

  const stopKeys = addKeys("Sessions", [
    ["/", "Search", () => input.select()],
    ["j", "Next session", () => list.move(1)],
    ["k", "Session before", () => list.move(-1)],
    ["Enter", "Open", (event) => (isControl(event) ? false : list.open())],
    ["x", "Select", () => list.current && list.toggle(list.current)],
    ["Shift+j", "Select down to the next", () => list.move(1, { extend: true })],
    ["Shift+k", "Select up to the one before", () => list.move(-1, { extend: true })],
    ["Ctrl+a", "Select all", (event) => (isTyping(event.target) ? false : void list.selectAll())],
    ["p", "Pin, or unpin", () => void list.act("pin")],
    ["r", "Rename", () => void list.act("rename")],
    ["e", "Archive, or take back", () => void list.act("archive")],
    ["#", "Move to the trash", () => void list.act("trash")],
    ["f", "Filter", chooseFilter],
    ["g g", "First session", () => list.move(-Infinity)],
    ["Shift+g", "Last session", () => list.move(Infinity)],
    ["Escape", "Select none, then clear the search", escape],
    ["ArrowDown", "", (event) => (isOpenMenu(event) ? false : list.move(1))],
    ["ArrowUp", "", (event) => (isOpenMenu(event) ? false : list.move(-1))],
    ["Shift+ArrowDown", "", () => list.move(1, { extend: true })],
    ["Shift+ArrowUp", "", () => list.move(-1, { extend: true })],
    ["PageDown", "", () => list.move(list.list.page)],
    ["PageUp", "", () => list.move(-list.list.page)],
    ["Home", "", () => list.move(-Infinity)],
    ["End", "", () => list.move(Infinity)],
  ]);
  const stopCommands = addCommands(() => [
    { label: "Filter the sessions", icon: "filter", hint: "f", run: chooseFilter },
    ...VIEWS.filter(([view]) => view !== (filters.in ?? "")).map(([view, name]) => ({
      label: `Sessions: show ${name.toLowerCase()}`,
      icon: "sessions",
      run: () => switchView(view),
    })),
  ]);

  function escape() {
    if (list.clear()) return;
    if (filters.q) clearSearch();
    else return false;
  }

  const keep = () => list.keep();
  document.addEventListener(LEAVING, keep);
  addEventListener("beforeunload", keep);
  return () => {
    clearTimeout(typing);
    document.removeEventListener(LEAVING, keep);
    removeEventListener("beforeunload", keep);
    stopKeys();
    stopCommands();
    list.close();
    pages.changed = () => {};
  };
}

/** Whether a key is for the link or button that has the focus. @param {KeyboardEvent} event */
function isControl(event) {
  return event.target instanceof Element && event.target.closest("a, button, summary") !== null;
}

/** @param {KeyboardEvent} event */
function isOpenMenu(event) {
  return event.target instanceof Element && event.target.closest("[role=menu], select") !== null;
}

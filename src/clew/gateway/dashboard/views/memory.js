// The page "Memory": both files, of each scope; their history; search in them.

import { call } from "../api.js";
import { h, icon, replace } from "../dom.js";
import { counted, fullTime, shortTime, size } from "../format.js";
import { addKeys } from "../keyboard.js";
import { openDialog } from "../parts/dialog.js";
import { actionButton, segments } from "../parts/form.js";
import { memoryEditor, writerName } from "../parts/memory_file.js";
import { notify, notifyProblem } from "../parts/notice.js";
import { failure, pageHeader } from "../parts/page.js";
import { panel, row, rows } from "../parts/panel.js";
import { showTextDiff } from "../parts/text_diff.js";
import { recallPanel } from "../parts/recall.js";
import { readAgain } from "../parts/watch.js";
import { setQuery } from "../router.js";

/** @typedef {import("../parts/memory_file.js").Which} Which */

/** @type {[store: "user" | "memory", name: string][]} */
const FILES = [
  ["user", "Who you are"],
  ["memory", "What was learned"],
];
const FILE_NAMES = { user: "USER.md", memory: "MEMORY.md" };
const MOST_FOUND = 50;

/** @type {View} */
export function showMemory(root, { query }) {
  /** @type {Which} */
  let which = {
    store: query.get("store") === "user" ? "user" : "memory",
    personality: query.get("personality") ?? undefined,
    person: query.get("person") ?? undefined,
  };
  /** Others who have talked here: each has a USER.md. @type {string[]} */
  let people = [];
  /** @type {import("../parts/memory_file.js").Editor | null} */
  let editor = null;
  /** Personalities with files of their own. @type {any[]} */
  let scopes = [];

  const search = h("input", {
    type: "search",
    placeholder: "Search in memory",
    "aria-label": "Search in memory",
    value: query.get("q") ?? "",
    oninput: look,
  });
  const choosing = h("span", { class: "buttons" });
  const found = h("div", { role: "status" });
  const place = h("div", { class: "memory-place" });
  const history = panel("History", readHistory, drawHistory, {
    lead: "The last 50 versions. Nothing that was saved is gone.",
  });
  root.append(
    pageHeader("Memory", search),
    h(
      "div",
      { class: "page-body wide" },
      choosing,
      found,
      h(
        "div",
        { class: "with-side" },
        place,
        h("aside", { class: "stack", "aria-label": "History and search" }, [
          history.element,
          recallPanel(() => ({ personality: which.personality, person: which.person })),
        ]),
      ),
    ),
  );

  start();
  const stops = [
    readAgain(() => editor?.check(), 3_000),
    addKeys("Memory", [
      ["/", "Search in memory", () => search.focus()],
      ["Ctrl+s", "Save the file", () => void editor?.save()],
    ]),
  ];
  return () => stops.forEach((stop) => stop());

  async function start() {
    try {
      const [{ personalities }, facets] = await Promise.all([
        call("personalities.list"),
        call("sessions.facets"),
      ]);
      people = facets.people.filter((/** @type {string} */ each) => each !== "owner");
      scopes = personalities.filter(
        (/** @type {any} */ each) => each.memory_scope === "per-personality",
      );
    } catch (error) {
      replace(place, failure(error, start));
      return;
    }
    drawChoice();
    await openFile();
    if (search.value) look();
  }

  function drawChoice() {
    const names = [["", "Shared by all"], ...scopes.map((each) => [each.id, `Only ${each.name}`])];
    replace(
      choosing,
      segments("File", FILES, /** @type {any} */ (which.store), (store) =>
        choose({ ...which, store }),
      ),
      scopes.length > 0 &&
        h(
          "select",
          {
            "aria-label": "Whose memory",
            onchange: (/** @type {any} */ event) =>
              choose({ ...which, personality: event.target.value || undefined }),
          },
          names.map(([id, name]) =>
            h("option", { value: id, selected: id === (which.personality ?? "") }, name),
          ),
        ),
      which.store === "user" &&
        (people.length > 0 || which.person) &&
        h(
          "select",
          {
            "aria-label": "About whom",
            onchange: (/** @type {any} */ event) =>
              choose({ ...which, person: event.target.value || undefined }),
          },
          ["", ...new Set([...people, which.person ?? ""])]
            .filter((each, index) => each || index === 0)
            .map((each) =>
              h(
                "option",
                { value: each, selected: each === (which.person ?? "") },
                each || "About you",
              ),
            ),
        ),
    );
  }

  /** @param {Which} wanted */
  async function choose(wanted) {
    // MEMORY.md is the same for every person.
    which = wanted.store === "user" ? wanted : { ...wanted, person: undefined };
    setQuery({
      store: which.store,
      personality: which.personality ?? null,
      person: which.person ?? null,
    });
    drawChoice();
    await openFile();
  }

  async function openFile() {
    const opened = memoryEditor(which, () => void history.refresh());
    editor = opened;
    replace(place, opened.element);
    try {
      await opened.open();
    } catch (error) {
      if (editor === opened) replace(place, failure(error, openFile));
    }
    await history.refresh();
  }

  async function readHistory() {
    const { versions } = await call("memory.history", which);
    const names = await Promise.all(versions.map((/** @type {any} */ each) => writerName(each.by)));
    return {
      versions: versions.map((/** @type {any} */ each, /** @type {number} */ index) => ({
        ...each,
        by: names[index],
      })),
    };
  }

  /** @param {any} data */
  function drawHistory({ versions }) {
    return rows(
      versions.map((/** @type {any} */ each) =>
        row(
          h("span", { title: fullTime(each.at) }, shortTime(each.at)),
          `${each.by} · ${size(each.size)}${each.number === 1 ? " · newest" : ""}`,
          h(
            "button",
            {
              type: "button",
              "data-key": `v${each.number}`,
              onclick: () => compare(each, each.number < versions.length),
            },
            "Compare",
            h("span", { class: "visually-hidden" }, ` version of ${fullTime(each.at)}`),
          ),
        ),
      ),
      "No version was written yet.",
    );
  }

  /** @param {any} version @param {boolean} hasOlder */
  async function compare(version, hasOlder) {
    try {
      const of = which;
      const [{ content }, now] = await Promise.all([
        call("memory.version", { ...of, number: version.number }),
        call("memory.get", of),
      ]);
      const before = hasOlder
        ? (await call("memory.version", { ...of, number: version.number + 1 })).content
        : "";
      const body = h("div", null);
      const show = (/** @type {string} */ with_) =>
        replace(
          body,
          with_ === "before" ? showTextDiff(before, content) : showTextDiff(content, now.content),
        );
      const isNow = content === now.content;
      const dialog = openDialog(
        `${FILE_NAMES[/** @type {"user"} */ (of.store)]}, ${fullTime(version.at)}`,
        [
          h("p", { class: "faint" }, `Written by ${version.by}.`),
          segments(
            "Compare",
            [
              ["before", "What it changed"],
              ["now", "What changed since"],
            ],
            "before",
            show,
          ),
          body,
        ],
        {
          wide: true,
          actions: [
            h("button", { type: "button", onclick: () => dialog.close() }, "Close"),
            isNow
              ? h("span", { class: "faint" }, "This is the current text.")
              : actionButton(
                  [icon("undo"), "Restore this version"],
                  async () => {
                    await restore(of, version.number, now);
                    dialog.close();
                  },
                  { class: "primary" },
                ),
          ],
        },
      );
      show("before");
    } catch (error) {
      notifyProblem(error);
    }
  }

  /**
   * @param {Which} of
   * @param {number} version
   * @param {any} now what the person has seen: another text is not overwritten
   */
  async function restore(of, version, now) {
    const { file } = await call("memory.restore", { ...of, number: version, if_match: now.etag });
    await refresh();
    notify("Restored.", {
      undo: async () => {
        await call("memory.write", { ...of, content: now.content, if_match: file.etag });
        await refresh();
      },
    });
  }

  async function refresh() {
    await editor?.check();
    await history.refresh();
  }

  async function look() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    setQuery({ q: search.value });
    if (words.length === 0) return replace(found);
    const wanted = search.value;
    const files = [undefined, ...scopes.map((each) => each.id)].flatMap((personality) =>
      FILES.map(([store]) => ({ store, personality })),
    );
    const texts = await Promise.all(
      files.map((each) => call("memory.get", each).catch(() => ({ content: "" }))),
    );
    if (search.value !== wanted) return;
    const hits = files.flatMap((file, index) =>
      texts[index].content
        .split("\n")
        .map((/** @type {string} */ text, /** @type {number} */ line) => ({ file, text, line }))
        .filter((/** @type {{text: string}} */ { text }) =>
          words.every((/** @type {string} */ word) => text.toLowerCase().includes(word)),
        ),
    );
    replace(
      found,
      h(
        "section",
        { class: "panel" },
        h("h2", null, counted(hits.length, "line")),
        rows(
          hits.slice(0, MOST_FOUND).map((hit) => drawHit(hit, words)),
          "Nothing like it is in memory.",
        ),
        hits.length > MOST_FOUND &&
          h("p", { class: "faint" }, `The first ${MOST_FOUND} are shown.`),
      ),
    );
  }

  /** @param {any} hit @param {string[]} words */
  function drawHit({ file, text, line }, words) {
    const name = FILE_NAMES[/** @type {"user"} */ (file.store)];
    return row(
      h(
        "button",
        {
          type: "button",
          class: "link",
          onclick: async () => {
            if (
              file.store !== which.store ||
              file.personality !== which.personality ||
              which.person
            )
              await choose(file);
            editor?.showLine(line);
          },
        },
        highlight(text, words),
      ),
      `${name}${file.personality ? ` of ${file.personality}` : ""}, line ${line + 1}`,
    );
  }
}

/**
 * @param {string} text
 * @param {string[]} words
 * @returns {Child[]}
 */
function highlight(text, words) {
  const pattern = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|");
  return text
    .split(new RegExp(`(${pattern})`, "gi"))
    .map((part, index) => (index % 2 ? h("mark", null, part) : part));
}

// What one can do to sessions of a list, one or many. It shows at once, and one undo takes it back.

import { call } from "../api.js";
import { counted } from "../format.js";
import { confirm } from "./dialog.js";
import { notify, notifyProblem } from "./notice.js";

/** @typedef {import("./session_pages.js").Row} Row */
/** @typedef {import("./session_pages.js").SessionPages} SessionPages */

/** @param {SessionPages} pages @param {Row[]} rows */
export function trash(pages, rows) {
  return take(pages, rows, "moved to the trash", {
    run: (ids) => call("trash.put", { ids }),
    undo: (ids) => call("trash.restore", { ids }),
  });
}

/** @param {SessionPages} pages @param {Row[]} rows */
export function restore(pages, rows) {
  return take(pages, rows, "restored", {
    run: (ids) => call("trash.restore", { ids }),
    undo: (ids) => call("trash.put", { ids }),
  });
}

/** @param {SessionPages} pages @param {Row[]} rows @param {boolean} archived */
export function archive(pages, rows, archived) {
  return take(pages, rows, archived ? "archived" : "back in the list", {
    run: (ids) => call("sessions.mark", { ids, archived }),
    undo: (ids) => call("sessions.mark", { ids, archived: !archived }),
  });
}

/** Remove for good, which asks before. @param {SessionPages} pages @param {Row[]} rows */
export async function purge(pages, rows) {
  const text = "What was said in them can't be brought back.";
  if (!(await confirm(`Delete ${counted(rows.length, "session")} for good?`, text, "Delete")))
    return;
  await take(pages, rows, "deleted for good", { run: (ids) => call("trash.purge", { ids }) });
}

/** @param {SessionPages} pages @param {Row[]} rows @param {boolean} pinned */
export async function pin(pages, rows, pinned) {
  const changed = rows.filter((each) => each.pinned !== pinned);
  const ids = changed.map((each) => each.id);
  if (ids.length === 0) return;
  const put = (/** @type {boolean} */ value) => {
    pages.remove(ids);
    for (const each of changed) each.pinned = value;
    pages.insert(changed);
  };
  put(pinned);
  try {
    await call("sessions.mark", { ids, pinned });
  } catch (error) {
    put(!pinned);
    notifyProblem(error);
    return;
  }
  notify(`${what(changed)} ${pinned ? "pinned" : "no longer pinned"}.`, {
    undo: async () => {
      await call("sessions.mark", { ids, pinned: !pinned });
      put(!pinned);
    },
  });
}

/**
 * Give a session another name; an empty one gives back the name that it has by itself. Raises
 * what the gateway says against it.
 *
 * @param {SessionPages} pages
 * @param {Row} row
 * @param {string} text
 */
export async function rename(pages, row, text) {
  const before = row.title ?? null;
  const title = text.trim() || null;
  if (title === before) return;
  await set(title);
  notify(title ? `Renamed to “${shorten(title)}”.` : "The name was taken away.", {
    undo: () => set(before),
  });

  /** @param {string | null} value */
  async function set(value) {
    const session = await call("sessions.update", { id: row.id, title: value });
    const own = session.title || session.short_summary || session.preview || row.label;
    pages.patch(row.id, { title: session.title ?? null, label: own });
  }
}

/**
 * Take sessions out of the list by a call.
 *
 * @param {SessionPages} pages
 * @param {Row[]} rows
 * @param {string} done
 * @param {{run: (ids: string[]) => Promise<any>, undo?: (ids: string[]) => Promise<any>}} how
 */
async function take(pages, rows, done, { run, undo }) {
  if (rows.length === 0) return;
  pages.remove(rows.map((each) => each.id));
  /** @type {any} */
  let answer;
  try {
    answer = await run(rows.map((each) => each.id));
  } catch (error) {
    pages.insert(rows);
    notifyProblem(error);
    return;
  }
  const failed = new Set(answer.failed?.map((/** @type {any} */ each) => each.id));
  const gone = rows.filter((each) => !failed.has(each.id));
  if (failed.size > 0) {
    pages.insert(rows.filter((each) => failed.has(each.id)));
    notify(`${counted(failed.size, "session")} stayed: ${answer.failed[0].problem.detail}`, {
      isError: true,
    });
    if (gone.length === 0) return;
  }
  notify(`${what(gone)} ${done}.`, {
    undo: undo && (() => undo(gone.map((each) => each.id)).then(() => pages.insert(gone))),
  });
}

/** @param {Row[]} rows */
function what(rows) {
  return rows.length === 1 ? `“${shorten(rows[0]?.label)}”` : counted(rows.length, "session");
}

/** @param {string} text */
function shorten(text) {
  return text.length > 40 ? `${text.slice(0, 39)}…` : text;
}

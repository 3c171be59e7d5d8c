// What one can do to sessions of a list, one or many. It shows at once, and one undo takes it back.

import { Problem, call } from "../api.js";
import { counted, nameOf } from "../format.js";
import { confirm } from "./dialog.js";
import { notify, notifyProblem, willNotify } from "./notice.js";

/** @typedef {import("./session_pages.js").Row} Row */
/** @typedef {import("./session_pages.js").SessionPages} SessionPages */

/** @param {SessionPages} pages @param {Row[]} rows @param {boolean} trashed */
export function trash(pages, rows, trashed) {
  return willNotify(take(pages, rows, { trashed }, trashed ? "moved to the trash" : "restored"));
}

/** @param {SessionPages} pages @param {Row[]} rows @param {boolean} archived */
export function archive(pages, rows, archived) {
  return willNotify(take(pages, rows, { archived }, archived ? "archived" : "back in the list"));
}

/** Remove for good, which asks before. @param {SessionPages} pages @param {Row[]} rows */
export async function purge(pages, rows) {
  const text = "What was said in them can't be brought back.";
  if (!(await confirm(`Delete ${counted(rows.length, "session")} for good?`, text, "Delete")))
    return;
  try {
    const { ids } = await call("trash.purge", { ids: idsOf(rows) });
    pages.remove(ids);
    notify(`${counted(ids.length, "session")} deleted for good.`);
  } catch (error) {
    notifyProblem(error);
  }
}

/** @param {SessionPages} pages @param {Row[]} rows @param {boolean} pinned */
export function pin(pages, rows, pinned) {
  return willNotify(setPinned(pages, rows, pinned));
}

/** @param {SessionPages} pages @param {Row[]} rows @param {boolean} pinned */
async function setPinned(pages, rows, pinned) {
  const changed = rows.filter((each) => each.pinned !== pinned);
  if (changed.length === 0) return;
  const put = (/** @type {boolean} */ value) => {
    pages.remove(idsOf(changed));
    for (const each of changed) each.pinned = value;
    pages.insert(changed);
  };
  const marking = mark(changed, { pinned });
  pages.expect(marking);
  put(pinned);
  try {
    const answer = await marking;
    offerUndo(pages, `${what(changed)} ${pinned ? "pinned" : "no longer pinned"}.`, answer, () =>
      put(!pinned),
    );
  } catch (error) {
    put(!pinned);
    notifyProblem(error);
  }
}

/**
 * Give a session another name; an empty one gives back the name that it has by itself. Raises
 * what the gateway says against it.
 *
 * @param {SessionPages} pages
 * @param {Row} row
 * @param {string} text
 */
export function rename(pages, row, text) {
  return willNotify(setTitle(pages, row, text));
}

/** @param {SessionPages} pages @param {Row} row @param {string} text */
async function setTitle(pages, row, text) {
  const before = { title: row.title ?? null, label: row.label };
  const title = text.trim() || null;
  if (title === before.title) return;
  const answer = await mark([row], { title });
  const [session] = answer.sessions;
  if (!session) throw problemOf(answer.failed);
  pages.patch(row.id, { title, label: nameOf(session) });
  const done = title ? `Renamed to “${shorten(title)}”.` : "The name was taken away.";
  offerUndo(pages, done, answer, () => pages.patch(row.id, before));
}

/**
 * Take sessions out of the list by a change.
 *
 * @param {SessionPages} pages
 * @param {Row[]} rows
 * @param {Record<string, any>} change
 * @param {string} done
 */
async function take(pages, rows, change, done) {
  if (rows.length === 0) return;
  const marking = mark(rows, change);
  pages.expect(marking, idsOf(rows));
  pages.remove(idsOf(rows));
  try {
    const answer = await marking;
    const failed = new Set(answer.failed.map((/** @type {any} */ each) => each.id));
    const gone = rows.filter((each) => !failed.has(each.id));
    if (failed.size > 0) pages.insert(rows.filter((each) => failed.has(each.id)));
    if (gone.length === 0) throw problemOf(answer.failed);
    const stayed = failed.size > 0 ? ` ${problemOf(answer.failed).message}` : "";
    offerUndo(pages, `${what(gone)} ${done}.${stayed}`, answer, () => pages.insert(gone));
  } catch (error) {
    pages.insert(rows.filter((each) => pages.indexOf(each.id) < 0));
    notifyProblem(error);
  }
}

/** @param {Row[]} rows @param {Record<string, any>} change */
function mark(rows, change) {
  return call("sessions.mark", { ids: idsOf(rows), ...change });
}

/**
 * Say what was done, with a way back.
 *
 * @param {SessionPages} pages
 * @param {string} text
 * @param {{changes: any[]}} answer
 * @param {() => void} show show it as it was
 */
function offerUndo(pages, text, { changes }, show) {
  notify(text, {
    undo: async () => {
      const undoing = call("sessions.undo", { changes });
      pages.expect(undoing);
      const { failed } = await undoing;
      show();
      if (failed.length > 0) throw problemOf(failed);
    },
  });
}

/** @param {any[]} failed */
function problemOf(failed) {
  const { code, detail } = failed[0].problem;
  const many = failed.length > 1 ? `${counted(failed.length, "session")} stayed: ` : "";
  return new Problem(code, `${many}${detail}`);
}

/** @param {Row[]} rows */
function idsOf(rows) {
  return rows.map((each) => each.id);
}

/** @param {Row[]} rows */
function what(rows) {
  return rows.length === 1 ? `“${shorten(rows[0]?.label)}”` : counted(rows.length, "session");
}

/** @param {string} text */
function shorten(text) {
  return text.length > 40 ? `${text.slice(0, 39)}…` : text;
}

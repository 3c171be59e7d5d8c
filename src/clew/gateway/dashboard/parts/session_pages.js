// The sessions of a list, read page by page where somebody looks. Knows the order of the list and
// nothing of how it is shown.
//
// `items` has a place for every session of the list, and undefined where none was read yet. The next
// page comes by its cursor. To look far down, the place is found by time: how many sessions are
// older than a moment is cheap to count, so a few counts lead to any place of a list that is sorted
// by time. Places are then exact but for what changes meanwhile; wherever the same session turns up
// twice the older place is given up and read again.

import { call } from "../api.js";

const FIRST_PAGE = 60;
const PAGE = 200;
const NEAR = 2 * PAGE;
const AHEAD = 25;
const PROBES = 24;
const MOST_READS = 500;
const DAY = 86_400_000;
const FIELDS = [
  "id",
  "short_id",
  "label",
  "title",
  "status",
  "platform",
  "kind",
  "agent",
  "person",
  "display_name",
  "project",
  "cwd",
  "message_count",
  "created_at",
  "updated_at",
  "archived_at",
  "deleted_at",
  "pinned",
  "preview",
  "short_summary",
  "hit",
];

/**
 * @typedef {Record<string, any>} Row the fields above of a session
 * @typedef {Record<string, any>} Wanted parameters of `sessions.list`
 */

export class SessionPages {
  /**
   * @param {Wanted} wanted
   * @param {() => void} changed told after each change
   */
  constructor(wanted, changed) {
    this.wanted = wanted;
    this.changed = changed;
    /** @type {(Row | undefined)[]} */
    this.items = [];
    /** Those that wait for the person; they are not among the items. @type {Row[]} */
    this.waiting = [];
    this.isRead = false;
    this.isCounted = false;
    this.isCut = false;
    /** @type {unknown} */
    this.problem = null;
    /** @type {Map<number, string>} the cursor of the page that begins at a place */
    this.cursors = new Map();
    /** @type {Map<string, number> | null} */
    this.places = null;
    this.look = [0, 0];
    /** @type {Promise<void> | null} */
    this.looking = null;
    /** @type {Promise<void> | null} */
    this.starting = null;
    // Places are given by number: an answer that was asked for before they moved is thrown away.
    this.version = 0;
    /** Changes that show here, and are not yet made at the gateway. @type {Set<Promise<unknown>>} */
    this.changes = new Set();
    /** What they take out of the list. @type {Set<string>} */
    this.leaving = new Set();
    this.stop = new AbortController();
    /** @type {number | null} */
    this.pinned = null;
  }

  /** Whether the whole list is sorted by time and can be counted. */
  get isTimed() {
    return !this.wanted.q && !this.wanted.state && !this.wanted.trashed;
  }

  get count() {
    return this.waiting.length + this.items.length;
  }

  /** @param {number} index @returns {Row | undefined} */
  at(index) {
    const first = this.waiting.length;
    return index < first ? this.waiting[index] : this.items[index - first];
  }

  /** Where a session is, or -1. @param {string} id */
  indexOf(id) {
    const early = this.waiting.findIndex((each) => each.id === id);
    if (early >= 0) return early;
    if (!this.places) {
      this.places = new Map();
      this.items.forEach((row, index) => row && this.places?.set(row.id, index));
    }
    const index = this.places.get(id);
    return index === undefined ? -1 : index + this.waiting.length;
  }

  /** @param {string} id @returns {Row | undefined} */
  get(id) {
    const index = this.indexOf(id);
    return index < 0 ? undefined : this.at(index);
  }

  /** Read the beginning, anew. @returns {Promise<void>} */
  start() {
    this.starting ??= this.begin().finally(() => (this.starting = null));
    return this.starting;
  }

  async begin() {
    try {
      const [waiting, named, page] = await Promise.all([
        this.listWaiting(),
        this.listNamed(),
        this.list({ limit: FIRST_PAGE }),
      ]);
      this.problem = null;
      this.version += 1;
      this.waiting = waiting;
      this.items = [];
      this.cursors.clear();
      const known = new Set(named.map((each) => each.id));
      this.put(0, [...named, ...page.rows.filter((each) => !known.has(each.id))], page.cursor);
      this.isCut = page.isCut;
      this.isCounted = page.cursor === null;
      this.isRead = true;
      this.changed();
      if (page.cursor && this.isTimed) await this.readTotal();
    } catch (error) {
      if (this.stop.signal.aborted) return;
      this.problem = error;
    }
    this.changed();
  }

  /** Nobody looks at it any more. */
  close() {
    this.stop.abort();
  }

  /**
   * Somebody looks at these rows: read those that are missing.
   *
   * @param {number} first
   * @param {number} last
   * @returns {Promise<void>} when they are there, or can't be read
   */
  ensure(first, last) {
    const early = this.waiting.length;
    this.look = [Math.max(0, first - early), last - early];
    if (!this.isRead) return Promise.resolve();
    this.looking ??= this.readMissing().finally(() => (this.looking = null));
    return this.looking;
  }

  async readMissing() {
    try {
      for (let tries = 0; tries < MOST_READS; tries++) {
        const place = this.findMissing();
        if (place === null) break;
        await this.readAt(place);
        this.changed();
      }
    } catch (error) {
      if (!this.stop.signal.aborted) this.problem = error;
    }
  }

  /** Read all rows of a range, for those who want to change them. @param {number} first @param {number} last */
  async readAll(first, last) {
    const early = this.waiting.length;
    for (let index = Math.max(0, first - early); index <= last - early; index++) {
      if (index < this.items.length && !this.items[index]) await this.readAt(index);
    }
    const found = [];
    for (let index = first; index <= last && index < this.count; index++) {
      const row = this.at(index);
      if (row) found.push(row);
    }
    return found;
  }

  /** Read the beginning again: what is new, moved or gone there. */
  async refresh() {
    if (!this.isRead || this.wanted.q) return;
    await Promise.allSettled(this.changes);
    const { version } = this;
    const [waiting, page] = await Promise.all([
      this.listWaiting(),
      this.list({ limit: FIRST_PAGE, count: this.isTimed || undefined }),
    ]);
    if (version !== this.version || this.changes.size > 0) {
      await this.refresh();
      return;
    }
    this.version += 1;
    this.problem = null;
    this.waiting = waiting;
    const top = this.withoutWaiting(page.rows);
    const ids = new Set(top.map((each) => each.id));
    const end = page.cursor ? top.at(-1) : undefined;
    const isOver = (/** @type {Row} */ row) =>
      ids.has(row.id) || this.isWaiting(row.id) || !end || this.compare(row, end) <= 0;
    // What was known of the rest stays; holes before the end of the page are filled by it.
    let last = -1;
    this.items.forEach((row, index) => {
      if (row && isOver(row)) last = index;
    });
    const rest = end ? this.items.slice(last + 1) : [];
    const lost = this.items.slice(0, last + 1).filter((row) => row && !isOver(row));
    const shift = top.length - (last + 1);
    const cursors = [...this.cursors].filter(([place]) => place > last + 1);
    this.items = [...top, ...lost, ...rest];
    this.cursors = new Map(cursors.map(([place, cursor]) => [place + shift + lost.length, cursor]));
    if (page.cursor && lost.length === 0) this.cursors.set(top.length, page.cursor);
    this.places = null;
    if (page.total !== null) this.resize(page.total - this.waiting.length - this.leaving.size);
    else if (!page.cursor) this.items.length = top.length;
    this.changed();
  }

  /** Change what is known of a session. @param {string} id @param {Partial<Row>} news */
  patch(id, news) {
    const row = this.get(id);
    if (!row) return;
    Object.assign(row, news);
    this.changed();
  }

  /**
   * A change is shown before it is made: what the gateway says until then is old.
   *
   * @param {Promise<unknown>} change
   * @param {string[]} [leaving] the sessions that it takes out of the list
   */
  expect(change, leaving = []) {
    this.changes.add(change);
    for (const id of leaving) this.leaving.add(id);
    const forget = () => {
      this.changes.delete(change);
      for (const id of leaving) this.leaving.delete(id);
    };
    change.then(forget, forget);
  }

  /** Take sessions out of the list. @param {Iterable<string>} ids */
  remove(ids) {
    const gone = new Set(ids);
    this.version += 1;
    this.waiting = this.waiting.filter((each) => !gone.has(each.id));
    const places = [...this.cursors].map(
      ([place, cursor]) =>
        /** @type {[number, string]} */ ([place - this.countIn(gone, place), cursor]),
    );
    this.items = this.items.filter((each) => !each || !gone.has(each.id));
    this.cursors = new Map(places);
    this.places = null;
    this.changed();
  }

  /** Put sessions where they belong in the order of the list. @param {Row[]} rows */
  insert(rows) {
    this.version += 1;
    for (const row of rows) {
      let place = this.items.findIndex((each) => each && this.compare(row, each) < 0);
      if (place < 0) place = this.items.length;
      this.items.splice(place, 0, row);
      this.cursors = new Map(
        [...this.cursors].map(([at, cursor]) => [at < place ? at : at + 1, cursor]),
      );
    }
    this.places = null;
    this.changed();
  }

  /** @param {Set<string>} ids @param {number} end */
  countIn(ids, end) {
    let many = 0;
    for (let index = 0; index < end && index < this.items.length; index++) {
      const row = this.items[index];
      if (row && ids.has(row.id)) many += 1;
    }
    return many;
  }

  // --- reading ---------------------------------------------------------------------------------

  /** The first place that is looked at and not read; null: all are. @returns {number | null} */
  findMissing() {
    const [first = 0, last = 0] = this.look;
    for (let index = first; index <= last + AHEAD; index++) {
      if (index >= this.items.length) return this.cursors.has(this.items.length) ? index : null;
      if (!this.items[index]) return index;
    }
    return null;
  }

  /** Read a page that has this place. @param {number} place */
  async readAt(place) {
    let begin = -1;
    for (const each of this.cursors.keys()) if (each <= place && each > begin) begin = each;
    if (begin >= 0 && (place - begin <= NEAR || !this.isTimed || begin === this.items.length)) {
      await this.readFrom(begin);
      return;
    }
    if (!(await this.seek(place))) {
      if (begin < 0) throw new Error("the list can't be read here");
      await this.readFrom(begin);
    }
  }

  /** @param {number} begin a place whose cursor is known */
  async readFrom(begin) {
    const { version } = this;
    const cursor = this.cursors.get(begin);
    const page = await this.list({ limit: PAGE, cursor });
    if (version !== this.version) return;
    this.cursors.delete(begin);
    this.put(begin, page.rows, page.cursor);
  }

  /**
   * Find a place by time and read it; false: there are too many sessions of one moment.
   *
   * @param {number} place
   */
  async seek(place) {
    const { version } = this;
    const early = await this.countPinned();
    const all = this.items.length - early;
    const only = { ...this.wanted, pinned: this.wanted.pinned ?? false };
    const goal = Math.max(0, place - early - PAGE / 4);
    // Between two moments of which we know how many sessions are newer (less the goal), by the
    // Illinois method: a straight line between both, and an end that stays twice counts half.
    let [newer, newerAt] = [-goal, Date.now()];
    let [older, olderAt] = [all - goal, 0];
    this.items.forEach((row, index) => {
      if (!row || row.pinned !== only.pinned) return;
      const rank = index - early - goal;
      if (rank <= 0) [newer, newerAt] = [rank, row.updated_at];
      else if (olderAt === 0) [older, olderAt] = [rank, row.updated_at];
    });
    let step = DAY;
    let side = 0;
    for (let probe = 0; probe < PROBES; probe++) {
      const share = Math.min(0.98, Math.max(0.02, newer / (newer - older || -1)));
      const at = Math.floor(
        olderAt > 0 ? newerAt - (newerAt - olderAt) * share : newerAt - (step *= 4),
      );
      const { total } = await this.ask({ ...only, until: at, limit: 0, count: true });
      const rank = all - total - goal;
      if (rank <= 0 && -rank <= PAGE / 2) {
        const page = await this.list({ pinned: only.pinned, until: at, limit: PAGE });
        if (version !== this.version) return true;
        // The cursor counts in the whole list too: it names the last session, not a page.
        this.put(early + goal + rank, page.rows, page.cursor);
        return true;
      }
      if (rank <= 0) {
        [newer, newerAt] = [rank, at];
        if (side < 0) older /= 2;
        side = -1;
      } else {
        [older, olderAt] = [rank, at];
        if (side > 0) newer /= 2;
        side = 1;
      }
      if (newerAt - olderAt <= 1) return false;
    }
    return false;
  }

  /** How many sessions come first because they are pinned. */
  async countPinned() {
    if (this.wanted.pinned !== undefined) return 0;
    if (this.pinned === null) {
      const { total } = await this.ask({ ...this.wanted, pinned: true, limit: 0, count: true });
      this.pinned = total;
    }
    return /** @type {number} */ (this.pinned) - this.waiting.filter((each) => each.pinned).length;
  }

  async readTotal() {
    const { total } = await this.ask({ ...this.wanted, limit: 0, count: true });
    this.resize(total - this.waiting.length);
    this.isCounted = true;
  }

  /** The list has so many sessions: more or fewer places that are not read. @param {number} many */
  resize(many) {
    while (this.items.length > many && !this.items.at(-1)) this.items.pop();
    let index = this.items.length - 1;
    while (this.items.length > many && index >= 0) {
      if (!this.items[index]) this.items.splice(index, 1);
      index -= 1;
    }
    while (this.items.length < many) this.items.push(undefined);
    this.places = null;
  }

  /**
   * @param {number} begin
   * @param {Row[]} rows
   * @param {string | null} cursor
   */
  put(begin, rows, cursor) {
    const fresh = this.withoutWaiting(rows);
    for (const [offset, row] of fresh.entries()) {
      const before = this.indexOf(row.id) - this.waiting.length;
      if (before >= 0 && before !== begin + offset) this.items[before] = undefined;
      while (this.items.length < begin + offset) this.items.push(undefined);
      this.items[begin + offset] = row;
      this.places?.set(row.id, begin + offset);
    }
    const end = begin + fresh.length;
    if (cursor === null) {
      this.items.length = end;
      this.isCounted = true;
    } else if (!this.items[end]) this.cursors.set(end, cursor);
    this.places = null;
  }

  /** @param {Wanted} more */
  async list(more) {
    const answer = await this.ask({ ...this.wanted, ...more });
    return {
      rows: /** @type {Row[]} */ (answer.sessions.map(slim)).filter(
        (each) => !this.leaving.has(each.id),
      ),
      cursor: /** @type {string | null} */ (answer.cursor ?? null),
      total: /** @type {number | null} */ (answer.total ?? null),
      isCut: Boolean(answer.cut),
    };
  }

  /** @returns {Promise<Row[]>} */
  async listWaiting() {
    if (!this.isTimed) return [];
    const { sessions } = await this.ask({ ...this.wanted, state: "waiting", limit: 50 });
    return sessions.map(slim).filter((/** @type {Row} */ each) => !this.leaving.has(each.id));
  }

  /** Sessions whose name has what is searched for; the index knows messages only. @returns {Promise<Row[]>} */
  async listNamed() {
    const { q, ...where } = this.wanted;
    if (!q) return [];
    const named = q.replace(/\*$/, "");
    const { sessions } = await this.ask({ ...where, named, limit: 20 });
    return sessions.map(slim);
  }

  /** @param {Wanted} params */
  ask(params) {
    return call("sessions.list", params, { signal: this.stop.signal });
  }

  /** @param {Row[]} rows */
  withoutWaiting(rows) {
    return rows.filter((each) => !this.isWaiting(each.id));
  }

  /** @param {string} id */
  isWaiting(id) {
    return this.waiting.some((each) => each.id === id);
  }

  /** The order of the list: negative if `one` comes first. @param {Row} one @param {Row} other */
  compare(one, other) {
    const at = this.wanted.trashed ? "deleted_at" : "updated_at";
    const pins = this.wanted.trashed ? 0 : Number(other.pinned) - Number(one.pinned);
    return pins || other[at] - one[at] || (one.id < other.id ? 1 : -1);
  }
}

/** Only what rows show: a long list is kept in memory. @param {any} session @returns {Row} */
function slim(session) {
  /** @type {Row} */
  const row = {};
  for (const name of FIELDS) if (session[name] !== undefined) row[name] = session[name];
  row.pinned = Boolean(row.pinned);
  return row;
}

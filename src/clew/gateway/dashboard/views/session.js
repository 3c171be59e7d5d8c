// The page of a session: its transcript, live, and everything that can be done in it.

import { call, Problem } from "../api.js";
import { h, icon, replace } from "../dom.js";
import { nameOf } from "../format.js";
import { addKeys } from "../keyboard.js";
import { follow, listen } from "../live.js";
import { makeAbout } from "../parts/about.js";
import { makeComposer } from "../parts/composer.js";
import { makeFind } from "../parts/find.js";
import { makeLiveTurn } from "../parts/liveturn.js";
import {
  beginMark,
  compactionMark,
  deliveryMark,
  endMark,
  forkMark,
  parentMark,
  unfinishedMark,
} from "../parts/marks.js";
import { copy } from "../parts/message.js";
import { notify, notifyProblem } from "../parts/notice.js";
import { empty, failure, setTitle } from "../parts/page.js";
import { addCommands } from "../parts/palette.js";
import { makeHead } from "../parts/sessionhead.js";
import { makeSettings } from "../parts/settings.js";
import { makeTranscript, readPage } from "../parts/transcript.js";
import { go } from "../router.js";
import { may, state, watchState } from "../state.js";

const ABOUT = "clew.about";
const SOON = 80;
const OFFLINE = "The gateway does not answer. What you write is kept in this browser.";
const FORMATS = [
  ["md", "Markdown"],
  ["html", "a web page"],
  ["jsonl", "JSON lines"],
];

/** @type {View} */
export function showSession(root, place) {
  if (place.id === "new") return showNew(root);
  let isLeft = false;
  /** @type {(() => void) | undefined} */
  let leave;
  setTitle("Session");
  root.append(h("p", { class: "empty", role: "status" }, "Reading…"));
  const start = async () => {
    try {
      // Both at once: the newest messages are what is seen first, unless the address names one.
      const [detail, page] = await Promise.all([
        call("sessions.get", { id: place.id, messages: 0 }),
        seqOf(place.hash) ? undefined : readPage(place.id),
      ]);
      if (isLeft) return;
      root.replaceChildren();
      leave = openSession(root, detail, seqOf(place.hash), page);
    } catch (error) {
      if (!isLeft) root.replaceChildren(refuse(place.id, error, start));
    }
  };
  start();
  return () => {
    isLeft = true;
    leave?.();
  };
}

/** The number of the message that an address names. @param {string} hash */
function seqOf(hash) {
  return Number(/^m(\d{1,15})$/.exec(hash)?.[1]) || null;
}

/** @param {string} id @param {unknown} error @param {() => void} again */
function refuse(id, error, again) {
  setTitle("Session");
  const isTrashed = error instanceof Problem && /in the trash/.test(error.message);
  if (!isTrashed) return failure(error, again);
  const restore = () => call("sessions.restore", { id }).then(again, notifyProblem);
  return empty(
    "This session is in the trash.",
    h("button", { type: "button", onclick: restore }, icon("undo"), "Bring it back"),
  );
}

/**
 * @param {HTMLElement} root
 * @param {any} detail
 * @param {number | null} seq the message to go to
 * @param {any} [newest] the newest messages, if they were read already
 * @returns {() => void}
 */
function openSession(root, detail, seq, newest) {
  let { session } = detail;
  const id = session.id;
  let lineage = /** @type {any} */ ({ forks: [], compactions: [] });
  /** @type {any[]} */
  let outbox = [];
  let isRunning = Boolean(detail.state.running);
  let isClosed = false;
  /** @type {(() => void) | undefined} */
  let unfollow;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let refreshing;
  let queueAsked = 0;
  /** @type {string[]} */
  const said = [];

  const fresh = h(
    "button",
    { type: "button", class: "to-end", hidden: true, onclick: () => transcript.toEnd() },
    icon("down"),
    h("span", null, "To the end"),
  );
  const transcript = makeTranscript(session, state.person || "owner", {
    onError: notifyProblem,
    onAway: (isAway) => {
      fresh.hidden = !isAway;
      if (!isAway) replace(fresh, icon("down"), h("span", null, "To the end"));
    },
    onSeen: drawMarks,
  });
  const turn = makeLiveTurn(transcript, session.agent === "main" ? "clew" : session.agent);
  const settings = makeSettings(async (change) => {
    session = await call("sessions.update", { id, ...change });
    draw();
  });
  const about = makeAbout(id);
  about.element.hidden = localStorage.getItem(ABOUT) !== "shown" || innerWidth < 900;
  const find = makeFind(id, transcript.jump, () =>
    transcript.element.focus({ preventScroll: true }),
  );
  const head = makeHead({ rename, choices: actions, find: find.open, about: toggleAbout });
  const queue = h("div", { class: "queue", hidden: true });
  const composer = makeComposer(id, { send, stop, history, tools: settings.element });
  const said_ = h("p", { class: "visually-hidden", role: "status" });
  const tools = makeTools();
  const page = h(
    "div",
    { class: "session" },
    head.element,
    find.element,
    h(
      "div",
      { class: "session-body" },
      h(
        "div",
        { class: "talk" },
        transcript.element,
        h("div", { class: "to-end-place" }, fresh),
        h("div", { class: "bottom" }, queue, composer.element),
      ),
      about.element,
    ),
    said_,
  );
  root.append(page);
  dropFiles(page, composer.take);

  // --- reading ----------------------------------------------------------------------------------

  async function start() {
    try {
      await transcript.open(seq, newest);
      if (seq) await transcript.jump(seq);
    } catch (error) {
      root.replaceChildren(
        failure(error, () => go(location.pathname + location.hash, { replace: true })),
      );
      return;
    }
    if (isClosed) return;
    unfollow = follow(id, transcript.head, heard);
    if (isRunning) turn.start(true);
    draw();
    readAround();
    if (innerWidth > 720 && !seq && !document.activeElement?.closest("dialog")) composer.focus();
  }

  /** What changes with a session beside its messages. */
  async function readAround() {
    const [family, deliveries] = await Promise.all([
      call("sessions.lineage", { id, render: "html" }).catch(() => lineage),
      call("outbox.list", { session: id, limit: 500 }).catch(() => ({ deliveries: [] })),
    ]);
    if (isClosed) return;
    lineage = { forks: [], compactions: [], ...family };
    outbox = deliveries.deliveries;
    drawMarks();
    draw();
    readQueue();
  }

  function refreshSoon() {
    clearTimeout(refreshing);
    refreshing = setTimeout(refresh, SOON);
  }

  async function refresh() {
    try {
      const now = await call("sessions.get", { id, messages: 0 });
      if (isClosed) return;
      // Fewer messages, or as many with a newer head: a turn was undone or brought back.
      const before = session.message_count - session.head;
      const isOther = now.session.message_count - now.session.head !== before;
      session = now.session;
      detail = now;
      setRunning(Boolean(now.state.running));
      if (isOther) await transcript.reload();
      await readAround();
    } catch (error) {
      if (error instanceof Problem && error.status === 404) {
        root.replaceChildren(refuse(id, error, () => go(location.pathname, { replace: true })));
      }
    }
  }

  async function readQueue() {
    const asked = ++queueAsked;
    const { messages } = await call("queue.list", { session: id }).catch(() => ({ messages: [] }));
    // An older question may be answered after a newer one.
    if (isClosed || asked !== queueAsked) return;
    const waiting = messages.filter(
      (/** @type {any} */ each) => each.status === "queued" || isRunning,
    );
    queue.hidden = waiting.length === 0;
    if (waiting.length > 0) turn.clearSent();
    replace(
      queue,
      waiting.map((/** @type {any} */ each) =>
        h(
          "div",
          { class: "queued" },
          icon("clock"),
          h("span", { class: "cut" }, each.text),
          h(
            "button",
            { type: "button", class: "quiet small", onclick: () => takeBack(each) },
            "Take back",
          ),
        ),
      ),
    );
  }

  /** @param {any} message */
  async function takeBack(message) {
    try {
      const { dropped } = await call("queue.drop", { session: id, id: message.id });
      if (dropped.includes(message.id)) composer.put(message.text);
      else notify("It was answered already.");
    } catch (error) {
      notifyProblem(error);
    }
    readQueue();
  }

  // --- live -------------------------------------------------------------------------------------

  /** @param {Frame} frame */
  function heard(frame) {
    if (frame.type === "gap") {
      turn.breakOff();
      return refreshSoon();
    }
    const { event } = frame;
    switch (event.type) {
      case "turn_started":
        setRunning(true);
        turn.start(false);
        readQueue();
        break;
      case "turn_joined":
      case "not_answered":
        readQueue();
        if (event.error) notify(event.error, { isError: true });
        break;
      case "turn_ended":
        setRunning(false);
        if (event.turn.status !== "done") transcript.unfinished.set(event.turn.id, event.turn);
        turn.settle();
        drawMarks();
        refreshSoon();
        break;
      case "message":
        turn.take(event);
        if (event.message.role === "assistant" && event.message.content)
          announce(event.message.content);
        if (!transcript.isAtEnd && event.message.role !== "tool") {
          replace(fresh, icon("down"), h("span", null, "New messages"));
          fresh.hidden = false;
        }
        break;
      case "tool_started":
      case "text":
      case "thinking":
        setRunning(true);
        turn.take(event);
        break;
      default:
        turn.take(event);
    }
  }

  /** @param {boolean} now */
  function setRunning(now) {
    if (isRunning === now) return;
    isRunning = now;
    composer.setRunning(now);
    if (!now) turn.settle();
    draw();
  }

  /** Say an answer to a screen reader when it is whole, not piece by piece. @param {string} text */
  function announce(text) {
    replace(said_, `New answer: ${text.slice(0, 300)}`);
  }

  if (state.connection === "offline") composer.say(OFFLINE);
  const stopListening = listen((frame) => {
    if (frame.type === "connection") {
      const isOnline = frame.state === "online";
      composer.say(isOnline ? "" : OFFLINE);
      if (frame.state === "offline") turn.breakOff();
      if (isOnline) {
        transcript.catchUp();
        refreshSoon();
      }
    } else if (frame.type === "hint" && frame.session === id) refreshSoon();
    else if (frame.type === "error" && frame.session === id) refreshSoon();
  });
  const stopWatching = watchState(() => {
    composer.element.hidden = state.scopes.length > 0 && !may("chat");
    draw();
  });

  function waiting() {
    return [...state.approvals.values()].filter((each) => each.session_id === id);
  }

  // --- drawing ----------------------------------------------------------------------------------

  function draw() {
    setTitle(nameOf(session));
    turn.setQuestions(waiting());
    head.show(session, detail.state, isRunning, waiting().length);
    composer.setRunning(isRunning);
    settings
      .show(session)
      .then(
        () => !isClosed && about.show({ session, state: detail.state }, lineage, settings.model),
      );
  }

  /** @type {Map<string, Node>} */
  const made = new Map();
  /** A mark stays the same element, open or closed, however often it is placed. @param {string} name @param {() => Node} make */
  function once(name, make) {
    return () => {
      const node = made.get(name) ?? make();
      made.set(name, node);
      return node;
    };
  }

  function drawMarks() {
    /** @type {{before: Map<number, (() => Node)[]>, after: Map<number, (() => Node)[]>}} */
    const marks = { before: new Map(), after: new Map() };
    const put = (
      /** @type {"before" | "after"} */ side,
      /** @type {number} */ seq,
      /** @type {() => Node} */ make,
    ) => marks[side].set(seq, [...(marks[side].get(seq) ?? []), make]);
    for (const each of lineage.compactions) {
      put(
        "before",
        each.keep_from,
        once(`c${each.id}`, () => compactionMark(each)),
      );
    }
    if (lineage.parent)
      put(
        "after",
        lineage.parent.at,
        once("parent", () => parentMark(lineage.parent)),
      );
    for (const each of lineage.forks)
      put(
        "after",
        each.at,
        once(`f${each.id}${each.name}`, () => forkMark(each)),
      );
    for (const row of outbox) {
      if (row.seq === null || row.seq === undefined) continue;
      put(
        "after",
        row.seq,
        once(`o${row.id}${row.status}${row.attempts}`, () => deliveryMark(row, readAround)),
      );
    }
    /** @type {Map<string, number>} */
    const ends = new Map();
    for (const [seq, { message }] of transcript.articles)
      if (message.turn_id) ends.set(message.turn_id, Math.max(seq, ends.get(message.turn_id) ?? 0));
    for (const each of transcript.unfinished.values()) {
      const seq = ends.get(each.id);
      if (seq === undefined || each.undone_at) continue;
      const isLast = seq === transcript.head && !isRunning && may("chat");
      put(
        "after",
        seq,
        once(`u${each.id}${isLast}`, () =>
          unfinishedMark(each, isLast ? () => run("/retry") : null),
        ),
      );
    }
    transcript.setMarks(marks);
    replace(
      transcript.begin,
      beginMark(session, lineage.previous),
      session.message_count === 0 && h("p", { class: "faint" }, "Nothing was said here yet."),
    );
    let end = transcript.element.querySelector(".end-mark");
    if (lineage.now && !end) {
      end = h("div", { class: "end-mark" }, endMark(lineage.now));
      transcript.live.prepend(end);
    } else if (!lineage.now) end?.remove();
  }

  // --- doing ------------------------------------------------------------------------------------

  /** @param {import("../parts/composer.js").Said} message @returns {Promise<boolean>} */
  async function send({ text, attachments, key }) {
    const line = text.trim();
    if (/^\/[a-z_-]+(\s|$)/i.test(line) && attachments.length === 0) return run(line);
    try {
      if (!isRunning) {
        turn.showSent(text, attachments.length);
        transcript.toEnd();
      }
      await call("chat.send", {
        session: id,
        text,
        attachments,
        idempotency_key: key,
        platform: "web",
      });
      said.push(text);
      if (isRunning) readQueue();
      return true;
    } catch (error) {
      turn.clearSent();
      notifyProblem(error);
      return false;
    }
  }

  /** Run a slash command. @param {string} line @returns {Promise<boolean>} whether it was run */
  async function run(line) {
    const wanted = /^\/export(?:\s+(\w+))?$/.exec(line);
    if (wanted) {
      download(FORMATS.find(([each]) => each === wanted[1])?.[0] ?? "md");
      return true;
    }
    try {
      const reply = await call("commands.run", { line, session: id });
      const target = reply.open ?? (reply.switched ? reply.session : null);
      if (reply.switched && !target) go("/s/new");
      else if (target && target.id !== id) go(`/s/${target.id}`);
      else if (reply.text || reply.pick) showReply(line, reply);
      said.push(line);
      refreshSoon();
      return true;
    } catch (error) {
      notifyProblem(error);
      return false;
    }
  }

  /** @param {string} line @param {any} reply */
  function showReply(line, reply) {
    turn.showReply(
      line,
      [
        reply.text && h("pre", { class: "reply-text" }, reply.text),
        reply.pick &&
          h(
            "ul",
            null,
            reply.pick.map((/** @type {any} */ each) =>
              h("li", null, h("a", { href: `/s/${each.id}` }, nameOf(each))),
            ),
          ),
      ],
      Boolean(reply.is_error),
    );
    transcript.toEnd();
  }

  async function stop() {
    try {
      await call("sessions.stop", { id, queue: false });
    } catch (error) {
      notifyProblem(error);
    }
  }

  async function undo() {
    if (!(await run("/undo"))) return;
    notify("The last turn was taken back.", { undo: () => run("/redo"), done: "It is back." });
  }

  /** @param {number} [at] */
  async function fork(at) {
    try {
      const made = await call("sessions.fork", { id, at });
      go(`/s/${made.id}`);
      notify("This is the fork. The session it came from stays as it was.");
    } catch (error) {
      notifyProblem(error);
    }
  }

  /** @param {string} title */
  function rename(title) {
    return change({ title }, "Renamed.");
  }

  /** Change something about the session, with an undo. @param {any} wanted @param {string} words */
  async function change(wanted, words) {
    try {
      const { changes, failed } = await call("sessions.mark", { ids: [id], ...wanted });
      if (failed.length > 0) throw new Problem(failed[0].problem.code, failed[0].problem.detail);
      if (wanted.trashed) go("/");
      else refresh();
      notify(words, {
        undo: async () => {
          await call("sessions.undo", { changes });
          if (wanted.trashed) go(`/s/${id}`);
          else refresh();
        },
      });
    } catch (error) {
      notifyProblem(error);
    }
  }

  // The same keys do the same in the list.

  function pin() {
    const { pinned } = session;
    return change({ pinned: !pinned }, pinned ? "Unpinned." : "Pinned.");
  }

  function archive() {
    const isArchived = Boolean(session.archived_at);
    return change({ archived: !isArchived }, isArchived ? "Back in the list." : "Archived.");
  }

  function trash() {
    return change({ trashed: true }, "In the trash.");
  }

  /** @param {string} [format] */
  function download(format = "md") {
    h("a", {
      href: `/v1/sessions/${id}/export?format=${format}`,
      download: `session-${session.short_id}.${format}`,
    }).click();
  }

  function toggleAbout() {
    about.element.hidden = !about.element.hidden;
    localStorage.setItem(ABOUT, about.element.hidden ? "hidden" : "shown");
    head.setAbout(!about.element.hidden);
    if (!about.element.hidden) about.load();
  }

  function history() {
    const shown = [...transcript.articles.values()]
      .sort((one, two) => one.message.seq - two.message.seq)
      .filter(({ message }) => message.role === "user" && message.content)
      .map(({ message }) => message.content);
    return [...new Set([...shown, ...said].reverse())].reverse();
  }

  /** What can be done with the session: the menu and the palette offer the same. @returns {any[]} */
  function actions() {
    return [
      isRunning && { label: "Stop the turn", hint: ".", icon: "stop", run: stop },
      may("chat") &&
        !isRunning && { label: "Run the last turn again", icon: "retry", run: () => run("/retry") },
      may("write") && !isRunning && { label: "Take back the last turn", icon: "undo", run: undo },
      may("write") && { label: "Rename", hint: "r", icon: "rename", run: head.edit },
      may("write") && { label: "Fork", icon: "fork", run: () => fork() },
      may("write") && {
        label: session.pinned ? "Unpin" : "Pin",
        hint: "p",
        icon: "pin",
        run: pin,
      },
      may("write") && {
        label: session.archived_at ? "Bring back from the archive" : "Archive",
        hint: "e",
        icon: "archive",
        run: archive,
      },
      may("write") && {
        label: "Put in the trash",
        hint: "#",
        icon: "trash",
        run: trash,
      },
      may("write") &&
        !isRunning && { label: "Compact", icon: "archive", run: () => run("/compact") },
      { label: "What the model is given", icon: "thinking", run: () => run("/context") },
      ...FORMATS.map(([format, name]) => ({
        label: `Export as ${name}`,
        icon: "export",
        run: () => download(format),
      })),
      { label: "Find in this session", hint: "Ctrl+F", icon: "search", run: find.open },
      { label: "About this session", hint: "d", icon: "status", run: toggleAbout },
    ].filter(Boolean);
  }

  // --- the buttons of a message -----------------------------------------------------------------

  /** One set of buttons for all messages: it moves to the one that is pointed at or has the focus. */
  function makeTools() {
    /** @type {HTMLElement | null} */
    let at = null;
    const seq = () => Number(at?.dataset.seq);
    const address = () => `${location.origin}/s/${id}#m${seq()}`;
    const copyButton = h(
      "button",
      {
        type: "button",
        class: "quiet small",
        onclick: () => copy(transcript.articles.get(seq())?.message.content ?? "", copyButton),
      },
      icon("copy"),
      h("span", null, "Copy"),
    );
    const element = h(
      "div",
      { class: "message-tools" },
      copyButton,
      h(
        "button",
        {
          type: "button",
          class: "quiet small",
          "aria-label": "Copy a link to this message",
          title: "Copy a link (y)",
          onclick: copyLink,
        },
        icon("clip"),
      ),
      h(
        "button",
        {
          type: "button",
          class: "quiet small",
          "aria-label": "Fork after this message",
          title: "Fork here",
          onclick: () => fork(seq()),
        },
        icon("fork"),
      ),
    );
    const move = (/** @type {Event} */ event) => {
      const target =
        event.target instanceof Element ? event.target.closest(".messages > .message") : null;
      if (!(target instanceof HTMLElement) || target === at) return;
      at = target;
      target.querySelector(".said")?.append(element);
    };
    async function copyLink() {
      if (!at) return;
      history_(seq());
      try {
        await navigator.clipboard.writeText(address());
        notify("The link is copied.");
      } catch {
        notify("The address bar has the link now.");
      }
    }
    transcript.element.addEventListener("pointerover", move);
    transcript.element.addEventListener("focusin", move);
    transcript.element.addEventListener("click", (/** @type {MouseEvent} */ event) => {
      const link = event.target instanceof Element ? event.target.closest("a.when") : null;
      if (!link || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      const article = /** @type {HTMLElement} */ (link.closest(".message"));
      history_(Number(article.dataset.seq));
      article.focus({ preventScroll: true });
    });
    return { copyLink };
  }

  /** The address names a message now; the page stays as it is. @param {number} seq */
  function history_(seq) {
    globalThis.history.replaceState(null, "", `/s/${id}#m${seq}`);
  }

  // --- keys -------------------------------------------------------------------------------------

  const dropKeys = addKeys("In a session", [
    ["j", "Next message", () => transcript.step(1)],
    ["k", "Previous message", () => transcript.step(-1)],
    ["o", "Open or close what is folded in this message", fold],
    ["Shift+g", "To the end", () => transcript.toEnd()],
    ["g g", "To the first message", () => void transcript.toStart()],
    ["c", "Write a message", () => composer.focus()],
    ["i", "", () => composer.focus()],
    ["y", "Copy a link to this message", () => void tools.copyLink()],
    ["r", "Rename", () => head.edit()],
    ["p", "Pin, or unpin", () => void pin()],
    ["e", "Archive, or take back", () => void archive()],
    ["#", "Put in the trash", () => void trash()],
    ["d", "About this session", toggleAbout],
    [".", "Stop the turn", () => (isRunning ? void stop() : false)],
    ["/", "Find in this session", () => find.open()],
    [
      "Ctrl+f",
      "Find in this session",
      () => (document.activeElement?.closest(".find") ? false : find.open()),
    ],
    ["Escape", "Close the search, then leave the message", escape],
  ]);

  /** @returns {void | false} */
  function fold() {
    const folds = document.activeElement?.closest(".message")?.querySelectorAll("details");
    if (!folds?.length) return false;
    const isOpen = [...folds].some((each) => each.open);
    for (const each of folds) each.open = !isOpen;
  }

  /** @returns {void | false} */
  function escape() {
    if (find.close() || composer.escape()) return;
    if (document.activeElement instanceof HTMLElement && page.contains(document.activeElement)) {
      document.activeElement.blur();
      return;
    }
    return false;
  }

  const dropCommands = addCommands(() => [
    ...actions().map((each) => ({ ...each, label: `Session: ${each.label}` })),
    ...(settings.model?.thinking ?? []).map((/** @type {string} */ level) => ({
      label: `Thinking: ${level}`,
      icon: "thinking",
      run: () => void run(`/thinking ${level}`),
    })),
    {
      label: "Change the model…",
      icon: "settings",
      run: () => /** @type {HTMLElement | null} */ (page.querySelector(".model-button"))?.click(),
    },
  ]);

  head.setAbout(!about.element.hidden);
  draw();
  start();
  return () => {
    isClosed = true;
    clearTimeout(refreshing);
    unfollow?.();
    stopListening();
    stopWatching();
    dropKeys();
    dropCommands();
    transcript.close();
    turn.close();
  };
}

/**
 * A chat that has no session yet: its first message makes one.
 *
 * @param {HTMLElement} root
 * @returns {() => void}
 */
function showNew(root) {
  setTitle("New chat");
  /** @type {string | null} */
  let model = null;
  /** The session that the first message has made. @type {string | undefined} */
  let made;
  const settings = makeSettings(async (change) => {
    model = change.model ?? model;
    settings.show({ model, thinking: null });
  });
  const composer = makeComposer("new", {
    send,
    stop: () => {},
    history: () => [],
    tools: settings.element,
  });
  const page = h(
    "div",
    { class: "session new-chat" },
    h(
      "div",
      { class: "welcome" },
      h("h1", null, "New chat"),
      h("p", { class: "faint" }, "Your first message begins it."),
    ),
    h("div", { class: "bottom" }, composer.element),
  );
  root.append(page);
  dropFiles(page, composer.take);
  settings.show({ model: null, thinking: null });
  composer.focus();

  /** @param {import("../parts/composer.js").Said} message @returns {Promise<boolean>} */
  async function send({ text, attachments, key }) {
    if (/^\/[a-z_-]+(\s|$)/i.test(text.trim()) && attachments.length === 0) {
      notify("There is no session yet: commands work after the first message.", { isError: true });
      return false;
    }
    try {
      const params = { text, attachments, idempotency_key: key, platform: "web", session: made };
      const accepted = await call(
        "chat.send",
        made ? params : { ...params, model: model ?? undefined },
      );
      // The draft is forgotten before the page changes.
      if (!made) setTimeout(() => go(`/s/${accepted.session}`, { replace: true }));
      made = accepted.session;
      return true;
    } catch (error) {
      notifyProblem(error);
      return false;
    }
  }

  const dropKeys = addKeys("In a session", [
    ["c", "Write a message", () => composer.focus()],
    ["Escape", "Leave the message", () => (composer.escape() ? undefined : false)],
  ]);
  const stopListening = listen((frame) => {
    if (frame.type !== "connection") return;
    composer.say(frame.state === "online" ? "" : OFFLINE);
  });
  return () => {
    dropKeys();
    stopListening();
  };
}

/**
 * Files that are dropped anywhere on the page belong to the message.
 *
 * @param {HTMLElement} page
 * @param {(files: File[]) => void} take
 */
function dropFiles(page, take) {
  const over = h(
    "div",
    { class: "drop-over", hidden: true },
    "Drop files to add them to the message",
  );
  page.append(over);
  const hasFiles = (/** @type {DragEvent} */ event) => event.dataTransfer?.types.includes("Files");
  page.addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    over.hidden = false;
  });
  page.addEventListener("dragleave", (event) => {
    if (!page.contains(/** @type {Node | null} */ (event.relatedTarget))) over.hidden = true;
  });
  page.addEventListener("drop", (event) => {
    over.hidden = true;
    if (!hasFiles(event)) return;
    event.preventDefault();
    take([...(event.dataTransfer?.files ?? [])]);
  });
}

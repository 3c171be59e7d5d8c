// A transcript of any length in a page of bounded size. A window of messages is in the document;
// above and below it empty space stands for the rest, so that the scrollbar tells where one is.
// Whatever is added or taken away, the message under the reader's eyes stays where it is.

import { call } from "../api.js";
import { h } from "../dom.js";
import { fillArticle, makeArticle } from "./message.js";
import { toolBlock } from "./toolcall.js";

/** Messages that are asked for at once, and how many are kept in the document at most. */
const PAGE = 50;
const MOST = 4 * PAGE;
/** Pixels from the end within which one counts as being there. */
const NEAR = 48;
const GUESS = 110;
const REST = 60;

/**
 * A page of messages: the newest, or those of a range.
 *
 * @param {string} id
 * @param {Record<string, any>} [range]
 */
export function readPage(id, range = {}) {
  return call("sessions.messages", { id, limit: PAGE, render: "html", ...range });
}

/**
 * @param {any} session
 * @param {string} me
 * @param {{onError: (error: unknown) => void, onAway: (isAway: boolean) => void, onSeen: () => void}} told
 *   `onAway`: the reader left the end, or came back to it; `onSeen`: a page was shown
 */
export function makeTranscript(session, me, { onError, onAway, onSeen }) {
  const id = session.id;
  const around = { session, me };
  const above = h("div", { class: "space" });
  const begin = h("div", { class: "begin" });
  const list = h("div", {
    class: "messages",
    role: "log",
    "aria-live": "off",
    "aria-label": "Messages",
    "aria-busy": "true",
  });
  const below = h("div", { class: "space" });
  const live = h("div", { class: "live" });
  const column = h("div", { class: "column" }, above, begin, list, below, live);
  const scroller = h(
    "div",
    { class: "transcript", tabindex: "0", onscroll: scrolled, onkeydown: press },
    column,
  );

  /** @type {Map<number, import("./message.js").Article>} */
  const articles = new Map();
  /** @type {Map<string, import("./toolcall.js").ToolBlock>} */
  const blocks = new Map();
  /** Results whose call is not in the document. @type {Map<string, {message: any, html?: string}>} */
  const results = new Map();
  /** @type {{before: Map<number, (() => Node)[]>, after: Map<number, (() => Node)[]>}} */
  let marks = { before: new Map(), after: new Map() };
  /** @type {Map<string, any>} */
  const unfinished = new Map();
  let first = 0;
  let last = 0;
  let head = session.head;
  let isStart = true;
  let isEnd = true;
  let height = GUESS;
  let isAtEnd = true;
  let lastTop = 0;
  let generation = 0;
  let isLoading = false;
  let isFramed = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let resting;
  let isClosed = false;
  /** @type {Set<number>} */
  const unrendered = new Set();
  let isRendering = false;

  const observer = new ResizeObserver(() => {
    if (isAtEnd && isEnd) scroller.scrollTop = scroller.scrollHeight;
  });
  observer.observe(column);
  observer.observe(scroller);

  // --- reading ----------------------------------------------------------------------------------

  /**
   * Show the messages around a number, or the newest, which may have been read already.
   *
   * @param {number | null} seq
   * @param {any} [newest]
   */
  async function open(seq, newest) {
    const turn = (generation += 1);
    clearTimeout(resting);
    isLoading = true;
    if (seq !== null) seq = Math.max(1, Math.min(seq, head));
    try {
      const page =
        newest ??
        (await read(
          seq === null ? {} : { after: Math.max(0, seq - PAGE / 2 - 1), before: seq + PAGE / 2 },
        ));
      if (turn !== generation) return;
      clear();
      head = Math.max(head, page.head);
      first = seq === null ? (page.messages[0]?.seq ?? 1) : Math.max(1, seq - PAGE / 2);
      last = seq === null ? head : Math.min(head, seq + PAGE / 2 - 1);
      isStart = first <= 1 || (seq === null && !page.more);
      isEnd = last >= head;
      put(page, null);
      list.removeAttribute("aria-busy");
      measure();
      space();
      if (seq === null) toEnd();
      else scrollTo(nearest(seq));
    } finally {
      if (turn === generation) isLoading = false;
    }
    onSeen();
    scrolled();
  }

  /** @param {Record<string, any>} range */
  function read(range) {
    return readPage(id, range);
  }

  async function older() {
    await extend(async () => {
      const page = await read({ before: first });
      return () => {
        put(page, list.firstElementChild);
        isStart = !page.more;
        first = isStart ? 1 : (page.messages[0]?.seq ?? 1);
        trim(false);
      };
    });
  }

  async function newer() {
    await extend(async () => {
      const end = Math.min(last + PAGE, head);
      const page = await read({ after: last, before: end + 1 });
      return () => {
        put(page, null);
        head = Math.max(head, page.head);
        last = end;
        isEnd = last >= head;
        trim(true);
      };
    });
  }

  /** Load at one end, while what is seen stays in its place. @param {() => Promise<() => void>} work */
  async function extend(work) {
    if (isLoading || isClosed) return;
    isLoading = true;
    const turn = generation;
    try {
      const change = await work();
      if (turn !== generation) return;
      hold(() => {
        change();
        space();
      });
      onSeen();
    } catch (error) {
      onError(error);
      return;
    } finally {
      if (turn === generation) isLoading = false;
    }
    scrolled();
  }

  /** Change the document, and scroll so that the first message in sight does not move. @param {() => void} change */
  function hold(change) {
    const anchor = inSight();
    const was = anchor?.getBoundingClientRect().top ?? 0;
    change();
    if (isAtEnd && isEnd) scroller.scrollTop = scroller.scrollHeight;
    else if (anchor?.isConnected) {
      const moved = anchor.getBoundingClientRect().top - was;
      if (moved) scroller.scrollTop += moved;
    }
  }

  /** @returns {HTMLElement | undefined} */
  function inSight() {
    const top = scroller.getBoundingClientRect().top;
    const all = list.children;
    let low = 0;
    let high = all.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (all[middle].getBoundingClientRect().bottom > top + 1) high = middle;
      else low = middle + 1;
    }
    return all[low];
  }

  // --- the document -----------------------------------------------------------------------------

  function clear() {
    articles.clear();
    blocks.clear();
    results.clear();
    unfinished.clear();
    unrendered.clear();
    list.replaceChildren();
  }

  /** @param {any} page @param {Element | null} place */
  function put(page, place) {
    const made = document.createDocumentFragment();
    page.messages.forEach((/** @type {any} */ message, /** @type {number} */ index) => {
      if (articles.has(message.seq)) return;
      made.append(makeOne(message, page.html?.[index]).element);
    });
    for (const turn of page.unfinished ?? []) unfinished.set(turn.id, turn);
    list.insertBefore(made, place);
    for (const article of articles.values()) draw(article);
  }

  /** @param {any} message @param {any} html */
  function makeOne(message, html) {
    const article = makeArticle(message, html, around);
    articles.set(message.seq, article);
    for (const [callId, block] of article.calls) {
      blocks.set(callId, block);
      const result = results.get(callId);
      if (result) join(block, result.message, result.html);
    }
    if (message.role === "tool") {
      results.set(message.tool_call_id, { message, html: html?.html });
      const block = blocks.get(message.tool_call_id);
      if (block) join(block, message, html?.html);
      else showAlone(article, message, html?.html);
    }
    return article;
  }

  /** A result belongs into the block of its call. @param {any} block @param {any} message @param {string} [html] */
  function join(block, message, html) {
    block.setResult(message, html);
    block.element.dataset.seq = message.seq;
    articles.get(message.seq)?.element.querySelector(".tool")?.remove();
  }

  /** Its call is not in the document yet. @param {any} article @param {any} message @param {string} [html] */
  function showAlone(article, message, html) {
    const name = message.tool_name ?? "tool";
    const block = toolBlock({ id: message.tool_call_id ?? "", name, arguments: "" }, "done");
    block.setResult(message, html);
    article.element.querySelector(".said")?.append(block.element);
  }

  /** Days, marks, and whether a message goes on from the one above it. @param {import("./message.js").Article} article */
  function draw({ element, message, before, after }) {
    const previous = /** @type {HTMLElement | null} */ (element.previousElementSibling);
    const isNewDay = previous !== null && previous.dataset.day !== element.dataset.day;
    element.classList.toggle(
      "continues",
      message.role !== "user" &&
        previous !== null &&
        !previous.classList.contains("user") &&
        previous.dataset.turn === element.dataset.turn,
    );
    before.replaceChildren();
    if (isNewDay) before.append(h("div", { class: "day" }, element.dataset.day));
    before.append(...(marks.before.get(message.seq) ?? []).map((make) => make()));
    after.replaceChildren(...(marks.after.get(message.seq) ?? []).map((make) => make()));
  }

  /** Keep the document small. @param {boolean} atStart */
  function trim(atStart) {
    const extra = list.children.length - MOST;
    if (extra < PAGE) return;
    for (let count = 0; count < extra; count += 1) {
      const element = atStart ? list.firstElementChild : list.lastElementChild;
      const seq = Number(element.dataset.seq);
      for (const callId of articles.get(seq)?.calls.keys() ?? []) blocks.delete(callId);
      const callId = articles.get(seq)?.message.tool_call_id;
      if (callId) results.delete(callId);
      articles.delete(seq);
      element.remove();
    }
    if (atStart) {
      first = Number(list.firstElementChild.dataset.seq);
      isStart = false;
    } else {
      last = Number(list.lastElementChild.dataset.seq);
      isEnd = false;
    }
    for (const edge of [list.firstElementChild, list.lastElementChild]) {
      const article = articles.get(Number(edge?.dataset.seq));
      if (article) draw(article);
    }
  }

  function measure() {
    const shown = last - first + 1;
    if (list.children.length >= 10) height = Math.max(24, list.offsetHeight / shown);
  }

  function space() {
    above.style.height = isStart ? "0" : `${Math.round((first - 1) * height)}px`;
    below.style.height = isEnd ? "0" : `${Math.round((head - last) * height)}px`;
    begin.hidden = !isStart;
    live.hidden = !isEnd;
  }

  // --- scrolling --------------------------------------------------------------------------------

  function scrolled() {
    if (isFramed || isClosed) return;
    isFramed = true;
    requestAnimationFrame(look);
  }

  function look() {
    isFramed = false;
    // One leaves the end by going up. If the content grew meanwhile, that was not the reader.
    const isUp = scroller.scrollTop < lastTop - 1;
    if (isAtEnd && isEnd && !isUp) scroller.scrollTop = scroller.scrollHeight;
    const { scrollTop, clientHeight, scrollHeight } = scroller;
    lastTop = scrollTop;
    const wasAtEnd = isAtEnd;
    isAtEnd = isEnd && scrollHeight - scrollTop - clientHeight < NEAR;
    if (wasAtEnd !== isAtEnd) onAway(!isAtEnd);
    if (isLoading || isClosed) return;
    const top = list.offsetTop;
    const bottom = top + list.offsetHeight;
    // Far in the empty space: the scrollbar was dragged. Where it comes to rest is loaded.
    const isAbove = !isStart && scrollTop + clientHeight < top;
    const isBelow = !isEnd && scrollTop > bottom;
    clearTimeout(resting);
    if (isAbove || isBelow) {
      const seq = isAbove ? scrollTop / height : head - (scrollHeight - scrollTop) / height;
      resting = setTimeout(() => leap(Math.floor(seq) + 1), REST);
    } else if (!isStart && scrollTop < top + 2 * clientHeight) older();
    else if (!isEnd && scrollTop + clientHeight > bottom - 2 * clientHeight) newer();
  }

  /** The browser would glide there, through all that is not loaded. @param {KeyboardEvent} event */
  function press(event) {
    if (event.target !== scroller || event.ctrlKey || event.altKey) return;
    if (event.key === "Home") toStart();
    else if (event.key === "End") toEnd();
    else return;
    event.preventDefault();
  }

  async function toStart() {
    try {
      if (!isStart) await open(1);
      scroller.scrollTop = 0;
      scrolled();
    } catch (error) {
      onError(error);
    }
  }

  /** @param {number} seq */
  function leap(seq) {
    open(Math.min(head, Math.max(1, seq))).catch(onError);
  }

  /** @param {HTMLElement | null} element @param {"start" | "nearest"} [block] */
  function scrollTo(element, block = "start") {
    element?.scrollIntoView({ block });
    isAtEnd = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < NEAR && isEnd;
    onAway(!isAtEnd);
  }

  /** The message with this number, or the next one that there is. @param {number} seq @returns {HTMLElement | null} */
  function nearest(seq) {
    const exact = articles.get(seq);
    if (exact) {
      const callId = exact.message.tool_call_id;
      return (callId && blocks.get(callId)?.element) || exact.element;
    }
    return (
      [...list.children].find((each) => Number(each.dataset.seq) >= seq) ?? list.lastElementChild
    );
  }

  function toEnd() {
    if (!isEnd) return void open(null).catch(onError);
    isAtEnd = true;
    scroller.scrollTop = scroller.scrollHeight;
    onAway(false);
  }

  /** Go to a message, and show which one it is. @param {number} seq @returns {Promise<HTMLElement | null>} */
  async function jump(seq) {
    if (!articles.has(seq) && (seq < first || seq > last)) await open(seq);
    const element = nearest(seq);
    if (!element) return null;
    if (element instanceof HTMLDetailsElement) element.open = true;
    scrollTo(element);
    list.querySelector(".aimed")?.classList.remove("aimed");
    element.classList.add("aimed");
    const article = /** @type {HTMLElement} */ (element.closest(".message"));
    article.focus({ preventScroll: true });
    return element;
  }

  /** To the next or the previous message, from the one that has the focus or is in sight. @param {1 | -1} way */
  function step(way) {
    const seen = [...list.children].filter((each) => each.offsetHeight > 8);
    const focused = document.activeElement?.closest(".message");
    const from = focused && list.contains(focused) ? focused : null;
    const next = from ? seen[seen.indexOf(from) + way] : isAtEnd ? seen.at(-1) : inSight();
    if (next) {
      next.focus({ preventScroll: true });
      scrollTo(next, way > 0 && next === seen.at(-1) ? "nearest" : "start");
    } else if (way > 0) toEnd();
  }

  // --- live -------------------------------------------------------------------------------------

  /** A message that was just committed. @param {any} message */
  function add(message) {
    if (message.seq <= head && (articles.has(message.seq) || message.seq <= last)) return;
    const isNext = isEnd;
    head = Math.max(head, message.seq);
    if (!isNext) {
      space();
      return;
    }
    last = message.seq;
    const { element } = makeOne(message, undefined);
    list.append(element);
    const article = articles.get(message.seq);
    if (article) draw(article);
    unrendered.add(message.seq);
    render();
    if (isAtEnd && list.children.length > MOST + PAGE) hold(() => (trim(true), space()));
  }

  /** Ask for the HTML of what came live; several at once, if there are several. */
  async function render() {
    if (isRendering || isClosed) return;
    isRendering = true;
    try {
      while (unrendered.size > 0) {
        const wanted = [...unrendered].slice(0, PAGE);
        const page = await read({
          after: Math.min(...wanted) - 1,
          before: Math.max(...wanted) + 1,
        });
        for (const seq of wanted) unrendered.delete(seq);
        page.messages.forEach((/** @type {any} */ message, /** @type {number} */ index) => {
          const article = articles.get(message.seq);
          const html = page.html[index];
          if (!article || !wanted.includes(message.seq)) return;
          if (message.role === "tool")
            blocks.get(message.tool_call_id)?.setResult(message, html.html);
          else fillArticle(article, html);
        });
      }
    } catch {
      // It stays plain text until the connection is back: `catchUp`.
    } finally {
      isRendering = false;
    }
  }

  return {
    element: scroller,
    live,
    begin,
    articles,
    blocks,
    unfinished,
    open,
    jump,
    step,
    toStart,
    toEnd,
    add,
    hold,
    catchUp: render,
    get head() {
      return head;
    },
    get isAtEnd() {
      return isAtEnd;
    },
    /** The marks between messages have changed. @param {typeof marks} now */
    setMarks(now) {
      marks = now;
      hold(() => articles.forEach(draw));
    },
    /** Read again what is shown: something was undone or brought back. */
    async reload() {
      const seq = isAtEnd || isEnd ? null : Number(inSight()?.dataset.seq);
      await open(seq || null);
    },
    close() {
      isClosed = true;
      generation += 1;
      clearTimeout(resting);
      observer.disconnect();
    },
  };
}

// A long list of which only what can be seen is in the document. All rows have the same height, so a
// row's place follows from its number. Knows nothing of what the rows show.

import { h } from "../dom.js";

const BEYOND = 8;

/**
 * @typedef {object} Rows
 * @property {() => number} count
 * @property {(index: number) => string} key the same for the same row, wherever it is
 * @property {(index: number, key: string) => HTMLElement} make
 * @property {(element: HTMLElement, index: number) => void} update an element that is shown already
 * @property {(first: number, last: number) => void} seen the rows that can be seen now, inclusive
 */

/** The rows that can be seen of a list, in an element that scrolls. */
export class VirtualList {
  /**
   * @param {HTMLElement} scroller its `--row` is the height of a row in pixels
   * @param {Rows} rows
   * @param {Record<string, any>} [properties] of the list
   */
  constructor(scroller, rows, properties = {}) {
    this.scroller = scroller;
    this.rows = rows;
    this.height = 40;
    /** @type {Map<string, HTMLElement>} */
    this.elements = new Map();
    this.place = h("ul", { class: "virtual", ...properties });
    scroller.append(this.place);
    this.isDue = false;
    this.sizes = new ResizeObserver(() => this.measure());
    this.sizes.observe(scroller);
    scroller.addEventListener("scroll", () => this.later(), { passive: true });
    this.measure();
  }

  /** Forget the elements and stop looking. */
  close() {
    this.sizes.disconnect();
    this.elements.clear();
  }

  /** Where we are: the row at the upper edge, and how much of it is above. */
  get top() {
    const index = Math.floor(this.scroller.scrollTop / this.height);
    return { index, offset: this.scroller.scrollTop - index * this.height };
  }

  /** Put a row at the upper edge. @param {number} index @param {number} [offset] */
  setTop(index, offset = 0) {
    this.stretch();
    this.scroller.scrollTop = index * this.height + offset;
    this.draw();
  }

  /** Scroll no more than is needed to see a row. @param {number} index */
  show(index) {
    const { scrollTop, clientHeight } = this.scroller;
    const [above, below] = [index * this.height, (index + 1) * this.height];
    if (above < scrollTop) this.scroller.scrollTop = above;
    else if (below > scrollTop + clientHeight) this.scroller.scrollTop = below - clientHeight;
    this.draw();
  }

  /** How many rows fit. */
  get page() {
    return Math.max(1, Math.floor(this.scroller.clientHeight / this.height));
  }

  /** The element of a row, if it is shown. @param {string} key */
  find(key) {
    return this.elements.get(key);
  }

  /** Draw before the next frame. */
  later() {
    if (this.isDue) return;
    this.isDue = true;
    requestAnimationFrame(() => this.draw());
  }

  /** Make the document show what it should. */
  draw() {
    this.isDue = false;
    this.stretch();
    const count = this.rows.count();
    const { scrollTop, clientHeight } = this.scroller;
    const first = Math.min(count, Math.max(0, Math.floor(scrollTop / this.height)));
    const last = Math.min(count - 1, Math.ceil((scrollTop + clientHeight) / this.height) - 1);
    const shown = new Map();
    /** @type {HTMLElement | null} */
    let before = null;
    for (
      let index = Math.max(0, first - BEYOND);
      index <= Math.min(count - 1, last + BEYOND);
      index++
    ) {
      const key = this.rows.key(index);
      let element = this.elements.get(key);
      if (element) this.rows.update(element, index);
      else element = this.rows.make(index, key);
      element.style.transform = `translateY(${index * this.height}px)`;
      element.setAttribute("aria-posinset", String(index + 1));
      element.setAttribute("aria-setsize", String(count));
      // The order in the document is the order on the screen, for the Tab key and screen readers;
      // an element that is in its place is not touched, so that it keeps the focus.
      /** @type {ChildNode | null} */
      const next = before ? before.nextSibling : this.place.firstChild;
      if (element !== next) this.place.insertBefore(element, next);
      before = element;
      shown.set(key, element);
    }
    for (const [key, element] of this.elements) if (!shown.has(key)) element.remove();
    this.elements = shown;
    this.rows.seen(first, last);
  }

  stretch() {
    const height = `${this.rows.count() * this.height}px`;
    if (this.place.style.height !== height) this.place.style.height = height;
  }

  /** Read the height of a row again, and keep the place. */
  measure() {
    const { index, offset } = this.top;
    const height = parseFloat(getComputedStyle(this.scroller).getPropertyValue("--row")) || 40;
    if (height !== this.height) {
      this.height = height;
      this.setTop(index, Math.min(offset, height - 1));
    } else this.later();
  }
}

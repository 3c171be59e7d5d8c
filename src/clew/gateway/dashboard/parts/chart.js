// A chart of bars over days, as SVG: read by pointing, and by the arrow keys as a slider, whose value
// is said in words. What is unknown is hatched, never drawn as nothing.

import { h, replace } from "../dom.js";

const HEIGHT = 220;
const TOP = 12;
const BOTTOM = 22;
const LEFT = 52;
const RIGHT = 20;

/**
 * @typedef {object} Bar
 * @property {string} name under the bar, where there is room
 * @property {(number | null)[]} parts from the bottom up; null: unknown
 * @property {string} words all of it, for hover and screen readers
 *
 * @typedef {object} Chart
 * @property {HTMLElement} element
 * @property {(index: number) => void} choose mark a bar
 */

/**
 * @param {string} label what the chart shows
 * @param {Bar[]} bars
 * @param {{series: string[], format: (value: number) => string, onChoose?: (index: number) => void}} options
 * @returns {Chart}
 */
export function barChart(label, bars, { series, format, onChoose }) {
  let chosen = Math.max(
    0,
    bars.findLastIndex((bar) => bar.parts.some((each) => each !== 0)),
  );
  const picture = svg("svg", { class: "chart", "aria-hidden": "true" });
  const line = h("p", { class: "chart-words" });
  const slider = h(
    "div",
    {
      class: "chart-place",
      role: "slider",
      tabindex: "0",
      "aria-label": `${label}; the arrow keys go from bar to bar`,
      "aria-valuemin": "0",
      "aria-valuemax": String(bars.length - 1),
      onkeydown: press,
      onpointermove: point,
      onpointerdown: point,
    },
    picture,
  );
  const unknown = bars.some((bar) => bar.parts.includes(null));
  const legend = h(
    "ul",
    { class: "legend" },
    series.map((name, index) => h("li", null, swatch(`series-${index}`), name)),
    unknown && h("li", null, swatch("unknown"), "cost unknown"),
  );
  const element = h("figure", { class: "figure" }, slider, line, legend);
  const top = Math.max(...bars.map((bar) => sum(bar.parts)), 0);
  const steps = niceSteps(top);
  const highest = steps.at(-1) || 1;
  let width = 0;

  new ResizeObserver(([entry]) => {
    const now = Math.floor(entry?.contentRect.width ?? 0);
    if (now === width || now === 0) return;
    width = now;
    draw();
  }).observe(slider);
  mark();

  function draw() {
    const step = (width - LEFT - RIGHT) / bars.length;
    const thick = Math.max(1, Math.min(step * 0.72, 42));
    const every = Math.ceil(58 / step);
    const space = HEIGHT - TOP - BOTTOM;
    const y = (/** @type {number} */ value) => TOP + space * (1 - value / highest);
    picture.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    picture.setAttribute("width", String(width));
    picture.setAttribute("height", String(HEIGHT));
    picture.replaceChildren(
      hatching(),
      ...steps.flatMap((value) => [
        svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }),
        svg("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, format(value)),
      ]),
      ...bars.flatMap((bar, index) => {
        const middle = LEFT + step * (index + 0.5);
        let from = 0;
        const parts = bar.parts.map((value, part) => {
          if (value === null)
            return svg("rect", {
              class: "unknown",
              fill: "url(#hatching)",
              x: middle - thick / 2,
              width: thick,
              y: y(from) - 34,
              height: 34,
            });
          const low = from;
          from += value;
          return svg("rect", {
            class: `series-${part}`,
            x: middle - thick / 2,
            width: thick,
            y: y(from),
            height: y(low) - y(from),
          });
        });
        const isNamed = (bars.length - 1 - index) % every === 0;
        return [
          svg("rect", {
            class: "band",
            x: middle - step / 2,
            width: step,
            y: TOP,
            height: space,
            "data-index": index,
          }),
          ...parts,
          ...(isNamed
            ? [svg("text", { x: middle, y: HEIGHT - 6, "text-anchor": "middle" }, bar.name)]
            : []),
        ];
      }),
    );
    mark();
  }

  function mark() {
    const bar = bars[chosen];
    for (const each of picture.querySelectorAll(".band"))
      each.classList.toggle("chosen", each.getAttribute("data-index") === String(chosen));
    slider.setAttribute("aria-valuenow", String(chosen));
    slider.setAttribute("aria-valuetext", bar?.words ?? "nothing");
    replace(line, bar?.words ?? "");
  }

  /** @param {number} index */
  function choose(index) {
    const next = Math.max(0, Math.min(bars.length - 1, index));
    if (next === chosen) return;
    chosen = next;
    mark();
  }

  /** @param {KeyboardEvent} event */
  function press(event) {
    const to = {
      ArrowLeft: chosen - 1,
      ArrowDown: chosen - 1,
      ArrowRight: chosen + 1,
      ArrowUp: chosen + 1,
      PageUp: chosen - 7,
      PageDown: chosen + 7,
      Home: 0,
      End: bars.length - 1,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    choose(to);
    onChoose?.(chosen);
  }

  /** @param {PointerEvent} event */
  function point(event) {
    const x = event.clientX - picture.getBoundingClientRect().left - LEFT;
    if (width <= LEFT + RIGHT || x < 0) return;
    choose(Math.floor((x / (width - LEFT - RIGHT)) * bars.length));
    onChoose?.(chosen);
  }

  return { element, choose };
}

/**
 * A short bar for a table: how large a value is beside the largest one.
 *
 * @param {number | null} value
 * @param {number} largest
 */
export function smallBar(value, largest) {
  const share = value === null || largest <= 0 ? 0 : value / largest;
  return svg(
    "svg",
    {
      class: "small-bar",
      viewBox: "0 0 100 8",
      preserveAspectRatio: "none",
      "aria-hidden": "true",
    },
    svg("rect", {
      class: "series-0",
      x: 0,
      y: 0,
      width: Math.max(share * 100, share ? 0.5 : 0),
      height: 8,
    }),
  );
}

/**
 * Round values up to a maximum, for lines across the chart.
 *
 * @param {number} top
 * @returns {number[]}
 */
function niceSteps(top) {
  if (top <= 0) return [0, 1];
  const rough = top / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step =
    [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= rough) ?? rough;
  return Array.from({ length: Math.ceil(top / step) + 1 }, (_, index) => index * step);
}

/** @param {(number | null)[]} parts */
function sum(parts) {
  return parts.reduce((/** @type {number} */ all, each) => all + (each ?? 0), 0);
}

/** @param {string} name */
function swatch(name) {
  const fill = name === "unknown" ? { fill: "url(#hatching)" } : {};
  return svg(
    "svg",
    { class: "swatch", viewBox: "0 0 12 12", "aria-hidden": "true" },
    svg("rect", { class: name, width: 12, height: 12, rx: 2, ...fill }),
  );
}

function hatching() {
  return svg(
    "defs",
    null,
    svg(
      "pattern",
      {
        id: "hatching",
        width: 6,
        height: 6,
        patternUnits: "userSpaceOnUse",
        patternTransform: "rotate(45)",
      },
      svg("rect", { class: "hatch", width: 2.5, height: 6 }),
    ),
  );
}

/**
 * @param {string} tag
 * @param {Record<string, any> | null} attributes
 * @param {...(Node | string)} children
 * @returns {SVGElement}
 */
function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes ?? {}))
    element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

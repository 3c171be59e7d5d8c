// The page "Usage": tokens and money, by day as a chart, and by model, platform, session or person.

import { call } from "../api.js";
import { h, replace } from "../dom.js";
import { cost, counted, number, shortNumber } from "../format.js";
import { addKeys } from "../keyboard.js";
import { barChart, smallBar } from "../parts/chart.js";
import { segments } from "../parts/form.js";
import { empty, failure, pageHeader } from "../parts/page.js";
import { facts } from "../parts/panel.js";
import { setQuery } from "../router.js";

const DAY = 86_400_000;
const NANO = 1e9;
const MOST_SESSIONS = 50;

/** @type {[value: string, name: string][]} */
const RANGES = [
  ["7", "7 days"],
  ["30", "30 days"],
  ["90", "90 days"],
  ["365", "A year"],
];
/** @type {[value: string, name: string][]} */
const MEASURES = [
  ["cost", "Cost"],
  ["tokens", "Tokens"],
];
/** @type {[value: string, name: string][]} */
const GROUPS = [
  ["model", "Model"],
  ["platform", "Platform"],
  ["session", "Session"],
  ["person", "Person"],
];
const KINDS = ["Input", "Output", "Read from cache", "Written to cache"];

/** @type {View} */
export function showUsage(root, { query }) {
  const pick = (
    /** @type {string} */ name,
    /** @type {[string, string][]} */ known,
    /** @type {string} */ usual,
  ) => (known.some(([value]) => value === query.get(name)) ? String(query.get(name)) : usual);
  const chosen = {
    days: pick("days", RANGES, "30"),
    show: pick("show", MEASURES, "cost"),
    by: pick("by", GROUPS, "model"),
  };
  const timezone = Intl.DateTimeFormat().resolvedOptions().timeZone || undefined;
  const totals = h("section", { class: "panel", "aria-label": "In all" });
  const days = h("section", { class: "panel", "aria-label": "By day" });
  const groups = h("section", { class: "panel", "aria-label": "By group" });
  let round = 0;

  root.append(
    pageHeader(
      "Usage",
      segments("Time", RANGES, chosen.days, (value) => choose({ days: value })),
      segments("What is shown", MEASURES, chosen.show, (value) => choose({ show: value })),
    ),
    h("div", { class: "page-body wide" }, totals, days, groups),
  );
  read();
  return addKeys("Usage", [
    ["c", "Show cost", () => press("Cost")],
    ["t", "Show tokens", () => press("Tokens")],
  ]);

  /** @param {string} name */
  function press(name) {
    for (const each of root.querySelectorAll(".page-header .segments button"))
      if (each.textContent === name) /** @type {HTMLElement} */ (each).click();
  }

  /** @param {Partial<typeof chosen>} more */
  function choose(more) {
    Object.assign(chosen, more);
    setQuery(chosen);
    read();
  }

  async function read() {
    round += 1;
    const now = round;
    const since = startOf(Number(chosen.days));
    const ask = (/** @type {Record<string, any>} */ more) =>
      call("usage", { since, timezone, ...more });
    try {
      const [byDay, byModel, byGroup] = await Promise.all([
        ask({ by: "day" }),
        ask({ by: "model" }),
        ask({ by: chosen.by, limit: MOST_SESSIONS }).catch((error) => error),
      ]);
      if (now !== round) return;
      drawTotals(byDay.total, byModel.rows);
      drawDays(fillDays(byDay.rows, since));
      if (byGroup instanceof Error) replace(groups, failure(byGroup, read));
      else drawGroups(byGroup);
    } catch (error) {
      if (now !== round) return;
      replace(totals, failure(error, read));
      replace(days);
      replace(groups);
    }
  }

  /** @param {any} total @param {any[]} models */
  function drawTotals({ usage, turns, estimated }, models) {
    const unpriced = models.filter((each) => each.usage.cost === null);
    const known = models.reduce((sum, each) => sum + (each.usage.cost ?? 0), 0);
    const about = estimated ? "~" : "";
    const money =
      usage.cost !== null
        ? `${about}${cost((usage.cost ?? 0) / NANO)}`
        : `at least ${cost(known / NANO)}`;
    replace(
      totals,
      facts([
        [
          "Cost",
          [
            h("span", { class: "big" }, money),
            unpriced.length > 0 &&
              h(
                "div",
                { class: "warn small" },
                `Unknown for ${unpriced
                  .map((each) => each.name)
                  .slice(0, 3)
                  .join(
                    ", ",
                  )}${unpriced.length > 3 ? ` and ${unpriced.length - 3} more` : ""}: no price is configured.`,
              ),
          ],
        ],
        ["Tokens", h("span", { class: "big" }, about + shortNumber(tokensOf(usage)))],
        ["Turns", h("span", { class: "big" }, number(turns))],
        ["Calls to models", h("span", { class: "big" }, number(usage.api_calls ?? 0))],
      ]),
    );
  }

  /** @param {any[]} list */
  function drawDays(list) {
    const isCost = chosen.show === "cost";
    const bars = list.map(({ name, usage, turns }) => ({
      name: dayName(name),
      parts: isCost ? [usage.cost === null ? null : (usage.cost ?? 0) / NANO] : partsOf(usage),
      words: `${dayName(name)}: ${money(usage)}, ${number(tokensOf(usage))} tokens, ${counted(turns, "turn")}`,
    }));
    const body = h("tbody", null);
    const chart = barChart(isCost ? "Cost by day" : "Tokens by day", bars, {
      series: isCost ? ["Cost in US dollars"] : KINDS,
      format: isCost ? (value) => `$${trim(value)}` : shortNumber,
      onChoose: mark,
    });
    // Newest first; days without use are left out of the table.
    const used = list
      .map((each, index) => ({ ...each, index }))
      .filter((each) => each.turns || tokensOf(each.usage));
    body.append(
      ...used
        .reverse()
        .map(({ name, usage, turns, index }) =>
          h(
            "tr",
            { "data-index": index, onpointerenter: () => chart.choose(index) },
            h("th", { scope: "row" }, dayName(name)),
            h("td", { class: "number" }, money(usage)),
            h("td", { class: "number" }, shortNumber(tokensOf(usage))),
            h("td", { class: "number extra" }, number(turns)),
          ),
        ),
    );
    /** @param {number} index */
    function mark(index) {
      for (const each of body.children) {
        const isIt = each.getAttribute("data-index") === String(index);
        each.classList.toggle("chosen", isIt);
        const box = table.getBoundingClientRect();
        const at = each.getBoundingClientRect();
        if (isIt && (at.top < box.top || at.bottom > box.bottom))
          table.scrollTop += at.top - box.top - 60;
      }
    }
    const table = h(
      "div",
      { class: "table-place", tabindex: "0", role: "region", "aria-label": "The days as a table" },
      h(
        "table",
        null,
        h(
          "thead",
          null,
          h(
            "tr",
            null,
            h("th", { scope: "col" }, "Day"),
            h("th", { scope: "col", class: "number" }, "Cost"),
            h("th", { scope: "col", class: "number" }, "Tokens"),
            h("th", { scope: "col", class: "number extra" }, "Turns"),
          ),
        ),
        body,
      ),
    );
    replace(
      days,
      h("h2", null, "By day"),
      used.length === 0
        ? empty(
            "Nothing was used in this time.",
            h("a", { class: "button", href: "/s/new" }, "New chat"),
          )
        : h("div", { class: "chart-and-table" }, chart.element, table),
    );
  }

  /** @param {any} report */
  function drawGroups({ by, rows, count, sessions }) {
    const isCost = chosen.show === "cost";
    const value = (/** @type {any} */ usage) =>
      isCost ? (usage.cost === null ? null : (usage.cost ?? 0)) : tokensOf(usage);
    const largest = Math.max(0, ...rows.map((/** @type {any} */ each) => value(each.usage) ?? 0));
    const list = isCost
      ? rows
      : [...rows].sort((one, other) => tokensOf(other.usage) - tokensOf(one.usage));
    replace(
      groups,
      h(
        "header",
        null,
        h("h2", null, `By ${by}`),
        segments("Group by", GROUPS, by, (next) => choose({ by: next })),
      ),
      rows.length === 0
        ? h("p", { class: "faint" }, "Nothing was used in this time.")
        : h(
            "table",
            { class: "groups" },
            h(
              "thead",
              null,
              h(
                "tr",
                null,
                h("th", { scope: "col" }, GROUPS.find(([each]) => each === by)?.[1]),
                h("th", { scope: "col", class: "number" }, "Cost"),
                h("th", { scope: "col", class: "number" }, "Tokens"),
                h("th", { scope: "col", class: "number extra" }, "Input"),
                h("th", { scope: "col", class: "number extra" }, "Output"),
                h("th", { scope: "col", class: "number extra" }, "Turns"),
              ),
            ),
            h(
              "tbody",
              null,
              list.map((/** @type {any} */ { name, usage, turns, estimated }) =>
                h(
                  "tr",
                  null,
                  h(
                    "th",
                    { scope: "row" },
                    nameIn(by, name, sessions),
                    smallBar(value(usage), largest),
                  ),
                  h(
                    "td",
                    { class: "number" },
                    estimated && usage.cost !== null ? "~" : "",
                    money(usage),
                  ),
                  h("td", { class: "number" }, shortNumber(tokensOf(usage))),
                  h("td", { class: "number extra" }, shortNumber(usage.input_tokens ?? 0)),
                  h("td", { class: "number extra" }, shortNumber(usage.output_tokens ?? 0)),
                  h("td", { class: "number extra" }, number(turns)),
                ),
              ),
            ),
          ),
      count > rows.length &&
        h("p", { class: "faint small" }, `The ${rows.length} most expensive of ${number(count)}.`),
    );
  }
}

/**
 * @param {string} by
 * @param {string} name
 * @param {Record<string, any>} sessions
 */
function nameIn(by, name, sessions = {}) {
  if (by !== "session") return name || "unknown";
  const session = sessions[name];
  if (!session) return h("span", { class: "faint" }, "a deleted session");
  return h("a", { href: `/s/${name}` }, session.name || `session ${session.short_id}`);
}

/** The first moment of the day so many days ago, in this browser's time zone. @param {number} days */
function startOf(days) {
  const date = new Date();
  date.setHours(0, 0, 0, 0);
  date.setDate(date.getDate() - days + 1);
  return date.getTime();
}

/**
 * All days in order, with those on which nothing happened.
 *
 * @param {any[]} rows
 * @param {number} since
 */
function fillDays(rows, since) {
  const known = new Map(rows.map((each) => [each.name, each]));
  /** @type {any[]} */
  const days = [];
  for (let at = since + DAY / 2; at <= Date.now() + DAY / 2 && days.length < 400; at += DAY) {
    const date = new Date(at);
    const name = `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
    days.push(known.get(name) ?? { name, usage: {}, turns: 0 });
  }
  return days.filter((each, index) => index === 0 || each.name !== days[index - 1].name);
}

/** @param {number} value */
function pad(value) {
  return String(value).padStart(2, "0");
}

/** @param {string} name */
function dayName(name) {
  const [year = 0, month = 1, day = 1] = name.split("-").map(Number);
  return new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" }).format(
    new Date(year, month - 1, day),
  );
}

/** @param {any} usage */
function partsOf(usage) {
  return [
    usage.input_tokens ?? 0,
    usage.output_tokens ?? 0,
    usage.cache_read_tokens ?? 0,
    usage.cache_creation_tokens ?? 0,
  ];
}

/** @param {any} usage */
function tokensOf(usage) {
  return partsOf(usage).reduce((sum, each) => sum + each, 0);
}

/** @param {any} usage */
function money(usage) {
  return usage.cost === null ? "unknown" : cost((usage.cost ?? 0) / NANO);
}

/** @param {number} value */
function trim(value) {
  return value >= 100 ? String(Math.round(value)) : String(Number(value.toPrecision(3)));
}

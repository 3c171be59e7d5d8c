// What there is to know about a session beside its messages, in a column of its own: where it is
// open, what it has cost, its todo list, the rules about tools, and why it is the way it is.

import { call } from "../api.js";
import { h, replace } from "../dom.js";
import { cost, dayOf, fullTime, number, shortNumber, timeOfDay } from "../format.js";
import { may } from "../state.js";

/** Not places where somebody waits for an answer. */
const LOCAL = new Set(["api", "cli", "web", "sdk", "cron", "hook", "spawn"]);

/** @param {string} id */
export function makeAbout(id) {
  const facts = h("dl", { class: "about-facts" });
  const todos = h("div");
  const rules = h("div");
  const reasons = h("div");
  const why = h(
    "details",
    { ontoggle: () => why.open && shown && explain(reasons, shown) },
    h("summary", null, "Why this session?"),
    reasons,
  );
  /** @type {any} */
  let shown = null;
  const element = h(
    "aside",
    { class: "about", "aria-label": "About this session", tabindex: "0" },
    facts,
    todos,
    rules,
    why,
  );

  /** @param {any} detail @param {any} lineage @param {any} model */
  function show({ session, state }, lineage, model) {
    shown = session;
    const { usage } = session;
    const used = session.context_tokens;
    const room = model?.context_window;
    replace(
      facts,
      fact("Open on", openOn(session, state).join(", ") || "nowhere else"),
      fact(
        "Model",
        `${session.model ?? model?.name ?? "default"}${session.thinking ? `, thinking ${session.thinking}` : ""}`,
      ),
      fact(
        "Context",
        used
          ? [
              `${shortNumber(used)}${room ? ` of ${shortNumber(room)}` : ""} tokens`,
              room &&
                h("meter", {
                  min: "0",
                  max: room,
                  value: used,
                  high: room * 0.8,
                  "aria-label": "Context used",
                }),
            ]
          : "not known yet",
      ),
      fact(
        "Used",
        `${shortNumber(usage.input_tokens ?? 0)} in, ${shortNumber(usage.output_tokens ?? 0)} out · ${cost(usage.cost === null ? null : (usage.cost ?? 0) / 1e9)}`,
      ),
      fact("Messages", number(session.message_count)),
      fact("Began", `${dayOf(session.created_at)}, ${timeOfDay(session.created_at)}`),
      session.cwd && fact("Directory", h("code", null, session.cwd)),
      session.personality && fact("Personality", session.personality),
      session.mode && session.mode !== "default" && fact("Mode", session.mode.replace("_", " ")),
      lineage?.parent &&
        fact(
          "Fork of",
          h("a", { href: `/s/${lineage.parent.id}#m${lineage.parent.at}` }, lineage.parent.name),
        ),
      lineage?.forks?.length > 0 &&
        fact(
          "Forks",
          lineage.forks.map((/** @type {any} */ each) =>
            h("div", null, h("a", { href: `/s/${each.id}#m${each.at}` }, each.name)),
          ),
        ),
      lineage?.previous &&
        fact("Before it", h("a", { href: `/s/${lineage.previous.id}` }, lineage.previous.name)),
    );
    if (!element.hidden) load();
  }

  async function load() {
    const [listed, held] = await Promise.all([
      call("sessions.todos", { id }).catch(() => ({ todos: [] })),
      may("admin") ? call("sessions.rules", { id }).catch(() => ({ rules: [] })) : { rules: [] },
    ]);
    const signs = { done: "✓", in_progress: "▸", cancelled: "–", pending: "○" };
    replace(
      todos,
      listed.todos.length > 0 && [
        h("h3", null, "Todo"),
        h(
          "ul",
          { class: "todos" },
          listed.todos.map((/** @type {any} */ each) =>
            h(
              "li",
              { "data-status": each.status ?? "pending" },
              h(
                "span",
                { "aria-label": (each.status ?? "pending").replace("_", " ") },
                /** @type {any} */ (signs)[each.status ?? "pending"],
              ),
              h("span", null, each.text),
            ),
          ),
        ),
      ],
    );
    replace(
      rules,
      held.rules.length > 0 && [
        h("h3", null, "Rules about tools"),
        h(
          "ul",
          { class: "rules" },
          held.rules.map((/** @type {any} */ each) =>
            h(
              "li",
              null,
              h(
                "span",
                { class: each.effect === "deny" ? "bad" : "good" },
                each.effect === "deny" ? "never " : "allowed ",
              ),
              h("code", null, each.rule),
              h("div", { class: "faint small" }, `from ${each.source}`),
            ),
          ),
        ),
      ],
    );
  }

  return { element, show, load };
}

/**
 * Where a session is open: terminals, and the channel that its answers go to.
 *
 * @param {any} session
 * @param {any} state
 * @returns {string[]}
 */
export function openOn(session, state) {
  const held = state?.attachment;
  const terminal = held && `terminal ${String(held.terminal ?? held.pid).replace("/dev/", "")}`;
  const channel = session.channel || session.last_route?.channel;
  return [terminal, LOCAL.has(channel) ? null : channel].filter(Boolean);
}

/** @param {string | null} time */
function until(time) {
  return time ? `, until ${fullTime(Date.parse(time))}` : "";
}

/** @param {string} name @param {Child} value */
function fact(name, value) {
  return h("div", null, h("dt", null, name), h("dd", null, value));
}

/**
 * The decisions about this session, by the functions that decide.
 *
 * @param {HTMLElement} place
 * @param {any} session
 */
async function explain(place, session) {
  const told = await call("explain.session", { id: session.id }).catch((error) => error);
  if (told instanceof Error) return replace(place, h("p", { class: "faint" }, told.message));
  const { key, leading, reset, send } = told;
  const origin = Object.entries(session.origin ?? {});
  const others = leading.filter((/** @type {string} */ each) => each !== key);
  replace(
    place,
    h(
      "dl",
      { class: "about-facts" },
      fact("Key", [
        h("code", null, key),
        h(
          "div",
          { class: "faint" },
          leading.includes(key)
            ? "New messages under this key come here."
            : "New messages under this key go elsewhere.",
        ),
      ]),
      others.map((/** @type {string} */ each) => fact("Also", h("code", null, each))),
      origin.length > 0 &&
        fact("Came from", origin.map(([name, value]) => `${name}: ${value}`).join(", ")),
      told.reset_reason && fact("Began by", told.reset_reason),
      reset &&
        fact(
          "Reset",
          reset.fresh
            ? `It goes on with the next message${until(reset.boundary ?? reset.idle_until)}.`
            : `The next message begins a new session (${reset.reason}).`,
        ),
      fact(
        "Replies",
        `${send.decision === "allow" ? "are delivered" : "are not delivered"} (${send.rule})`,
      ),
    ),
  );
}

// A tool that waits for a decision: the whole command or difference, and the four answers. Only a
// press of a button answers; letters never do.

import { call } from "../api.js";
import { h, icon, replace } from "../dom.js";
import { duration } from "../format.js";
import { may } from "../state.js";
import { diffView, isDiff } from "./diff.js";
import { notifyProblem } from "./notice.js";

/**
 * @param {any} approval
 * @returns {HTMLElement}
 */
export function approvalCard(approval) {
  const { request, tool_name: tool } = approval;
  const detail = typeof request.detail === "string" ? request.detail : "";
  const whole = detail || JSON.stringify(request, null, 2);
  const actions = h("div", { class: "answers" });
  const left = h("span", { class: "faint small" });
  const card = h(
    "section",
    {
      class: "approval",
      role: "group",
      "aria-label": `Approval of ${tool}`,
      "data-approval": approval.id,
    },
    h(
      "header",
      null,
      icon("warning"),
      h("strong", null, "May it do this?"),
      h("code", null, tool),
      left,
    ),
    h("p", null, String(request.summary ?? tool)),
    isDiff(whole) ? diffView(whole) : h("pre", { class: "command", tabindex: "0" }, whole),
    request.cwd && h("p", { class: "faint small" }, "in ", h("code", null, String(request.cwd))),
    actions,
  );
  const tick = () => {
    const rest = approval.expires_at - Date.now();
    replace(left, rest > 0 ? `${duration(rest)} left; then it counts as a no` : "expired");
    if (!card.isConnected && started) clearInterval(timer);
    started = true;
  };
  let started = false;
  const timer = setInterval(tick, 1_000);
  tick();
  offer();

  /** @param {string} decision @param {string} [scope] @param {string} [reason] */
  async function decide(decision, scope, reason) {
    for (const each of actions.querySelectorAll("button, input")) each.disabled = true;
    try {
      await call("approvals.decide", { id: approval.id, decision, scope, reason });
      card.remove();
    } catch (error) {
      notifyProblem(error);
      offer();
    }
  }

  /** @param {string} label @param {() => void} run @param {string} [kind] */
  function button(label, run, kind) {
    return h("button", { type: "button", class: kind, onclick: run }, label);
  }

  function offer() {
    if (!may("approve")) {
      replace(actions, h("p", { class: "faint" }, "Only the owner can answer this."));
      return;
    }
    replace(
      actions,
      button("Yes, once", () => decide("yes", "once"), "primary"),
      request.rule && button("Yes, in this session", () => decide("yes", "session")),
      request.rule && may("admin") && button("Always…", askAlways),
      button("No…", askReason, "danger"),
    );
  }

  function askAlways() {
    replace(
      actions,
      h("p", null, "From now on this rule allows it in every session, without a question:"),
      h("pre", null, String(request.rule)),
      button("Allow always", () => decide("yes", "always"), "primary"),
      button("Back", offer),
    );
    actions.querySelector("button")?.focus();
  }

  function askReason() {
    const input = h("input", {
      type: "text",
      maxlength: "2000",
      placeholder: "Why not? The model is told (optional)",
      "aria-label": "Reason of the no",
    });
    const form = h(
      "form",
      {
        onsubmit: (/** @type {Event} */ event) => {
          event.preventDefault();
          decide("no", "once", input.value.trim() || undefined);
        },
      },
      input,
      h("button", { type: "submit", class: "danger" }, "Refuse"),
      button("Back", offer),
    );
    replace(actions, form);
    input.focus();
  }

  return card;
}

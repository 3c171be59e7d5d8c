// Who may come in: tokens of programs, browsers that are signed in, people on channels. Panels of the
// page "Settings".

import { call } from "../api.js";
import { h, icon } from "../dom.js";
import { dayOf, shortTime } from "../format.js";
import { confirm, openDialog } from "./dialog.js";
import { actionButton, copyable, dialogForm, field } from "./form.js";
import { notify } from "./notice.js";
import { panel, row, rows } from "./panel.js";

const DAY = 86_400_000;

/** What each scope allows. @type {[scope: string, words: string][]} */
const SCOPES = [
  ["read", "Look at what its person may see"],
  ["chat", "Talk, with a guest's tools: no files, no shell, no memory written"],
  ["write", "Talk with all tools; change and delete sessions and memory"],
  ["approve", "Answer approvals, but never with always"],
  ["store", "Write records of its own, for programs that keep theirs in clew"],
  ["admin", "Everything: jobs, tokens, guests, imports, answers with always"],
];
/** @type {[days: string, words: string][]} */
const LASTS = [
  ["30", "30 days"],
  ["90", "90 days"],
  ["365", "A year"],
  ["", "Until it is revoked"],
];

/** @type {Record<string, string>} */
const STATES = { waiting: "asks", paired: "a guest", refused: "refused" };

/** @param {string[]} scopes */
function inWords(scopes) {
  const words = new Map(SCOPES);
  return scopes.map((each) => words.get(each) ?? each).join("; ");
}

export function tokensPanel() {
  const made = panel("Tokens", readTokens, drawTokens, {
    lead: "A program or another device comes in with a token.",
    actions: h(
      "button",
      { type: "button", onclick: () => makeToken(made.refresh) },
      icon("plus"),
      "Make a token",
    ),
  });
  return made;
}

async function readTokens() {
  const { tokens } = await call("tokens.list");
  return tokens.filter(
    (/** @type {any} */ each) => (each.kind ?? "bearer") === "bearer" && !isOver(each),
  );
}

/** @param {any} token */
function isOver(token) {
  return token.revoked_at || (token.expires_at && token.expires_at <= Date.now());
}

/** @param {any[]} tokens @param {() => Promise<void>} refresh */
function drawTokens(tokens, refresh) {
  return rows(
    tokens.map((each) =>
      row(
        [
          h("strong", null, each.name),
          each.person !== "owner" && h("span", { class: "pill" }, each.person),
        ],
        `${inWords(each.scopes)}. Made ${shortTime(each.created_at)}, ${each.expires_at ? `until ${dayOf(each.expires_at)}` : "no end"}.`,
        revokeButton(each, "Revoke", `What uses “${each.name}” is refused from now on.`, refresh),
      ),
    ),
    "There is no token.",
  );
}

/**
 * @param {any} token
 * @param {string} label
 * @param {string} what will happen
 * @param {() => Promise<void>} refresh
 */
function revokeButton(token, label, what, refresh) {
  return actionButton(
    [label, h("span", { class: "visually-hidden" }, ` ${token.name}`)],
    async () => {
      if (!(await confirm(`${label}?`, `${what} This can't be undone.`, label))) return;
      await call("tokens.revoke", { id: token.id });
      notify("Done.");
      await refresh();
    },
    { "data-key": `revoke-${token.id}` },
  );
}

/** @param {() => Promise<void>} refresh */
function makeToken(refresh) {
  const name = h("input", { type: "text", required: true, maxlength: "100", autocomplete: "off" });
  const person = h("input", { type: "text", required: true, maxlength: "200", value: "owner" });
  const lasts = h(
    "select",
    null,
    LASTS.map(([days, words]) => h("option", { value: days, selected: days === "90" }, words)),
  );
  const boxes = SCOPES.map(([scope, words]) => {
    const box = h("input", { type: "checkbox", value: scope, checked: scope === "read" });
    return { box, label: h("label", { class: "check" }, box, h("span", null, words)) };
  });
  const form = dialogForm(
    "make-token",
    send,
    field("Name", name, "What will use it"),
    h(
      "fieldset",
      { class: "bare" },
      h("legend", null, "It may"),
      boxes.map((each) => each.label),
    ),
    h(
      "div",
      { class: "pair" },
      field("Valid for", lasts),
      field("Person", person, "owner, or someone like telegram:456"),
    ),
  );
  const dialog = openDialog("Make a token", form, {
    actions: [
      h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
      h("button", { class: "primary", form: "make-token" }, "Make it"),
    ],
  });
  name.focus();

  async function send() {
    const { secret } = await call("tokens.create", {
      name: name.value,
      person: person.value,
      scopes: boxes.filter(({ box }) => box.checked).map(({ box }) => box.value),
      expires_at: lasts.value ? Date.now() + Number(lasts.value) * DAY : undefined,
    });
    dialog.close();
    openDialog("The token", [
      h("p", null, "It is shown this once. Copy it now to where it is needed."),
      copyable(secret),
    ]);
    await refresh();
  }
}

export function browsersPanel() {
  return panel(
    "Browsers",
    async () => {
      const { tokens, current } = await call("tokens.list");
      return tokens
        .filter((/** @type {any} */ each) => each.kind === "cookie" && !isOver(each))
        .map((/** @type {any} */ each) => ({ ...each, isThis: each.id === current }))
        .sort((/** @type {any} */ one, /** @type {any} */ other) => other.isThis - one.isThis);
    },
    (tokens, refresh) =>
      rows(
        tokens.map((/** @type {any} */ each) =>
          row(
            [each.name, each.isThis && h("span", { class: "pill running" }, "this one")],
            `Signed in ${shortTime(each.created_at)}${each.expires_at ? `, until ${dayOf(each.expires_at)}` : ""}.`,
            !each.isThis &&
              revokeButton(each, "Sign out", "That browser has to sign in anew.", refresh),
          ),
        ),
        "No browser is signed in by a link.",
      ),
    {
      lead: [
        "On the machine of the gateway, ",
        h("code", null, "clew gateway link"),
        " prints a link for another one.",
      ],
    },
  );
}

export function peoplePanel() {
  return panel("People", async () => (await call("pairings.list")).pairings, drawPeople, {
    lead: "Who asked on a channel to talk here. A guest has no files, no shell, no memory.",
  });
}

/** @param {any[]} pairings @param {() => Promise<void>} refresh */
function drawPeople(pairings, refresh) {
  /** @param {any} each @param {"approve" | "refuse"} decision @param {string} label */
  const decide = (each, decision, label) =>
    actionButton(
      [label, h("span", { class: "visually-hidden" }, ` ${each.name ?? each.person}`)],
      async () => {
        await call("pairings.decide", { who: each.person, decision });
        await refresh();
        notify(
          decision === "approve" ? `${each.name ?? each.person} may talk here now.` : "Refused.",
        );
      },
      { "data-key": `${decision}-${each.person}`, class: decision === "approve" ? "primary" : "" },
    );
  return rows(
    pairings.map((each) => {
      const isLate = each.status === "waiting" && each.expires_at && each.expires_at <= Date.now();
      const words = isLate ? "asked too long ago" : (STATES[each.status] ?? each.status);
      return row(
        [
          h("strong", null, each.name ?? each.person),
          h(
            "span",
            { class: `pill ${each.status === "waiting" && !isLate ? "waiting" : ""}` },
            words,
          ),
        ],
        [
          `${each.person}`,
          each.asked_at && `, asked ${shortTime(each.asked_at)}`,
          each.decided_at && `, decided ${shortTime(each.decided_at)}`,
        ],
        each.status !== "paired" && !isLate && decide(each, "approve", "Approve"),
        each.status !== "refused" && decide(each, "refuse", "Refuse"),
      );
    }),
    "Nobody has asked.",
  );
}

// The turn that runs, as it comes: the text grows as plain text at the end of the transcript, and
// gives way to the rendered message in the same place when that is committed.

import { h, icon, replace } from "../dom.js";
import { approvalCard } from "./approval.js";

/**
 * @param {ReturnType<typeof import("./transcript.js").makeTranscript>} transcript
 * @param {string} agent its name, as messages show it
 */
export function makeLiveTurn(transcript, agent) {
  const sent = h("div", { class: "sent" });
  const stream = h("div", { class: "stream" });
  const line = h("p", { class: "turn-line", role: "status" });
  const replies = h("div", { class: "replies" });
  const questions = h("div", { class: "questions" });
  transcript.live.append(sent, stream, line, questions, replies);
  /** @type {Text | null} */
  let text = null;
  /** @type {Text | null} */
  let thought = null;
  let isBroken = false;
  /** The list of questions may be older than the answer. @type {Set<string>} */
  const decided = new Set();
  /** Questions that the list has had. It may also be older than a question. @type {Set<string>} */
  const listed = new Set();
  /** @type {ReturnType<typeof setInterval> | undefined} */
  let countdown;

  function begin() {
    if (stream.firstChild) return;
    stream.append(
      h(
        "article",
        { class: "message assistant streaming", "aria-label": `${agent} is writing` },
        h(
          "div",
          { class: "said" },
          h(
            "header",
            { class: "who" },
            h("span", { class: "author" }, agent),
            h("span", { class: "pulse" }),
          ),
          h("div", { class: "body" }),
        ),
      ),
    );
    const last = [...transcript.articles.values()].at(-1);
    if (last && last.message.role !== "user") stream.firstElementChild.classList.add("continues");
  }

  /** @returns {HTMLElement} */
  function body() {
    begin();
    return stream.querySelector(".body");
  }

  function clearStream() {
    stream.replaceChildren();
    text = null;
    thought = null;
  }

  /** @param {string} words */
  function say(words) {
    clearInterval(countdown);
    replace(line, words);
  }

  /** @param {string} more */
  function addText(more) {
    if (!text) {
      text = document.createTextNode(isBroken ? "… " : "");
      isBroken = false;
      body().append(h("div", { class: "plain" }, text));
    }
    text.appendData(more);
  }

  /** @param {string} more */
  function addThought(more) {
    if (!thought) {
      thought = document.createTextNode("");
      body().prepend(
        h(
          "details",
          { class: "thinking" },
          h("summary", null, icon("thinking"), "Thinking…"),
          h("div", { class: "plain" }, thought),
        ),
      );
    }
    thought.appendData(more);
  }

  /** @param {any} approval */
  function ask(approval) {
    if (decided.has(approval.id)) return;
    if (!find(approval.id)) questions.append(approvalCard(approval));
    transcript.blocks.get(approval.tool_call_id)?.setState("waiting");
  }

  /** @param {string} id */
  function find(id) {
    return [...questions.children].find((each) => each.dataset.approval === id);
  }

  return {
    /** A message that was sent and is not in the thread yet. @param {string} words @param {number} files */
    showSent(words, files) {
      sent.append(
        h(
          "article",
          { class: "message user sending", "data-text": words },
          h(
            "div",
            { class: "said" },
            h("header", { class: "who" }, h("span", { class: "author" }, "You")),
            h("div", { class: "body" }, h("div", { class: "plain" }, words || `${files} files`)),
          ),
        ),
      );
    },
    clearSent() {
      sent.replaceChildren();
    },
    /** The answer of a command. @param {string} command @param {Child} answer @param {boolean} isError */
    showReply(command, answer, isError) {
      replies.append(
        h(
          "section",
          { class: isError ? "reply error" : "reply", "aria-label": `Answer to ${command}` },
          h(
            "header",
            null,
            h("code", null, command),
            h(
              "button",
              {
                type: "button",
                class: "quiet",
                "aria-label": "Dismiss",
                onclick: (/** @type {any} */ event) =>
                  event.currentTarget.closest(".reply").remove(),
              },
              icon("close"),
            ),
          ),
          answer,
        ),
      );
      while (replies.children.length > 5) replies.firstElementChild.remove();
    },
    /** Show these questions, and no others that were listed before. @param {any[]} approvals */
    setQuestions(approvals) {
      const ids = approvals.map((each) => each.id);
      for (const card of [...questions.children]) {
        const id = card.dataset.approval;
        if (!ids.includes(id) && listed.has(id)) card.remove();
      }
      for (const each of ids) listed.add(each);
      approvals.forEach(ask);
    },
    /** The connection was lost: what came of the stream has a hole from here on. */
    breakOff() {
      isBroken = true;
      // The decision may be in the hole: from here on the list alone knows.
      for (const card of questions.children) listed.add(card.dataset.approval);
    },
    /** Nothing runs any more. */
    settle() {
      clearStream();
      isBroken = false;
      say("");
    },
    /** @param {boolean} isJoined the turn began before we looked */
    start(isJoined) {
      isBroken = isJoined;
      begin();
    },
    /** @param {any} event */
    take(event) {
      switch (event.type) {
        case "message":
          transcript.hold(() => {
            if (event.message.role === "user") {
              const own = [...sent.children].find(
                (each) => each.dataset.text === event.message.content,
              );
              (own ?? sent.firstElementChild)?.remove();
            } else if (event.message.role === "assistant") clearStream();
            transcript.add(event.message);
          });
          isBroken = false;
          break;
        case "text":
          say("");
          addText(event.text);
          break;
        case "thinking":
          say("");
          addThought(event.text);
          break;
        case "tool_started":
          say("");
          transcript.blocks.get(event.call_id)?.setState("running");
          break;
        case "tool_progress":
          transcript.blocks.get(event.call_id)?.addProgress(event.text);
          break;
        case "retrying": {
          const until = Date.now() + event.seconds * 1_000;
          const tell = () => {
            const left = Math.max(0, Math.ceil((until - Date.now()) / 1_000));
            replace(
              line,
              `${event.reason} Attempt ${event.attempt + 1} of ${event.attempts} in ${left} s.`,
            );
            if (left === 0) clearInterval(countdown);
          };
          clearInterval(countdown);
          countdown = setInterval(tell, 1_000);
          tell();
          clearStream();
          break;
        }
        case "stalled":
          say(`Nothing has come from the model for ${event.seconds} s. Still waiting.`);
          break;
        case "notice":
          say(event.text);
          break;
        case "approval_asked":
          ask(event.approval);
          break;
        case "approval_decided":
          decided.add(event.approval.id);
          find(event.approval.id)?.remove();
          break;
        default:
      }
    },
    close() {
      clearInterval(countdown);
    },
  };
}

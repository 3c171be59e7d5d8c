// Reading again: now and then, when something happens in a session, and when the page is looked at
// again. What has no live events of its own (memory, status) stays fresh this way.

import { listen } from "../live.js";

const SETTLE = 400;

/**
 * @param {() => unknown} read
 * @param {number} [every] milliseconds
 * @returns {() => void} stop
 */
export function readAgain(read, every = 4_000) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let soon;
  const look = () => {
    if (document.visibilityState === "visible") read();
  };
  const timer = setInterval(look, every);
  const stop = listen((frame) => {
    // A turn brings several hints at once: one look afterwards is enough.
    if (frame.type !== "hint" && frame.type !== "state") return;
    clearTimeout(soon);
    soon = setTimeout(look, SETTLE);
  });
  document.addEventListener("visibilitychange", look);
  return () => {
    clearInterval(timer);
    clearTimeout(soon);
    stop();
    document.removeEventListener("visibilitychange", look);
  };
}

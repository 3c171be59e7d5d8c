// The page "Sessions".

import { empty, pageHeader } from "../parts/page.js";

/** @param {HTMLElement} root */
export function showSessions(root) {
  root.append(pageHeader("Sessions"), empty("Nothing is here yet."));
}

// The page "Session".

import { empty, pageHeader } from "../parts/page.js";

/** @param {HTMLElement} root */
export function showSession(root) {
  root.append(pageHeader("Session"), empty("Nothing is here yet."));
}

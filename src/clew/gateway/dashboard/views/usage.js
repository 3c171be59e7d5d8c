// The page "Usage".

import { empty, pageHeader } from "../parts/page.js";

/** @param {HTMLElement} root */
export function showUsage(root) {
  root.append(pageHeader("Usage"), empty("Nothing is here yet."));
}

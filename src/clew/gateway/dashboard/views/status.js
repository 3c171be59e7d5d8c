// The page "Status".

import { empty, pageHeader } from "../parts/page.js";

/** @param {HTMLElement} root */
export function showStatus(root) {
  root.append(pageHeader("Status"), empty("Nothing is here yet."));
}

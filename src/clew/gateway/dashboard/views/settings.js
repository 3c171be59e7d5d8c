// The page "Settings".

import { empty, pageHeader } from "../parts/page.js";

/** @param {HTMLElement} root */
export function showSettings(root) {
  root.append(pageHeader("Settings"), empty("Nothing is here yet."));
}

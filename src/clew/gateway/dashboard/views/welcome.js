// The page "Welcome".

import { empty, pageHeader } from "../parts/page.js";

/** @param {HTMLElement} root */
export function showWelcome(root) {
  root.append(pageHeader("Welcome"), empty("Nothing is here yet."));
}

// The page "Memory".

import { empty, pageHeader } from "../parts/page.js";

/** @param {HTMLElement} root */
export function showMemory(root) {
  root.append(pageHeader("Memory"), empty("Nothing is here yet."));
}

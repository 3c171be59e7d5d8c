// What a browser sees that is not signed in.

import { h } from "../dom.js";

/**
 * @param {HTMLElement} root
 * @param {string} [reason] why a link did not work
 */
export function showSignIn(root, reason) {
  root.replaceChildren(
    h(
      "main",
      { class: "sign-in" },
      h("img", { src: "/icon.svg", alt: "", width: "56", height: "56" }),
      h("h1", null, "clew"),
      h("p", { role: "status" }, reason ?? "This browser is not signed in."),
      h(
        "p",
        null,
        "On the machine of the gateway, this prints a link that signs a browser in, once:",
      ),
      h("pre", null, h("code", null, "clew gateway link")),
      h("p", { class: "faint" }, "What you typed here and did not send is kept in this browser."),
    ),
  );
  document.title = "Sign in · clew";
}

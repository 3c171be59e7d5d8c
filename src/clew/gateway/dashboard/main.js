// The start: signs in with the code of a one-time link, then shows the shell with the page of the address.

import { applyTheme, getTheme, setTheme } from "./theme.js";
import { onSignedOut, post } from "./api.js";
import { h, icon, replace, startWorker } from "./dom.js";
import { addKeys, dropAllKeys } from "./keyboard.js";
import { connect, disconnect } from "./live.js";
import { addCommands, openPalette } from "./parts/palette.js";
import { openHelp } from "./parts/help.js";
import { noticePlace, undoNotified } from "./parts/notice.js";
import { go, here, startRouter, stopRouter, watchPlace } from "./router.js";
import { state, watchState } from "./state.js";
import { showMemory } from "./views/memory.js";
import { showSession } from "./views/session.js";
import { showSessions } from "./views/sessions.js";
import { showSettings } from "./views/settings.js";
import { showSignIn } from "./views/signin.js";
import { showStatus } from "./views/status.js";
import { showUsage } from "./views/usage.js";
import { showWelcome } from "./views/welcome.js";

/** @type {[path: string, name: string, icon: string, key: string][]} */
const PAGES = [
  ["/", "Sessions", "sessions", "g s"],
  ["/memory", "Memory", "memory", "g m"],
  ["/usage", "Usage", "usage", "g u"],
  ["/status", "Status", "status", "g t"],
  ["/settings", "Settings", "settings", "g e"],
];

applyTheme();
addEventListener("DOMContentLoaded", start);

async function start() {
  // The code is in the fragment, which a browser sends to nobody; it leaves the address bar and the
  // history before anything else happens.
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code) history.replaceState(null, "", location.pathname + location.search);
  onSignedOut(() => {
    disconnect();
    stopRouter();
    dropAllKeys();
    showSignIn(document.body);
  });
  try {
    if (code) await post("/v1/login", { code });
  } catch (error) {
    showSignIn(document.body, error instanceof Error ? error.message : undefined);
    return;
  }
  showShell();
  connect();
  startWorker();
}

function showShell() {
  const main = h("main", { id: "page", tabindex: "-1" });
  const waiting = h("a", { class: "waiting", href: "/?state=waiting", hidden: true });
  const line = h("p", { class: "connection", role: "status" });
  const links = PAGES.map(([path, name, picture]) =>
    h("a", { href: path }, icon(picture), h("span", null, name)),
  );
  document.body.replaceChildren(
    h(
      "a",
      {
        class: "skip",
        href: "#page",
        onclick: (/** @type {Event} */ event) => {
          event.preventDefault();
          main.focus();
        },
      },
      "Skip to the page",
    ),
    h(
      "nav",
      { class: "sidebar", "aria-label": "Pages" },
      h(
        "a",
        { class: "logo", href: "/" },
        h("img", { src: "/icon.svg", alt: "", width: "26", height: "26" }),
        h("span", null, "clew"),
      ),
      h("a", { class: "new", href: "/s/new" }, icon("plus"), h("span", null, "New chat")),
      h("div", { class: "links" }, links),
      h(
        "div",
        { class: "foot" },
        waiting,
        line,
        h(
          "button",
          { type: "button", class: "quiet", onclick: openPalette },
          icon("search"),
          h("span", null, "Go to…"),
          h("kbd", null, "Ctrl+K"),
        ),
        h(
          "button",
          { type: "button", class: "quiet", onclick: openHelp },
          icon("help"),
          h("span", null, "Keys"),
          h("kbd", null, "?"),
        ),
      ),
    ),
    main,
    noticePlace(),
  );
  // What waits in the session that one looks at is seen there.
  function drawWaiting() {
    const { id } = here();
    const others = [...state.approvals.values()].filter((each) => each.session_id !== id).length;
    replace(waiting, icon("warning"), h("span", null, `${others} waiting for you`));
    waiting.hidden = others === 0;
  }
  watchPlace(({ path }) => {
    drawWaiting();
    const shown = path === "/s/" ? "/" : path;
    links.forEach((link, index) => {
      if (PAGES[index]?.[0] === shown) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    });
  });
  watchState(({ connection }) => {
    const words = {
      connecting: "Connecting…",
      online: "",
      offline: "The gateway does not answer. Trying again…",
    };
    replace(line, words[connection]);
    line.dataset.state = connection;
    drawWaiting();
  });
  addKeys("Everywhere", [
    ["Ctrl+k", "Go to a session, or run a command", () => openPalette()],
    ["?", "Show these keys", () => openHelp()],
    ["n", "New chat", () => go("/s/new")],
    ["z", "Undo what was just done", () => undoNotified()],
    ...PAGES.map(
      ([path, name, , keys]) =>
        /** @type {[string, string, () => void]} */ ([keys, `Go to ${name}`, () => go(path)]),
    ),
  ]);
  addCommands(() => [
    ...PAGES.map(([path, name, picture, keys]) => ({
      label: `Go to ${name}`,
      icon: picture,
      hint: keys,
      run: () => go(path),
    })),
    { label: "New chat", icon: "plus", hint: "n", run: () => go("/s/new") },
    ...["light", "dark", "system"]
      .filter((each) => each !== getTheme())
      .map((theme) => ({
        label: theme === "system" ? "Colours: as the system" : `Colours: ${theme}`,
        icon: "settings",
        run: () => setTheme(/** @type {any} */ (theme)),
      })),
    { label: "Show the keys", icon: "help", hint: "?", run: openHelp },
    {
      label: "Sign this browser out",
      icon: "key",
      run: () => post("/v1/logout", {}).finally(() => location.assign("/")),
    },
  ]);
  startRouter(main, {
    "/": showSessions,
    "/s/": showSession,
    "/memory": showMemory,
    "/usage": showUsage,
    "/status": showStatus,
    "/settings": showSettings,
    "/welcome": showWelcome,
  });
}

// The page "Settings": what answers, who may come in, how this browser looks.

import { post } from "../api.js";
import { h, icon } from "../dom.js";
import { browsersPanel, peoplePanel, tokensPanel } from "../parts/access.js";
import { configPanel, modelsPanel, personalitiesPanel } from "../parts/agent_settings.js";
import { actionButton, segments } from "../parts/form.js";
import { pageHeader } from "../parts/page.js";
import { readAgain } from "../parts/watch.js";
import { getTheme, setTheme } from "../theme.js";

/** @type {View} */
export function showSettings(root) {
  const config = configPanel();
  const agent = [modelsPanel(config.refresh), personalitiesPanel(), config];
  const people = peoplePanel();
  const access = [people, tokensPanel(), browsersPanel()];
  root.append(
    pageHeader("Settings", h("a", { class: "button", href: "/welcome" }, "First steps")),
    h(
      "div",
      { class: "page-body wide" },
      h(
        "div",
        { class: "columns even" },
        h(
          "div",
          { class: "stack" },
          agent.map((each) => each.element),
        ),
        h(
          "div",
          { class: "stack" },
          thisBrowser(),
          access.map((each) => each.element),
        ),
      ),
    ),
  );
  for (const each of [...agent, ...access]) each.refresh();
  // Somebody may ask to be let in while the page is open; the rest changes only by hand.
  return readAgain(() => people.refresh(), 10_000);
}

function thisBrowser() {
  return h(
    "section",
    { class: "panel", "aria-labelledby": "this-browser" },
    h("header", null, h("h2", { id: "this-browser" }, "This browser")),
    h(
      "div",
      { class: "buttons spread" },
      segments(
        "Colours",
        [
          ["light", "Light"],
          ["dark", "Dark"],
          ["system", "As the system"],
        ],
        getTheme(),
        setTheme,
      ),
      actionButton([icon("key"), "Sign out"], async () => {
        await post("/v1/logout", {});
        location.assign("/");
      }),
    ),
  );
}

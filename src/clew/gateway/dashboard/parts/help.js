// The list of keys (`?`).

import { h } from "../dom.js";
import { listKeys } from "../keyboard.js";
import { openDialog } from "./dialog.js";

export function openHelp() {
  /** @type {Map<string, ReturnType<typeof listKeys>>} */
  const groups = new Map();
  for (const each of listKeys()) groups.set(each.group, [...(groups.get(each.group) ?? []), each]);
  openDialog(
    "Keys",
    h(
      "div",
      { class: "keys" },
      [...groups].map(([name, keys]) =>
        h(
          "section",
          null,
          h("h3", null, name),
          h(
            "dl",
            null,
            keys.map(({ keys: spelled, does }) =>
              h(
                "div",
                null,
                h(
                  "dt",
                  null,
                  spelled.split(" ").map((key) => h("kbd", null, key)),
                ),
                h("dd", null, does),
              ),
            ),
          ),
        ),
      ),
    ),
    { wide: true },
  );
}

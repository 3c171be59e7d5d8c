// The list of keys (`?`).

import { h } from "../dom.js";
import { listKeys } from "../keyboard.js";
import { openDialog } from "./dialog.js";

export function openHelp() {
  const groups = Map.groupBy ? Map.groupBy(listKeys(), (each) => each.group) : group();
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

function group() {
  /** @type {Map<string, ReturnType<typeof listKeys>>} */
  const groups = new Map();
  for (const each of listKeys()) groups.set(each.group, [...(groups.get(each.group) ?? []), each]);
  return groups;
}

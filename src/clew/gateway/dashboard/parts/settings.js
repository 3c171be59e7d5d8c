// The model and the level of thinking of a session, at hand below the message that is written.

import { call } from "../api.js";
import { h, replace } from "../dom.js";
import { menuButton } from "./menu.js";
import { notifyProblem } from "./notice.js";

/**
 * @param {(change: {model?: string, thinking?: string | null}) => Promise<void>} update
 */
export function makeSettings(update) {
  const modelName = h("span", { class: "cut" }, "model");
  const level = h("span", null, "off");
  /** @type {any} */
  let info = null;
  /** @type {any} */
  let shown = {};

  async function listModels() {
    try {
      const { models } = await call("models.list");
      return models.map((/** @type {any} */ each) => ({
        label: each.problem ? `${each.name} (can't be used now)` : each.name,
        checked: each.name === info?.name,
        run: () => change({ model: each.name }),
      }));
    } catch (error) {
      notifyProblem(error);
      return [];
    }
  }

  function listLevels() {
    return (info?.thinking ?? ["off"]).map((/** @type {string} */ each) => ({
      label: each,
      checked: each === (shown.thinking ?? "off"),
      run: () => change({ thinking: each }),
    }));
  }

  /** @param {any} wanted */
  async function change(wanted) {
    try {
      await update(wanted);
    } catch (error) {
      notifyProblem(error);
    }
  }

  const thinking = menuButton(["Thinking: ", level], listLevels, {
    class: "quiet small thinking-button",
  });
  const element = h(
    "div",
    { class: "settings-bar" },
    menuButton([h("span", { class: "visually-hidden" }, "Model: "), modelName], listModels, {
      class: "quiet small model-button",
    }),
    thinking,
  );

  return {
    element,
    listModels,
    get model() {
      return info;
    },
    /** @param {{model: string | null, thinking: string | null}} session */
    async show(session) {
      shown = session;
      if (!info || (session.model && info.name !== session.model)) {
        info = await call("models.get", session.model ? { name: session.model } : {}).catch(
          () => null,
        );
      }
      const name = info?.name ?? session.model ?? "no model";
      replace(modelName, name.slice(name.lastIndexOf("/") + 1));
      replace(level, session.thinking ?? "off");
      thinking.hidden = (info?.thinking ?? []).length < 2;
    },
  };
}

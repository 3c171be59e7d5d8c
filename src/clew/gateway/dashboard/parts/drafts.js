// What was typed and not sent: kept in this browser, per session, also when signed out or offline.

const PREFIX = "clew.draft.";
const MOST = 50;

/** @param {string} session @returns {string} */
export function getDraft(session) {
  return read(session).text ?? "";
}

/**
 * @param {string} session
 * @param {string} text
 */
export function keepDraft(session, text) {
  const kept = read(session);
  if (!text) return forgetDraft(session);
  // Another text is another message: the key belongs to the one that may have been sent.
  write(session, text === kept.text ? kept : { text, at: Date.now() });
}

/** @param {string} session */
function forgetDraft(session) {
  try {
    localStorage.removeItem(PREFIX + session);
  } catch {
    // A browser that keeps nothing.
  }
}

/**
 * The key by which the gateway knows this very message, however often it is sent.
 *
 * @param {string} session
 * @param {string} text
 * @returns {string}
 */
export function keyOfDraft(session, text) {
  const kept = read(session);
  if (kept.text === text && kept.key) return kept.key;
  const key =
    crypto.randomUUID?.() ?? Array.from(crypto.getRandomValues(new Uint32Array(4))).join("-");
  write(session, { text, key, at: Date.now() });
  return key;
}

/** @param {string} session @returns {{text?: string, key?: string, at?: number}} */
function read(session) {
  try {
    return JSON.parse(localStorage.getItem(PREFIX + session) ?? "{}");
  } catch {
    return {};
  }
}

/** @param {string} session @param {{text?: string, key?: string, at?: number}} draft */
function write(session, draft) {
  try {
    localStorage.setItem(PREFIX + session, JSON.stringify(draft));
  } catch {
    dropOldest();
  }
}

function dropOldest() {
  const names = Object.keys(localStorage).filter((name) => name.startsWith(PREFIX));
  const aged = names.map(
    (name) => /** @type {const} */ ([read(name.slice(PREFIX.length)).at ?? 0, name]),
  );
  aged.sort(([one], [two]) => one - two);
  for (const [, name] of aged.slice(0, Math.max(1, names.length - MOST)))
    localStorage.removeItem(name);
}

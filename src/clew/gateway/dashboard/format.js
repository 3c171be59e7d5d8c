// Values in words: times, sizes, counts, costs, names.

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const clockTime = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const dayAndMonth = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const wholeDay = new Intl.DateTimeFormat(undefined, {
  day: "numeric",
  month: "short",
  year: "numeric",
});
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "medium" });
const count = new Intl.NumberFormat();
const compact = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });

/**
 * A time as a list shows it: "now", "5 min", "14:03", "3 May", "3 May 2024".
 *
 * @param {number} at
 * @param {number} [now]
 */
export function shortTime(at, now = Date.now()) {
  const ago = now - at;
  if (ago < MINUTE) return "now";
  if (ago < HOUR) return `${Math.floor(ago / MINUTE)} min`;
  const date = new Date(at);
  if (date.toDateString() === new Date(now).toDateString()) return clockTime.format(date);
  return (ago < 300 * DAY ? dayAndMonth : wholeDay).format(date);
}

/** A time in full, for a tooltip. @param {number} at */
export function fullTime(at) {
  return whole.format(new Date(at));
}

/** The time of day. @param {number} at */
export function timeOfDay(at) {
  return clockTime.format(new Date(at));
}

/** The day, in full. @param {number} at */
export function dayOf(at) {
  return wholeDay.format(new Date(at));
}

/** @param {number} milliseconds */
export function duration(milliseconds) {
  if (milliseconds < 1_000) return `${Math.round(milliseconds)} ms`;
  const seconds = milliseconds / 1_000;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** @param {number} number */
export function number(number) {
  return count.format(number);
}

/** @param {number} number */
export function shortNumber(number) {
  return number < 10_000 ? count.format(number) : compact.format(number);
}

/** @param {number} bytes */
export function size(bytes) {
  const units = ["bytes", "KB", "MB", "GB", "TB"];
  let unit = 0;
  while (bytes >= 1_000 && unit < units.length - 1) {
    bytes /= 1_000;
    unit += 1;
  }
  return `${unit === 0 ? bytes : bytes.toFixed(bytes < 10 ? 1 : 0)} ${units[unit]}`;
}

/**
 * Money; an unknown cost is said to be unknown, never shown as nothing.
 *
 * @param {number | null | undefined} usd
 */
export function cost(usd) {
  if (usd === null || usd === undefined) return "cost unknown";
  if (usd === 0) return "$0";
  return usd < 0.01 ? "< $0.01" : `$${usd.toFixed(usd < 10 ? 2 : 0)}`;
}

/**
 * The name of a session: its title, its summary, its first prompt, or its id.
 *
 * @param {any} session
 */
export function nameOf(session) {
  const text = session.title || session.short_summary || session.preview || "";
  return (
    text.replace(/\s+/g, " ").trim() || `session ${session.short_id ?? session.id.slice(0, 8)}`
  );
}

/**
 * "1 session", "2 sessions".
 *
 * @param {number} many
 * @param {string} word
 */
export function counted(many, word) {
  return `${count.format(many)} ${word}${many === 1 ? "" : "s"}`;
}

// Live events: one WebSocket for the whole tab. It comes back by itself; then every session that is
// followed goes on after the last message that was seen, so that nothing is missed or comes twice.

import { call, tellSignedOut } from "./api.js";

const UNAUTHORIZED = 4401;
const FIRST_PAUSE = 300;
const LONGEST_PAUSE = 8_000;

/**
 * @typedef {{after: number | null, onFrame: (frame: Frame) => void}} Follower
 * @typedef {"connecting" | "online" | "offline"} Connection
 */

/** @type {Map<string, Set<Follower>>} */
const followers = new Map();
/** @type {Set<(frame: Frame) => void>} */
const listeners = new Set();
/** @type {WebSocket | null} */
let socket = null;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;
let pause = FIRST_PAUSE;
let isWanted = false;

/** Connect, and stay connected until `disconnect`. */
export function connect() {
  if (isWanted) return;
  isWanted = true;
  open();
}

/** Leave, for example because this browser was signed out. */
export function disconnect() {
  isWanted = false;
  clearTimeout(timer);
  socket?.close();
  socket = null;
}

/**
 * Hear every frame that is not of one followed session: `state` (at each connection), `hint` (the
 * list changed), `error`; and `connection` frames of this module, with `state: Connection`.
 *
 * @param {(frame: Frame) => void} listener
 * @returns {() => void} stop listening
 */
export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/**
 * Follow a session: its messages after a number (from now on, if null), and its hints.
 *
 * @param {string} session
 * @param {number | null} after
 * @param {(frame: Frame) => void} onFrame `event` and `gap` frames
 * @returns {() => void} stop following
 */
export function follow(session, after, onFrame) {
  const follower = { after, onFrame };
  const all = followers.get(session) ?? new Set();
  all.add(follower);
  followers.set(session, all);
  subscribe(session);
  return () => {
    all.delete(follower);
    if (all.size > 0) return;
    followers.delete(session);
    send({ type: "unsubscribe", session });
  };
}

function open() {
  tell({ type: "connection", state: "connecting" });
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  const opened = new WebSocket(`${scheme}://${location.host}/v1/live`);
  socket = opened;
  opened.onopen = () => {
    pause = FIRST_PAUSE;
    tell({ type: "connection", state: "online" });
    send({ type: "subscribe" });
    for (const session of followers.keys()) subscribe(session);
  };
  opened.onmessage = (event) => receive(JSON.parse(event.data));
  opened.onclose = (event) => {
    if (socket !== opened) return;
    if (event.code === UNAUTHORIZED) tellSignedOut();
    lose();
  };
}

/** The connection is gone. It comes back by itself, if it is still wanted. */
function lose() {
  const gone = socket;
  socket = null;
  gone?.close();
  if (!isWanted) return;
  tell({ type: "connection", state: "offline" });
  timer = setTimeout(retry, pause * (0.75 + Math.random() / 2));
  pause = Math.min(pause * 2, LONGEST_PAUSE);
}

function retry() {
  clearTimeout(timer);
  if (!isWanted || socket) return;
  open();
  // A refused handshake does not say why: a call does, and a 401 is told to everybody.
  call("status").catch(() => {});
}

/** @param {Frame} frame */
function receive(frame) {
  if (frame.type !== "event" && frame.type !== "gap") {
    tell(frame);
    return;
  }
  for (const follower of followers.get(frame.session) ?? []) {
    if (typeof frame.seq === "number") {
      if (follower.after !== null && frame.seq <= follower.after) continue;
      follower.after = frame.seq;
    }
    follower.onFrame(frame);
  }
}

/** @param {string} session */
function subscribe(session) {
  const numbers = [...(followers.get(session) ?? [])].map((each) => each.after);
  const after = numbers.some((each) => each === null) ? null : Math.min(...numbers.map(Number));
  send(after === null ? { type: "subscribe", session } : { type: "subscribe", session, after });
}

/** @param {Record<string, any>} frame */
function send(frame) {
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(frame));
}

/** @param {Frame} frame */
function tell(frame) {
  for (const listener of [...listeners]) listener(frame);
}

// A socket does not notice that the network went: a call does. A gateway on this machine answers it.
addEventListener("offline", () => {
  call("status").catch((error) => error.isOffline && socket && lose());
});
addEventListener("online", () => {
  pause = FIRST_PAUSE;
  if (isWanted) retry();
});
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible" && isWanted) retry();
});

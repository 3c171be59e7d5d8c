// The operations of the gateway, by name. Nothing here knows what they mean.

/** What the gateway, or the network, says against a call: `code` is stable, the message is for people. */
export class Problem extends Error {
  /**
   * @param {string} code
   * @param {string} detail
   * @param {number} [status]
   */
  constructor(code, detail, status = 0) {
    super(detail);
    this.code = code;
    this.status = status;
  }

  /** Whether nobody answered: the call may work later. */
  get isOffline() {
    return this.code === "offline";
  }
}

let signedOut = () => {};

/**
 * Be told when this browser's cookie no longer counts.
 *
 * @param {() => void} listener
 */
export function onSignedOut(listener) {
  signedOut = listener;
}

/** This browser is signed out. */
export function tellSignedOut() {
  signedOut();
}

/**
 * Call an operation, such as `sessions.list`. Raises `Problem`.
 *
 * @param {string} method
 * @param {Record<string, any>} [params] those that are undefined are left out
 * @param {{signal?: AbortSignal}} [options]
 * @returns {Promise<any>}
 */
export function call(method, params = {}, options = {}) {
  return post("/v1/rpc", { method, params }, options);
}

/**
 * Post JSON to an address of the API that is no operation of the table (login, logout).
 *
 * @param {string} path
 * @param {any} body
 * @param {{signal?: AbortSignal}} [options]
 * @returns {Promise<any>}
 */
export async function post(path, body, { signal } = {}) {
  let response;
  try {
    response = await fetch(path, {
      method: "POST",
      credentials: "same-origin",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
      signal,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem("offline", "The gateway does not answer. What you typed is kept here.");
  }
  const answer = response.status === 204 ? null : await response.json().catch(() => null);
  if (response.ok) return answer;
  if (response.status === 401 && path !== "/v1/login") tellSignedOut();
  throw new Problem(
    answer?.code ?? "unknown",
    answer?.detail ?? `The gateway answered with ${response.status}.`,
    response.status,
  );
}

/**
 * A file as the value of an upload: base64, as `chat.send` takes it.
 *
 * @param {Blob} file
 * @returns {Promise<string>}
 */
export async function toBase64(file) {
  const url = await new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
  return String(url).slice(String(url).indexOf(",") + 1);
}

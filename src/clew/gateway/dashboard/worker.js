// The service worker: keeps the shell of the page for when the gateway does not answer, and nothing
// else. What the API says is never kept: sessions are nobody's business but the gateway's.

const SHELL = ["/", "/app.js", "/app.css", "/icon.svg", "/manifest.webmanifest"];
const PAGES = /^\/(s\/[\w-]+|memory|usage|status|settings|welcome)?$/;
const CACHE = "clew-shell";

self.addEventListener("install", (event) => {
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(SHELL)));
  self.skipWaiting();
});

self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("fetch", (event) => {
  const { pathname, origin } = new URL(event.request.url);
  if (origin !== location.origin || event.request.method !== "GET") return;
  const key = PAGES.test(pathname) ? "/" : pathname;
  if (SHELL.includes(key)) event.respondWith(answer(event.request, key));
});

/** The gateway's answer, and what was kept of it where there is none. */
async function answer(request, key) {
  const cache = await caches.open(CACHE);
  try {
    const response = await fetch(request);
    if (response.ok) await cache.put(key, response.clone());
    return response;
  } catch (error) {
    const kept = await cache.match(key);
    if (kept) return kept;
    throw error;
  }
}

// Changes the code of a one-time link for a cookie. The code is in the fragment, which a browser
// sends to nobody; it leaves the address bar and the history before anything else happens.

const word = document.getElementById("word");
const code = new URLSearchParams(location.hash.slice(1)).get("code");
history.replaceState(null, "", location.pathname);

async function ask(path, options) {
  const response = await fetch(path, { credentials: "same-origin", ...options });
  const answer = response.status === 204 ? null : await response.json();
  if (!response.ok) throw new Error(answer.detail);
  return answer;
}

async function signIn() {
  if (code) {
    await ask("/v1/login", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ code }),
    });
  }
  const status = await ask("/v1/status");
  word.textContent = `This browser is signed in. clew ${status.version} is running.`;
}

signIn().catch((error) => {
  word.textContent = code
    ? error.message
    : "This browser is not signed in. `clew gateway link` makes a link that does it.";
});

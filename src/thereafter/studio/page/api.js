// Asking the server. Errors come back as sentences; `sentence` gives the one to show.

export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

async function answer(response) {
  const body = await response.json().catch((error) => {
    if (error.name === "AbortError") throw error; // aborted while it came in
    return null;
  });
  if (response.ok) return body;
  throw new Refused(response.status, body?.error ?? `the studio answered ${response.status}`);
}

export async function get(path) {
  return answer(await fetch(path));
}

export async function post(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  return answer(await fetch(path, { method: "POST", headers, body: JSON.stringify(body), signal }));
}

/** Save the file that the server answers with. */
export async function download(path, body, name) {
  const headers = { "Content-Type": "application/json" };
  const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
  if (!response.ok) await answer(response);
  const address = URL.createObjectURL(await response.blob());
  const link = document.createElement("a");
  Object.assign(link, { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** What to show of an error; of an aborted request nothing. */
export function sentence(error) {
  if (error.name === "AbortError") return "";
  if (error instanceof Refused) return error.message;
  if (error instanceof TypeError && /fetch|network|load/i.test(error.message)) {
    return "the studio does not answer; is it still running in its terminal?";
  }
  return String(error.message ?? error);
}

/** A function that makes a request and aborts the one before: only the last is answered. */
export function latest() {
  let running = null;
  return async (path, body) => {
    running?.abort();
    running = new AbortController();
    return post(path, body, running.signal);
  };
}

export function socket(path) {
  return new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${path}`);
}

/** Listen to a socket for as long as the page is open; one that closes is opened again. */
export function listen(path, hear, say) {
  let wait = 500;
  const open = () => {
    const line = socket(path);
    line.onopen = () => {
      wait = 500;
    };
    line.onmessage = (event) => hear(JSON.parse(event.data));
    line.onclose = () => {
      say("the studio does not answer; trying again");
      setTimeout(open, wait);
      wait = Math.min(2 * wait, 8000);
    };
  };
  open();
}

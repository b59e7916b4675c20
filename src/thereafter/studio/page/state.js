// The state of a panel lives in the address: #keyboard?models=ready:lstm&text=the+teacher. A link shows the same again.

let own = ""; // the address that the page shows or has written

/** The panel the address names, and the values it gives. */
export function readState() {
  const [panel, query = ""] = location.hash.slice(1).split(/\?(.*)/s);
  return { panel, values: new URLSearchParams(query) };
}

/** Take the address as it is now for the one that the page shows. */
export function takeState() {
  own = location.hash;
}

/** Whether the address is the one that the page shows: then nothing needs to be shown anew. */
export function isOwnState() {
  return location.hash === own;
}

/** Put values into the address without a step in the history; an empty one is taken out.
 *
 * An address that was changed from outside is left alone: the browser says so a little later, and it is shown then.
 */
export function writeState(panel, values) {
  if (!isOwnState()) return;
  const now = readState();
  const kept = now.panel === panel || now.panel === "" ? now.values : new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value === "" || value == null) kept.delete(name);
    else kept.set(name, String(value).slice(0, 4000));
  }
  const query = kept.toString();
  history.replaceState(null, "", `#${panel}${query ? `?${query}` : ""}`);
  takeState();
}

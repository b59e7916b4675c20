// The state of a panel lives in the address: #keyboard?models=ready:lstm&text=the+teacher. A link shows the same again.

let own = "";

/** The panel the address names, and the values it gives. */
export function readState() {
  const [panel, query = ""] = location.hash.slice(1).split(/\?(.*)/s);
  return { panel, values: new URLSearchParams(query) };
}

/** Put values into the address without a step in the history; an empty one is taken out. */
export function writeState(panel, values) {
  const now = readState();
  const kept = now.panel === panel || now.panel === "" ? now.values : new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value === "" || value == null) kept.delete(name);
    else kept.set(name, String(value).slice(0, 4000));
  }
  const query = kept.toString();
  own = `#${panel}${query ? `?${query}` : ""}`;
  history.replaceState(null, "", own);
}

/** Whether the address is as the page itself has written it: then nothing needs to be shown anew. */
writeState.own = () => location.hash === own;

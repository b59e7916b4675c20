// The page: type and see what comes next, generate, and look inside token by token.
import { loadProgram } from "./model.js";
import { fromBase64 } from "./numbers.js";
import { bars, contexts, el, units, visible } from "./pictures.js";
import { TextReader } from "./reader.js";
import { tokenizerOf } from "./tokenizers.js";
import { TrieModel } from "./trie.js";

const SHOWN = 12; // likeliest tokens
const COMPLETED = 5; // words that begin as the last one does
const LISTED = 120; // tokens of the text that can be looked at
const AT_ONCE = 60; // milliseconds of generating between two frames
const LONGEST = 250; // where a long text takes long to lay out: then one part of 15 goes into drawing it

const place = (id) => document.getElementById(id);
const text = place("text");

async function load() {
  const about = JSON.parse(place("description").textContent);
  const raw = fromBase64(place("weights").textContent);
  place("weights").remove();
  const kernel = fromBase64(place("kernel").textContent);
  const model = about.form === "trie" ? new TrieModel(about, raw) : await loadProgram(about, raw, kernel);
  return new Desk(about, model, tokenizerOf(about.words));
}

class Desk {
  constructor(about, model, tokenizer) {
    this.about = about;
    this.model = model;
    this.tokenizer = tokenizer;
    this.reader = new TextReader(model, tokenizer);
    this.running = false;
    this.chosen = -1; // which token is looked at; -1 is the last
    place("about").textContent = about.caption;
    text.value = about.prompt;
    if (about.prompt) place("source").textContent = `The opening words come from ${about.from}.`;
    text.addEventListener("input", () => this.show());
    place("temperature").addEventListener("input", () => {
      place("warmth").textContent = Number(place("temperature").value).toFixed(2);
    });
    place("generate").addEventListener("click", () => this.generate());
    place("stop").addEventListener("click", () => {
      this.running = false;
    });
    place("clear").addEventListener("click", () => {
      text.value = "";
      this.show();
      text.focus();
    });
    place("back").addEventListener("click", () => this.walk(-1));
    place("forth").addEventListener("click", () => this.walk(1));
    place("layer").addEventListener("change", () => this.showInside());
    this.show();
  }

  /** Read the text as it stands, and show all that follows from it. */
  show() {
    this.tokens = this.tokenizer.encode(text.value);
    this.chosen = -1;
    this.showCompletions();
    this.reader.read(this.tokens);
    const write = ({ token }) => {
      text.value = this.tokenizer.append(text.value, [token]);
      this.show();
    };
    place("next").replaceChildren(bars(this.reader.next(SHOWN), write));
    this.listTokens();
    this.showInside();
  }

  /** Completions of the last word where tokens are words; instead of the next tokens if it is no word as it stands. */
  showCompletions() {
    const begun = this.reader.complete(text.value, COMPLETED);
    const longer = Boolean(begun?.words.some(({ rest }) => rest));
    place("complete-field").hidden = !longer;
    place("next-field").hidden = longer && this.tokens.at(-1) === this.about.words.unknown;
    if (!longer) return;
    const write = ({ rest }) => {
      text.value += rest;
      this.show();
    };
    place("complete-title").textContent = `Words that begin with “${begun.begun}”`;
    place("complete").replaceChildren(bars(begun.words, write, "Completions"));
  }

  listTokens() {
    const first = Math.max(0, this.tokens.length - LISTED);
    const listed = this.tokens.slice(first).map((token, at) => {
      const look = () => this.choose(first + at);
      const words = visible(this.tokenizer.piece(token));
      return el(
        "li",
        {},
        el("button", { type: "button", class: "token", "data-at": first + at, onclick: look }, words),
      );
    });
    place("tokens").replaceChildren(...listed);
    place("tokens").scrollTop = place("tokens").scrollHeight;
  }

  walk(by) {
    const now = this.chosen < 0 ? this.tokens.length - 1 : this.chosen;
    this.choose(Math.min(this.tokens.length - 1, Math.max(0, now + by)));
  }

  choose(at) {
    this.chosen = at;
    this.showInside();
  }

  /** What the model holds after the chosen token: it reads up to there once more. */
  showInside() {
    const count = this.chosen < 0 ? this.tokens.length : this.chosen + 1;
    if (count) {
      this.reader.goBack(count - 1); // gates are those of a step, so the last one is made again
      this.reader.read(this.tokens.slice(0, count));
    }
    const seen = this.model.look();
    const layers = [...new Set(seen.map((part) => part.layer))];
    const menu = place("layer");
    if (menu.children.length !== layers.length) {
      menu.replaceChildren(...layers.map((layer) => el("option", { value: layer }, layer)));
      menu.value = layers[layers.length - 1] ?? "";
    }
    place("layer-field").hidden = layers.length < 2;
    const ending = this.tokens.slice(0, count).map((token) => this.tokenizer.piece(token));
    const shown = seen.filter((part) => part.layer === menu.value);
    place("inside").replaceChildren(
      ...shown.map((part) => (part.kind === "contexts" ? contexts(part.contexts, ending) : units(part))),
    );
    for (const button of place("tokens").querySelectorAll("button")) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.at) === count - 1));
    }
    const last = ending.at(-1);
    place("where").textContent = count ? `After token ${count}: ${visible(last)}` : "No text has been read yet.";
    this.reader.read(this.tokens);
  }

  /** Draw tokens one after the other; the page stays alive between them. */
  async generate() {
    const temperature = Number(place("temperature").value);
    const top = Math.max(0, Math.floor(Number(place("top").value) || 0));
    const wanted = Math.max(1, Math.floor(Number(place("count").value) || 1));
    this.busy(true);
    const before = text.value;
    const drawn = [];
    let spent = 0;
    let most = AT_ONCE;
    this.reader.read(this.tokenizer.encode(before));
    while (this.running && drawn.length < wanted) {
      const began = performance.now();
      while (drawn.length < wanted && performance.now() - began < most) {
        drawn.push(this.reader.draw(temperature, top));
        this.reader.push(drawn.at(-1));
      }
      const drew = performance.now();
      spent += drew - began;
      text.value = this.tokenizer.append(before, drawn);
      text.scrollTop = text.scrollHeight;
      most = Math.min(LONGEST, Math.max(AT_ONCE, 14 * (performance.now() - drew)));
      await new Promise((go) => setTimeout(go));
    }
    const rate = Math.round((1000 * drawn.length) / Math.max(spent, 1));
    place("speed").textContent = `${drawn.length} tokens, ${rate.toLocaleString("en")} a second`;
    this.busy(false);
    this.show();
    return rate;
  }

  busy(now) {
    this.running = now;
    place("generate").disabled = now;
    place("stop").disabled = !now;
    text.readOnly = now;
  }

  /** For whoever checks the page: log p of the first token, then of the next after each. */
  begin() {
    this.model.start();
    return this.model.predict();
  }

  after(token) {
    this.model.step(token);
    return this.model.predict();
  }
}

const dark = matchMedia("(prefers-color-scheme: dark)").matches;
document.documentElement.dataset.theme = dark ? "dark" : "light";
place("theme").addEventListener("click", () => {
  const now = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = now;
  if (window.thereafter) window.thereafter.showInside(); // pictures take their colours when they are drawn
});

try {
  window.thereafter = await load();
} catch (failure) {
  place("error").hidden = false;
  place("error").textContent =
    `The page could not be loaded: ${failure.message}. The file may be incomplete; export it again.`;
}

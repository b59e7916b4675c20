// A model that reads texts as they are typed: what was read before is not read again.

const MOST_KEPT = 1 << 23; // numbers of all kept states together

export class TextReader {
  constructor(model, tokenizer) {
    this.model = model;
    this.tokenizer = tokenizer;
    this.tokens = [];
    this.kept = new Map(); // states by how many tokens had been read
    model.start();
    this.kept.set(0, model.keep());
    this.every = (model.stateSize ?? 1) > 1 << 15 ? 64 : 1;
    this.most = Math.max(8, Math.floor(MOST_KEPT / (model.stateSize ?? 1)));
  }

  /** Have exactly these tokens read. */
  read(tokens) {
    let same = 0;
    while (same < tokens.length && same < this.tokens.length && tokens[same] === this.tokens[same]) same++;
    if (same < this.tokens.length) this.goBack(same);
    for (let at = this.tokens.length; at < tokens.length; at++) this.push(tokens[at]);
  }

  push(token) {
    this.model.step(token);
    this.tokens.push(token);
    const count = this.tokens.length;
    if (count % this.every) return;
    this.kept.set(count, this.model.keep());
    if (this.kept.size <= this.most) return;
    const known = this.kept.keys();
    known.next();
    this.kept.delete(known.next().value); // the oldest but the beginning
  }

  /** Go back to the last state that is known at or before a number of tokens. */
  goBack(count) {
    let at = 0;
    for (const known of this.kept.keys()) {
      if (known <= count) at = Math.max(at, known);
      else this.kept.delete(known);
    }
    this.model.putBack(this.kept.get(at));
    this.tokens.length = at;
  }

  /** The k likeliest next tokens: [{ token, text, p }], the unknown one left out. */
  next(k) {
    const logp = this.model.predict();
    const order = Array.from(logp.keys()).filter((token) => token !== this.model.words.unknown);
    order.sort((a, b) => logp[b] - logp[a]);
    return order.slice(0, k).map((token) => ({ token, text: this.tokenizer.piece(token), p: Math.exp(logp[token]) }));
  }

  /** The k likeliest words that begin as the last word of a text does, each with its share of all that begin so. */
  complete(text, k) {
    const typed = this.tokenizer.typed?.(text);
    if (!typed) return null;
    this.read(this.tokenizer.encode(typed.context));
    const logp = this.model.predict();
    const words = this.tokenizer.beginning(typed.begun).map((token) => ({
      text: this.tokenizer.forms[token].trimStart(),
      rest: this.tokenizer.forms[token].slice(typed.begun.length),
      p: Math.exp(logp[token]),
    }));
    const sum = words.reduce((all, { p }) => all + p, 0);
    words.sort((a, b) => b.p - a.p);
    return { begun: typed.begun.trim(), words: words.slice(0, k).map((word) => ({ ...word, p: word.p / (sum || 1) })) };
  }

  /** A token drawn at a temperature (0: the likeliest) among the k likeliest (0: among all). */
  draw(temperature, k, random = Math.random) {
    const logp = this.model.predict();
    const tokens = Array.from(logp.keys()).filter((token) => token !== this.model.words.unknown);
    const best = tokens.reduce((a, b) => (logp[b] > logp[a] ? b : a));
    if (temperature <= 0) return best;
    let among = tokens;
    if (k > 0 && k < tokens.length) {
      const floor = Float32Array.from(tokens, (token) => logp[token]).sort()[tokens.length - k];
      among = tokens.filter((token) => logp[token] >= floor);
    }
    const weights = among.map((token) => Math.exp((logp[token] - logp[best]) / temperature));
    let left = random() * weights.reduce((a, b) => a + b, 0);
    for (let i = 0; i < among.length; i++) {
      left -= weights[i];
      if (left <= 0) return among[i];
    }
    return best;
  }
}

// An n-gram as a trie: a context is a node, and the state of the model is its number. `ngram/tables.py` says what the
// arrays are.

export class TrieModel {
  constructor(about, raw) {
    this.about = about;
    this.words = about.words;
    for (const [name, { type, shape, at }] of Object.entries(about.arrays)) {
      const Kind = type === "float32" ? Float32Array : Int32Array;
      this[name] = new Kind(raw.buffer, raw.byteOffset + at, shape[0]);
    }
    this.node = about.first;
    this.logits = new Float32Array(this.words.size);
  }

  start() {
    this.node = this.about.first;
  }

  /** The child of a context with that word; 0 if there is none. */
  child(context, word) {
    let low = this.first_child[context];
    let high = this.first_child[context + 1];
    const end = high;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.word[middle] < word) low = middle + 1;
      else high = middle;
    }
    return low < end && this.word[low] === word ? low : 0;
  }

  step(token) {
    if (token === this.words.restart) {
      this.start();
      return;
    }
    let context = this.node;
    let next = this.child(context, token);
    while (!next) {
      context = this.suffix[context]; // every word is a child of the root
      next = this.child(context, token);
    }
    this.node = next < this.backoff.length ? next : this.suffix[next];
  }

  /** The context and its ever shorter suffixes, without the empty one. */
  chain() {
    const nodes = [];
    for (let node = this.node; node; node = this.suffix[node]) nodes.push(node);
    return nodes;
  }

  predict() {
    const { logits } = this;
    const size = this.words.size;
    let contexts = this.chain();
    const begins = (context) => this.first_child[context + 1] > this.first_child[context];
    if (this.about.uniform) contexts = contexts.filter(begins).slice(0, 1);
    logits.set(this.logp.subarray(1, 1 + size));
    for (const context of contexts.reverse()) {
      for (let w = 0; w < size; w++) logits[w] = (this.about.uniform ? 0 : logits[w]) + this.backoff[context];
      for (let i = this.first_child[context]; i < this.first_child[context + 1]; i++) {
        logits[this.word[i]] = this.logp[i];
      }
    }
    return logits;
  }

  keep() {
    return this.node;
  }

  putBack(node) {
    this.node = node;
  }

  /** The contexts that were seen in training: [{ layer, name, contexts }]. */
  look() {
    const contexts = this.chain().map((node) => ({
      node,
      followers: this.first_child[node + 1] - this.first_child[node],
    }));
    return [{ layer: "trie", name: "contexts", kind: "contexts", contexts }];
  }
}

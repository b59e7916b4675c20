// A program of small operations over named buffers, all of them in one memory. `export/steps/lowering.py` says what each
// operation means; the product of a matrix and a vector runs as WebAssembly where the browser has it.
import { logSoftmax } from "./numbers.js";
import { OPERATIONS } from "./operations.js";

const up4 = (n) => (n + 3) & ~3;
const GATES = new Set(["input", "forget", "output", "reset", "update"]); // the others hold what they let through
const PART = 32; // numbers of a row that share a scale
const up32 = (n) => (n + 31) & ~31;

/** The model of a description and its bytes; `kernel` are the bytes of the WebAssembly module, or null. */
export async function loadProgram(about, raw, kernel) {
  const model = new ProgramModel(about, raw);
  if (kernel) await model.speedUp(kernel);
  return model;
}

class ProgramModel {
  constructor(about, raw) {
    this.about = about;
    this.words = about.words;
    this.raw = raw;
    this.matrices = {};
    this.buffers = {};
    this.tokens = []; // of a Transformer, those in sight
    this.token = 0;
    this.layOut();
  }

  /** Give every matrix and buffer its place; the state lies in one piece, so that it can be kept and put back. */
  layOut() {
    let at = 0;
    const places = [];
    const reserve = (name, size) => {
      places.push([name, at, size]);
      at += up32(size); // a product reads 32 numbers at a time
    };
    for (const [name, size] of Object.entries(this.about.state)) reserve(name, size);
    this.stateSize = at;
    reserve("logits", this.words.size);
    for (const [name, size] of Object.entries(this.about.buffers)) reserve(name, size);
    const blocks = [...this.about.body, this.about.head];
    blocks.forEach((block, number) => {
      for (const [name, size] of Object.entries(block.buffers)) reserve(`${number} ${name}`, size);
    });
    for (const name of this.about.matrices) {
      const [rows, columns] = this.about.arrays[name].shape;
      const stride = up32(columns); // of whole numbers of two bytes
      const parts = stride / PART;
      this.matrices[name] = { scaleAt: at, at: 2 * (at + up4(up4(rows) * parts)), rows, columns, stride, parts };
      at += up4(up4(rows) * parts) + (up4(rows) * stride) / 2;
    }
    const pages = Math.ceil((4 * at) / 65536) + 1;
    this.memory = typeof WebAssembly === "undefined" ? null : new WebAssembly.Memory({ initial: pages });
    this.all = new Float32Array(this.memory ? this.memory.buffer : new ArrayBuffer(pages * 65536));
    this.whole = new Int16Array(this.all.buffer);
    for (const [name, place, size] of places) this.buffers[name] = this.all.subarray(place, place + size);
    this.state = this.all.subarray(0, this.stateSize);
    for (const name of this.about.matrices) this.unpack(name);
    this.steps = blocks.map((block, number) => block.ops.map((op) => this.bind(op, number, block)));
    this.headSteps = this.steps.pop();
    this.atFirst = {};
    for (const name of Object.keys(this.about.state)) {
      if (this.about.arrays[`${name}_at_first`]) this.atFirst[name] = this.stored(`${name}_at_first`);
    }
    this.raw = null;
  }

  /** The numbers of an array as they are stored. */
  stored(name) {
    const { type, shape, at } = this.about.arrays[name];
    const size = shape.reduce((product, n) => product * n, 1);
    const Kind = { float32: Float32Array, int32: Int32Array, int16: Int16Array, int8: Int8Array }[type];
    return new Kind(this.raw.buffer, this.raw.byteOffset + at, size);
  }

  /** Lay a matrix into the memory: whole numbers row by row, and the scale of each part of a row. */
  unpack(name) {
    const { at, scaleAt, rows, columns, stride, parts } = this.matrices[name];
    const numbers = this.stored(name);
    const scale = this.stored(`${name}_scale`);
    const shared = scale.length === rows; // one scale for a whole row
    for (let r = 0; r < rows; r++) {
      this.whole.set(numbers.subarray(r * columns, (r + 1) * columns), at + r * stride);
      for (let p = 0; p < parts; p++) this.all[scaleAt + r * parts + p] = scale[shared ? r : r * parts + p];
    }
  }

  /** Put WebAssembly in the place of the plain product; where the browser refuses, all stays as it is. */
  async speedUp(bytes) {
    if (!this.memory) return;
    try {
      const made = await WebAssembly.instantiate(bytes, { page: { memory: this.memory } });
      this.product = made.instance.exports.matvec;
    } catch {
      this.product = null;
    }
  }

  /** y += W x for the first rows of a matrix. */
  multiply({ at, scaleAt, columns, stride, parts }, x, y, rows) {
    if (this.product) {
      this.product(2 * at, x.byteOffset, y.byteOffset, up4(rows), 2 * stride, 4 * scaleAt);
      return;
    }
    const { whole, all } = this;
    for (let r = 0; r < rows; r++) {
      let total = 0;
      for (let p = 0; p < parts; p++) {
        let sum = 0;
        const end = Math.min(columns, (p + 1) * PART);
        for (let j = p * PART; j < end; j++) sum += whole[at + r * stride + j] * x[j];
        total += sum * all[scaleAt + r * parts + p];
      }
      y[r] += total;
    }
  }

  /** out = a row of a matrix. */
  row({ at, scaleAt, columns, stride, parts }, number, out) {
    const first = at + number * stride;
    const scale = scaleAt + number * parts;
    for (let j = 0; j < columns; j++) out[j] = this.whole[first + j] * this.all[scale + (j >> 5)];
  }

  /** An operation as a function without arguments. */
  bind(op, number, block) {
    const buffer = (name) => this.buffers[name in block.buffers ? `${number} ${name}` : name];
    const given = { out: buffer(op.out) };
    for (const [role, name] of Object.entries(op.inputs)) given[role] = buffer(name);
    const arrays = {};
    for (const [role, name] of Object.entries(op.arrays)) {
      arrays[role] = this.matrices[name] ?? this.stored(name);
    }
    const run = OPERATIONS[op.op];
    return () => run(this, given, arrays, op);
  }

  start() {
    this.state.fill(0);
    for (const [name, values] of Object.entries(this.atFirst)) this.buffers[name].set(values);
    this.tokens = [];
    this.body(this.words.start);
  }

  /** Read a token. */
  step(token) {
    if (token === this.words.restart) {
      this.start();
      return;
    }
    const { context } = this.about;
    if (context && this.tokens.length === context) {
      const again = this.tokens.slice(context - Math.floor(context / 2)); // no room: the last half is read again
      this.tokens = [];
      for (const earlier of again) this.body(earlier);
    }
    this.body(token);
  }

  body(token) {
    this.token = token;
    for (const block of this.steps) for (const run of block) run();
    if (this.about.context) this.tokens.push(token);
  }

  /** log p of every next token; the array is overwritten by the next call. */
  predict() {
    for (const run of this.headSteps) run();
    const logits = this.buffers.logits;
    logSoftmax(logits, this.words.size);
    return logits;
  }

  /** The state as a value, to be put back later. */
  keep() {
    return { numbers: this.state.slice(), tokens: this.tokens.slice() };
  }

  putBack({ numbers, tokens }) {
    this.state.set(numbers);
    this.tokens = tokens.slice();
  }

  /** What the last step has left in its gates and states: [{ layer, name, values }]. */
  look() {
    const seen = [];
    this.about.body.forEach((block, number) => {
      if (!block.shown) return;
      const gates = this.buffers[`${number} ${block.shown}`];
      const size = gates.length / block.gates.length;
      block.gates.forEach((name, at) => {
        const kind = GATES.has(name) && block.gates.length > 1 ? "gate" : "what is offered to the state";
        seen.push({ layer: block.name, name, kind, values: gates.slice(at * size, (at + 1) * size) });
      });
      for (const name of ["c", "h"]) {
        const values = this.buffers[`${name}_${block.name}`];
        if (values) seen.push({ layer: block.name, name, kind: "state", values: values.slice() });
      }
    });
    return seen;
  }
}

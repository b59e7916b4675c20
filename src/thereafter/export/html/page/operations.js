// The operations of a program: each takes the model, its buffers, its arrays and its numbers.
import { CELLS } from "./cells.js";
import { erf, logSoftmax, sigmoid, tanh } from "./numbers.js";

const EPSILON = 1e-5;

const ACTIVATIONS = {
  tanh,
  sigmoid,
  identity: (x) => x,
  relu: (x) => Math.max(x, 0),
  relu6: (x) => Math.min(6, Math.max(x, 0)),
  leaky_relu: (x) => (x > 0 ? x : 0.01 * x),
  gelu: (x) => 0.5 * x * (1 + erf(x / Math.SQRT2)),
  gelu_tanh: (x) => 0.5 * x * (1 + tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
};

function normalise(x, gain, shift) {
  const n = gain.length;
  let mean = 0;
  let squares = 0;
  for (let i = 0; i < n; i++) mean += x[i] / n;
  for (let i = 0; i < n; i++) squares += (x[i] - mean) ** 2;
  const by = 1 / Math.sqrt(squares / n + EPSILON);
  for (let i = 0; i < n; i++) x[i] = (x[i] - mean) * by * gain[i] + (shift ? shift[i] : 0);
}

function linear(model, { out, x }, { weight, bias }, { add }) {
  const rows = Math.min(weight.rows, out.length);
  if (!add && bias) out.set(bias);
  else if (!add) out.fill(0);
  else if (bias) for (let i = 0; i < rows; i++) out[i] += bias[i];
  model.multiply(weight, x, out, rows);
}

function attend(model, { out, q, keys, values }, _, { heads, n }) {
  const at = model.tokens.length;
  const size = n / heads;
  keys.set(q.subarray(n, 2 * n), at * n);
  values.set(q.subarray(2 * n, 3 * n), at * n);
  const scores = new Float64Array(at + 1);
  for (let head = 0; head < heads; head++) {
    const first = head * size;
    let most = -Infinity;
    let sum = 0;
    for (let t = 0; t <= at; t++) {
      let dot = 0;
      for (let i = 0; i < size; i++) dot += q[first + i] * keys[t * n + first + i];
      scores[t] = dot / Math.sqrt(size);
      most = Math.max(most, scores[t]);
    }
    for (let t = 0; t <= at; t++) sum += scores[t] = Math.exp(scores[t] - most);
    for (let i = 0; i < size; i++) {
      let mixed = 0;
      for (let t = 0; t <= at; t++) mixed += scores[t] * values[t * n + first + i];
      out[first + i] = mixed / sum;
    }
  }
}

const each = (n, call) => {
  for (let i = 0; i < n; i++) call(i);
};

export const OPERATIONS = {
  ...CELLS,
  linear,
  attend,
  row: (model, { out }, { table }) => model.row(table, model.token, out),
  add: (_, { out, x }, __, { n }) => each(n, (i) => (out[i] += x[i])),
  copy: (_, { out, x }, __, { n, at = 0 }) => out.set(x.subarray(0, n), at),
  scale: (_, { out }, __, { by, n }) => each(n, (i) => (out[i] *= by)),
  norm: (_, { out }, { gain, shift }) => normalise(out, gain, shift),
  act: (_, { out }, __, { f, n }) => each(n, (i) => (out[i] = ACTIVATIONS[f](out[i]))),
  shift: (_, { out, x }, __, { n }) => {
    out.copyWithin(0, n);
    out.set(x.subarray(0, n), out.length - n);
  },
  mean: (_, { out, x, count }, __, { n }) => {
    const window = x.length / n;
    count[0] = Math.min(window, count[0] + 1);
    each(n, (i) => {
      let sum = 0;
      for (let w = 0; w < window; w++) sum += x[w * n + i];
      out[i] = sum / count[0];
    });
  },
  position: (model, { out }, { table }, { n }) => {
    const first = model.tokens.length * n;
    each(n, (i) => (out[i] += table[first + i]));
  },
  log_softmax: (_, { out }, __, { n }) => logSoftmax(out, n),
  lift: (_, { out, x }, __, { at, n }) => each(n, (i) => (out[i] += x[at])),
  take: (_, { out, x }, { index }, { n }) => each(n, (i) => (out[i] = x[index[i]])),
  highway: (_, { out, x, t }, __, { n }) => each(n, (i) => (out[i] = x[i] + sigmoid(t[i]) * (out[i] - x[i]))),
};

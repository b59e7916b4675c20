// The cells: gates are left in z, where the page looks at them.
import { sigmoid, softplus, tanh } from "./numbers.js";

function lstmMemory(_, { out: c, z }, { input, forget, output }, { coupled, n }) {
  const g = coupled ? n : 2 * n;
  const o = g + n;
  for (let i = 0; i < n; i++) {
    const before = c[i];
    z[i] = sigmoid(z[i] + (input ? input[i] * before : 0));
    let keep = 1 - z[i];
    if (!coupled) keep = z[n + i] = sigmoid(z[n + i] + (forget ? forget[i] * before : 0));
    z[g + i] = tanh(z[g + i]);
    c[i] = keep * before + z[i] * z[g + i];
    z[o + i] = sigmoid(z[o + i] + (output ? output[i] * c[i] : 0));
  }
}

function lstmOutput(_, { out: h, z, c }, __, { coupled, n }) {
  const o = (coupled ? 2 : 3) * n;
  for (let i = 0; i < n; i++) h[i] = z[o + i] * tanh(c[i]);
}

function mix(h, z, i, n, keeps) {
  const keep = keeps === "old" ? z[n + i] : 1 - z[n + i];
  h[i] = keep * h[i] + (1 - keep) * z[2 * n + i];
}

function gru(_, { out: h, z, r }, __, { keeps, n }) {
  for (let i = 0; i < n; i++) {
    z[i] = sigmoid(z[i] + r[i]);
    z[n + i] = sigmoid(z[n + i] + r[n + i]);
    z[2 * n + i] = tanh(z[2 * n + i] + z[i] * r[2 * n + i]);
    mix(h, z, i, n, keeps);
  }
}

function gruReset(_, { out, z, r, h }, __, { n }) {
  for (let i = 0; i < 2 * n; i++) z[i] = sigmoid(z[i] + r[i]);
  for (let i = 0; i < n; i++) out[i] = z[i] * h[i];
}

function gruNew(_, { out: h, z, q }, __, { keeps, n }) {
  for (let i = 0; i < n; i++) {
    z[2 * n + i] = tanh(z[2 * n + i] + q[i]);
    mix(h, z, i, n, keeps);
  }
}

function mingru(_, { out: h, z }, __, { n }) {
  for (let i = 0; i < n; i++) {
    z[i] = sigmoid(z[i]);
    h[i] = (1 - z[i]) * h[i] + z[i] * z[n + i];
  }
}

function minlstm(_, { out: h, z }, __, { n }) {
  for (let i = 0; i < n; i++) {
    const forget = sigmoid(softplus(-z[i]) - softplus(-z[n + i]));
    z[i] = 1 - forget;
    z[n + i] = forget;
    h[i] = forget * h[i] + (1 - forget) * z[2 * n + i];
  }
}

function diagonal(_, { out: h, z }, { decay, factor }, { n }) {
  for (let i = 0; i < n; i++) h[i] = decay[i] * h[i] + factor[i] * z[i];
}

export const CELLS = {
  lstm_memory: lstmMemory,
  lstm_output: lstmOutput,
  gru,
  gru_reset: gruReset,
  gru_new: gruNew,
  mingru,
  minlstm,
  diagonal,
};

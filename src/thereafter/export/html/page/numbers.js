// Functions of numbers that JavaScript does not have.

export const sigmoid = (x) => 1 / (1 + Math.exp(-x));

/** Math.tanh takes three times as long. */
export const tanh = (x) => 2 / (1 + Math.exp(-2 * x)) - 1;

/** log(1 + exp(x)). */
export const softplus = (x) => (x > 30 ? x : Math.log1p(Math.exp(x)));

/** The error function to 1e-7: its series near 0, and a continued fraction of its complement beyond. */
export function erf(x) {
  const size = Math.abs(x);
  if (size > 5) return Math.sign(x);
  if (size < 2.5) {
    let term = x;
    let sum = x;
    for (let n = 1; n < 60 && Math.abs(term) > 1e-12; n++) {
      term *= -(x * x) / n;
      sum += term / (2 * n + 1);
    }
    return (2 / Math.sqrt(Math.PI)) * sum;
  }
  let fraction = 0;
  for (let n = 40; n > 0; n--) fraction = n / 2 / (size + fraction);
  return Math.sign(x) * (1 - Math.exp(-size * size) / ((size + fraction) * Math.sqrt(Math.PI)));
}

/** log softmax of the first n numbers, in place. */
export function logSoftmax(x, n) {
  let most = -Infinity;
  let sum = 0;
  for (let i = 0; i < n; i++) most = Math.max(most, x[i]);
  for (let i = 0; i < n; i++) sum += Math.exp(x[i] - most);
  const all = most + Math.log(sum);
  for (let i = 0; i < n; i++) x[i] -= all;
}

/** Bytes of base64. */
export function fromBase64(text) {
  const binary = atob(text.trim());
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

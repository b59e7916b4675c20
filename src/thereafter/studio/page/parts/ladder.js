// The columns of the table of models: what each shows, and its figures in a few digits.

/** Of models that were compared on the same text. */
export const LADDER = [
  { key: "name", title: "model", show: (row) => row.name },
  { key: "tokens", title: "tokens", show: (row) => row.tokens },
  { key: "bits_per_byte", title: "bits/byte", show: (row) => spread(row.bits_per_byte, row.bits_per_byte_spread, 4) },
  { key: "perplexity", title: "perplexity", show: (row) => spread(row.perplexity, row.perplexity_spread, 2) },
  { key: "parameters", title: "parameters", show: (row) => amount(row.parameters) },
  { key: "seconds", title: "train s", show: (row) => fixed(row.seconds, 1) },
  { key: "tokens_per_second", title: "tokens/s", show: (row) => amount(row.tokens_per_second) },
  { key: "next_ms", title: "next ms", show: (row) => fixed(row.next_ms, 2) },
  { key: "megabytes", title: "size MB", show: (row) => fixed(row.megabytes, 2) },
];
/** Of trainings, each with its own text. */
export const TRAININGS = [
  { key: "name", title: "model", show: (row) => row.name },
  { key: "kind", title: "kind", show: (row) => row.kind },
  { key: "perplexity", title: "best validation perplexity", show: (row) => fixed(row.perplexity, 2) },
  { key: "tokens", title: "tokens trained on", show: (row) => amount(row.tokens) },
  { key: "seconds", title: "seconds", show: (row) => fixed(row.seconds, 1) },
];

/** A number in so many decimals; a dash where there is none. */
export function fixed(value, digits) {
  return value == null || !Number.isFinite(value) ? "–" : value.toFixed(digits);
}

/** A mean and how far seeds lie apart, where there are several. */
function spread(mean, between, digits) {
  return between == null ? fixed(mean, digits) : `${fixed(mean, digits)} ±${fixed(between, digits)}`;
}

/** Three digits of a number: 123, 12.3k, 1.23M. */
function amount(value) {
  if (value == null || !Number.isFinite(value)) return "–";
  for (const [size, unit] of [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ]) {
    if (value >= 0.9995 * size) return `${Number((value / size).toPrecision(3))}${unit}`;
  }
  return String(Number(value.toPrecision(3)));
}

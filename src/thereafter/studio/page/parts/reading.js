// Reading a file of the visitor's as text, in the page: errors are sentences that say what to try.

export const MOST_BYTES = 8_000_000;

/** Why a text of so many bytes cannot be sent, or "". */
export function tooLarge(name, bytes) {
  if (bytes <= MOST_BYTES) return "";
  return `${name} has ${(bytes / 1e6).toFixed(1)} MB; expected at most ${MOST_BYTES / 1e6} MB; try a part of it`;
}

/** The text of a file: UTF-8, or UTF-16 where it begins with a byte order mark. Anything else is an Error. */
export async function readText(file) {
  const refused = tooLarge(file.name, file.size);
  if (refused) throw new Error(refused);
  const bytes = new Uint8Array(await file.arrayBuffer());
  const mark = bytes[0] * 256 + bytes[1];
  const encoding = mark === 0xfffe ? "utf-16le" : mark === 0xfeff ? "utf-16be" : "utf-8";
  let text = "";
  try {
    text = new TextDecoder(encoding, { fatal: true }).decode(bytes);
  } catch {
    throw new Error(`${file.name} is not a text in UTF-8; expected plain text; try saving it as UTF-8`);
  }
  if (text.includes("\u0000")) throw new Error(`${file.name} holds binary data; expected plain text; try a .txt file`);
  return text;
}

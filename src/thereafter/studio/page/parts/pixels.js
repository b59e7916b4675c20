// Pixels that the server sends, on canvases: pictures, frames of clips, and where a network looked.
import { el } from "./dom.js";

const DARKEST = 0.66; // how much of the light is taken where the network did not look
const BRIGHTEST = 0.26; // how much white is added where it looked most
const SMALL = 128; // pixels of a side below which single pixels are shown as squares

/** The pictures of an answer, a canvas of its own size each. */
export function unpack({ count, height, width, channels, data }) {
  const bytes = Uint8Array.from(atob(data), (one) => one.charCodeAt(0));
  return Array.from({ length: count }, (_, at) => {
    const canvas = el("canvas", { width, height });
    const ink = canvas.getContext("2d");
    const image = ink.createImageData(width, height);
    const begin = at * height * width * channels;
    for (let i = 0; i < height * width; i += 1) {
      for (let c = 0; c < 3; c += 1) image.data[4 * i + c] = bytes[begin + i * channels + (channels === 3 ? c : 0)];
      image.data[4 * i + 3] = 255;
    }
    ink.putImageData(image, 0, 0);
    return canvas;
  });
}

/** A canvas that shows a picture of `unpack` `side` pixels wide; with a name for those who do not see it, or none. */
export function shown(picture, side, name = null) {
  const node = el("canvas", name ? { role: "img", "aria-label": name } : { "aria-hidden": "true" });
  paint(node, picture, side);
  return node;
}

/** Draw a picture onto a canvas, `side` pixels wide. */
export function paint(canvas, picture, side) {
  canvas.width = side;
  canvas.height = Math.max(1, Math.round((side * picture.height) / picture.width));
  const ink = canvas.getContext("2d");
  ink.imageSmoothingEnabled = picture.width > SMALL;
  ink.drawImage(picture, 0, 0, canvas.width, canvas.height);
}

/**
 * The same, dark where the network did not look: `weights` of the places of a grid, row by row. The place that took the
 * most has an edge.
 */
export function paintLooked(canvas, picture, side, { weights, rows, columns, edge = true }) {
  paint(canvas, picture, side);
  if (!weights) return;
  const most = Math.max(...weights, 1e-9);
  const shares = weights.map((weight) => weight / most);
  veil(
    canvas,
    shares.map((share) => DARKEST * (1 - share)),
    0,
    { rows, columns },
  );
  veil(
    canvas,
    shares.map((share) => BRIGHTEST * share),
    255,
    { rows, columns },
  );
  if (!edge) return;
  const ink = canvas.getContext("2d");
  const at = weights.indexOf(Math.max(...weights));
  const [wide, high] = [canvas.width / columns, canvas.height / rows];
  for (const [colour, width] of [
    ["#000", 7],
    ["#fff", 3],
  ]) {
    ink.strokeStyle = colour;
    ink.lineWidth = width;
    ink.strokeRect((at % columns) * wide + 4, Math.floor(at / columns) * high + 4, wide - 8, high - 8);
  }
}

/** Black or white over a canvas, as much of it as each place of the grid says, and smooth between them. */
function veil(canvas, shares, level, { rows, columns }) {
  const mask = el("canvas", { width: columns, height: rows });
  const shade = mask.getContext("2d").createImageData(columns, rows);
  shares.forEach((share, at) => {
    shade.data.set([level, level, level, Math.round(255 * share)], 4 * at);
  });
  mask.getContext("2d").putImageData(shade, 0, 0);
  const ink = canvas.getContext("2d");
  ink.imageSmoothingEnabled = true;
  ink.imageSmoothingQuality = "high";
  ink.drawImage(mask, 0, 0, canvas.width, canvas.height);
}

/** Where a place of a grid is: "top left", "middle", "right". */
export function placeName(at, rows, columns) {
  const third = (place, count) => Math.floor((3 * (place + 0.5)) / count);
  const row = ["top", "", "bottom"][third(Math.floor(at / columns), rows)];
  const column = ["left", "", "right"][third(at % columns, columns)];
  return [row, column].filter(Boolean).join(" ") || "middle";
}

// Squares over a picture: where a network looked, read or wrote. Lines have a dark edge, to be seen on white.
import { el } from "./dom.js";
import { paint } from "./pixels.js";

export const LOOK = "#E69F00",
  READ = "#56B4E9",
  WRITE = "#E69F00",
  BEFORE = "#9a9a9a";

/** The outline of a rectangle in pixels of the picture: { left, top, wide, high }. */
export function outline(canvas, picture, box, { colour, width = 3, dash = [] }) {
  const scale = canvas.width / picture.width;
  const ink = canvas.getContext("2d");
  for (const [stroke, thick, dashed] of [
    ["#000", width + 3, []],
    [colour, width, dash],
  ]) {
    ink.strokeStyle = stroke;
    ink.lineWidth = thick;
    ink.setLineDash(dashed);
    ink.strokeRect(scale * box.left, scale * box.top, scale * box.wide, scale * box.high);
  }
  ink.setLineDash([]);
}

/** A line from one place of the picture to another, [x, y] each. */
export function segment(canvas, picture, from, to, colour) {
  const scale = canvas.width / picture.width;
  const ink = canvas.getContext("2d");
  for (const [stroke, thick] of [
    ["#000", 6],
    [colour, 3],
  ]) {
    ink.strokeStyle = stroke;
    ink.lineWidth = thick;
    ink.beginPath();
    ink.moveTo(scale * from[0], scale * from[1]);
    ink.lineTo(scale * to[0], scale * to[1]);
    ink.stroke();
  }
}

/** A word at a place of the picture, within its edges. */
export function mark(canvas, picture, [x, y], text, colour) {
  const scale = canvas.width / picture.width;
  const ink = canvas.getContext("2d");
  ink.font = `bold ${Math.round(canvas.width / 15)}px sans-serif`;
  ink.textAlign = "center";
  ink.textBaseline = "middle";
  const edge = canvas.width / 30;
  const at = [x, y].map((one, axis) => {
    const most = axis ? canvas.height : canvas.width;
    return Math.max(edge, Math.min(most - edge, scale * one));
  });
  ink.lineWidth = 5;
  ink.strokeStyle = "#000";
  ink.strokeText(text, ...at);
  ink.fillStyle = colour;
  ink.fillText(text, ...at);
}

/** What was seen at several scales as an eye has it: the middle sharp, the surroundings coarse. */
export function retina(squares, patches, side) {
  const node = el("canvas", { "aria-hidden": "true" });
  const wide = squares.length - 1;
  paint(node, patches[wide], side);
  const ink = node.getContext("2d");
  ink.imageSmoothingEnabled = false;
  const scale = side / (squares[wide]?.side ?? 1);
  for (let k = wide - 1; k >= 0; k -= 1) {
    const [x, y] = [squares[k].left - squares[wide].left, squares[k].top - squares[wide].top];
    ink.drawImage(patches[k], scale * x, scale * y, scale * squares[k].side, scale * squares[k].side);
  }
  return node;
}

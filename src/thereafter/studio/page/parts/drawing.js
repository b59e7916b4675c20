// A pad to draw a digit on with the mouse, a pen or a finger: 28 x 28 pixels of ink.
import { el } from "./dom.js";

const SIDE = 28;
const PEN = 1.25; // pixels from the middle of the pen to its edge
const LEVELS = 15;

/**
 * { node, ink, write(ink), clear() }. `ink` has a hexadecimal digit for each pixel, row by row, and is "" while nothing
 * is drawn. `drawn()` is called at the end of each stroke.
 */
export function drawingPad(label, drawn) {
  const node = el("canvas", { class: "pad", width: SIDE, height: SIDE, role: "img", "aria-label": label });
  let levels = new Float32Array(SIDE * SIDE);
  let before = null; // where the pen was

  function refresh() {
    const ink = node.getContext("2d");
    const image = ink.createImageData(SIDE, SIDE);
    levels.forEach((level, at) => {
      const value = Math.round(255 * level);
      image.data.set([value, value, value, 255], 4 * at);
    });
    ink.putImageData(image, 0, 0);
  }

  function place(event) {
    const box = node.getBoundingClientRect();
    return [((event.clientX - box.left) / box.width) * SIDE, ((event.clientY - box.top) / box.height) * SIDE];
  }

  /** Ink along a line: as much of a pixel as is nearer to it than the edge of the pen. */
  function line([x0, y0], [x1, y1]) {
    const [dx, dy] = [x1 - x0, y1 - y0];
    const length = dx * dx + dy * dy || 1e-9;
    for (let at = 0; at < levels.length; at += 1) {
      const [x, y] = [(at % SIDE) + 0.5 - x0, Math.floor(at / SIDE) + 0.5 - y0];
      const share = Math.max(0, Math.min(1, (x * dx + y * dy) / length));
      const cover = Math.max(0, Math.min(1, PEN + 0.5 - Math.hypot(x - share * dx, y - share * dy)));
      levels[at] = Math.max(levels[at], cover);
    }
    refresh();
  }

  node.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    node.setPointerCapture(event.pointerId);
    before = place(event);
    line(before, before);
  });
  node.addEventListener("pointermove", (event) => {
    if (!before) return;
    const now = place(event);
    line(before, now);
    before = now;
  });
  const end = () => {
    if (!before) return;
    before = null;
    drawn();
  };
  node.addEventListener("pointerup", end);
  node.addEventListener("pointercancel", end);
  refresh();

  return {
    node,
    write(ink) {
      const given = /^[0-9a-f]{784}$/.test(ink) ? ink : "";
      levels = Float32Array.from({ length: SIDE * SIDE }, (_, at) =>
        given ? Number.parseInt(given[at], 16) / LEVELS : 0,
      );
      refresh();
    },
    clear() {
      levels.fill(0);
      refresh();
    },
    get ink() {
      if (!levels.some((level) => level > 0.03)) return "";
      return Array.from(levels, (level) => Math.round(LEVELS * level).toString(16)).join("");
    },
  };
}

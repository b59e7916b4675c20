// The unrolled picture of a recurrent model: its look, and a state as an upright strip.

export const UNROLLED_STYLE = `
.states dt { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 1rem; font-size: .9rem;
  margin-top: .5rem; }
.states dd { margin: .15rem 0 0; } .states .strip + .strip { margin-top: 2px; }
.unrolled { display: flex; align-items: center; padding: .3rem .2rem .4rem; }
.unrolled .arrow { color: var(--line); flex: none; font-size: 1.1rem; width: .8rem; text-align: center; }
.unrolled .arrow.live { color: var(--accent); font-weight: 700; }
.unrolled button { flex: none; display: grid; justify-items: center; gap: .1rem; min-width: 3.3rem;
  padding: .3rem .2rem; }
.unrolled button[aria-current] { border: 2px solid var(--accent); background: var(--ground); }
.unrolled button .mono { white-space: pre; font-size: .78rem; max-width: 4.6rem; overflow: hidden;
  text-overflow: ellipsis; }
.unrolled button .ahead { color: var(--soft); font-size: .8rem; min-height: 1.2em; }
.unrolled canvas { width: 2.2rem; height: 5rem; image-rendering: pixelated; border: 1px solid var(--line);
  border-radius: .25rem; }
.unrolled button.later canvas, .unrolled button.later .likeliest { visibility: hidden; }
.unrolled .one { width: 100%; min-width: 2.9rem; border: 1px solid var(--line); border-radius: .25rem;
  font-size: .8rem; background: var(--ground);
  font-variant-numeric: tabular-nums; line-height: 1.25; } .unrolled .one i { display: block; height: 1.2rem; }
.unrolled .one small { display: block; color: var(--soft); }
.unrolled .later .one i, .unrolled .later .one b { visibility: hidden; }
.unrolled .one b { font-weight: 400; }
.unrolled button.later { border-style: dashed; }
.halves { margin-top: 1rem; display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr));
  gap: 1rem; margin-bottom: 1rem; }`;

/** A state as an upright strip, a column for each layer; `palette` has the colours of -1 to 1 in hundredths. */
export function drawUpright(canvas, layers, most, palette) {
  canvas.width = layers.length;
  canvas.height = Math.max(...layers.map((layer) => layer.length));
  const ink = canvas.getContext("2d");
  const picture = ink.createImageData(canvas.width, canvas.height);
  layers.forEach((layer, x) => {
    layer.forEach((value, y) => {
      const colour = palette[Math.round(100 * Math.max(-1, Math.min(1, value / most))) + 100];
      picture.data.set([...colour, 255], 4 * (y * canvas.width + x));
    });
  });
  ink.putImageData(picture, 0, 0);
}

/** The mean of the sizes of some values, whatever their signs. */
export function meanSize(values) {
  return values.reduce((sum, value) => sum + Math.abs(value), 0) / values.length;
}

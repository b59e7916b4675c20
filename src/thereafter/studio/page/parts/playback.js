// A position that is played from step to step, stepped by hand, or set.

/**
 * { at, playing, play(from, to), toggle(), stepBy(by), stop(), set(at) }. `total()` is the last position and 0 while
 * there is nothing to play, `pace()` the milliseconds a step takes, `moved()` is called whenever the position or the
 * play changes. Whoever wants no motion sees the end at once.
 */
export function playback({ total, pace, moved }) {
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  let at = 0,
    end = 0,
    timer = 0;

  function play(from, to) {
    if (!total()) return;
    stop();
    end = to;
    at = still.matches ? to : from;
    if (at < end) timer = setTimeout(tick, pace());
    moved();
  }

  function tick() {
    at += 1;
    timer = at < end ? setTimeout(tick, pace()) : 0;
    moved();
  }

  function stop() {
    clearTimeout(timer);
    timer = 0;
  }

  function toggle() {
    if (!timer) return play(at >= total() ? 0 : at, total());
    stop();
    moved();
  }

  function stepBy(by) {
    if (!total()) return;
    stop();
    at = Math.max(0, Math.min(total(), at + by));
    moved();
  }

  function set(now) {
    stop();
    at = Math.max(0, Math.min(total(), now));
  }

  return {
    play,
    toggle,
    stepBy,
    stop,
    set,
    get at() {
      return at;
    },
    get playing() {
      return timer !== 0;
    },
  };
}

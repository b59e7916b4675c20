// Asking for the same again and again while something is under way, for as long as a panel is open.

/**
 * `tell(request)` calls `show` with the answer of a request, or shows its error. `later(path, ms)` asks again after
 * some milliseconds, `leave()` ends it all. While the studio loads no error is shown: who watches the studio asks
 * again.
 */
export function asker(context, failed, show) {
  let timer = 0,
    gone = false,
    asking = false;

  async function tell(request) {
    clearTimeout(timer);
    asking = true;
    try {
      const answer = await request;
      if (!gone) show(answer);
    } catch (error) {
      if (error.status !== 503 && !gone) failed.say(context.api.sentence(error));
      return false;
    } finally {
      asking = false;
    }
    return true;
  }

  const later = (path, milliseconds) => {
    if (!gone) timer = setTimeout(() => tell(context.api.get(path)), milliseconds);
  };
  return {
    tell,
    later,
    leave: () => {
      gone = true;
      clearTimeout(timer);
    },
    get asking() {
      return asking;
    },
  };
}

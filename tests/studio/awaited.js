// Before a page of the studio begins: counts what it waits for, so that a test can wait for the same. `window.awaited()`
// is the number of answers, first words of sockets and short delays (such as the pause after a key) that are to come.
// A timer that a timer starts is an animation, and nobody waits for its end.
(() => {
  const AGAIN = 400; // milliseconds from which on a delay is a look at a training, again and again
  const delays = new Set();
  let asked = 0;
  let within = false; // whether a timer is calling

  const counted = async (answer) => {
    asked += 1;
    try {
      return await answer;
    } finally {
      asked -= 1;
    }
  };
  const { fetch, setTimeout, clearTimeout, WebSocket } = window;
  window.fetch = (...given) => counted(fetch(...given));
  const { json } = Response.prototype;
  Response.prototype.json = function () {
    return counted(json.call(this));
  };

  window.setTimeout = (call, wait = 0, ...given) => {
    const number = setTimeout(() => {
      delays.delete(number);
      const before = within;
      within = true;
      try {
        call(...given);
      } finally {
        within = before;
      }
    }, wait);
    if (wait < AGAIN && !within) delays.add(number);
    return number;
  };
  window.clearTimeout = (number) => {
    delays.delete(number);
    clearTimeout(number);
  };

  window.WebSocket = class extends WebSocket {
    constructor(...given) {
      super(...given);
      asked += 1;
      let silent = true;
      const heard = () => {
        if (silent) asked -= 1;
        silent = false;
      };
      for (const what of ["message", "close", "error"]) this.addEventListener(what, heard);
    }
  };

  const drawing = () => !window.Plotly && document.querySelector('script[src="/plotly.js"]') !== null;
  window.awaited = () => asked + delays.size + (drawing() ? 1 : 0);
})();

// What a visitor would stumble over on the page as it is now: things wider than it, faint texts, controls too small.
() => {
  const name = (one) => {
    const text = (one.textContent || one.title || "").trim().slice(0, 40);
    return `${one.tagName.toLowerCase()}.${one.className?.baseVal ?? one.className} "${text}"`;
  };
  const seen = (one) =>
    one.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && one.getClientRects().length > 0;
  const known = new Map(); // a page has thousands of elements in a dozen colours
  const rgba = (text) => {
    if (!known.has(text)) {
      const ink = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d");
      ink.fillStyle = text;
      ink.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = ink.getImageData(0, 0, 1, 1).data;
      known.set(text, [r, g, b, a / 255]);
    }
    return known.get(text);
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3]));
  const ground = (one) => {
    const layers = [];
    for (let at = one; at; at = at.parentElement) layers.push(rgba(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const light = (colour) => {
    const [r, g, b] = colour
      .map((value) => value / 255)
      .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, two) => {
    const [low, high] = [light(one), light(two)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };

  const faint = [];
  for (const one of document.querySelectorAll("body *")) {
    const own = [...one.childNodes].some((child) => child.nodeType === Node.TEXT_NODE && child.data.trim());
    if (
      !own ||
      !seen(one) ||
      one.closest("svg, :disabled, .hidden, .skip, [aria-hidden=true], option, noscript, script, style")
    )
      continue;
    const style = getComputedStyle(one),
      behind = ground(one);
    const ratio = contrast(over(rgba(style.color), behind), behind);
    const large =
      parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) faint.push(`${name(one)}: ${ratio.toFixed(2)}`);
  }

  const wide = [];
  const page = document.scrollingElement;
  if (page.scrollWidth > innerWidth) {
    wide.push(`the page: ${page.scrollWidth} of ${innerWidth}`);
    for (const one of document.querySelectorAll("main *")) {
      const box = one.getBoundingClientRect();
      if (box.right > innerWidth + 1 && seen(one)) wide.push(`${name(one)} ends at ${Math.round(box.right)}`);
    }
  }

  const small = [];
  for (const one of document.querySelectorAll("button, select, textarea, input, nav a")) {
    const target = ["checkbox", "radio"].includes(one.type) ? (one.closest("label") ?? one) : one;
    if (!seen(one) || one.type === "file" || one.closest(".hidden")) continue;
    const box = target.getBoundingClientRect();
    if (box.height < 35.5 || box.width < 24)
      small.push(`${name(target)}: ${Math.round(box.width)} by ${Math.round(box.height)}`);
  }
  return { faint: faint.slice(0, 12), wide: wide.slice(0, 12), small: small.slice(0, 12) };
};

// Small pictures in a row, one a step: what leads there, and which of them is shown.

export const FILM_STYLE = `
.film { display: flex; gap: .35rem; margin: 0 0 .7rem; padding: .15rem; list-style: none; overflow-x: auto; }
.film button { padding: .2rem .2rem 0; line-height: 1.4; background: none; display: block; }
.film canvas { display: block; width: 3.6rem; height: auto; border-radius: .2rem; }
.film small { color: var(--soft); }
.film .later canvas { opacity: .4; }
.film button[aria-current] { border-color: var(--accent); box-shadow: 0 0 0 1px var(--accent); }
.film button[aria-current] small { color: var(--text); font-weight: 700; }`;

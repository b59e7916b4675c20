// Fill levels of gates and the memory behind them, of one model at one step, and of every step as a table.
import { el, visible } from "./dom.js";
import { withSign } from "./equations.js";
import { fromMiddle, strip } from "./strip.js";
import { knownUnit, markCurrent, usualSize } from "./walk.js";

export const STYLE = `
.tanks { display: flex; flex-wrap: wrap; justify-content: center; gap: .8rem; margin: 0 0 .8rem; }
.tank { flex: 1 1 5rem; max-width: 10rem; text-align: center; font-size: .85rem; line-height: 1.3; color: var(--soft); }
.tank .glass { position: relative; height: 7.5rem; border: 2px solid var(--soft); border-top-style: dotted;
  border-radius: .2rem .2rem .6rem .6rem; overflow: hidden; background: var(--raised); margin-bottom: .25rem; }
.tank .water { position: absolute; inset: auto 0 0 0; background: var(--bar); border-top: 3px solid var(--bar-strong);
  transition: height .25s; }
.tank b { display: block; font-size: .95rem; color: var(--text); }
.tank .number { font-size: 1.15rem; font-weight: 600; color: var(--text); font-variant-numeric: tabular-nums; }
.face { display: flex; flex-direction: column; } .face .tanks { flex: 1; }
.tanks.none { border: 2px dashed var(--line); border-radius: .6rem; padding: 1rem; min-height: 5rem;
  align-items: center; }
.memory h4 { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 1rem; margin: .6rem 0 .2rem;
  font-size: .9rem; font-weight: 600; }
.memory h4 .number { font-variant-numeric: tabular-nums; }
.signed { position: relative; height: 1.4rem; background: var(--raised); border: 1px solid var(--line);
  border-radius: .25rem; overflow: hidden; }
.signed .fill { position: absolute; top: 0; bottom: 0; transition: left .25s, width .25s; background: var(--high); }
.signed .fill.below { background: var(--low); }
.signed .zero { position: absolute; left: 50%; top: 0; bottom: 0; border-left: 2px solid var(--text); }
.ends { display: flex; justify-content: space-between; font-size: .8rem; color: var(--soft);
  font-variant-numeric: tabular-nums; }
.pinned { position: relative; padding-bottom: .9rem; } .pinned canvas { cursor: pointer; }
.pin { position: absolute; bottom: 0; transform: translateX(-50%); font-size: .8rem; line-height: 1; }
.levels td, .levels th { padding: .1rem .12rem; text-align: center; border: 0; }
.levels th:first-child { text-align: left; position: sticky; left: 0; background: var(--ground); font-weight: 400;
  padding-right: .6rem; white-space: nowrap; }
.levels th.group { font-weight: 600; padding-top: .2rem; }
.levels .level { min-width: 2.9rem; height: 1.5rem; display: grid; place-items: center; border: 1px solid var(--line);
  border-radius: .25rem; font-size: .85rem; }
.levels tr[data-memory] .level { height: auto; line-height: 1.2; padding-bottom: .1rem; }
.levels .level small { display: block; color: var(--soft); }
.levels .level small.other { color: var(--text); font-weight: 700; }
.levels .level i { display: block; width: 100%; height: 1.1rem; }
.levels td[aria-current] .level { outline: 2px solid var(--accent); outline-offset: -1px; }
.levels thead button { padding: .1rem .35rem; min-height: 2.25rem; max-width: 7rem; overflow: hidden;
  text-overflow: ellipsis; font-size: .85rem; }
.levels thead [aria-current] button { background: var(--accent); color: var(--on-accent); border-color: var(--accent);
  }`;

/** An answer of /api/step for one layer: with its gates and its memory, which is c where there is one, else h. */
export function reading(answer, model, layer) {
  const memory = `${layer}.c` in answer.before.state ? `${layer}.c` : `${layer}.h`;
  const gates = answer.gates.map((gate) => ({ ...gate, field: `${layer}.${gate.name}` }));
  const known = knownUnit(model, "number");
  return {
    ...answer,
    model,
    gates,
    memory,
    units: answer.before.state[memory].length,
    known: known?.field === memory ? known.index : -1,
  };
}

/** The values of a state or a gate at a step. Step 0 is before the first word: there are no gates yet. */
function values(read, fieldName, at) {
  const step = at ? read.steps[at - 1] : read.before;
  return step.state[fieldName] ?? step.gates?.[fieldName];
}

/** The value of one unit; of all units (-1) the mean, and of the memory the mean size. */
function level(read, fieldName, at, unit) {
  const all = values(read, fieldName, at);
  if (unit >= 0) return all[unit];
  return average(fieldName === read.memory ? all.map(Math.abs) : all);
}

/**
 * The unit that is shown of a model: the chosen one, or the one that carries the number where none was chosen (null). A
 * smaller model may not have the chosen unit: then it is -1, the mean of all.
 */
export function unitOf(read, unit) {
  const wanted = unit ?? read.known;
  return wanted < read.units ? wanted : -1;
}
/** The values of a field ("forget", "c") before and after a step, of one unit or the mean of all. */
export function beforeAndNow(read, fieldName, at, wanted) {
  const full = `${read.memory.split(".")[0]}.${fieldName}`,
    unit = unitOf(read, wanted);
  const [before, now] = [at - 1, at]
    .map((step) => values(read, full, step))
    .map((all) => all && (unit < 0 ? average(all) : all[unit]));
  return now === undefined ? undefined : [before, now];
}
function average(all) {
  return all.reduce((sum, value) => sum + value, 0) / all.length;
}
function range(read, unit) {
  return Math.max(1e-6, ...read.steps.map((_, i) => Math.abs(level(read, read.memory, i + 1, unit))));
}
function memoryName(read) {
  return read.memory.endsWith(".c") ? "Cell state c" : "Hidden state h";
}

/**
 * The gates as tanks and the memory as a bar and a strip: { node, draw(at, unit) }. A click on the strip chooses a
 * unit.
 */
export function face(read, chooseUnit) {
  const title = el("h3"),
    about = el("span", { class: "note" }),
    number = el("span", { class: "number" });
  const tanks = read.gates.map(tank);
  const fill = el("div", { class: "fill" }),
    low = el("span"),
    high = el("span"),
    moved = el("p", { class: "note" });
  const bar = el("div", { class: "signed", role: "img" }, fill, el("div", { class: "zero" }));
  const line = strip(`${memoryName(read)} of ${read.model.label}`),
    pin = el("span", { class: "pin", "aria-hidden": "true" }, "▲");
  line.node.addEventListener("click", (event) => {
    const box = line.node.getBoundingClientRect();
    chooseUnit(Math.min(read.units - 1, Math.floor(((event.clientX - box.left) / box.width) * read.units)));
  });
  const gates = tanks.length
    ? el(
        "div",
        { class: "tanks" },
        tanks.map((one) => one.node),
      )
    : el(
        "p",
        { class: "tanks none note" },
        "No gates: every word recomputes the whole state, from the word and the old state.",
      );
  const node = el(
    "section",
    { class: "card face", "data-model": read.model.name },
    title,
    gates,
    el(
      "div",
      { class: "memory", "data-field": read.memory },
      el("h4", {}, el("span", {}, memoryName(read), " ", about), number),
      bar,
      el("div", { class: "ends" }, low, el("span", {}, "0"), high),
      el("h4", {}, "All its units"),
      el("div", { class: "pinned" }, line.node, pin),
      moved,
    ),
  );
  const strongest = usualSize(read.steps.flatMap((step) => step.state[read.memory]));

  function draw(at, wanted) {
    const unit = unitOf(read, wanted);
    title.textContent = `${read.model.label} reads “${visible(read.steps[at - 1].form)}”`;
    for (const one of tanks) one.draw(level(read, one.field, at, unit));
    const now = level(read, read.memory, at, unit),
      most = range(read, unit),
      width = (50 * Math.abs(now)) / most;
    about.textContent = unit < 0 ? `mean size of ${read.units} units` : `unit ${unit}`;
    number.textContent = now.toFixed(3);
    fill.style.left = `${now < 0 ? 50 - width : 50}%`;
    fill.style.width = `${width}%`;
    fill.classList.toggle("below", now < 0);
    low.textContent = (-most).toFixed(2).replace("-", "−");
    high.textContent = `+${most.toFixed(2)}`;
    bar.setAttribute("aria-label", `${memoryName(read)}, ${about.textContent}: ${now.toFixed(3)}`);
    line.draw([values(read, read.memory, at)], { most: strongest });
    pin.style.left = `${(100 * (Math.max(0, unit) + 0.5)) / read.units}%`;
    pin.style.display = unit < 0 ? "none" : "";
    const before = values(read, read.memory, at - 1);
    const change = average(values(read, read.memory, at).map((value, i) => Math.abs(value - before[i])));
    const size = average(before.map(Math.abs));
    const [by, from] = [change, size].map((value) => value.toFixed(3));
    moved.textContent = `This word has moved it by ${by} per unit; its mean size was ${from} before.`;
  }
  return { node, draw };
}

/** A gate as a tank, from 0 to 1; a candidate, which has a sign, from the middle. */
function tank(gate) {
  const water = el("div", { class: "water" }),
    number = el("span", { class: "number" });
  const glass = el("div", { class: "glass", role: "img" }, water);
  const node = el(
    "div",
    { class: "tank", "data-field": gate.field },
    number,
    glass,
    el("b", {}, titleOf(gate)),
    gate.meaning,
  );
  const draw = (now) => {
    const share = gate.letter ? Math.min(50, 50 * Math.abs(now)) : 100 * now;
    water.style.height = `${share}%`;
    water.style.bottom = gate.letter ? `${now < 0 ? 50 - share : 50}%` : "0";
    number.textContent = now.toFixed(3);
    glass.setAttribute("aria-label", `${gate.letter ? titleOf(gate) : `${gate.name} gate`} ${now.toFixed(3)}`);
  };
  return { node, draw, field: gate.field };
}

function titleOf(gate) {
  return gate.letter ? `candidate ${gate.letter}` : gate.name;
}

/**
 * Every step as a table, of one or more readings with the same words: { node, draw(at, unit) }. A word leads to its
 * step; one the model does not know is dashed and has a "?". `twin` is what the first model does with the twin of the
 * sentence, or null.
 */
export function levelTable(reads, chosen, twin = null) {
  const heads = reads[0].steps.map((step, i) =>
    el(
      "th",
      { scope: "col" },
      el(
        "button",
        {
          type: "button",
          "aria-label": `Step ${i + 1}: ${visible(step.form)}`,
          style: step.known ? null : "border-style:dashed",
          title: step.known ? null : `unknown to the model, read as ${step.token}`,
          onclick: () => chosen(i + 1),
        },
        visible(step.form),
        step.known ? null : " ?",
      ),
    ),
  );
  const rows = reads.flatMap((read) =>
    [...read.gates.map((gate) => gate.field), read.memory].map((fieldName) =>
      line(read, fieldName, read === reads[0] ? twin : null),
    ),
  );
  if (twin) rows.splice(reads[0].gates.length + 1, 0, line(reads[0], reads[0].memory, twin, true));
  const body = reads.flatMap((read) => [
    el("tr", {}, el("th", { class: "group", scope: "rowgroup" }, read.model.label)),
    ...rows.filter((row) => row.read === read).map((row) => row.node),
  ]);
  const node = el(
    "table",
    { class: "levels" },
    el("thead", {}, el("tr", {}, el("th", {}, "word"), heads)),
    el("tbody", {}, body),
  );
  const draw = (at, unit) => {
    for (const [i, head] of heads.entries()) markCurrent(head, i + 1 === at);
    for (const row of rows) row.draw(at, unit);
  };
  return { node, draw, heads };
}

/** A row of the table. The memories of a sentence and its twin have one scale; `isTwin`: it is the row of the twin. */
function line(read, fieldName, twin, isTwin = false) {
  const isMemory = fieldName === read.memory,
    name = fieldName.split(".")[1];
  const source = isTwin ? twin : read;
  const cells = read.steps.map((step, i) => {
    const form = source.steps[i].form,
      number = el("span"),
      bar = isMemory ? el("i") : null;
    const box = el(
      "div",
      { class: "level" },
      isTwin ? el("small", { class: form === step.form ? "" : "other" }, visible(form)) : null,
      bar,
      number,
    );
    return { node: el("td", {}, box), number, bar: bar ?? box };
  });
  const gate = read.gates.find((one) => one.field === fieldName);
  const title = isTwin ? "its twin" : isMemory ? `memory ${name}` : titleOf(gate);
  const node = el(
    "tr",
    { "data-field": fieldName, "data-memory": isMemory, [isTwin ? "data-twin" : "data-of"]: read.model.name },
    el("th", { scope: "row" }, title),
    cells.map((cell) => cell.node),
  );
  const draw = (at, wanted) => {
    const unit = unitOf(read, wanted);
    const most = isMemory ? Math.max(range(read, unit), twin ? range(twin, unit) : 0) : 1;
    cells.forEach((cell, i) => {
      const now = level(source, fieldName, i + 1, unit);
      markCurrent(cell.node, i + 1 === at);
      cell.number.textContent =
        gate?.letter || (isMemory && unit >= 0) ? withSign(now) : now.toFixed(2).replace("-", "−");
      cell.bar.style.background =
        isMemory || gate?.letter
          ? fromMiddle(Math.max(-1, Math.min(1, now / most)), !isMemory)
          : `linear-gradient(to top, var(--bar) ${100 * now}%, transparent 0)`;
    });
  };
  return { node, draw, read };
}

/**
 * What a unit holds from the subject up to the verb, in the sentence and in its twin, in words and numbers; "" without
 * a twin.
 */
export function describeMemory(read, twin, wanted) {
  const unit = unitOf(read, wanted);
  if (!twin || unit < 0) return "";
  const swapped = [...read.steps.keys()].filter((i) => read.steps[i].form !== twin.steps[i].form);
  const [subject, verb] = [swapped[0], swapped.at(-1)];
  if (verb - subject < 2) return "";
  // the steps from the subject to the word before the verb
  const between = Array.from({ length: verb - subject }, (_, i) => subject + i + 1);
  const span = (one) => {
    const all = between.map((at) => level(one, read.memory, at, unit));
    return `${withSign(Math.min(...all))} to ${withSign(Math.max(...all))}`;
  };
  const forget = read.gates.find((gate) => gate.name === "forget")?.field;
  const form = (one, step) => `“${visible(one.steps[step].form)}”`;
  const open = forget && average(between.slice(1).map((at) => level(read, forget, at, unit)));
  const kept = forget ? ` Its forget gate is ${open.toFixed(2)} on average after ${form(read, subject)}.` : "";
  const name = read.memory.split(".")[1];
  return (
    `From ${form(read, subject)} to the word before ${form(read, verb)}, ${name} of unit ${unit} is ${span(read)}; ` +
    `from ${form(twin, subject)}, in the twin sentence, ${span(twin)}.${kept}`
  );
}

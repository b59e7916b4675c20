// The panels in the order of the tabs. Each is { id, title, see, about, mount(place, context) }: `see` says in one line
// what to see, `about` what to do; `own` has the `see` and `about` for models that did not learn the generated
// sentences.
// biome-ignore-all assist/source/organizeImports: the imports stand in the order of the tabs
import { panel as keyboard } from "./keyboard.js";
import { panel as counting } from "./counting.js";
import { panel as windowed } from "./window.js";
import { panel as recurrence } from "./recurrence.js";
import { panel as gates } from "./gates.js";
import { panel as backprop } from "./backprop.js";
import { panel as eigenvalue } from "./eigenvalue.js";
import { panel as generator } from "./generator.js";
import { panel as surprisal } from "./surprisal.js";
import { panel as units } from "./units.js";
import { panel as compare } from "./compare.js";
import { panel as bottleneck } from "./bottleneck.js";
import { panel as attention } from "./attention.js";
import { panel as tagging } from "./tagging.js";
import { panel as sentiment } from "./sentiment.js";
import { panel as forecast } from "./forecast.js";
import { panel as captions } from "./captions.js";
import { panel as moving } from "./moving.js";
import { panel as glimpses } from "./glimpses.js";
import { panel as drawing } from "./drawing.js";
import { panel as catching } from "./catch.js";
import { panel as train } from "./train.js";

export const PANELS = [
  keyboard,
  counting,
  windowed,
  recurrence,
  gates,
  backprop,
  eigenvalue,
  generator,
  surprisal,
  units,
  compare,
  bottleneck,
  attention,
  tagging,
  sentiment,
  forecast,
  captions,
  moving,
  glimpses,
  drawing,
  catching,
  train,
];

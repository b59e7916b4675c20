// Texts to tokens and back, as the tokenizers in `text/tokenizers` do it.

// white space as Python's str.split has it
const SPACE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const INLINE = SPACE.replace("\\t-\\r", "\\t\\v-\\r"); // without the newline
const SPACES = new RegExp(`[${SPACE}]+`, "u");
const FORMS = new RegExp(
  `\\n| ?[\\p{L}\\p{Nl}\\p{No}]+| ?\\p{Nd}+| ?[^\\p{L}\\p{N}_${SPACE}]+| ?_+|[${INLINE}]+`,
  "gu",
);
// The same pattern as the engine of learned pieces has it, which splits forms further: its words have marks in them.
const LETTERS = "\\p{Alphabetic}\\p{M}\\p{Pc}\\xb2\\xb3\\xb9\\xbc-\\xbe";
const PARTS = new RegExp(
  `\\n| ?(?:(?!_)[${LETTERS}])+| ?\\p{Nd}+| ?[^${LETTERS}\\p{Nd}\\t-\\r\\x85\\p{Z}]+| ?_+|[\\t\\v-\\r\\x85\\p{Z}]+`,
  "gu",
);
const utf8 = new TextEncoder();

/** A text as it is read in training: no byte order mark, LF between lines, lower case where the model has it. */
function normalText(text, words) {
  const normal = text.replace(/^\ufeff/, "").replace(/\r\n?/g, "\n");
  return words.lower ? normal.toLowerCase() : normal;
}

/** The tokenizer of a vocabulary: { encode(text), append(text, tokens), piece(token) }; of whole words typed(text) too. */
export function tokenizerOf(words) {
  const Kind = { char: Characters, byte: Bytes, word: Words, prose: Prose, bpe: Bpe, wordpiece: WordPiece }[
    words.tokens
  ];
  return new Kind(words);
}

class Forms {
  constructor(words) {
    this.words = words;
    this.forms = words.forms;
    this.index = new Map(words.forms.map((form, token) => [form, token]));
    this.line = this.index.get("\n");
  }

  encode(text) {
    return this.cut(normalText(text, this.words)).map((form) => this.index.get(form) ?? this.words.unknown);
  }

  /** What a token is called on the page. */
  piece(token) {
    return this.forms[token];
  }

  append(text, tokens) {
    return text + tokens.map((token) => this.forms[token]).join("");
  }

  /** The last word of a text, which may be half typed: { context, begun }; null where there is none. */
  typed(text) {
    const begun = this.lastWord(text);
    if (!begun) return null;
    return { context: text.slice(0, -begun.length), begun: this.words.lower ? begun.toLowerCase() : begun };
  }

  lastWord() {
    return null;
  }

  /** The tokens whose forms begin so. */
  beginning(begun) {
    return this.forms.flatMap((form, token) =>
      form.startsWith(begun) && token !== this.words.unknown && token !== this.line ? [token] : [],
    );
  }
}

class Characters extends Forms {
  cut(text) {
    return Array.from(text);
  }
}

class Prose extends Forms {
  cut(text) {
    return text.match(FORMS) ?? [];
  }

  lastWord(text) {
    const last = this.cut(text).at(-1);
    return last && /[\p{L}\p{N}]$/u.test(last) ? last : null;
  }
}

class Words extends Forms {
  constructor(words) {
    super(words);
    this.line = 1;
  }

  cut(text) {
    // a literal </s> is no line end: as <s> it is unknown
    const marked = text.split(/(\n)/).flatMap((part) =>
      part === "\n"
        ? ["</s>"]
        : part
            .split(SPACES)
            .filter(Boolean)
            .map((word) => (word === "</s>" ? "<s>" : word)),
    );
    return marked;
  }

  piece(token) {
    return token === 1 ? "\n" : this.forms[token];
  }

  lastWord(text) {
    return text.split(SPACES).at(-1);
  }

  append(text, tokens) {
    let grown = text;
    for (const token of tokens) {
      if (token === 1) grown = `${grown.replace(/ $/, "")}\n`;
      else grown += (grown && !/\s$/.test(grown) ? " " : "") + this.forms[token];
    }
    return grown;
  }
}

/** Tokens of bytes: what a token appends may be part of a character, so whole runs are decoded. */
class ByteTokens {
  constructor(words, pieces) {
    this.words = words;
    this.pieces = pieces;
  }

  append(text, tokens) {
    const bytes = tokens.flatMap((token) => Array.from(this.pieces[token]));
    return text + new TextDecoder().decode(Uint8Array.from(bytes));
  }

  piece(token) {
    const bytes = this.pieces[token];
    const text = new TextDecoder().decode(bytes);
    if (!text.includes("\ufffd")) return text;
    return Array.from(bytes, (byte) => `<${byte.toString(16).toUpperCase().padStart(2, "0")}>`).join("");
  }
}

class Bytes extends ByteTokens {
  constructor(words) {
    super(
      words,
      Array.from({ length: 256 }, (_, value) => Uint8Array.of(value)),
    );
    this.line = 10;
  }

  encode(text) {
    return Array.from(utf8.encode(normalText(text, this.words)));
  }
}

/** The character that stands for each byte in byte-level pieces: visible ones for themselves, others from U+0100 on. */
function byteAlphabet() {
  const letters = new Array(256);
  let hidden = 0;
  for (let value = 0; value < 256; value++) {
    const visible = (value > 32 && value < 127) || (value > 160 && value < 256 && value !== 173);
    letters[value] = String.fromCharCode(visible ? value : 256 + hidden++);
  }
  return letters;
}

class Pieces extends ByteTokens {
  constructor(words) {
    const alphabet = byteAlphabet();
    const values = new Map(alphabet.map((letter, value) => [letter, value]));
    super(
      words,
      words.forms.map((form) => Uint8Array.from(form, (letter) => values.get(letter))),
    );
    this.alphabet = alphabet;
    this.index = new Map(words.forms.map((form, token) => [form, token]));
    this.line = this.index.get(alphabet[10]);
    this.known = new Map();
    this.cuts = new RegExp(`[^]{1,${words.longest}}`, "gu"); // longer forms are cut at fixed places
  }

  parts(text) {
    const forms = normalText(text, this.words).match(FORMS) ?? [];
    return forms.flatMap((form) => form.match(this.cuts)).flatMap((form) => form.match(PARTS));
  }

  encode(text) {
    const tokens = [];
    for (const form of this.parts(text)) {
      if (!this.known.has(form)) {
        const letters = Array.from(utf8.encode(form), (byte) => this.alphabet[byte]);
        this.known.set(form, this.split(letters));
      }
      tokens.push(...this.known.get(form));
    }
    return tokens;
  }
}

class Bpe extends Pieces {
  constructor(words) {
    super(words);
    this.ranks = new Map(words.merges.map(([left, right], rank) => [`${left} ${right}`, rank]));
  }

  /** Join the pair that was learned first, again and again. */
  split(letters) {
    const parts = letters.slice();
    for (;;) {
      let best = Infinity;
      let at = -1;
      for (let i = 0; i + 1 < parts.length; i++) {
        const rank = this.ranks.get(`${parts[i]} ${parts[i + 1]}`) ?? Infinity;
        if (rank < best) {
          best = rank;
          at = i;
        }
      }
      if (at < 0) return parts.map((part) => this.index.get(part));
      parts.splice(at, 2, parts[at] + parts[at + 1]);
    }
  }
}

class WordPiece extends Pieces {
  /** From the left, the longest piece there is. */
  split(letters) {
    const tokens = [];
    for (let at = 0; at < letters.length; ) {
      let end = letters.length;
      while (!this.index.has(letters.slice(at, end).join(""))) end--; // every single byte is a piece
      tokens.push(this.index.get(letters.slice(at, end).join("")));
      at = end;
    }
    return tokens;
  }
}

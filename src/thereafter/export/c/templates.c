/* Texts of a generated file: `tokens.filled` puts values in the places of ${...}; a text begins right below its name. */
/* --- top */
/* written by thereafter: ${header} says what it is */
#include "${header}"

#include <math.h>
#include <stddef.h>

/* --- header */
/* ${about}

   ${name}_state s;
   float logits[${upper}_WORDS];
   ${name}_start(&s);                  before a text
   ${name}_predict(&s, logits);        what may come first
   ${name}_step(&s, token, logits);    read a token; what may come next (logits may be 0: read only)
   ${name}_log_p(logits);              logits as log probabilities, in place

   Nothing is allocated and nothing is shared: as many states as you like, in as many threads. */
#ifndef ${upper}_H
#define ${upper}_H

#ifdef __cplusplus
extern "C" {
#endif

#define ${upper}_WORDS ${words}
#define ${upper}_LONGEST ${longest} /* bytes of the longest token */

typedef struct {
${state}
} ${name}_state; /* ${bytes} bytes */

void ${name}_start(${name}_state *state);
void ${name}_step(${name}_state *state, int token, float *logits);
void ${name}_predict(const ${name}_state *state, float *logits);
void ${name}_log_p(float *logits);

/* The bytes that a token appends, at most ${upper}_LONGEST and no final 0; returns how many. */
int ${name}_decode(int token, char *text);
${encode}
#ifdef __cplusplus
}
#endif
#endif
/* --- declared */

/* The tokens of a text in UTF-8 that ends with 0, at most `most` of them; returns how many.
   As in training, ${normal}. */
int ${name}_encode(const char *text, int *tokens, int most);
/* --- public */

void ${name}_step(${name}_state *state, int token, float *logits)
{
${restart}${room}    if (token >= 0 && token < ${words}) body(state, token);
    if (logits) ${name}_predict(state, logits);
}

void ${name}_log_p(float *logits)
{
    log_softmax(logits, ${words});
}
/* --- restart */
    if (token == ${restart}) { /* a line ends: the next begins with nothing in mind */
        ${name}_start(state);
        if (logits) ${name}_predict(state, logits);
        return;
    }
/* --- room */
    if (state->in_sight == ${context}) { /* no room: read the last half again, from position 0 */
        state->in_sight = 0;
        for (int i = ${half}; i < ${context}; i++) body(state, state->tokens[i]);
    }
/* --- trie */

/* The child of a context with that word; 0 if there is none. */
static int child(int context, int w)
{
    int low = first_child[context], high = first_child[context + 1];
    const int end = high;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (word[middle] < w) low = middle + 1;
        else high = middle;
    }
    return low < end && word[low] == w ? low : 0;
}

void ${name}_start(${name}_state *state)
{
    state->node = ${first};
}

void ${name}_step(${name}_state *state, int token, float *logits)
{
    if (token == ${restart}) ${name}_start(state);
    else if (token >= 0 && token < ${words}) {
        int context = state->node, next;
        while (!(next = child(context, token))) context = suffix[context]; /* every word is a child of the root */
        state->node = next < ${contexts} ? next : suffix[next];
    }
    if (logits) ${name}_predict(state, logits);
}
${predict}
void ${name}_log_p(float *logits)
{
    log_softmax(logits, ${words});
}

/* --- backoff */

void ${name}_predict(const ${name}_state *state, float *logits)
{
    int chain[${order}], n = 0;
    for (int context = state->node; context; context = suffix[context]) chain[n++] = context;
    for (int w = 0; w < ${words}; w++) logits[w] = logp[1 + w];
    while (n--) { /* from the shortest context to the longest */
        const int context = chain[n];
        for (int w = 0; w < ${words}; w++) logits[w] += backoff[context];
        for (int i = first_child[context]; i < first_child[context + 1]; i++) logits[word[i]] = logp[i];
    }
}
/* --- uniform */

void ${name}_predict(const ${name}_state *state, float *logits)
{
    int context = state->node; /* the longest context after which anything was seen decides */
    while (context && first_child[context] == first_child[context + 1]) context = suffix[context];
    for (int w = 0; w < ${words}; w++) logits[w] = context ? backoff[context] : logp[1 + w];
    if (context)
        for (int i = first_child[context]; i < first_child[context + 1]; i++) logits[word[i]] = logp[i];
}
/* --- decode */

int ${name}_decode(int token, char *text)
{
    if (token < 0 || token >= ${size}) return 0;
    const int begin = piece_ends[token], n = piece_ends[token + 1] - begin;
    for (int i = 0; i < n; i++) text[i] = (char)pieces[begin + i];
    return n;
}
/* --- put_bytes */

/* The bytes of a character; of one that stands for a byte outside of UTF-8, that byte. */
static int put_tokens(long point, int *tokens)
{
    static const int leads[] = {0, 0xC0, 0xE0, 0xF0};
    const int escaped = point >= 0xDC80 && point <= 0xDCFF;
    const int more = escaped || point < 0x80 ? 0 : point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    tokens[0] = escaped ? (int)(point & 0xFF) : leads[more] | (int)(point >> 6 * more);
    for (int i = 1; i <= more; i++) tokens[i] = 0x80 | (int)(point >> 6 * (more - i) & 0x3F);
    return more + 1;
}
/* --- put_character */

static int put_tokens(long point, int *tokens)
{
    int low = 0, high = ${known};
    while (low < high) {
        const int middle = (low + high) / 2;
        if (character_points[middle] < point) low = middle + 1;
        else high = middle;
    }
    tokens[0] = low < ${known} && character_points[low] == point ? character_tokens[low] : ${unknown};
    return 1;
}
/* --- encode */

int ${name}_encode(const char *text, int *tokens, int most)
{
    const unsigned char *at = (const unsigned char *)text;
    int n = 0${flags};
    if (at[0] == 0xEF && at[1] == 0xBB && at[2] == 0xBF) at += 3; /* a byte order mark */
    while (*at && n < most) {
        long points[2] = {next_point(&at), 0};
        if (points[0] == '\r') { /* CR and CR LF are LF */
            points[0] = '\n';
            at += *at == '\n';
        }
${lower}        for (int p = 0; p < 2 && (!p || points[p]); p++) {
            int put[4];
${letters}            const int size = put_tokens(points[p], put);
            for (int i = 0; i < size && n < most; i++) tokens[n++] = put[i];
        }
    }
    return n;
}
/* --- lower */
        const long point = points[0];
        if (point != 0x3A3) lower_case(lower_points, ${lower}, points);
        else points[0] = cased && !cased_next(at, cased_points, ${cased}, passed_points, ${passed}) ? 0x3C2 : 0x3C3;
        if (!in_ranges(passed_points, ${passed}, point)) cased = in_ranges(cased_points, ${cased}, point);
/* --- letters */
            if (points[p] != '\n' && !in_ranges(letter_points, ${letters}, points[p])) {
                if (spaced) continue;
                points[p] = ' ';
            }
            spaced = points[p] == ' ';

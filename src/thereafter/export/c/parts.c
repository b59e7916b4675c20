/* --- zero */
static void zero(float *restrict out, int n)
{
    for (int i = 0; i < n; i++) out[i] = 0.0f;
}

/* --- copy */
static void copy(float *restrict out, const float *restrict x, int n)
{
    for (int i = 0; i < n; i++) out[i] = x[i];
}

/* --- add */
static void add(float *restrict out, const float *restrict x, int n)
{
    for (int i = 0; i < n; i++) out[i] += x[i];
}

/* --- scale */
static void scale(float *out, float by, int n)
{
    for (int i = 0; i < n; i++) out[i] *= by;
}

/* --- linear_float */
/* out += W x. W is stored column by column, `apart` numbers each: the compiler turns the inner loop, in which no sum
   waits for another, into vector instructions without being allowed to change the order of any sum. */
static void linear_float(float *restrict out, const float *restrict weight, const float *restrict x, int rows,
                         int columns, int apart)
{
    int j = 0;
    for (; j + 8 <= columns; j += 8) {
        const float *restrict w = weight + (size_t)j * apart;
        const float a = x[j], b = x[j + 1], c = x[j + 2], d = x[j + 3];
        const float e = x[j + 4], f = x[j + 5], g = x[j + 6], h = x[j + 7];
        for (int i = 0; i < rows; i++)
            out[i] += ((w[i] * a + w[apart + i] * b) + (w[2 * apart + i] * c + w[3 * apart + i] * d)) +
                      ((w[4 * apart + i] * e + w[5 * apart + i] * f) + (w[6 * apart + i] * g + w[7 * apart + i] * h));
    }
    for (; j < columns; j++) {
        const float *restrict w = weight + (size_t)j * apart;
        const float a = x[j];
        for (int i = 0; i < rows; i++) out[i] += w[i] * a;
    }
}

/* --- linear_int8 */
/* out += W x with W = whole numbers times a scale for each row; column by column, as for floats. */
static void linear_int8(float *restrict out, const signed char *restrict weight, const float *restrict row_scale,
                        const float *restrict x, int rows, int columns, int apart)
{
    int j = 0;
    for (; j + 8 <= columns; j += 8) {
        const signed char *restrict w = weight + (size_t)j * apart;
        const float a = x[j], b = x[j + 1], c = x[j + 2], d = x[j + 3];
        const float e = x[j + 4], f = x[j + 5], g = x[j + 6], h = x[j + 7];
        for (int i = 0; i < rows; i++)
            out[i] += row_scale[i] *
                      (((w[i] * a + w[apart + i] * b) + (w[2 * apart + i] * c + w[3 * apart + i] * d)) +
                       ((w[4 * apart + i] * e + w[5 * apart + i] * f) + (w[6 * apart + i] * g + w[7 * apart + i] * h)));
    }
    for (; j < columns; j++) {
        const signed char *restrict w = weight + (size_t)j * apart;
        const float a = x[j];
        for (int i = 0; i < rows; i++) out[i] += row_scale[i] * (w[i] * a);
    }
}

/* --- row_float */
/* A row of a table; its numbers lie `apart` from each other (1, or the rows of a table stored column by column). */
static void row_float(float *restrict out, const float *restrict first, int n, int apart)
{
    for (int i = 0; i < n; i++) out[i] = first[(size_t)i * apart];
}

/* --- row_int8 */
/* A row of a table of whole numbers with a scale for each row. */
static void row_int8(float *restrict out, const signed char *restrict first, float row_scale, int n, int apart)
{
    for (int i = 0; i < n; i++) out[i] = row_scale * first[(size_t)i * apart];
}

/* --- sigmoid */
static float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

/* --- softplus */
static float softplus(float x)
{
    return x > 20.0f ? x : log1pf(expf(x));
}

/* --- norm */
/* Layer normalisation with a gain and, unless it is 0, a shift. */
static void norm(float *out, const float *gain, const float *shift, int n)
{
    double mean = 0.0, squares = 0.0;
    for (int i = 0; i < n; i++) mean += out[i];
    mean /= n;
    for (int i = 0; i < n; i++) squares += (out[i] - mean) * (out[i] - mean);
    const float by = (float)(1.0 / sqrt(squares / n + 1e-5)), middle = (float)mean;
    for (int i = 0; i < n; i++) out[i] = (out[i] - middle) * by * gain[i] + (shift ? shift[i] : 0.0f);
}

/* --- log_softmax */
static void log_softmax(float *out, int n)
{
    float most = out[0];
    double sum = 0.0;
    for (int i = 1; i < n; i++) most = out[i] > most ? out[i] : most;
    for (int i = 0; i < n; i++) sum += expf(out[i] - most);
    const float all = most + (float)log(sum);
    for (int i = 0; i < n; i++) out[i] -= all;
}

/* --- act_tanh */
static void act_tanh(float *out, int n)
{
    for (int i = 0; i < n; i++) out[i] = tanhf(out[i]);
}

/* --- act_sigmoid: sigmoid */
static void act_sigmoid(float *out, int n)
{
    for (int i = 0; i < n; i++) out[i] = sigmoid(out[i]);
}

/* --- act_relu */
static void act_relu(float *out, int n)
{
    for (int i = 0; i < n; i++) out[i] = out[i] > 0.0f ? out[i] : 0.0f;
}

/* --- act_relu6 */
static void act_relu6(float *out, int n)
{
    for (int i = 0; i < n; i++) out[i] = out[i] > 6.0f ? 6.0f : out[i] > 0.0f ? out[i] : 0.0f;
}

/* --- act_leaky_relu */
static void act_leaky_relu(float *out, int n)
{
    for (int i = 0; i < n; i++) out[i] = out[i] > 0.0f ? out[i] : 0.01f * out[i];
}

/* --- act_gelu */
static void act_gelu(float *out, int n)
{
    for (int i = 0; i < n; i++) out[i] = 0.5f * out[i] * (1.0f + erff(out[i] * 0.70710678f));
}

/* --- act_gelu_tanh */
static void act_gelu_tanh(float *out, int n)
{
    for (int i = 0; i < n; i++) {
        const float x = out[i];
        out[i] = 0.5f * x * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
    }
}

/* --- lstm_memory: sigmoid */
/* c = f c + i g. z has the sums of the gates i, f, g, o (i, g, o where f = 1 - i), and has the gates afterwards. A
   peephole of 0 is none. */
static void lstm_memory(float *c, float *z, const float *peep_i, const float *peep_f, const float *peep_o, int coupled,
                        int n)
{
    float *f = coupled ? 0 : z + n, *g = z + (coupled ? 1 : 2) * n, *o = g + n;
    for (int i = 0; i < n; i++) {
        const float before = c[i];
        z[i] = sigmoid(z[i] + (peep_i ? peep_i[i] * before : 0.0f));
        float keep = 1.0f - z[i];
        if (f) keep = f[i] = sigmoid(f[i] + (peep_f ? peep_f[i] * before : 0.0f));
        g[i] = tanhf(g[i]);
        c[i] = keep * before + z[i] * g[i];
        o[i] = sigmoid(o[i] + (peep_o ? peep_o[i] * c[i] : 0.0f));
    }
}

/* --- lstm_output */
/* h = o tanh(c). */
static void lstm_output(float *h, const float *o, const float *c, int n)
{
    for (int i = 0; i < n; i++) h[i] = o[i] * tanhf(c[i]);
}

/* --- gru: sigmoid */
/* The gated recurrent unit whose reset comes after the product: z = W x + b, r = U h + b'. `old`: the gate keeps. */
static void gru(float *h, float *z, const float *r, int old, int n)
{
    float *u = z + n, *fresh = z + 2 * n;
    for (int i = 0; i < n; i++) {
        z[i] = sigmoid(z[i] + r[i]);
        u[i] = sigmoid(u[i] + r[n + i]);
        fresh[i] = tanhf(fresh[i] + z[i] * r[2 * n + i]);
        const float keep = old ? u[i] : 1.0f - u[i];
        h[i] = keep * h[i] + (1.0f - keep) * fresh[i];
    }
}

/* --- gru_reset: sigmoid */
/* The unit whose reset comes before the product: its gates, and out = reset h, of which that product is made. */
static void gru_reset(float *restrict out, float *restrict z, const float *restrict r, const float *restrict h, int n)
{
    for (int i = 0; i < 2 * n; i++) z[i] = sigmoid(z[i] + r[i]);
    for (int i = 0; i < n; i++) out[i] = z[i] * h[i];
}

/* --- gru_new */
/* Its second half, with q the product. */
static void gru_new(float *h, float *z, const float *q, int old, int n)
{
    float *u = z + n, *fresh = z + 2 * n;
    for (int i = 0; i < n; i++) {
        fresh[i] = tanhf(fresh[i] + q[i]);
        const float keep = old ? u[i] : 1.0f - u[i];
        h[i] = keep * h[i] + (1.0f - keep) * fresh[i];
    }
}

/* --- mingru: sigmoid */
static void mingru(float *h, float *z, int n)
{
    for (int i = 0; i < n; i++) {
        z[i] = sigmoid(z[i]);
        h[i] = (1.0f - z[i]) * h[i] + z[i] * z[n + i];
    }
}

/* --- minlstm: sigmoid softplus */
static void minlstm(float *h, float *z, int n)
{
    for (int i = 0; i < n; i++) {
        const float forget = sigmoid(softplus(-z[i]) - softplus(-z[n + i]));
        z[i] = 1.0f - forget;
        z[n + i] = forget;
        h[i] = forget * h[i] + (1.0f - forget) * z[2 * n + i];
    }
}

/* --- diagonal */
static void diagonal(float *h, const float *z, const float *decay, const float *factor, int n)
{
    for (int i = 0; i < n; i++) h[i] = decay[i] * h[i] + factor[i] * z[i];
}

/* --- highway: sigmoid */
/* out = t out + (1 - t) x, t being given as its sum. */
static void highway(float *out, const float *x, const float *t, int n)
{
    for (int i = 0; i < n; i++) out[i] = x[i] + sigmoid(t[i]) * (out[i] - x[i]);
}

/* --- shift */
/* Forget the first n of `all` numbers, and put x behind the others. */
static void shift(float *out, const float *x, int n, int all)
{
    for (int i = 0; i + n < all; i++) out[i] = out[i + n];
    for (int i = 0; i < n; i++) out[all - n + i] = x[i];
}

/* --- mean */
/* The mean of the last vectors of n numbers, of fewer than `window` at the beginning. */
static void mean(float *out, const float *x, float *count, int n, int window)
{
    if (*count < (float)window) *count += 1.0f;
    for (int i = 0; i < n; i++) {
        float sum = 0.0f;
        for (int w = 0; w < window; w++) sum += x[w * n + i];
        out[i] = sum / *count;
    }
}

/* --- attend */
/* Causal attention: q has query, key and value of the token at `at`; keys and values hold those of all before it. */
static void attend(float *out, const float *q, float *keys, float *values, float *scores, int heads, int n, int at)
{
    const int size = n / heads;
    const float by = 1.0f / sqrtf((float)size);
    for (int i = 0; i < n; i++) {
        keys[at * n + i] = q[n + i];
        values[at * n + i] = q[2 * n + i];
        out[i] = 0.0f;
    }
    for (int head = 0; head < heads; head++) {
        const int first = head * size;
        float most = -INFINITY, sum = 0.0f;
        for (int t = 0; t <= at; t++) {
            float dot = 0.0f;
            for (int i = 0; i < size; i++) dot += q[first + i] * keys[t * n + first + i];
            scores[t] = dot * by;
            most = scores[t] > most ? scores[t] : most;
        }
        for (int t = 0; t <= at; t++) sum += scores[t] = expf(scores[t] - most);
        for (int t = 0; t <= at; t++)
            for (int i = 0; i < size; i++) out[first + i] += scores[t] / sum * values[t * n + first + i];
    }
}

/* --- lift */
static void lift(float *out, float by, int n)
{
    for (int i = 0; i < n; i++) out[i] += by;
}

/* --- take */
static void take(float *out, const float *x, const int *index, int n)
{
    for (int i = 0; i < n; i++) out[i] = x[index[i]];
}

/* --- next_point */
/* The next character of UTF-8. A byte that is part of none is 0xDC00 + byte, as Python's "surrogateescape" has it. */
static long next_point(const unsigned char **text)
{
    const unsigned char *at = *text;
    const int first = at[0];
    const int more = first < 0xC2 || first > 0xF4 ? 0 : first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
    long point = more ? first & (0x3F >> more) : first < 0x80 ? first : -1;
    for (int i = 1; i <= more && point >= 0; i++) point = (at[i] & 0xC0) == 0x80 ? point << 6 | (at[i] & 0x3F) : -1;
    if (point < 0 || (more == 2 && (point < 0x800 || (point >= 0xD800 && point <= 0xDFFF))) ||
        (more == 3 && (point < 0x10000 || point > 0x10FFFF))) {
        *text = at + 1;
        return 0xDC00 + first;
    }
    *text = at + 1 + more;
    return point;
}

/* --- in_ranges */
/* Whether a character lies in one of the ranges, each its first and its last. */
static int in_ranges(const int *ranges, int count, long point)
{
    int low = 0, high = count;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (ranges[2 * middle + 1] < point) low = middle + 1;
        else high = middle;
    }
    return low < count && ranges[2 * low] <= point;
}

/* --- lower_case */
/* The lower case of a character, in place, by ranges of their first, last, step and what is added; of U+0130 it is two. */
static void lower_case(const int *ranges, int count, long points[2])
{
    int low = 0, high = count;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (ranges[4 * middle + 1] < points[0]) low = middle + 1;
        else high = middle;
    }
    const int *range = ranges + 4 * low;
    if (points[0] == 0x130) {
        points[0] = 'i';
        points[1] = 0x307;
    } else if (low < count && range[0] <= points[0] && (points[0] - range[0]) % range[2] == 0) points[0] += range[3];
}

/* --- cased_next: next_point in_ranges */
/* Whether a cased character comes next, those that are passed over left out. */
static int cased_next(const unsigned char *at, const int *cased, int cased_count, const int *passed, int passed_count)
{
    while (*at) {
        const long point = next_point(&at);
        if (!in_ranges(passed, passed_count, point)) return in_ranges(cased, cased_count, point);
    }
    return 0;
}

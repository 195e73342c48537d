// An encoder on one core with AVX-512: words, layers and means of texts that stand side by side without padding.
//
// States are rows of floats, one for each token, and the rows of a text stand together. A linear map multiplies floats,
// or whole numbers of 8 bits: each row of states is rounded with a scale of its own, and so is each output's weight.
// What stands beside a text never changes its answer, not by a bit: every row is summed in the same order.
//
// All sizes are multiples of 16 (`encoder.py` asks), so that no row needs a rest.

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define ROWS 6               // of states, times
#define VECTORS 4            // of 16 outputs: what a product makes at once, in 24 of 32 registers
#define PANEL (16 * VECTORS)  // outputs whose weights stand together
#define QUERIES 32           // whose scores are made at once, in vectors beside one another

typedef __m512 floats;

typedef struct {
    int64_t inputs, outputs;
    const void *weight;  // floats [panel][input][64], or whole numbers around 128 [panel][input / 4][64][4]
    const float *scale;  // what a step of each output is worth; NULL where weights are floats
    const float *bias;
} Linear;

typedef struct {
    Linear qkv, output, up, down;
    const float *attention_norm, *attention_norm_bias, *norm, *norm_bias;
} Layer;

typedef struct {
    int64_t size;
    const void *words;        // floats [word][size], or whole numbers
    const float *word_scale;  // what a step of each word is worth; NULL where words are floats
    const float *positions, *types, *norm, *norm_bias;
    Linear projection;  // no outputs where there is none
} Embeddings;

typedef struct {
    int64_t hidden, attention, heads, widest;  // `widest`: the most inputs or outputs that a linear map has
    int64_t activation;                        // 0 gelu, 1 gelu_new, 2 relu, 3 silu
    float epsilon;
} Shape;

// --- sixteen numbers side by side ---------------------------------------------------------------------------------

INLINE floats all(float value) { return _mm512_set1_ps(value); }

// 2^n e^r with |r| ≤ ln 2 / 2, by Taylor's series.
INLINE floats exponential(floats x) {
    x = _mm512_max_ps(all(-87), _mm512_min_ps(all(88), x));  // of a NaN and a number the second is taken
    floats n = _mm512_roundscale_ps(_mm512_mul_ps(x, all(1.44269504f)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    floats r = _mm512_fnmadd_ps(n, all(0.693145752f), x);  // ln 2 in two parts
    r = _mm512_fnmadd_ps(n, all(1.42860677e-6f), r);
    floats sum = all(1.0f / 5040);
    sum = _mm512_fmadd_ps(sum, r, all(1.0f / 720));
    sum = _mm512_fmadd_ps(sum, r, all(1.0f / 120));
    sum = _mm512_fmadd_ps(sum, r, all(1.0f / 24));
    sum = _mm512_fmadd_ps(sum, r, all(1.0f / 6));
    sum = _mm512_fmadd_ps(sum, r, all(0.5f));
    sum = _mm512_fmadd_ps(sum, r, all(1));
    sum = _mm512_fmadd_ps(sum, r, all(1));
    return _mm512_scalef_ps(sum, n);
}

INLINE floats sigmoid(floats x) {
    return _mm512_div_ps(all(1), _mm512_add_ps(all(1), exponential(_mm512_sub_ps(all(0), x))));
}

// x Φ(x), where Φ(-|x|) is by Abramowitz and Stegun 7.1.26.
INLINE floats gelu(floats x) {
    floats size = _mm512_mul_ps(_mm512_abs_ps(x), all(0.707106781f));
    floats t = _mm512_div_ps(all(1), _mm512_fmadd_ps(size, all(0.3275911f), all(1)));
    floats sum = _mm512_fmadd_ps(t, all(1.061405429f), all(-1.453152027f));
    sum = _mm512_fmadd_ps(sum, t, all(1.421413741f));
    sum = _mm512_fmadd_ps(sum, t, all(-0.284496736f));
    sum = _mm512_fmadd_ps(sum, t, all(0.254829592f));
    floats square = _mm512_mul_ps(size, size);
    floats below = _mm512_mul_ps(_mm512_mul_ps(sum, t), exponential(_mm512_sub_ps(all(0), square)));
    below = _mm512_mul_ps(all(0.5f), below);
    __mmask16 is_negative = _mm512_cmp_ps_mask(x, all(0), _CMP_LT_OQ);
    return _mm512_mul_ps(x, _mm512_mask_blend_ps(is_negative, _mm512_sub_ps(all(1), below), below));
}

// x (1 + tanh u) / 2, which is x σ(2u).
INLINE floats gelu_new(floats x) {
    floats cube = _mm512_mul_ps(_mm512_mul_ps(x, x), x);
    return _mm512_mul_ps(x, sigmoid(_mm512_mul_ps(all(1.59576912f), _mm512_fmadd_ps(cube, all(0.044715f), x))));
}

static void activate(float *states, int64_t count, int64_t kind) {
    for (int64_t k = 0; k < count; k += 16) {
        floats x = _mm512_loadu_ps(states + k);
        if (kind == 0) x = gelu(x);
        else if (kind == 1) x = gelu_new(x);
        else if (kind == 2) x = _mm512_max_ps(all(0), x);
        else x = _mm512_mul_ps(x, sigmoid(x));
        _mm512_storeu_ps(states + k, x);
    }
}

// --- products -----------------------------------------------------------------------------------------------------

// Loops over registers are unrolled, so that sums never leave them.
#define EACH_ROW _Pragma("GCC unroll 6") for (int r = 0; r < rows; r++)
#define EACH_VECTOR _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++)

// Calls a macro with the numbers of rows and vectors as constants.
#define WITH_ROWS(call, vectors, rows)    \
    switch (rows) {                       \
        case 1: call(1, vectors); break;  \
        case 2: call(2, vectors); break;  \
        case 3: call(3, vectors); break;  \
        case 4: call(4, vectors); break;  \
        case 5: call(5, vectors); break;  \
        default: call(ROWS, vectors);     \
    }
#define WITH_SIZES(call, rows, vectors)               \
    switch (vectors) {                                \
        case 1: WITH_ROWS(call, 1, rows) break;       \
        case 2: WITH_ROWS(call, 2, rows) break;       \
        case 3: WITH_ROWS(call, 3, rows) break;       \
        default: WITH_ROWS(call, VECTORS, rows)       \
    }

// Rows of floats times a matrix whose rows are `width` apart; plus a bias, if any. From one row of states to the next it
// is `apart`, from one of its numbers to the next `step`.
INLINE void tile_floats(const int rows, const int vectors, const float *states, int64_t apart, int64_t step,
                        const float *weight, int64_t width, int64_t inputs, const float *bias, float *to,
                        int64_t to_apart) {
    floats sums[ROWS][VECTORS], column[VECTORS];
    EACH_ROW EACH_VECTOR sums[r][v] = all(0);
    for (int64_t k = 0; k < inputs; k++) {
        EACH_VECTOR column[v] = _mm512_loadu_ps(weight + k * width + 16 * v);
        EACH_ROW {
            floats state = all(states[r * apart + k * step]);
            EACH_VECTOR sums[r][v] = _mm512_fmadd_ps(state, column[v], sums[r][v]);
        }
    }
    EACH_ROW EACH_VECTOR {
        floats sum = bias ? _mm512_add_ps(sums[r][v], _mm512_loadu_ps(bias + 16 * v)) : sums[r][v];
        _mm512_storeu_ps(to + r * to_apart + 16 * v, sum);
    }
}

INLINE void multiply(const float *states, int64_t apart, int64_t step, const float *weight, int64_t width, int64_t inputs,
                     float *to, int64_t to_apart, int64_t rows, int64_t outputs) {
    for (int64_t column = 0; column < outputs; column += PANEL)
        for (int64_t row = 0; row < rows; row += ROWS) {
#define TILE(R, V)                                                                                                \
    tile_floats(R, V, states + row * apart, apart, step, weight + column, width, inputs, NULL, to + row * to_apart + column, \
                to_apart)
            WITH_SIZES(TILE, rows - row, (outputs - column) / 16)
#undef TILE
        }
}

typedef struct {
    int8_t *values;  // from -127 to 127
    float *step;     // what a step of each row is worth
    int32_t *sum;    // of each row
} Rounded;

// A row that has no finite largest number gets no step, and so has no finite product.
static void round_rows(const float *states, int64_t rows, int64_t size, const Rounded *to) {
    for (int64_t r = 0; r < rows; r++) {
        const float *row = states + r * size;
        floats largest = all(0);
        __mmask16 is_odd = 0;  // NaN or infinite
        for (int64_t k = 0; k < size; k += 16) {
            floats value = _mm512_loadu_ps(row + k);
            largest = _mm512_max_ps(largest, _mm512_abs_ps(value));
            is_odd |= _mm512_fpclass_ps_mask(value, 0x99);
        }
        float step = _mm512_reduce_max_ps(largest) * (1.0f / 127);
        to->step[r] = is_odd ? __builtin_nanf("") : step > 1e-30f ? step : 1e-30f;
        floats inverse = all(is_odd ? 0 : 1 / to->step[r]);
        __m512i sum = _mm512_setzero_si512();
        for (int64_t k = 0; k < size; k += 16) {
            __m512i whole = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(row + k), inverse));
            if (is_odd) whole = _mm512_setzero_si512();
            sum = _mm512_add_epi32(sum, whole);
            _mm_storeu_si128((__m128i *)(to->values + r * size + k), _mm512_cvtsepi32_epi8(whole));
        }
        to->sum[r] = _mm512_reduce_add_epi32(sum);
    }
}

// Weights have 128 too much, which is taken away before the sum begins.
INLINE void tile_int8(const int rows, const int vectors, const Rounded *from, const Linear *map, int64_t row,
                      int64_t panel, float *to) {
    const int8_t *states = from->values + row * map->inputs;
    const uint8_t *weight = (const uint8_t *)map->weight + panel * map->inputs;
    __m512i sums[ROWS][VECTORS], column[VECTORS];
    EACH_ROW EACH_VECTOR sums[r][v] = _mm512_set1_epi32(-128 * from->sum[row + r]);
    for (int64_t k = 0; k < map->inputs; k += 4) {
        EACH_VECTOR column[v] = _mm512_loadu_si512(weight + k * PANEL + 64 * v);
        EACH_ROW {
            int32_t four;
            memcpy(&four, states + r * map->inputs + k, 4);
            __m512i state = _mm512_set1_epi32(four);
            // _mm512_dpbusd_epi32; written by its name, gcc 12 keeps the sums in memory
            EACH_VECTOR __asm__("vpdpbusd %2, %1, %0" : "+v"(sums[r][v]) : "v"(column[v]), "v"(state));
        }
    }
    EACH_ROW EACH_VECTOR {
        int64_t output = panel + 16 * v;
        floats sum = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[r][v]), all(from->step[row + r]));
        sum = _mm512_fmadd_ps(sum, _mm512_loadu_ps(map->scale + output), _mm512_loadu_ps(map->bias + output));
        _mm512_storeu_ps(to + (row + r) * map->outputs + output, sum);
    }
}

static void run_linear(const Linear *map, const float *states, int64_t rows, const Rounded *room, float *to) {
    if (map->scale) round_rows(states, rows, map->inputs, room);
    for (int64_t panel = 0; panel < map->outputs; panel += PANEL) {
        int64_t vectors = (map->outputs - panel) / 16;
        for (int64_t row = 0; row < rows; row += ROWS) {
#define INT8_TILE(R, V) tile_int8(R, V, room, map, row, panel, to)
#define FLOAT_TILE(R, V)                                                                                     \
    tile_floats(R, V, states + row * map->inputs, map->inputs, 1, (const float *)map->weight + panel * map->inputs, \
                PANEL, map->inputs, map->bias + panel, to + row * map->outputs + panel, map->outputs)
            if (map->scale) { WITH_SIZES(INT8_TILE, rows - row, vectors) }
            else { WITH_SIZES(FLOAT_TILE, rows - row, vectors) }
        }
    }
}

// --- layers -------------------------------------------------------------------------------------------------------

// `to` becomes norm(to + added).
static void add_norm(float *to, const float *added, int64_t rows, int64_t size, const float *weight, const float *bias,
                     float epsilon) {
    for (int64_t r = 0; r < rows; r++) {
        float *row = to + r * size;
        floats sum = all(0), squares = all(0);
        for (int64_t k = 0; k < size; k += 16) {
            floats value = _mm512_loadu_ps(row + k);
            if (added) value = _mm512_add_ps(value, _mm512_loadu_ps(added + r * size + k));
            _mm512_storeu_ps(row + k, value);
            sum = _mm512_add_ps(sum, value);
        }
        floats mean = all(_mm512_reduce_add_ps(sum) / (float)size);
        for (int64_t k = 0; k < size; k += 16) {
            floats value = _mm512_sub_ps(_mm512_loadu_ps(row + k), mean);
            squares = _mm512_fmadd_ps(value, value, squares);
        }
        floats factor = all(1 / __builtin_sqrtf(_mm512_reduce_add_ps(squares) / (float)size + epsilon));
        for (int64_t k = 0; k < size; k += 16) {
            floats value = _mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(row + k), mean), factor);
            _mm512_storeu_ps(row + k, _mm512_fmadd_ps(value, _mm512_loadu_ps(weight + k), _mm512_loadu_ps(bias + k)));
        }
    }
}

// Scores (tokens × queries) become e^(score - the query's largest); `factors` are what makes a query's sum 1.
static void exponentials(float *scores, int64_t tokens, int64_t queries, float *factors) {
    for (int64_t k = 0; k < queries; k += 16) {
        floats largest = _mm512_loadu_ps(scores + k), sum = all(0);
        for (int64_t token = 1; token < tokens; token++)
            largest = _mm512_max_ps(largest, _mm512_loadu_ps(scores + token * queries + k));
        for (int64_t token = 0; token < tokens; token++) {
            float *at = scores + token * queries + k;
            floats value = exponential(_mm512_sub_ps(_mm512_loadu_ps(at), largest));
            sum = _mm512_add_ps(sum, value);
            _mm512_storeu_ps(at, value);
        }
        _mm512_storeu_ps(factors + k, _mm512_div_ps(all(1), sum));
    }
}

INLINE int64_t round_up(int64_t count) { return (count + 15) / 16 * 16; }

// One text: its first `asking` tokens look at all of its tokens. Queries stand beside one another, sixteen in a vector;
// what stands there beyond the last one is computed with them and thrown away.
static void attend(const Shape *shape, const float *qkv, int64_t tokens, int64_t asking, float *scores, float *to) {
    int64_t size = shape->attention / shape->heads, apart = 3 * shape->attention;
    float *columns = scores + tokens * QUERIES, factors[QUERIES];
    for (int64_t head = 0; head < shape->heads; head++) {
        const float *query = qkv + head * size, *key = query + shape->attention, *value = key + shape->attention;
        for (int64_t first = 0; first < asking; first += QUERIES) {
            int64_t rows = asking - first < QUERIES ? asking - first : QUERIES, width = round_up(rows);
            for (int64_t row = 0; row < rows; row += 4)
                for (int64_t k = 0; k < size; k += 4) {
                    __m128 part[4];
                    for (int64_t one = 0; one < 4; one++) part[one] = _mm_loadu_ps(query + (first + row + one) * apart + k);
                    _MM_TRANSPOSE4_PS(part[0], part[1], part[2], part[3]);
                    for (int64_t one = 0; one < 4; one++) _mm_storeu_ps(columns + (k + one) * width + row, part[one]);
                }
            float *out = to + first * shape->attention + head * size;
            multiply(key, apart, 1, columns, width, size, scores, width, tokens, width);
            exponentials(scores, tokens, width, factors);
            multiply(scores, 1, width, value, apart, tokens, out, shape->attention, rows, size);
            for (int64_t row = 0; row < rows; row++)
                for (int64_t k = 0; k < size; k += 16) {
                    float *part = out + row * shape->attention + k;
                    _mm512_storeu_ps(part, _mm512_mul_ps(_mm512_loadu_ps(part), all(factors[row])));
                }
        }
    }
}

// --- what Python calls --------------------------------------------------------------------------------------------

typedef struct {
    float *qkv, *attended, *added, *wide, *scores;
    Rounded rounded;
} Room;

// Cuts some memory into parts; says how many bytes they have together.
static int64_t cut_room(const Shape *shape, int64_t tokens, int64_t longest, char *memory, Room *room) {
    int64_t end = 0;
#define TAKE(type, count) (type *)((uintptr_t)memory + (uintptr_t)end); end += ((count) * (int64_t)sizeof(type) + 63) / 64 * 64
    room->qkv = TAKE(float, (tokens + 3) * 3 * shape->attention);  // `attend` looks at four rows together
    room->attended = TAKE(float, tokens * shape->attention);
    room->added = TAKE(float, tokens * shape->hidden);
    room->wide = TAKE(float, tokens * shape->widest);
    room->scores = TAKE(float, QUERIES * (longest + shape->attention / shape->heads));
    room->rounded.step = TAKE(float, tokens);
    room->rounded.sum = TAKE(int32_t, tokens);
    room->rounded.values = TAKE(int8_t, tokens * shape->widest);
#undef TAKE
    return end;
}

// Bytes that the other functions need to work in.
int64_t litebert_room(const Shape *shape, int64_t tokens, int64_t longest) {
    Room room;
    return cut_room(shape, tokens, longest, NULL, &room);
}

// Ids, places in their texts and types → states.
void litebert_embed_tokens(const Shape *shape, const Embeddings *tables, const int64_t *ids, const int64_t *places,
                           const int64_t *types, int64_t tokens, float *states, char *memory) {
    Room room;
    cut_room(shape, tokens, 0, memory, &room);
    int64_t size = tables->size;
    float *embedded = tables->projection.outputs ? room.wide : states;
    for (int64_t token = 0; token < tokens; token++)
        for (int64_t k = 0; k < size; k += 16) {
            int64_t at = ids[token] * size + k;
            floats value;
            if (tables->word_scale) {
                __m128i whole = _mm_loadu_si128((const __m128i *)((const int8_t *)tables->words + at));
                value = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(whole)), all(tables->word_scale[ids[token]]));
            } else {
                value = _mm512_loadu_ps((const float *)tables->words + at);
            }
            value = _mm512_add_ps(value, _mm512_loadu_ps(tables->types + types[token] * size + k));
            value = _mm512_add_ps(value, _mm512_loadu_ps(tables->positions + places[token] * size + k));
            _mm512_storeu_ps(embedded + token * size + k, value);
        }
    add_norm(embedded, NULL, tokens, size, tables->norm, tables->norm_bias, shape->epsilon);
    if (tables->projection.outputs) run_linear(&tables->projection, embedded, tokens, &room.rounded, states);
}

// Some layers, one after the other. With `first_only` the last one makes the states of each text's first token alone,
// which then are the first rows.
void litebert_run_layers(const Shape *shape, const Layer *const *layers, int64_t depth, const int64_t *lengths,
                         int64_t texts, int64_t first_only, float *states, char *memory) {
    int64_t tokens = 0, longest = 0, size = shape->attention, hidden = shape->hidden;
    for (int64_t text = 0; text < texts; text++) {
        tokens += lengths[text];
        longest = lengths[text] > longest ? lengths[text] : longest;
    }
    Room room;
    cut_room(shape, tokens, longest, memory, &room);
    for (int64_t number = 0; number < depth; number++) {
        const Layer *layer = layers[number];
        int is_short = first_only && number == depth - 1;
        int64_t rows = is_short ? texts : tokens;
        run_linear(&layer->qkv, states, tokens, &room.rounded, room.qkv);
        for (int64_t text = 0, first = 0; text < texts; first += lengths[text++]) {
            float *to = room.attended + (is_short ? text : first) * size;
            attend(shape, room.qkv + first * 3 * size, lengths[text], is_short ? 1 : lengths[text], room.scores, to);
            if (is_short) memmove(states + text * hidden, states + first * hidden, sizeof(float) * hidden);
        }
        run_linear(&layer->output, room.attended, rows, &room.rounded, room.added);
        add_norm(states, room.added, rows, hidden, layer->attention_norm, layer->attention_norm_bias, shape->epsilon);
        run_linear(&layer->up, states, rows, &room.rounded, room.wide);
        activate(room.wide, rows * layer->up.outputs, shape->activation);
        run_linear(&layer->down, room.wide, rows, &room.rounded, room.added);
        add_norm(states, room.added, rows, hidden, layer->norm, layer->norm_bias, shape->epsilon);
    }
}

// The mean of each text's rows, of length 1 if so wanted.
void litebert_average(const float *states, const int64_t *lengths, int64_t texts, int64_t size, int64_t of_length_one,
                      float *means) {
    for (int64_t text = 0; text < texts; states += lengths[text++] * size, means += size) {
        floats squares = all(0), count = all((float)lengths[text]);
        for (int64_t k = 0; k < size; k += 16) {
            floats sum = all(0);
            for (int64_t token = 0; token < lengths[text]; token++)
                sum = _mm512_add_ps(sum, _mm512_loadu_ps(states + token * size + k));
            sum = _mm512_div_ps(sum, count);
            squares = _mm512_fmadd_ps(sum, sum, squares);
            _mm512_storeu_ps(means + k, sum);
        }
        float length = of_length_one ? __builtin_sqrtf(_mm512_reduce_add_ps(squares)) : 1;
        floats divisor = all(length > 1e-12f ? length : 1e-12f);
        for (int64_t k = 0; k < size; k += 16) _mm512_storeu_ps(means + k, _mm512_div_ps(_mm512_loadu_ps(means + k), divisor));
    }
}

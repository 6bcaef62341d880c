/* The inner loop of the reader of alignments: one pass over the bytes.
 *
 * It stops before the first alignment that it does not recognise to the last byte, or that breaks
 * an invariant; the readers in Python look at that one. So it has no errors of its own to word, and
 * need not know all that an output may hold. It writes only into the caller's columns, whose sizes
 * it asks, and reads only the bytes that it was given.
 */
#include "alignments.h"

#include <math.h>
#include <string.h>

#define MAX_DIGITS 18

/* For processors that have wider registers than all x86-64 ones; chosen when it is loaded. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__gnu_linux__) && \
    !defined(__SANITIZE_ADDRESS__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

static inline int is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

static inline int is_letter(char c)
{
    return (unsigned char)((c | 0x20) - 'a') < 26;
}

static inline int is_word(char c)
{
    return is_letter(c) || is_digit(c) || c == '_';
}

static inline int is_residue(char c)
{
    return is_letter(c) | (c == '-') | (c == '*') | (c == '/') | (c == '\\');
}

static inline int is_consensus(char c)
{
    return !(is_letter(c) | is_digit(c) | (c == ';') | (c == '>') | (c == '\n'));
}

static inline const char *line_end(const char *p, const char *end)
{
    return p < end ? memchr(p, '\n', (size_t)(end - p)) : NULL;
}

static const char *behind_blanks(const char *p, const char *end)
{
    while (p < end && *p == ' ')
        p++;
    return p;
}

/* The newline behind blanks, or NULL where there is something else. */
static inline const char *at_newline(const char *p, const char *end)
{
    p = behind_blanks(p, end);
    return p < end && *p == '\n' ? p : NULL;
}

/* ` *-?[0-9]{1,18} *` up to a newline, of which it returns the place. */
static inline const char *read_integer(const char *p, const char *end, int64_t *value)
{
    p = behind_blanks(p, end);
    int negative = p < end && *p == '-';
    const char *first = p += negative;
    int64_t number = 0;
    while (p < end && is_digit(*p) && p - first < MAX_DIGITS)
        number = number * 10 + (*p++ - '0');
    *value = negative ? -number : number;
    return p == first ? NULL : at_newline(p, end);
}

static const double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
#define MAX_POWER 22
#define EXACT (UINT64_C(1) << 53)

/* ` *[-+]?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)? *` up to a newline, of which it returns the place; a
 * finite number. Where doubles hold both the digits and the power of ten exactly, it is one
 * multiplication or division (W. D. Clinger, How to read floating point numbers accurately, 1990);
 * else `long_float` is asked. */
static inline const char *read_float(const char *p, const char *end, double *value,
                                     LongFloat long_float)
{
    const char *begin = p = behind_blanks(p, end);
    int negative = p < end && *p == '-';
    p += negative || (p < end && *p == '+');
    const char *first = p;
    uint64_t digits = 0;
    for (; p < end && is_digit(*p); p++)
        digits = digits * 10 + (uint64_t)(*p - '0');
    ptrdiff_t count = p - first;
    if (count == 0)
        return NULL;
    ptrdiff_t power = 0;
    if (p < end && *p == '.') {
        const char *point = ++p;
        for (; p < end && is_digit(*p); p++)
            digits = digits * 10 + (uint64_t)(*p - '0');
        power = point - p;
        count -= power;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        int down = p < end && *p == '-';
        p += down || (p < end && *p == '+');
        const char *exponent = p;
        ptrdiff_t number = 0;
        for (; p < end && is_digit(*p); p++)
            if (number < 10000)
                number = number * 10 + (*p - '0');
        if (p == exponent)
            return NULL;
        power += down ? -number : number;
    }
    if (count > MAX_DIGITS || digits > EXACT || power < -MAX_POWER || power > MAX_POWER) {
        if (!long_float(begin, p, value))
            return NULL;
    } else {
        double number = (double)digits;
        number = power < 0 ? number / POWERS[-power] : number * POWERS[power];
        *value = negative ? -number : number;
    }
    return at_newline(p, end);
}

static const char *find(const char *p, const char *end, const char *wanted)
{
    ptrdiff_t size = (ptrdiff_t)strlen(wanted);
    while (end - p >= size) {
        p = memchr(p, wanted[0], (size_t)(end - p - size + 1));
        if (p == NULL)
            return NULL;
        if (memcmp(p, wanted, (size_t)size) == 0)
            return p;
        p++;
    }
    return NULL;
}

/* `\bWANTED` from `p` on, in the text that starts at `begin`. */
static const char *find_word(const char *p, const char *begin, const char *end, const char *wanted)
{
    while ((p = find(p, end, wanted)) != NULL && p > begin && is_word(p[-1]))
        p++;
    return p;
}

/* Up to a blank, or to `stop`. */
static Piece up_to(const char *p, const char *end, char stop)
{
    Piece piece = {p, 0};
    while (p < end && *p != ' ' && *p != stop)
        p++;
    piece.size = p - piece.text;
    return piece;
}

static const Piece NONE = {NULL, -1};

/* `\bKEY(\S+)`, the first. */
static Piece word_behind(const char *begin, const char *end, const char *key)
{
    for (const char *p = begin; (p = find_word(p, begin, end, key)) != NULL; p++) {
        Piece value = up_to(p + strlen(key), end, ' ');
        if (value.size > 0)
            return value;
    }
    return NONE;
}

/* X of the first `[KEY=X]`; `key` is `[KEY=`. */
static Piece bracketed(const char *begin, const char *end, const char *key)
{
    for (const char *p = find(begin, end, key); p != NULL; p = find(p, end, key)) {
        p += strlen(key);
        const char *close = memchr(p, ']', (size_t)(end - p));
        if (close == NULL)
            break;
        if (close > p) {
            Piece value = {p, close - p};
            return value;
        }
        p = close;
    }
    return NONE;
}

/* [0-9]{1,2}|[XYZWM]|MT|[IVX]{1,5}|[0-9]{1,2}[A-Za-z]{1,2} */
static int is_chromosome(const char *p, ptrdiff_t size)
{
    ptrdiff_t digits = 0, letters = 0, roman = 0;
    while (digits < size && is_digit(p[digits]))
        digits++;
    while (digits + letters < size && is_letter(p[digits + letters]))
        letters++;
    if (size == 0 || digits + letters != size)
        return 0;
    if (digits > 0)
        return digits <= 2 && letters <= 2;
    if ((size == 1 && memchr("XYZWM", p[0], 5) != NULL) || (size == 2 && memcmp(p, "MT", 2) == 0))
        return 1;
    while (roman < size && memchr("IVX", p[roman], 3) != NULL)
        roman++;
    return roman == size && size <= 5;
}

/* The first of `\bchromosome:[^\s:]+:([^\s:]+):`, `\bchromosome:([^\s:]+)(?!\S)`, `[chromosome=X]`
 * and `\bchromosome (...)\b`. */
static Piece chromosome(const char *begin, const char *end)
{
    const char *word = find_word(begin, begin, end, "chromosome");
    for (const char *p = word; p && (p = find_word(p, begin, end, "chromosome:")); p++) {
        Piece assembly = up_to(p + 11, end, ':');
        const char *colon = assembly.text + assembly.size;
        if (assembly.size == 0 || colon == end || *colon != ':')
            continue;
        Piece value = up_to(colon + 1, end, ':');
        colon = value.text + value.size;
        if (value.size > 0 && colon < end && *colon == ':')
            return value;
    }
    for (const char *p = word; p && (p = find_word(p, begin, end, "chromosome:")); p++) {
        Piece value = up_to(p + 11, end, ':');
        const char *behind = value.text + value.size;
        if (value.size > 0 && (behind == end || *behind == ' '))
            return value;
    }
    Piece value = bracketed(begin, end, "[chromosome=");
    if (value.size > 0)
        return value;
    for (const char *p = word; p && (p = find_word(p, begin, end, "chromosome ")); p++) {
        value.text = p + 11;
        for (value.size = 0; value.text + value.size < end && is_word(value.text[value.size]);)
            value.size++;
        if (is_chromosome(value.text, value.size))
            return value;
    }
    return NONE;
}

/* A hit's line without its `>>`; of printable ASCII only, for white space and words are other
 * things in Unicode. */
static int read_hit(const char *p, const char *end, Hit *hit)
{
    int odd = 0;
    for (const char *c = p; c < end; c++)
        odd |= (unsigned char)(*c - ' ') > '~' - ' ';
    p = behind_blanks(p, end);
    if (odd || p == end)
        return 0;
    hit->parts[0] = up_to(p, end, ' ');
    p = behind_blanks(p + hit->parts[0].size, end);
    Piece gene = word_behind(p, end, "gene:");
    if (gene.size < 0)
        gene = bracketed(p, end, "[gene=");
    if (gene.size < 0)
        gene = word_behind(p, end, "GN=");
    hit->parts[1] = gene;
    hit->parts[2] = chromosome(p, end);
    return 1;
}

typedef struct {
    const char *end;
    const Layout *layout;
    Columns *columns;
    LongFloat long_float;
    int full;
    ptrdiff_t lines; /* read so far */
    ptrdiff_t width; /* of the last line of residues */
    int64_t integers[INTEGERS];
    double floats[FLOATS];
    unsigned char frame;
} Reader;

/* The newline behind a value, or NULL. */
static inline const char *read_value(Reader *r, int role, const char *p)
{
    int64_t ignored;
    switch (role) {
    case R_FRAME:
        if (r->end - p < 3 || p[0] != ' ' || (p[1] != 'f' && p[1] != 'r') || p[2] != '\n')
            return NULL;
        r->frame = (unsigned char)p[1];
        return p + 2;
    case R_NUMBER:
        p = read_integer(p, r->end, &ignored);
        return p != NULL && ignored >= 0 ? p : NULL;
    case R_EXACT:
        return *p == '\n' ? p : NULL;
    case R_IGNORED:
        return line_end(p, r->end);
    default:
        if (role < R_Z)
            return read_integer(p, r->end, &r->integers[role]);
        return read_float(p, r->end, &r->floats[role - R_Z], r->long_float);
    }
}

/* The lines of a block of keys; behind them, or NULL. */
static const char *read_keys(Reader *r, const char *p, const Block *block)
{
    r->lines += block->count;
    for (int k = 0; k < block->count; k++) {
        const Key *key = &block->keys[k];
        if (r->end - p <= key->size || memcmp(p, key->start, (size_t)key->size) != 0)
            return NULL;
        p = read_value(r, key->role, p + key->size);
        if (p == NULL)
            return NULL;
        p++;
    }
    return p;
}

/* Loops over single bytes, which compilers make into few instructions for many. */
WIDE static int copy_residues(char *to, const char *p, ptrdiff_t count, ptrdiff_t *gaps)
{
    unsigned char wrong = 0;
    for (ptrdiff_t i = 0; i < count;) {
        ptrdiff_t until = count - i < 255 ? count : i + 255;
        unsigned char minus = 0;
        for (; i < until; i++) {
            to[i] = p[i];
            minus = (unsigned char)(minus + (p[i] == '-'));
            wrong |= (unsigned char)!is_residue(p[i]);
        }
        *gaps += minus;
    }
    return !wrong;
}

WIDE static int all_consensus(const char *p, ptrdiff_t count)
{
    unsigned char wrong = 0;
    for (ptrdiff_t i = 0; i < count; i++)
        wrong |= (unsigned char)!is_consensus(p[i]);
    return !wrong;
}

/* The end of a line that is likely to have as many bytes as the one before it. Whoever asks looks
 * at each byte before it: with a newline among them it was another line's end. */
static inline const char *likely_end(const char *p, const char *end, ptrdiff_t width)
{
    return width < end - p && p[width] == '\n' ? p + width : line_end(p, end);
}

/* `>ID ..`, the keys and the residues of a sequence; its length and gaps. */
static const char *read_sequence(Reader *r, const char *p, const Block *block, Text *text,
                                 ptrdiff_t row, ptrdiff_t *length, ptrdiff_t *gaps)
{
    const char *stop = line_end(p, r->end);
    if (stop == NULL || stop - p < 4 || *p != '>' || memcmp(stop - 3, " ..", 3) != 0)
        return NULL;
    r->lines++;
    p = read_keys(r, stop + 1, block);
    if (p == NULL)
        return NULL;
    ptrdiff_t first = text->ends[row], at = first, dashes = 0;
    while (p < r->end && is_residue(*p)) {
        stop = likely_end(p, r->end, r->width);
        if (stop == NULL)
            return NULL;
        if (stop - p > text->capacity - at) {
            r->full = 1;
            return NULL;
        }
        ptrdiff_t before = dashes;
        if (!copy_residues(text->data + at, p, stop - p, &dashes)) {
            const char *nearer = line_end(p, stop);
            dashes = before;
            if (nearer == NULL || !copy_residues(text->data + at, p, nearer - p, &dashes))
                return NULL;
            stop = nearer;
        }
        ptrdiff_t count = r->width = stop - p;
        at += count;
        p = stop + 1;
        r->lines++;
    }
    if (at == first)
        return NULL;
    text->ends[row + 1] = (int32_t)at;
    *length = at - first;
    *gaps = dashes;
    return p;
}

static const char *read_consensus(Reader *r, const char *p)
{
    const char *end = r->end;
    static const char key[] = "; al_cons:\n";
    if (end - p < (ptrdiff_t)sizeof key - 1 || memcmp(p, key, sizeof key - 1) != 0)
        return NULL;
    p += sizeof key - 1;
    r->lines++;
    while (p < end && is_consensus(*p)) {
        const char *stop = likely_end(p, end, r->width);
        if (stop == NULL)
            return NULL;
        if (!all_consensus(p, stop - p)) {
            stop = line_end(p, stop);
            if (stop == NULL || !all_consensus(p, stop - p))
                return NULL;
        }
        r->width = stop - p;
        p = stop + 1;
        r->lines++;
    }
    return p;
}

/* `; al_code\w*:.*` */
static const char *read_code(const char *p, const char *end)
{
    static const char key[] = "; al_code";
    if (end - p < (ptrdiff_t)sizeof key - 1 || memcmp(p, key, sizeof key - 1) != 0)
        return NULL;
    for (p += sizeof key - 1; p < end && is_word(*p);)
        p++;
    const char *stop = line_end(p, end);
    return stop == NULL || *p != ':' ? NULL : stop + 1;
}

static int64_t span(int64_t a, int64_t b)
{
    return (a > b ? a - b : b - a) + 1;
}

static int put_hit(Columns *c, ptrdiff_t row, const Hit *hit)
{
    for (int i = 0; i < 3; i++) {
        Text *text = &c->texts[T_SEQID + i];
        ptrdiff_t at = text->ends[row], size = hit->parts[i].size;
        if (size > text->capacity - at)
            return 0;
        if (size > 0) {
            memcpy(text->data + at, hit->parts[i].text, (size_t)size);
            at += size;
        }
        text->ends[row + 1] = (int32_t)at;
    }
    c->has_gene[row] = hit->parts[1].size >= 0;
    c->has_chr[row] = hit->parts[2].size >= 0;
    return 1;
}

/* One alignment from `p` on into `row`; behind it, or NULL. */
static const char *read_alignment(Reader *r, const char *p, ptrdiff_t row, Hit *hit)
{
    const Layout *layout = r->layout;
    Columns *c = r->columns;
    const char *stop = line_end(p, r->end);
    if (stop == NULL || stop - p < 3)
        return NULL;
    int opens = p[1] == '>';
    Hit here = *hit;
    if (opens ? p[2] == '>' || !read_hit(p + 2, stop, &here)
              : stop - p != 3 || memcmp(p, ">--", 3) != 0 || here.parts[0].size < 0)
        return NULL;
    for (int i = 0; i < INTEGERS; i++)
        r->integers[i] = NO_INTEGER;
    for (int i = 0; i < FLOATS; i++)
        r->floats[i] = (double)NAN;
    r->frame = 0;
    ptrdiff_t lengths[2], gaps[2];
    p = read_keys(r, stop + 1, &layout->scores);
    if (p != NULL)
        p = read_sequence(r, p, &layout->query, &c->texts[T_QUERY], row, &lengths[0], &gaps[0]);
    if (p != NULL)
        p = read_sequence(r, p, &layout->library, &c->texts[T_LIBRARY], row, &lengths[1], &gaps[1]);
    if (p != NULL && layout->consensus)
        p = read_consensus(r, p);
    for (int k = 0; p != NULL && k < layout->codes; k++)
        p = read_code(p, r->end);
    r->lines += 1 + layout->codes;
    /* What follows tells that the alignment is whole. */
    if (p == NULL || p == r->end || (*p != '>' && *p != '\n'))
        return NULL;
    const int64_t *n = r->integers;
    for (int i = I_OVERLAP; i < INTEGERS; i++)
        if (n[i] == NO_INTEGER)
            return NULL;
    if (lengths[0] != n[I_OVERLAP] || lengths[1] != n[I_OVERLAP] ||
        lengths[0] - gaps[0] != span(n[I_QUERY_START], n[I_QUERY_STOP]) ||
        lengths[1] - gaps[1] != span(n[I_LIBRARY_START], n[I_LIBRARY_STOP]) ||
        (r->frame && (r->frame == 'r') != (n[I_QUERY_START] > n[I_QUERY_STOP])))
        return NULL;
    if (!put_hit(c, row, &here)) {
        r->full = 1;
        return NULL;
    }
    for (int i = 0; i < INTEGERS; i++)
        c->integers[i * c->rows + row] = n[i];
    for (int i = 0; i < FLOATS; i++)
        c->floats[i * c->rows + row] = r->floats[i];
    c->frame[row] = r->frame;
    c->opens[row] = (unsigned char)opens;
    *hit = here;
    return p;
}

Taken take_alignments(const char *p, const char *end, const Layout *layout, Columns *columns,
                      ptrdiff_t row, Hit *hit, LongFloat long_float)
{
    Reader reader = {.end = end, .layout = layout, .columns = columns, .long_float = long_float};
    Taken taken = {.at = p, .taken = 0, .lines = 0, .hit = NULL, .full = 0};
    while (taken.at < end && *taken.at == '>') {
        if (row == columns->rows) {
            reader.full = 1;
            break;
        }
        const char *next = read_alignment(&reader, taken.at, row, hit);
        if (next == NULL)
            break;
        taken.lines = reader.lines;
        if (columns->opens[row])
            taken.hit = taken.at;
        taken.at = next;
        taken.taken++;
        row++;
    }
    taken.full = reader.full;
    return taken;
}

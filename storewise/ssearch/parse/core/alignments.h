/* Alignments from bytes to columns, without Python: `alignments.c`. */
#ifndef STOREWISE_ALIGNMENTS_H
#define STOREWISE_ALIGNMENTS_H

#include <stddef.h>
#include <stdint.h>

/* An integer that an output lacks; a float is then NaN, a frame 0. */
#define NO_INTEGER INT64_MIN

/* Columns, in the order of INTEGERS, FLOATS and TEXTS in `columns.py`. */
enum { I_S_W, I_SCORE, I_OVERLAP, I_QUERY_START, I_QUERY_STOP, I_LIBRARY_START, I_LIBRARY_STOP,
       INTEGERS };
enum { F_Z, F_BITS, F_EXPECT, F_IDENT, F_SIM, FLOATS };
enum { T_QUERY, T_LIBRARY, T_SEQID, T_GENE, T_CHR, TEXTS };

/* What the value of a key line is, in the order of ROLES in `compiled.py`. */
enum { R_S_W, R_SCORE, R_OVERLAP, R_QUERY_START, R_QUERY_STOP, R_LIBRARY_START, R_LIBRARY_STOP,
       R_Z, R_BITS, R_EXPECT, R_IDENT, R_SIM, R_FRAME, R_NUMBER, R_EXACT, R_IGNORED, ROLES };

#define MAX_KEYS 128

typedef struct {
    const char *start; /* the line up to its value */
    ptrdiff_t size;
    int role;
} Key;

typedef struct {
    Key keys[MAX_KEYS];
    int count;
} Block;

/* The lines of an alignment, in order. */
typedef struct {
    Block scores, query, library;
    int consensus; /* `; al_cons:` follows */
    int codes;     /* so many `; al_code` lines follow */
} Layout;

typedef struct {
    const char *text;
    ptrdiff_t size; /* -1: there is none */
} Piece;

/* What a hit's line says: its id, gene and chromosome; the id is -1 where there is no hit. */
typedef struct {
    Piece parts[3];
} Hit;

/* ends[0] is 0, ends[row + 1] is where the text of `row` ends in `data`. */
typedef struct {
    char *data;
    ptrdiff_t capacity;
    int32_t *ends;
} Text;

typedef struct {
    ptrdiff_t rows; /* capacity */
    int64_t *integers; /* INTEGERS x rows */
    double *floats;    /* FLOATS x rows */
    unsigned char *frame, *opens, *has_gene, *has_chr, *has_query, *has_library;
    Text texts[TEXTS];
} Columns;

/* Reads a number that is too long for exact arithmetic on doubles: [begin, end), ends with a byte
 * that no number has. 0 where it is no finite number. */
typedef int (*LongFloat)(const char *begin, const char *end, double *value);

typedef struct {
    const char *at;  /* behind the last alignment taken */
    ptrdiff_t taken; /* how many */
    ptrdiff_t lines; /* that they have */
    const char *hit; /* the last line that opened a hit, or NULL */
    int full;        /* it ended for want of room in the columns */
} Taken;

/* Appends the alignments of [p, end) that have the layout and keep the invariants to the columns
 * behind `row` rows, up to the first that does not. `hit` is that which a leading `>--` continues;
 * afterwards it is the last one. `p` is at the start of a line. */
Taken take_alignments(const char *p, const char *end, const Layout *layout, Columns *columns,
                      ptrdiff_t row, Hit *hit, LongFloat long_float);

#endif

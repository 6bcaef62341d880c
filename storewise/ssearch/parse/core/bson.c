/* Rows of columns as BSON documents. Fields and their order are those of `documents.py`; numbers
 * are as PyMongo encodes them: an int that 32 bits hold has 32, others 64. */
#include "bson.h"

#include <string.h>

#define KIND_CODE 600 /* and the kind's number plus one: `Kind.code` */
#define ORDINAL_BITS 38
/* What the fields of any document take without their texts: the longest, of align, has 17. */
#define FIXED_BYTES 512

enum { DOUBLE = 1, STRING = 2, OBJECT_ID = 7, NOTHING = 10, INT32 = 16, INT64 = 18 };

static char *put(char *to, const void *bytes, size_t size)
{
    memcpy(to, bytes, size);
    return to + size;
}

/* The lowest `size` bytes of a number, the lowest first. */
static char *put_number(char *to, uint64_t number, int size)
{
    for (int i = 0; i < size; i++)
        *to++ = (char)(number >> 8 * i);
    return to;
}

static char *put_name(char *to, int type, const char *name)
{
    *to++ = (char)type;
    return put(to, name, strlen(name) + 1);
}

static char *put_integer(char *to, const char *name, int64_t value)
{
    if (value == NO_INTEGER)
        return put_name(to, NOTHING, name);
    int large = value > INT32_MAX || value < INT32_MIN;
    return put_number(put_name(to, large ? INT64 : INT32, name), (uint64_t)value, large ? 8 : 4);
}

static char *put_float(char *to, const char *name, double value)
{
    uint64_t bits;
    if (value != value)
        return put_name(to, NOTHING, name);
    memcpy(&bits, &value, sizeof bits);
    return put_number(put_name(to, DOUBLE, name), bits, 8);
}

static char *put_text(char *to, const char *name, const char *text, ptrdiff_t size)
{
    if (size < 0)
        return put_name(to, NOTHING, name);
    to = put_number(put_name(to, STRING, name), (uint64_t)size + 1, 4);
    to = put(to, text, (size_t)size);
    *to++ = '\0';
    return to;
}

static char *put_id(char *to, const char *name, const char *digest, int kind, int64_t ordinal)
{
    uint64_t tail = ((uint64_t)kind << ORDINAL_BITS) | (uint64_t)ordinal;
    to = put(put_name(to, OBJECT_ID, name), digest, DIGEST_BYTES);
    for (int i = ID_BYTES - DIGEST_BYTES - 1; i >= 0; i--)
        *to++ = (char)(tail >> 8 * i);
    return to;
}

static char *put_column(char *to, const char *name, const Columns *c, int column, ptrdiff_t row)
{
    const Text *text = &c->texts[column];
    return put_text(to, name, text->data + text->ends[row], text->ends[row + 1] - text->ends[row]);
}

static int64_t integer(const Columns *c, int column, ptrdiff_t row)
{
    return c->integers[column * c->rows + row];
}

static char *put_sequence(char *to, const Columns *c, ptrdiff_t row, int start, int stop, int text,
                          int has)
{
    int64_t b = integer(c, start, row), e = integer(c, stop, row);
    to = put_integer(to, "b", b);
    to = put_integer(to, "e", e);
    to = put_integer(to, "l", b > e ? b - e : e - b);
    return has ? put_column(to, "s", c, text, row) : put_name(to, NOTHING, "s");
}

static char *put_scores(char *to, const Columns *c, ptrdiff_t row)
{
    const double *floats = c->floats + row;
    to = put_float(to, "b", floats[F_BITS * c->rows]);
    to = put_float(to, "e", floats[F_EXPECT * c->rows]);
    to = put_integer(to, "s_w", integer(c, I_S_W, row));
    to = put_text(to, "f", (const char *)&c->frame[row], c->frame[row] ? 1 : -1);
    to = put_float(to, "i", floats[F_IDENT * c->rows]);
    to = put_integer(to, "o", integer(c, I_OVERLAP, row));
    to = put_integer(to, "p", integer(c, I_SCORE, row));
    to = put_float(to, "si", floats[F_SIM * c->rows]);
    return put_float(to, "z", floats[F_Z * c->rows]);
}

size_t max_document_bytes(const Columns *c, ptrdiff_t row, int kind, const Search *search)
{
    static const int first[] = {[RNA] = T_QUERY, [GS] = T_LIBRARY, [ALIGN] = T_GENE};
    static const int last[] = {[RNA] = T_QUERY, [GS] = T_SEQID, [ALIGN] = T_CHR};
    size_t size = FIXED_BYTES + (size_t)search->query.size;
    for (int i = first[kind]; i <= last[kind]; i++)
        size += (size_t)(c->texts[i].ends[row + 1] - c->texts[i].ends[row]);
    return size;
}

size_t write_document(char *to, const Columns *c, ptrdiff_t row, int kind, const char *digest,
                      int64_t ordinal, const Search *search, int study)
{
    char *begin = to;
    to = put_id(to + 4, "_id", digest, kind, ordinal);
    to = put_integer(to, "t", KIND_CODE + 1 + kind);
    if (kind == RNA) {
        to = put_sequence(to, c, row, I_QUERY_START, I_QUERY_STOP, T_QUERY, c->has_query[row]);
    } else if (kind == GS) {
        to = put_sequence(to, c, row, I_LIBRARY_START, I_LIBRARY_STOP, T_LIBRARY,
                          c->has_library[row]);
        to = put_column(to, "seqid", c, T_SEQID, row);
    } else {
        to = put_scores(to, c, row);
        to = put_id(to, "rna", digest, RNA, ordinal);
        to = put_id(to, "gs", digest, GS, ordinal);
    }
    to = put(put_name(to, OBJECT_ID, "ti"), search->task, ID_BYTES);
    if (kind == ALIGN && !study) {
        to = put_text(to, "q", search->query.text, search->query.size);
        to = c->has_gene[row] ? put_column(to, "gene", c, T_GENE, row)
                              : put_name(to, NOTHING, "gene");
        to = c->has_chr[row] ? put_column(to, "chr", c, T_CHR, row) : put_name(to, NOTHING, "chr");
    }
    *to++ = '\0';
    put_number(begin, (uint64_t)(to - begin), 4);
    return (size_t)(to - begin);
}

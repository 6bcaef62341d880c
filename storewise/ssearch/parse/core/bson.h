/* Rows of columns as BSON documents (https://bsonspec.org/spec.html), without Python: `bson.c`. */
#ifndef STOREWISE_BSON_H
#define STOREWISE_BSON_H

#include "alignments.h"

#define ID_BYTES 12
#define DIGEST_BYTES 7

/* Numbers of the kinds, as `documents.py` has them. */
enum { RNA = 1, GS = 2, ALIGN = 3 };

/* The search that a row belongs to. */
typedef struct {
    const char *task; /* ID_BYTES */
    Piece query;
} Search;

/* More bytes than the document of `row` has. */
size_t max_document_bytes(const Columns *c, ptrdiff_t row, int kind, const Search *search);

/* Writes the document of `row`, whose ordinal in the file is `ordinal`, to `to`, and returns how
 * many bytes it has. With `study` it has only the fields of the published study. */
size_t write_document(char *to, const Columns *c, ptrdiff_t row, int kind, const char *digest,
                      int64_t ordinal, const Search *search, int study);

#endif

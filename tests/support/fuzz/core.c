/* A target of libFuzzer for the reader's inner loop: any bytes, a layout that their first byte
 * chooses, columns that are as small as the second says. What is taken must lie within the columns
 * and make documents of the sizes that were promised. Sanitizers look at the rest. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alignments.h"
#include "bson.h"

#define KEY(text, role) {text, sizeof(text) - 1, role}

static const Key SCORES[] = {
    KEY("; sw_frame:", R_FRAME),   KEY("; sw_s-w opt:", R_S_W),    KEY("; sw_z-score:", R_Z),
    KEY("; sw_bits:", R_BITS),     KEY("; sw_expect:", R_EXPECT),  KEY("; sw_score:", R_SCORE),
    KEY("; sw_ident:", R_IDENT),   KEY("; sw_sim:", R_SIM),        KEY("; sw_overlap:", R_OVERLAP),
};
static const Key LOCAL[] = {
    KEY("; lsw_s-w opt:", R_S_W), KEY("; lsw_z-score:", R_Z),     KEY("; lsw_bits:", R_BITS),
    KEY("; lsw_expect:", R_EXPECT), KEY("; lsw_score:", R_IGNORED), KEY("; lsw_ident:", R_IDENT),
    KEY("; lsw_sim:", R_SIM),     KEY("; lsw_overlap:", R_OVERLAP),
};
static const Key SEQUENCE[] = {
    KEY("; sq_len:", R_NUMBER),          KEY("; sq_offset:", R_NUMBER),
    KEY("; sq_type: D", R_EXACT),        KEY("; al_start:", R_QUERY_START),
    KEY("; al_stop:", R_QUERY_STOP),     KEY("; al_display_start:", R_NUMBER),
};

static void fill(Block *block, const Key *keys, size_t size)
{
    block->count = (int)(size / sizeof *keys);
    memcpy(block->keys, keys, size);
}

static void must(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "wrong: %s\n", what);
        abort();
    }
}

static int long_float(const char *begin, const char *end, double *value)
{
    char copy[64];
    if (end - begin >= (ptrdiff_t)sizeof copy)
        return 0;
    memcpy(copy, begin, (size_t)(end - begin));
    copy[end - begin] = '\0';
    *value = strtod(copy, NULL);
    return *value - *value == 0.0;
}

static void *blocks[99];
static int used;

/* Just so many bytes, until the end of this input. */
static void *room_for(size_t size)
{
    return blocks[used++] = malloc(size);
}

static long long alignments;

static void tell(void)
{
    fprintf(stderr, "alignments taken: %lld\n", alignments);
}

int LLVMFuzzerInitialize(int *count, char ***arguments)
{
    (void)count;
    (void)arguments;
    return atexit(tell);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static Layout layout;
    if (size < 2)
        return 0;
    int choice = data[0];
    fill(&layout.scores, SCORES, sizeof SCORES);
    if (choice & 1) { /* without statistics */
        layout.scores.count = 6;
        memmove(layout.scores.keys + 2, layout.scores.keys + 5, 4 * sizeof(Key));
    } else if (choice & 2)
        fill(&layout.scores, LOCAL, sizeof LOCAL);
    fill(&layout.query, SEQUENCE, sizeof SEQUENCE);
    fill(&layout.library, SEQUENCE, sizeof SEQUENCE);
    layout.library.keys[3].role = R_LIBRARY_START;
    layout.library.keys[4].role = R_LIBRARY_STOP;
    layout.consensus = !(choice & 4);
    layout.codes = choice & 8 ? 1 : 0;

    ptrdiff_t rows = data[1] % 8, room = data[1] < 128 ? (ptrdiff_t)size : data[1];
    Columns c = {.rows = rows};
    c.integers = room_for((size_t)rows * INTEGERS * sizeof *c.integers);
    c.floats = room_for((size_t)rows * FLOATS * sizeof *c.floats);
    unsigned char **bytes[] = {&c.frame, &c.opens, &c.has_gene, &c.has_chr, &c.has_query,
                               &c.has_library};
    for (int i = 0; i < 6; i++)
        *bytes[i] = room_for((size_t)rows);
    memset(c.has_query, choice & 64 ? 0 : 1, (size_t)rows);
    memset(c.has_library, choice & 64 ? 0 : 1, (size_t)rows);
    for (int i = 0; i < TEXTS; i++) {
        c.texts[i].data = room_for((size_t)room);
        c.texts[i].capacity = room;
        c.texts[i].ends = room_for((size_t)(rows + 1) * sizeof(int32_t));
        c.texts[i].ends[0] = 0;
    }
    /* A copy of just these bytes, so that a look beyond them is seen. */
    char *text = room_for(size - 2);
    memcpy(text, data + 2, size - 2);
    const char *end = text + (size - 2);
    Hit hit = {{{"id", 2}, {NULL, -1}, {NULL, -1}}};
    if (choice & 16)
        hit.parts[0].size = -1;
    Taken taken = take_alignments(text, end, &layout, &c, 0, &hit, long_float);
    must(taken.at >= text && taken.at <= end, "the position");
    must(taken.taken >= 0 && taken.taken <= rows, "the number of alignments");
    must(taken.taken == 0 || taken.at > text, "alignments without bytes");
    alignments += taken.taken;
    ptrdiff_t lines = 0;
    for (const char *p = text; p < taken.at; p++)
        lines += *p == '\n';
    must(lines == taken.lines, "the number of lines");
    for (int i = 0; i < TEXTS; i++)
        for (ptrdiff_t row = 0; row < taken.taken; row++)
            must(c.texts[i].ends[row] <= c.texts[i].ends[row + 1] &&
                     c.texts[i].ends[row + 1] <= room,
                 "the end of a text");
    Search search = {"0123456789ab", {"query", 5}};
    for (ptrdiff_t row = 0; row < taken.taken; row++)
        for (int kind = RNA; kind <= ALIGN; kind++) {
            size_t most = max_document_bytes(&c, row, kind, &search);
            char *place = malloc(most);
            size_t written =
                write_document(place, &c, row, kind, "digest!", row, &search, choice & 32);
            must(written <= most, "the size of a document");
            free(place);
        }
    while (used)
        free(blocks[--used]);
    return 0;
}

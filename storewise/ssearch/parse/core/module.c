/* The module `storewise.ssearch.parse._core`: the Python interface of `alignments.c` and `bson.c`.
 * `compiled.py` calls it. */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#include "alignments.h"
#include "bson.h"

/* The columns as a tuple of buffers: see `Columns.buffers` in columns.py. */
enum { B_INTEGERS, B_FLOATS, B_FRAME, B_OPENS, B_HAS_GENE, B_HAS_CHR, B_HAS_QUERY,
       B_HAS_LIBRARY, B_TEXTS,
       BUFFERS = B_TEXTS + 2 * TEXTS };

typedef struct {
    Py_buffer buffers[BUFFERS];
    int count;
    Columns columns;
} ColumnBuffers;

static void release_buffers(ColumnBuffers *held)
{
    while (held->count > 0)
        PyBuffer_Release(&held->buffers[--held->count]);
}

/* 0, and an exception, where the buffers do not fit together. */
static int acquire_buffers(ColumnBuffers *held, PyObject *tuple, Py_ssize_t rows)
{
    Py_buffer *b = held->buffers;
    Columns *c = &held->columns;
    held->count = 0;
    if (PyTuple_Size(tuple) != BUFFERS) {
        PyErr_SetString(PyExc_ValueError, "a wrong number of columns");
        return 0;
    }
    for (; held->count < BUFFERS; held->count++)
        if (PyObject_GetBuffer(PyTuple_GetItem(tuple, held->count), &b[held->count],
                               PyBUF_WRITABLE) < 0) {
            release_buffers(held);
            return 0;
        }
    c->rows = b[B_FRAME].len;
    c->integers = b[B_INTEGERS].buf;
    c->floats = b[B_FLOATS].buf;
    c->frame = b[B_FRAME].buf;
    c->opens = b[B_OPENS].buf;
    c->has_gene = b[B_HAS_GENE].buf;
    c->has_chr = b[B_HAS_CHR].buf;
    c->has_query = b[B_HAS_QUERY].buf;
    c->has_library = b[B_HAS_LIBRARY].buf;
    int fits = rows >= 0 && rows <= c->rows &&
               b[B_INTEGERS].len == c->rows * INTEGERS * (Py_ssize_t)sizeof(int64_t) &&
               b[B_FLOATS].len == c->rows * FLOATS * (Py_ssize_t)sizeof(double) &&
               b[B_OPENS].len == c->rows && b[B_HAS_GENE].len == c->rows &&
               b[B_HAS_CHR].len == c->rows && b[B_HAS_QUERY].len == c->rows &&
               b[B_HAS_LIBRARY].len == c->rows;
    for (int i = 0; i < TEXTS && fits; i++) {
        Py_buffer *data = &b[B_TEXTS + 2 * i], *ends = data + 1;
        Text text = {data->buf, data->len, ends->buf};
        c->texts[i] = text;
        fits = data->len <= INT32_MAX &&
               ends->len == (c->rows + 1) * (Py_ssize_t)sizeof(int32_t) && text.ends[0] == 0;
        for (Py_ssize_t row = 0; row < rows && fits; row++)
            fits = text.ends[row + 1] >= text.ends[row];
        fits = fits && text.ends[rows] <= data->len;
    }
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "columns that do not fit together");
        release_buffers(held);
    }
    return fits;
}

static int read_block(PyObject *lines, Block *block)
{
    Py_ssize_t count = PyTuple_Size(lines);
    if (count < 0 || count > MAX_KEYS) {
        PyErr_SetString(PyExc_ValueError, "too many keys");
        return 0;
    }
    block->count = (int)count;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!PyArg_ParseTuple(PyTuple_GetItem(lines, i), "y#i", &block->keys[i].start,
                              &block->keys[i].size, &block->keys[i].role))
            return 0;
    return 1;
}

static int long_float(const char *begin, const char *end, double *value)
{
    char copy[64];
    if (end - begin >= (ptrdiff_t)sizeof copy)
        return 0;
    memcpy(copy, begin, (size_t)(end - begin));
    copy[end - begin] = '\0';
    *value = PyOS_string_to_double(copy, NULL, NULL);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return 0;
    }
    return *value - *value == 0.0;
}

PyDoc_STRVAR(take_doc,
             "take(text, start, end, (scores, query, library, consensus, codes), columns, rows, "
             "(seqid, gene, chr)) -> (taken, lines, position behind, position of the last hit or -1, full)");

static PyObject *take(PyObject *self, PyObject *args)
{
    (void)self;
    Py_buffer text;
    Py_ssize_t start, end, rows, sizes[3];
    PyObject *scores, *query, *library, *columns, *result = NULL;
    Layout layout;
    Hit hit;
    ColumnBuffers held;
    if (!PyArg_ParseTuple(args, "y*nn(OOOii)O!n(z#z#z#):take", &text, &start, &end, &scores, &query,
                          &library, &layout.consensus, &layout.codes, &PyTuple_Type, &columns,
                          &rows, &hit.parts[0].text, &sizes[0], &hit.parts[1].text, &sizes[1],
                          &hit.parts[2].text, &sizes[2]))
        return NULL;
    for (int i = 0; i < 3; i++)
        hit.parts[i].size = hit.parts[i].text == NULL ? -1 : sizes[i];
    if (start < 0 || start > end || end > text.len)
        PyErr_SetString(PyExc_ValueError, "a wrong range of the text");
    else if (read_block(scores, &layout.scores) && read_block(query, &layout.query) &&
             read_block(library, &layout.library) && acquire_buffers(&held, columns, rows)) {
        const char *begin = text.buf;
        Taken taken = take_alignments(begin + start, begin + end, &layout, &held.columns, rows,
                                      &hit, long_float);
        Py_ssize_t last = taken.hit == NULL ? -1 : taken.hit - begin;
        result = Py_BuildValue("nnnni", taken.taken, taken.lines, taken.at - begin, last, taken.full);
        release_buffers(&held);
    }
    PyBuffer_Release(&text);
    return result;
}

/* The documents of one kind, of the rows up to each search's end. */
static PyObject *documents(const Columns *c, Py_ssize_t rows, int kind, const char *digest,
                           long long first, PyObject *searches, int study)
{
    PyObject *list = PyList_New(rows);
    size_t room = 0;
    char *place = NULL;
    Py_ssize_t row = 0, count = PyTuple_Size(searches);
    for (Py_ssize_t i = 0; i < count && list != NULL; i++) {
        Search search;
        Py_ssize_t stop, task_size, query_size;
        if (!PyArg_ParseTuple(PyTuple_GetItem(searches, i), "ny#y#", &stop, &search.task,
                              &task_size, &search.query.text, &query_size))
            goto failed;
        search.query.size = query_size;
        if (stop < row || stop > rows || task_size != ID_BYTES || (i + 1 == count && stop < rows)) {
            PyErr_SetString(PyExc_ValueError, "searches that are not of these rows");
            goto failed;
        }
        for (; row < stop; row++) {
            size_t most = max_document_bytes(c, row, kind, &search);
            if (most > room) {
                PyMem_Free(place);
                room = 2 * most;
                place = PyMem_Malloc(room);
                if (place == NULL) {
                    PyErr_NoMemory();
                    goto failed;
                }
            }
            size_t size =
                write_document(place, c, row, kind, digest, first + row, &search, study);
            PyObject *document = PyBytes_FromStringAndSize(place, (Py_ssize_t)size);
            if (document == NULL || PyList_SetItem(list, row, document) < 0)
                goto failed;
        }
    }
    PyMem_Free(place);
    return list;
failed:
    PyMem_Free(place);
    Py_XDECREF(list);
    return NULL;
}

PyDoc_STRVAR(bson_doc, "bson(columns, rows, digest, first ordinal, ((stop, task, query), ...), "
                       "study fields only) -> (rna, gs, align), each a list of documents");

static PyObject *bson(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *columns, *searches, *result = NULL, *kinds[3] = {NULL, NULL, NULL};
    Py_ssize_t rows, digest_size;
    const char *digest;
    long long first;
    int study;
    ColumnBuffers held;
    if (!PyArg_ParseTuple(args, "O!ny#LO!p:bson", &PyTuple_Type, &columns, &rows, &digest,
                          &digest_size, &first, &PyTuple_Type, &searches, &study))
        return NULL;
    if (digest_size < DIGEST_BYTES || first < 0 || (rows && PyTuple_Size(searches) == 0)) {
        PyErr_SetString(PyExc_ValueError, "no digest, ordinal or search");
        return NULL;
    }
    if (!acquire_buffers(&held, columns, rows))
        return NULL;
    for (int i = 0; i < 3; i++) {
        kinds[i] = documents(&held.columns, rows, RNA + i, digest, first, searches, study);
        if (kinds[i] == NULL)
            goto done;
    }
    result = PyTuple_Pack(3, kinds[0], kinds[1], kinds[2]);
done:
    for (int i = 0; i < 3; i++)
        Py_XDECREF(kinds[i]);
    release_buffers(&held);
    return result;
}

static PyMethodDef methods[] = {
    {"take", take, METH_VARARGS, take_doc},
    {"bson", bson, METH_VARARGS, bson_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "storewise.ssearch.parse._core", "The reader's inner loop.", -1,
    methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__core(void)
{
    return PyModule_Create(&module);
}

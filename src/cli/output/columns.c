/* Prints a list of objects as a table with aligned columns. */
#include <string.h>

#include "cli/cli_internal.h"

json_t *json_at(json_t *object, const char *path) {
    while (object) {
        size_t size = strcspn(path, ".");
        object = json_object_getn(object, path, size);
        if (!path[size]) break;
        path += size + 1;
    }
    return object;
}

/* A table as text, cell by cell, before its widths are known. */
struct cells {
    char **texts; /* rows × columns, by rows; the first row is the headings */
    size_t rows;
    size_t columns;
};

static void cells_free(struct cells *cells) {
    for (size_t i = 0; cells->texts && i < cells->rows * cells->columns; i++) free(cells->texts[i]);
    free(cells->texts);
}

static char *cell_text(const struct column *column, json_t *row) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    const char *key = strrchr(column->path, '.');
    format_value(key ? key + 1 : column->path, json_at(row, column->path), &text);
    /* A tab has no width of its own. */
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] == '\t') text.data[i] = ' ';
    return buf_take_string(&text);
}

static bool cells_fill(struct cells *cells, const struct column *columns, json_t *rows) {
    cells->texts = calloc(cells->rows * cells->columns, sizeof *cells->texts);
    if (!cells->texts) return false;
    for (size_t row = 0; row < cells->rows; row++)
        for (size_t column = 0; column < cells->columns; column++) {
            char *text =
                row == 0 ? strdup(columns[column].heading) : cell_text(&columns[column], json_array_get(rows, row - 1));
            if (!text) return false;
            cells->texts[row * cells->columns + column] = text;
        }
    return true;
}

static size_t column_width(const struct cells *cells, size_t column) {
    size_t width = 0;
    for (size_t row = 0; row < cells->rows; row++) {
        size_t cell = text_width(cells->texts[row * cells->columns + column]);
        if (cell > width) width = cell;
    }
    return width;
}

static void print_row(FILE *out, const struct cells *cells, size_t row, const struct column *columns,
                      const size_t *widths) {
    for (size_t column = 0; column < cells->columns; column++) {
        const char *text = cells->texts[row * cells->columns + column];
        int padding = (int)(widths[column] - text_width(text));
        bool last = column == cells->columns - 1;
        if (columns[column].right)
            fprintf(out, "%*s%s%s", padding, "", text, last ? "" : "  ");
        else
            fprintf(out, "%s%*s%s", text, last ? 0 : padding, "", last ? "" : "  ");
    }
}

void columns_print(FILE *out, bool colour, const struct column *columns, size_t count, json_t *rows) {
    CLEANUP(cells_free) struct cells cells = {.rows = json_array_size(rows) + 1, .columns = count};
    CLEANUP_FREE size_t *widths = calloc(count, sizeof *widths);
    if (count == 0 || !widths || !cells_fill(&cells, columns, rows)) return;
    for (size_t column = 0; column < count; column++) widths[column] = column_width(&cells, column);
    for (size_t row = 0; row < cells.rows; row++) {
        if (row == 0) fputs(style_code(colour, STYLE_BOLD), out);
        print_row(out, &cells, row, columns, widths);
        if (row == 0) fputs(style_code(colour, STYLE_PLAIN), out);
        fputc('\n', out);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Every event of ours has a line of its own, so a file is read line by line. */
#include "traced/traced.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

#define NEGOTIATE "NEGOTIATE_"
#define US 1e-6
#define TIME_MAX_S 1e9

/* An operation that is not over, of a lane. */
struct open {
    struct rg_traced_op op;
    struct rg_traced_arrival *arrivals;
    size_t narrivals, room;
    int depth; /* of spans */
    enum { IDLE, NEGOTIATES, RUNS } state;
};

struct reading {
    struct rg_traced *traced;
    struct open *lanes;
    size_t nlanes, room;
    bool has_time;
};

static const char *text_of(const json_t *event, const char *name)
{
    const char *text = json_string_value(json_object_get(event, name));

    return text ? text : "";
}

static double number_of(const json_t *object, const char *name, double max)
{
    double number = json_number_value(json_object_get(object, name));

    return isfinite(number) && number > 0 ? fmin(number, max) : 0;
}

static void keep_word(char word[RG_TRACED_WORD], const char *text)
{
    word[0] = '\0';
    strncat(word, text, RG_TRACED_WORD - 1);
}

/* NULL: there are too many, or there is no memory. */
static struct open *lane_of(struct reading *reading, size_t number)
{
    if (number >= RG_TRACED_LANES_MAX ||
        rg_grow(&reading->lanes, &reading->room, number + 1) < 0)
        return NULL;
    for (; reading->nlanes <= number; reading->nlanes++)
        reading->lanes[reading->nlanes] = (struct open){ .state = IDLE };
    return &reading->lanes[number];
}

/* --- what a line says ------------------------------------------------------------------------- */

static int on_metadata(struct reading *reading, const json_t *event, size_t number)
{
    struct rg_traced *traced = reading->traced;
    const json_t *args = json_object_get(event, "args");
    double began_us = number_of(args, "start_time_since_epoch_in_micros", 1e18);

    if (began_us > 0)
        traced->began_s = began_us * US;
    if (strcmp(text_of(event, "name"), "process_name") != 0 || number >= RG_TRACED_LANES_MAX)
        return 0;
    if (rg_grow(&traced->names, &traced->names_room, number + 1) < 0)
        return -ENOMEM;
    for (; traced->nnames <= number; traced->nnames++)
        traced->names[traced->nnames] = NULL;
    free(traced->names[number]);
    traced->names[number] = strdup(text_of(args, "name"));
    return traced->names[number] ? 0 : -ENOMEM;
}

static void begin_operation(struct open *open, const json_t *event, double at_s)
{
    const json_t *args = json_object_get(event, "args");

    open->state = RUNS;
    open->depth = 1;
    open->op.all_s = at_s;
    open->op.nbytes = (uint64_t) number_of(args, "bytes", 1e15);
    open->op.ntensors = (int) number_of(args, "tensors", 1e6);
    keep_word(open->op.kind, text_of(event, "name"));
    keep_word(open->op.type, text_of(args, "dtype"));
}

static void on_begin(struct open *open, const json_t *event, double at_s)
{
    if (strncmp(text_of(event, "name"), NEGOTIATE, strlen(NEGOTIATE)) == 0) {
        open->state = NEGOTIATES;
        open->depth = 1;
        open->op.failed = false;
    } else if (open->state == NEGOTIATES && json_is_object(json_object_get(event, "args"))) {
        begin_operation(open, event, at_s);
    } else if (open->state != IDLE) {
        open->depth++;
    }
}

static int finish(struct rg_traced *traced, struct open *open, uint32_t lane, double at_s)
{
    struct rg_traced_op *op = &open->op;
    size_t narrivals = open->narrivals;

    open->state = IDLE;
    open->narrivals = 0; /* of another host may come before this rank's own */
    if (traced->nops >= RG_TRACED_OPS_MAX ||
        traced->narrivals + narrivals > RG_TRACED_ARRIVALS_MAX)
        return 0;
    if (rg_grow(&traced->ops, &traced->ops_room, traced->nops + 1) < 0 ||
        rg_grow(&traced->arrivals, &traced->arrivals_room,
                traced->narrivals + narrivals + 1) < 0)
        return -ENOMEM;
    op->lane = lane;
    op->end_s = at_s;
    op->first = traced->narrivals;
    op->narrivals = narrivals;
    for (size_t i = 0; i < narrivals; i++)
        traced->arrivals[traced->narrivals++] = open->arrivals[i];
    traced->ops[traced->nops++] = *op;
    return 0;
}

static int on_end(struct rg_traced *traced, struct open *open, uint32_t lane, double at_s)
{
    if (open->state == IDLE || --open->depth > 0)
        return 0;
    if (open->state == RUNS)
        return finish(traced, open, lane, at_s);
    open->depth = 0; /* of the negotiation: the operation begins now */
    return 0;
}

static int add_wait(struct rg_traced *traced, double at_s)
{
    if (traced->nwaits >= RG_TRACED_OPS_MAX)
        return 0;
    if (rg_grow(&traced->waits, &traced->waits_room, traced->nwaits + 1) < 0)
        return -ENOMEM;
    traced->waits[traced->nwaits++] = at_s;
    return 0;
}

static int on_instant(struct reading *reading, struct open *open, const json_t *event, double at_s)
{
    const char *name = text_of(event, "name");
    size_t length = strspn(name, "0123456789");

    if (strcmp(name, "WAIT") == 0)
        return add_wait(reading->traced, at_s);
    if (strcmp(name, "FAILED") == 0)
        open->op.failed = true;
    if (length == 0 || length > 7 || name[length] || open->state == RUNS)
        return 0;
    if (rg_grow(&open->arrivals, &open->room, open->narrivals + 1) < 0)
        return -ENOMEM;
    open->arrivals[open->narrivals++] = (struct rg_traced_arrival){ atoi(name), at_s };
    return 0;
}

static int take(struct reading *reading, const json_t *event)
{
    struct rg_traced *traced = reading->traced;
    const json_t *pid = json_object_get(event, "pid");
    json_int_t number = json_is_integer(pid) ? json_integer_value(pid) : -1;
    const char *phase = text_of(event, "ph");
    double at_s = number_of(event, "ts", TIME_MAX_S / US) * US;

    if (number < 0 || number >= RG_TRACED_LANES_MAX)
        return 0;
    if (*phase == 'M')
        return on_metadata(reading, event, (size_t) number);
    struct open *open = lane_of(reading, (size_t) number);
    if (!open)
        return -ENOMEM;
    traced->first_s = reading->has_time ? fmin(traced->first_s, at_s) : at_s;
    traced->last_s = fmax(traced->last_s, at_s);
    reading->has_time = true;
    if (*phase == 'B')
        on_begin(open, event, at_s);
    else if (*phase == 'E')
        return on_end(traced, open, (uint32_t) number, at_s);
    else if (*phase == 'i')
        return on_instant(reading, open, event, at_s);
    return 0;
}

/* --- lines ------------------------------------------------------------------------------------ */

/* Of the object in the line, without the comma behind it; 0: it is none. */
static size_t object_nbytes(const char *line, size_t nbytes)
{
    while (nbytes > 0 && (line[nbytes - 1] == ',' || isspace((unsigned char) line[nbytes - 1])))
        nbytes--;
    return nbytes > 1 && line[0] == '{' && line[nbytes - 1] == '}' ? nbytes : 0;
}

static size_t line_nbytes(const char *text, size_t nbytes)
{
    const char *end = memchr(text, '\n', nbytes);

    return end ? (size_t) (end - text) : nbytes;
}

double rg_traced_time(const char *text, size_t nbytes)
{
    size_t n = object_nbytes(text, line_nbytes(text, nbytes));
    json_t *event = n ? json_loadb(text, n, 0, NULL) : NULL;
    const json_t *time = json_object_get(event, "ts");
    double at_s = json_is_number(time) ? json_number_value(time) * US : -1;

    json_decref(event);
    return at_s;
}

static int by_time(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;

    return (x > y) - (x < y);
}

int rg_traced_parse(const char *text, size_t nbytes, struct rg_traced *ret_traced)
{
    struct rg_traced traced = { 0 };
    struct reading reading = { .traced = &traced };
    int r = 0;

    while (r == 0 && nbytes > 0) {
        size_t line = line_nbytes(text, nbytes), n = object_nbytes(text, line);
        json_t *event = n ? json_loadb(text, n, 0, NULL) : NULL;
        r = json_is_object(event) ? take(&reading, event) : 0;
        json_decref(event);
        line += line < nbytes;
        text += line;
        nbytes -= line;
    }
    for (size_t i = 0; i < reading.nlanes; i++)
        free(reading.lanes[i].arrivals);
    free(reading.lanes);
    if (r < 0)
        rg_traced_fini(&traced);
    else
        *ret_traced = traced;
    if (r == 0 && traced.nwaits)
        qsort(traced.waits, traced.nwaits, sizeof(*traced.waits), by_time);
    return r;
}

void rg_traced_fini(struct rg_traced *traced)
{
    for (size_t i = 0; i < traced->nnames; i++)
        free(traced->names[i]);
    free(traced->names);
    free(traced->waits);
    free(traced->arrivals);
    free(traced->ops);
    *traced = (struct rg_traced){ 0 };
}

double rg_traced_came(const struct rg_traced *traced, const struct rg_traced_op *op, int rank)
{
    for (size_t i = 0; i < op->narrivals; i++) {
        if (traced->arrivals[op->first + i].rank == rank)
            return traced->arrivals[op->first + i].at_s;
    }
    return -1;
}

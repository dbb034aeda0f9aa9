/* SPDX-License-Identifier: Apache-2.0 */
#include "frame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct xla_error *frame_error_create(struct xla_error_create_args *args)
{
    struct xla_error *error = calloc(1, sizeof(*error));

    if (!error)
        abort();
    error->code = args->code;
    snprintf(error->text, sizeof(error->text), "%s", args->message);
    return error;
}

static void place_attributes(struct place *place)
{
    static const char *const names[ATTRIBUTES] = { "name",        "kind",     "op",       "root",
                                                   "process_set", "prescale", "postscale" };
    int *const ints[] = { &place->kind, &place->op, &place->root, &place->process_set };
    double *const factors[] = { &place->prescale, &place->postscale };

    place->op = REIGEN_SUM;
    place->prescale = place->postscale = 1.0;
    place->name = (struct xla_span) { "grad", 4 };
    for (int i = 0; i < ATTRIBUTES; i++) {
        place->names[i] = (struct xla_span) { names[i], strlen(names[i]) };
        place->name_pointers[i] = &place->names[i];
        place->attribute_types[i] = i == 0 ? XLA_ATTR_STRING : XLA_ATTR_SCALAR;
    }
    place->items[0] = &place->name;
    for (int i = 0; i < 4; i++) {
        place->ints[i] = (struct xla_scalar) { XLA_S32, ints[i] };
        place->items[1 + i] = &place->ints[i];
    }
    for (int i = 0; i < 2; i++) {
        place->factors[i] = (struct xla_scalar) { XLA_F64, factors[i] };
        place->items[5 + i] = &place->factors[i];
    }
}

void place_init(struct place *place, const struct xla_api *api, int kind, int count)
{
    memset(place, 0, sizeof(*place));
    place->kind = kind;
    place->dims[0] = ROWS;
    for (int i = 0; i < count; i++) {
        place->ins[i] = (struct xla_buffer) { sizeof(place->ins[i]), NULL, XLA_F32,
                                              place->in[i], 1, place->dims };
        place->outs[i] = place->ins[i];
        place->outs[i].data = place->out[i];
        place->args[i] = &place->ins[i];
        place->results[i] = &place->outs[i];
        place->types[i] = XLA_BUFFER;
    }
    place_attributes(place);
    place->frame = (struct xla_frame) {
        .struct_size = sizeof(place->frame),
        .api = api,
        .stage = XLA_STAGE_EXECUTE,
        .args = { 0, NULL, count, place->types, place->args },
        .results = { 0, NULL, count, place->types, place->results },
        .attributes = { 0, NULL, ATTRIBUTES, place->attribute_types, place->name_pointers,
                        place->items },
    };
}

void place_add_token(struct place *place)
{
    int64_t count = place->frame.args.size++;

    place->frame.results.size++;
    memmove(place->args + 1, place->args, (size_t) count * sizeof(place->args[0]));
    memmove(place->results + 1, place->results, (size_t) count * sizeof(place->results[0]));
    place->types[count] = XLA_BUFFER;
    place->token = (struct xla_buffer) { .struct_size = sizeof(place->token), .dtype = XLA_TOKEN };
    place->args[0] = place->results[0] = &place->token;
}

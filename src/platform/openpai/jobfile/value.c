/* SPDX-License-Identifier: Apache-2.0 */
/* A parameter's value, as it stands in a command: the server writes it as JavaScript does. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/openpai/jobfile/pai_internal.h"

#define INT_MAX_JS (INT64_C(1) << 53)
#define DIGITS_MAX 17 /* tell any number from all others */

bool rg_pai_is_rounded(const json_t *value)
{
    double real = json_real_value(value);
    json_int_t n = json_integer_value(value);

    return n > INT_MAX_JS || n < -INT_MAX_JS ||
           (real == floor(real) && (real > INT_MAX_JS || real < -INT_MAX_JS));
}

/* As JavaScript writes it: with as few digits as tell it from all others. */
static char *number_text(double real)
{
    char digits[40], *dot = digits + (real < 0) + 1;
    int precision = 0;

    do {
        snprintf(digits, sizeof digits, "%.*e", precision, real);
    } while (strtod(digits, NULL) != real && ++precision < DIGITS_MAX);
    char *e = strchr(digits, 'e');
    if (!e || real == 0)
        return strdup(e ? "0" : digits);
    int power = atoi(e + 1);
    *e = '\0';
    if (power < -7 || power > 20)
        return rg_strf("%se%+d", digits, power);
    if (power <= precision)
        return rg_strf("%.*f", precision - power, real);
    if (*dot)
        memmove(dot, dot + 1, strlen(dot));
    return rg_strf("%s%0*d", digits, power - precision, 0);
}

char *rg_pai_value_text(const json_t *value)
{
    if (json_is_string(value))
        return strlen(json_string_value(value)) == json_string_length(value)
                   ? strdup(json_string_value(value)) : NULL;
    if (json_is_real(value) || rg_pai_is_rounded(value))
        return number_text(json_number_value(value));
    if (json_is_boolean(value) || json_is_integer(value))
        return json_dumps(value, JSON_ENCODE_ANY);
    return NULL;
}

char *rg_pai_export(const char *name, const json_t *value)
{
    rg_autofree char *text = rg_pai_value_text(value);
    rg_autobuf struct rg_buf quoted = RG_BUF_INIT;

    /* A template in a value would be one again. */
    if (!text || strstr(text, "<%") || !rg_pai_is_of(name, RG_PAI_WORD "_") ||
        isdigit((unsigned char) *name))
        return NULL;
    /* Templates are replaced before a shell reads the line: a quote in the value would end it. */
    if (!strpbrk(text, "'\r\n") && strlen(name) < RG_PAI_NAME_MAX)
        return rg_strf("export %s='<%% $parameters.%s %%>'", name, name);
    for (const char *p = text; *p; p++) {
        if (*p == '\'')
            rg_buf_printf(&quoted, "'\\''");
        else
            rg_buf_put_u8(&quoted, (uint8_t) *p);
    }
    return rg_strf("export %s='%s'", name, rg_buf_text(&quoted));
}

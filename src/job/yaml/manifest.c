/* SPDX-License-Identifier: Apache-2.0 */
/* Manifests are read by people, too: scripts in them stand there line by line, which libfyaml's
 * printer does not do for trees of jansson's. All other texts are quoted: no reader of YAML takes
 * one for a number. */
#include "job/yaml/manifest.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "base/str.h"
#include "job/yaml/yaml.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"
#define OBJECT_MAX 253
#define OCTAL_MAX 20 /* digits that fit into 64 bits */

/* --- a tree as YAML --------------------------------------------------------------------------- */

static void put(struct rg_buf *text, const json_t *value, int indent, bool in_list);

/* Words that no reader of YAML takes for anything but a text. */
static bool is_plain(const char *word)
{
    static const char *const others[] = { "y", "n", "yes", "no", "on", "off", "true", "false",
                                          "null", NULL };

    for (const char *const *other = others; *other; other++) {
        if (strcasecmp(word, *other) == 0)
            return false;
    }
    return isalpha((unsigned char) *word) &&
           !word[strspn(word, LETTERS DIGITS "-_./")];
}

/* Lines of a script, which are for reading, too. */
static bool is_block(const char *words)
{
    size_t n = strlen(words);

    if (n < 2 || words[n - 1] != '\n' || words[n - 2] == '\n' || strchr(" \t\n", *words))
        return false;
    for (const char *p = words; *p; p++) {
        if (*p != '\n' && (*p < ' ' || *p > '~'))
            return false;
    }
    return true;
}

/* As JSON, and without what it allows and YAML does not, or takes for the end of a line. */
static void put_quoted(struct rg_buf *text, const char *words, size_t nbytes)
{
    rg_autobuf struct rg_buf quoted = RG_BUF_INIT;

    rg_json_put_bytes(&quoted, words, nbytes);
    for (const unsigned char *p = (const unsigned char *) rg_buf_text(&quoted); *p; p++) {
        unsigned wide = p[0] >= 0xe0 && p[0] < 0xf0
                            ? (p[0] & 0xfu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu)
                            : 0;
        if (p[0] == 0xc2 && p[1] < 0xa0)
            rg_buf_printf(text, "\\u00%02x", *++p);
        else if (wide == 0x2028 || wide == 0x2029 || wide == 0xfeff || wide >= 0xfffe)
            rg_buf_printf(text, "\\u%04x", wide), p += 2;
        else
            rg_buf_put_u8(text, *p);
    }
}

static void put_text(struct rg_buf *text, const char *words, size_t nbytes, int indent)
{
    if (strlen(words) != nbytes || !is_block(words)) {
        put_quoted(text, words, nbytes);
        rg_buf_printf(text, "\n");
        return;
    }
    rg_buf_printf(text, "|\n");
    for (size_t n; *words; words += n + 1) {
        n = strcspn(words, "\n");
        rg_buf_printf(text, "%*s%.*s\n", n ? indent : 0, "", (int) n, words);
    }
}

/* Behind a key or a dash, with the end of the line. */
static void put_value(struct rg_buf *text, const json_t *value, int indent, bool in_list)
{
    bool empty = json_is_array(value) ? !json_array_size(value) : !json_object_size(value);
    char number[64];

    if (json_is_string(value)) {
        rg_buf_printf(text, " ");
        put_text(text, json_string_value(value), json_string_length(value), indent);
    } else if (json_is_integer(value) || json_is_real(value)) {
        size_t n = json_dumpb(value, number, sizeof(number), JSON_ENCODE_ANY);
        rg_buf_printf(text, " %.*s\n", (int) n, number);
    } else if (json_is_boolean(value) || json_is_null(value)) {
        rg_buf_printf(text, " %s\n", json_is_true(value)    ? "true"
                                     : json_is_false(value) ? "false"
                                                            : "null");
    } else if (empty) {
        rg_buf_printf(text, " %s\n", json_is_array(value) ? "[]" : "{}");
    } else if (in_list) {
        rg_buf_printf(text, " ");
        put(text, value, indent, true);
    } else {
        rg_buf_printf(text, "\n");
        put(text, value, indent, false);
    }
}

/* The lines of a list or a mapping that is not empty; begun: the first one has its indent. */
static void put(struct rg_buf *text, const json_t *value, int indent, bool begun)
{
    const char *key;
    json_t *item;
    size_t i;

    json_array_foreach(value, i, item) {
        rg_buf_printf(text, "%*s-", i || !begun ? indent : 0, "");
        put_value(text, item, indent + 2, true);
    }
    json_object_foreach((json_t *) value, key, item) {
        rg_buf_printf(text, "%*s", begun ? 0 : indent, "");
        begun = false;
        if (is_plain(key))
            rg_buf_printf(text, "%s", key);
        else
            put_quoted(text, key, strlen(key));
        rg_buf_printf(text, ":");
        put_value(text, item, json_is_array(item) ? indent : indent + 2, false);
    }
}

int rg_manifest_put(const json_t *value, struct rg_buf *text)
{
    if (json_object_size(value))
        put(text, value, 0, false);
    else
        rg_buf_printf(text, "{}\n");
    return rg_buf_status(text);
}

/* --- words that come from users --------------------------------------------------------------- */

/* --- a tree of YAML --------------------------------------------------------------------------- */

/* "0555", as modes of files are written, and "0o555": libfyaml takes them for texts. NULL: it is
 * something else. */
static json_t *octal(struct fy_node *node)
{
    rg_autofree char *word = fy_node_is_scalar(node) && fy_node_get_style(node) == FYNS_PLAIN
                                 ? rg_yaml_text(node)
                                 : NULL;
    const char *digits = word && word[0] == '0' ? word + (word[1] == 'o' ? 2 : 1) : "";
    size_t n = strlen(digits);

    return n && n <= OCTAL_MAX && strspn(digits, "01234567") == n
               ? json_integer(strtoll(digits, NULL, 8))
               : NULL;
}

/* Put them into value, which is this node's. */
static void set_octals(struct fy_node *node, json_t *value)
{
    void *place = NULL;
    struct fy_node *item;
    struct fy_node_pair *pair;
    json_t *number;

    for (size_t i = 0; json_is_array(value) && (item = fy_node_sequence_iterate(node, &place));
         i++) {
        if ((number = octal(item)))
            json_array_set_new(value, i, number);
        else
            set_octals(item, json_array_get(value, i));
    }
    while (json_is_object(value) && (pair = fy_node_mapping_iterate(node, &place))) {
        rg_autofree char *key = rg_yaml_text(fy_node_pair_key(pair));
        item = fy_node_pair_value(pair);
        if (key && item && (number = octal(item)))
            json_object_set_new(value, key, number);
        else if (key && item)
            set_octals(item, json_object_get(value, key));
    }
}

int rg_manifest_read(const char *path, const char *what, const char *text, size_t nbytes,
                     json_t **ret_value, struct rg_error *err)
{
    rg_autofree char *dumped = NULL;
    RG_AUTO_YAML struct fy_document *doc = NULL;
    json_error_t at;
    int r = rg_yaml_load(path, what, text, nbytes, &doc, err);

    if (r < 0)
        return r;
    if (doc && fy_document_resolve(doc) == 0)
        dumped = fy_emit_document_to_string(doc, FYECF_MODE_JSON_ONELINE);
    json_t *value = dumped ? json_loads(dumped, JSON_DECODE_ANY, &at) : NULL;
    if (value)
        set_octals(fy_document_root(doc), value);
    *ret_value = value;
    return 0;
}

int rg_manifest_quantity(const char *what, const char *value, struct rg_error *err)
{
    static const char units[] = "m k M G T P E Ki Mi Gi Ti Pi Ei";
    const char *p = value + strspn(value, DIGITS);
    size_t ndigits = (size_t) (p - value);

    if (*p == '.') {
        size_t n = strspn(p + 1, DIGITS);
        p += n + 1;
        ndigits += n;
    }
    if (!ndigits || (*p && !rg_str_has_word(units, p)))
        return rg_error_set(err, EINVAL, "%s %.80s: no quantity; write a number such as 2, 500m, "
                            "1.5 or 8Gi", what, value);
    return 0;
}

static bool is_label(const char *text, size_t n, size_t max)
{
    return n && n <= max && strspn(text, "abcdefghijklmnopqrstuvwxyz-" DIGITS) >= n &&
           text[0] != '-' && text[n - 1] != '-';
}

int rg_manifest_label(const char *what, const char *value, size_t max, struct rg_error *err)
{
    if (is_label(value, strlen(value), max))
        return 0;
    return rg_error_set(err, EINVAL, "%s %.80s: no name for Kubernetes; write at most %zu of a-z, "
                        "0-9 and -, with a letter or digit at both ends", what, value, max);
}

int rg_manifest_object(const char *what, const char *value, struct rg_error *err)
{
    bool fits = strlen(value) <= OBJECT_MAX;

    for (const char *at = value; fits; at++) {
        size_t n = strcspn(at, ".");
        fits = is_label(at, n, OBJECT_MAX);
        at += n;
        if (!*at)
            break;
    }
    if (fits)
        return 0;
    return rg_error_set(err, EINVAL, "%s %.80s: no name for Kubernetes; write a-z, 0-9, - and ., "
                        "with a letter or digit at both ends", what, value);
}

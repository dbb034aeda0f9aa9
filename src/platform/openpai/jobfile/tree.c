/* SPDX-License-Identifier: Apache-2.0 */
/* The values of a file and the places where they stand are two trees: v1's JSON is read as strictly
 * as the server reads it, and only libfyaml knows lines and columns. A place is looked for when
 * there is something to say about it. */
#include <string.h>

#include "base/exitcode.h"
#include "job/yaml/yaml.h"
#include "platform/openpai/jobfile/pai_internal.h"

#define WHAT "a job file of OpenPAI"
#define DEPTH_MAX 64
#define REAL_MAX 9007199254740991.0 /* the last whole number that JavaScript knows for certain */
#define VALUES_MAX 16384 /* of one file, where aliases count as often as they stand there */
#define BYTE_MARK "\xef\xbb\xbf" /* some editors begin a file with this mark */
#define LARGE_DIGITS 16 /* of a number that may have more than 64 bits */
#define VERSION_KEY "protocolVersion"
#define COMMAS_MAX 64 /* that are left out */
#define WHAT_MAX 60      /* characters of a value that a finding shows */

/* --- places ----------------------------------------------------------------------------------- */

struct rg_pai_at rg_pai_at_key(const struct rg_pai_at *up, const char *key)
{
    return (struct rg_pai_at){ up, key, 0, json_object_get(up->value, key) };
}

struct rg_pai_at rg_pai_at_index(const struct rg_pai_at *up, size_t index)
{
    return (struct rg_pai_at){ up, NULL, index, json_array_get(up->value, index) };
}

int64_t rg_pai_int(const json_t *value, bool loose)
{
    double real = json_real_value(value);
    int64_t n = RG_PAI_NONE;

    if (json_is_integer(value))
        return json_integer_value(value);
    if (json_is_real(value) && real >= -REAL_MAX && real <= REAL_MAX && real == (int64_t) real)
        return (int64_t) real;
    if (loose && json_is_string(value) &&
        rg_parse_int("", json_string_value(value), RG_PAI_NONE + 1, INT64_MAX, &n, NULL) < 0)
        return RG_PAI_NONE;
    return n;
}

int64_t rg_pai_at_int(const struct rg_pai_at *at, const char *key, int64_t other)
{
    int64_t n = rg_pai_int(json_object_get(at->value, key), true);

    return n == RG_PAI_NONE ? other : n;
}

/* "taskRoles[0].name", on the heap; NULL: out of memory. */
static char *path_of(const struct rg_pai_at *at)
{
    if (!at->up)
        return strdup("");
    rg_autofree char *up = path_of(at->up);

    if (!up)
        return NULL;
    return at->key ? rg_strf("%s%s%.200s", up, *up ? "." : "", at->key)
                   : rg_strf("%s[%zu]", up, at->index);
}

static struct fy_node *target(struct fy_node *node)
{
    return node && fy_node_is_alias(node) ? fy_node_resolve_alias(node) : node;
}

static struct fy_node_pair *find_pair(struct fy_node *node, const char *key)
{
    struct fy_node_pair *pair;
    void *place = NULL;

    if (!node || !fy_node_is_mapping(node))
        return NULL;
    while ((pair = fy_node_mapping_iterate(node, &place))) {
        rg_autofree char *text = rg_yaml_text(fy_node_pair_key(pair));
        if (text && strcmp(text, key) == 0)
            return pair;
    }
    return NULL;
}

/* Its node and, in a mapping, the key in front. Both NULL: it is not there. */
static struct fy_node *find_node(const struct rg_pai_check *check, const struct rg_pai_at *at,
                                 struct fy_node **ret_key)
{
    *ret_key = NULL;
    if (!at->up)
        return check->places ? fy_document_root(check->places) : NULL;
    struct fy_node *key, *up = target(find_node(check, at->up, &key));

    if (!at->key)
        return up && fy_node_is_sequence(up) ? fy_node_sequence_get_by_index(up, (int) at->index)
                                             : NULL;
    struct fy_node_pair *pair = find_pair(up, at->key);
    *ret_key = pair ? fy_node_pair_key(pair) : NULL;
    return pair ? fy_node_pair_value(pair) : NULL;
}

/* --- findings --------------------------------------------------------------------------------- */

void rg_pai_findings_fini(struct rg_pai_findings *found)
{
    for (size_t i = 0; i < found->count; i++) {
        free(found->v[i].path);
        free(found->v[i].what);
        free(found->v[i].rule);
        free(found->v[i].remedy);
        free(found->v[i].instead);
    }
    free(found->v);
    *found = (struct rg_pai_findings) RG_PAI_FINDINGS_INIT;
}

static void add_up(struct rg_pai_findings *found, enum rg_pai_weight weight)
{
    found->nerrors += weight >= RG_PAI_MENDED;
    found->nwarnings += weight < RG_PAI_MENDED;
    found->nfatal += weight == RG_PAI_ERROR;
}

static void add(struct rg_pai_findings *found, enum rg_pai_weight weight,
                struct rg_pai_finding take)
{
    take.is_error = weight >= RG_PAI_MENDED;
    take.mends = weight == RG_PAI_BETTERED || weight == RG_PAI_MENDED;
    add_up(found, weight);
    bool whole = take.path && take.what && take.rule && take.remedy;

    if (whole && found->count < RG_PAI_FINDINGS_MAX &&
        rg_grow(&found->v, &found->capacity, found->count + 1) == 0) {
        found->v[found->count++] = take;
        return;
    }
    found->failed |= !whole || found->count < RG_PAI_FINDINGS_MAX;
    free(take.path);
    free(take.what);
    free(take.rule);
    free(take.remedy);
}

/* A value in a few words, on the heap. */
static char *shown(const json_t *value)
{
    if (!value)
        return strdup("it is not there");
    if (json_is_array(value) || json_is_object(value))
        return rg_strf("%s%s", json_is_array(value) ? "a list" : "a mapping",
                       json_array_size(value) || json_object_size(value) ? "" : " without entries");
    rg_autofree char *text = json_dumps(value, JSON_ENCODE_ANY);
    size_t n = text ? strlen(text) : 0, cut = n > WHAT_MAX ? WHAT_MAX : n;

    while (cut < n && cut && ((unsigned char) text[cut] & 0xc0) == 0x80)
        cut--;
    return text ? rg_strf("%.*s%s", (int) cut, text, cut < n ? "..." : "") : NULL;
}

void rg_pai_report(struct rg_pai_check *check, const struct rg_pai_at *at,
                   enum rg_pai_weight weight, const char *what, const char *rule,
                   const char *remedy)
{
    struct rg_pai_finding one = { .line = 1, .column = 1 };
    struct fy_node *key = NULL, *node = NULL;
    bool is_here = true;

    /* What is only counted is not looked for: that takes a walk through the file each time. */
    if (check->found->count >= RG_PAI_FINDINGS_MAX) {
        add_up(check->found, weight);
        return;
    }
    for (const struct rg_pai_at *p = at; p && !node && !key; p = p->up) {
        node = find_node(check, p, &key);
        is_here = p == at;
    }
    /* Of what is not there: where the mapping begins that should have it. */
    rg_yaml_place(is_here && at->value ? node : key ? key : node, key, &one.line, &one.column);
    one.path = path_of(at);
    one.what = what ? strdup(what) : shown(at->value);
    one.rule = strdup(rule);
    one.remedy = strdup(remedy);
    add(check->found, weight, one);
}

void rg_pai_suggest(struct rg_pai_check *check, const struct rg_pai_at *at, const char *instead,
                    const char *rule, const char *remedy)
{
    struct rg_pai_findings *found = check->found;
    size_t before = found->count;

    rg_pai_report(check, at, RG_PAI_BETTERED, NULL, rule, remedy);
    if (!instead || found->count == before)
        return;
    found->v[before].instead = strdup(instead);
    found->failed |= !found->v[before].instead;
}

/* The same of a place that has no value, in a file that is not read to the end. */
static void report_here(struct rg_pai_check *check, enum rg_pai_weight weight, int line, int column,
                        const char *what, const char *rule, const char *remedy)
{
    struct rg_pai_finding one = { .line = line, .column = column, .path = strdup(""),
                                  .what = strdup(what), .rule = strdup(rule),
                                  .remedy = strdup(remedy) };

    add(check->found, weight, one);
}

static void report_node(struct rg_pai_check *check, struct fy_node *node, const char *what,
                        const char *rule, const char *remedy)
{
    int line, column;

    rg_yaml_place(node, NULL, &line, &column);
    report_here(check, RG_PAI_ERROR, line, column, what, rule, remedy);
}

static void report_much(struct rg_pai_check *check, struct fy_node *node)
{
    report_node(check, node, "too much", "a job has at most 16384 values, 64 deep",
                "make the file smaller");
}

/* --- YAML as values --------------------------------------------------------------------------- */

/* "2026-11-28", perhaps with a time behind it. */
static bool looks_like_date(const char *text)
{
    static const char form[] = "dddd-dd-dd";

    for (size_t i = 0; form[i]; i++) {
        if (form[i] == '-' ? text[i] != '-' : text[i] < '0' || text[i] > '9')
            return false;
    }
    const char *rest = text + strlen(form);
    return !*rest || (strchr("Tt ", *rest) && strchr(rest, ':'));
}

bool rg_pai_is_date(const struct rg_pai_check *check, const json_t *value)
{
    const json_t *item;
    size_t i;

    json_array_foreach(check->dates, i, item) {
        if (item == value)
            return true;
    }
    return false;
}

/* "0x1f", "0b11", "1_000"; NULL: none of these. */
static json_t *other_integer(const char *text)
{
    rg_autofree char *copy = strdup(text);
    char *to = copy, *end;
    bool negative = *text == '-';

    for (const char *p = text + (negative || *text == '+'); copy && *p; p++) {
        if (*p != '_')
            *to++ = *p;
    }
    if (!copy || to == copy || !strchr(RG_PAI_DIGITS, *copy))
        return NULL;
    *to = '\0';
    int base = rg_str_starts(copy, "0x") ? 16 : rg_str_starts(copy, "0b") ? 2 : 10;
    if (base == 10 && (!strchr(text, '_') || *copy == '0'))
        return NULL;
    errno = 0;
    long long number = strtoll(copy + (base == 10 ? 0 : 2), &end, base);
    return *end || errno || end == copy ? NULL : json_integer(negative ? -number : number);
}

/* A plain scalar as the server's reader takes it; NULL: a text. */
static json_t *plain(const char *text)
{
    static const char *const words[] = { "", "~", "null", "Null", "NULL", "true", "True", "TRUE",
                                         "false", "False", "FALSE" };
    const char *digits = text + (*text == '-' || *text == '+');
    size_t n = strspn(digits, RG_PAI_DIGITS);
    char *end;

    for (size_t i = 0; i < rg_array_len(words); i++) {
        if (strcmp(text, words[i]) == 0)
            return i < 5 ? json_null() : i < 8 ? json_true() : json_false();
    }
    if (!n && *digits != '.')
        return NULL;
    errno = 0;
    bool octal = *digits == '0' && n > 1 && !digits[strspn(digits, "01234567")];
    long long number = strtoll(text, &end, octal ? 8 : 10);
    if (n && !digits[n] && errno == ERANGE && *digits != '0')
        return json_real(strtod(text, NULL));
    if (n && !digits[n] && errno == 0 && (octal || *digits != '0' || n == 1))
        return json_integer(number);
    if (strspn(digits, RG_PAI_DIGITS ".eE+-") != strlen(digits) || !strpbrk(digits, ".eE"))
        return other_integer(text);
    double real = strtod(text, &end);
    return *end || end == text ? NULL : json_real(real);
}

static json_t *scalar(struct rg_pai_check *check, struct fy_node *node)
{
    rg_autofree char *text = rg_yaml_text(node);
    json_t *value = NULL;

    if (rg_yaml_is_null(node))
        return json_null();
    if (!text) {
        report_node(check, node, "a NUL byte", "a text has none", "take it out");
        return json_null();
    }
    if (fy_node_get_style(node) == FYNS_PLAIN)
        value = plain(text);
    bool is_date = !value && fy_node_get_style(node) == FYNS_PLAIN && looks_like_date(text);
    value = value ? value : json_string(text);
    if (is_date && !check->dates)
        check->dates = json_array();
    if (is_date && json_array_append(check->dates, value) < 0)
        check->found->failed = true;
    return value;
}

static json_t *tree_of(struct rg_pai_check *check, struct fy_node *node, int depth, int *left);

static json_t *mapping(struct rg_pai_check *check, struct fy_node *node, int depth, int *left)
{
    json_t *object = json_object();
    struct fy_node_pair *pair;
    void *place = NULL;

    while (object && *left > 0 && (pair = fy_node_mapping_iterate(node, &place))) {
        struct fy_node *key = fy_node_pair_key(pair);
        rg_autofree char *name = key ? rg_yaml_text(key) : NULL;
        bool merges = name && fy_node_get_style(key) == FYNS_PLAIN && strcmp(name, "<<") == 0;
        if (!name || !fy_node_is_scalar(key) || merges) {
            report_node(check, key, name ? name : "a key that is no text",
                        "merge keys and keys that are no texts are not read", "write fields out");
            continue;
        }
        json_t *value = tree_of(check, fy_node_pair_value(pair), depth + 1, left);
        if (json_object_set_new(object, name, value) < 0)
            check->found->failed = true;
    }
    return object;
}

static json_t *tree_of(struct rg_pai_check *check, struct fy_node *node, int depth, int *left)
{
    json_t *list;
    struct fy_node *item;
    void *place = NULL;

    if (--*left <= 0 || depth > DEPTH_MAX) {
        if (*left >= 0)
            report_much(check, node);
        *left = -1;
        return json_null();
    }
    node = target(node);
    if (!node || fy_node_is_scalar(node))
        return node ? scalar(check, node) : json_null();
    if (fy_node_is_mapping(node))
        return mapping(check, node, depth, left);
    list = json_array();
    while (list && *left > 0 && (item = fy_node_sequence_iterate(node, &place))) {
        if (json_array_append_new(list, tree_of(check, item, depth + 1, left)) < 0)
            check->found->failed = true;
    }
    return list;
}

/* --- a file ----------------------------------------------------------------------------------- */

/* JSON as libfyaml takes it too, with everything in its place: it may have tabs and escapes that
 * YAML has not. */
static void mask(char *copy, size_t nbytes)
{
    copy[nbytes] = '\0';
    for (size_t i = 0; i < nbytes; i++) {
        if (copy[i] == '\t')
            copy[i] = ' ';
        else if (copy[i] == '\\' && i + 1 < nbytes)
            copy[i] = copy[i + 1] = 'x', i++;
    }
}

/* Blanks in the place of what begins with two slashes, or a slash and a star, outside of texts. How
 * many there were. */
static size_t blank_comments(char *text, size_t nbytes)
{
    size_t count = 0;
    bool quoted = false;

    for (size_t i = 0; i < nbytes; i++) {
        char next = i + 1 < nbytes ? text[i + 1] : '\0';
        if (quoted && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            quoted = !quoted;
        if (quoted || text[i] != '/' || (next != '/' && next != '*'))
            continue;
        size_t end = i + 2;
        while (end < nbytes && (next == '/' ? text[end] != '\n'
                                            : text[end - 1] != '*' || text[end] != '/' ||
                                                  end == i + 2))
            end++;
        end += next == '*' && end < nbytes;
        for (count++; i < end; i++)
            text[i] = strchr("\r\n", text[i]) ? text[i] : ' ';
        i--;
    }
    return count;
}

/* jansson takes no integer of more than 64 bits; the servers take it for a real number. */
static json_t *load_large(const char *text, size_t nbytes, json_error_t *ret_at)
{
    rg_autobuf struct rg_buf copy = RG_BUF_INIT;
    bool quoted = false;

    for (size_t i = 0, n; i < nbytes; i += n) {
        char before = i ? text[i - 1] : ' ';
        n = quoted || strchr(RG_PAI_DIGITS, text[i]) == NULL || !text[i]
                ? 1 : strspn(text + i, RG_PAI_DIGITS);
        if (quoted && text[i] == '\\' && i + 1 < nbytes)
            n = 2;
        else if (text[i] == '"')
            quoted = !quoted;
        rg_buf_put(&copy, text + i, n);
        if (n >= LARGE_DIGITS && !strchr(".eE+", before) && !strchr(".eE", text[i + n]))
            rg_buf_put(&copy, "e0", 2);
    }
    if (rg_buf_status(&copy) < 0)
        return NULL;
    return json_loadb(rg_buf_text(&copy), rg_buf_nbytes(&copy), JSON_REJECT_DUPLICATES, ret_at);
}

/* text has a NUL at its end. */
static json_t *load_json(const char *text, size_t nbytes, json_error_t *ret_at)
{
    size_t blank = 0;

    memset(ret_at, 0, sizeof(*ret_at));
    while (blank < nbytes && strchr(" \t\r\n", text[blank]) && text[blank])
        blank++;
    if (blank == nbytes || text[blank] != '{')
        return NULL;
    ret_at->line = 1; /* it was begun */
    json_t *tree = json_loadb(text, nbytes, JSON_REJECT_DUPLICATES, ret_at);

    if (!tree && json_error_code(ret_at) == json_error_numeric_overflow)
        tree = load_large(text, nbytes, ret_at);
    return tree;
}

static void report_char(struct rg_pai_check *check, enum rg_pai_weight weight, const char *text,
                        size_t at, const char *what, const char *rule, const char *remedy)
{
    int line = 1, column = 1;

    for (size_t i = 0; i < at; i++) {
        line += text[i] == '\n';
        column = text[i] == '\n' ? 1 : column + 1;
    }
    report_here(check, weight, line, column, what, rule, remedy);
}

/* Where the comma is behind which the reader came to the end of a list or an object; 0: elsewhere.
 * In a job of protocol v2, which is YAML, it may stand there. */
static size_t find_last_comma(const char *text, size_t nbytes, const json_error_t *at)
{
    size_t i = at->position > 0 && (size_t) at->position <= nbytes ? (size_t) at->position - 1 : 0;

    if (!i || !strchr("}]", text[i]) || memmem(text, nbytes, VERSION_KEY, strlen(VERSION_KEY)))
        return 0;
    do
        i--;
    while (i > 0 && strchr(" \t\r\n", text[i]));
    return text[i] == ',' ? i : 0;
}

/* As the web portal reads it, and with commas left out that JSON has not. The copy is freed where
 * it is no JSON. */
static json_t *load_commented(struct rg_pai_check *check, const char *text, size_t nbytes,
                              json_error_t *ret_at)
{
    rg_autofree char *copy = malloc(nbytes + 1);

    if (!copy)
        return NULL;
    memcpy(copy, text, nbytes);
    copy[nbytes] = '\0';
    size_t ncomments = blank_comments(copy, nbytes), first = 0, comma;
    json_t *tree = load_json(copy, nbytes, ret_at);

    while (ncomments && text[first] == copy[first])
        first++;
    for (int i = 0; !tree && i < COMMAS_MAX; i++) {
        comma = find_last_comma(copy, nbytes, ret_at);
        if (!comma)
            break;
        report_char(check, RG_PAI_MENDED, text, comma, "a comma",
                    "behind the last of a list or an object JSON has none", "take it out");
        copy[comma] = ' ';
        tree = load_json(copy, nbytes, ret_at);
    }
    check->commented = tree && ncomments;
    if (check->commented)
        report_char(check, RG_PAI_BETTERED, text, first, "comments",
                    "the web portal takes them out of JSON, and the server refuses them",
                    "take them out; reigen pai convert leaves them out");
    if (tree)
        memcpy(check->masked, copy, nbytes);
    return tree;
}

static int load_yaml(struct rg_pai_check *check, const char *text, size_t nbytes,
                     struct rg_error *err)
{
    struct rg_yaml_fault fault;
    int left = VALUES_MAX;
    int r = rg_yaml_parse(WHAT, text, nbytes, &check->places, &fault);

    if (r == -EINVAL)
        report_here(check, RG_PAI_ERROR, fault.line, fault.column, fault.text,
                    "a job of protocol v2 is YAML, and one of API v1 is JSON",
                    "make it one of them");
    if (r < 0)
        return r == -EINVAL ? 0 : rg_error_memory(err);
    struct fy_node *root = check->places ? fy_document_root(check->places) : NULL;
    check->tree = root ? tree_of(check, root, 0, &left) : json_null();
    return check->tree ? 0 : rg_error_memory(err);
}

/* Whether a tree is as small as one of YAML has to be. */
static bool is_small(const json_t *value, int depth, int *left)
{
    const char *name;
    json_t *item;
    size_t i;
    bool fits = --*left > 0 && depth <= DEPTH_MAX;

    json_array_foreach(value, i, item)
        fits = fits && is_small(item, depth + 1, left);
    json_object_foreach((json_t *) value, name, item)
        fits = fits && is_small(item, depth + 1, left);
    return fits;
}

static void report_json(struct rg_pai_check *check, const json_error_t *at)
{
    bool twice = json_error_code(at) == json_error_duplicate_key;

    report_here(check, RG_PAI_ERROR, at->line > 0 ? at->line : 1, at->column > 0 ? at->column : 1,
                at->text,
                twice ? "a field stands there once; the server would take the last one"
                      : "a job of API v1 is JSON",
                twice ? "keep one of them" : "write it as JSON, or convert it to protocol v2");
}

int rg_pai_tree_load(struct rg_pai_check *check, const char *path, const char *text, size_t nbytes,
                     struct rg_error *err)
{
    json_error_t at;
    int left = VALUES_MAX;

    if (nbytes >= strlen(BYTE_MARK) && memcmp(text, BYTE_MARK, strlen(BYTE_MARK)) == 0) {
        text += strlen(BYTE_MARK);
        nbytes -= strlen(BYTE_MARK);
    }
    if (nbytes > RG_YAML_NBYTES_MAX)
        return rg_yaml_load(path, WHAT, text, nbytes, &check->places, err);
    check->masked = malloc(nbytes + 1);
    if (!check->masked)
        return rg_error_memory(err);
    memcpy(check->masked, text, nbytes);
    check->tree = load_commented(check, text, nbytes, &at);
    mask(check->masked, nbytes);
    if (check->tree && !is_small(check->tree, 0, &left))
        report_much(check, NULL);
    if (check->tree) {
        check->version = json_object_get(check->tree, "protocolVersion") ? 2 : 1;
        /* Without places all stands in line 1. */
        struct rg_yaml_fault fault;
        rg_yaml_parse(WHAT, check->masked, nbytes, &check->places, &fault);
        return 0;
    }
    bool braces = at.line > 0;
    if (braces && !memmem(text, nbytes, VERSION_KEY, strlen(VERSION_KEY))) {
        check->version = 1;
        report_json(check, &at);
        return 0;
    }
    check->version = 2;
    int r = load_yaml(check, text, nbytes, err);
    if (r < 0 || json_object_get(check->tree, "protocolVersion") ||
        !json_object_get(check->tree, "jobName"))
        return r;
    check->version = 1;
    struct rg_pai_at root = { NULL, NULL, 0, check->tree };
    struct rg_pai_at name = rg_pai_at_key(&root, "jobName");
    rg_pai_report(check, &name, RG_PAI_ERROR, "YAML", "a job of API v1 is JSON",
                  "write it as JSON, or name the fields as protocol v2 does");
    return 0;
}

void rg_pai_tree_fini(struct rg_pai_check *check)
{
    json_decref(check->tree);
    json_decref(check->dates);
    rg_yaml_free(&check->places);
    free(check->masked);
}

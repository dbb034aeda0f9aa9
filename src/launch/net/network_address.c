/* SPDX-License-Identifier: Apache-2.0 */
/* An interface's address, as agents write it, in the form in which it is compared. */
#include "launch/net/network_address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

static bool looks_like_bridge(const char *name)
{
    static const char *const prefixes[] = { "docker", "br-",   "veth",   "virbr", "cni",
                                            "lxc",    "lxdbr", "podman", "cali",  "flannel" };

    for (size_t i = 0; i < rg_array_len(prefixes); i++) {
        if (rg_str_starts(name, prefixes[i]))
            return true;
    }
    return false;
}

int rg_net_address_parse(const char *text, struct rg_net_address *ret_address)
{
    struct rg_net_address a = { 0 };
    char copy[INET6_ADDRSTRLEN + 8], name[IF_NAMESIZE] = "";
    size_t length = strcspn(text, " ");

    if (length >= sizeof(copy) || strlen(text + length) > sizeof(name))
        return -EINVAL;
    snprintf(copy, sizeof(copy), "%.*s", (int) length, text);
    snprintf(name, sizeof(name), "%s", text[length] ? text + length + 1 : "");
    char *slash = strchr(copy, '/');
    if (slash)
        *slash++ = '\0';
    int family = strchr(copy, ':') ? AF_INET6 : AF_INET;
    int64_t prefix = a.nbits = family == AF_INET6 ? 128 : 32;
    if (inet_pton(family, copy, a.bytes) != 1 || strlen(copy) >= sizeof(a.text) ||
        (slash && rg_parse_int("prefix", slash, 0, a.nbits, &prefix, NULL) < 0))
        return -EINVAL;
    a.prefix = (int) prefix;
    strcpy(a.text, copy);
    strcpy(a.interface, name);
    a.loopback = strcmp(name, "lo") == 0 ||
                 (family == AF_INET ? a.bytes[0] == 127 : strcmp(copy, "::1") == 0);
    a.local = family == AF_INET ? a.bytes[0] == 169 && a.bytes[1] == 254
                                : a.bytes[0] == 0xfe && (a.bytes[1] & 0xc0) == 0x80;
    a.bridge = looks_like_bridge(name);
    *ret_address = a;
    return 0;
}

bool rg_net_address_is_in(const struct rg_net_address *address, const struct rg_net_address *net)
{
    int whole = net->prefix / 8, rest = net->prefix % 8;

    if (address->nbits != net->nbits || memcmp(address->bytes, net->bytes, (size_t) whole) != 0)
        return false;
    return rest == 0 || ((address->bytes[whole] ^ net->bytes[whole]) >> (8 - rest)) == 0;
}

bool rg_net_address_same_net(const struct rg_net_address *a, const struct rg_net_address *b)
{
    return a->prefix == b->prefix && rg_net_address_is_in(a, b);
}

void rg_net_address_format_net(const struct rg_net_address *address, char *text, size_t room)
{
    uint8_t bytes[16] = { 0 };
    char plain[INET6_ADDRSTRLEN] = "";

    memcpy(bytes, address->bytes, (size_t) (address->prefix + 7) / 8);
    if (address->prefix % 8)
        bytes[address->prefix / 8] &= (uint8_t) (0xff << (8 - address->prefix % 8));
    inet_ntop(address->nbits == 128 ? AF_INET6 : AF_INET, bytes, plain, sizeof(plain));
    snprintf(text, room, "%s/%d", plain, address->prefix);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes as text, for the static agent, in the place of libsodium's functions of these names: its
 * archive has them in one piece with others, which is 2.3 KB larger. Its header has their
 * contracts, of which the agent uses a part: the variant of base64 with padding, no ignored
 * characters in hexadecimal digits, and no pointer to the end.
 *
 * Keys pass through here: what a digit is decides about no branch and no address.
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include <sodium.h>

/* 0xff.. where a <= b, else 0. Both are below 2^31. */
static unsigned up_to(unsigned a, unsigned b)
{
    return ((b - a) >> 31) - 1;
}

static unsigned between(unsigned low, unsigned c, unsigned high)
{
    return up_to(low, c) & up_to(c, high);
}

static unsigned char digit_of(unsigned value)
{
    return (unsigned char) (value + '0' + (up_to(10, value) & ('a' - '0' - 10)));
}

/* -1: it is none. */
static int value_of(unsigned char c)
{
    unsigned letter = c | 0x20, number = between('0', c, '9'), other = between('a', letter, 'f');

    return (int) ((number & (c - '0' + 1u)) | (other & (letter - 'a' + 11u))) - 1;
}

char *sodium_bin2hex(char *const hex, const size_t hex_maxlen, const unsigned char *const bin,
                     const size_t bin_len)
{
    if (bin_len >= SIZE_MAX / 2 || hex_maxlen <= 2 * bin_len)
        sodium_misuse();
    for (size_t i = 0; i < bin_len; i++) {
        hex[2 * i] = (char) digit_of(bin[i] >> 4);
        hex[2 * i + 1] = (char) digit_of(bin[i] & 15);
    }
    hex[2 * bin_len] = '\0';
    return hex;
}

int sodium_hex2bin(unsigned char *const bin, const size_t bin_maxlen, const char *const hex,
                   const size_t hex_len, const char *const ignore, size_t *const bin_len,
                   const char **const hex_end)
{
    int bad = hex_len % 2 || hex_len / 2 > bin_maxlen || ignore || hex_end ? -1 : 0;

    for (size_t i = 0; !bad && i < hex_len / 2; i++) {
        int high = value_of((unsigned char) hex[2 * i]);
        int low = value_of((unsigned char) hex[2 * i + 1]);
        bin[i] = (unsigned char) (high << 4 | low);
        bad = (high | low) < 0 ? -1 : 0;
    }
    if (bin_len)
        *bin_len = bad ? 0 : hex_len / 2;
    return bad;
}

size_t sodium_base64_encoded_len(const size_t bin_len, const int variant)
{
    (void) variant;
    return (bin_len + 2) / 3 * 4 + 1;
}

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *sodium_bin2base64(char *const b64, const size_t b64_maxlen, const unsigned char *const bin,
                        const size_t bin_len, const int variant)
{
    char *at = b64;

    if (variant != sodium_base64_VARIANT_ORIGINAL ||
        b64_maxlen < sodium_base64_encoded_len(bin_len, variant))
        sodium_misuse();
    for (size_t i = 0; i < bin_len; i += 3) {
        size_t left = bin_len - i;
        uint32_t three = (uint32_t) bin[i] << 16 | (left > 1 ? bin[i + 1] << 8 : 0) |
                         (left > 2 ? bin[i + 2] : 0);
        *at++ = digits[three >> 18];
        *at++ = digits[three >> 12 & 63];
        *at++ = left > 1 ? digits[three >> 6 & 63] : '=';
        *at++ = left > 2 ? digits[three & 63] : '=';
    }
    *at = '\0';
    return b64;
}

int sodium_base642bin(unsigned char *const bin, const size_t bin_maxlen, const char *const b64,
                      const size_t b64_len, const char *const ignore, size_t *const bin_len,
                      const char **const b64_end, const int variant)
{
    uint32_t bits = 0;
    unsigned nbits = 0, npad = 0;
    size_t n = 0, ndigits = 0;

    if (b64_end || variant != sodium_base64_VARIANT_ORIGINAL)
        sodium_misuse();
    for (size_t i = 0; i < b64_len; i++) {
        char c = b64[i];
        const char *found = c ? memchr(digits, c, sizeof(digits) - 1) : NULL;

        if (c && ignore && strchr(ignore, c))
            continue;
        if (c == '=' && ++npad <= 2)
            continue;
        if (!found || npad)
            return -1;
        ndigits++;
        bits = bits << 6 | (uint32_t) (found - digits);
        nbits += 6;
        if (nbits < 8)
            continue;
        nbits -= 8;
        if (n == bin_maxlen)
            return -1;
        bin[n++] = (unsigned char) (bits >> nbits);
    }
    if ((ndigits + npad) % 4 || npad != (4 - ndigits % 4) % 4 || bits & ((1u << nbits) - 1))
        return -1;
    *bin_len = n;
    return 0;
}

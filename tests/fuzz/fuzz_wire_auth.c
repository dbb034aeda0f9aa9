/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of rg_auth, from a peer that does not know the key: none may ever succeed. */
#include "fuzz.h"
#include "wire/auth.h"

static void feed(bool initiator, const uint8_t *data, size_t nbytes)
{
    static const uint8_t key[RG_AUTH_KEY_NBYTES] = { 1, 2, 3 };
    uint8_t message[RG_AUTH_MESSAGE_MAX];
    struct rg_auth auth;
    size_t out;

    must(rg_auth_start(&auth, initiator, key, "data 0 1", message, &out) == 0);
    must(out == (initiator ? RG_AUTH_HELLO_NBYTES : 0));
    while (rg_auth_wanted(&auth) > 0) {
        size_t wanted = rg_auth_wanted(&auth);
        size_t part = wanted < nbytes ? wanted : nbytes;
        int rc = rg_auth_receive(&auth, data, part, message, &out);

        must(!rg_auth_done(&auth));
        must(rc == 0 ? out <= sizeof(message) : rg_auth_wanted(&auth) == 0);
        data += part;
        nbytes -= part;
    }
    rg_auth_wipe(&auth);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    feed(true, data, nbytes);
    feed(false, data, nbytes);
    return 0;
}

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# agent.sh DIR: put reigen-agent, which runs in the workers, into DIR. It is part of Reigen, which
# the image of the master has.
launcher=$(command -v reigen || command -v horovodrun)
beside=$(dirname "$(readlink -f "$launcher")")
for agent in "${REIGEN_AGENT:-}" "$(command -v reigen-agent)" "$beside/reigen-agent" \
    "$beside/../libexec/reigen/reigen-agent"; do
    if [ -f "$agent" ]; then
        cp "$agent" "$1/reigen-agent" && chmod 755 "$1/reigen-agent"
        exit
    fi
done
echo 'reigen: the image of the master has no reigen-agent: install Reigen in it, so that reigen' \
    'is in its PATH; or set ssh.enabled to true for an image with another launcher' >&2
exit 1

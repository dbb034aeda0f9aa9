#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Install Debian's or Ubuntu's packages without what they merely recommend, and keep no lists.
set -eu
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -q -y --no-install-recommends "$@"
rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A worker is ready when one can log in to it.
exec ssh -o BatchMode=yes -o ConnectTimeout=2 localhost true

/* SPDX-License-Identifier: Apache-2.0 */
/* The script that peer_gloo.c gives to python -c: peer_gloo.py, which the build puts into a C file.
 * Constant; any thread. */
#ifndef RG_CMD_BENCH_MEASURE_PEER_GLOO_H
#define RG_CMD_BENCH_MEASURE_PEER_GLOO_H

extern const char rg_bench_gloo_script[];

#endif

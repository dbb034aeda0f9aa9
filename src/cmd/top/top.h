/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `reigen top`: what the ranks of a running job do, and who is waited for, once a second; of
 * several jobs, a row each.
 *
 *   command.c   arguments; which jobs are shown, and how
 *   watch.c     a job that is watched: its launcher is asked, and whether it runs still
 *   reading.c   one reading of all ranks: shares, who is waited for, hosts
 *   rows.c      which rows are shown, in which order; ranks that do not fit are folded
 *   table.c     rows as text: amounts, sentences above the table, the table
 *   page.c      all of a job's page; the page of one rank, with its last lines
 *   several.c   several jobs, and the table of them
 *   json.c      a reading as JSON
 *   screen.c    the terminal: pages, sizes, signals; keys.c: what its bytes mean
 *   batch.c     readings for pipes and programs
 *
 * Thread rule: main thread.
 */
#ifndef RG_CMD_TOP_TOP_H
#define RG_CMD_TOP_TOP_H

/* As struct rg_command says of run. */
int rg_cmd_top(int argc, char **argv);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where each leader stands in the tree: nodes fill it level by level in the order of their numbers,
 * `degree` below each, and node 0 is the root. A job of at most degree + 1 nodes is a star.
 *
 *      degree 2:          0
 *                      1     2
 *                     3 4   5 6
 *
 * Thread rule: pure functions; nothing blocks.
 */
#ifndef RG_COLL_NEGOTIATE_TREE_SHAPE_H
#define RG_COLL_NEGOTIATE_TREE_SHAPE_H

#include <stdbool.h>

/* The one above; -1: none. */
int rg_tree_parent(int degree, int node);
/* How many are right below a node of n, and *ret_first of them; they follow each other. */
int rg_tree_children(int degree, int n, int node, int *ret_first);
/* Whether the node is `top`, or below it. */
bool rg_tree_is_below(int degree, int node, int top);
/* How many of n nodes are `top` or below it. Into ret_nodes, unless it is NULL: which, in order. */
int rg_tree_below(int degree, int n, int top, int *ret_nodes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of the tree of leaders, where it can be read and tested by itself. */
#include "coll/negotiate/tree_shape.h"

#include <stdint.h>

int rg_tree_parent(int degree, int node)
{
    return node == 0 ? -1 : (node - 1) / degree;
}

int rg_tree_children(int degree, int n, int node, int *ret_first)
{
    int64_t first = (int64_t) degree * node + 1, last = first + degree - 1;

    if (first >= n)
        return 0;
    *ret_first = (int) first;
    return (int) ((last < n ? last : n - 1) - first) + 1;
}

bool rg_tree_is_below(int degree, int node, int top)
{
    while (node > top)
        node = rg_tree_parent(degree, node);
    return node == top;
}

/* Those that are equally far below `top` follow each other. */
int rg_tree_below(int degree, int n, int top, int *ret_nodes)
{
    int64_t first = top, last = top;
    int count = 0;

    while (first < n) {
        for (int64_t node = first; node <= last && node < n; node++) {
            if (ret_nodes)
                ret_nodes[count] = (int) node;
            count++;
        }
        first = degree * first + 1;
        last = degree * last + degree;
    }
    return count;
}

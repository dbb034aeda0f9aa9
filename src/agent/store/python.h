/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a Python has a package horovod or reigen of its own. Any thread; reads directories. */
#ifndef RG_AGENT_STORE_PYTHON_H
#define RG_AGENT_STORE_PYTHON_H

#include <stdbool.h>
#include <stddef.h>

/* Does this directory of packages (length bytes of site) have one of these names? */
bool rg_python_site_has(const char *site, size_t length);
/* Does the Python whose program lies in bin (length bytes of it)? Its directories are
 * ../lib/python3*\/{site,dist}-packages beside it. */
bool rg_python_prefix_has(const char *bin, size_t length);

#endif

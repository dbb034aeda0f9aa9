/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is trained: published networks, as the list of their tensors of parameters, each with the
 * arithmetic that its layer does for one sample. The lists are computed from the shapes of the
 * layers, as the papers and the models of torchvision and Hugging Face have them, and a test holds
 * their sums against the published numbers of parameters.
 *
 *      resnet50, resnet101   He et al., arXiv:1512.03385, with the stride in the 3x3 convolution
 *      vgg16                 Simonyan, Zisserman, arXiv:1409.1556, configuration D
 *      inception3            Szegedy et al., arXiv:1512.00567, without the auxiliary classifier
 *      bert-large            Devlin et al., arXiv:1810.04805, sequences of 512 tokens
 *
 * Of newer ones only the numbers of parameters and layers are known here, as their papers round
 * them (docs/simulate.md has each with its source). So it is with a network of the user's. Their
 * layers are taken for blocks of a transformer, all alike: four matrices of attention, and two that
 * are four times as large; embeddings are spread over them.
 *
 * Thread rule: functions of their arguments alone; none blocks.
 */
#ifndef RG_SIMULATE_WORKLOAD_H
#define RG_SIMULATE_WORKLOAD_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define RG_WORKLOAD_LAYERS_MAX 1000

struct rg_profile;

struct rg_workload_tensor {
    uint64_t count;  /* parameters */
    double flops;    /* of its layer's forward pass, for one sample; 0 beside a weight */
};

struct rg_workload {
    const char *name;
    struct rg_workload_tensor *tensors; /* owned, in the order of the forward pass */
    size_t ntensors, capacity;
    uint64_t nparameters;
    double flops;
    /* A published rate of one accelerator, or 0 where none is known here: samples a second with
     * this batch, and where that stands. */
    double rate;
    int batch;
    const char *source;
    const struct rg_profile *profile; /* borrowed: it was recorded, and this has its operations in
                                       * the place of tensors; NULL: it was not */
};

/* The name of number i; NULL behind the last. */
const char *rg_workload_name(int i);
/* 0; -EINVAL with err, which lists the names; -ENOMEM. */
int rg_workload_make(const char *name, struct rg_workload *ret_workload, struct rg_error *err);
/* So many parameters, evenly in so many layers, 1 to RG_WORKLOAD_LAYERS_MAX. name is borrowed. 0 or
 * -ENOMEM. */
int rg_workload_make_even(const char *name, uint64_t nparameters, int nlayers,
                          struct rg_workload *ret_workload);
/* What was recorded (simulate/profile.h); both are borrowed. Its parameters are those of allreduces
 * in floating point. */
void rg_workload_of_profile(const char *name, const struct rg_profile *profile,
                            struct rg_workload *ret_workload);
void rg_workload_fini(struct rg_workload *workload);

#endif

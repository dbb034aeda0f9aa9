# SPDX-License-Identifier: Apache-2.0
"""What horovod.jax compiles for CUDA devices, on a machine that has none.

The programs are looked at; and as their calls differ from those for CPUs by tokens alone, the CPU
carries out such programs here. What the device's handler does is tested in C (tests/unit/jax).
"""
import re
import sys

import checks
import horovod.jax as hvd
import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import mlir
from reigen.jax import _primitive


def text_for(platforms, program, *args):
    return jax.jit(program).trace(*args).lower(lowering_platforms=platforms).as_text()


def calls_in(text):
    """(result, first argument, which of its results that is) of each call."""
    found = []
    for call in re.findall(r'[^\n]*custom_call @reigen_collective[^\n]*', text):
        match = re.match(r'\s*(%\S+?)(?::\d+)? = .*?@reigen_collective\((%[^,)#]+)(?:#(\d+))?',
                         call)
        assert match, call
        assert 'has_side_effect = true' in call, call
        found.append(match.groups())
    return found


def check_a_program_for_cuda_has_the_custom_call():
    text = text_for(('cuda',), lambda x: hvd.allreduce(x, 'grad'), jnp.ones(3))
    assert len(calls_in(text)) == 1, text
    assert 'name = "grad"' in text and '!stablehlo.token' in text, text
    plain = text_for(('cpu',), lambda x: hvd.allreduce(x, 'grad'), jnp.ones(3))
    assert len(calls_in(plain)) == 1 and 'token' not in plain, plain


def check_calls_take_the_token_of_the_one_before():
    def body(_, c):
        return hvd.allreduce(hvd.allreduce(c * 2, 'l1') * 0 + c, 'l2')

    def program(x, y):
        a = hvd.allreduce(x, 'a')
        looped = jax.lax.fori_loop(0, 3, body, y)
        return a, looped, hvd.allgather(y, 'b'), hvd.allreduce([x, y], 'c')

    functions = text_for(('cuda',), program, jnp.ones(3), jnp.ones(2)).split('func.func')
    lengths = []
    for function in functions:
        token = re.search(r'(%\S+) = stablehlo\.create_token', function)
        expected = token and (token.group(1), None)
        for result, argument, which in calls_in(function):
            assert (argument, which) == expected, (argument, which, expected, function)
            expected = result, '0'
        lengths.append(len(calls_in(function)))
    # The loop's body is a function of its own.
    assert sorted(filter(None, lengths)) == [2, 3], functions


def check_other_platforms_are_told():
    checks.raises(ValueError, lambda: text_for(('rocm',), hvd.allreduce, jnp.ones(3)),
                  'CPUs and of CUDA devices')


def check_an_array_stays_on_its_device():
    x = hvd.allreduce(jnp.full(3, float(hvd.rank())), op=hvd.Sum)
    assert x.devices() == {jax.devices()[0]}, x.devices()


def check_programs_with_tokens_are_carried_out():
    import operations
    mlir.register_lowering(_primitive.collective_p, _primitive._lower_in_order, platform='cpu')
    jax.clear_caches()
    operations.check_rows_are_moved()
    operations.check_control_flow_and_vmap()
    operations.check_an_operation_whose_result_one_rank_does_not_use_is_carried_out()
    operations.check_one_jitted_function_called_often_in_a_program_keeps_its_calls_apart()
    operations.check_mismatches_are_our_exceptions_and_the_job_goes_on()
    operations.check_process_sets()


def check_ranks_whose_programs_differ_keep_one_order():
    """Each rank computes something else between the same operations; a call that waits for all
    ranks must not be put off by it."""
    def program(xs):
        sums = []
        for i, x in enumerate(xs):
            if (i + hvd.rank()) % 2:
                x = jax.lax.fori_loop(0, 20, lambda _, m: jnp.sin(m), x) * 0 + x
            sums.append(hvd.allreduce(x, f'd{i}', op=hvd.Sum))
        return sums if hvd.rank() else sums[::-1]

    got = jax.jit(program)([jnp.full(5, float(i)) for i in range(12)])
    want = [np.full(5, i * hvd.size()) for i in range(12)]
    for each, model in zip(got, want if hvd.rank() else want[::-1]):
        np.testing.assert_array_equal(each, model)


if __name__ == '__main__':
    hvd.init(process_sets='dynamic')
    checks.run(sys.modules[__name__], *sys.argv[1:])
    hvd.shutdown()

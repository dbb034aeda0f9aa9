# SPDX-License-Identifier: Apache-2.0
"""The functions of horovod.tensorflow, horovod.tensorflow.keras and horovod.keras can be called as
those of Horovod 0.28: the same parameters in the same order, with the same defaults. More may
follow."""
import ast
import importlib
import inspect
import pickle

import horovod.tensorflow as hvd

SCALE = 'prescale_factor=1.0, postscale_factor=1.0'
DEVICES = "device_dense='', device_sparse=''"
COMMON = 'compression=Compression.none, sparse_as_dense=False'
IN_SET = 'process_set=global_process_set'
PASSES = 'backward_passes_per_step=1'
AVERAGED = 'average_aggregated_gradients=False'
GROUPS = 'num_groups=0, groups=None'
LOCAL = 'scale_local_gradients=True'
DIVIDED = 'gradient_predivide_factor=1.0'
NAMED = f'name=None, ignore_name_scope=False, {IN_SET}'

TENSORFLOW = f"""
allreduce(tensor, average=None, {DEVICES}, compression=Compression.none, op=None, {SCALE}, \
name=None, {IN_SET}, ignore_name_scope=False)
reducescatter(tensor, device_dense='', compression=Compression.none, op=Average, name=None, \
{IN_SET}, ignore_name_scope=False, {SCALE})
grouped_allreduce(tensors, average=None, {DEVICES}, compression=Compression.none, op=None, \
{SCALE}, {IN_SET}, ignore_name_scope=False, name=None)
grouped_reducescatter(tensors, device_dense='', compression=Compression.none, op=Average, \
{IN_SET}, {SCALE})
allgather(tensor, {NAMED})
grouped_allgather(tensors, {NAMED})
broadcast(tensor, root_rank, {NAMED})
broadcast_(variables, root_rank, name=None, {IN_SET})
alltoall(tensor, splits=None, {NAMED})
join()
size_op(process_set_id=0, name=None)
process_set_included_op(process_set_id=0, name=None)
local_size_op(name=None)
rank_op(name=None)
local_rank_op(name=None)
broadcast_global_variables(root_rank)
BroadcastGlobalVariablesHook(root_rank, device='')
DistributedOptimizer(optimizer, name=None, use_locking=False, {DEVICES}, {COMMON}, {PASSES}, \
op=Average, {DIVIDED}, {AVERAGED}, {GROUPS}, {IN_SET}, {LOCAL})
DistributedGradientTape(gradtape, {DEVICES}, {COMMON}, op=Average, {DIVIDED}, {GROUPS}, {IN_SET}, \
{LOCAL})
PartialDistributedGradientTape(gradtape, {DEVICES}, {COMMON}, op=Average, {DIVIDED}, {GROUPS}, \
{IN_SET}, local_layers=None, {LOCAL})
broadcast_variables(variables, root_rank, {IN_SET}, inplace=False)
broadcast_object(obj, root_rank=0, session=None, name=None, {IN_SET})
broadcast_object_fn(root_rank=0, session=None, name=None, {IN_SET})
allgather_object(obj, session=None, name=None, {IN_SET})
SyncBatchNormalization(fused=False)
vars_to_refs(vars)
refs_to_vars(refs)
"""

EITHER_KERAS = """
broadcast_global_variables(root_rank)
allgather(value, name=None)
broadcast(value, root_rank, name=None)
reducescatter(value, name=None, op=Average)
load_model(filepath, custom_optimizers=None, custom_objects=None, compression=Compression.none, \
legacy_opts=False)
"""

TF_KERAS = f"""
DistributedOptimizer(optimizer, name=None, {DEVICES}, {COMMON}, {DIVIDED}, op=Average, {PASSES}, \
{AVERAGED}, {GROUPS}, {IN_SET}, {LOCAL})
allreduce(value, name=None, average=None, {SCALE}, op=None, compression=Compression.none)
""" + EITHER_KERAS

KERAS = f"""
DistributedOptimizer(optimizer, name=None, {DEVICES}, {COMMON}, {DIVIDED}, op=Average, {GROUPS})
PartialDistributedOptimizer(optimizer, name=None, {DEVICES}, {COMMON}, {DIVIDED}, op=Average, \
groups=None, {IN_SET}, local_layers=None, {LOCAL})
allreduce(value, name=None, average=True, {SCALE}, op=None, compression=Compression.none)
""" + EITHER_KERAS

CALLBACKS = """
BroadcastGlobalVariablesCallback(root_rank, device='', local_variables=None)
MetricAverageCallback(device='')
LearningRateScheduleCallback(initial_lr, multiplier, start_epoch=0, end_epoch=None, \
staircase=True, momentum_correction=True, steps_per_epoch=None)
LearningRateWarmupCallback(initial_lr, warmup_epochs=5, momentum_correction=True, \
steps_per_epoch=None, verbose=0)
"""

ELASTIC = """
run(func)
KerasState(model, optimizer=None)
CommitStateCallback(state, batches_per_commit=1)
UpdateBatchStateCallback(state)
UpdateEpochStateCallback(state)
"""

MODULES = {
    'horovod.tensorflow': TENSORFLOW,
    'horovod.tensorflow.elastic': """
run(func)
TensorFlowKerasState(model, optimizer=None, backend=None)
TensorFlowState(variables=None, session=None)
""",
    'horovod.tensorflow.gradient_aggregation': f"""
apply_op_to_not_none_tensors(tensor_op, tensors)
get_not_none_from_list(tensor_list)
LocalGradientAggregationHelper(backward_passes_per_step, allreduce_func, sparse_as_dense, \
average_aggregated_gradients, rank, optimizer_type, {IN_SET}, {LOCAL}, name='')
""",
    'horovod.tensorflow.gradient_aggregation_eager': f"""
LocalGradientAggregationHelperEager(backward_passes_per_step, allreduce_func, sparse_as_dense, \
average_aggregated_gradients, {IN_SET}, {LOCAL})
""",
    'horovod.tensorflow.keras': TF_KERAS,
    'horovod.tensorflow.keras.callbacks': CALLBACKS + """
BestModelCheckpoint(monitor='val_loss', verbose=0, save_weights_only=False, mode='auto', \
save_freq='epoch')
""",
    'horovod.tensorflow.keras.elastic': ELASTIC,
    'horovod.keras': KERAS,
    'horovod.keras.callbacks': CALLBACKS + """
BestModelCheckpoint(monitor='val_loss', verbose=0, mode='auto', save_freq='epoch')
""",
    'horovod.keras.elastic': ELASTIC,
}

#: What a script finds in every one of the three.
EVERYWHERE = """init shutdown is_initialized start_timeline stop_timeline size local_size
cross_size rank local_rank cross_rank is_homogeneous mpi_threads_supported mpi_enabled mpi_built
gloo_enabled gloo_built nccl_built ddl_built ccl_built cuda_built rocm_built Average Sum Min Max
Product Adasum Compression ProcessSet global_process_set add_process_set remove_process_set
broadcast_object allgather_object diagnose elastic""".split()
TENSORFLOW_ONLY = """check_extension check_num_rank_power_of_2 LocalGradientAggregationHelper
handle_average_backwards_compatibility LocalGradientAggregationHelperEager HostsUpdatedInterrupt
HorovodInternalError _executing_eagerly _make_subgraph _cache _allreduce _LegacyOptimizer
_check_has_gpu""".split()


def _expected(line):
    """(name, [(parameter, source of its default or None)])"""
    function = ast.parse(f'def {line}: pass').body[0]
    names = [a.arg for a in function.args.args]
    defaults = [ast.unparse(d) for d in function.args.defaults]
    return function.name, list(zip(names, [None] * (len(names) - len(defaults)) + defaults))


def _wrong(module, line):
    """What is wrong with a function; None when all is well."""
    name, expected = _expected(line)
    if not hasattr(module, name):
        return f'{name} is missing'
    found = [p for p in inspect.signature(getattr(module, name)).parameters.values()
             if p.kind == p.POSITIONAL_OR_KEYWORD]
    if [p.name for p in found[:len(expected)]] != [parameter for parameter, _ in expected]:
        return f'{name} has the parameters {[p.name for p in found]}'
    for p, (parameter, source) in zip(found, expected):
        default = p.empty if source is None else eval(source, dict(vars(hvd)))
        if p.default is not default and p.default != default:
            return f'{name} has {parameter}={p.default!r}'
    if any(p.default is p.empty for p in found[len(expected):]):
        return f'{name} needs more than Horovod'
    return None


def check_functions_take_what_those_of_horovod_take():
    wrong = []
    for path, lines in MODULES.items():
        module = importlib.import_module(path)
        wrong += [f'{path}: {problem}' for problem in
                  (_wrong(module, line) for line in lines.split('\n') if line) if problem]
    assert not wrong, '\n'.join(wrong)


def check_names():
    for path in ('horovod.tensorflow', 'horovod.tensorflow.keras', 'horovod.keras'):
        module = importlib.import_module(path)
        names = EVERYWHERE + (TENSORFLOW_ONLY if path == 'horovod.tensorflow' else ['callbacks'])
        missing = [name for name in names if not hasattr(module, name)]
        assert not missing, f'{path} lacks {missing}'


def check_pickle_finds_what_the_modules_offer():
    for path in (p for p in MODULES if 'keras' in p):
        module = importlib.import_module(path)
        names = [line[:line.index('(')] for line in MODULES[path].split('\n') if line]
        for thing in (getattr(module, n) for n in names if n not in ('run', 'KerasState')):
            assert (thing.__module__, thing.__qualname__) == (path, thing.__name__), thing
            assert thing.__doc__ and pickle.loads(pickle.dumps(thing)) is thing, thing

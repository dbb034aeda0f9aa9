# SPDX-License-Identifier: Apache-2.0
"""Optimizers of Keras that reduce gradients before they apply them.

Three kinds have different entrances: those of Keras 3 (`apply`), those of Keras 2 and the legacy
ones of Keras 2 (`apply_gradients`). All others of their ways lead through these.
"""
import functools
import importlib
from typing import Any


class CallableList(list):
    """A list that also answers to a call: `optimizer.variables` and `optimizer.variables()`."""

    def __call__(self):
        return self


class Distributed:
    """Marks the subclasses made here."""

    _horovod: Any = None

    def register_local_var(self, var: Any) -> None:
        """This variable is of this rank only: its gradient is not reduced."""
        self._horovod.local.add(var)

    @property
    def _agg_helper(self) -> Any:
        """What adds up the gradients of several passes; None without backward_passes_per_step."""
        return self._horovod.helper if self._horovod and self._horovod.passes > 1 else None

    def _ahead(self, grads: Any, variables: Any) -> list:
        """The gradients reduced now; the next step takes what it is given as it is."""
        grads = list(grads)
        return self._horovod.reduce_ahead(grads, list(variables)) if grads else grads

    def _pairs_ahead(self, pairs: Any) -> list:
        """The same for pairs (gradient, variable)."""
        pairs = list(pairs)
        if self._horovod is None:
            return pairs
        variables = [v for _, v in pairs]
        return list(zip(self._ahead([g for g, _ in pairs], variables), variables))


def _is_keras_3(optimizer_class: type) -> bool:
    return hasattr(optimizer_class, 'stateless_apply')


def batch_counter(optimizer: Any) -> Any:
    """The variable `iterations`, in which a batch without a step is counted. None where Keras 3
    accumulates gradients itself: it goes by the number of those that it has been given."""
    optimizer = getattr(optimizer, 'inner_optimizer', optimizer)
    if getattr(optimizer, 'gradient_accumulation_steps', None):
        return None
    return optimizer.iterations


@functools.lru_cache(maxsize=None)
def _subclass_3(base: type) -> type:
    class Optimizer(Distributed, base):

        @property
        def variables(self):
            return CallableList(super().variables)

        def compute_gradients(self, loss, var_list, tape=None):
            """Pairs (gradient, variable), reduced over the ranks: the next step takes them, or
            what has been made of them, as they are. loss: a function, or a tensor and the tape."""
            grads = self._horovod.local_gradients(loss, var_list, tape, self.scale_loss)
            return self._pairs_ahead(zip(grads, var_list))

        def _compute_gradients(self, loss, var_list, grad_loss=None, tape=None):
            """As compute_gradients(), under the name that the optimizers of Keras 2 have."""
            return self.compute_gradients(loss, var_list, tape)

        def apply(self, grads, trainable_variables=None):
            """Reduce the gradients over the ranks unless compute_gradients() has done so, then
            update the variables."""
            grads = list(grads)
            if self._horovod is None or not grads:
                return super().apply(grads, trainable_variables)
            if trainable_variables is None:
                variables = list(self._trainable_variables)
            else:
                variables = list(trainable_variables)
            if not self.built and self._horovod.passes > 1:
                self.build(variables)
                self.built = True
            grads = self._horovod.compute_gradients(grads, variables)
            return self._horovod.apply_gradients(
                lambda: super(Optimizer, self).apply(grads, variables), self)

    return Optimizer


@functools.lru_cache(maxsize=None)
def _subclass_2(base: type) -> type:
    class Optimizer(Distributed, base):

        def compute_gradients(self, loss, var_list, tape=None):
            """Pairs (gradient, variable), reduced over the ranks: the next step takes them, or
            what has been made of them, as they are. loss: a function, or a tensor and the tape."""
            if hasattr(base, 'compute_gradients'):
                return self._pairs_ahead(super().compute_gradients(loss, var_list, tape))
            return self._compute_gradients(loss, var_list, None, tape)

        if hasattr(base, '_compute_gradients'):  # the legacy ones

            def _compute_gradients(self, *args, **kwargs):
                return self._pairs_ahead(super()._compute_gradients(*args, **kwargs))
        else:

            def _compute_gradients(self, loss, var_list, grad_loss=None, tape=None):
                return self.compute_gradients(loss, var_list, tape)

        if hasattr(base, 'get_gradients'):

            def get_gradients(self, loss, params):
                """Gradients reduced as those of compute_gradients()."""
                grads = super().get_gradients(loss, params)
                return grads if self._horovod is None else self._ahead(grads, params)

        def apply_gradients(self, grads_and_vars, *args, **kwargs):
            """Reduce the gradients over the ranks unless compute_gradients() has done so, then
            update the variables."""
            pairs = list(grads_and_vars)
            if self._horovod is None or not pairs:
                return super().apply_gradients(pairs, *args, **kwargs)
            variables = [v for _, v in pairs]
            grads = self._horovod.compute_gradients([g for g, _ in pairs], variables)
            self._horovod.prepare_optimizer(self, variables)
            return self._horovod.apply_gradients(
                lambda: super(Optimizer, self).apply_gradients(list(zip(grads, variables)), *args,
                                                               **kwargs),
                self)

    return Optimizer


def _subclass(base: type) -> type:
    """The subclass that reduces; it bears the name and module of the class itself."""
    if issubclass(base, Distributed):
        return base
    cls = _subclass_3(base) if _is_keras_3(base) else _subclass_2(base)
    cls.__name__, cls.__qualname__ = base.__name__, base.__qualname__
    cls.__module__, cls.__doc__ = base.__module__, base.__doc__
    return cls


def distribute(keras, optimizer: Any, combiner: Any) -> Any:
    """A new optimizer with the settings of `optimizer`, and its state where it has run."""
    adapt_keras()
    found = _subclass(type(optimizer)).from_config(optimizer.get_config())
    object.__setattr__(found, '_horovod', combiner)
    if _is_keras_3(type(optimizer)) and getattr(optimizer, 'built', False):
        _take_state(found, optimizer, optimizer._trainable_variables)
    return found


def _take_state(optimizer: Any, other: Any, variables: Any, values: Any = ()) -> None:
    """Make the optimizer's variables, with the values of another's, or those given."""
    optimizer.build(list(variables))
    for new, old in zip(optimizer.variables, values or other.variables):
        new.assign(old)


def _knows(optimizer: Any, model: Any) -> bool:
    """Whether the optimizer was built with the model's variables. In files of the format HDF5
    Keras 3 does not find those of all models; the state is lost then, and fit() fails."""
    ours, theirs = model.trainable_variables, optimizer._trainable_variables
    return len(ours) == len(theirs) and all(a is b for a, b in zip(ours, theirs))


def _rebuilt(optimizer: Any, variables: Any, path: Any) -> Any:
    found = _subclass(type(optimizer)).from_config(optimizer.get_config())
    _take_state(found, optimizer, variables, _state_in_hdf5(path))
    return found


def _state_in_hdf5(path: Any) -> list:
    """The values of the optimizer's variables in a file of that format; [] for others."""
    try:
        import h5py
        from keras.src.legacy.saving import legacy_h5_format

        with h5py.File(path, 'r') as file:
            if 'optimizer_weights' in file:
                found = legacy_h5_format.load_optimizer_weights_from_hdf5_group(file)
                return [value[()] for value in found]
    except (ImportError, OSError, TypeError):
        pass
    return []


def distribute_in_place(keras, model: Any, wrap_optimizer, path: Any) -> None:
    """Turn the optimizer of a model, loaded from `path`, into one that reduces."""
    adapt_keras()
    optimizer = model.optimizer
    combiner = wrap_optimizer(optimizer)
    if _is_keras_3(type(optimizer)) and optimizer.built and not _knows(optimizer, model):
        model.optimizer = _rebuilt(optimizer, model.trainable_variables, path)
    else:
        optimizer.__class__ = _subclass(type(optimizer))
    object.__setattr__(model.optimizer, '_horovod', combiner)
    if hasattr(model, 'jit_compile'):
        model.jit_compile = False
    for name in ('train_function', 'train_tf_function'):
        if hasattr(model, name):
            setattr(model, name, None)


def _take_out_of_loss_scale(outer: Any) -> bool:
    """compile() puts optimizers of float16 models into a LossScaleOptimizer, which decides by the
    gradients of its rank whether to step at all. The ranks have to decide together, so reducing
    moves to the outer optimizer. False when there is nothing to move."""
    inner = getattr(outer, 'inner_optimizer', None)
    if not isinstance(inner, Distributed) or isinstance(outer, Distributed):
        return False
    combiner = inner._horovod
    inner.__class__ = next(c for c in type(inner).__mro__ if not issubclass(c, Distributed))
    outer.__class__ = _subclass(type(outer))
    object.__setattr__(outer, '_horovod', combiner)
    return True


def _watch_loss_scale(module: str, names: tuple, methods: tuple) -> None:
    """Let the LossScaleOptimizers of a module of Keras take over when they are first used."""
    for cls in (getattr(importlib.import_module(module), name, None) for name in names):
        for method in methods:
            if hasattr(cls, method):
                setattr(cls, method, _taking_over(getattr(cls, method), method))


def _taking_over(original, method: str):
    @functools.wraps(original)
    def apply(self, *args, **kwargs):
        if _take_out_of_loss_scale(self):
            return getattr(self, method)(*args, **kwargs)
        return original(self, *args, **kwargs)

    return apply


def _ignore_an_old_option(trainer: type) -> None:
    """Horovod's manual tells everyone to write compile(..., experimental_run_tf_function=False).
    Keras 3 has no such option, and needs none."""
    original = trainer.compile

    @functools.wraps(original)
    def compile(self, *args, **kwargs):
        kwargs.pop('experimental_run_tf_function', None)
        return original(self, *args, **kwargs)

    trainer.compile = compile


@functools.lru_cache(maxsize=None)
def adapt_keras() -> None:
    """Keras 3 compiles whole training steps with XLA, in which no collective can run, unless the
    model says that it does not support that. One with a distributed optimizer does not."""
    try:
        trainer = importlib.import_module('keras.src.trainers.trainer')
        supports_jit = trainer.model_supports_jit
    except (ImportError, AttributeError):
        _adapt_keras_2()
        return
    _watch_loss_scale('keras.src.optimizers.loss_scale_optimizer', ('LossScaleOptimizer',),
                      ('apply',))

    @functools.wraps(supports_jit)
    def model_supports_jit(model):
        optimizer = getattr(model, 'optimizer', None)
        if isinstance(optimizer, Distributed) or isinstance(
                getattr(optimizer, 'inner_optimizer', None), Distributed):
            return False
        return supports_jit(model)

    trainer.model_supports_jit = model_supports_jit
    _ignore_an_old_option(trainer.Trainer)


def _adapt_keras_2() -> None:
    """It compiles nothing unless it is told to; only float16 needs care."""
    try:
        _watch_loss_scale('keras.src.mixed_precision.loss_scale_optimizer',
                          ('LossScaleOptimizer', 'LossScaleOptimizerV3'),
                          ('compute_gradients', '_compute_gradients', 'get_gradients',
                           'apply_gradients'))
    except ImportError:
        pass


def make_variables_callable(tensorflow: Any) -> None:
    """Let `optimizer.variables()` work with Keras 3, where `variables` is a property: scripts that
    were written for Keras 2 broadcast what that call gives."""
    optimizer = tensorflow.keras.optimizers.Optimizer
    found = next((vars(c)['variables'] for c in optimizer.__mro__ if 'variables' in vars(c)), None)
    if not _is_keras_3(optimizer) or not isinstance(found, property):
        return
    if not getattr(found.fget, 'horovod', False):
        def variables(self):
            return CallableList(found.fget(self))

        variables.horovod = True
        optimizer.variables = property(variables, doc=found.__doc__)

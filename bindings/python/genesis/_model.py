"""Models, the writing of models, and sessions."""

import ctypes
import json
import os
import tempfile
from ctypes import byref, c_char_p, c_int32, c_size_t, c_void_p

from . import _library as lib
from ._library import check, encoded, taken_text
from ._tensor import DTYPES, Tensor, as_tensor


class Model:
    """A model: its entry points, and the initial values of its states. Without a path, an empty one."""

    def __init__(self, path=None):
        self._handle = c_void_p()
        check(lib.model_create(byref(self._handle)) if path is None else lib.model_open(encoded(path), byref(self._handle)))

    def __del__(self):
        if lib is not None and getattr(self, '_handle', None):
            lib.model_free(self._handle)

    def describe(self):
        """Entry points with inputs and outputs, states, metadata and ops, as a dict."""
        text = c_void_p()
        check(lib.model_describe(self._handle, byref(text)))
        return json.loads(taken_text(text))

    @property
    def entries(self):
        return self.describe()['entries']

    @property
    def states(self):
        return self.describe()['states']

    @property
    def metadata(self):
        return self.describe()['metadata']

    def save(self, path):
        check(lib.model_save(self._handle, encoded(path)))

    def graph(self, entry, trains=False):
        """Begins an entry point, to which ops are added."""
        return Graph(self, entry, trains)

    def add_training(self, optimizer='adamw'):
        """Makes the entry point train_step of loss: 'adamw,lr=1e-3,clip=1.0'."""
        check(lib.model_add_training(self._handle, encoded(optimizer)))
        return self

    def session(self, device='cpu', threads=0, find_nonfinite=False):
        return Session(self, device, threads, find_nonfinite)


def load(path):
    """Opens a .genesis file, a folder of checkpoints or of transformers, a GGUF, .pt2 or ONNX file."""
    return Model(path)


def load_plugin(path):
    """Opens a plugin with ops and kernels, for the rest of the process."""
    check(lib.load_plugin(encoded(path)))


def from_torch(module, example, dynamic_shapes=None):
    """Makes a model of a torch.nn.Module with torch.export. `example` is a tuple of its inputs, or one of them."""
    import torch
    arguments = example if isinstance(example, tuple) else (example,)
    program = torch.export.export(module.eval(), arguments, dynamic_shapes=dynamic_shapes)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'program.pt2')
        torch.export.save(program, path)
        return load(path)


class Value:
    """A value of a graph. Operators add nodes."""

    __slots__ = ('graph', 'number')

    def __init__(self, graph, number):
        self.graph, self.number = graph, number

    def __getattr__(self, name):
        if name.startswith('_'):
            raise AttributeError(name)
        return lambda *inputs, **attributes: self.graph.op(name, self, *inputs, **attributes)

    def __add__(self, other):
        return self.graph.op('add', self, other)

    def __radd__(self, other):
        return self.graph.op('add', other, self)

    def __sub__(self, other):
        return self.graph.op('sub', self, other)

    def __rsub__(self, other):
        return self.graph.op('sub', other, self)

    def __mul__(self, other):
        return self.graph.op('mul', self, other)

    def __rmul__(self, other):
        return self.graph.op('mul', other, self)

    def __truediv__(self, other):
        return self.graph.op('div', self, other)

    def __rtruediv__(self, other):
        return self.graph.op('div', other, self)

    def __matmul__(self, other):
        return self.graph.op('matmul', self, other)

    def __neg__(self):
        return self.graph.op('neg', self)


class Graph:
    """An entry point that is being written. Ops are its methods: g.softmax(x, axis=-1); genesis.ops lists them."""

    def __init__(self, model, entry, trains=False):
        self.model = model
        self._handle = c_void_p()
        check(lib.graph_create(model._handle, encoded(entry), int(trains), byref(self._handle)))
        self._constants = 0

    def __del__(self):
        if lib is not None and getattr(self, '_handle', None):
            lib.graph_free(self._handle)

    def _value(self, function, *arguments):
        number = c_int32()
        check(function(self._handle, *arguments, byref(number)))
        return Value(self, number.value)

    def input(self, name, dtype='f32', shape=()):
        """Adds an input. Sizes are numbers, or texts for those that are known when the model runs."""
        if dtype not in DTYPES:
            raise ValueError(f"dtype '{dtype}': expected one of {', '.join(DTYPES)}")
        text = '[' + ','.join(str(size) for size in shape) + ']'
        return self._value(lib.graph_input, encoded(name), DTYPES.index(dtype), encoded(text))

    def parameter(self, name, initial):
        """Adds a state that is trained, with its initial value."""
        return self._value(lib.graph_state, encoded(name), as_tensor(initial), 1)

    def buffer(self, name, initial):
        return self._value(lib.graph_state, encoded(name), as_tensor(initial), 0)

    def state(self, name):
        """Reads a state that the model has."""
        return self._value(lib.graph_state, encoded(name), None, 0)

    def constant(self, value, name=None):
        self._constants += 1
        return self._value(lib.graph_constant, encoded(name or f'constant{self._constants}'), as_tensor(value))

    def _number(self, value):
        """Returns the number of a value of this graph."""
        if value.graph is not self:
            raise ValueError('the value belongs to another graph: an entry point takes its own values only')
        return value.number

    def op(self, name, *inputs, **attributes):
        """Applies an op by name. Returns its value, or a tuple if it has several."""
        numbers = [self._number(v) if isinstance(v, Value) else self.constant(v).number for v in inputs]
        results, made = (c_int32 * 64)(), c_size_t()
        text = encoded(json.dumps(attributes)) if attributes else None
        check(lib.graph_op(self._handle, encoded(name), text, (c_int32 * max(len(numbers), 1))(*numbers), len(numbers),
                           results, 64, byref(made)))
        values = tuple(Value(self, results[i]) for i in range(min(made.value, 64)))
        return values[0] if len(values) == 1 else values

    def __getattr__(self, name):
        if name.startswith('_'):
            raise AttributeError(name)
        return lambda *inputs, **attributes: self.op(name, *inputs, **attributes)

    def output(self, name, value):
        check(lib.graph_output(self._handle, encoded(name), self._number(value)))

    def update(self, state, value):
        """Writes a state at the end of a run."""
        check(lib.graph_update(self._handle, encoded(state), self._number(value)))


def build(**entries):
    """Makes a model of functions: each takes a Graph and returns the outputs of its entry point by name.

        model = genesis.build(forward=lambda g: {'y': g.input('x', 'f32', ['batch', 2]) * 2})

    The entry point 'loss' is written for training.
    """
    model = Model()
    for entry, write in entries.items():
        graph = model.graph(entry, trains=entry == 'loss')
        for name, value in write(graph).items():
            graph.output(name, value)
    return model


def session_options(device, threads, find_nonfinite=False):
    return lib.SessionOptions(ctypes.sizeof(lib.SessionOptions), encoded(device), threads, int(find_nonfinite))


class Session:
    """Runs the entry points of a model on a device, and keeps its states. It is for one thread at a time."""

    def __init__(self, model, device='cpu', threads=0, find_nonfinite=False):
        if not isinstance(model, Model):
            model = load(model)
        self.model = model
        self._handle = c_void_p()
        options = session_options(device, threads, find_nonfinite)
        check(lib.session_open(model._handle, byref(options), byref(self._handle)))
        names = list(model.entries)
        self._entry = 'forward' if 'forward' in names or len(names) != 1 else names[0]
        self._names = {}
        self._outputs = {}

    def __del__(self):
        if lib is not None and getattr(self, '_handle', None):
            lib.session_free(self._handle)

    @property
    def device(self):
        return lib.session_device(self._handle).decode()

    def run(self, entry=None, /, **inputs):
        """Runs an entry point and returns its outputs by name, as tensors. Inputs are read in place, without a copy.

        Arrays on the session's GPU stay there; the outputs come to the host.
        """
        return self._run(lib.session_run, entry, inputs)

    def run_on_device(self, entry=None, /, **inputs):
        """The same, but the outputs stay in the memory of the session's GPU: torch.from_dlpack(y) shares it."""
        return self._run(lib.session_run_on_device, entry, inputs)

    def _run(self, function, entry, inputs):
        entry = self._entry if entry is None else entry
        key = (entry, *inputs)
        known = self._names.get(key)
        if known is None:
            names = (c_char_p * max(len(inputs), 1))(*[encoded(name) for name in inputs])
            known = self._names[key] = (encoded(entry), names, c_void_p * max(len(inputs), 1))
        name, names, Array = known
        tensors = [as_tensor(value) for value in inputs.values()]
        outputs = c_void_p()
        error = function(self._handle, name, names, Array(*[t._as_parameter_ for t in tensors]), len(tensors), byref(outputs))
        if error:
            check(error)
        return self._taken(key, outputs)

    def _taken(self, key, outputs):
        try:
            names = self._outputs.get(key)
            if names is None:
                count = lib.tensors_count(outputs)
                names = self._outputs[key] = [lib.tensors_name(outputs, i).decode() for i in range(count)]
            results = {}
            for i, name in enumerate(names):
                handle = c_void_p()
                check(lib.tensors_take(outputs, i, byref(handle)))
                results[name] = Tensor(handle)
            return results
        finally:
            lib.tensors_free(outputs)

    def state(self, name):
        handle = c_void_p()
        check(lib.session_state(self._handle, encoded(name), byref(handle)))
        return Tensor(handle)

    def set_state(self, name, value):
        check(lib.session_set_state(self._handle, encoded(name), as_tensor(value)))

    def set_seed(self, seed):
        check(lib.session_set_seed(self._handle, seed))

    def save(self, path):
        """Writes the model with the current states."""
        check(lib.session_save(self._handle, encoded(path)))

    def load(self, path):
        check(lib.session_load(self._handle, encoded(path)))

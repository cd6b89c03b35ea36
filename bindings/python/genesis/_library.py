"""Finds libgenesis and declares the functions of its C interface (include/genesis/genesis_c.h) that this package calls."""

import atexit
import ctypes
import logging
import os
import pathlib
import signal
import threading
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint32, c_uint64,
                    c_void_p)


def _load():
    """Returns the library twice: calls of the first let other threads of Python run, calls of the second are faster."""
    folder = pathlib.Path(__file__).parent / 'lib'
    named = os.environ.get('GENESIS_LIBRARY')
    if named:
        path = named
    elif (folder / 'load_order').exists():
        # A wheel brings the libraries that libgenesis needs. The loader does not look for one that is loaded already.
        *needed, last = (folder / 'load_order').read_text(encoding='utf-8').split()
        for name in needed:
            ctypes.CDLL(str(folder / name))
        path = str(folder / last)
    else:
        path = 'libgenesis.so.0'
    try:
        return ctypes.CDLL(path), ctypes.PyDLL(path)
    except OSError as error:
        raise ImportError(f'genesis: the library cannot be loaded: {error}. Install the wheel or the Debian package, or '
                          'set GENESIS_LIBRARY to the path of libgenesis.so') from None


slow, fast = _load()


class SessionOptions(Structure):
    _fields_ = [('struct_size', c_size_t), ('device', c_char_p), ('threads', c_int32), ('find_nonfinite', c_int32)]


class LmOptions(Structure):
    _fields_ = [('struct_size', c_size_t), ('device', c_char_p), ('threads', c_int32), ('tokenizer', c_char_p),
                ('chat_template', c_char_p), ('context', c_int64), ('draft', c_char_p)]


class TrainStep(Structure):
    _fields_ = [('struct_size', c_size_t), ('step', c_int64), ('loss', c_double), ('evaluation_loss', c_double),
                ('grad_norm', c_double), ('learning_rate', c_double), ('seconds', c_double)]


OnText = CFUNCTYPE(c_int32, c_char_p, c_size_t, c_void_p)
OnStep = CFUNCTYPE(c_int32, POINTER(TrainStep), c_void_p)
OnLog = CFUNCTYPE(None, c_int32, c_char_p, c_void_p)


class TrainOptions(Structure):
    _fields_ = [('struct_size', c_size_t), ('model', c_char_p), ('data', POINTER(c_char_p)), ('data_count', c_size_t),
                ('optimizer', c_char_p), ('steps', c_int64), ('batch', c_int64), ('sequence', c_int64),
                ('seed', c_uint64), ('output', c_char_p), ('checkpoint', c_char_p), ('device', c_char_p),
                ('threads', c_int32), ('on_step', OnStep), ('user', c_void_p)]


class GenesisError(RuntimeError):
    """What is wrong and where. `entry`, `node` and `input` name the place; each is '' if there is none."""

    def __init__(self, text, code=1, entry='', node='', input=''):
        super().__init__(text)
        self.code, self.entry, self.node, self.input = code, entry, node, input


def _declare(library, name, *arguments, result=c_void_p):
    function = getattr(library, 'gn_' + name)
    function.argtypes, function.restype = list(arguments), result
    return function


_out = c_void_p  # a pointer to a handle, passed as byref()
error_code = _declare(fast, 'error_code', c_void_p, result=c_int32)
error_text, error_entry, error_node, error_input = (
    _declare(fast, 'error_' + part, c_void_p, result=c_char_p) for part in ('text', 'entry', 'node', 'input'))
error_free = _declare(fast, 'error_free', c_void_p, result=None)
version = _declare(fast, 'version', result=c_char_p)
text_free = _declare(fast, 'text_free', c_void_p, result=None)
set_log = _declare(fast, 'set_log', OnLog, c_void_p, c_int32)

tensor_from_dlpack = _declare(fast, 'tensor_from_dlpack', c_void_p, _out)
tensor_from_dlpack_legacy = _declare(fast, 'tensor_from_dlpack_legacy', c_void_p, _out)
tensor_to_dlpack = _declare(fast, 'tensor_to_dlpack', c_void_p, _out)
tensor_copy = _declare(fast, 'tensor_copy', c_int32, c_int32, c_void_p, c_char_p, c_size_t, _out)
tensor_view = _declare(fast, 'tensor_view', c_int32, c_int32, c_void_p, c_void_p, _out)
tensor_dtype = _declare(fast, 'tensor_dtype', c_void_p, result=c_int32)
tensor_rank = _declare(fast, 'tensor_rank', c_void_p, result=c_int32)
tensor_sizes = _declare(fast, 'tensor_sizes', c_void_p, result=POINTER(c_int64))
tensor_bytes = _declare(fast, 'tensor_bytes', c_void_p, result=c_size_t)
tensor_data = _declare(fast, 'tensor_data', c_void_p)
tensor_gpu = _declare(fast, 'tensor_gpu', c_void_p, result=c_int32)
tensor_free = _declare(fast, 'tensor_free', c_void_p, result=None)
tensors_count = _declare(fast, 'tensors_count', c_void_p, result=c_size_t)
tensors_name = _declare(fast, 'tensors_name', c_void_p, c_size_t, result=c_char_p)
tensors_take = _declare(fast, 'tensors_take', c_void_p, c_size_t, _out)
tensors_free = _declare(fast, 'tensors_free', c_void_p, result=None)

model_open = _declare(slow, 'model_open', c_char_p, _out)
model_create = _declare(fast, 'model_create', _out)
model_save = _declare(slow, 'model_save', c_void_p, c_char_p)
model_describe = _declare(slow, 'model_describe', c_void_p, _out)
model_add_training = _declare(slow, 'model_add_training', c_void_p, c_char_p)
model_free = _declare(slow, 'model_free', c_void_p, result=None)
graph_create = _declare(fast, 'graph_create', c_void_p, c_char_p, c_int32, _out)
graph_input = _declare(fast, 'graph_input', c_void_p, c_char_p, c_int32, c_char_p, _out)
graph_constant = _declare(fast, 'graph_constant', c_void_p, c_char_p, c_void_p, _out)
graph_state = _declare(fast, 'graph_state', c_void_p, c_char_p, c_void_p, c_int32, _out)
graph_op = _declare(fast, 'graph_op', c_void_p, c_char_p, c_char_p, c_void_p, c_size_t, c_void_p, c_size_t, _out)
graph_output = _declare(fast, 'graph_output', c_void_p, c_char_p, c_int32)
graph_update = _declare(fast, 'graph_update', c_void_p, c_char_p, c_int32)
graph_free = _declare(fast, 'graph_free', c_void_p, result=None)
load_plugin = _declare(slow, 'load_plugin', c_char_p)
ops_describe = _declare(slow, 'ops_describe', _out)

session_open = _declare(slow, 'session_open', c_void_p, c_void_p, _out)
session_device = _declare(fast, 'session_device', c_void_p, result=c_char_p)
session_run = _declare(slow, 'session_run', c_void_p, c_char_p, c_void_p, c_void_p, c_size_t, _out)
session_run_on_device = _declare(slow, 'session_run_on_device', c_void_p, c_char_p, c_void_p, c_void_p, c_size_t, _out)
session_state = _declare(slow, 'session_state', c_void_p, c_char_p, _out)
session_set_state = _declare(slow, 'session_set_state', c_void_p, c_char_p, c_void_p)
session_save = _declare(slow, 'session_save', c_void_p, c_char_p)
session_load = _declare(slow, 'session_load', c_void_p, c_char_p)
session_set_seed = _declare(slow, 'session_set_seed', c_void_p, c_uint64)
session_free = _declare(slow, 'session_free', c_void_p, result=None)

lm_open = _declare(slow, 'lm_open', c_char_p, c_void_p, _out)
lm_generate = _declare(slow, 'lm_generate', c_void_p, c_char_p, c_char_p, OnText, c_void_p, _out)
lm_chat = _declare(slow, 'lm_chat', c_void_p, c_char_p, c_char_p, OnText, c_void_p, _out)
lm_render = _declare(slow, 'lm_render', c_void_p, c_char_p, _out)
lm_encode = _declare(slow, 'lm_encode', c_void_p, c_char_p, _out)
lm_decode = _declare(slow, 'lm_decode', c_void_p, c_void_p, _out)
lm_free = _declare(slow, 'lm_free', c_void_p, result=None)
reply_text = _declare(fast, 'reply_text', c_void_p, result=c_char_p)
reply_stop_reason = _declare(fast, 'reply_stop_reason', c_void_p, result=c_char_p)
reply_prompt_tokens = _declare(fast, 'reply_prompt_tokens', c_void_p, result=c_int64)
reply_tokens = _declare(fast, 'reply_tokens', c_void_p, result=c_int64)
reply_seconds = _declare(fast, 'reply_seconds', c_void_p, result=c_double)
reply_free = _declare(fast, 'reply_free', c_void_p, result=None)
embedder_open = _declare(slow, 'embedder_open', c_char_p, c_void_p, _out)
embedder_encode = _declare(slow, 'embedder_encode', c_void_p, c_void_p, c_size_t, c_char_p, _out)
embedder_free = _declare(slow, 'embedder_free', c_void_p, result=None)
tokenizer_open = _declare(slow, 'tokenizer_open', c_char_p, _out)
tokenizer_encode = _declare(slow, 'tokenizer_encode', c_void_p, c_char_p, c_int32, _out)
tokenizer_decode = _declare(slow, 'tokenizer_decode', c_void_p, c_void_p, _out)
tokenizer_size = _declare(fast, 'tokenizer_size', c_void_p, result=c_int64)
tokenizer_free = _declare(fast, 'tokenizer_free', c_void_p, result=None)
train = _declare(slow, 'train', c_void_p, c_void_p)


def check(error):
    """Raises GenesisError if a function returned an error."""
    if not error:
        return
    code = error_code(error)
    texts = [part(error).decode('utf-8', 'replace') for part in (error_text, error_entry, error_node, error_input)]
    error_free(error)
    raise GenesisError(texts[0], code, *texts[1:])


class Interruptible:
    """Lets Ctrl-C end a call of the library that calls back: with Interruptible() as call, a callback ends the call if call.raised.

    Python would run the handler of the signal as the callback begins, before any try of it, and ctypes would ignore what it raises. So what
    the handler raises is kept, and raised when the call has ended. What the callback raises is treated the same.
    """

    def __init__(self):
        self.raised = None

    def __enter__(self):
        self._before = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
        # The handler of a call around this one would keep the interrupt, and this call would go on.
        around = getattr(self._before, '__self__', None)
        self._handler = around._handler if isinstance(around, Interruptible) else self._before
        if callable(self._before):
            signal.signal(signal.SIGINT, self._handle)
        return self

    def _handle(self, number, frame):
        try:
            self._handler(number, frame)
        except BaseException as error:
            self.raised = error

    def __exit__(self, kind, error, trace):
        if callable(self._before):
            signal.signal(signal.SIGINT, self._before)
        if self.raised is not None:
            raise self.raised

    def going_on(self, function, *arguments):
        """Calls a function of the user; returns 0 for the library to go on, 1 to end: after False or an exception."""
        try:
            if self.raised is None and function is not None and function(*arguments) is False:
                return 1
        except BaseException as error:
            self.raised = error
        return 0 if self.raised is None else 1


@OnLog
def _log(level, text, user):
    logging.getLogger('genesis').log((10, 20, 30, 40)[level], '%s', text.decode('utf-8', 'replace'))


def log_to_logging(level=logging.WARNING):
    """Passes the library's messages of this level and above to the logger 'genesis' of the package logging."""
    check(set_log(_log, None, min(max(level // 10 - 1, 0), 3)))


@atexit.register
def _log_no_more():
    set_log(OnLog(), None, 2)


def encoded(text):
    """Returns a text, a path or None as the library reads it."""
    if text is None:
        return None
    data = os.fsencode(text) if not isinstance(text, str) else text.encode('utf-8')
    if b'\0' in data:
        raise ValueError('a text has a zero byte, which the library takes for its end')
    return data


def taken_text(pointer):
    """Returns a text of the library, and frees it."""
    text = ctypes.string_at(pointer).decode('utf-8', 'replace')
    text_free(pointer)
    return text

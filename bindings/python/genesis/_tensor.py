"""Tensors that pass to and from other packages by DLPack, without a copy."""

import ctypes
from ctypes import byref, c_char_p, c_int64, c_void_p, py_object

from . import _library as lib
from ._library import check

DTYPES = ('f32', 'f64', 'f16', 'bf16', 'i8', 'u8', 'i16', 'i32', 'i64', 'bool')
_TYPESTR = {'f32': '<f4', 'f64': '<f8', 'f16': '<f2', 'i8': '|i1', 'u8': '|u1', 'i16': '<i2', 'i32': '<i4', 'i64': '<i8',
            'bool': '|b1'}
_OLD, _NEW = b'dltensor', b'dltensor_versioned'
_USED_OLD, _USED_NEW = b'used_dltensor', b'used_dltensor_versioned'

_api = ctypes.pythonapi
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, py_object, c_char_p)(('PyCapsule_IsValid', _api))
_pointer_of = ctypes.PYFUNCTYPE(c_void_p, py_object, c_char_p)(('PyCapsule_GetPointer', _api))
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, py_object, c_char_p)(('PyCapsule_SetName', _api))
_Destructor = ctypes.PYFUNCTYPE(None, c_void_p)
_new_capsule = ctypes.PYFUNCTYPE(py_object, c_void_p, c_char_p, _Destructor)(('PyCapsule_New', _api))
# The same for a capsule that is being destroyed, which must not get another reference.
_is_valid_address = ctypes.PYFUNCTYPE(ctypes.c_int, c_void_p, c_char_p)(('PyCapsule_IsValid', _api))
_pointer_of_address = ctypes.PYFUNCTYPE(c_void_p, c_void_p, c_char_p)(('PyCapsule_GetPointer', _api))


class _Managed(ctypes.Structure):
    """The beginning of DLManagedTensorVersioned."""
    _fields_ = [('version', ctypes.c_uint32 * 2), ('context', c_void_p), ('deleter', ctypes.CFUNCTYPE(None, c_void_p))]


@_Destructor
def _delete_unused(capsule):
    if _is_valid_address(capsule, _NEW):
        pointer = _pointer_of_address(capsule, _NEW)
        _Managed.from_address(pointer).deleter(pointer)


class Tensor:
    """A tensor of the library. numpy.asarray(t), t.numpy() and torch.from_dlpack(t) share its memory."""

    # ctypes passes _as_parameter_ for an object, which stays alive during the call.
    __slots__ = ('_as_parameter_', '_owner', '__weakref__')

    def __init__(self, handle, owner=None):
        self._as_parameter_, self._owner = handle, owner  # the owner keeps the memory

    def __del__(self):
        if lib is not None:
            lib.tensor_free(self._as_parameter_)

    @property
    def shape(self):
        sizes = lib.tensor_sizes(self._as_parameter_)
        return tuple(sizes[i] for i in range(lib.tensor_rank(self._as_parameter_)))

    @property
    def dtype(self):
        return DTYPES[lib.tensor_dtype(self._as_parameter_)]

    @property
    def __array_interface__(self):
        dtype = self.dtype
        if dtype not in _TYPESTR:
            raise AttributeError('numpy has no bf16: use torch.from_dlpack(), or cast in the model')
        return {'version': 3, 'shape': self.shape, 'typestr': _TYPESTR[dtype],
                'data': (self._data(), False)}

    @property
    def gpu(self):
        """The GPU that has the elements, from 0; None if the host has them."""
        gpu = lib.tensor_gpu(self._as_parameter_)
        return None if gpu < 0 else gpu

    def cpu(self):
        """Returns the tensor on the host: itself if it is there, else a copy."""
        return self if self.gpu is None else self._copied()

    def _data(self):
        """The address of the elements on the host, where those of a GPU are copied first."""
        data = lib.tensor_data(self._as_parameter_)
        if not data:
            raise lib.GenesisError(f'a tensor {self.dtype}{list(self.shape)} cannot be copied from GPU {self.gpu} to the host')
        return data

    def _copied(self):
        """Returns a copy on the host."""
        handle, rank = c_void_p(), lib.tensor_rank(self._as_parameter_)
        check(lib.tensor_copy(lib.tensor_dtype(self._as_parameter_), rank, lib.tensor_sizes(self._as_parameter_),
                              ctypes.cast(self._data(), c_char_p), lib.tensor_bytes(self._as_parameter_), byref(handle)))
        return Tensor(handle)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        # The elements are complete, so that no stream has to wait for them.
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            if tuple(dl_device) != (1, 0):
                raise BufferError('a tensor of genesis goes to another package on the device where it is, or on the host')
            if copy is False:
                raise BufferError('a tensor on a GPU goes to the host as a copy: leave out copy=False')
            return self.cpu().__dlpack__(max_version=max_version)
        if copy:
            if self.gpu is not None:
                raise BufferError('a tensor on a GPU is copied to the host alone: give dl_device=(1, 0)')
            return self._copied().__dlpack__(max_version=max_version)
        if max_version is None or max_version[0] < 1:
            if self.gpu is not None:
                raise BufferError('a tensor on a GPU is passed by DLPack 1.0 and newer: .cpu() copies it to the host')
            return self.numpy().__dlpack__()
        managed = c_void_p()
        check(lib.tensor_to_dlpack(self._as_parameter_, byref(managed)))
        return _new_capsule(managed, _NEW, _delete_unused)

    def __dlpack_device__(self):
        gpu = self.gpu
        return (1, 0) if gpu is None else (2, gpu)

    def tolist(self):
        """The elements as a list of numbers, in the order of memory."""
        codes = {'f32': 'f', 'f64': 'd', 'i8': 'b', 'u8': 'B', 'i16': 'h', 'i32': 'i', 'i64': 'q', 'bool': '?'}
        if self.dtype not in codes:
            raise TypeError(f'tolist() reads no {self.dtype}: use torch.from_dlpack(), or cast in the model')
        data = ctypes.string_at(self._data(), lib.tensor_bytes(self))
        return memoryview(data).cast(codes[self.dtype]).tolist()

    def numpy(self):
        import numpy
        return numpy.asarray(self)

    def item(self):
        """The only element, as a number of Python."""
        if any(s != 1 for s in self.shape):
            raise ValueError(f'item() needs a tensor of one element, this one has the shape {list(self.shape)}')
        if self.dtype == 'bf16':
            bits = int.from_bytes(ctypes.string_at(self._data(), 2), 'little') << 16
            return ctypes.c_float.from_buffer_copy(bits.to_bytes(4, 'little')).value
        size = lib.tensor_bytes(self._as_parameter_)
        code = {'f32': 'f', 'f64': 'd', 'f16': 'e', 'i8': 'b', 'u8': 'B', 'i16': 'h', 'i32': 'i', 'i64': 'q', 'bool': '?'}
        import struct
        return struct.unpack(code[self.dtype], ctypes.string_at(self._data(), size))[0]

    def __float__(self):
        return float(self.item())

    def __int__(self):
        return int(self.item())

    def __len__(self):
        shape = self.shape
        if not shape:
            raise TypeError('a tensor without axes has no length')
        return shape[0]

    def __repr__(self):
        text = f'genesis.Tensor({self.dtype}{list(self.shape)}'
        return text + (f', {self.item()})' if all(s == 1 for s in self.shape) else ')')


def _of_number(value):
    """Makes a tensor of a number of Python: f32, i64 or bool."""
    if isinstance(value, bool):
        dtype, data = 9, bytes([value])
    elif isinstance(value, int):
        dtype, data = 8, value.to_bytes(8, 'little', signed=True)
    else:
        dtype, data = 0, bytes(ctypes.c_float(value))
    handle = c_void_p()
    check(lib.tensor_copy(dtype, 0, (c_int64 * 1)(), data, len(data), byref(handle)))
    return Tensor(handle)


_FORMATS = {'f': 0, 'd': 1, 'e': 2, 'b': 4, 'B': 5, 'h': 6, 'i': 7, 'l': 8, 'q': 8, '?': 9}


def _of_buffer(value):
    """Makes a tensor over the memory of an array.array, a bytearray or a memoryview."""
    view = memoryview(value)
    if view.format not in _FORMATS or not view.c_contiguous:
        raise TypeError(f"expected a dense buffer of numbers, got one of the format '{view.format}'")
    sizes = (c_int64 * max(view.ndim, 1))(*view.shape)
    handle, dtype = c_void_p(), _FORMATS[view.format]
    if view.readonly:
        check(lib.tensor_copy(dtype, view.ndim, sizes, view.tobytes(), view.nbytes, byref(handle)))
        return Tensor(handle)
    memory = (ctypes.c_char * view.nbytes).from_buffer(view)
    check(lib.tensor_view(dtype, view.ndim, sizes, memory, byref(handle)))
    return Tensor(handle, memory)


_HOST = (1, 3, 13)  # DLPack's numbers of memory that the host reads: its own, pinned, and managed by CUDA


_CUDA = 2


def _exported(value, export, stays=True):
    """Returns the capsule of an array. `stays` is False for one on a GPU that its package has to copy to the host."""
    find_device = getattr(value, '__dlpack_device__', None)
    device = find_device()[0] if find_device is not None else 1
    if device == _CUDA and stays:
        try:
            return export(max_version=(1, 0), stream=1)  # complete for the default stream, which sessions follow
        except (BufferError, TypeError):
            pass  # older than DLPack 1.0
    if device not in _HOST:
        try:
            return export(max_version=(1, 0), dl_device=(1, 0), copy=True)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise TypeError('an array is in the memory of a GPU, and its package copies it to the host by its own way only: '
                            'x.cpu() in torch') from error
    try:
        return export(max_version=(1, 0))
    except TypeError:  # made before DLPack 1.0
        return export()


def as_tensor(value):
    """Returns a tensor over the memory of an array with __dlpack__, or of a number or (with numpy) a list."""
    if type(value) is Tensor:
        return value
    export = getattr(value, '__dlpack__', None)
    if export is None:
        if isinstance(value, (bool, int, float)):
            return _of_number(value)
        if isinstance(value, (list, tuple)):
            import numpy
            array = numpy.asarray(value)
            return as_tensor(array.astype('float32') if array.dtype == 'float64' else array)
        if isinstance(value, (bytearray, memoryview)) or type(value).__module__ == 'array':
            return _of_buffer(value)
        raise TypeError(f'expected an array with __dlpack__ (numpy, torch, jax), a buffer, a number or a list, got {type(value).__name__}')
    try:
        return _of_capsule(_exported(value, export))
    except lib.GenesisError:
        if getattr(value, '__dlpack_device__', lambda: (1, 0))()[0] in _HOST:
            raise
        return _of_capsule(_exported(value, export, stays=False))  # a library without that GPU, or an array that is not dense


def _of_capsule(capsule):
    handle = c_void_p()
    if _is_valid(capsule, _NEW):
        pointer = _pointer_of(capsule, _NEW)
        _rename(capsule, _USED_NEW)
        check(lib.tensor_from_dlpack(pointer, byref(handle)))
    else:
        pointer = _pointer_of(capsule, _OLD)
        _rename(capsule, _USED_OLD)
        check(lib.tensor_from_dlpack_legacy(pointer, byref(handle)))
    return Tensor(handle)

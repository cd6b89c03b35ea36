"""Genesis: graph-mode deep learning.

    import genesis
    session = genesis.load('model.genesis').session()
    y = session.run(x=array)['y'].numpy()

    lm = genesis.LM('qwen.genesis')
    for piece in lm.stream('Once upon a time', max_tokens=50):
        print(piece, end='', flush=True)
"""

from . import ops
from ._library import GenesisError, log_to_logging, version as _version
from ._model import Graph, Model, Session, Value, build, from_torch, load, load_plugin
from ._tensor import Tensor
from ._text import LM, Reply, Tokenizer, train

__version__ = _version().decode()
log_to_logging()
__all__ = ['GenesisError', 'Graph', 'LM', 'Model', 'Reply', 'Session', 'Tensor', 'Tokenizer', 'Value', 'build', 'from_torch',
           'load', 'load_plugin', 'log_to_logging', 'ops', 'train']

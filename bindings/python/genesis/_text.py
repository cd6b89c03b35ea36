"""Language models, vectors of texts, and training jobs."""

import ctypes
import json
import queue
import threading
from ctypes import byref, c_char_p, c_void_p

from . import _library as lib
from ._library import GenesisError, check, encoded, taken_text
from ._model import session_options
from ._tensor import Tensor, as_tensor


class Reply(str):
    """The text of an answer, with the reason why it ended and what it took."""

    stop_reason: str
    tokens: int
    prompt_tokens: int
    seconds: float


def _reply(handle):
    try:
        reply = Reply(lib.reply_text(handle).decode('utf-8', 'replace'))
        reply.stop_reason = lib.reply_stop_reason(handle).decode()
        reply.tokens, reply.prompt_tokens = lib.reply_tokens(handle), lib.reply_prompt_tokens(handle)
        reply.seconds = lib.reply_seconds(handle)
        return reply
    finally:
        lib.reply_free(handle)


def _conversation(messages):
    if isinstance(messages, str):
        messages = [{'role': 'user', 'content': messages}]
    return encoded(json.dumps(messages))


class LM:
    """A language model, or one that makes vectors of texts. The path is that of any model that genesis.load() opens."""

    def __init__(self, path, device='cpu', threads=0, tokenizer=None, chat_template=None, context=0, draft=None):
        self._path, self._session = encoded(path), session_options(device, threads)
        self._lm, self._embedder = c_void_p(), c_void_p()
        options = lib.LmOptions(ctypes.sizeof(lib.LmOptions), encoded(device), threads, encoded(tokenizer),
                                encoded(chat_template), context, encoded(draft))
        try:
            check(lib.lm_open(self._path, byref(options), byref(self._lm)))
        except GenesisError as error:
            # It may be a model of vectors only.
            other = lib.embedder_open(self._path, byref(self._session), byref(self._embedder))
            if other:
                lib.error_free(other)
                raise error

    def __del__(self):
        if lib is not None and hasattr(self, '_embedder'):
            lib.lm_free(self._lm)
            lib.embedder_free(self._embedder)

    def _answer(self, function, text, on_text, settings):
        if not self._lm:
            raise GenesisError(f"'{self._path.decode()}' makes vectors of texts and writes none: it has embed() only")
        reply = c_void_p()
        with lib.Interruptible() as call:
            listen = lib.OnText(lambda piece, size, user: call.going_on(on_text, piece.decode('utf-8', 'replace')))
            check(function(self._lm, text, encoded(json.dumps(settings)), listen, None, byref(reply)))
            return _reply(reply)

    def generate(self, prompt, on_text=None, **settings):
        """Continues a prompt. on_text gets each new piece, and ends the text by returning False.

        Settings: max_tokens, temperature, top_k, top_p, min_p, typical_p, repetition_penalty, presence_penalty,
        frequency_penalty, no_repeat_ngram_size, min_tokens, seed, stop, ignore_eos. The others are the makers'.
        """
        return self._answer(lib.lm_generate, encoded(prompt), on_text, settings)

    def chat(self, messages, on_text=None, **settings):
        """Answers a text, or a conversation: a list of {'role', 'content'}, or a dict with it as 'messages', and 'tools'."""
        return self._answer(lib.lm_chat, _conversation(messages), on_text, settings)

    def stream(self, prompt, **settings):
        """Yields the pieces of generate() as they are written."""
        return self._pieces(lib.lm_generate, encoded(prompt), settings)

    def stream_chat(self, messages, **settings):
        """Yields the pieces of chat() as they are written."""
        return self._pieces(lib.lm_chat, _conversation(messages), settings)

    def _pieces(self, function, text, settings):
        pieces, ended = queue.SimpleQueue(), threading.Event()

        def take(piece):
            pieces.put(piece)
            return not ended.is_set()

        def work():
            try:
                self._answer(function, text, take, settings)
                pieces.put(None)
            except BaseException as error:
                pieces.put(error)

        worker = threading.Thread(target=work, daemon=True)
        worker.start()
        try:
            while True:
                piece = pieces.get()
                if piece is None:
                    return
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
        finally:
            ended.set()
            worker.join()

    def render(self, messages):
        """Returns the text that the model's chat template makes of a conversation."""
        text = c_void_p()
        check(lib.lm_render(self._lm, _conversation(messages), byref(text)))
        return taken_text(text)

    def encode(self, text):
        """Returns the tokens of a text, as i64[n]."""
        handle = c_void_p()
        check(lib.lm_encode(self._lm, encoded(text), byref(handle)))
        return Tensor(handle)

    def decode(self, tokens):
        text = c_void_p()
        check(lib.lm_decode(self._lm, as_tensor(tokens), byref(text)))
        return taken_text(text)

    def embed(self, texts, prompt=None):
        """Returns a vector for each text, as f32[texts, features]. `prompt` names one of the model's prompts."""
        if not self._embedder:
            check(lib.embedder_open(self._path, byref(self._session), byref(self._embedder)))
        texts = [texts] if isinstance(texts, str) else list(texts)
        handle = c_void_p()
        array = (c_char_p * max(len(texts), 1))(*[encoded(text) for text in texts])
        check(lib.embedder_encode(self._embedder, array, len(texts), encoded(prompt), byref(handle)))
        return Tensor(handle)


class Tokenizer:
    """Converts texts to tokens. The path is that of a tokenizer.json, of a folder with one, or of a model that brings one."""

    def __init__(self, path):
        self._handle = c_void_p()
        check(lib.tokenizer_open(encoded(path), byref(self._handle)))

    def __del__(self):
        if lib is not None and getattr(self, '_handle', None):
            lib.tokenizer_free(self._handle)

    def __len__(self):
        """The number of token ids."""
        return lib.tokenizer_size(self._handle)

    def encode(self, text, special=True):
        """Returns the tokens of a text, as i64[n]. `special`: with those that the tokenizer puts around every text."""
        handle = c_void_p()
        check(lib.tokenizer_encode(self._handle, encoded(text), int(special), byref(handle)))
        return Tensor(handle)

    def decode(self, tokens):
        text = c_void_p()
        check(lib.tokenizer_decode(self._handle, as_tensor(tokens), byref(text)))
        return taken_text(text)


def train(model, data, optimizer=None, steps=100, batch=8, sequence=256, seed=0, output=None, checkpoint=None,
          device='cpu', threads=0, on_step=None):
    """Trains as `genesis-run train` does and returns the last step. on_step gets each step, and ends by returning False."""
    files = [data] if isinstance(data, (str, bytes)) or hasattr(data, '__fspath__') else list(data)
    last = lib.TrainStep()
    with lib.Interruptible() as call:
        # The library's struct is valid during the call only.
        listen = lib.OnStep(lambda step, user: call.going_on(on_step, lib.TrainStep.from_buffer_copy(step.contents)))
        options = lib.TrainOptions(ctypes.sizeof(lib.TrainOptions), encoded(model),
                                   (c_char_p * max(len(files), 1))(*[encoded(file) for file in files]), len(files),
                                   encoded(optimizer), steps, batch, sequence, seed, encoded(output), encoded(checkpoint),
                                   encoded(device), threads, listen, None)
        check(lib.train(byref(options), byref(last)))
    return last

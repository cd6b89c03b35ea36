"""Tests the Python package: python_test.py LANGUAGE_MODEL PLUGIN. Needs nothing but the package; numpy and torch are tried if they are there."""
import array
import ctypes
import importlib.util
import os
import signal
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

import genesis
from genesis import _library
from genesis._library import Interruptible
from genesis._tensor import as_tensor

LM, PLUGIN = sys.argv[1:]


def doubled():
    return genesis.build(forward=lambda g: {'y': g.input('x', 'f32', ['n', 2]) * 2.0}).session(threads=1)


def has(module):
    return importlib.util.find_spec(module) is not None


class Given:
    """An array that another package passes on with this `copy`."""
    def __init__(self, tensor, copy):
        self.tensor, self.copy = tensor, copy

    def __dlpack__(self, *, max_version=None):
        return self.tensor.__dlpack__(max_version=max_version, copy=self.copy)


class Sessions(unittest.TestCase):
    def test_buffers_are_read_in_place(self):
        session = doubled()
        x = memoryview(array.array('f', [1, 2, 3, 4])).cast('B').cast('f', [2, 2])
        self.assertEqual(session.run(x=x)['y'].tolist(), [2, 4, 6, 8])
        x[0, 0] = 5
        y = session.run(x=x)['y']
        self.assertEqual((y.tolist()[0], y.shape, y.dtype), (10, (2, 2), 'f32'))

    def test_errors_say_where(self):
        with self.assertRaises(genesis.GenesisError) as caught:
            doubled().run(x=array.array('f', [1]))
        self.assertEqual((caught.exception.entry, caught.exception.input), ('forward', 'x'))
        with self.assertRaisesRegex(TypeError, 'expected an array'):
            doubled().run(x=object())
        with self.assertRaisesRegex(genesis.GenesisError, "'/nowhere"):
            genesis.load('/nowhere.genesis')

    @unittest.skipUnless(has('numpy'), 'numpy is not installed')
    def test_arrays_of_numpy_share_memory(self):
        import numpy
        session, x = doubled(), numpy.ones((3, 2), 'float32')
        y = session.run(x=x)['y']
        numpy.testing.assert_array_equal(numpy.asarray(y), 2 * x)
        self.assertIs(numpy.shares_memory(y.numpy(), y.numpy()), True)
        numpy.testing.assert_array_equal(session.run(x=numpy.arange(6, dtype='float32').reshape(2, 3).T)['y'].numpy()[:, 1], [6, 8, 10])

    def test_an_array_on_a_gpu_is_copied_by_its_package(self):
        class OnGpu:
            """Stands for an array on a GPU, of a package that copies it to the host if `copies`."""
            def __init__(self, copies):
                self.copies = copies

            def __dlpack_device__(self):
                return 2, 0

            def __dlpack__(self, *, max_version=None, dl_device=None, copy=None):
                if not self.copies or (dl_device, copy) != ((1, 0), True):
                    raise BufferError('another device')
                return genesis.build(forward=lambda g: {'y': g.constant(memoryview(array.array('f', [3, 4])).cast('B').cast('f', [1, 2]))}
                                     ).session().run()['y'].__dlpack__(max_version=(1, 0))
        self.assertEqual(doubled().run(x=OnGpu(True))['y'].tolist(), [6, 8])
        with self.assertRaisesRegex(TypeError, 'in the memory of a GPU'):
            doubled().run(x=OnGpu(False))

    def test_a_copy_is_another_array(self):
        y = doubled().run(x=memoryview(array.array('f', [1, 2])).cast('B').cast('f', [1, 2]))['y']
        same, other = (as_tensor(Given(y, copy)) for copy in (None, True))
        ctypes.c_float.from_address(y.__array_interface__['data'][0]).value = 7
        self.assertEqual((same.tolist(), other.tolist()), ([7, 4], [2, 4]))

    def test_a_tensor_that_cannot_come_from_its_gpu_is_an_error(self):
        y = doubled().run(x=memoryview(array.array('f', [1, 2])).cast('B').cast('f', [1, 2]))['y']
        with unittest.mock.patch.object(_library, 'tensor_data', lambda tensor: None), \
                unittest.mock.patch.object(_library, 'tensor_gpu', lambda tensor: 1):
            for read in (y.cpu, y.tolist, lambda: y.__array_interface__):
                with self.assertRaisesRegex(genesis.GenesisError, 'from GPU 1 to the host'):
                    read()
            with self.assertRaisesRegex(BufferError, 'leave out copy=False'):
                y.__dlpack__(max_version=(1, 0), dl_device=(1, 0), copy=False)

    def test_ctrl_c_ends_the_innermost_call(self):
        ends = []
        with Interruptible() as around:
            try:
                with Interruptible() as call:
                    ends.append(call.going_on(lambda: signal.raise_signal(signal.SIGINT)))
            except KeyboardInterrupt:
                ends.append(around.going_on(None))
        self.assertEqual(ends, [1, 0])
        self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)

    @unittest.skipUnless(has('torch'), 'torch is not installed')
    def test_tensors_of_torch(self):
        import torch
        module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
        x = torch.randn(4, 2)
        model = genesis.from_torch(module, x)
        entry, = model.entries
        name = model.entries[entry]['inputs'][0]['name']
        y, = model.session().run(entry, **{name: x}).values()
        torch.testing.assert_close(torch.from_dlpack(y), module(x).detach())

    def gpu(self):
        """Returns torch and a session on the GPU, or skips the test."""
        if not has('torch'):
            self.skipTest('torch is not installed')
        import torch
        if not torch.cuda.is_available():
            self.skipTest('there is no GPU')
        return torch, genesis.build(forward=lambda g: {'y': g.input('x', 'f32', ['n', 2]) * 2.0}).session(device='cuda')

    def test_tensors_of_torch_on_a_gpu_stay_there(self):
        torch, session = self.gpu()
        for n in (3, 5, 3, 1 << 20):
            for _ in range(12):  # new addresses, so that the session begins to copy
                x = torch.randn(n, 2, device='cuda')
                y = session.run_on_device(x=x)['y']
                shared = torch.from_dlpack(y)
                self.assertEqual((y.gpu, shared.device.type), (0, 'cuda'))
                self.assertEqual(torch.from_dlpack(y).data_ptr(), shared.data_ptr())
                torch.testing.assert_close(shared, 2 * x, rtol=0, atol=0)
                torch.testing.assert_close(torch.from_dlpack(y.cpu()), (2 * x).cpu(), rtol=0, atol=0)
        self.assertEqual(session.run(x=x)['y'].gpu, None)
        torch.testing.assert_close(torch.from_dlpack(session.run(x=x)['y']), (2 * x).cpu(), rtol=0, atol=0)
        self.assertEqual(doubled().run(x=x[:2])['y'].tolist(), (2 * x[:2]).flatten().tolist())  # a session on the CPU
        part = torch.arange(9, dtype=torch.float32, device='cuda')[1:].reshape(4, 2)  # not at the beginning of a block
        self.assertEqual(session.run(x=part)['y'].tolist(), [2.0 * i for i in range(1, 9)])
        columns = torch.arange(8, dtype=torch.float32, device='cuda').reshape(2, 4).T  # not dense: torch copies it
        self.assertEqual(session.run(x=columns)['y'].tolist(), [0, 8, 2, 10, 4, 12, 6, 14])

    def test_runs_on_a_gpu_follow_the_stream_of_torch(self):
        torch, session = self.gpu()
        x, heavy = torch.zeros(4, 2, device='cuda'), torch.randn(4096, 4096, device='cuda')
        for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
            for step in range(1, 6):
                with torch.cuda.stream(stream):
                    for _ in range(20):
                        heavy = (heavy @ heavy).clamp(-1, 1)
                    x.fill_(step)
                    y = session.run_on_device(x=x)['y']
                    x.zero_()
                    self.assertEqual(torch.from_dlpack(y).cpu().flatten().tolist(), [2.0 * step] * 8)
            torch.cuda.synchronize()

    def test_training_and_files(self):
        def loss(g):
            x = g.input('x', 'f32', ['n'])
            error = x * g.parameter('w', 0.0) - 3.0
            return {'loss': (error * error).mean()}
        session = genesis.build(loss=loss).add_training('sgd,lr=0.1').session()
        for _ in range(60):
            session.run('train_step', x=array.array('f', [1, 1]))
        self.assertAlmostEqual(float(session.state('w')), 3, places=3)
        with tempfile.TemporaryDirectory() as folder:
            session.save(os.path.join(folder, 'm.genesis'))
            model = genesis.load(os.path.join(folder, 'm.genesis'))
            self.assertIn('train_step', model.entries)

    def test_a_call_costs_little(self):
        session, x = doubled(), memoryview(array.array('f', [1, 2])).cast('B').cast('f', [1, 2])
        best = 1.0
        for _ in range(200):
            begin = time.perf_counter()
            session.run(x=x)
            best = min(best, time.perf_counter() - begin)
        self.assertLess(best, 200e-6)

    def test_ops_have_names_and_docs(self):
        self.assertIn('softmax', dir(genesis.ops))
        self.assertIn('axis', genesis.ops.softmax.__doc__)
        self.assertIn('def softmax(*inputs', genesis.ops.stub())
        compile(genesis.ops.stub(), 'ops.pyi', 'exec')


class Texts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lm = genesis.LM(LM, threads=1)

    def test_pieces_make_the_text(self):
        pieces = []
        reply = self.lm.generate('In the', on_text=pieces.append, max_tokens=8, temperature=0, ignore_eos=True)
        self.assertEqual((''.join(pieces), reply.tokens), (reply, 8))
        self.assertEqual(''.join(self.lm.stream('In the', max_tokens=8, temperature=0, ignore_eos=True)), reply)

    def test_chat_and_tokens(self):
        self.assertIn('<|im_start|>user', self.lm.render('Hello'))
        self.assertIsInstance(self.lm.chat([{'role': 'user', 'content': 'Hello'}], max_tokens=4), genesis.Reply)
        self.assertEqual(self.lm.decode(self.lm.encode('Hello')), 'Hello')

    def test_a_tokenizer_gives_the_tokens_of_the_model(self):
        tokenizer = genesis.Tokenizer(LM)
        tokens = tokenizer.encode('In the')
        self.assertEqual(tokens.tolist(), self.lm.encode('In the').tolist())
        self.assertEqual((tokenizer.decode(tokens), len(tokenizer)), ('In the', 909))

    def test_a_raised_exception_ends_the_text(self):
        def interrupt(piece):
            raise KeyboardInterrupt
        with self.assertRaises(KeyboardInterrupt):
            self.lm.generate('In the', on_text=interrupt, max_tokens=200, ignore_eos=True)
        for _ in self.lm.stream('In the', max_tokens=200, ignore_eos=True):
            break  # ends the thread, too
        self.assertEqual([t.name for t in threading.enumerate() if t is not threading.main_thread()], [])

    def test_ctrl_c_ends_a_text(self):
        # The signal comes while the library computes: Python handles it when the library calls back next.
        pieces, end = [], time.monotonic() + 10
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
        with self.assertRaises(KeyboardInterrupt):
            while time.monotonic() < end:
                self.lm.generate('In the', on_text=pieces.append, max_tokens=200, ignore_eos=True)
        self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)
        self.assertEqual(self.lm.generate('In the', max_tokens=3, ignore_eos=True).tokens, 3)

    def test_errors_name_settings(self):
        with self.assertRaisesRegex(genesis.GenesisError, "there is no setting 'heat'"):
            self.lm.generate('a', heat=1)
        with self.assertRaisesRegex(genesis.GenesisError, 'top_p'):
            self.lm.generate('a', top_p=7)


class Plugins(unittest.TestCase):
    """An op of a plugin has a gradient, is computed in bf16, and is saved; a file says which op it lacks."""

    def test_an_op_of_a_plugin(self):
        with self.assertRaisesRegex(genesis.GenesisError, "no op 'cube'"):
            genesis.build(forward=lambda g: {'y': g.cube(g.input('x', 'f32', ['n']))})
        genesis.load_plugin(PLUGIN)
        genesis.load_plugin(PLUGIN)

        def loss(g):
            return {'loss': (g.input('x', 'f32', ['n']) * g.parameter('w', 2.0)).cube(scale=0.5).mean()}
        for options in ('sgd,lr=0.01', 'sgd,lr=0.01,precision=bf16'):
            session = genesis.build(loss=loss).add_training(options).session()
            outputs = session.run('train_step', x=array.array('f', [1]))
            self.assertAlmostEqual(float(outputs['loss']), 4, places=2)
            self.assertAlmostEqual(float(session.state('w')), 2 - 0.01 * 6, places=3)  # the gradient is 3/2 w^2
        session.save(LM + '.cube.genesis')
        with tempfile.TemporaryDirectory() as folder:
            self.train_with_checkpoints(folder)
        with self.assertRaisesRegex(genesis.GenesisError, 'is no plugin|cannot be opened'):
            genesis.load_plugin('/etc/passwd')


    def train_with_checkpoints(self, folder):
        def loss(g):
            rows = memoryview(array.array('f', [0.01 * i for i in range(512)])).cast('B').cast('f', [256, 2])
            table = g.parameter('table', rows)
            tokens, targets = (g.input(name, 'i64', ['batch', 'sequence']) for name in ('tokens', 'targets'))
            return {'loss': (g.embedding(tokens, table) - g.embedding(targets, table)).cube().mean()}
        model, text = os.path.join(folder, 'm.genesis'), os.path.join(folder, 't.txt')
        genesis.build(loss=loss).add_training('sgd,lr=0.1').save(model)
        with open(text, 'w', encoding='utf-8') as file:
            file.write('abcdefgh' * 99)

        def train(steps, **options):
            return genesis.train(model, text, steps=steps, batch=2, sequence=8, **options).loss
        train(4, checkpoint=os.path.join(folder, 'checkpoints'))
        self.assertEqual(train(8, checkpoint=os.path.join(folder, 'checkpoints')), train(8))


unittest.main(argv=sys.argv[:1])

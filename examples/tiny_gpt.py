"""Trains a small GPT on the characters of a text and lets it write: tiny_gpt.py TEXT [STEPS]

The network is written with ops. genesis-build qwen2 makes bigger ones, with a cache for their texts.
"""
import array
import random
import sys

import genesis

CONTEXT, WIDTH, HEADS, LAYERS, BATCH = 48, 64, 4, 2, 16
text = open(sys.argv[1], encoding='utf-8').read()[:1_000_000]
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 200
letters = sorted(set(text))
number_of = {letter: number for number, letter in enumerate(letters)}
rng = random.Random(1)


def buffer(code, numbers, *shape):
    return memoryview(array.array(code, numbers)).cast('B').cast(code, shape)


def initial(*shape):
    size = 1
    for n in shape:
        size *= n
    return buffer('f', (rng.gauss(0, 0.05) for _ in range(size)), *shape)


class Gpt:
    """Adds the network to an entry point. The first entry point makes the parameters, others read them."""
    made = set()

    def __init__(self, g):
        self.g = g

    def weight(self, name, *shape):
        if name in self.made:
            return self.g.state(name)
        self.made.add(name)
        return self.g.parameter(name, initial(*shape))

    def linear(self, name, x, inside, outside):
        return x.linear(self.weight(name, outside, inside))

    def block(self, name, x):
        h = x.rms_norm()
        q, k, v = (self.linear(f'{name}.{part}', h, WIDTH, WIDTH).reshape(shape=['batch', CONTEXT, HEADS, WIDTH // HEADS]) for part in 'qkv')
        x = x + self.linear(f'{name}.out', q.attention(k, v, causal=True).reshape(shape=['batch', CONTEXT, WIDTH]), WIDTH, WIDTH)
        return x + self.linear(f'{name}.down', self.linear(f'{name}.up', x.rms_norm(), WIDTH, 4 * WIDTH).gelu(), 4 * WIDTH, WIDTH)

    def logits(self):
        tokens = self.g.input('tokens', 'i64', ['batch', CONTEXT])
        x = tokens.embedding(self.weight('embedding', len(letters), WIDTH)) + self.weight('positions', CONTEXT, WIDTH)
        for i in range(LAYERS):
            x = self.block(f'layers.{i}', x)
        return self.linear('head', x.rms_norm(), WIDTH, len(letters))


def loss(g):
    return {'loss': Gpt(g).logits().cross_entropy(g.input('targets', 'i64', ['batch', CONTEXT]))}


session = genesis.build(loss=loss, forward=lambda g: {'logits': Gpt(g).logits()}).add_training('adamw,lr=3e-3,clip=1.0').session()
numbers = [number_of[letter] for letter in text]
for step in range(1, steps + 1):
    starts = [rng.randrange(len(numbers) - CONTEXT) for _ in range(BATCH)]
    batches = {name: buffer('q', (n for s in starts for n in numbers[s + shift:s + shift + CONTEXT]), BATCH, CONTEXT)
               for name, shift in (('tokens', 0), ('targets', 1))}
    outputs = session.run('train_step', **batches)
    if step % 20 == 0 or step == steps:
        print(f"step {step}: loss {float(outputs['loss']):.3f}")

written = [numbers[0]]
for _ in range(100):
    seen = written[-CONTEXT:]
    logits = session.run('forward', tokens=buffer('q', seen + [0] * (CONTEXT - len(seen)), 1, CONTEXT))['logits'].tolist()
    row = logits[(len(seen) - 1) * len(letters):len(seen) * len(letters)]
    written += rng.choices(range(len(letters)), [2.718 ** (2 * (x - max(row))) for x in row])
print(''.join(letters[n] for n in written))

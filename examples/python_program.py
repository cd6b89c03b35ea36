"""Trains a small model, runs it, and lets a language model write: python_program.py [MODEL]

Needs the package genesis; arrays of numpy, torch and others pass without a copy, and lists of numbers do, too.
"""
import array
import sys

import genesis


def loss(g):
    """mean((x * w + b - y)^2), which learns y = 3x + 1."""
    x, y = g.input('x', 'f32', ['n']), g.input('y', 'f32', ['n'])
    error = x * g.parameter('w', 0.0) + g.parameter('b', 0.0) - y
    return {'loss': (error * error).mean()}


def forward(g):
    return {'y': g.input('x', 'f32', ['n']) * g.state('w') + g.state('b')}


model = genesis.build(loss=loss, forward=forward).add_training('sgd,lr=0.1')
session = model.session()
x = array.array('f', [0, 1, 2, 3])
y = array.array('f', [1, 4, 7, 10])
for step in range(200):
    outputs = session.run('train_step', x=x, y=y)
print(f"loss {float(outputs['loss']):.4f}, w {float(session.state('w')):.3f}, b {float(session.state('b')):.3f}")
x[0] = 10  # a later run sees what is written in place
print([round(value, 2) for value in session.run(x=x)['y'].tolist()])

if len(sys.argv) > 1:
    lm = genesis.LM(sys.argv[1])
    for piece in lm.stream('Once upon a time', max_tokens=20, temperature=0):
        print(piece, end='', flush=True)
    print()

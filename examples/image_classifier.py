"""Trains a small network on a folder of pictures and writes image_classifier.genesis: image_classifier.py FOLDER [STEPS]

FOLDER has a folder for each class, with JPEG or PNG files: draw_shapes.py draws one. Afterwards
  genesis-run infer image_classifier.genesis --input x=PICTURE
names the class of a picture.
"""
import array
import os
import random
import sys

import genesis

folder = sys.argv[1]
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 100
SIZE, CLASSES = 32, len(os.listdir(folder))
rng = random.Random(1)


def weight(g, name, *shape):
    """The parameter of this name, which the first entry point makes, with random values."""
    if name in made:
        return g.state(name)
    made.add(name)
    fan_in = 1
    for n in shape[1:]:
        fan_in *= n
    numbers = array.array('f', (rng.gauss(0, (2 / fan_in) ** 0.5) for _ in range(fan_in * shape[0])))
    return g.parameter(name, memoryview(numbers).cast('B').cast('f', shape))


made = set()


def logits(g):
    x, channels = g.input('x', 'f32', ['batch', 3, SIZE, SIZE]), 3
    for i, width in enumerate((16, 32, 64)):
        x = x.convolution(weight(g, f'conv{i}', width, channels, 3, 3), pads_begin=[1, 1], pads_end=[1, 1], strides=[2, 2], dilations=[1, 1]).relu()
        channels = width
    return x.mean(axes=[2, 3]).linear(weight(g, 'head', CLASSES, channels))


def loss(g):
    y, target = logits(g), g.input('target', 'i64', ['batch'])
    return {'loss': y.cross_entropy(target), 'accuracy': y.argmax().eq(target).cast(dtype='f32').mean()}


def report(step):
    if step.step % 20 == 0:
        print(f'step {step.step}: loss {step.loss:.3f}')


genesis.build(loss=loss, forward=lambda g: {'logits': logits(g)}).save('untrained.genesis')
genesis.train('untrained.genesis', folder, optimizer='adamw,lr=3e-3', steps=steps, batch=16, output='image_classifier.genesis', on_step=report)

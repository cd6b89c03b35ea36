"""Fine-tunes an encoder to tell classes of texts apart: text_classifier.py ENCODER TEXTS [QUESTION...]

Each line of TEXTS is a class, a tab and a text. ENCODER is a BERT with a head, such as
  genesis-build bert --tokenizer TOKENIZER --set head=sequence_classification --set num_labels=2 -o encoder.genesis
or a folder of transformers with one. Writes text_classifier.genesis, and prints the class of each question.
"""
import array
import random
import sys

import genesis

path, file, *questions = sys.argv[1:]
EPOCHS, BATCH, LONGEST = 10, 8, 64
rows = [line.rstrip('\n').split('\t', 1) for line in open(file, encoding='utf-8') if '\t' in line]
classes = sorted({name for name, _ in rows})
tokenizer = genesis.Tokenizer(path)
model = genesis.load(path)
has_types = any(value['name'] == 'token_types' for value in model.entries['forward']['inputs'])
session = model.add_training('adamw,lr=1e-3,clip=1.0').session()


def buffer(numbers, *shape):
    return memoryview(array.array('q', numbers)).cast('B').cast('q', shape)


def inputs(texts):
    """The tokens of texts, padded to the same length."""
    tokens = [tokenizer.encode(text).tolist()[:LONGEST] for text in texts]
    longest = max(map(len, tokens))
    made = {'tokens': buffer((t for row in tokens for t in row + [0] * (longest - len(row))), len(tokens), longest),
            'lengths': buffer(map(len, tokens), len(tokens))}
    if has_types:  # all of a text is the first of a pair
        made['token_types'] = buffer([0] * (len(tokens) * longest), len(tokens), longest)
    return made


rng = random.Random(1)
for epoch in range(1, EPOCHS + 1):
    rng.shuffle(rows)
    losses = []
    for begin in range(0, len(rows), BATCH):
        part = rows[begin:begin + BATCH]
        targets = buffer((classes.index(name) for name, _ in part), len(part))
        losses.append(float(session.run('train_step', **inputs([text for _, text in part]), targets=targets)['loss']))
    print(f'epoch {epoch}: loss {sum(losses) / len(losses):.3f}')
session.save('text_classifier.genesis')

for question in questions:
    logits = session.run('forward', **inputs([question]))['logits'].tolist()
    print(f'{classes[logits.index(max(logits))]}: {question}')

"""Finds the lines of a text that come nearest to a question: embedding_search.py MODEL TEXT QUESTION

MODEL makes vectors of texts: genesis-build ~/all-MiniLM-L6-v2 -o minilm.genesis, or 'hf:sentence-transformers/all-MiniLM-L6-v2'.
"""
import sys

import genesis

path, file, question = sys.argv[1:]
lines = [line.strip() for line in open(file, encoding='utf-8') if line.strip()]
lm = genesis.LM(path)
vectors, asked = lm.embed(lines), lm.embed(question)


def nearest(g):
    """The five vectors with the greatest cosine."""
    features = vectors.shape[1]
    v, q = g.input('vectors', 'f32', ['lines', features]), g.input('question', 'f32', [1, features])
    cosines = (q @ v.permute(axes=[1, 0])) / (v.square().sum(axes=[1]) * q.square().sum()).sqrt()
    values, places = cosines.reshape(shape=['lines']).topk(k=min(5, len(lines)))
    return {'cosines': values, 'places': places}


found = genesis.build(forward=nearest).session().run(vectors=vectors, question=asked)
for cosine, place in zip(found['cosines'].tolist(), found['places'].tolist()):
    print(f'{cosine:.3f}  {lines[place]}')

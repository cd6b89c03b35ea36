"""Runs the cells of a notebook one after the other, without Jupyter: run_notebook.py NOTEBOOK"""
import json
import sys

cells = json.load(open(sys.argv[1], encoding='utf-8'))['cells']
names = {}
for number, cell in enumerate(cells, 1):
    if cell['cell_type'] == 'code':
        exec(compile(''.join(cell['source']), f'cell {number}', 'exec'), names)

#!/usr/bin/env python3
"""Opens exported programs of whole models of torchvision and transformers, and compares their outputs with torch's at two sizes of batch:

  check_models.py TOOLS [PATTERN]     TOOLS is build/tools; PATTERN (fnmatch) chooses models

Weights are random, and batch norms have seen smooth pictures, so that outputs differ. Prints the table of docs/exported-programs.md: the largest
difference of all outputs, as a share of the largest output.
"""
import fnmatch
import os
import subprocess
import sys
import tempfile
import warnings

import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F
from torchvision import models

warnings.filterwarnings('ignore')
BATCH = torch.export.Dim('batch', min=1, max=64)


def smooth(batch, size):
    return F.interpolate(torch.randn(batch, 3, 8, 8), size=(size, size), mode='bicubic')


class Outputs(nn.Module):
    """Returns the tensors that a model of transformers or torchvision returns, in a dictionary or alone."""
    def __init__(self, model, *names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, x):
        y = self.model(x)
        return y if not self.names else tuple(y[name] for name in self.names)


def torchvision_models():
    plain = ['alexnet', 'vgg11_bn', 'squeezenet1_1', 'densenet121', 'googlenet', 'resnet18', 'resnet50', 'resnext50_32x4d', 'wide_resnet50_2',
             'shufflenet_v2_x0_5', 'mobilenet_v2', 'mobilenet_v3_small', 'mobilenet_v3_large', 'mnasnet0_5', 'regnet_y_400mf', 'efficientnet_b0',
             'efficientnet_v2_s', 'convnext_tiny', 'vit_b_16', 'swin_t', 'swin_v2_t', 'maxvit_t']
    for name in plain:
        options = {'init_weights': True, 'aux_logits': False} if name == 'googlenet' else {}
        yield f'torchvision {name}', lambda name=name, options=options: getattr(models, name)(**options), 224
    yield 'torchvision inception_v3', lambda: models.inception_v3(init_weights=True, aux_logits=False), 299
    for name in ('fcn_resnet50', 'deeplabv3_mobilenet_v3_large', 'lraspp_mobilenet_v3_large'):
        yield (f'torchvision {name}',
               lambda name=name: Outputs(getattr(models.segmentation, name)(weights=None, weights_backbone=None), 'out'), 128)


def transformers_models():
    t = transformers
    small = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)
    yield 'transformers ViTModel', lambda: Outputs(t.ViTModel(t.ViTConfig(image_size=64, **small)), 'last_hidden_state'), 64
    yield ('transformers CLIPVisionModel',
           lambda: Outputs(t.CLIPVisionModel(t.CLIPVisionConfig(image_size=64, patch_size=16, **small)), 'last_hidden_state', 'pooler_output'), 64)
    yield ('transformers Dinov2Model',
           lambda: Outputs(t.Dinov2Model(t.Dinov2Config(image_size=56, patch_size=14, hidden_size=64, num_hidden_layers=2, num_attention_heads=4)),
                           'last_hidden_state'), 56)
    yield ('transformers SegformerForSemanticSegmentation',
           lambda: Outputs(t.SegformerForSemanticSegmentation(t.SegformerConfig(num_labels=5)), 'logits'), 64)
    yield ('transformers ConvNextV2Model',
           lambda: Outputs(t.ConvNextV2Model(t.ConvNextV2Config(hidden_sizes=[16, 32, 64, 96], depths=[1, 1, 2, 1])), 'last_hidden_state'), 64)
    yield ('transformers ResNetModel',
           lambda: Outputs(t.ResNetModel(t.ResNetConfig(hidden_sizes=[32, 64, 96, 128], depths=[1, 1, 1, 1])), 'last_hidden_state'), 64)
    yield ('transformers BeitModel',
           lambda: Outputs(t.BeitModel(t.BeitConfig(image_size=64, patch_size=16, **small)), 'last_hidden_state'), 64)


def check(tools, name, make, size):
    folder = tempfile.mkdtemp()
    path = lambda file: os.path.join(folder, file)
    torch.manual_seed(1)
    model = make()
    for module in model.modules():
        if isinstance(module, (nn.BatchNorm2d, nn.BatchNorm1d)):
            module.momentum = None
    with torch.no_grad():
        model.train()(smooth(4, size))
    model.eval()
    program = torch.export.export(model, (smooth(2, size),), dynamic_shapes=({0: BATCH},))
    torch.export.save(program, path('m.pt2'))
    subprocess.run([f'{tools}/genesis-build', path('m.pt2'), '-o', path('m.genesis'), '--quiet'], check=True, stdout=subprocess.DEVNULL)
    worst = 0
    for batch in (1, 3):
        x = smooth(batch, size)
        with torch.no_grad():
            expected = torch.utils._pytree.tree_leaves(model(x))
        save_file({'x': x.contiguous()}, path('x.safetensors'))
        subprocess.run([f'{tools}/genesis-run', 'infer', path('m.genesis'), '--input', path('x.safetensors'), '-o', path('y.safetensors'),
                        '--max-values', '1'], check=True, stdout=subprocess.DEVNULL)
        got = [tensor for _, tensor in sorted(load_file(path('y.safetensors')).items())]
        assert len(got) == len(expected)
        for a, b in zip(got, expected):
            worst = max(worst, ((a - b).abs().max() / b.abs().max()).item())
    subprocess.run(['rm', '-r', folder], check=True)
    return worst


def main():
    tools, pattern = sys.argv[1], (sys.argv[2:] or ['*'])[0]
    print('| program | largest difference |\n|---|---|')
    for name, make, size in [*torchvision_models(), *transformers_models()]:
        if not fnmatch.fnmatch(name, pattern):
            continue
        try:
            print(f'| {name} | {check(tools, name, make, size):.0e} |', flush=True)
        except Exception as error:
            print(f'| {name} | does not open: {type(error).__name__} {str(error)[:300]!r} |', flush=True)


main()

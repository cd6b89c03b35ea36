#!/usr/bin/env python3
"""Writes zoo.json: what torchvision 0.29 computes with small versions of the zoo's image models, at two sizes each.

  make_zoo.py                                   writes zoo.json beside itself
  make_zoo.py check TOOLS [PATTERN]             compares the whole models at two sizes with torchvision's in f64, through TOOLS/genesis-build
                                                --weights and TOOLS/genesis-run infer, beside torchvision's in f32; TOOLS is build/tools

Weights and pictures are formulas of their names and places (value()), which image_families_test.cpp has, too. `losses` are those of three
steps of SGD with a learning rate of 0.05.
"""
import copy
import fnmatch
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F
from torchvision import models

HERE = os.path.dirname(os.path.abspath(__file__))


def value(name, shape):
    """Numbers between -1 and 1."""
    seed = 2166136261
    for byte in name.encode():
        seed = (seed ^ byte) * 16777619 & 0xffffffff
    v = np.arange(int(np.prod(shape)), dtype=np.uint64) * np.uint64(2654435761) & np.uint64(0xffffffff)
    v ^= np.uint64(seed)
    for shift, factor in ((16, 0x7feb352d), (15, 0x846ca68b)):
        v = (v ^ v >> np.uint64(shift)) * np.uint64(factor) & np.uint64(0xffffffff)
    v ^= v >> np.uint64(16)
    return torch.from_numpy((v.astype(np.float64) / 2**31 - 1).astype(np.float32)).reshape(shape)


def fill(model):
    for name, tensor in list(model.named_parameters()) + list(model.named_buffers()):
        if not tensor.is_floating_point():
            continue
        u = value(name, tuple(tensor.shape))
        if '.dfl.' in name:
            u = torch.arange(16.0).reshape(u.shape)
            with torch.no_grad():
                tensor.copy_(u)
            continue
        if name.endswith('running_var'):
            u = 1 + 0.5 * u
        elif name.endswith('layer_scale') or (tensor.dim() == 1 and name.endswith('weight')):
            u = 1 + 0.3 * u
        elif tensor.dim() == 1:
            u = 0.1 * u
        else:
            u = u * (3 / (tensor.numel() / tensor.shape[0])) ** 0.5
        with torch.no_grad():
            tensor.copy_(u)
    return model


class DoubleConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.double_conv = nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(),
                                         nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU())

    def forward(self, x):
        return self.double_conv(x)


class Down(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), DoubleConv(i, o))

    def forward(self, x):
        return self.maxpool_conv(x)


class Up(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.up, self.conv = nn.ConvTranspose2d(i, i // 2, 2, stride=2), DoubleConv(i, o)

    def forward(self, x, left):
        return self.conv(torch.cat([left, self.up(x)], 1))


class Out(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.conv = nn.Conv2d(i, o, 1)

    def forward(self, x):
        return self.conv(x)


class Unet(nn.Module):
    def __init__(self, base, classes):
        super().__init__()
        self.inc, self.outc = DoubleConv(3, base), Out(base, classes)
        for i in range(4):
            setattr(self, f'down{i + 1}', Down(base << i, base << i + 1))
            setattr(self, f'up{i + 1}', Up(base << 4 - i, base << 3 - i))

    def forward(self, x):
        left = [self.inc(x)]
        for i in range(4):
            left.append(getattr(self, f'down{i + 1}')(left[-1]))
        y = left[-1]
        for i in range(4):
            y = getattr(self, f'up{i + 1}')(y, left[3 - i])
        return self.outc(y)


class Conv(nn.Module):
    def __init__(self, i, o, kernel=1, stride=1):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(i, o, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(o, 1e-3, 0.03)

    def forward(self, x):
        return F.silu(self.bn(self.conv(x)))


class Pair(nn.Module):
    def __init__(self, size, adds):
        super().__init__()
        self.cv1, self.cv2, self.adds = Conv(size, size, 3), Conv(size, size, 3), adds

    def forward(self, x):
        y = self.cv2(self.cv1(x))
        return x + y if self.adds else y


class Split(nn.Module):
    def __init__(self, i, o, blocks, adds):
        super().__init__()
        self.cv1, self.cv2 = Conv(i, o), Conv((2 + blocks) * (o // 2), o)
        self.m = nn.ModuleList(Pair(o // 2, adds) for _ in range(blocks))

    def forward(self, x):
        parts = list(self.cv1(x).chunk(2, 1))
        for pair in self.m:
            parts.append(pair(parts[-1]))
        return self.cv2(torch.cat(parts, 1))


class Pyramid(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.cv1, self.cv2 = Conv(size, size // 2), Conv(2 * size, size)

    def forward(self, x):
        parts = [self.cv1(x)]
        for _ in range(3):
            parts.append(F.max_pool2d(parts[-1], 5, 1, 2))
        return self.cv2(torch.cat(parts, 1))


class Bins(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(16, 1, 1, bias=False)


class Detector(nn.Module):
    def __init__(self, channels, classes):
        super().__init__()
        boxes, scores = max(16, channels[0] // 4, 64), max(channels[0], min(classes, 100))
        head = lambda i, hidden, o: nn.Sequential(Conv(i, hidden, 3), Conv(hidden, hidden, 3), nn.Conv2d(hidden, o, 1))
        self.cv2, self.cv3 = (nn.ModuleList(head(i, hidden, o) for i in channels) for hidden, o in ((boxes, 64), (scores, classes)))
        self.dfl = Bins()

    def forward(self, grids):
        results = []
        for level, x in enumerate(grids):
            height, width = x.shape[2:]
            y, x_ = torch.meshgrid(torch.arange(height) + 0.5, torch.arange(width) + 0.5, indexing='ij')
            centers = torch.stack([x_.flatten(), y.flatten()])
            bins = self.dfl.conv(self.cv2[level](x).flatten(2).unflatten(1, (4, 16)).softmax(2).transpose(1, 2))[:, 0]
            low, high = centers - bins[:, :2], centers + bins[:, 2:]
            results.append(torch.cat([(low + high) / 2 * (8 << level), (high - low) * (8 << level), self.cv3[level](x).flatten(2).sigmoid()], 1))
        return torch.cat(results, 2)


class Yolo(nn.Module):
    def __init__(self, sizes, classes):
        super().__init__()
        a, b, d, e, f = sizes
        none = nn.Identity
        self.model = nn.ModuleList([Conv(3, a, 3, 2), Conv(a, b, 3, 2), Split(b, b, 1, True), Conv(b, d, 3, 2), Split(d, d, 2, True), Conv(d, e, 3, 2),
                                    Split(e, e, 2, True), Conv(e, f, 3, 2), Split(f, f, 1, True), Pyramid(f), none(), none(), Split(f + e, e, 1, False),
                                    none(), none(), Split(e + d, d, 1, False), Conv(d, d, 3, 2), none(), Split(d + e, e, 1, False), Conv(e, e, 3, 2),
                                    none(), Split(e + f, f, 1, False), Detector([d, e, f], classes)])

    def forward(self, x):
        m, y = self.model, []
        for i in range(10):
            x = m[i](x)
            y.append(x)
        twice = lambda x: F.interpolate(x, scale_factor=2)
        x12 = m[12](torch.cat([twice(x), y[6]], 1))
        x15 = m[15](torch.cat([twice(x12), y[4]], 1))
        x18 = m[18](torch.cat([m[16](x15), x12], 1))
        return m[22]([x15, x18, m[21](torch.cat([m[19](x18), x], 1))])


def efficientnet(width, depth, classes):
    from torchvision.models.efficientnet import EfficientNet, _efficientnet_conf
    settings, last = _efficientnet_conf('efficientnet_b0', width_mult=width, depth_mult=depth)
    return EfficientNet(settings, 0.0, stochastic_depth_prob=0.0, last_channel=last, num_classes=classes)


def convnext(classes):
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt
    return ConvNeXt([CNBlockConfig(8, 16, 1), CNBlockConfig(16, 32, 2), CNBlockConfig(32, None, 1)], num_classes=classes)


def small():
    from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet
    def row(sizes, make, **settings):
        return {'sizes': sizes, 'make': make, 'settings': dict({'num_classes': 10}, **settings)}
    layers = [1, 1, 1, 1]
    return {
        'resnet18': row((32, 48), lambda s: ResNet(BasicBlock, layers, 10), layers='1,1,1,1'),
        'resnet50': row((32, 40), lambda s: ResNet(Bottleneck, layers, 10, groups=2, width_per_group=16), layers='1,1,1,1', groups=2,
                        width_per_group=16),
        'mobilenet_v3_small': row((64, 48), lambda s: models.mobilenet_v3_small(num_classes=10, width_mult=0.25, dropout=0.0),
                                  width_mult=0.25, dropout=0),
        'mobilenet_v3_large': row((64, 40), lambda s: models.mobilenet_v3_large(num_classes=10, width_mult=0.25, dropout=0.0),
                                  width_mult=0.25, dropout=0),
        'efficientnet_b0': row((64, 40), lambda s: efficientnet(0.25, 0.5, 10), width_mult=0.25, depth_mult=0.5, dropout=0),
        'convnext_tiny': row((48, 40), lambda s: convnext(10), channels='8,16,32', layers='1,2,1'),
        'vit_b_16': row((32, 16), lambda s: models.VisionTransformer(s, 8, 2, 2, 16, 32, num_classes=10), patch_size=8, num_layers=2,
                        num_heads=2, hidden_dim=16, mlp_dim=32),
        'swin_t': row((40, 36), lambda s: models.SwinTransformer([4, 4], 8, [2, 2], [2, 4], [3, 3], stochastic_depth_prob=0.0,
                                                                 num_classes=10),
                      embed_dim=8, depths='2,2', num_heads='2,4', window_size=3),
        'yolo_n': row((64, 96), lambda s: Yolo((8, 8, 16, 32, 64), 10), width=0.25),
        'unet': row((32, 16), lambda s: Unet(2, 10), base_channels=2),
    }


def losses_of(model, size):
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for step in range(3):
        x = value(f'x{step}', (4, 3, size, size))
        y = model(x)
        target = torch.arange(y.shape[0] * y[0, 0].numel()).reshape(y.shape[:1] + y.shape[2:]) * 7 % 10
        loss = F.cross_entropy(y, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def write():
    result = {}
    for name, row in small().items():
        cases = []
        for batch, size in zip((1, 3), row['sizes']):
            torch.manual_seed(0)
            model = fill(row['make'](size)).eval()
            with torch.no_grad():
                y = model(value('x', (batch, 3, size, size)))
            cases.append({'size': size, 'batch': batch, 'logits': [round(v, 7) for v in y.flatten().tolist()[:60]]})
        settings = {key: str(setting) for key, setting in row['settings'].items()}
        result[name] = {'settings': settings, 'cases': cases, 'losses': losses_of(model, size) if name != 'yolo_n' else []}
        print(name, cases[0]['logits'][:3], result[name]['losses'])
    with open(os.path.join(HERE, 'zoo.json'), 'w') as file:
        file.write(json.dumps(result, indent=1).replace('\n    ', ' ') + '\n')


def check(tools):
    """The whole models, with torchvision's initial weights and batch norms that have seen pictures."""
    names = ['resnet18', 'resnet34', 'resnet50', 'resnet101', 'resnet152', 'mobilenet_v3_small', 'mobilenet_v3_large',
             'efficientnet_b0', 'convnext_tiny', 'vit_b_16', 'swin_t']
    folder = tempfile.mkdtemp()
    path = lambda name: os.path.join(folder, name)
    for name in fnmatch.filter(names, (sys.argv[3:] or ['*'])[0]):
        for batch, size in ((1, 224), (2, 256 if name != 'vit_b_16' else 192)):
            torch.manual_seed(1)
            more = {'image_size': size} if name == 'vit_b_16' else {}
            model = getattr(models, name)(**more)
            smooth = F.interpolate(value('smooth', (4, 3, 8, 8)), size=(size, size), mode='bicubic')
            x = F.interpolate(value('x', (batch, 3, 8, 8)), size=(size, size), mode='bicubic')
            for module in model.modules():
                if isinstance(module, nn.BatchNorm2d):
                    module.momentum = None
            with torch.no_grad():
                if name == 'vit_b_16':
                    nn.init.normal_(model.heads.head.weight, std=0.02)
                model.train()(smooth)
                y = model.eval()(x)
            with torch.no_grad():
                wide = copy.deepcopy(model).double()(x.double())
            save_file(model.state_dict(), path('w.safetensors'))
            save_file({'x': x.contiguous()}, path('x.safetensors'))
            subprocess.run([f'{tools}/genesis-build', name, '--set', f'image_size={size}', '--weights', path('w.safetensors'), '-o',
                            path('m.genesis'), '--quiet'], check=True, stdout=subprocess.DEVNULL)
            subprocess.run([f'{tools}/genesis-run', 'infer', path('m.genesis'), '--input', path('x.safetensors'), '-o',
                            path('y.safetensors')], check=True, stdout=subprocess.DEVNULL)
            got = load_file(path('y.safetensors'))['logits']
            difference, of_torch = (((z - wide).abs().max() / wide.abs().max()).item() for z in (got, y))
            print(f'| {name} | {batch} x {size} | {difference:.0e} | {of_torch:.0e} |', flush=True)
            assert difference < max(1e-4, 2 * of_torch)


if __name__ == '__main__':
    check(sys.argv[2]) if sys.argv[1:2] == ['check'] else write()

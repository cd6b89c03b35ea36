#!/usr/bin/env python3
"""Makes the exported programs in this folder, with inputs and torch's outputs, by PyTorch 2.15 and transformers 5.24:

  make_programs.py [NAME...]   writes NAME.pt2 and NAME.safetensors beside itself, for all programs or those that are named

NAME.safetensors holds, for each of the sizes k, the inputs `k.in.NAME` and the outputs `k.out.NAME`. With a
loss, it also holds a `target` for the inputs of size 0 and the `losses` of five steps of SGD with a learning rate of 0.1. Stack traces are left out of the
programs, which they make three times as long.
"""
import io
import json
import os
import struct
import sys
import zipfile

import torch
import torchvision
import transformers
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
BATCH, TIME = torch.export.Dim('batch', max=64), torch.export.Dim('time', max=60)


class Mlp(nn.Module):
    """A buffer that the program changes, a tied weight, named outputs."""
    def __init__(self):
        super().__init__()
        self.first, self.second, self.norm = nn.Linear(8, 16), nn.Linear(16, 8), nn.LayerNorm(16)
        self.again = nn.Linear(8, 16, bias=False)
        self.again.weight = self.first.weight
        self.register_buffer('calls', torch.zeros(3))

    def forward(self, x):
        self.calls.add_(1)
        y = self.second(self.norm(F.gelu(self.first(x)) + self.again(x)))
        return {'y': y, 'more': (x.mean(-1), self.calls.clone())}


class Shapes(nn.Module):
    """Views, indices and reductions, with a symbolic batch."""
    def forward(self, x, i):
        parts = x.unflatten(-1, (3, 4)).permute(0, 2, 1).contiguous()
        a, b, c = parts.split([1, 1, 2], 1)
        picked = x[:, i].flatten(1).repeat_interleave(2, 1) + torch.arange(8) * 0.1
        total = torch.cat([a, b, c[:, 1:]], 1).std(1)
        values, places = picked.topk(3, -1)
        masked = torch.where(x > 0, x, x.abs().sqrt()).masked_fill(x < -1, -2.5)
        padded = F.pad(masked, (1, 2), value=0.5)[:, ::2]
        return (total, values, places, padded.cumsum(-1), x.T.roll(1, 0), x.argmax(-1), (x * 3).round().to(torch.int32) // 2,
                torch.einsum('bi,bj->bij', x, x).amax(-1), torch.linspace(0, 1, 5) + x.softmax(-1)[:, :5], x[:, -3:].flip(-1),
                *x.tensor_split((5, -9, 20), 1), i.to(torch.int8) ^ i[0, 1], i[1, 0] & i.to(torch.int16))


class Pictures(nn.Module):
    """A small ResNet, which the tutorial of pictures trains."""
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 7, 4, 3, bias=False), nn.BatchNorm2d(8)
        self.layer1 = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8))
        self.fc = nn.Linear(8, 3)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        return self.fc(F.relu(x + self.layer1(x)).mean((2, 3)))


class Reader(nn.Module):
    """Reads a line of text: probabilities of characters along the width."""
    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(1, 12, 3, (4, 2), 1), nn.Linear(24, 7)

    def forward(self, x):
        return self.head(F.gelu(self.conv(x)).flatten(1, 2).transpose(1, 2)).softmax(-1)


def ctc(probabilities, target):
    lengths = (target >= 0).sum(1)
    time = torch.full((probabilities.shape[0],), probabilities.shape[1])
    return F.ctc_loss(probabilities.log().transpose(0, 1), target.clamp(min=0), time, lengths)


class Pixels(nn.Module):
    """Classes of pixels."""
    def __init__(self):
        super().__init__()
        self.conv, self.up = nn.Conv2d(3, 6, 3, 2, 1), nn.ConvTranspose2d(6, 4, 2, 2)

    def forward(self, x):
        return self.up(F.relu(self.conv(x)))


class Convolutions(nn.Module):
    """Strides, paddings, dilations, groups, pools and norms."""
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.depthwise = nn.Conv2d(8, 8, (3, 2), padding=(1, 0), groups=8, dilation=(1, 2))
        self.grouped = nn.Conv2d(8, 12, 1, groups=4)
        self.norms = nn.GroupNorm(3, 12)
        self.line = nn.Conv1d(12, 6, 4, stride=3, padding=2)
        with torch.no_grad():
            self.norm.running_mean.uniform_(-1, 1)
            self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x):
        y = F.max_pool2d(F.relu(self.norm(self.stem(x))), 3, 2, 1, ceil_mode=True)
        y = self.norms(self.grouped(F.silu(self.depthwise(y))))
        z = self.line(y.flatten(2))
        return (y, z, F.avg_pool2d(y, 2, 1, 1), F.avg_pool2d(y, 2, 1, 1, count_include_pad=False), F.adaptive_avg_pool2d(x, (3, 1)),
                F.pixel_shuffle(y, 2))


class Images(nn.Module):
    """Resizing, sampling at places, padding by what is there, and functions of elements that are composed."""
    def forward(self, x, grid):
        y = torch.cat([F.interpolate(x, scale_factor=2.0, mode='nearest').flatten(1), F.interpolate(x, (5, 9), mode='nearest-exact').flatten(1),
                       F.interpolate(x, (9, 4), mode='bilinear').flatten(1), F.interpolate(x, scale_factor=1.7, mode='bilinear').flatten(1),
                       F.interpolate(x, (11, 13), mode='bilinear', align_corners=True).flatten(1),
                       F.interpolate(x, (4, 9), mode='bicubic').flatten(1), F.interpolate(x, (4, 3), mode='bilinear', antialias=True).flatten(1)], 1)
        places = torch.cat([F.grid_sample(x, grid, m, p, align_corners=a).flatten(1) for m, p, a in (
            ('bilinear', 'zeros', False), ('bilinear', 'border', True), ('nearest', 'zeros', False), ('bicubic', 'reflection', False))], 1)
        padded = F.pad(x, (2, 1, 0, 3), mode='reflect').flatten(1) + F.pad(x, (2, 1, 0, 3), mode='replicate').flatten(1)
        mixed = F.pixel_unshuffle(F.channel_shuffle(x.repeat(1, 2, 1, 1)[:, :, :6, :6], 2), 3)
        z = grid.flatten(1)
        return (y, places, padded, mixed, torch.asinh(z * 3) + torch.acosh(z.abs() + 1.5) + torch.atanh(z * 0.9) + torch.log2(z.abs() + 1),
                torch.fmod(z * 5, 0.7) + torch.trunc(z * 4) + torch.log10(z.abs() + 1) + torch.exp2(z) + F.softsign(z) + F.tanhshrink(z),
                torch.lerp(z, z * 2, 0.3) + torch.addcmul(z, z, z, value=0.5) + torch.addcdiv(z, z, z.abs() + 1))


class Recurrent(nn.Module):
    """Layers of all cells: on top of each other, in both directions, one step alone."""
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(5, 4, 2, batch_first=True, bidirectional=True)
        self.gru, self.rnn = nn.GRU(8, 3, bias=False), nn.RNN(3, 3, nonlinearity='relu')
        self.cell = nn.GRUCell(3, 2)

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        z, last = self.gru(y.transpose(0, 1))
        w, _ = self.rnn(z)
        return w, h, c, last, self.cell(w[-1])


class Writes(nn.Module):
    """Writes over parts of tensors that others share: slices, places, fills, and views that see them."""
    def __init__(self):
        super().__init__()
        self.register_buffer('kept', torch.zeros(4, 3))

    def forward(self, x, i):
        mask = x.new_zeros((6, 8))
        for k, rows in enumerate((slice(0, -4), slice(-4, -2), slice(-2, None))):
            for n, columns in enumerate((slice(0, 3), slice(3, None))):
                mask[rows, columns] = 2 * k + n
        y = x.clone()
        half, other = y[:, :4], y[:, 2:6]
        half[:, 1::2] = -1.0
        other.mul_(2)
        turned = y.view(-1, 4, 2).swapaxes(1, 2)
        turned[:, 0].add_(other.sum(1, keepdim=True))
        y[:, i] = 7.0
        y[y > 6.5] = 0.25
        self.kept[1:3].copy_(x[:2, :3])
        a, b = y.clone().chunk(2, 1)
        a.relu_()
        return mask.zero_().fill_(3)[:2] + mask[:2], y, half, turned.sum(1), a + b, self.kept.clone()


class Regions(nn.Module):
    """Regions of pictures, taps at offsets, standardized weights, windows as columns, repetitions by sizes, bits, writes behind copies."""
    def __init__(self):
        super().__init__()
        self.conv, self.offsets = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.Conv2d(8, 36, 3, padding=1)
        self.masks, self.deformed = nn.Conv2d(8, 18, 1), torchvision.ops.DeformConv2d(8, 6, 3, padding=1, groups=2)

    def forward(self, x, boxes, i):
        weight = F.batch_norm(self.conv.weight.view(1, 8, -1), None, None, training=True, momentum=0.0).view_as(self.conv.weight)
        y = F.conv2d(x, weight, padding=1)
        z = self.deformed(y, self.offsets(y).tanh() * 0.3 + 1.4, self.masks(y).sigmoid())  # no place crosses a pixel in training
        parts = torchvision.ops.roi_align(z, boxes, (2, 3), 0.5, 2, True) + torchvision.ops.roi_align(z, boxes, (2, 3), 1.0, 1)
        line = y.mean(2).unsqueeze(-1)
        turned = x.transpose(2, 3).reshape(x.shape[0], -1)
        turned[:, 1:3] = 5.0
        again = x.permute(1, 0, 2, 3).contiguous()
        again.mul_(2)
        return (parts, F.unfold(line, (3, 1), padding=(1, 0)), i.unsqueeze(0).repeat(x.shape[0], 1), turned, again + x.permute(1, 0, 2, 3),
                (i & 12) | (i ^ 5), ~i, i.to(torch.int32) & -4, sum(torch.meshgrid(i[:2], i[2:5], indexing='xy')),
                torch.cat([torch.zeros(0), x.tensor_split((1, 2), 1)[1].tile(2, 1)], 1), torch.arange(64)[-x.shape[0]:] * 2,
                F.avg_pool2d(x, 40, ceil_mode=True), torch.outer(i[:3], i[3:]))


def regions_inputs(b, t):
    corners = torch.rand(t, 2) * 5
    return {'x': torch.randn(b, 3, 8, 9), 'boxes': torch.cat([torch.randint(0, b, (t, 1)).float(), corners, corners + torch.rand(t, 2) * 9], 1),
            'i': torch.randint(-100, 100, (7,))}


def qwen2():
    config = transformers.Qwen2Config(vocab_size=32, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
                                      num_key_value_heads=1, max_position_embeddings=64)
    return transformers.Qwen2ForCausalLM(config)


class Logits(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        return self.model(input_ids=tokens, use_cache=False).logits


def write_aligned(archive, name, content):
    """As PyTorch does: the content begins at a multiple of 64 bytes, behind a field of padding."""
    info = zipfile.ZipInfo(name)
    padding = -(archive.fp.tell() + 30 + len(name) + 4) % 64
    info.extra = struct.pack('<HH', 0x4246, padding) + bytes(padding)
    archive.writestr(info, content)


def without_traces(data):
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(result, 'w', zipfile.ZIP_STORED) as new:
        for entry in old.namelist():
            content = old.read(entry)
            if entry.endswith('models/model.json'):
                program = json.loads(content)
                for node in program['graph_module']['graph']['nodes']:
                    node['metadata'] = {key: value for key, value in node['metadata'].items() if key == 'nn_module_stack'}
                content = json.dumps(program, separators=(',', ':')).encode()
            write_aligned(new, entry, content)
    return result.getvalue()


def losses_of_training(program, given, target, loss):
    model = program.module()
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    losses = []
    for _ in range(5):
        value = loss(torch.utils._pytree.tree_leaves(model(*given.values()))[0], target)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return torch.tensor(losses)


def make(name, model, inputs, shapes, loss=None, target=None):
    """`inputs` makes the inputs by name for a batch and a length; `target` a target for the first output."""
    if sys.argv[1:] and name not in sys.argv[1:]:
        return
    torch.manual_seed(len(name))
    model = model.eval()
    example = inputs(2, 9)
    program = torch.export.export(model, tuple(example.values()), dynamic_shapes=shapes, strict=False)
    data = io.BytesIO()
    torch.export.save(program, data)
    with open(f'{HERE}/{name}.pt2', 'wb') as file:
        file.write(without_traces(data.getvalue()))
    tensors = {}
    for k, (batch, time) in enumerate(((2, 9), (3, 5))):
        given = inputs(batch, time)
        with torch.no_grad():
            outputs = torch.utils._pytree.tree_leaves(program.module()(*given.values()))
        if loss and k == 0:
            tensors['target'] = target(outputs[0])
            tensors['losses'] = losses_of_training(torch.export.load(f'{HERE}/{name}.pt2'), given, tensors['target'], loss)
        tensors |= {f'{k}.in.{key}': value.contiguous() for key, value in given.items()}
        tensors |= {f'{k}.out.{i:02}': value.contiguous() for i, value in enumerate(outputs)}
    save_file(tensors, f'{HERE}/{name}.safetensors')


if __name__ == '__main__':
    torch.manual_seed(1)
    make('mlp', Mlp(), lambda b, t: {'x': torch.randn(b, 8)}, ({0: BATCH},))
    make('shapes', Shapes(), lambda b, t: {'x': torch.randn(b, 12), 'i': torch.randint(-12, 12, (2, 2))}, ({0: BATCH}, None))
    make('convolutions', Convolutions(), lambda b, t: {'x': torch.randn(b, 3, 19, 17)}, ({0: BATCH},), F.mse_loss, torch.randn_like)
    make('images', Images(), lambda b, t: {'x': torch.randn(b, 2, 6, 7), 'grid': torch.rand(b, 4, 3, 2) * 2 - 1}, ({0: BATCH}, {0: BATCH}))
    make('recurrent', Recurrent(), lambda b, t: {'x': torch.randn(b, 7, 5)}, ({0: BATCH},), F.mse_loss, torch.randn_like)
    make('writes', Writes(), lambda b, t: {'x': torch.randn(b, 8), 'i': torch.tensor([1, -2])}, ({0: BATCH}, None))
    make('regions', Regions(), regions_inputs, ({0: BATCH}, {0: TIME}, None), F.mse_loss, torch.randn_like)
    make('qwen2', Logits(qwen2()), lambda b, t: {'tokens': torch.randint(0, 32, (b, t))}, ({0: BATCH, 1: TIME},),
         lambda y, target: F.cross_entropy(y.flatten(0, 1), target.flatten()), lambda y: torch.randint(0, 32, y.shape[:2]))
    make('pictures', Pictures(), lambda b, t: {'x': torch.randn(b, 3, 32, 32)}, ({0: BATCH},), F.cross_entropy, lambda y: torch.arange(len(y)))
    make('reader', Reader(), lambda b, t: {'x': torch.randn(b, 1, 8, 18)}, ({0: BATCH},), ctc,
         lambda y: torch.tensor([[3, 3, 1, 5], [2, 6, -100, -100]]))
    make('pixels', Pixels(), lambda b, t: {'x': torch.randn(b, 3, 8, 12)}, ({0: BATCH},), F.cross_entropy,
         lambda y: torch.arange(y[:, 0].numel()).reshape(y[:, 0].shape) * 3 % 4)

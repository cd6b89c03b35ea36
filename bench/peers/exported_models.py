"""Writes the models that onnxruntime_models.py times as ONNX files: torchvision's, transformers' and a detector of YOLOv8n's
shape with random weights, and those of the wheels rapidocr-onnxruntime and silero-vad, with the sizes of their inputs fixed.

Needs torch, torchvision, transformers and onnx; models of wheels that are not there are left out.
"""
import zipfile

import onnx
import torch
import torchvision
import transformers
from torch import nn
from transformers.models.whisper.modeling_whisper import WhisperEncoder

WHEELS = {
    "ppocr_det": ("rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 640, 640)}),
    "ppocr_rec": ("rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 320)}),
    "silero": ("silero_vad/data/silero_vad_openvino_16k.onnx", {}),
}


class Conv(nn.Sequential):
    def __init__(self, inputs, outputs, window=1, stride=1):
        super().__init__(nn.Conv2d(inputs, outputs, window, stride, window // 2, bias=False), nn.BatchNorm2d(outputs), nn.SiLU())


class Bottleneck(nn.Sequential):
    def __init__(self, width, adds):
        super().__init__(Conv(width, width, 3), Conv(width, width, 3))
        self.adds = adds

    def forward(self, x):
        return x + super().forward(x) if self.adds else super().forward(x)


class C2f(nn.Module):
    def __init__(self, inputs, outputs, blocks, adds=True):
        super().__init__()
        half = outputs // 2
        self.first, self.last = Conv(inputs, outputs), Conv((2 + blocks) * half, outputs)
        self.blocks = nn.ModuleList(Bottleneck(half, adds) for _ in range(blocks))

    def forward(self, x):
        parts = list(self.first(x).chunk(2, 1))
        for block in self.blocks:
            parts.append(block(parts[-1]))
        return self.last(torch.cat(parts, 1))


class Pools(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.last, self.pool = Conv(width, width // 2), Conv(2 * width, width), nn.MaxPool2d(5, 1, 2)

    def forward(self, x):
        parts = [self.first(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.last(torch.cat(parts, 1))


def heads(middle, outputs):
    return nn.ModuleList(nn.Sequential(Conv(c, middle, 3), Conv(middle, middle, 3), nn.Conv2d(middle, outputs, 1))
                         for c in (64, 128, 256))


class Detector(nn.Module):
    """YOLOv8n's network: a backbone, two paths between scales, boxes as distributions of 16 distances, 80 classes."""

    def __init__(self):
        super().__init__()
        self.eighth = nn.Sequential(Conv(3, 16, 3, 2), Conv(16, 32, 3, 2), C2f(32, 32, 1), Conv(32, 64, 3, 2), C2f(64, 64, 2))
        self.sixteenth = nn.Sequential(Conv(64, 128, 3, 2), C2f(128, 128, 2))
        self.last = nn.Sequential(Conv(128, 256, 3, 2), C2f(256, 256, 1), Pools(256))
        self.up, self.down = nn.Upsample(scale_factor=2), nn.ModuleList([Conv(64, 64, 3, 2), Conv(128, 128, 3, 2)])
        self.mixed = nn.ModuleList(C2f(i, o, 1, False) for i, o in ((384, 128), (192, 64), (192, 128), (384, 256)))
        self.boxes, self.classes = heads(64, 64), heads(80, 80)

    def forward(self, x):
        a = self.eighth(x)
        b = self.sixteenth(a)
        c = self.last(b)
        middle = self.mixed[0](torch.cat([self.up(c), b], 1))
        first = self.mixed[1](torch.cat([self.up(middle), a], 1))
        second = self.mixed[2](torch.cat([self.down[0](first), middle], 1))
        scales = (first, second, self.mixed[3](torch.cat([self.down[1](second), c], 1)))
        boxes, classes = (torch.cat([head(s).flatten(2) for head, s in zip(part, scales)], 2)
                          for part in (self.boxes, self.classes))
        parts = boxes.view(len(x), 4, 16, -1).softmax(2) * torch.arange(16.0).view(1, 1, 16, 1)
        return torch.cat([parts.sum(2), classes.sigmoid()], 1)


class SpeechEncoder(nn.Module):
    """Whisper-tiny's encoder."""

    def __init__(self):
        super().__init__()
        self.encoder = WhisperEncoder(transformers.WhisperConfig(
            d_model=384, encoder_layers=4, encoder_attention_heads=6, encoder_ffn_dim=1536, decoder_layers=1))

    def forward(self, x):
        return self.encoder(x).last_hidden_state


def made_models():
    picture = (torch.rand(1, 3, 224, 224),)
    for name in ("resnet50", "mobilenet_v3_large", "vit_b_16"):
        yield name, lambda name=name: torchvision.models.get_model(name, weights=None), picture
    config = transformers.BertConfig(return_dict=False)
    yield "bert_base", lambda: transformers.BertModel(config, add_pooling_layer=False), (torch.randint(0, 30000, (1, 128)),)
    yield "yolov8n", Detector, (torch.rand(1, 3, 640, 640),)
    yield "whisper_tiny_encoder", SpeechEncoder, (torch.randn(1, 80, 3000),)


def with_numbers(model):
    """Gives a parameter that begins as zeros, such as a head, random numbers, so that results differ."""
    for parameter in model.parameters():
        if not parameter.any():
            nn.init.normal_(parameter, std=0.02)
    return model.eval()


def with_sizes(model, sizes):
    for i in model.graph.input:
        for dim, size in zip(i.type.tensor_type.shape.dim, sizes.get(i.name, ())):
            dim.dim_value = size
    return model


def write_models(folder, wheels):
    """Writes the models that are not in `folder` yet and returns their paths. `wheels` has files *.whl; None: no models of them."""
    torch.manual_seed(0)
    paths = []
    for name, make, inputs in made_models():
        paths.append(folder / f"{name}.onnx")
        if not paths[-1].exists():
            torch.onnx.export(with_numbers(make()), inputs, str(paths[-1]), dynamo=True, external_data=False, verbose=False)
    for wheel in sorted(wheels.glob("*.whl")) if wheels else []:
        with zipfile.ZipFile(wheel) as opened:
            for name, (member, sizes) in WHEELS.items():
                if member in opened.namelist():
                    paths.append(folder / f"{name}.onnx")
                    paths[-1].write_bytes(with_sizes(onnx.load_from_string(opened.read(member)), sizes).SerializeToString())
    return paths

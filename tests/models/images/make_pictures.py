#!/usr/bin/env python3
"""Makes the pictures in this folder and the bytes that Pillow 13 and torchvision 0.29 make of them (expected.safetensors):

  make_pictures.py

NAME is the picture NAME, upright, as RGB [height, width, 3]; `resized.FILTER.HEIGHTxWIDTH` is photo.jpg in another size; `part` a part of it,
resized; `input` is what torchvision's classification preset makes of photo.jpg, resized to 32 and cropped to 28.
"""
import os

import numpy as np
import torch
from PIL import Image, ImageOps
from safetensors.torch import save_file
from torchvision import transforms

HERE = os.path.dirname(os.path.abspath(__file__))


def photo(width=46, height=30):
    y, x = np.mgrid[0:height, 0:width]
    waves = [127 + 120 * np.sin(x / 5 + k) * np.cos(y / (3 + k)) for k in range(3)]
    return Image.fromarray(np.stack(waves, -1).astype(np.uint8), 'RGB')


def save(name, picture, **options):
    picture.save(os.path.join(HERE, name), **options)


def main():
    color = photo()
    save('photo.jpg', color, quality=90)
    save('progressive.jpg', color, quality=80, progressive=True, subsampling=2)
    save('gray.jpg', color.convert('L'))
    save('cmyk.jpg', color.convert('CMYK'))
    exif = Image.Exif()
    exif[0x112] = 6
    save('turned.jpg', color, quality=90, exif=exif)
    save('color.png', color)
    alpha = color.copy()
    alpha.putalpha(color.convert('L'))
    save('alpha.png', alpha)
    save('gray_alpha.png', alpha.convert('LA'))
    save('palette.png', color.quantize(16), transparency=3)
    save('bilevel.png', color.convert('1'))
    save('four_grays.png', color.convert('L').quantize(4), bits=2)
    exif[0x112] = 7
    save('turned.png', color, exif=exif)
    wide = np.asarray(color.convert('L')).astype(np.uint16) * 256 + 17
    save('gray16.png', Image.fromarray(wide))
    tensors = {}
    for name in sorted(os.listdir(HERE)):
        if name.endswith(('.jpg', '.png')):
            picture = ImageOps.exif_transpose(Image.open(os.path.join(HERE, name)))
            if name == 'gray16.png':
                picture = Image.fromarray((np.asarray(picture) >> 8).astype(np.uint8))
            tensors[name] = torch.from_numpy(np.array(picture.convert('RGB')))
    source = Image.open(os.path.join(HERE, 'photo.jpg'))
    for name in ('bilinear', 'bicubic'):
        for height, width in ((17, 11), (64, 80), (30, 20), (1, 1)):
            resized = source.resize((width, height), getattr(Image.Resampling, name.upper()))
            tensors[f'resized.{name}.{height}x{width}'] = torch.from_numpy(np.array(resized))
    tensors['part'] = torch.from_numpy(np.array(source.crop((5, 3, 38, 20)).resize((16, 24), Image.Resampling.BILINEAR)))
    preset = transforms.Compose([transforms.Resize(32), transforms.CenterCrop(28), transforms.ToTensor(),
                                 transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])
    tensors['input'] = preset(source)[None]
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, os.path.join(HERE, 'expected.safetensors'))


main()

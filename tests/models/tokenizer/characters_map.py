"""Builds the "precompiled_charsmap" of SentencePiece from a mapping of texts: a double-array trie (Darts-clone) whose values are
offsets of texts that each end with a zero byte. Used by the scripts that make fixtures, and by filter_tables.py."""
import base64
import struct


def trie_of(mapping):
    """Returns nested dictionaries by byte; the value of a key is at None."""
    root = {}
    for key, value in mapping.items():
        node = root
        for byte in key.encode():
            node = node.setdefault(byte, {})
        node[None] = value
    return root


class DoubleArray:
    def __init__(self):
        self.units, self.first_free = [0] * 256, 1
        self.taken = {0}

    def base_for(self, at, labels):
        """Returns a base whose cells base ^ label are free."""
        base = max(1, self.first_free)
        while any(base ^ label in self.taken for label in labels) or at ^ base >= 1 << 21:
            base += 1
        return base

    def place(self, at, node, label):
        labels = [0 if byte is None else byte for byte in node]
        base = self.base_for(at, labels)
        cells = [base ^ one for one in labels]
        self.taken.update(cells)
        while self.first_free in self.taken:
            self.first_free += 1
        if max(cells) >= len(self.units):
            self.units += [0] * (max(cells) + 256 - len(self.units))
        self.units[at] = (at ^ base) << 10 | (256 if None in node else 0) | label
        for byte, child in node.items():
            if byte is None:
                self.units[base] = 1 << 31 | child
            else:
                self.place(base ^ byte, child, byte)


def charsmap_bytes(mapping):
    blob, offsets = b"", {}
    for value in mapping.values():
        if value not in offsets:
            offsets[value] = len(blob)
            blob += value.encode() + b"\0"
    array = DoubleArray()
    array.place(0, trie_of({key: offsets[value] for key, value in mapping.items()}), 0)
    units = struct.pack(f"<{len(array.units)}I", *array.units)
    return struct.pack("<I", len(units)) + units + blob


def charsmap_text(mapping):
    return base64.b64encode(charsmap_bytes(mapping)).decode()
